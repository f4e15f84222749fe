"""Requests in the dialects of Anthropic, Bedrock, Cohere and Google, written by litellm.

Baton calls those parts of litellm that turn data into data. litellm opens no connection, sees no
part of an answer, and gets `KEY_PLACEHOLDER` for a key. Its `.env` files, price download, logs and
the start of `uname` are switched off before it is imported. What `families.toml` decides stands in
the body in place of what litellm writes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
from typing import Any

from msgspec.structs import replace

from baton.platform.proxies import request_address
from baton.workers.cloud.child.cloud_call import (
    KEY_HEADERS,
    KEY_PLACEHOLDER,
    CloudCall,
    HttpRequest,
    RequestSettings,
)

ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",  # else it reads .env files
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches prices
    "PYTHON_DOTENV_DISABLED": "1",
}


class LitellmRequests:
    """litellm, imported when it is first needed."""

    def __init__(self) -> None:
        self._import: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Wait until it is imported, which begins with the first wait."""
        if self._import is None:
            self._import = asyncio.create_task(asyncio.to_thread(_import_litellm))
        await asyncio.shield(self._import)

    async def write(self, call: CloudCall, settings: RequestSettings) -> HttpRequest:
        """Return the request for a call. Raises any exception of litellm.

        A schema is left out where litellm makes a tool of it, whose use isn't text.
        """
        await self.ready()
        request = _transform(call, settings)
        if call.schema and "tools" in json.loads(request.body):
            call.schema = ""
            request = _transform(call, replace(settings, schema=""))
        return request


def _import_litellm() -> None:
    os.environ.update(ENVIRONMENT)
    vars(platform.uname())["processor"] = ""  # else asking for the platform starts `uname -p`
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router", "httpx", "openai"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


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
    options.pop("json_mode", None)  # a note of litellm's for its own reader
    messages: list[Any] = list(settings.messages(call))
    headers = _headers(config, call, messages, options)
    if call.dialect == "gemini":
        body = _gemini_body(call, messages, options)
        body.setdefault("generationConfig", {}).update(settings.thinking)
    else:
        body = config.transform_request(
            model=call.model,
            messages=messages,
            optional_params=options,
            litellm_params={},
            headers=headers,
        )
        body |= settings.thinking
    if "output_format" in body:  # its name in 2025
        body["output_config"] = body.get("output_config", {}) | {
            "format": body.pop("output_format")
        }
    if call.dialect == "cohere":
        url = call.base_url
    else:
        url = request_address(call.base_url, call.dialect, call.model)
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return HttpRequest(url, headers, text.encode())


def _configuration(call: CloudCall) -> Any:
    from litellm.types.utils import LlmProviders
    from litellm.utils import ProviderConfigManager

    if call.dialect == "converse":  # where litellm asks some models in another dialect
        from litellm import AmazonConverseConfig

        return AmazonConverseConfig()
    config = ProviderConfigManager.get_provider_chat_config(call.model, LlmProviders(call.provider))
    if config is None:
        raise LookupError("litellm has no configuration for this provider")
    return config


def _wanted_options(call: CloudCall, settings: RequestSettings) -> dict[str, Any]:
    """Return what is asked for, in the words of Chat Completions."""
    options: dict[str, Any] = {"max_tokens": call.cap, **settings.sampling}
    if call.dialect != "converse":  # whose address says that it streams
        options["stream"] = True
    if settings.seed is not None:
        options["seed"] = settings.seed
    if settings.schema:
        options["response_format"] = settings.response_format
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
