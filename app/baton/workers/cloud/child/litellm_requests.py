"""Requests in each provider's dialect, written by litellm's provider configurations.

Baton calls those parts of litellm that turn data into data. litellm opens no connection, sees no
part of an answer, and gets `KEY_PLACEHOLDER` for a key. Its `.env` files, price download, logs and
the start of `uname` are switched off before it is imported.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
from typing import Any

from baton.platform.proxies import request_address
from baton.workers.cloud.child.cloud_call import (
    KEY_HEADERS,
    KEY_PLACEHOLDER,
    CloudCall,
    HttpRequest,
)
from baton.workers.cloud.child.openai_requests import response_format, responses_request

ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",  # else it reads .env files
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches prices
    "PYTHON_DOTENV_DISABLED": "1",
}

DIALECTS = {
    "anthropic": "messages",
    "bedrock": "converse",
    "cohere": "cohere",
    "gemini": "gemini",
    "vertex_ai": "gemini",
}
"""The dialects of providers that have one of their own."""

OWN_ADDRESSES = frozenset({"anthropic", "azure", "bedrock", "gemini", "vertex_ai"})
"""Providers whose address litellm doesn't build in their configuration."""

EFFORTS = ("none", "minimal", "low", "medium", "high")
SHORT_ANSWER_TOKENS = 2048
"""With a smaller cap, thoughts would leave no room for an answer."""

SCHEMALESS = frozenset({"bedrock", "deepseek", "groq"})
"""Providers that take no schema: DeepSeek knows none, Groq doesn't stream with one, and litellm
makes a tool of it for most of Bedrock's models."""


class LitellmRequests:
    """litellm, imported when it is first needed; `effort` is how much models may think."""

    def __init__(self, effort: str) -> None:
        self._effort = effort
        self._reasons: dict[str, bool] = {}
        self._import: asyncio.Task[Any] | None = None

    def warm(self) -> None:
        """Begin to import it."""
        if self._import is None:
            self._import = asyncio.create_task(asyncio.to_thread(_import_litellm))

    async def ready(self) -> Any:
        """Return it, once it is imported."""
        self.warm()
        assert self._import is not None
        return await asyncio.shield(self._import)

    async def write(self, call: CloudCall) -> HttpRequest:
        """Return the request for a call, and note in the call what of it will be asked for.

        A schema is left out where the model can't keep to one, and where litellm makes a tool of
        it, whose use is no text. Raises any exception of litellm's.
        """
        litellm = await self.ready()
        call.set_dialect(_dialect(litellm, call))
        names = _names(call)
        known = next((found for name in names if (found := litellm.model_cost.get(name))), None)
        call.may_think_unseen = known is None or bool(known.get("supports_reasoning"))
        if call.schema and not _keeps_to_schema(litellm, call):
            call.schema = ""
        effort = self._effort_of(litellm, call)
        if call.dialect == "responses":
            return responses_request(call, effort)
        request = _transform(call, effort)
        if call.schema and "tools" in json.loads(request.body):
            call.schema = ""
            request = _transform(call, effort)
        return request

    def _effort_of(self, litellm: Any, call: CloudCall) -> str | None:
        """Return how much thinking to ask for; None where the model can't or needn't be asked."""
        if call.dialect == "converse":
            return None
        name = f"{call.provider}/{call.model}"
        if name not in self._reasons:
            self._reasons[name] = litellm.supports_reasoning(name)
        if not self._reasons[name]:
            return None
        known = litellm.model_cost.get(name) or litellm.model_cost.get(call.model) or {}
        wanted = self._effort
        if call.provider == "anthropic" and not known.get("supports_adaptive_thinking"):
            # Its models don't think unless asked to, which is less than little.
            thinks = wanted in ("medium", "high") and call.cap > SHORT_ANSWER_TOKENS
            return wanted if thinks else None
        if call.dialect == "gemini" and call.cap < SHORT_ANSWER_TOKENS and wanted == "low":
            wanted = "minimal"
        return _nearest_effort(wanted, _efforts(known))


def _import_litellm() -> Any:
    os.environ.update(ENVIRONMENT)
    vars(platform.uname())["processor"] = ""  # else asking for the platform starts `uname -p`
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router", "httpx", "openai"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return litellm


def _names(call: CloudCall) -> tuple[str, str]:
    return f"{call.provider}/{call.model}", call.model


def _dialect(litellm: Any, call: CloudCall) -> str:
    if call.provider not in ("openai", "azure"):
        return DIALECTS.get(call.provider, "chat")
    name = call.model if call.provider == "openai" else f"azure/{call.model}"
    known = litellm.model_cost.get(name) or {}
    return "responses" if known.get("mode") == "responses" else "chat"


def _keeps_to_schema(litellm: Any, call: CloudCall) -> bool:
    """Whether a call's model is known to keep to a schema; others get the prompt alone."""
    if call.provider in SCHEMALESS:
        return False
    names = _names(call) if call.provider == "openrouter" else _names(call)[:1]
    return any(litellm.supports_response_schema(model=name) for name in names)


def _transform(call: CloudCall, effort: str | None) -> HttpRequest:
    config = _configuration(call)
    wanted = _wanted_options(call, effort)
    supported = config.get_supported_openai_params(call.model)
    options = config.map_openai_params(
        non_default_params={name: value for name, value in wanted.items() if name in supported},
        optional_params={},
        model=call.model,
        drop_params=True,
    )
    more = {**options.pop("extra_body", {})}  # litellm leaves it to OpenAI's client to add these
    if call.most:
        more["provider"] = {"max_price": call.most}
    options.pop("json_mode", None)  # a note of litellm's for its own reader
    messages: list[Any] = [dict(message) for message in call.messages]
    headers = _headers(config, call, messages, options)
    if call.dialect == "gemini":
        body = _gemini_body(call, messages, options)
    else:
        body = config.transform_request(
            model=call.model,
            messages=messages,
            optional_params=options,
            litellm_params={},
            headers=headers,
        )
    if call.provider in OWN_ADDRESSES:
        url = request_address(call.base_url, call.dialect, call.model)
    else:
        url = config.get_complete_url(
            api_base=call.base_url,
            api_key=KEY_PLACEHOLDER,
            model=call.model,
            optional_params=options,
            litellm_params={},
            stream=True,
        )
    text = json.dumps({**body, **more}, ensure_ascii=False, separators=(",", ":"))
    return HttpRequest(url, headers, text.encode())


def _configuration(call: CloudCall) -> Any:
    from litellm.types.utils import LlmProviders
    from litellm.utils import ProviderConfigManager

    if call.dialect == "converse":  # whatever litellm asks a model in by itself
        from litellm import AmazonConverseConfig

        return AmazonConverseConfig()
    config = ProviderConfigManager.get_provider_chat_config(call.model, LlmProviders(call.provider))
    if config is None:
        raise LookupError("litellm has no configuration for this provider")
    return config


def _wanted_options(call: CloudCall, effort: str | None) -> dict[str, Any]:
    """Return what is asked for, in the words of Chat Completions."""
    options: dict[str, Any] = {"max_tokens": call.cap}
    if call.dialect != "converse":  # whose address says that it streams
        options |= {"stream": True, "stream_options": {"include_usage": True}}
    if effort:
        options["reasoning_effort"] = effort
    if call.temperature is not None and not (effort and call.provider == "anthropic"):
        options["temperature"] = call.temperature
    if call.top_p is not None:
        options["top_p"] = call.top_p
    if call.seed is not None:
        options["seed"] = call.seed
    if call.schema:
        options["response_format"] = response_format(call.schema)
    if call.tier:
        options["service_tier"] = call.tier
        options["store"] = False
    return options


def _headers(
    config: Any, call: CloudCall, messages: list[Any], options: dict[str, Any]
) -> dict[str, str]:
    if call.provider in KEY_HEADERS:
        header, prefix = KEY_HEADERS[call.provider]
        return {header: prefix + KEY_PLACEHOLDER}
    headers: dict[str, str] = config.validate_environment(
        headers={},
        model=call.model,
        messages=messages,
        optional_params=options,
        litellm_params={},
        api_key=KEY_PLACEHOLDER,
        api_base=call.base_url,
    )
    return headers


def _gemini_body(call: CloudCall, messages: list[Any], options: dict[str, Any]) -> dict[str, Any]:
    # The configuration's own method raises NotImplementedError; the public function above this one
    # would also look for a context cache, over the network.
    from litellm.llms.vertex_ai.gemini.transformation import _transform_request_body

    provider: Any = call.provider
    return dict(
        _transform_request_body(
            messages=messages,
            model=call.model,
            optional_params=options,
            custom_llm_provider=provider,
            litellm_params={},
            cached_content=None,
        )
    )


def _efforts(known: dict[str, Any]) -> list[str]:
    """Return the efforts that a model takes, the least first."""
    if declared := known.get("reasoning_effort_levels"):
        return [level for level in EFFORTS if level in declared]
    return [
        level
        for level in EFFORTS
        if known.get(f"supports_{level}_reasoning_effort") is not False
        and (level != "none" or known.get("supports_none_reasoning_effort"))
    ]


def _nearest_effort(wanted: str, levels: list[str]) -> str | None:
    """Return the most that isn't more than wanted, else the least there is."""
    most = EFFORTS.index(wanted)
    fitting = [level for level in levels if EFFORTS.index(level) <= most]
    return fitting[-1] if fitting else next(iter(levels), None)
