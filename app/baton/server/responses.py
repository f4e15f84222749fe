"""OpenAI's Responses: what a request says, and how its answer is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from baton.core.messages import AnswerFormat, Message, Role
from baton.server.api_errors import ApiError, bad_request
from baton.server.client_request import (
    ANY_OBJECT,
    ClientRequest,
    ConditionFields,
    check_count,
    check_range,
    json_shape,
    read_conditions,
    read_fields,
    read_text,
    refuse_unknown,
    split_conversation,
)
from baton.server.served_answer import Answer
from baton.server.tool_calls import Tool, ToolCall, ToolOffer, call_text, read_tools, result_text

HARMLESS = frozenset(
    {
        "client_metadata",
        "include",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "stream_options",
        "truncation",
        "user",
    }
)
"""Fields that tune how a provider makes or bills an answer, not what is asked for."""

NEUTRAL: Mapping[str, tuple[object, ...]] = {"top_logprobs": (0,)}

TEXT_PARTS = frozenset({"input_text", "output_text", "text", "refusal", "summary_text"})


class ToolFields(msgspec.Struct, frozen=True):
    """A tool that the client offers; only functions can be."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None


class FormatFields(msgspec.Struct, frozen=True):
    """The form that the answer must have."""

    type: str = "text"
    schema: dict[str, Any] | None = None


class TextFields(msgspec.Struct, frozen=True):
    """How the answer's text must be."""

    format: FormatFields | None = None
    verbosity: str | None = None


class ResponsesRequest(msgspec.Struct, frozen=True):
    """A request's fields, as far as Baton keeps to them."""

    model: str
    input: str | list[Any]
    instructions: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    text: TextFields | None = None
    tools: list[ToolFields] | None = None
    tool_choice: str | dict[str, Any] | None = None
    previous_response_id: str | None = None
    stream: bool | None = None
    background: bool | None = None
    store: bool | None = None
    baton: ConditionFields | None = None


def read_responses(body: Mapping[str, Any], headers: Mapping[str, str]) -> ClientRequest:
    """Return what a request asks for. Raises ApiError."""
    refuse_unknown(body, ResponsesRequest, HARMLESS, NEUTRAL)
    asked = read_fields(body, ResponsesRequest)
    said = [Message(Role.SYSTEM, asked.instructions)] if asked.instructions else []
    conditions = read_conditions(headers, asked.baton, asked.store)
    if asked.background and not conditions.is_kept:
        raise bad_request("A response in the background has to be stored.", "store")
    return ClientRequest(
        asked.model,
        *split_conversation([*said, *_messages(asked.input)], "input"),
        max_tokens=check_count(asked.max_output_tokens, "max_output_tokens"),
        temperature=check_range(asked.temperature, 2.0, "temperature"),
        top_p=check_range(asked.top_p, 1.0, "top_p"),
        shape=_shape(asked.text),
        tools=_tools(asked),
        is_streamed=bool(asked.stream),
        is_background=bool(asked.background),
        continues=asked.previous_response_id or "",
        conditions=conditions,
    )


def response_id(run: str) -> str:
    """Return the id of the response that a run gave."""
    return f"resp_{run}"


def _messages(said: str | list[Any]) -> list[Message]:
    if isinstance(said, str):
        return [Message(Role.USER, said)]
    names: dict[str, str] = {}
    messages = []
    for place, item in enumerate(said):
        if not isinstance(item, dict):
            raise bad_request("An item of the input is not an object.", f"input[{place}]")
        if (message := _message(item, names, f"input[{place}]")) is not None:
            messages.append(message)
    return messages


def _message(item: Mapping[str, Any], names: dict[str, str], param: str) -> Message | None:
    """Return an item as workers read it; thoughts of an earlier turn are left out."""
    match item.get("type", "message"):
        case "message":
            return _spoken(item, param)
        case "function_call":
            names[str(item.get("call_id"))] = name = str(item.get("name"))
            return Message(Role.ASSISTANT, call_text(name, str(item.get("arguments") or "")))
        case "function_call_output":
            output = item.get("output")
            text = read_text(output, TEXT_PARTS, param)
            return Message(
                Role.USER, result_text(names.get(str(item.get("call_id")), "tool"), text)
            )
        case "reasoning":
            return None
        case kind:
            message = f"Baton doesn't know input of the type {str(kind)[:40]!r}."
            raise ApiError(400, "unsupported_content", message, param=param)


def _spoken(item: Mapping[str, Any], param: str) -> Message:
    text = read_text(item.get("content"), TEXT_PARTS, param)
    roles = {"assistant": Role.ASSISTANT, "user": Role.USER}
    roles |= {"system": Role.SYSTEM, "developer": Role.SYSTEM}
    role = str(item.get("role"))
    if role not in roles:
        raise bad_request(f"There is no role {role[:40]!r}.", f"{param}.role")
    return Message(roles[role], text)


def _shape(asked: TextFields | None) -> AnswerFormat | None:
    form = asked.format if asked is not None else None
    match form.type if form is not None else "text":
        case "text":
            return None
        case "json_object":
            return json_shape(ANY_OBJECT, "text.format")
        case "json_schema":
            return json_shape(form.schema if form is not None else None, "text.format.schema")
        case kind:
            raise bad_request(f"There is no format {kind[:40]!r}.", "text.format.type")


def _tools(asked: ResponsesRequest) -> ToolOffer | None:
    choice = asked.tool_choice
    if isinstance(choice, dict):
        choice = choice.get("name")
        if not isinstance(choice, str):
            raise bad_request("This choice of a tool names no function.", "tool_choice")
    return read_tools([_tool(tool) for tool in asked.tools or ()], choice)


def _tool(tool: ToolFields) -> Tool:
    if tool.type != "function" or not tool.name:
        message = f"Only functions can be offered as tools, not {tool.type[:40]!r}."
        raise ApiError(400, "unsupported_parameter", message, param="tools")
    return Tool(tool.name, tool.description or "", tool.parameters or {})


def response(answer: Answer, asked: ClientRequest, status: str = "completed") -> dict[str, Any]:
    """Return an answer, or as much of it as there is, as one object."""
    is_cut = status == "completed" and answer.finish == "length"
    output: list[dict[str, Any]] = []
    if status == "completed":
        if answer.text or not answer.calls:
            output.append(_text_item(answer, answer.text))
        output += [_call_item(call) for call in answer.calls]
    used = answer.usage
    usage = {
        "input_tokens": used.read,
        "input_tokens_details": {"cached_tokens": used.cached, "cache_write_tokens": 0},
        "output_tokens": used.written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.read + used.written,
        **used.shares(),
    }
    return {
        "id": response_id(answer.run),
        "object": "response",
        "created_at": answer.created,
        "status": "incomplete" if is_cut else status,
        "background": asked.is_background,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "instructions": asked.system,
        "max_output_tokens": asked.max_tokens,
        "model": answer.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": asked.continues or None,
        "store": asked.conditions.is_kept,
        "temperature": asked.temperature,
        "text": {"format": _format(asked)},
        "tool_choice": "auto",
        "tools": [_tool_object(tool) for tool in asked.tools.tools] if asked.tools else [],
        "top_p": asked.top_p,
        "truncation": "disabled",
        "usage": usage if status == "completed" else None,
        "metadata": {},
        "baton": answer.report,
    }


def _format(asked: ClientRequest) -> dict[str, Any]:
    if asked.shape is None:
        return {"type": "text"}
    schema = json.loads(asked.shape.schema)
    return {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}


def _tool_object(tool: Tool) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "strict": False,
    }


class ResponseStream:
    """Writes an answer as the events of a stream, while it comes."""

    def __init__(self, asked: ClientRequest) -> None:
        self._asked = asked
        self._number = -1
        self._items: list[dict[str, Any]] = []
        self._text = ""
        self._is_open = False

    def begin(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes before the first piece."""
        started = response(answer, self._asked, "in_progress")
        return [
            self._event("response.created", response=started),
            self._event("response.in_progress", response=started),
        ]

    def text(self, answer: Answer, piece: str) -> list[dict[str, Any]]:
        """Return a piece of the answer."""
        events = []
        if not self._is_open:
            self._is_open = True
            item = {**_text_item(answer, ""), "status": "in_progress", "content": []}
            index, place = len(self._items), self._place(answer)
            events = [
                self._event("response.output_item.added", output_index=index, item=item),
                self._event("response.content_part.added", **place, part=_part("")),
            ]
        self._text += piece
        place = self._place(answer)
        delta = self._event("response.output_text.delta", **place, delta=piece, logprobs=[])
        return [*events, delta]

    def call(self, answer: Answer, call: ToolCall) -> list[dict[str, Any]]:
        """Return a call of a tool."""
        events = self._close_text(answer)
        index, item = len(self._items), _call_item(call)
        place = {"item_id": item["id"], "output_index": index}
        begun = {**item, "arguments": "", "status": "in_progress"}
        events += [
            self._event("response.output_item.added", output_index=index, item=begun),
            self._event("response.function_call_arguments.delta", **place, delta=call.arguments),
            self._event(
                "response.function_call_arguments.done",
                **place,
                name=call.name,
                arguments=call.arguments,
            ),
            self._event("response.output_item.done", output_index=index, item=item),
        ]
        self._items.append(item)
        return events

    def end(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes after the last piece."""
        events = [] if self._is_open or self._items else self.text(answer, "")
        events += self._close_text(answer)
        whole = {**response(answer, self._asked), "output": self._items}
        return [*events, self._event(f"response.{whole['status']}", response=whole)]

    def _close_text(self, answer: Answer) -> list[dict[str, Any]]:
        if not self._is_open:
            return []
        self._is_open = False
        place, item = self._place(answer), _text_item(answer, self._text)
        events = [
            self._event("response.output_text.done", **place, text=self._text, logprobs=[]),
            self._event("response.content_part.done", **place, part=_part(self._text)),
            self._event("response.output_item.done", output_index=len(self._items), item=item),
        ]
        self._items.append(item)
        self._text = ""
        return events

    def _place(self, answer: Answer) -> dict[str, Any]:
        return {
            "item_id": _text_id(answer),
            "output_index": len(self._items),
            "content_index": 0,
        }

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}


def _text_id(answer: Answer) -> str:
    return f"msg_{answer.run}"


def _text_item(answer: Answer, text: str) -> dict[str, Any]:
    return {
        "id": _text_id(answer),
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [_part(text)],
    }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_item(call: ToolCall) -> dict[str, Any]:
    return {
        "id": f"fc_{call.id.removeprefix('call_')}",
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "status": "completed",
    }
