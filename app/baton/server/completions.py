"""OpenAI's legacy Completions: what a request says, and how its answer is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from baton.core.messages import Role
from baton.server.api_errors import ApiError, bad_request
from baton.server.chat_completions import StreamFields, completion
from baton.server.client_request import (
    ClientRequest,
    ConditionFields,
    check_count,
    check_fields,
    check_range,
    read_conditions,
    read_fields,
    read_model,
    read_stop,
)
from baton.server.request_messages import Spoken, split_conversation
from baton.server.served_answer import Answer
from baton.server.tool_calls import ToolCall

USUAL_MAX_TOKENS = 16
"""How many tokens an answer has where nothing is said of it, as at OpenAI."""

NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (0, False),
    "n": (1,),
    "suffix": ("",),
}


class CompletionRequest(msgspec.Struct, frozen=True):
    """A request's fields, as far as Baton keeps to them."""

    prompt: str | list[Any]
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamFields | None = None
    store: bool | None = None
    baton: ConditionFields | None = None


def read_completion(body: Mapping[str, Any], headers: Mapping[str, str]) -> ClientRequest:
    """Return what a request asks for. Raises ApiError."""
    warnings: list[str] = []
    sampling = check_fields(body, CompletionRequest, frozenset({"user"}), NEUTRAL, warnings)
    asked = read_fields(body, CompletionRequest)
    prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
    if len(prompts) != 1 or not isinstance(prompts[0], str):
        raise bad_request("The prompt has to be one text, and no tokens.", "prompt")
    most = USUAL_MAX_TOKENS if asked.max_tokens is None else asked.max_tokens
    return ClientRequest(
        read_model(asked.model),
        *split_conversation([Spoken(Role.USER, prompts[0])], "prompt"),
        max_tokens=check_count(most, "max_tokens"),
        temperature=check_range(asked.temperature, 2.0, "temperature"),
        top_p=check_range(asked.top_p, 1.0, "top_p"),
        seed=None if asked.seed is None else asked.seed % 2**32,
        stop=read_stop(asked.stop, "stop"),
        is_streamed=bool(asked.stream),
        has_usage=bool(asked.stream_options and asked.stream_options.include_usage),
        sampling=sampling,
        conditions=read_conditions(headers, asked.baton, asked.store),
        warnings=tuple(warnings),
    )


def completion_object(answer: Answer, asked: ClientRequest) -> dict[str, Any]:
    """Return a whole answer as one object."""
    whole = _piece(answer, answer.text, answer.finish)
    return {**whole, "usage": completion(answer, asked)["usage"], "baton": answer.report}


class CompletionStream:
    """Writes an answer as the objects of a stream, while it comes."""

    def __init__(self, asked: ClientRequest) -> None:
        self._asked = asked

    def begin(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes before the first piece."""
        return []

    def text(self, answer: Answer, piece: str) -> list[dict[str, Any]]:
        """Return a piece of the answer."""
        return [_piece(answer, piece)]

    def call(self, answer: Answer, call: ToolCall) -> list[dict[str, Any]]:
        """Return a call of a tool, of which there are none here."""
        return []

    def end(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes after the last piece."""
        last = {**_piece(answer, "", answer.finish), "baton": answer.report}
        if not self._asked.has_usage:
            return [last]
        usage = completion(answer, self._asked)["usage"]
        return [last, {**_piece(answer, ""), "choices": [], "usage": usage}]

    def fail(self, answer: Answer, error: ApiError) -> list[dict[str, Any]]:
        """Return what ends a stream that can't be gone on with."""
        return [error.openai()]


def _piece(answer: Answer, text: str, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    return {
        "id": f"cmpl-{answer.run}",
        "object": "text_completion",
        "created": answer.created,
        "model": answer.model,
        "choices": [choice],
    }
