"""Ways in which a provider's stream can come otherwise than described, and what must hold then.

Each kind changes a stream by a seed of its own, so that a name and a seed show the same bytes
again. A harmless kind changes nothing that is read. What a harmful one may change is stated by it:
how much of the text comes, and that the charge is right, or unconfirmed and no less than the bill.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from support.stream_corpus import (
    Event,
    RecordedStream,
    compact_json,
    event_bytes,
    framed_bytes,
    stream_bytes,
)
from support.stream_edits import (
    bare_count,
    copied,
    count_holders,
    field_places,
    is_last_part,
    last_count,
    number_places,
    whole_answer,
    without_count,
)

OTHER = "another answer"
"""What stands in a choice that was not asked for."""

MAX_SMALL_PIECES = 1500
"""So many bytes come one by one; the rest of a long answer comes in larger pieces."""


class Rule(Enum):
    """What of the text must come."""

    SAME = "the same, and the same end, counts and charge"
    EQUAL = "the same"
    PREFIX = "its beginning"
    GAPS = "parts of it, in their order"
    ANY = "any, but no thoughts"


@dataclass(frozen=True)
class Mutant:
    """A stream as it is sent: in which pieces, and under which type.

    `bill` is what it costs at the least by what the provider says; None: nothing says so.
    """

    stream: RecordedStream
    kind: str
    rule: Rule
    pieces: tuple[bytes, ...]
    bill: int | None
    content_type: str | None = "text/event-stream"
    must_fail: bool = False

    @property
    def id(self) -> str:
        """Return the names of its stream and kind."""
        return f"{self.stream.id} {self.kind}"


Change = Callable[[RecordedStream, random.Random], Mutant | None]
KINDS: dict[str, Change] = {}


def mutant_of(stream: RecordedStream, kind: str, seed: str) -> Mutant | None:
    """Return a stream changed in that way; None where it has nothing to change."""
    return KINDS[kind](stream, random.Random(f"{seed} {stream.id} {kind}"))


def plain_mutant(stream: RecordedStream) -> Mutant:
    """Return a stream as it is described."""
    return _made(stream, "as described", Rule.SAME, stream_bytes(stream))


def _kind(change: Change) -> Change:
    KINDS[change.__name__.strip("_")] = change
    return change


def _made(
    stream: RecordedStream, kind: str, rule: Rule, body: bytes | Sequence[bytes], **more: Any
) -> Mutant:
    pieces = (body,) if isinstance(body, bytes) else tuple(body)
    given: dict[str, Any] = {"bill": stream.bill, **more}
    return Mutant(stream, kind, rule, pieces, **given)


def _bill_of_part(stream: RecordedStream) -> int | None:
    """Return what a cut stream costs; of two counts that contradict each other none is known."""
    return None if "once" in stream.shapes else stream.bill


def _with_data(
    stream: RecordedStream, change: Callable[[Any], Any], *, as_text: bool = False
) -> bytes:
    """Return a stream's bytes with each event's JSON changed; `as_text` into the JSON itself."""
    body = b""
    for event in stream.events:
        if not event.raw and not isinstance(event.data, str):
            data = change(event.data)
            if as_text:
                body += framed_bytes(event.name, data)
                continue
            event = replace(event, data=data)
        body += event_bytes(event, stream.prefix)
    return body


# -- harmless: how it is cut, framed and written


@_kind
def odd_bytes(stream: RecordedStream, chance: random.Random) -> Mutant:
    """Cut at odd places, also within characters."""
    body = stream_bytes(stream)
    cuts = sorted(chance.sample(range(1, len(body)), min(len(body) - 1, chance.randint(3, 60))))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    return _made(stream, "odd_bytes", Rule.SAME, pieces)


@_kind
def byte_by_byte(stream: RecordedStream, chance: random.Random) -> Mutant:
    """Each byte alone, of a long answer those around a drawn place."""
    body = stream_bytes(stream)
    start = chance.randrange(max(1, len(body) - MAX_SMALL_PIECES))
    end = min(len(body), start + MAX_SMALL_PIECES)
    single = [body[i : i + 1] for i in range(start, end)]
    pieces = [piece for piece in (body[:start], *single, body[end:]) if piece]
    return _made(stream, "byte_by_byte", Rule.SAME, pieces)


@_kind
def crlf(stream: RecordedStream, chance: random.Random) -> Mutant:
    """Lines end as they do on Windows; a piece may end between the two."""
    body = stream_bytes(stream).replace(b"\n", b"\r\n")
    at = chance.choice([i for i, byte in enumerate(body) if byte == 13]) + 1
    return _made(stream, "crlf", Rule.SAME, (body[:at], body[at:]))


@_kind
def bom(stream: RecordedStream, chance: random.Random) -> Mutant:
    """A byte order mark stands before everything."""
    return _made(stream, "bom", Rule.SAME, "\ufeff".encode() + stream_bytes(stream))


@_kind
def comments_and_pings(stream: RecordedStream, chance: random.Random) -> Mutant:
    """Comments, empty lines and fields that say nothing about the answer."""
    idle = (b": ping\n\n", b":\n\n", b"\n\n", b"id: 7\n", b"retry: 3000\n\n", b": keep-alive\n")
    body = b""
    for event in stream.events:
        if chance.random() < 0.5:
            body += chance.choice(idle)
        body += event_bytes(event, stream.prefix)
    return _made(stream, "comments_and_pings", Rule.SAME, body + b": bye\n\n")


@_kind
def no_space(stream: RecordedStream, chance: random.Random) -> Mutant:
    """No space follows `data:`, or one does where none was."""
    prefix = "data:" if stream.prefix.endswith(" ") else "data: "
    return _made(stream, "no_space", Rule.SAME, stream_bytes(replace(stream, prefix=prefix)))


@_kind
def data_in_lines(stream: RecordedStream, chance: random.Random) -> Mutant:
    """JSON over several lines of data."""

    def lines(data: Any) -> str:
        text = json.dumps(data, ensure_ascii=False, indent=chance.choice((0, 1, 2)))
        return "\n".join(f"data: {line}" for line in text.split("\n"))

    return _made(stream, "data_in_lines", Rule.SAME, _with_data(stream, lines, as_text=True))


@_kind
def key_order(stream: RecordedStream, chance: random.Random) -> Mutant:
    """The keys of all objects in another order."""

    def shuffled(data: Any) -> Any:
        if isinstance(data, list):
            return [shuffled(one) for one in data]
        if not isinstance(data, dict):
            return data
        names = [*data]
        chance.shuffle(names)
        return {name: shuffled(data[name]) for name in names}

    return _made(stream, "key_order", Rule.SAME, _with_data(stream, shuffled))


@_kind
def escaped(stream: RecordedStream, chance: random.Random) -> Mutant:
    """JSON in ASCII and with spaces, as Python's writes it."""
    body = _with_data(stream, lambda data: f"data: {json.dumps(data)}", as_text=True)
    return _made(stream, "escaped", Rule.SAME, body)


@_kind
def unknown_fields(stream: RecordedStream, chance: random.Random) -> Mutant:
    """Fields that no reader knows, in every object that isn't a text's own."""
    news: tuple[Any, ...] = (None, 0, 99_999, "~new~", [], {}, {"tokens": 12}, ["~x~"], True)

    def grown(data: Any) -> Any:
        if isinstance(data, list):
            return [grown(one) for one in data]
        if not isinstance(data, dict):
            return data
        more = {"x_vendor": chance.choice(news)} if chance.random() < 0.7 else {}
        return {**{name: grown(value) for name, value in data.items()}, **more}

    return _made(stream, "unknown_fields", Rule.SAME, _with_data(stream, grown))


_UNKNOWN = {
    "chat": {"object": "vendor.note", "note": "~new~"},
    "responses": {"type": "response.vendor_note.done", "note": "~new~"},
    "messages": {"type": "vendor_note", "note": "~new~"},
    "gemini": {"vendorNote": {"text": "~new~"}},
    "cohere": {"type": "vendor-note", "note": "~new~"},
}


@_kind
def unknown_events(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """Events that no reader knows, before the end."""
    if "error" in stream.shapes:
        return None
    events = [*stream.events]
    news = Event(_UNKNOWN[stream.dialect], "vendor" if chance.random() < 0.5 else "")
    for _ in range(3):
        events.insert(chance.randrange(len(events)), news)
    return _made(stream, "unknown_events", Rule.SAME, stream_bytes(stream.with_events(*events)))


@_kind
def keys_doubled(stream: RecordedStream, chance: random.Random) -> Mutant:
    """A key of an event stands there twice with the same value."""

    def doubled(data: Any) -> str:
        name = chance.choice([*data])
        return f"data: {compact_json(data)[:-1]},{compact_json({name: data[name]})[1:]}"

    return _made(stream, "keys_doubled", Rule.SAME, _with_data(stream, doubled, as_text=True))


@_kind
def usage_repeated(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """The last count comes again, before the answer's last word."""
    at = last_count(stream)
    if at is None or "error" in stream.shapes:
        return None
    events = [*stream.events]
    events.insert(at + 1, bare_count(stream, events[at]))
    return _made(stream, "usage_repeated", Rule.SAME, stream_bytes(stream.with_events(*events)))


@_kind
def done_doubled(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """The last word comes twice."""
    if "error" in stream.shapes:
        return None
    events = (*stream.events, stream.events[-1])
    if stream.dialect == "gemini":
        return None  # its last word is text
    return _made(stream, "done_doubled", Rule.SAME, stream_bytes(stream.with_events(*events)))


@_kind
def content_type(stream: RecordedStream, chance: random.Random) -> Mutant:
    """The answer is said to be something else, or nothing."""
    types = (None, "text/plain", "application/json", "text/event-stream;charset=UTF-8", "x")
    return replace(
        _made(stream, "content_type", Rule.SAME, stream_bytes(stream)),
        content_type=chance.choice(types),
    )


@_kind
def whole_json(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """A whole answer in JSON instead of a stream."""
    barred = {"error", "tool", "filter", "tags", "empty", "once"}
    if stream.shapes & barred or not isinstance(stream.charge, int):
        return None
    whole = whole_answer(stream)
    if whole is None:
        return None
    body = json.dumps(whole, indent=chance.choice((None, 2))).encode()
    return replace(_made(stream, "whole_json", Rule.SAME, body), content_type="application/json")


# -- harmful: what is there, what is not, and where


@_kind
def numbers_as_floats(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """Counts are written with a point."""
    return _counts_changed(stream, "numbers_as_floats", float)


@_kind
def numbers_as_strings(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """Counts are written in quotation marks."""
    return _counts_changed(stream, "numbers_as_strings", str)


@_kind
def negative_count(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """A count of the last ones is below nothing."""
    return _one_count_changed(stream, "negative_count", chance, lambda number: -1 - number)


@_kind
def huge_count(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """A count of the last ones is beyond everything."""
    huge = chance.choice((10**13, 2**63, 10**30))
    return _one_count_changed(stream, "huge_count", chance, lambda number: huge)


@_kind
def cut_at_half(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """The connection ends well in the middle."""
    if "unopened" in stream.shapes:
        return None  # nothing shows yet that these are thoughts
    body = stream_bytes(stream)
    half = body[: chance.randrange(1, len(body) - 2)]
    return _made(stream, "cut_at_half", Rule.PREFIX, half, bill=_bill_of_part(stream))


@_kind
def cut_before_end(stream: RecordedStream, chance: random.Random) -> Mutant:
    """The last event is missing."""
    events = stream.events[:-1]
    return _made(stream, "cut_before_end", Rule.PREFIX, stream_bytes(stream.with_events(*events)))


@_kind
def cut_before_usage(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """Everything from the last count on is missing."""
    at = last_count(stream)
    if at is None:
        return None
    body = stream_bytes(stream.with_events(*stream.events[:at]))
    return _made(stream, "cut_before_usage", Rule.PREFIX, body, bill=_bill_of_part(stream))


@_kind
def last_count_lost(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """The event with the last count comes without it; earlier ones may have smaller counts."""
    at = last_count(stream)
    if at is None or "once" in stream.shapes:
        return None
    events = [*stream.events]
    events[at] = replace(events[at], data=without_count(events[at].data))
    bill = replace(stream, cost=None).bill
    body = stream_bytes(stream.with_events(*events))
    return _made(stream, "last_count_lost", Rule.EQUAL, body, bill=bill)


@_kind
def no_blank_line_at_the_end(stream: RecordedStream, chance: random.Random) -> Mutant:
    """The line that ends the last event is missing."""
    body = stream_bytes(stream)[: -chance.randint(1, 2)]
    return _made(stream, "no_blank_line_at_the_end", Rule.PREFIX, body)


@_kind
def done_missing(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """The stream ends without its `[DONE]`."""
    if stream.events[-1].data != "[DONE]":
        return None
    events = stream.events[:-1]
    return _made(stream, "done_missing", Rule.PREFIX, stream_bytes(stream.with_events(*events)))


@_kind
def field_renamed(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """A field has another name."""

    def rename(holder: dict[str, Any], name: str) -> None:
        new = chance.choice((f"{name}_v2", name.upper(), f"x_{name}"))
        holder[new] = holder.pop(name)

    return _field_changed(stream, "field_renamed", chance, rename)


@_kind
def field_removed(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """A field is missing."""
    return _field_changed(stream, "field_removed", chance, lambda holder, name: holder.pop(name))


@_kind
def field_null(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """A field is null."""
    return _field_changed(
        stream, "field_null", chance, lambda holder, name: holder.update({name: None})
    )


@_kind
def wrong_type(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """A field holds something of another type."""

    def retype(holder: dict[str, Any], name: str) -> None:
        others: list[Any] = [[], {}, True, 1.5, [1], {"a": {}}, "", 0]
        kept = [one for one in others if type(one) is not type(holder[name])]
        holder[name] = chance.choice(kept)

    return _field_changed(stream, "wrong_type", chance, retype)


@_kind
def events_swapped(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """Two events that follow each other come in the other order."""
    if len(stream.events) < 2 or "tags" in stream.shapes:
        return None
    events = [*stream.events]
    at = chance.randrange(len(events) - 1)
    if stream.id == "moonshot/two_counts" and last_count(stream) in (at, at + 1):
        return None  # the other count would be the last, which is the bill
    events[at], events[at + 1] = events[at + 1], events[at]
    return _made(stream, "events_swapped", Rule.ANY, stream_bytes(stream.with_events(*events)))


@_kind
def event_repeated(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """An event comes twice."""
    if "tags" in stream.shapes:
        return None
    events = [*stream.events]
    at = chance.randrange(len(events))
    events.insert(at, events[at])
    return _made(stream, "event_repeated", Rule.ANY, stream_bytes(stream.with_events(*events)))


@_kind
def usage_first(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """The last count comes before the first word, and not again."""
    at = last_count(stream)
    if at is None or stream.dialect in ("responses", "cohere"):
        return None  # there it is in the event that ends the answer
    if stream.id == "moonshot/two_counts":
        return None  # the other one is the last then, and a last count is the bill
    events = [*stream.events]
    counted = events[at]
    events[at] = replace(counted, data=without_count(counted.data))
    events.insert(min(1, len(events)), bare_count(stream, counted))
    return _made(stream, "usage_first", Rule.ANY, stream_bytes(stream.with_events(*events)))


@_kind
def wrong_index(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """A piece belongs to another choice than the first."""
    return _choices_changed(stream, "wrong_index", chance, _other_index)


@_kind
def extra_choice(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """A second choice stands beside the first."""
    return _choices_changed(stream, "extra_choice", chance, _second_choice)


@_kind
def error_added(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """An error comes before the end, and then the rest."""
    if "error" in stream.shapes or not stream.text:
        return None
    events = [*stream.events]
    finish = next(i for i, event in enumerate(events) if is_last_part(stream, event))
    events.insert(chance.randint(1, max(1, finish)), Event(*_ERRORS[stream.dialect]))
    body = stream_bytes(stream.with_events(*events))
    return _made(stream, "error_added", Rule.PREFIX, body, must_fail=True)


@_kind
def broken_json(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """An event lost its end."""
    if "tags" in stream.shapes:
        return None  # it may hold the tag
    events = [*stream.events]
    rows = [i for i, event in enumerate(events) if not event.raw and event.data != "[DONE]"]
    at = chance.choice(rows)
    text = compact_json(events[at].data)
    events[at] = replace(events[at], data=text[: chance.randrange(1, len(text))])
    return _made(stream, "broken_json", Rule.GAPS, stream_bytes(stream.with_events(*events)))


@_kind
def broken_characters(stream: RecordedStream, chance: random.Random) -> Mutant | None:
    """A byte isn't part of any character."""
    if "tags" in stream.shapes:
        return None  # the event may hold the tag
    body = bytearray(stream_bytes(stream))
    starts = [i for i in range(len(body) - 6) if body[i : i + 6] == b'"text"' or body[i] == 123]
    body.insert(chance.choice(starts) if starts else 0, 0xFF)
    return _made(stream, "broken_characters", Rule.GAPS, bytes(body))


# -- what changes events


_SAID = {"message": "It failed."}
_ERRORS: dict[str, tuple[Any, str]] = {
    "chat": ({"error": {**_SAID, "type": "server_error", "code": 500}}, ""),
    "responses": ({"type": "error", "code": "server_error", **_SAID}, "error"),
    "messages": ({"type": "error", "error": {"type": "api_error", **_SAID}}, "error"),
    "gemini": ({"error": {"code": 500, **_SAID, "status": "INTERNAL"}}, ""),
    "cohere": (
        {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": "It failed."}},
        "message-end",
    ),
}


def _counts_changed(
    stream: RecordedStream, kind: str, change: Callable[[int], Any]
) -> Mutant | None:
    if last_count(stream) is None:
        return None

    def changed(data: Any) -> Any:
        data = copied(data)
        for holder, name in list(count_holders(data)):
            for place, key in list(number_places(holder[name])):
                place[key] = change(place[key])
        return data

    return _made(stream, kind, Rule.EQUAL, _with_data(stream, changed))


def _one_count_changed(
    stream: RecordedStream, kind: str, chance: random.Random, change: Callable[[int], int]
) -> Mutant | None:
    at = last_count(stream)
    if at is None:
        return None
    events = [*stream.events]
    data = copied(events[at].data)
    holder, name = next(count_holders(data))
    place, key = chance.choice([*number_places(holder[name])])
    place[key] = change(place[key])
    events[at] = replace(events[at], data=data)
    return _made(stream, kind, Rule.EQUAL, stream_bytes(stream.with_events(*events)))


def _field_changed(
    stream: RecordedStream,
    kind: str,
    chance: random.Random,
    change: Callable[[dict[str, Any], str], Any],
) -> Mutant | None:
    events = [*stream.events]
    rows = [i for i, event in enumerate(events) if not event.raw and event.data != "[DONE]"]
    # Most of a long answer is alike, and what matters stands at its end.
    at = chance.choice(rows[-4:]) if chance.random() < 0.6 else chance.choice(rows)
    data = copied(events[at].data)
    places = [*field_places(stream, data)]
    if not places:
        return None
    holder, name = chance.choice(places)
    change(holder, name)
    events[at] = replace(events[at], data=data)
    bill = stream.bill
    if bill is not None and stream.cost is not None:
        bill = replace(stream, cost=None).bill  # it may be the cost that is lost
    body = stream_bytes(stream.with_events(*events))
    return _made(stream, f"{kind} {name} of event {at}", Rule.GAPS, body, bill=bill)


def _choices_changed(
    stream: RecordedStream,
    kind: str,
    chance: random.Random,
    change: Callable[[list[Any]], None],
) -> Mutant | None:
    name = {"chat": "choices", "gemini": "candidates"}.get(stream.dialect)
    if name is None or "tags" in stream.shapes:
        return None
    events = [*stream.events]
    rows = [
        i for i, event in enumerate(events) if isinstance(event.data, dict) and event.data.get(name)
    ]
    if not rows:
        return None
    at = chance.choice(rows)
    data = copied(events[at].data)
    change(data[name])
    events[at] = replace(events[at], data=data)
    return _made(stream, kind, Rule.GAPS, stream_bytes(stream.with_events(*events)))


def _other_index(choices: list[Any]) -> None:
    choices[0]["index"] = 1


def _second_choice(choices: list[Any]) -> None:
    second = copied(choices[0])
    second["index"] = 1
    if "delta" in second:
        second["delta"] = {"content": OTHER}
    else:
        second["content"] = {"role": "model", "parts": [{"text": OTHER}]}
    choices.append(second)
