"""What a request asks for in any of the protocols, and how they all read it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from baton.core.catalogue_types import OWN_MODELS_PREFIX
from baton.core.errors import ConfigError
from baton.core.messages import AnswerFormat, Message, Role
from baton.core.money import parse_usd
from baton.server.api_errors import ApiError, bad_request
from baton.server.request_messages import note_unknown
from baton.server.tool_calls import MAX_DEPTH, is_too_deep
from baton.server.tool_offer import ToolOffer, checked_schema, unkept_warnings, with_instructions

DEFAULT_MODEL = f"{OWN_MODELS_PREFIX}auto"

OPENAI_HARMLESS = frozenset(
    {
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "user",
    }
)
"""Fields of OpenAI's protocols that tune how a provider makes or bills an answer."""

MAX_BODY_BYTES = 8 * 10**6
MAX_BRACKETS, MAX_COMMAS = 200_000, 1_000_000
"""How many objects and lists a body may hold, counted in its texts too: reading a million takes
0.3 s, in which nothing else is answered. A megabyte of code or prose has some ten thousand."""

MAX_NAME_CHARS = 200
MAX_STOPS, MAX_STOP_CHARS = 8, 1_000

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
    """One request: the earlier messages, the prompt, and how the answer must be.

    `messages` are all of them as they came, of which `prompt`, `earlier` and `system` were made.
    `continues` is the response whose conversation it continues, where Baton keeps it. `sampling`
    is as in core.messages.Request. `echoed` is what an answer repeats of the request, `warnings`
    say in sentences what of it isn't kept to. With `has_functions` tools are called as OpenAI's
    clients did at first. `weight` is how many bytes it came in.
    """

    model: str
    prompt: str
    earlier: tuple[Message, ...] = ()
    system: str | None = None
    messages: tuple[Message, ...] = ()
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
    sampling: Mapping[str, float] = field(default_factory=dict)
    echoed: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    has_functions: bool = False
    weight: int = 0
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def instructions(self) -> str | None:
        """The system text, which describes the tools as well."""
        return with_instructions(self.system, self.tools)

    @property
    def largest_part(self) -> str:
        """Say which part of it has the most characters, and how much of all."""
        parts = {
            "the description of the tools": len(self.tools.instructions) if self.tools else 0,
            "the system text": len(self.system or ""),
            "the last message": len(self.prompt),
            "the earlier messages": sum(len(message.text) for message in self.earlier),
        }
        name, most = max(parts.items(), key=lambda part: part[1])
        return f"The largest part is {name}: {most * 100 // max(1, sum(parts.values()))} % of it."

    @property
    def size(self) -> int:
        """How many characters a worker would have to read."""
        return len(self.instructions or "") + sum(
            len(message.text) for message in self.messages if message.role is not Role.SYSTEM
        )


def run_of(response: str) -> str:
    """Return the run behind a response's id, "" for what isn't one."""
    return response.removeprefix("resp_") if response.startswith("resp_") else ""


def read_model(model: str | None) -> str:
    """Return the model that a request names. Raises ApiError."""
    if model is not None and len(model) > MAX_NAME_CHARS:
        raise bad_request(f"A model's name has at most {MAX_NAME_CHARS} characters.", "model")
    return model or DEFAULT_MODEL


def parse_body(body: bytes) -> dict[str, Any]:
    """Return a body's JSON object. Raises ApiError."""
    if body.count(b"{") + body.count(b"[") > MAX_BRACKETS or body.count(b",") > MAX_COMMAS:
        raise bad_request("The body holds too many objects, lists and values.")
    try:
        try:
            parsed = msgspec.json.decode(body)
        except msgspec.DecodeError:
            # Clients that cut a text write half a character: a mark stands for it.
            whole = json.dumps(json.loads(body.decode()), ensure_ascii=False)
            parsed = msgspec.json.decode(whole.encode("utf-8", "replace"))
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
        raise bad_request("A field appears twice in the same object.")
    return fields


def read_fields(body: Mapping[str, Any], kind: type[T]) -> T:
    """Return a body's fields, those that Baton knows. Raises ApiError for one of another type."""
    whole = {  # some programs write 100.0 for 100
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in body.items()
    }
    try:
        return msgspec.convert(whole, kind)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        param = place.rstrip("`").lstrip(".") or None
        where = f" (at {param})" if param else ""
        raise bad_request(f"The request is invalid: {problem}{where}.", param) from error


def check_fields(
    body: Mapping[str, Any],
    kind: type[msgspec.Struct],
    harmless: Set[str],
    neutral: Mapping[str, Sequence[object]],
    warnings: list[str],
) -> dict[str, float]:
    """Say what is ignored of a body, and return what it wishes of sampling. Raises ApiError.

    `harmless` fields may be anything: they don't change the answer. `neutral` ones would change
    what is meant: they may only have a value that changes nothing. None counts as absent.
    """
    known = kind.__struct_encode_fields__  # `msgspec.structs.fields` takes a millisecond each time
    sampling, ignored = dict[str, float](), []
    for name, value in body.items():
        if value is None or name in known or name in harmless:
            continue
        if name in neutral:
            if any(value == allowed for allowed in neutral[name]):
                continue
            message = f"Baton doesn't support {name!r}"
            other = f" other than {json.dumps(neutral[name][0])}" if neutral[name] else ""
            raise ApiError(400, "unsupported_parameter", f"{message}{other}.", param=name)
        if name in _SAMPLING:
            own, least, most = _SAMPLING[name]
            sampling[own] = _read_number(value, least, most, name)
        elif value not in ({}, [], ""):
            ignored.append(name)
    note_unknown(ignored, warnings)
    return sampling


_SAMPLING = {
    "top_k": ("top_k", -1, 10**6),
    "min_p": ("min_p", 0, 1),
    "repeat_penalty": ("repeat_penalty", 0, 10),
    "repetition_penalty": ("repeat_penalty", 0, 10),
    "frequency_penalty": ("frequency_penalty", -2, 2),
    "presence_penalty": ("presence_penalty", -2, 2),
}
"""What any protocol's clients may send of sampling besides the usual: our name, least and most."""


def _read_number(value: object, least: float, most: float, param: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    number: float = value if is_number else math.nan  # type: ignore[assignment]
    if not least <= number <= most:
        raise bad_request(f"{param} is a number from {least:g} to {most:g}.", param)
    return max(0, number) if param == "top_k" else number


def read_stop(stop: str | list[str] | None, param: str) -> tuple[str, ...]:
    """Return the texts before which an answer ends. Raises ApiError."""
    stops = [text for text in ([stop] if isinstance(stop, str) else stop or []) if text]
    if len(stops) > MAX_STOPS:
        raise bad_request(f"There may be {MAX_STOPS} stop texts.", param)
    if max(map(len, stops), default=0) > MAX_STOP_CHARS:
        raise bad_request(f"A stop text may have {MAX_STOP_CHARS:,} characters.", param)
    return tuple(stops)


def check_count(value: int | None, param: str) -> int | None:
    """Return a number of tokens, None for as many as there can be. Raises ApiError for none."""
    if value is None or value == -1:
        return None
    if value <= 0:
        raise bad_request("The most tokens of an answer are a number above 0.", param)
    return min(value, 2**31 - 1)


def check_range(value: float | None, most: float, param: str) -> float | None:
    """Return a number from 0 to `most`. Raises ApiError for another."""
    if value is not None and not 0 <= value <= most:
        raise bad_request(f"{param} is a number from 0 to {most:g}.", param)
    return value


def json_shape(schema: object, param: str, warnings: list[str]) -> AnswerFormat:
    """Return the form of an answer that keeps to a JSON Schema."""
    if not isinstance(schema, dict):
        raise bad_request("The schema of the answer is not an object.", param)
    text = checked_schema(schema, param)
    warnings += unkept_warnings(schema, "the answer")
    return AnswerFormat("", text)


ANY_OBJECT: Mapping[str, str] = {"type": "object"}
"""The schema of an answer that must be some JSON object."""


def read_form(
    kind: str | None, schema: object, param: str, warnings: list[str], place: str = "schema"
) -> AnswerFormat | None:
    """Return the form of an answer, None for any text; `place` is where `param` has the schema."""
    match kind or "text":
        case "text":
            return None
        case "json_object":
            return json_shape(ANY_OBJECT, param, warnings)
        case "json_schema":
            return json_shape(schema, f"{param}.{place}", warnings)
    raise bad_request(f"There is no response format {str(kind)[:40]!r}.", f"{param}.type")


class FormatFields(msgspec.Struct, frozen=True):
    """The form that the answer must have."""

    type: str | None = None
    schema: dict[str, Any] | None = None


class ConditionFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The field `baton` of a body: conditions that OpenAI's protocol has no words for."""

    budget: str | float | None = None
    deadline: float | None = None
    strict: bool = False
    private: bool = False
    keep: bool = True


class SharedFields(msgspec.Struct, frozen=True, kw_only=True):
    """What a request of each protocol may say."""

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    stream: bool | None = None
    baton: ConditionFields | None = None

    def values(self, warnings: list[str], *, max_temperature: float = 2.0) -> dict[str, Any]:
        """Return what it means for a ClientRequest, with all warnings so far. Raises ApiError."""
        return {
            "temperature": check_range(self.temperature, max_temperature, "temperature"),
            "top_p": check_range(self.top_p, 1.0, "top_p"),
            "is_streamed": bool(self.stream),
            "warnings": tuple(warnings),
        }


def read_conditions(
    headers: Mapping[str, str], fields: ConditionFields | None, store: bool | None = None
) -> Conditions:
    """Return what a request allows: of headers and fields that contradict, the strictest counts.

    Where it says that it is not to be stored, it isn't kept.
    """
    fields = fields or ConditionFields()
    budgets = _header_values(headers, "x-baton-budget", fields.budget)
    deadlines = _header_values(headers, "x-baton-deadline", fields.deadline)
    return Conditions(
        min(map(_read_budget, budgets), default=None),
        min(map(_read_deadline, deadlines), default=None),
        fields.strict or True in _read_flags(headers, "x-baton-strict"),
        fields.private or True in _read_flags(headers, "x-baton-private"),
        fields.keep and store is not False and False not in _read_flags(headers, "x-baton-keep"),
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
