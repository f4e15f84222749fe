"""OpenAI's Chat Completions and its legacy Completions: how requests are read, answers written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from baton.core.messages import Role
from baton.server.api_errors import bad_request
from baton.server.client_request import (
    OPENAI_HARMLESS,
    ClientRequest,
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

HARMLESS = OPENAI_HARMLESS | {"metadata", "prediction", "reasoning_effort", "verbosity"}

NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "logprobs": (False,),
    "modalities": (["text"],),
    "n": (1,),
    "top_logprobs": (0,),
}


class CalledFunction(msgspec.Struct, frozen=True):
    """A function that was called, with the JSON of its arguments; of a custom tool its text."""

    name: str
    arguments: Any = ""
    input: str = ""


class CallFields(msgspec.Struct, frozen=True):
    """A tool call of an earlier turn."""

    id: str | int | None = None
    function: CalledFunction | None = None
    custom: CalledFunction | None = None


class MessageFields(msgspec.Struct, frozen=True):
    """A message of the conversation."""

    role: str
    content: str | list[Any] | dict[str, Any] | None = None
    tool_calls: list[CallFields] | None = None
    tool_call_id: str | int | None = None
    function_call: CalledFunction | None = None
    name: str | None = None


class SchemaFields(msgspec.Struct, frozen=True):
    """A named JSON Schema."""

    schema: dict[str, Any] | None = None
    name: str | None = None


class ChatFormatFields(msgspec.Struct, frozen=True):
    """The form that the answer must have."""

    type: str | None = None
    json_schema: SchemaFields | None = None


class StreamFields(msgspec.Struct, frozen=True):
    """What comes with a stream."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class CompletionFields(SharedFields, frozen=True, kw_only=True):
    """What a request of either kind may say."""

    max_tokens: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream_options: StreamFields | None = None
    store: bool | None = None


class ChatRequest(CompletionFields, frozen=True, kw_only=True):
    """A request's fields, as far as Baton keeps to them."""

    messages: tuple[MessageFields, ...] = ()
    max_completion_tokens: int | None = None
    response_format: ChatFormatFields | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: list[dict[str, Any]] | None = None
    function_call: str | dict[str, Any] | None = None


def read_chat(body: Mapping[str, Any], headers: Mapping[str, str]) -> ClientRequest:
    """Return what a request asks for. Raises ApiError."""
    warnings: list[str] = []
    sampling = check_fields(body, ChatRequest, HARMLESS, NEUTRAL, warnings)
    asked = read_fields(body, ChatRequest)
    tools = read_tools([*(asked.tools or ()), *(asked.functions or ())], warnings)
    wanted = asked.function_call if asked.tool_choice is None else asked.tool_choice
    is_single = asked.parallel_tool_calls is False or bool(asked.functions)
    choice = read_choice(wanted, is_single=is_single, warnings=warnings)
    answer_format = asked.response_format or ChatFormatFields()
    schema = (answer_format.json_schema or SchemaFields()).schema
    limit = asked.max_completion_tokens
    limit = asked.max_tokens if limit is None else limit
    return ClientRequest(
        read_model(asked.model),
        *split_conversation(_spoken(asked.messages, tools, warnings), "messages"),
        max_tokens=check_count(limit, "max_tokens"),
        seed=None if asked.seed is None else asked.seed % 2**32,
        stop=read_stop(asked.stop, "stop"),
        shape=read_form(
            answer_format.type, schema, "response_format", warnings, "json_schema.schema"
        ),
        tools=offer_tools(tools, choice, warnings),
        has_usage=bool(asked.stream_options and asked.stream_options.include_usage),
        sampling=sampling,
        has_functions=bool(asked.functions) and not asked.tools,
        conditions=read_conditions(headers, asked.baton, asked.store),
        **asked.values(warnings),
    )


def _spoken(
    messages: Sequence[MessageFields], tools: Sequence[Tool], warnings: list[str]
) -> Iterator[Spoken]:
    """Yield messages as workers read them: calls of tools and their results are text."""
    names: dict[str, str] = {}
    for place, message in enumerate(messages):
        text, media = read_content(message.content, f"messages[{place}]", warnings)
        if message.role in ("tool", "function"):
            id = str(message.tool_call_id or "")
            name = message.name or called_name(id, names, tools)
            yield Spoken(Role.USER, result_text(names.get(id, name), text))
            continue
        role = read_role(message.role, warnings, f"messages[{place}]")
        calls = [*(message.tool_calls or ())]
        if message.function_call is not None:
            calls.append(CallFields(function=message.function_call))
        texts = [text] if text else []
        for call in calls if role is Role.ASSISTANT else ():
            if (called := call.function or call.custom) is None:
                continue
            names[str(call.id or "")] = called.name
            arguments = called.arguments if call.function else {"input": called.input}
            texts.append(call_text(called.name, arguments))
        yield Spoken(role, "\n".join(texts), media if role is Role.USER else "")


def completion(answer: Answer, asked: ClientRequest) -> dict[str, Any]:
    """Return a whole answer as one object."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answer.text or (None if answer.calls else ""),
        "refusal": None,
    }
    if answer.calls and asked.has_functions:
        message["function_call"] = _function(answer.calls[0])
    elif answer.calls:
        message["tool_calls"] = [_call(call) for call in answer.calls]
    finish = _finish(answer, asked)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    return {
        **_head(answer, "chat.completion"),
        "choices": [choice],
        "usage": _usage(answer),
        "baton": answer.report,
    }


class ChatStream(StreamWriter):
    """Writes an answer as the objects of a stream, while it comes."""

    def __init__(self, asked: ClientRequest) -> None:
        self._asked = asked
        self._calls = 0

    def begin(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes before the first piece."""
        return [self._chunk(answer, {"role": "assistant", "content": "", "refusal": None})]

    def text(self, answer: Answer, piece: str) -> list[dict[str, Any]]:
        """Return a piece of the answer."""
        return [self._chunk(answer, {"content": piece})]

    def call(self, answer: Answer, call: ToolCall) -> list[dict[str, Any]]:
        """Return a call of a tool."""
        delta: dict[str, Any] = {"tool_calls": [{"index": self._calls, **_call(call)}]}
        if self._asked.has_functions:
            delta = {"function_call": _function(call)}
        self._calls += 1
        return [self._chunk(answer, delta)]

    def end(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes after the last piece."""
        last = self._chunk(answer, {}, _finish(answer, self._asked))
        last["baton"] = answer.report
        if not self._asked.has_usage:
            return [last]
        usage = {**_head(answer, "chat.completion.chunk"), "choices": [], "usage": _usage(answer)}
        return [last, usage]

    def _chunk(
        self, answer: Answer, delta: Mapping[str, Any], finish: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk: dict[str, Any] = {**_head(answer, "chat.completion.chunk"), "choices": [choice]}
        if self._asked.has_usage:
            chunk["usage"] = None
        return chunk


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.run}",
        "object": kind,
        "created": answer.created,
        "model": answer.model,
    }


def _finish(answer: Answer, asked: ClientRequest) -> str:
    is_call = answer.finish == "tool_calls" and asked.has_functions
    return "function_call" if is_call else answer.finish


def _function(call: ToolCall) -> dict[str, str]:
    return {"name": call.name, "arguments": call.arguments}


def _call(call: ToolCall) -> dict[str, Any]:
    if call.tool.is_custom:
        custom = {"name": call.name, "input": call.input}
        return {"id": call.id, "type": "custom", "custom": custom}
    return {"id": call.id, "type": "function", "function": _function(call)}


def _usage(answer: Answer) -> dict[str, Any]:
    used = answer.usage
    return {
        "prompt_tokens": used.read,
        "completion_tokens": used.written,
        "total_tokens": used.read + used.written,
        "prompt_tokens_details": {"cached_tokens": used.cached},
        **used.shares(),
    }


USUAL_MAX_TOKENS = 16
"""How many tokens an answer has where the request has no cap, as at OpenAI."""

LEGACY_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (0, False),
    "n": (1,),
    "suffix": ("",),
}


class CompletionRequest(CompletionFields, frozen=True, kw_only=True):
    """A request's fields, as far as Baton keeps to them."""

    prompt: str | list[Any]


def read_completion(body: Mapping[str, Any], headers: Mapping[str, str]) -> ClientRequest:
    """Return what a request asks for. Raises ApiError."""
    warnings: list[str] = []
    sampling = check_fields(body, CompletionRequest, frozenset({"user"}), LEGACY_NEUTRAL, warnings)
    asked = read_fields(body, CompletionRequest)
    prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
    if len(prompts) != 1 or not isinstance(prompts[0], str):
        raise bad_request("The prompt has to be one text, not tokens.", "prompt")
    most = USUAL_MAX_TOKENS if asked.max_tokens is None else asked.max_tokens
    return ClientRequest(
        read_model(asked.model),
        *split_conversation([Spoken(Role.USER, prompts[0])], "prompt"),
        max_tokens=check_count(most, "max_tokens"),
        seed=None if asked.seed is None else asked.seed % 2**32,
        stop=read_stop(asked.stop, "stop"),
        has_usage=bool(asked.stream_options and asked.stream_options.include_usage),
        sampling=sampling,
        conditions=read_conditions(headers, asked.baton, asked.store),
        **asked.values(warnings),
    )


def completion_object(answer: Answer, asked: ClientRequest) -> dict[str, Any]:
    """Return a whole answer as one object."""
    whole = _piece(answer, answer.text, answer.finish)
    return {**whole, "usage": completion(answer, asked)["usage"], "baton": answer.report}


class CompletionStream(StreamWriter):
    """Writes an answer as the objects of a stream, while it comes."""

    def __init__(self, asked: ClientRequest) -> None:
        self._asked = asked

    def text(self, answer: Answer, piece: str) -> list[dict[str, Any]]:
        """Return a piece of the answer."""
        return [_piece(answer, piece)]

    def end(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes after the last piece."""
        last = {**_piece(answer, "", answer.finish), "baton": answer.report}
        if not self._asked.has_usage:
            return [last]
        usage = completion(answer, self._asked)["usage"]
        return [last, {**_piece(answer, ""), "choices": [], "usage": usage}]


def _piece(answer: Answer, text: str, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    return {
        "id": f"cmpl-{answer.run}",
        "object": "text_completion",
        "created": answer.created,
        "model": answer.model,
        "choices": [choice],
    }
