"""Anthropic's Messages: what a request says, and how its answer is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from baton.core.messages import Role
from baton.server.api_errors import ApiError, bad_request
from baton.server.client_request import (
    ClientRequest,
    FormatFields,
    SharedFields,
    check_count,
    check_fields,
    read_conditions,
    read_fields,
    read_form,
    read_model,
    read_stop,
)
from baton.server.request_messages import Spoken, read_content, read_role, split_conversation
from baton.server.served_run import Answer, StreamWriter
from baton.server.tool_calls import ToolCall, call_text, called_name, result_text
from baton.server.tool_offer import Tool, offer_tools, read_choice, read_tools

HARMLESS = frozenset(
    {
        "cache_control",
        "container",
        "context_management",
        "inference_geo",
        "metadata",
        "service_tier",
        "thinking",
    }
)
"""Fields that tune how a provider makes or bills an answer, not what is asked for."""

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "tool_calls": "tool_use",
}


class MessageFields(msgspec.Struct, frozen=True):
    """A message of the conversation."""

    role: str
    content: str | list[Any] | dict[str, Any] | None = None


class OutputFields(msgspec.Struct, frozen=True):
    """How the answer must be."""

    format: FormatFields | None = None


class MessagesRequest(SharedFields, frozen=True, kw_only=True):
    """A request's fields, as far as Baton keeps to them."""

    messages: tuple[MessageFields, ...] = ()
    max_tokens: int | None = None
    system: str | list[Any] | dict[str, Any] | None = None
    stop_sequences: list[str] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    output_config: OutputFields | None = None
    output_format: FormatFields | None = None


def read_messages(body: Mapping[str, Any], headers: Mapping[str, str]) -> ClientRequest:
    """Return what a request asks for. Raises ApiError."""
    if body.get("thread") is not None:  # by these details Anthropic's clients do without it
        message_text = "Baton keeps no threads: send the whole conversation along."
        details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
        raise ApiError(400, "unsupported_parameter", message_text, param="thread", details=details)
    warnings: list[str] = []
    sampling = check_fields(body, MessagesRequest, HARMLESS, {}, warnings)
    asked = read_fields(body, MessagesRequest)
    system, _ = read_content(asked.system, "system", warnings, "\n")
    tools = read_tools(asked.tools or (), warnings)
    spoken = [Spoken(Role.SYSTEM, system)] if system else []
    names: dict[str, str] = {}
    for place, message in enumerate(asked.messages):
        spoken.append(_spoken(message, names, tools, f"messages[{place}]", warnings))
    if not asked.messages:
        raise bad_request("There are no messages.", "messages")
    wanted = asked.tool_choice or {}
    is_single = wanted.get("disable_parallel_tool_use") is True
    choice = read_choice(wanted or None, is_single=is_single, warnings=warnings)
    form = (asked.output_config or OutputFields()).format or asked.output_format or FormatFields()
    return ClientRequest(
        read_model(asked.model),
        *split_conversation(spoken, "messages"),
        max_tokens=check_count(asked.max_tokens, "max_tokens"),
        stop=read_stop(asked.stop_sequences, "stop_sequences"),
        shape=read_form(form.type, form.schema, "output_config.format", warnings),
        tools=offer_tools(tools, choice, warnings),
        sampling=sampling,
        conditions=read_conditions(headers, asked.baton),
        **asked.values(warnings, max_temperature=1.0),
    )


def _spoken(
    message: MessageFields,
    names: dict[str, str],
    tools: Sequence[Tool],
    param: str,
    warnings: list[str],
) -> Spoken:
    """Return a message as workers read it; thoughts of an earlier turn are left out."""
    role = read_role(message.role, warnings, param)
    content = [message.content] if isinstance(message.content, dict) else message.content
    if not isinstance(content, list):
        return Spoken(role, content or "")
    texts, media = [], ""
    for part in content:
        match part.get("type") if isinstance(part, Mapping) else None:
            case "tool_use":
                names[str(part.get("id"))] = name = str(part.get("name"))
                texts.append(call_text(name, part.get("input") or {}))
            case "tool_result":
                name = called_name(str(part.get("tool_use_id")), names, tools)
                text, _ = read_content(part.get("content"), param, warnings)
                texts.append(result_text(name, text))
            case _:
                text, kind = read_content([part], param, warnings)
                texts += [text] if text else []
                media = kind or media
    return Spoken(role, "\n".join(texts), media if role is Role.USER else "")


def message_object(answer: Answer) -> dict[str, Any]:
    """Return a whole answer as one object."""
    content = [_text_block(answer.text)] if answer.text or not answer.calls else []
    content += [_call_block(call, json.loads(call.arguments)) for call in answer.calls]
    return {**_head(answer), "content": content, **_ending(answer)}


class MessageStream(StreamWriter):
    """Writes an answer as the events of a stream, while it comes."""

    def __init__(self) -> None:
        self._index = -1
        self._is_open = False

    def begin(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes before the first piece."""
        return [{"type": "message_start", "message": {**_head(answer), "content": []}}]

    def text(self, answer: Answer, piece: str) -> list[dict[str, Any]]:
        """Return a piece of the answer."""
        events = [] if self._is_open else self._open(_text_block(""))
        self._is_open = True
        return [*events, self._delta({"type": "text_delta", "text": piece})]

    def call(self, answer: Answer, call: ToolCall) -> list[dict[str, Any]]:
        """Return a call of a tool."""
        return [
            *self._close(),
            *self._open(_call_block(call, {})),
            self._delta({"type": "input_json_delta", "partial_json": call.arguments}),
            {"type": "content_block_stop", "index": self._index},
        ]

    def end(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes after the last piece."""
        events = [] if self._index >= 0 else self.text(answer, "")
        return [
            *events,
            *self._close(),
            {
                "type": "message_delta",
                "delta": _ending(answer),
                "usage": _usage(answer),
                "baton": answer.report,
            },
            {"type": "message_stop"},
        ]

    def fail(self, answer: Answer, error: ApiError) -> list[dict[str, Any]]:
        """Return what ends a stream that can't be continued."""
        return [error.anthropic()]

    def _open(self, block: Mapping[str, Any]) -> list[dict[str, Any]]:
        self._index += 1
        return [{"type": "content_block_start", "index": self._index, "content_block": block}]

    def _close(self) -> list[dict[str, Any]]:
        if not self._is_open:
            return []
        self._is_open = False
        return [{"type": "content_block_stop", "index": self._index}]

    def _delta(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}


def _head(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.run}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(answer),
        "baton": answer.report,
    }


def _ending(answer: Answer) -> dict[str, Any]:
    if answer.finish == "stop" and answer.stop:
        return {"stop_reason": "stop_sequence", "stop_sequence": answer.stop}
    return {"stop_reason": _STOP_REASONS[answer.finish], "stop_sequence": None}


def _usage(answer: Answer) -> dict[str, Any]:
    used = answer.usage
    return {
        "input_tokens": used.read - used.cached,
        "cache_read_input_tokens": used.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": used.written,
        **used.shares(),
    }


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call_block(call: ToolCall, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
