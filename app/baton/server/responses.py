"""OpenAI's Responses: what a request says, and how its answer is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from baton.core.messages import Role
from baton.server.api_errors import ApiError, bad_request
from baton.server.client_request import (
    OPENAI_HARMLESS,
    ClientRequest,
    FormatFields,
    SharedFields,
    check_count,
    check_fields,
    read_conditions,
    read_fields,
    read_form,
    read_model,
)
from baton.server.request_messages import (
    Spoken,
    note_unknown,
    read_content,
    read_role,
    split_conversation,
)
from baton.server.served_run import Answer, StreamWriter
from baton.server.tool_calls import ToolCall, call_text, called_name, result_text
from baton.server.tool_offer import Tool, offer_tools, read_choice, read_tools

HARMLESS = OPENAI_HARMLESS | {
    "client_metadata",
    "include",
    "max_tool_calls",
    "reasoning",
    "stream_options",
    "truncation",
}

MAX_METADATA_CHARS = 20_000

NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "conversation": (),
    "prompt": (),
    "top_logprobs": (0,),
}


class TextFields(msgspec.Struct, frozen=True):
    """How the answer's text must be."""

    format: FormatFields | None = None
    verbosity: str | None = None


class ResponsesRequest(SharedFields, frozen=True, kw_only=True):
    """A request's fields, as far as Baton keeps to them."""

    input: str | list[Any] | dict[str, Any] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    text: TextFields | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    metadata: dict[str, Any] | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    store: bool | None = None


def read_responses(body: Mapping[str, Any], headers: Mapping[str, str]) -> ClientRequest:
    """Return what a request asks for. Raises ApiError."""
    warnings: list[str] = []
    sampling = check_fields(body, ResponsesRequest, HARMLESS, NEUTRAL, warnings)
    asked = read_fields(body, ResponsesRequest)
    if len(str(asked.metadata or "")) > MAX_METADATA_CHARS:
        most = f"The metadata may have {MAX_METADATA_CHARS:,} characters."
        raise bad_request(most, "metadata")
    tools = read_tools(asked.tools or (), warnings)
    spoken = [Spoken(Role.SYSTEM, asked.instructions)] if asked.instructions else []
    items = [asked.input] if isinstance(asked.input, dict) else asked.input or []
    spoken += _spoken(items, tools, warnings)
    answer_format = (asked.text or TextFields()).format or FormatFields()
    conditions = read_conditions(headers, asked.baton, asked.store)
    if asked.background and not conditions.is_kept:
        raise bad_request("A response in the background has to be stored.", "store")
    is_single = asked.parallel_tool_calls is False
    choice = read_choice(asked.tool_choice, is_single=is_single, warnings=warnings)
    return ClientRequest(
        read_model(asked.model),
        *split_conversation(spoken, "input", may_be_empty=True),
        max_tokens=check_count(asked.max_output_tokens, "max_output_tokens"),
        shape=read_form(answer_format.type, answer_format.schema, "text.format", warnings),
        tools=offer_tools(tools, choice, warnings),
        is_background=bool(asked.background),
        continues=asked.previous_response_id or "",
        sampling=sampling,
        conditions=conditions,
        echoed={
            "instructions": asked.instructions,
            "metadata": asked.metadata or {},
            "parallel_tool_calls": not is_single,
            "tool_choice": asked.tool_choice or "auto",
            "tools": asked.tools or [],
        },
        **asked.values(warnings),
    )


def response_id(run: str) -> str:
    """Return the id of the response that a run gave."""
    return f"resp_{run}"


def _spoken(items: str | list[Any], tools: Sequence[Tool], warnings: list[str]) -> Iterator[Spoken]:
    """Yield items as workers read them; thoughts of an earlier turn are left out."""
    if isinstance(items, str):
        yield Spoken(Role.USER, items)
        return
    names: dict[str, str] = {}
    skipped: dict[str, None] = {}
    for place, item in enumerate(items):
        param = f"input[{place}]"
        if isinstance(item, str):
            yield Spoken(Role.USER, item)
            continue
        kind = item.get("type") if isinstance(item, Mapping) else item
        kind = "message" if kind is None else kind
        if not isinstance(item, Mapping) or not isinstance(kind, str):
            raise bad_request("An item of the input is not an object with a type.", param)
        if kind == "message":
            role = read_role(item.get("role"), warnings, param)
            text, media = read_content(item.get("content"), param, warnings)
            yield Spoken(role, text, media if role is Role.USER else "")
        elif (spoken := _called(item, kind, names, tools, param, warnings)) is not None:
            yield spoken
        elif kind != "reasoning":
            skipped[kind] = None
    note_unknown((f"input of the type {kind}" for kind in skipped), warnings)


def _called(
    item: Mapping[str, Any],
    kind: str,
    names: dict[str, str],
    tools: Sequence[Tool],
    param: str,
    warnings: list[str],
) -> Spoken | None:
    """Return a call of a tool, or what one gave, as workers read it; None for anything else."""
    call = str(item.get("call_id"))
    if kind in ("function_call", "custom_tool_call"):
        names[call] = name = str(item.get("name"))
        is_custom = kind == "custom_tool_call"
        arguments = {"input": item.get("input")} if is_custom else item.get("arguments") or ""
        return Spoken(Role.ASSISTANT, call_text(name, arguments))
    if "output" not in item or "call_id" not in item:
        return None
    output = item["output"]
    if isinstance(output, Mapping):
        output = output.get("content") or output
    text, _ = read_content(output, param, warnings)
    return Spoken(Role.USER, result_text(called_name(call, names, tools), text))


_ECHOED: Mapping[str, Any] = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


def failed_response(answer: Answer, asked: ClientRequest, error: ApiError) -> dict[str, Any]:
    """Return what is left of a response that failed."""
    code = error.code if error.status < 500 else "server_error"
    failure = {"code": code, "message": error.message}
    return {**response(answer, asked, "failed"), "error": failure}


def response(answer: Answer, asked: ClientRequest, status: str = "completed") -> dict[str, Any]:
    """Return an answer, or as much of it as there is, as one object."""
    is_cut = status == "completed" and answer.finish == "length"
    output: list[dict[str, Any]] = []
    if status == "completed":
        if answer.text or not answer.calls:
            output.append(_text_item(answer, answer.text))
        output += [_call_item(call) for call in answer.calls]
    answer_format: dict[str, Any] = {"type": "text"}
    if asked.shape is not None:
        schema = json.loads(asked.shape.schema)
        answer_format = {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
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
        "max_output_tokens": asked.max_tokens,
        "model": answer.model,
        "output": output,
        "previous_response_id": asked.continues or None,
        "store": asked.conditions.is_kept,
        "temperature": asked.temperature,
        "text": {"format": answer_format},
        "top_p": asked.top_p,
        "truncation": "disabled",
        "usage": usage if status == "completed" else None,
        **_ECHOED,
        **asked.echoed,
        "baton": answer.report,
    }


_ARGUMENTS = "function_call_arguments"


class ResponseStream(StreamWriter):
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
        field = "input" if call.tool.is_custom else "arguments"
        kind = f"response.{'custom_tool_call_input' if call.tool.is_custom else _ARGUMENTS}"
        begun = {**item, field: "", "status": "in_progress"}
        done = {field: item[field]} | ({} if call.tool.is_custom else {"name": call.name})
        events += [
            self._event("response.output_item.added", output_index=index, item=begun),
            self._event(f"{kind}.delta", **place, delta=item[field]),
            self._event(f"{kind}.done", **place, **done),
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

    def fail(self, answer: Answer, error: ApiError) -> list[dict[str, Any]]:
        """Return what ends a stream that can't be continued."""
        events = self._close_text(answer)
        whole = {**failed_response(answer, self._asked, error), "output": self._items}
        return [*events, self._event("response.failed", response=whole)]

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
    is_custom = call.tool.is_custom
    item = {
        "id": f"{'ctc' if is_custom else 'fc'}_{call.id.removeprefix('call_')}",
        "type": "custom_tool_call" if is_custom else "function_call",
        "call_id": call.id,
        "name": call.name,
        "status": "completed",
    }
    item |= {"input": call.input} if is_custom else {"arguments": call.arguments}
    return item | ({"namespace": call.tool.namespace} if call.tool.namespace else {})
