"""Anthropic's Messages: what a request says, and how its answer is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from baton.core.messages import Message, Role
from baton.server.api_errors import ApiError, bad_request
from baton.server.client_request import (
    ClientRequest,
    ConditionFields,
    check_count,
    check_range,
    read_conditions,
    read_fields,
    read_stop,
    read_text,
    refuse_unknown,
    split_conversation,
)
from baton.server.served_answer import Answer
from baton.server.tool_calls import Tool, ToolCall, ToolOffer, call_text, read_tools, result_text

HARMLESS = frozenset(
    {
        "cache_control",
        "container",
        "context_management",
        "inference_geo",
        "metadata",
        "output_config",
        "service_tier",
        "thinking",
        "top_k",
    }
)
"""Fields that tune how a provider makes or bills an answer, not what is asked for."""

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "tool_calls": "tool_use",
}


class ToolFields(msgspec.Struct, frozen=True):
    """A tool that the client offers; those of Anthropic's own can't be."""

    name: str
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class MessageFields(msgspec.Struct, frozen=True):
    """A message of the conversation."""

    role: str
    content: str | list[Any]


class MessagesRequest(msgspec.Struct, frozen=True):
    """A request's fields, as far as Baton keeps to them."""

    model: str
    messages: list[MessageFields]
    max_tokens: int
    system: str | list[Any] | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: list[str] | None = None
    tools: list[ToolFields] | None = None
    tool_choice: dict[str, Any] | None = None
    stream: bool | None = None
    baton: ConditionFields | None = None


def read_messages(body: Mapping[str, Any], headers: Mapping[str, str]) -> ClientRequest:
    """Return what a request asks for. Raises ApiError."""
    refuse_unknown(body, MessagesRequest, HARMLESS, {})
    asked = read_fields(body, MessagesRequest)
    system = read_text(asked.system, frozenset({"text"}), "system")
    said = [Message(Role.SYSTEM, system)] if system else []
    names: dict[str, str] = {}
    for place, message in enumerate(asked.messages):
        said += _messages(message, names, f"messages[{place}]")
    return ClientRequest(
        asked.model,
        *split_conversation(said, "messages"),
        max_tokens=check_count(asked.max_tokens, "max_tokens"),
        temperature=check_range(asked.temperature, 1.0, "temperature"),
        top_p=check_range(asked.top_p, 1.0, "top_p"),
        stop=read_stop(asked.stop_sequences, "stop_sequences"),
        tools=_tools(asked),
        is_streamed=bool(asked.stream),
        conditions=read_conditions(headers, asked.baton),
    )


def _messages(message: MessageFields, names: dict[str, str], param: str) -> list[Message]:
    """Return a message as workers read it; thoughts of an earlier turn are left out."""
    if message.role not in ("user", "assistant"):
        raise bad_request(f"There is no role {message.role[:40]!r}.", f"{param}.role")
    role = Role(message.role)
    if isinstance(message.content, str):
        return [Message(role, message.content)]
    texts = []
    for part in message.content:
        kind = part.get("type") if isinstance(part, dict) else None
        match kind:
            case "tool_use":
                names[str(part.get("id"))] = name = str(part.get("name"))
                texts.append(call_text(name, json.dumps(part.get("input") or {})))
            case "tool_result":
                name = names.get(str(part.get("tool_use_id")), "tool")
                text = read_text(part.get("content"), frozenset({"text"}), param)
                texts.append(result_text(name, text))
            case "thinking" | "redacted_thinking":
                pass
            case _:
                texts.append(read_text([part], frozenset({"text"}), param))
    return [Message(role, "\n".join(texts))]


def _tools(asked: MessagesRequest) -> ToolOffer | None:
    wanted = asked.tool_choice or {}
    choices = {"auto": "auto", "any": "required", "none": "none", "tool": wanted.get("name")}
    kind = wanted.get("type", "auto")
    if not isinstance(kind, str) or kind not in choices:
        raise bad_request(f"There is no choice of tools {str(kind)[:40]!r}.", "tool_choice")
    return read_tools([_tool(tool) for tool in asked.tools or ()], choices[kind])


def _tool(tool: ToolFields) -> Tool:
    if tool.type not in (None, "custom"):
        message = f"Only the client's own tools can be offered, not {tool.type[:40]!r}."
        raise ApiError(400, "unsupported_parameter", message, param="tools")
    return Tool(tool.name, tool.description or "", tool.input_schema or {})


def message_object(answer: Answer) -> dict[str, Any]:
    """Return a whole answer as one object."""
    content = [_text_block(answer.text)] if answer.text or not answer.calls else []
    content += [_call_block(call, json.loads(call.arguments)) for call in answer.calls]
    return {**_head(answer), "content": content, "stop_reason": _STOP_REASONS[answer.finish]}


class MessageStream:
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
        delta = {"stop_reason": _STOP_REASONS[answer.finish], "stop_sequence": None}
        return [
            *events,
            *self._close(),
            {
                "type": "message_delta",
                "delta": delta,
                "usage": _usage(answer),
                "baton": answer.report,
            },
            {"type": "message_stop"},
        ]

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
    return {"type": "text", "text": text, "citations": None}


def _call_block(call: ToolCall, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
