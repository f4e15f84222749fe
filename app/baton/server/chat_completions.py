"""OpenAI's Chat Completions: what a request says, and how its answer is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from baton.core.messages import AnswerFormat, Message, Role
from baton.server.api_errors import bad_request
from baton.server.client_request import (
    ANY_OBJECT,
    ClientRequest,
    ConditionFields,
    check_count,
    check_range,
    json_shape,
    read_conditions,
    read_fields,
    read_stop,
    read_text,
    refuse_unknown,
    split_conversation,
)
from baton.server.served_answer import Answer
from baton.server.tool_calls import (
    Tool,
    ToolCall,
    ToolOffer,
    call_text,
    read_tools,
    result_text,
)

HARMLESS = frozenset(
    {
        "metadata",
        "parallel_tool_calls",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "user",
        "verbosity",
    }
)
"""Fields that tune how a provider makes or bills an answer, not what is asked for."""

NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "frequency_penalty": (0,),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "n": (1,),
    "presence_penalty": (0,),
    "top_logprobs": (0,),
}


class FunctionFields(msgspec.Struct, frozen=True):
    """A function that the client offers."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ToolFields(msgspec.Struct, frozen=True):
    """A tool; only functions can be offered."""

    type: str
    function: FunctionFields | None = None


class CalledFunction(msgspec.Struct, frozen=True):
    """A function that was called, with the JSON of its arguments."""

    name: str
    arguments: str = ""


class CallFields(msgspec.Struct, frozen=True):
    """A tool call of an earlier turn."""

    id: str
    function: CalledFunction


class MessageFields(msgspec.Struct, frozen=True):
    """A message of the conversation."""

    role: str
    content: str | list[Any] | None = None
    tool_calls: list[CallFields] | None = None
    tool_call_id: str = ""
    name: str | None = None


class SchemaFields(msgspec.Struct, frozen=True):
    """A named JSON Schema."""

    schema: dict[str, Any] | None = None
    name: str = ""


class FormatFields(msgspec.Struct, frozen=True):
    """The form that the answer must have."""

    type: str = "text"
    json_schema: SchemaFields | None = None


class StreamFields(msgspec.Struct, frozen=True):
    """What comes with a stream."""

    include_usage: bool = False
    include_obfuscation: bool = False


class ChatRequest(msgspec.Struct, frozen=True):
    """A request's fields, as far as Baton keeps to them."""

    model: str
    messages: list[MessageFields]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    response_format: FormatFields | None = None
    tools: list[ToolFields] | None = None
    tool_choice: str | dict[str, Any] | None = None
    stream: bool | None = None
    stream_options: StreamFields | None = None
    store: bool | None = None
    baton: ConditionFields | None = None


def read_chat(body: Mapping[str, Any], headers: Mapping[str, str]) -> ClientRequest:
    """Return what a request asks for. Raises ApiError."""
    refuse_unknown(body, ChatRequest, HARMLESS, NEUTRAL)
    asked = read_fields(body, ChatRequest)
    conditions = read_conditions(headers, asked.baton, asked.store)
    return ClientRequest(
        asked.model,
        *split_conversation(_messages(asked.messages), "messages"),
        max_tokens=check_count(asked.max_completion_tokens or asked.max_tokens, "max_tokens"),
        temperature=check_range(asked.temperature, 2.0, "temperature"),
        top_p=check_range(asked.top_p, 1.0, "top_p"),
        seed=None if asked.seed is None else asked.seed % 2**32,
        stop=read_stop(asked.stop, "stop"),
        shape=_shape(asked.response_format),
        tools=_tools(asked),
        is_streamed=bool(asked.stream),
        has_usage=bool(asked.stream_options and asked.stream_options.include_usage),
        conditions=conditions,
    )


def _messages(said: list[MessageFields]) -> list[Message]:
    """Return messages as workers read them: calls of tools and their results are text."""
    names: dict[str, str] = {}
    messages = []
    for place, message in enumerate(said):
        param = f"messages[{place}]"
        text = read_text(message.content, frozenset({"text", "refusal"}), param)
        match message.role:
            case "system" | "developer":
                messages.append(Message(Role.SYSTEM, text))
            case "user":
                messages.append(Message(Role.USER, text))
            case "assistant":
                for call in message.tool_calls or ():
                    names[call.id] = call.function.name
                    called = call_text(call.function.name, call.function.arguments)
                    text = f"{text}\n{called}".strip()
                messages.append(Message(Role.ASSISTANT, text))
            case "tool":
                name = names.get(message.tool_call_id, message.name or "tool")
                messages.append(Message(Role.USER, result_text(name, text)))
            case role:
                raise bad_request(f"There is no role {role[:40]!r}.", f"{param}.role")
    return messages


def _shape(asked: FormatFields | None) -> AnswerFormat | None:
    match asked.type if asked is not None else "text":
        case "text":
            return None
        case "json_object":
            return json_shape(ANY_OBJECT, "response_format")
        case "json_schema":
            named = asked.json_schema if asked is not None else None
            schema = named.schema if named is not None else None
            return json_shape(schema, "response_format.json_schema.schema")
        case kind:
            message = f"There is no response format {kind[:40]!r}."
            raise bad_request(message, "response_format.type")


def _tools(asked: ChatRequest) -> ToolOffer | None:
    choice = asked.tool_choice
    if isinstance(choice, dict):
        function = choice.get("function")
        choice = function.get("name") if isinstance(function, dict) else None
        if not isinstance(choice, str):
            raise bad_request("This choice of a tool names no function.", "tool_choice")
    return read_tools([_tool(tool) for tool in asked.tools or ()], choice)


def _tool(tool: ToolFields) -> Tool:
    function = tool.function
    if tool.type != "function" or function is None:
        raise bad_request("Only functions can be offered as tools.", "tools")
    return Tool(function.name, function.description or "", function.parameters or {})


def completion(answer: Answer) -> dict[str, Any]:
    """Return a whole answer as one object."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answer.text or (None if answer.calls else ""),
        "refusal": None,
    }
    if answer.calls:
        message["tool_calls"] = [_call(call) for call in answer.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}
    return {
        **_head(answer, "chat.completion"),
        "choices": [choice],
        "usage": _usage(answer),
        "baton": answer.report,
    }


class ChatStream:
    """Writes an answer as the objects of a stream, while it comes."""

    def __init__(self, has_usage: bool) -> None:
        self._has_usage = has_usage
        self._calls = 0

    def begin(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes before the first piece."""
        return [self._chunk(answer, {"role": "assistant", "content": "", "refusal": None})]

    def text(self, answer: Answer, piece: str) -> list[dict[str, Any]]:
        """Return a piece of the answer."""
        return [self._chunk(answer, {"content": piece})]

    def call(self, answer: Answer, call: ToolCall) -> list[dict[str, Any]]:
        """Return a call of a tool."""
        delta = {"tool_calls": [{"index": self._calls, **_call(call)}]}
        self._calls += 1
        return [self._chunk(answer, delta)]

    def end(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes after the last piece."""
        last = self._chunk(answer, {}, answer.finish)
        last["baton"] = answer.report
        if not self._has_usage:
            return [last]
        usage = {**_head(answer, "chat.completion.chunk"), "choices": [], "usage": _usage(answer)}
        return [last, usage]

    def _chunk(
        self, answer: Answer, delta: Mapping[str, Any], finish: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk: dict[str, Any] = {**_head(answer, "chat.completion.chunk"), "choices": [choice]}
        if self._has_usage:
            chunk["usage"] = None
        return chunk


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.run}",
        "object": kind,
        "created": answer.created,
        "model": answer.model,
    }


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _usage(answer: Answer) -> dict[str, Any]:
    used = answer.usage
    return {
        "prompt_tokens": used.read,
        "completion_tokens": used.written,
        "total_tokens": used.read + used.written,
        "prompt_tokens_details": {"cached_tokens": used.cached},
        **used.shares(),
    }
