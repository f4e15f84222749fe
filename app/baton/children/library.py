"""litellm, kept on a short leash: it writes requests and reads answers, and knows no key.

It is given the relay's address instead of a provider's. It would read `.env` files, fetch prices,
retry, count tokens that nobody reported and print: all of that is off, before it is imported.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

import httpx

from baton.children.calls import Call

ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",  # else it reads .env files
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches prices
    "PYTHON_DOTENV_DISABLED": "1",
    "NO_PROXY": "*",  # it only ever talks to the relay
}

DIALECTS = {"anthropic": "messages", "gemini": "gemini"}
"""What providers speak that don't speak like OpenAI."""

EFFORTS = ("none", "minimal", "low", "medium", "high")
SHORT = 2048
"""With a smaller cap, thoughts would leave no room for an answer."""

FOREVER = 86400.0
"""Seconds; the relay has the limits."""


class Library:
    """litellm, imported when it is first needed."""

    def __init__(self, relay_address: str, effort: str) -> None:
        self._address = relay_address
        self._effort = effort
        self._loading: asyncio.Task[Any] | None = None

    def warm(self) -> None:
        """Begin to import it."""
        self._loading = self._loading or asyncio.create_task(asyncio.to_thread(_load))

    async def ready(self) -> Any:
        """Return it, once it is imported."""
        self.warm()
        assert self._loading is not None
        litellm = await asyncio.shield(self._loading)
        if litellm.aclient_session is None:
            litellm.aclient_session = httpx.AsyncClient(trust_env=False, timeout=FOREVER)
        return litellm

    async def dialect(self, call: Call) -> str:
        """Return the dialect that a call's model is spoken to in."""
        if call.provider != "openai":
            return DIALECTS.get(call.provider, "chat")
        litellm = await self.ready()
        known = litellm.model_cost.get(call.model) or {}
        return "responses" if known.get("mode") == "responses" else "chat"

    async def effort(self, call: Call) -> str | None:
        """Return how much thinking to ask a model for; None where that can't or needn't be said."""
        litellm = await self.ready()
        name = f"{call.provider}/{call.model}"
        if not litellm.supports_reasoning(name):
            return None
        known = litellm.model_cost.get(name) or litellm.model_cost.get(call.model) or {}
        wanted = self._effort
        if call.provider == "anthropic" and not known.get("supports_adaptive_thinking"):
            # Its models don't think unless told to, which is less than little.
            return wanted if wanted in ("medium", "high") and call.cap > SHORT else None
        if call.provider == "gemini" and call.cap < SHORT and wanted == "low":
            wanted = "minimal"
        return _nearest(wanted, _levels(known))

    async def stream(self, call: Call) -> AsyncGenerator[str]:
        """Ask through the relay, and give the text as it comes."""
        litellm = await self.ready()
        effort = await self.effort(call)
        options: dict[str, Any] = {"reasoning_effort": effort} if effort else {}
        if call.temperature is not None and not (effort and call.provider == "anthropic"):
            options["temperature"] = call.temperature
        if call.seed is not None:
            options["seed"] = call.seed
        answer = await litellm.acompletion(
            model=f"{call.provider}/{call.model}",
            messages=call.messages,
            max_tokens=call.cap,
            stream=True,
            stream_options={"include_usage": True},
            api_base=self._address,
            api_key=call.secret,
            max_retries=0,
            num_retries=0,
            timeout=FOREVER,
            drop_params=True,
            **options,
        )
        async with aclosing(_texts(answer)) as texts:
            async for text in texts:
                yield text


async def _texts(answer: Any) -> AsyncGenerator[str]:
    try:
        async for chunk in answer:
            for choice in chunk.choices:
                if text := choice.delta.content:
                    yield text
    finally:
        with suppress(Exception):  # whatever it is, nobody listens any more
            await answer.aclose()


def _load() -> Any:
    os.environ.update(ENVIRONMENT)
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.disable_aiohttp_transport = True
    litellm.disable_streaming_logging = True
    for name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router", "httpx", "openai"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return litellm


def _levels(known: dict[str, Any]) -> list[str]:
    """Return the efforts that a model takes, the least first."""
    if declared := known.get("reasoning_effort_levels"):
        return [level for level in EFFORTS if level in declared]
    missing = [
        level
        for level in EFFORTS
        if known.get(f"supports_{level}_reasoning_effort") is False
        or (level == "none" and not known.get("supports_none_reasoning_effort"))
    ]
    return [level for level in EFFORTS if level not in missing]


def _nearest(wanted: str, levels: list[str]) -> str | None:
    """Return the most that isn't more than wanted, else the least there is."""
    most = EFFORTS.index(wanted)
    fitting = [level for level in levels if EFFORTS.index(level) <= most]
    return fitting[-1] if fitting else next(iter(levels), None)
