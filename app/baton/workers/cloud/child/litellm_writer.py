"""litellm, kept on a short leash: it writes requests in each provider's dialect, and knows no key.

It is given the relay's address instead of a provider's. It would read `.env` files, fetch prices,
retry, print and start `uname`: all of that is off, before it is imported.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import secrets
from contextlib import suppress
from typing import Any

import httpx

from baton.workers.cloud.child.cloud_call import Call
from baton.workers.cloud.child.litellm_capture import Relay

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

FORMLESS = ("deepseek", "groq")
"""Who can't be asked for a form: DeepSeek knows no schema, and Groq doesn't stream with one."""

LATER_SECONDS = 0.1

FOREVER = 86400.0
"""Seconds; nothing is waited for but our own loopback."""


class Library:
    """litellm, imported when it is first needed."""

    def __init__(self, relay: Relay, effort: str) -> None:
        self._relay = relay
        self._effort = effort
        self._thinks: dict[str, bool] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self._loading: asyncio.Task[Any] | None = None

    def warm(self) -> None:
        """Begin to import it."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(_load))

    async def rehearse(self, call: Call) -> None:
        """Let it write a request that nobody sends: the first one takes it half a second."""
        with suppress(Exception):  # the first call meets it again, and tells
            await self.write(call)

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
        if name not in self._thinks:
            self._thinks[name] = litellm.supports_reasoning(name)
        if not self._thinks[name]:
            return None
        known = litellm.model_cost.get(name) or litellm.model_cost.get(call.model) or {}
        wanted = self._effort
        if call.provider == "anthropic" and not known.get("supports_adaptive_thinking"):
            # Its models don't think unless told to, which is less than little.
            return wanted if wanted in ("medium", "high") and call.cap > SHORT else None
        if call.provider == "gemini" and call.cap < SHORT and wanted == "low":
            wanted = "minimal"
        return _nearest(wanted, _levels(known))

    async def may_think(self, call: Call) -> bool:
        """Tell whether a call's model may think: also one that isn't known."""
        litellm = await self.ready()
        names = (f"{call.provider}/{call.model}", call.model)
        known = next((found for name in names if (found := litellm.model_cost.get(name))), None)
        return known is None or bool(known.get("supports_reasoning"))

    async def shapes(self, call: Call) -> bool:
        """Tell whether a call's model is known to keep to a schema; others get the prompt alone."""
        if call.provider in FORMLESS:
            return False
        litellm = await self.ready()
        names = [f"{call.provider}/{call.model}"]
        if call.provider == "openrouter":
            names.append(call.model)
        return any(litellm.supports_response_schema(model=name) for name in names)

    async def write(self, call: Call) -> bytes:
        """Return the request for a call, as litellm writes it. Raises whatever litellm does.

        Where it would make a tool of the schema, whose use is no text, the schema is left out.
        """
        body = await self._written(call)
        if call.schema and "tools" in json.loads(body):
            call.schema = ""
            body = await self._written(call)
        return body

    async def _written(self, call: Call) -> bytes:
        litellm = await self.ready()
        secret = secrets.token_hex(32)
        written = self._relay.expect(secret)
        writing = asyncio.create_task(self._ask(litellm, call, secret))
        self._writing.add(writing)
        writing.add_done_callback(self._end_writing)
        try:
            both: set[asyncio.Future[Any]] = {written, writing}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not written.done():
                raise writing.exception() or RuntimeError("litellm asked nothing")
            return written.result()
        finally:
            self._relay.forget(secret)
            # Hanging up takes it 1.5 ms, which the first word shall not wait for.
            asyncio.get_running_loop().call_later(LATER_SECONDS, writing.cancel)

    def _end_writing(self, writing: asyncio.Task[None]) -> None:
        self._writing.discard(writing)
        if not writing.cancelled():
            writing.exception()  # was told, or no longer matters

    async def _ask(self, litellm: Any, call: Call, secret: str) -> None:
        effort = await self.effort(call)
        options: dict[str, Any] = {"reasoning_effort": effort} if effort else {}
        if call.temperature is not None and not (effort and call.provider == "anthropic"):
            options["temperature"] = call.temperature
        if call.seed is not None:
            options["seed"] = call.seed
        if call.most:
            options["extra_body"] = {"provider": {"max_price": call.most}}
        if call.schema:
            options["response_format"] = response_format(call.schema)
        if call.tier:
            options["service_tier"] = call.tier
            options["store"] = False
        answer = await litellm.acompletion(
            model=f"{call.provider}/{call.model}",
            messages=call.messages,
            max_tokens=call.cap,
            stream=True,
            stream_options={"include_usage": True},
            api_base=self._relay.address,
            api_key=secret,
            max_retries=0,
            num_retries=0,
            timeout=FOREVER,
            drop_params=True,
            **options,
        )
        await anext(aiter(answer), None)  # for some providers it posts only now


def response_format(schema: str) -> dict[str, Any]:
    """Return how Chat Completions are asked for a form."""
    return {"type": "json_schema", "json_schema": _named(schema)}


def text_format(schema: str) -> dict[str, Any]:
    """Return how Responses are."""
    return {"format": {"type": "json_schema", **_named(schema)}}


def _named(schema: str) -> dict[str, Any]:
    return {"name": "answer", "schema": json.loads(schema), "strict": True}


def _load() -> Any:
    os.environ.update(ENVIRONMENT)
    vars(platform.uname())["processor"] = ""  # else whoever asks for the platform starts `uname -p`
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
