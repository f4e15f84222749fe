"""Writes a call's request in its provider's dialect, with the settings that its model takes.

What a call asks for besides its text is the choice of `families.toml`, and what was learned from
refusals. Baton writes Chat Completions and Responses itself: litellm would take seconds to be
imported for them, and writes Responses only with the package `mcp`, which Baton doesn't install.
"""

from __future__ import annotations

import json
from typing import Any

from baton.ipc.parent_channel import Failure
from baton.platform.proxies import request_address
from baton.workers.cloud.child.cloud_call import (
    KEY_HEADERS,
    KEY_PLACEHOLDER,
    CloudCall,
    HttpRequest,
    RequestSettings,
)
from baton.workers.cloud.child.litellm_requests import LitellmRequests
from baton.workers.cloud.model_settings import ModelFamily, family_of
from baton.workers.cloud.price_table import ModelFacts, known_facts

SHORT_ANSWER_TOKENS = 2048
"""With a smaller cap, a Gemini is asked for the least thinking in place of little."""

OWN_DIALECTS = ("chat", "responses")
"""The dialects that Baton writes itself: litellm is imported for the others alone."""


class RequestWriter:
    """`effort` is how much models may think."""

    def __init__(self, effort: str) -> None:
        self._effort = effort
        self._litellm = LitellmRequests()

    async def write(self, call: CloudCall) -> HttpRequest:
        """Return the request for a call, and note in the call what of it will be asked for.

        Raises Failure for a setting that isn't taken, and any exception of litellm.
        """
        settings = settings_of(call, self._effort)
        if call.dialect in OWN_DIALECTS:
            return own_request(call, settings)
        return await self._litellm.write(call, settings)


def settings_of(call: CloudCall, effort: str) -> RequestSettings:
    """Return what is asked for at a setting of `effort`; note in the call what of it will be.

    A schema is left out where the model isn't known to keep to one. Raises Failure for what isn't
    taken.
    """
    name = f"{call.provider}/{call.model}"
    family = family_of(name) if call.through_library else ModelFamily()
    known = known_facts(name) if call.through_library else None
    call.set_dialect(family.dialect)
    call.may_think_unseen = known is None or known.reasoning or family.thinks
    if call.through_library and not (family.schema and known is not None and known.schema):
        call.schema = ""
    call.schema = _kept(call, "schema", call.schema) or ""
    level, thinking = _thinking(call, family, effort, known)
    if call.temperature is not None and call.temperature > family.hottest:
        raise Failure(
            "ConfigError",
            f"{call.who} takes a temperature from 0 to {family.hottest:g} for {call.model}, not"
            f" {call.temperature:g}. Nothing was sent.",
            "Ask for one in that range, or choose another worker.",
        )
    is_makers = call.provider != "openai" or call.is_openais  # others speak it less exactly
    is_thinking = level not in ("", "none")
    takes = family.sampling == "both" or (family.sampling != "none" and not is_thinking)
    temperature = _kept(call, "temperature", call.temperature if takes else None)
    top_p = _kept(call, "top_p", call.top_p if takes else None)
    if temperature is not None and (
        family.sampling == "one" or (temperature == 0 and not family.greedy_top_p)
    ):
        top_p = None
    return RequestSettings(
        thinking=thinking,
        temperature=temperature,
        top_p=top_p,
        seed=_kept(call, "seed", call.seed if family.seed else None),
        seed_field=family.seed,
        stop=_kept(call, "stop", () if call.through_library else call.stop) or (),
        schema=call.schema,
        cap_field=call.learned.get("cap", family.cap if is_makers else ""),
        system=call.learned.get("system", family.system),
        wants_usage=family.usage and "usage" not in call.learned,
        extra=_kept(call, "extra", family.extra) or {},
        said=family.said,
    )


def _thinking(
    call: CloudCall, family: ModelFamily, effort: str, known: ModelFacts | None
) -> tuple[str, dict[str, Any]]:
    """Return the level of thinking that is asked for, and the fields that ask for it."""
    learned = call.learned.get("effort")
    if learned == "" or (family.must_reason and not (known is not None and known.reasoning)):
        return "", {}
    if learned:
        return learned, family.fill(learned)
    if call.dialect == "gemini" and call.cap < SHORT_ANSWER_TOKENS and effort == "low":
        effort = "minimal"
    return family.ask_for(family.level(effort), call.cap)


def _kept(call: CloudCall, name: str, value: Any) -> Any:
    """Return a setting's value, or None where the model refused the setting before."""
    return None if name in call.learned else value


def own_request(call: CloudCall, settings: RequestSettings) -> HttpRequest:
    """Return a call as a request for Chat Completions or Responses, whichever is its dialect."""
    is_chat = call.dialect == "chat"
    body: dict[str, Any] = {
        "model": call.model,
        "messages" if is_chat else "input": settings.messages(call),
        settings.cap_field or ("max_tokens" if is_chat else "max_output_tokens"): call.cap,
        "stream": True,
        **settings.sampling,
        **settings.thinking,
        **settings.extra,
    }
    if call.tier:
        body["service_tier"] = call.tier
    if call.must_not_store:
        body["store"] = False
    if settings.schema and not is_chat:
        body["text"] = {"format": {"type": "json_schema", **settings.named_schema}}
    if is_chat:
        body |= _chat_fields(call, settings)
    url = request_address(call.base_url, call.dialect, call.model)
    header, prefix = KEY_HEADERS.get(call.provider, ("authorization", "Bearer "))
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return HttpRequest(url, {header: prefix + KEY_PLACEHOLDER}, text.encode())


def _chat_fields(call: CloudCall, settings: RequestSettings) -> dict[str, Any]:
    """Return the fields that Chat Completions alone have."""
    fields: dict[str, Any] = {}
    if settings.wants_usage:
        fields["stream_options"] = {"include_usage": True}
    if settings.seed is not None:
        fields[settings.seed_field] = settings.seed
    if settings.stop:
        fields["stop"] = list(settings.stop)
    if settings.schema:
        fields["response_format"] = settings.response_format
    if call.most:
        fields["provider"] = {"max_price": call.most}
    return fields
