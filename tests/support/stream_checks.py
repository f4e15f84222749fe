"""What must hold of a stream that was replayed, as it is described and changed."""

from __future__ import annotations

from support.stream_corpus import RecordedStream
from support.stream_mutations import OTHER, Mutant, Rule
from support.stream_replayer import ReplayedStream

LOST = "\ufffd"
"""What stands for half of a character."""


def description_problems(stream: RecordedStream, replayed: ReplayedStream) -> list[str]:
    """Return where a stream was read otherwise than described."""
    ends = ["stop" if end == "empty" else end for end in stream.end.split(" or ")]
    found = [
        (replayed.text != stream.text, f"text {replayed.text!r}"),
        ("~" in replayed.text, "thoughts in the answer"),
        (replayed.end not in ends, f"end {replayed.end!r} {replayed.error}"),
        (_lost_thoughts(stream, replayed), f"only {replayed.written} characters were counted"),
        (replayed.charge > replayed.held, f"charged {replayed.charge} of {replayed.held}"),
        *_charge_problems(stream, replayed),
    ]
    return [why for is_wrong, why in found if is_wrong]


def _lost_thoughts(stream: RecordedStream, replayed: ReplayedStream) -> bool:
    thoughts = 0 if stream.thoughts == "?" else len(stream.thoughts)
    return replayed.written < len(stream.text) + thoughts


def _charge_problems(stream: RecordedStream, replayed: ReplayedStream) -> list[tuple[bool, str]]:
    is_hold = not replayed.is_confirmed and replayed.charge == replayed.held
    said = f"charge {replayed.charge}, confirmed: {replayed.is_confirmed}, counts {replayed.counts}"
    match stream.charge:
        case 0:
            return [(not replayed.is_void, said)]
        case int():
            cost = f"cost {replayed.cost}"
            return [
                (not replayed.is_confirmed or replayed.charge != stream.charge, said),
                (replayed.counts != stream.counts, said),
                (replayed.cost != stream.cost, cost),
            ]
        case "hold":
            return [(not is_hold or replayed.is_void, said)]
        case "text":
            return [(replayed.is_confirmed or replayed.is_void or not replayed.charge, said)]
        case "hold or right":
            is_right = replayed.is_confirmed and replayed.charge == stream.bill
            return [(not (is_hold or is_right), said)]
    least = int(stream.charge.removeprefix("at least "))
    return [(replayed.charge < least or replayed.is_void, said)]


def mutant_problems(mutant: Mutant, plain: ReplayedStream, replayed: ReplayedStream) -> list[str]:
    """Return what may not be of a changed stream; `plain` is what came of it unchanged."""
    if mutant.rule is Rule.SAME:
        return [
            f"{name} {after!r}, not {before!r}"
            for name in ("text", "end", "counts", "cost", "charge", "is_confirmed", "is_void")
            if (after := getattr(replayed, name)) != (before := getattr(plain, name))
        ]
    bill = mutant.bill or 0
    below = not replayed.is_void and replayed.charge < bill
    is_false_refusal = replayed.is_void and bool(replayed.text or replayed.counts)
    found = [
        ("~" in replayed.text, f"thoughts in the answer {replayed.text!r}"),
        (OTHER in replayed.text, f"text of another choice {replayed.text!r}"),
        (not _is_allowed(mutant.rule, plain.text, replayed.text), f"text {replayed.text!r}"),
        (below, f"charged {replayed.charge} of {bill}, confirmed: {replayed.is_confirmed}"),
        (is_false_refusal, "nothing was charged for an answer"),
        (mutant.must_fail and replayed.end != "error", f"end {replayed.end!r} after an error"),
        (
            not replayed.is_confirmed and not replayed.is_void and not replayed.charge,
            "no charge",
        ),
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
