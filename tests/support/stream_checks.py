"""What must hold of a stream that was played, as it is described and changed."""

from __future__ import annotations

from support.stream_corpus import RecordedStream
from support.stream_mutations import OTHER, Mutant, Rule
from support.stream_player import PlayedStream

LOST = "\ufffd"
"""What stands for half of a character."""


def description_problems(stream: RecordedStream, played: PlayedStream) -> list[str]:
    """Return where a stream was read otherwise than described."""
    ends = ["stop" if end == "empty" else end for end in stream.end.split(" or ")]
    found = [
        (played.text != stream.text, f"text {played.text!r}"),
        ("~" in played.text, "thoughts in the answer"),
        (played.end not in ends, f"end {played.end!r} {played.error}"),
        (_lost_thoughts(stream, played), f"only {played.written} characters were counted"),
        (played.charge > played.held, f"charged {played.charge} of {played.held}"),
        *_charge_problems(stream, played),
    ]
    return [why for is_wrong, why in found if is_wrong]


def _lost_thoughts(stream: RecordedStream, played: PlayedStream) -> bool:
    thoughts = 0 if stream.thoughts == "?" else len(stream.thoughts)
    return played.written < len(stream.text) + thoughts


def _charge_problems(stream: RecordedStream, played: PlayedStream) -> list[tuple[bool, str]]:
    is_hold = not played.is_confirmed and played.charge == played.held
    said = f"charge {played.charge}, confirmed: {played.is_confirmed}, counts {played.counts}"
    match stream.charge:
        case 0:
            return [(not played.is_void, said)]
        case int():
            cost = f"cost {played.cost}"
            return [
                (not played.is_confirmed or played.charge != stream.charge, said),
                (played.counts != stream.counts, said),
                (played.cost != stream.cost, cost),
            ]
        case "hold":
            return [(not is_hold or played.is_void, said)]
        case "text":
            return [(played.is_confirmed or played.is_void or not played.charge, said)]
        case "hold or right":
            is_right = played.is_confirmed and played.charge == stream.bill
            return [(not (is_hold or is_right), said)]
    least = int(stream.charge.removeprefix("at least "))
    return [(played.charge < least or played.is_void, said)]


def mutant_problems(mutant: Mutant, plain: PlayedStream, played: PlayedStream) -> list[str]:
    """Return what may not be of a changed stream; `plain` is what came of it unchanged."""
    if mutant.rule is Rule.SAME:
        return [
            f"{name} {after!r}, not {before!r}"
            for name in ("text", "end", "counts", "cost", "charge", "is_confirmed", "is_void")
            if (after := getattr(played, name)) != (before := getattr(plain, name))
        ]
    bill = mutant.bill or 0
    below = not played.is_void and played.charge < bill
    is_false_refusal = played.is_void and bool(played.text or played.counts)
    found = [
        ("~" in played.text, f"thoughts in the answer {played.text!r}"),
        (OTHER in played.text, f"text of another choice {played.text!r}"),
        (not _is_allowed(mutant.rule, plain.text, played.text), f"text {played.text!r}"),
        (below, f"charged {played.charge} of {bill}, confirmed: {played.is_confirmed}"),
        (is_false_refusal, "nothing was charged for an answer"),
        (mutant.must_fail and played.end != "error", f"end {played.end!r} after an error"),
        (not played.is_confirmed and not played.is_void and not played.charge, "no charge"),
    ]
    return [why for is_wrong, why in found if is_wrong]


def _is_allowed(rule: Rule, whole: str, text: str) -> bool:
    match rule:
        case Rule.EQUAL:
            return text == whole
        case Rule.PREFIX:
            return whole.startswith(text) or "<think>".startswith(text)  # it was cut in a mark
        case Rule.GAPS:
            letters = iter(whole)
            return all(letter in letters for letter in text if letter != LOST)
    return True
