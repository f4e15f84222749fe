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
from dataclasses import replace
from typing import Any

from baton.platform.proxies import request_address
from baton.workers.cloud.child.cloud_call import (
    KEY_HEADERS,
    KEY_PLACEHOLDER,
    CloudCall,
    HttpRequest,
)
from baton.workers.cloud.child.openai_requests import response_format, responses_request
from baton.workers.cloud.child.request_guard import CAP_FIELDS
from baton.workers.cloud.child.request_settings import RequestSettings, settings_of
from baton.workers.cloud.model_families import family_of

ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",  # else it reads .env files
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches prices
    "PYTHON_DOTENV_DISABLED": "1",
}

DIALECTS = {"anthropic": "messages", "cohere": "cohere", "gemini": "gemini", "vertex_ai": "gemini"}
"""The dialects of providers that have one of their own."""

OPENAIS = ("azure", "bedrock_mantle", "openai")
"""The providers of OpenAI's own models."""

OWN_ADDRESSES = frozenset({"anthropic", "azure", "gemini", "vertex_ai"})
"""Providers whose address litellm doesn't build in their configuration."""

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
        call.set_dialect(_dialect(call))
        names = f"{call.provider}/{call.model}", call.model
        known = next((found for name in names if (found := litellm.model_cost.get(name))), None)
        call.may_think_unseen = known is None or bool(known.get("supports_reasoning"))
        if call.schema and not _keeps_to_schema(litellm, call, names):
            call.schema = ""
        settings = settings_of(call, self._effort, lambda: self._does_reason(litellm, names[0]))
        call.schema = settings.schema
        if call.dialect == "responses":
            return responses_request(call, settings)
        request = _transform(call, settings)
        if call.schema and "tools" in json.loads(request.body):
            call.schema = ""
            request = _transform(call, replace(settings, schema=""))
        return request

    def _does_reason(self, litellm: Any, name: str) -> bool:
        if name not in self._reasons:
            self._reasons[name] = litellm.supports_reasoning(name)
        return self._reasons[name]


def _import_litellm() -> Any:
    os.environ.update(ENVIRONMENT)
    vars(platform.uname())["processor"] = ""  # else asking for the platform starts `uname -p`
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router", "httpx", "openai"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return litellm


def _dialect(call: CloudCall) -> str:
    family = family_of(f"{call.provider}/{call.model}")
    return family.dialect or DIALECTS.get(call.provider, "chat")


def _keeps_to_schema(litellm: Any, call: CloudCall, names: tuple[str, str]) -> bool:
    """Whether a call's model is known to keep to a schema; others get the prompt alone."""
    asked = names if call.provider == "openrouter" else names[:1]
    return any(litellm.supports_response_schema(model=name) for name in asked)


def _transform(call: CloudCall, settings: RequestSettings) -> HttpRequest:
    config = _configuration(call)
    wanted = _wanted_options(call, settings)
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
    messages: list[Any] = [dict(message) for message in settings.messages(call)]
    headers = _headers(config, call, messages, options)
    if call.dialect == "gemini":
        body = _gemini_body(call, messages, options)
    else:
        body = config.transform_request(
            model=call.model,
            messages=messages,
            optional_params=options | settings.thinking,
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
    text = json.dumps(
        _as_the_table_says({**body, **more}, call, settings),
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return HttpRequest(url, headers, text.encode())


def _as_the_table_says(
    body: dict[str, Any], call: CloudCall, settings: RequestSettings
) -> dict[str, Any]:
    """Return a body with the settings that the table decides, which litellm's writers may not."""
    if call.dialect == "gemini":
        body.setdefault("generationConfig", {}).update(settings.thinking)
        return body
    body |= settings.thinking
    if call.dialect == "messages" and "output_format" in body:  # its name in 2025
        form = {"format": body.pop("output_format")}
        body["output_config"] = body.get("output_config", {}) | form
    if call.dialect == "chat":
        body |= settings.sampling | settings.extra
        cap = settings.cap_field or next(name for name in CAP_FIELDS if name in body)
        for name in CAP_FIELDS:
            body.pop(name, None)
        body[cap] = call.cap
        if call.provider in OPENAIS:  # litellm gives the system's text the rank of the user's
            body["messages"] = settings.messages(call)
    return body


def _configuration(call: CloudCall) -> Any:
    from litellm.types.utils import LlmProviders
    from litellm.utils import ProviderConfigManager

    config = ProviderConfigManager.get_provider_chat_config(call.model, LlmProviders(call.provider))
    if config is None:
        raise LookupError("litellm has no configuration for this provider")
    return config


def _wanted_options(call: CloudCall, settings: RequestSettings) -> dict[str, Any]:
    """Return what is asked for, in the words of Chat Completions."""
    options: dict[str, Any] = {"max_tokens": call.cap, "stream": True, **settings.sampling}
    if settings.wants_usage:
        options["stream_options"] = {"include_usage": True}
    if settings.seed is not None:
        options["seed"] = settings.seed
    if settings.schema:
        options["response_format"] = response_format(settings.schema)
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

