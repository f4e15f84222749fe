"""Tool calls: read from what a worker writes, and written for it to read.

Models write a call in many forms: as they were asked to (see `tool_offer`), as Llama, Mistral and
Qwen-Coder were trained to, or as a mere JSON object, fenced or not. All of them are read.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from baton.core.stream_filters import held_back
from baton.server.tool_offer import CLOSE, OPEN, Tool, ToolOffer, as_json

MAX_DEPTH = 100
"""How many levels of JSON are read: what is deeper can't be written again from any place."""

MAX_CALL_ID_CHARS = 64

MAX_LEAD_CHARS, MAX_MISSES = 256, 100
"""In so many characters the JSON of a call has its first key; after so many texts that only began
like a call, no further one is looked for: to look costs time."""

_CLOSERS = {OPEN: CLOSE, "<function=": "</function>", "[TOOL_CALLS]": "", "```": "```"}
"""What a call begins with, and what it ends with ("": the answer's end)."""

_BARE = "{"
"""What stands for a JSON object or a list without anything around it, as the whole answer."""

_FIRST_KEYS = ('"name"', '"tool', '"function"', '"type"', '"id"', '"arguments"', '"parameters"')
_LANGUAGES = ("json", "tool_call", "tool_code")
_FENCE = re.compile(rf"```(?:{'|'.join(_LANGUAGES)})?[ \t]*\n?")
_XML_CALL = re.compile(r"<function=([^<>\s]{1,200})>(.*?)(?:</function>|\Z)", re.DOTALL)
_XML_ARGUMENT = re.compile(r"<parameter=([^<>\s]{1,200})>\n?(.*?)\n?(?:</parameter>|\Z)", re.DOTALL)
_GAP = re.compile(r"[\s,;]*")
_CALL_ID = re.compile(r"call_[0-9a-f]{14}_(.+)")
_NAMES, _ARGUMENTS = ("name", "tool_name", "tool"), ("arguments", "parameters", "args", "input")


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _finite(number: str) -> float:
    """Return a number. Raises ValueError for one that no program can read again."""
    if not math.isfinite(value := float(number)):
        raise ValueError(number)
    return value


_decoder = json.JSONDecoder(strict=False, parse_constant=_refuse, parse_float=_finite)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a worker wrote; `arguments` is a JSON object's text."""

    id: str
    tool: Tool
    arguments: str

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name

    @property
    def input(self) -> str:
        """The text that a custom tool is given."""
        return str(json.loads(self.arguments).get("input", ""))


class ToolCallReader:
    """Takes the calls out of an answer while it is written; the rest is its text.

    `run` returns the id of the answer's run, from which the calls have theirs ("": by chance).
    """

    def __init__(self, offer: ToolOffer, run: Callable[[], str] = str) -> None:
        self._offer = offer
        self._run = run
        self._count = self._misses = 0
        self._pending = ""
        self._opener = ""
        self._gap = ""
        self._has_begun = False
        self._has_called = False

    def feed(self, text: str) -> tuple[str, list[ToolCall]]:
        """Return the text that isn't part of a call, and the calls that are whole now."""
        self._pending += text
        return ("", []) if self._offer.must_call else self._split()

    def finish(self) -> tuple[str, list[ToolCall], str]:
        """Return the same for the answer's end, where a call may lack what closes it.

        The last text should have been a call and isn't one.
        """
        text, calls = self._split()
        left, self._pending = self._pending, ""
        last = self._take(left) if self._opener else None
        if last is not None:
            return text, [*calls, *last], ""
        if self._offer.must_call and not calls:
            return "", [], text + self._gap + left
        if self._opener:
            return text, calls, self._gap + left
        return text + ("" if calls and left.isspace() else left), calls, ""

    def _split(self) -> tuple[str, list[ToolCall]]:
        shown, calls_found = "", list[ToolCall]()
        while self._pending:
            if not self._opener:
                at = self._find_opener()
                before, self._pending = self._pending[:at], self._pending[at:]
                text = before.rstrip()  # the gap before a call isn't text
                shown, self._gap = shown + text, before[len(text) :]
                self._has_begun = self._has_begun or bool(text)
                if not self._opener:
                    self._pending = self._gap + self._pending
                    break
            if self._is_not_call():
                size = len(self._opener)
                shown += self._gap + self._pending[:size]
                self._pending, self._opener, self._has_begun = self._pending[size:], "", True
                self._misses += 1
                continue
            closer = _CLOSERS.get(self._opener, "")
            end = self._pending.find(closer, len(self._opener)) if closer else -1
            if end < 0:
                break
            block = self._pending[: end + len(closer)]
            self._pending, self._opener = self._pending[len(block) :], ""
            calls = self._take(block)
            shown += self._gap + block if calls is None else ""
            self._misses += calls is None
            calls_found += calls or []
            self._has_begun = True
        return shown, calls_found

    def _find_opener(self) -> int:
        """Look for what a call begins with; return up to where there is mere text."""
        begun = self._pending.lstrip()
        is_mark = "[TOOL_CALLS]".startswith(begun[:12])
        if not self._has_begun and begun[:1] in ("{", "[") and not is_mark:
            self._opener = _BARE
            return len(self._pending) - len(begun)
        marks = _CLOSERS if self._misses < MAX_MISSES else {}
        places = [(at, mark) for mark in marks if (at := self._pending.find(mark)) >= 0]
        if places:
            at, self._opener = min(places)
            return at
        return len(self._pending) - held_back(self._pending, marks)

    def _is_not_call(self) -> bool:
        """Whether what was opened can no longer become a call, so that its text is shown."""
        if self._opener == _BARE:
            return not _may_be_call(self._pending)
        fence = _FENCE.match(self._pending)
        if self._opener != "```" or fence is None:
            return False
        inside = self._pending[fence.end() : fence.end() + MAX_LEAD_CHARS].partition("```")[0]
        is_language = any(name.startswith(inside) for name in _LANGUAGES)
        return not is_language and not _may_be_call(inside)

    def _take(self, block: str) -> list[ToolCall] | None:
        """Return the calls that a text is, None where it is something else."""
        calls = self._read(block)
        if calls and self._offer.choice.is_single:
            calls = [] if self._has_called else calls[:1]
            self._has_called = True
        return calls

    def _read(self, block: str) -> list[ToolCall] | None:
        calls: list[ToolCall] = []
        for name, arguments in _written_calls(block):
            tool = self._offer.find(name)
            if tool is None or is_too_deep(arguments):
                return None
            if isinstance(arguments, _XmlArguments):
                arguments = arguments.typed(tool)
            elif not isinstance(arguments, dict):
                if not tool.is_custom:
                    return None
                arguments = {"input": str(arguments)}
            place = f"{self._run()}{self._count + len(calls):02x}"
            place = place if self._run() else os.urandom(7).hex()
            id = f"call_{place}_{_plain_name(tool.name)}"  # its result may come back without it
            id = id[:MAX_CALL_ID_CHARS]
            calls.append(ToolCall(id, tool, as_json(arguments)))
        self._count += len(calls)
        return calls or None


class _XmlArguments(dict[str, str]):
    """Arguments that were written as text between tags."""

    def typed(self, tool: Tool) -> dict[str, Any]:
        """Return them as a tool's schema has them: what isn't a string there is JSON."""
        properties = tool.parameters.get("properties")
        known = properties if isinstance(properties, dict) else {}
        typed: dict[str, Any] = dict(self)
        for name, text in self.items():
            schema = known.get(name)
            if isinstance(schema, dict) and schema.get("type", "string") != "string":
                with suppress(ValueError, RecursionError):
                    typed[name] = json.loads(text)
        return typed


def _may_be_call(text: str) -> bool:
    """Whether a text may be the JSON of a call, as far as it is there."""
    begun = text[:MAX_LEAD_CHARS].lstrip(" \t\r\n[{")
    if not begun:
        return len(text) < MAX_LEAD_CHARS
    return any(begun.startswith(key) or key.startswith(begun) for key in _FIRST_KEYS)


def _written_calls(block: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and arguments of the calls in a text; one named "" isn't a call."""
    text = block.strip().removeprefix(OPEN).removesuffix(CLOSE).removeprefix("[TOOL_CALLS]").strip()
    if "<function=" in text:
        for name, inside in _XML_CALL.findall(text):
            named = _XML_ARGUMENT.findall(inside)
            values = list(_json_values(inside)) if inside.strip() and not named else []
            yield name, values[0] if values else _XmlArguments(named)
        return
    if fence := _FENCE.match(text):
        text = text[fence.end() :].strip().removesuffix("```")
    try:
        values = list(_json_values(text))
    except ValueError:
        yield "", None
        return
    for value in values:
        yield from _named_calls(value)


def _json_values(text: str) -> Iterator[Any]:
    """Yield the JSON values that a text consists of. Raises ValueError."""
    at = 0
    while (at := _GAP.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        try:
            value, at = _decoder.raw_decode(text, at)
        except RecursionError as error:
            raise ValueError from error
        yield value


def _named_calls(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for one in value:
            yield from _named_calls(one)
        return
    fields: dict[str, Any] = value if isinstance(value, dict) else {}
    if isinstance(called := fields.get("tool_calls"), list):
        yield from _named_calls(called)
        return
    if isinstance(function := fields.get("function"), dict):
        fields = function
    names = (*_NAMES, "function")
    name = next((fields[key] for key in names if isinstance(fields.get(key), str)), "")
    arguments: Any = next((fields[key] for key in _ARGUMENTS if key in fields), {})
    if isinstance(arguments, str):  # JSON within JSON
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments or "{}")
    yield name, {} if arguments is None else arguments


def find_blocks(text: str, first: str, last: str) -> Iterator[tuple[int, int]]:
    """Yield where in a text blocks are that begin and end so; in linear time."""
    at = 0
    while (begin := text.find(first, at)) >= 0 and (end := text.find(last, begin)) >= 0:
        at = end + len(last)
        yield begin, at


def past_calls(text: str, run: str) -> tuple[str, list[ToolCall]]:
    """Return the text of an earlier run's answer without its calls of tools, and those calls."""
    marks = ((OPEN, CLOSE), ("<function=", "</function>"))
    blocks = [text[a:b] for first, last in marks for a, b in find_blocks(text, first, last)]
    names = {name for block in blocks for name, _ in _written_calls(block) if name}
    reader = ToolCallReader(ToolOffer(tuple(Tool(name, "", {}) for name in names)), lambda: run)
    shown, calls = reader.feed(text)
    last, more, lost = reader.finish()
    shown += last + lost
    return shown, [*calls, *more]


FoundCalls = AsyncGenerator[tuple[str, list[ToolCall]]]
"""Pieces of an answer's text, and the calls of tools that stood between them."""


def _plain_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def called_name(call: str, known: Mapping[str, str], tools: Iterable[Tool]) -> str:
    """Return what was called in an earlier turn; `known` has names by ids, where it came along."""
    if call in known:
        return known[call]
    parsed = _CALL_ID.fullmatch(call)
    if not (named := parsed[1] if parsed else ""):
        return "tool"
    full = (tool.name for tool in tools if _plain_name(tool.name).startswith(named))
    return next(full, named)


def call_text(name: str, arguments: object) -> str:
    """Return a call of an earlier turn as a worker would have written it.

    `arguments` are JSON's text or what it says: however the client wrote them, the text is one.
    """
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            parsed = json.loads(arguments or "{}")
            arguments = arguments if is_too_deep(parsed) else parsed
    return f"{OPEN}\n{as_json({'name': name, 'arguments': arguments})}\n{CLOSE}"


def result_text(name: str, text: str) -> str:
    """Return what a tool gave as a worker reads it."""
    return f"<tool_response>\n{as_json({'name': name, 'content': text})}\n</tool_response>"


def is_too_deep(value: object, levels: int = MAX_DEPTH) -> bool:
    """Return whether a JSON value is nested more levels deep than that."""
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(is_too_deep(part, levels - 1) for part in parts)
