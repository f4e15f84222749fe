"""Tools of the client's, offered to any worker in the form that open models were trained on.

The tools stand in the system text, a call is a JSON object between `<tool_call>` tags, and what a
tool gave comes back between `<tool_response>` tags: the form of Hermes 2 Pro (Nous Research, 2024),
which the chat templates of Qwen, SmolLM2 and others have as well. It needs nothing of a worker but
text, so that every worker can be asked, and a provider is sent nothing that it charges extra for.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from baton.core.messages import AnswerFormat
from baton.core.schema_bounds import schema_problem
from baton.core.stop_sequences import held_back
from baton.server.api_errors import bad_request

MAX_TOOLS = 128
MAX_DEPTH = 100
"""How many levels of JSON are read: what is deeper can't be written again from any place."""

OPEN, CLOSE = "<tool_call>", "</tool_call>"


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the client's; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """The tools of a request; with `must_call` one of them has to be called."""

    tools: tuple[Tool, ...]
    must_call: bool = False

    def instructions(self) -> str:
        """Return what a worker reads of them."""
        described = "\n".join(_as_json(_described(tool)) for tool in self.tools)
        return (
            "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
            f"You are provided with function signatures within <tools></tools> tags:\n<tools>\n"
            f"{described}\n</tools>\n\n"
            "For each function call, return a JSON object with the function's name and arguments"
            f' within {OPEN}{CLOSE} tags:\n{OPEN}\n{{"name": <function-name>, "arguments":'
            f" <arguments-object>}}\n{CLOSE}"
        )

    def shape(self) -> AnswerFormat | None:
        """Return the form of an answer that can only be a call, None where it may be text."""
        if not self.must_call:
            return None
        calls = [
            {
                "type": "object",
                "properties": {
                    "name": {"const": tool.name},
                    "arguments": tool.parameters or {"type": "object"},
                },
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for tool in self.tools
        ]
        return AnswerFormat("", _as_json(calls[0] if len(calls) == 1 else {"anyOf": calls}))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a worker wrote; `arguments` is a JSON object's text."""

    id: str
    name: str
    arguments: str


class ToolCallReader:
    """Takes the calls out of an answer while it is written; the rest is its text."""

    def __init__(self, offer: ToolOffer) -> None:
        self._names = {tool.name for tool in offer.tools}
        self._is_bare = offer.must_call
        self._pending = ""
        self._is_inside = False

    def feed(self, text: str) -> tuple[str, list[ToolCall]]:
        """Return the text that is no part of a call, and the calls that are whole now."""
        self._pending += text
        if self._is_bare:
            return "", []
        shown = ""
        found: list[ToolCall] = []
        while True:
            mark = CLOSE if self._is_inside else OPEN
            before, seen, after = self._pending.partition(mark)
            if not seen:
                break
            if self._is_inside:
                call = self._read(before)
                shown += "" if call else OPEN + before + CLOSE
                found += [call] if call else []
            else:
                shown += before.rstrip() if not after.strip() else before
            self._pending, self._is_inside = after, not self._is_inside
        if not self._is_inside:
            kept = held_back(self._pending, [OPEN])
            shown += self._pending[: len(self._pending) - kept]
            self._pending = self._pending[len(self._pending) - kept :]
        return shown, found

    def finish(self) -> tuple[str, list[ToolCall]]:
        """Return what is left at the answer's end: a call may lack its closing tag."""
        left, self._pending = self._pending, ""
        if not (self._is_inside or self._is_bare):
            return left, []
        if (call := self._read(left)) is None:
            return (left if self._is_bare else OPEN + left), []
        return "", [call]

    def _read(self, text: str) -> ToolCall | None:
        """Return the call that a text is, None where it is no call of a tool that there is."""
        try:
            call = msgspec.json.decode(text.strip().encode("utf-8", "replace"), type=_WrittenCall)
        except (msgspec.MsgspecError, RecursionError):
            return None
        if call.name not in self._names or is_too_deep(call.arguments):
            return None
        return ToolCall(f"call_{os.urandom(12).hex()}", call.name, _as_json(call.arguments))


async def read_calls(
    offer: ToolOffer | None, pieces: AsyncGenerator[str]
) -> AsyncGenerator[tuple[str, list[ToolCall]]]:
    """Yield an answer's text without the calls of the client's tools, and those calls."""
    if offer is None:
        async for piece in pieces:
            yield piece, []
        return
    reader = ToolCallReader(offer)
    async for piece in pieces:
        text, calls = reader.feed(piece)
        if text or calls:
            yield text, calls
    text, calls = reader.finish()
    if text or calls:
        yield text, calls


class _WrittenCall(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any] = {}


def call_text(name: str, arguments: str) -> str:
    """Return a call of an earlier turn as a worker would have written it."""
    try:
        parsed = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        parsed = arguments
    if is_too_deep(parsed):
        parsed = arguments
    return f"{OPEN}\n{_as_json({'name': name, 'arguments': parsed})}\n{CLOSE}"


def result_text(name: str, text: str) -> str:
    """Return what a tool gave as a worker reads it."""
    return f"<tool_response>\n{_as_json({'name': name, 'content': text})}\n</tool_response>"


def read_tools(tools: Iterable[Tool], choice: object, param: str = "tools") -> ToolOffer | None:
    """Return what a request offers; `choice` is "auto", "none", "required" or a tool's name.

    Raises ApiError.
    """
    offered = tuple(tools)
    if len(offered) > MAX_TOOLS:
        raise bad_request(f"There may be {MAX_TOOLS} tools.", param)
    if not offered or choice == "none":
        return None
    if choice in ("auto", None):
        return ToolOffer(offered)
    named = tuple(tool for tool in offered if choice in ("required", tool.name))
    if not named:
        raise bad_request("The tool that must be called is not among the tools.", "tool_choice")
    for tool in named:
        if problem := schema_problem(tool.parameters):
            raise bad_request(problem, param)
    return ToolOffer(named, must_call=True)


def with_instructions(system: str | None, offer: ToolOffer | None) -> str | None:
    """Return a system text that describes the tools as well."""
    if offer is None:
        return system
    return f"{system}\n\n{offer.instructions()}" if system else offer.instructions()


def is_too_deep(value: object, levels: int = MAX_DEPTH) -> bool:
    """Return whether a JSON value is nested more levels deep than that."""
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(is_too_deep(part, levels - 1) for part in parts)


def _described(tool: Tool) -> Mapping[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
