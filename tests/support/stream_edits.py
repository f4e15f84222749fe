"""Where the dialects have what is changed: counts, fields, the last part of an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from support.stream_corpus import Event, RecordedStream, compact_json

COUNT_NAMES = frozenset({"usage", "usageMetadata"})

_UNKNOWABLE = frozenset({"thought", "role"})
"""Fields whose loss nothing shows: Gemini's mark of a thought."""

_ONCE = (
    "Count",
    "cache",
    "details",
    "prompt_tokens",
    "input_tokens",
    "reasoning",
    "total",
    "usage",
)
"""Parts of names of counts: where they stand once, or count up, nothing shows their loss."""


def last_count(stream: RecordedStream) -> int | None:
    """Return the number of the last event with a count."""
    found = [i for i, event in enumerate(stream.events) if _has_count(event)]
    return found[-1] if found and stream.counts is not None else None


def _has_count(event: Event) -> bool:
    return not event.raw and any(True for _ in count_holders(event.data))


def bare_count(stream: RecordedStream, event: Event) -> Event:
    """Return an event with nothing but another's count."""
    if stream.dialect in ("responses", "cohere"):
        return event
    if stream.dialect == "messages":
        data = copied(event.data)
        if data["type"] == "message_delta":
            data["delta"] = {"stop_reason": None, "stop_sequence": None}
        return replace(event, data=data)
    holder, name = next(count_holders(event.data))
    if stream.dialect == "gemini":
        return Event({"usageMetadata": holder[name], "modelVersion": event.data["modelVersion"]})
    top = {key: value for key, value in event.data.items() if key in ("id", "object", "model")}
    if "delta" in holder:  # within the choice
        return Event({**top, "choices": [{**holder, "delta": {}, "finish_reason": None}]})
    return Event({**top, "choices": [], "usage": holder[name]})


def without_count(data: Any) -> Any:
    """Return an event's data without its count."""
    data = copied(data)
    for holder, name in list(count_holders(data)):
        del holder[name]
    return data


def count_holders(data: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield where counts stand: the object that holds one, and its name there."""
    if isinstance(data, list):
        for one in data:
            yield from count_holders(one)
    elif isinstance(data, dict):
        for name, value in data.items():
            if name in COUNT_NAMES and isinstance(value, dict):
                yield data, name
            else:
                yield from count_holders(value)


def number_places(data: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield where numbers stand that are counts of tokens."""
    if isinstance(data, dict):
        for name, value in data.items():
            if type(value) in (int, float) and "token" in name.lower():
                yield data, name
            elif not isinstance(value, list):
                yield from number_places(value)


def field_places(stream: RecordedStream, data: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the fields whose loss must show: the object that holds each, and its name."""
    if isinstance(data, list):
        for one in data:
            yield from field_places(stream, one)
    elif isinstance(data, dict):
        for name, value in data.items():
            if name in _UNKNOWABLE:
                continue
            if "tags" in stream.shapes and name in ("content", "delta", "choices"):
                continue
            if "once" in stream.shapes and any(part in name for part in _ONCE):
                continue
            yield data, name
            yield from field_places(stream, value)


def is_last_part(stream: RecordedStream, event: Event) -> bool:
    """Whether an event has the reason of the answer's end, or its count."""
    if event.raw or isinstance(event.data, str):
        return bool(event.data == "[DONE]")
    text = compact_json(event.data)
    match stream.dialect:
        case "responses":
            return event.name in ("response.completed", "response.incomplete", "response.failed")
        case "messages":
            return event.name in ("message_delta", "message_stop")
        case "cohere":
            return event.name == "message-end"
        case "gemini":
            return '"finishReason"' in text or '"blockReason"' in text
    return '"finish_reason":"' in text


def whole_answer(stream: RecordedStream) -> dict[str, Any] | None:
    """Return the answer as it answers a request that doesn't ask for a stream."""
    at = last_count(stream)
    if at is None:
        return None
    data = copied(stream.events[at].data)
    match stream.dialect:
        case "responses":
            whole: dict[str, Any] = data["response"]
            said = {"type": "reasoning_text", "text": stream.thoughts}
            thoughts = [{"type": "reasoning", "summary": [], "content": [said]}]
            whole["output"] = [*thoughts[: bool(stream.thoughts)], *whole["output"]]
            return whole if "long" not in stream.shapes else None
        case "messages":
            start = copied(stream.events[0].data["message"])
            blocks = _blocks(stream, {"type": "thinking", "thinking": stream.thoughts})
            usage = {**start["usage"], **data["usage"]}
            reason = data["delta"]["stop_reason"]
            return {**start, "content": blocks, "stop_reason": reason, "usage": usage}
        case "gemini":
            last = next(e.data for e in stream.events if is_last_part(stream, e))
            parts = _blocks(stream, {"text": stream.thoughts, "thought": True})
            for part in parts:
                part.pop("type", None)
            content = {"role": "model", "parts": parts}
            reason = last["candidates"][0]["finishReason"]
            chosen = {"content": content, "finishReason": reason, "index": 0}
            return {"candidates": [chosen], "usageMetadata": data["usageMetadata"]}
        case "cohere":
            blocks = _blocks(stream, {"type": "thinking", "thinking": stream.thoughts})
            message = {"role": "assistant", "content": blocks}
            return {"id": "29f1", "message": message, **data["delta"]}
    holder, name = next(count_holders(data))
    ends = [c["finish_reason"] for e in stream.events for c in _choices_of(e) if c["finish_reason"]]
    message = {"role": "assistant", "content": stream.text, "reasoning_content": stream.thoughts}
    choice = {"index": 0, "message": message, "finish_reason": ends[-1]}
    return {"id": "c", "object": "chat.completion", "choices": [choice], "usage": holder[name]}


def _blocks(stream: RecordedStream, thoughts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the content of a whole answer: its thoughts, if there are any, and its text."""
    before = [thoughts] if stream.thoughts else []
    return [*before, {"type": "text", "text": stream.text}]


def _choices_of(event: Event) -> list[dict[str, Any]]:
    data = event.data if isinstance(event.data, dict) else {}
    return [choice for choice in data.get("choices") or [] if "finish_reason" in choice]


def copied(data: Any) -> Any:
    """Return JSON that can be changed."""
    return json.loads(json.dumps(data))
