"""What a request asks for in any of the protocols, and how they all read it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from baton.core.errors import ConfigError
from baton.core.messages import AnswerFormat, Message, Role
from baton.core.money import parse_usd
from baton.core.schema_bounds import schema_problem
from baton.server.api_errors import ApiError, bad_request
from baton.server.tool_calls import MAX_DEPTH, ToolOffer, is_too_deep, with_instructions

MAX_BODY_BYTES = 8 * 10**6
MAX_BRACKETS, MAX_COMMAS = 200_000, 1_000_000
"""How many objects and lists a body may hold, counted in its texts too: reading a million takes
0.3 s, in which nothing else is answered. A megabyte of code or prose has some ten thousand."""

MAX_MESSAGES = 4_096
MAX_SCHEMA_BYTES = 32 * 1024
MAX_STOPS = 8

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a request allows, besides its token: in headers, or in a field `baton` of its body.

    `budget` is its ceiling in nano-dollars, `deadline` its time in seconds. With `is_strict` it
    fails where the ceiling stands in the way, instead of being finished on this machine.
    `is_private` texts never leave this machine; what isn't `kept` is in no history.
    """

    budget: int | None = None
    deadline: float | None = None
    is_strict: bool = False
    is_private: bool = False
    is_kept: bool = True


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """One request: what was said before, what is asked now, and how the answer must be.

    `said` are all its messages as they came, of which `prompt`, `earlier` and `system` were made.
    `continues` is the response whose conversation it goes on with, where Baton keeps it.
    """

    model: str
    prompt: str
    earlier: tuple[Message, ...] = ()
    system: str | None = None
    said: tuple[Message, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    shape: AnswerFormat | None = None
    tools: ToolOffer | None = None
    is_streamed: bool = False
    has_usage: bool = True
    is_background: bool = False
    continues: str = ""
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def instructions(self) -> str | None:
        """The system text, which describes the tools as well."""
        return with_instructions(self.system, self.tools)

    @property
    def size(self) -> int:
        """How many characters a worker would have to read."""
        return len(self.instructions or "") + sum(
            len(message.text) for message in self.said if message.role is not Role.SYSTEM
        )


def run_of(response: str) -> str:
    """Return the run behind a response's id, "" for what isn't one."""
    return response.removeprefix("resp_") if response.startswith("resp_") else ""


def parse_body(body: bytes) -> dict[str, Any]:
    """Return a body's JSON object. Raises ApiError."""
    if body.count(b"{") + body.count(b"[") > MAX_BRACKETS or body.count(b",") > MAX_COMMAS:
        raise bad_request("The body holds too many objects, lists and values.")
    try:
        parsed = msgspec.json.decode(body)
        if isinstance(parsed, dict) and not _SAFETY_FIELDS.isdisjoint(parsed):
            json.loads(body, object_pairs_hook=_refuse_doubles)
    except (ValueError, RecursionError) as error:  # bytes that aren't UTF-8 are a ValueError
        raise bad_request("The body is not JSON.") from error
    if not isinstance(parsed, dict):
        raise bad_request("The body is not a JSON object.")
    if is_too_deep(parsed):
        raise bad_request(f"The body is nested more than {MAX_DEPTH} levels deep.")
    return parsed


_SAFETY_FIELDS = frozenset({"baton", "store"})


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's fields. Raises ApiError where one stands there twice: which one counts?"""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise bad_request("A field stands twice in the same object.")
    return fields


def read_fields(body: Mapping[str, Any], kind: type[T]) -> T:
    """Return a body's fields, those that Baton knows. Raises ApiError for one of another type."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$")
        param = place.rstrip("`").lstrip(".") or None
        where = f" (at {param})" if param else ""
        raise bad_request(f"The request is not as it should be: {said}{where}.", param) from error


def refuse_unknown(
    body: Mapping[str, Any],
    kind: type[msgspec.Struct],
    harmless: Set[str],
    neutral: Mapping[str, Sequence[object]],
) -> None:
    """Refuse what Baton can't keep to, by name: to ignore it would change what is meant.

    `harmless` fields may be anything: they don't change the answer. `neutral` ones may only be what
    they are without being said. None counts as not said.
    """
    known = kind.__struct_encode_fields__  # `msgspec.structs.fields` takes a millisecond each time
    for name, value in body.items():
        if value is None or name in known or name in harmless:
            continue
        if name in neutral and any(value == allowed for allowed in neutral[name]):
            continue
        allowed = f" but {json.dumps(neutral[name][0])}" if name in neutral else ""
        said = f"Baton doesn't support {name[:60]!r}{allowed}."
        raise ApiError(400, "unsupported_parameter", said, param=name[:60])


def read_text(content: object, kinds: Set[str], param: str) -> str:
    """Return the text of a message's content: a string, or parts of these kinds."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise bad_request("A message's content is text, or a list of parts.", param)
    texts = []
    for part in content:
        kind = str(part.get("type")) if isinstance(part, dict) else None
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else part
        if kind not in kinds:
            raise ApiError(
                400,
                "unsupported_content",
                f"Baton's workers read text, and a message holds {str(kind)[:40]!r}.",
                param=param,
            )
        if not isinstance(text, str):
            raise bad_request("A part of a message has no text.", param)
        texts.append(text)
    return "".join(texts)


def split_conversation(
    messages: Iterable[Message], param: str
) -> tuple[str, tuple[Message, ...], str | None, tuple[Message, ...]]:
    """Return the prompt, the turns before it, the system text, and all messages as they came.

    Turns alternate: what one side says twice is put together. Raises ApiError where the last word
    isn't the person's.
    """
    messages = tuple(messages)
    if len(messages) > MAX_MESSAGES:
        said = f"There are {len(messages):,} messages, and {MAX_MESSAGES:,} are the most."
        raise ApiError(400, "too_many_messages", said, "Leave the oldest ones out.", param)
    system: list[str] = []
    sides: list[tuple[Role, list[str]]] = []
    for message in messages:
        if message.role is Role.SYSTEM:
            system.append(message.text)
        elif sides and sides[-1][0] is message.role:
            sides[-1][1].append(message.text)
        else:
            sides.append((message.role, [message.text]))
    turns = [Message(role, "\n\n".join(texts)) for role, texts in sides]
    if not turns or turns[-1].role is not Role.USER:
        raise bad_request("The last message must be the user's.", param)
    if not turns[-1].text.strip():
        raise bad_request("The last message is empty.", param)
    if turns[0].role is Role.ASSISTANT:
        turns.insert(0, Message(Role.USER, "…"))  # chat templates want the person to begin
    whole = "\n\n".join(system) if system else None
    return turns[-1].text, tuple(turns[:-1]), whole, messages


def read_stop(stop: str | list[str] | None, param: str) -> tuple[str, ...]:
    """Return the texts before which an answer ends."""
    stops = [stop] if isinstance(stop, str) else stop or []
    if len(stops) > MAX_STOPS or not all(stops):
        raise bad_request(f"There may be {MAX_STOPS} stop texts, none of them empty.", param)
    return tuple(stops)


def check_count(value: int | None, param: str) -> int | None:
    """Return a number of tokens. Raises ApiError for none or fewer."""
    if value is not None and not 0 < value < 2**31:
        raise bad_request("The most tokens of an answer are a number above 0.", param)
    return value


def check_range(value: float | None, most: float, param: str) -> float | None:
    """Return a number from 0 to `most`. Raises ApiError for another."""
    if value is not None and not 0 <= value <= most:
        raise bad_request(f"{param} is a number from 0 to {most:g}.", param)
    return value


def json_shape(schema: object, param: str) -> AnswerFormat:
    """Return the form of an answer that keeps to a JSON Schema."""
    if not isinstance(schema, dict):
        raise bad_request("The schema of the answer is not an object.", param)
    if problem := schema_problem(schema):
        raise bad_request(problem, param)
    text = json.dumps(schema, ensure_ascii=False)
    if len(text.encode("utf-8", "replace")) > MAX_SCHEMA_BYTES:
        raise bad_request(f"The schema is larger than {MAX_SCHEMA_BYTES:,} bytes.", param)
    return AnswerFormat("", text)


ANY_OBJECT: Mapping[str, str] = {"type": "object"}
"""The schema of an answer that must be some JSON object."""


class ConditionFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The field `baton` of a body: conditions that OpenAI's protocol has no words for."""

    budget: str | float | None = None
    deadline: float | None = None
    strict: bool = False
    private: bool = False
    keep: bool = True


def read_conditions(
    headers: Mapping[str, str], said: ConditionFields | None, store: bool | None = None
) -> Conditions:
    """Return what a request allows: of headers and fields that contradict, the strictest counts.

    Where it says that it is not to be stored, it isn't kept.
    """
    said = said or ConditionFields()
    budgets = _header_values(headers, "x-baton-budget", said.budget)
    deadlines = _header_values(headers, "x-baton-deadline", said.deadline)
    return Conditions(
        min(map(_read_budget, budgets), default=None),
        min(map(_read_deadline, deadlines), default=None),
        said.strict or True in _read_flags(headers, "x-baton-strict"),
        said.private or True in _read_flags(headers, "x-baton-private"),
        said.keep and store is not False and False not in _read_flags(headers, "x-baton-keep"),
    )


def _header_values(
    headers: Mapping[str, str], name: str, field: str | float | None = None
) -> list[str]:
    """Return all that a header says, however often it is there, and what a field does."""
    values = headers[name].split(",") if name in headers else []
    return [value.strip() for value in values] + ([] if field is None else [str(field)])


def _read_budget(text: str) -> int:
    try:
        return parse_usd(text)
    except ConfigError as error:
        raise bad_request(error.message, "X-Baton-Budget", error.hint) from error


def _read_deadline(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise bad_request("The deadline is a number of seconds above 0.", "X-Baton-Deadline")
    return seconds


def _read_flags(headers: Mapping[str, str], name: str) -> list[bool]:
    values = [value.lower() for value in _header_values(headers, name)]
    if not set(values) <= {"0", "1", "true", "false"}:
        raise bad_request(f"The header {name} is 1 or 0.", name)
    return [value in ("1", "true") for value in values]
