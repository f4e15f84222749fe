"""What is wrong with an answer by its text alone: empty, cut, a refusal, or repeating itself.

Small models at temperature 0 fall into loops that only a length cap ends. A loop is a text whose
end is the same piece three times or more, character by character. Songs, lists, tables and code
have equal lines, so what looks like them has to be longer.
"""

from __future__ import annotations

import re

from baton.core.lazy_loading import lazy_pattern
from baton.core.messages import Finish
from baton.core.permissions import PromptLimits

_SORRY = (
    r"(?:(?:i'm|i am) (?:really |very |so )?sorry,? (?:but )?|sorry,? (?:but )?|unfortunately,? )?"
)
_MACHINE = r"(?:as an ai\b[^.]{0,60}?,? ?)?"
_UNABLE = (
    r"i (?:can't|cannot|can not|am (?:not able|unable) to|don't know|do not know|"
    r"(?:don't|do not) have (?:access|enough|the ability))"
)
_REFUSAL = lazy_pattern(_SORRY + _MACHINE + _UNABLE)
_MAX_REFUSAL_CHARS = 400
"""A refusal is brief; a long text that begins like one answers after all."""


def help_wanted(text: str, finish: Finish, limits: PromptLimits) -> str:
    """Say in a sentence why a local answer calls for a second look, or return "".

    A cap that the user set cuts an answer as they wish.
    """
    if not text.strip():
        return "The local answer is empty."
    if finish is Finish.LENGTH and limits.max_tokens is None:
        return "The local answer was cut at its length cap."
    return "The local worker would not or could not answer." if is_refusal(text) else ""


def is_refusal(text: str) -> bool:
    """Whether a text is no more than a refusal to answer."""
    plain = " ".join(text.replace("\u2019", "'").lower().split()).replace("i'm ", "i am ")
    return len(plain) <= _MAX_REFUSAL_CHARS and _REFUSAL.match(plain) is not None


# Repetition


CHECK_CHARS = 24
"""A text is looked at again after so many new characters: each look takes some 10 microseconds."""

MIN_REPEATS = 3
MIN_CHARS = 120
"""A piece of prose that stands there so often, in so many characters in all, is a loop."""

MIN_LINE_REPEATS = 8
MIN_LINE_CHARS = 600
"""The same for short lines, list items and table rows."""

MIN_CODE_CHARS = 3000
"""The same for code and for rows of signs: a table of numbers may have a thousand zeros."""

_WINDOW_CHARS = 9000
_PROBE_CHARS = 24
_MAX_CANDIDATES = 6
_SHORT_LINE_CHARS = 60
_LINE_MARK = lazy_pattern(r"\s*(?:[-*+|>#\u2022]|\d{1,3}[.)])\s|\s*\||(?: {4}|\t)\S")
_FENCE = lazy_pattern(r"^\s{0,3}(?:```|~~~)", re.MULTILINE)
_SENTENCE_END = lazy_pattern(r"[.!?\u2026\u3002][\"')\]*_]*(?=\s)|\n")
_WANTED = lazy_pattern(
    r"\brepeat|\btimes\b|\bagain and again\b|\bwiederhol|\bmal\b|\brépèt|\bfois\b|\brepit|\bveces\b"
    r"|\bripet|\bvolte\b|\bvezes\b",
    re.IGNORECASE,
)


class RepetitionWatch:
    """Looks at a text while it grows; `prompt` may ask for repetition, which is then none."""

    def __init__(self, prompt: str) -> None:
        self._is_wanted = _WANTED.search(prompt) is not None
        self._looked_at = 0

    def end_before_repeat(self, text: str) -> int:
        """Return where the text ends before its first repeat, 0 while it doesn't repeat itself."""
        if self._is_wanted or len(text) - self._looked_at < CHECK_CHARS:
            return 0
        self._looked_at = len(text)
        return end_before_repeat(text)


def end_before_repeat(text: str) -> int:
    """Return where a text that ends in a loop ends before its first repeat; 0 if it has none."""
    window = text[-_WINDOW_CHARS:]
    if len(window) < MIN_CHARS:
        return 0
    for period in _periods(window):
        length = _periodic_length(window, period)
        if length >= _least_length(text, window[-period:], period):
            start = len(text) - length
            if length == len(window):
                start = _loop_start(text, start, period)
            return _whole_sentence(text, start + period, period)
    return 0


def _periods(window: str) -> list[int]:
    """Return how far back the last characters of a text stood before, the nearest first."""
    probe, found, end = window[-_PROBE_CHARS:], [], len(window) - 1
    for _ in range(_MAX_CANDIDATES):
        end = window.rfind(probe, 0, end)
        if end < 0:
            break
        found.append(len(window) - _PROBE_CHARS - end)
        end += _PROBE_CHARS - 1
    return found


def _periodic_length(window: str, period: int) -> int:
    """Return how many characters at the end equal those one period before, that one included."""
    unit = window[-period:]
    length = period
    while window.endswith(unit, 0, len(window) - length):
        length += period
    rest = len(window) - length
    matched = 0
    while matched < min(rest, period) and window[rest - 1 - matched] == unit[-1 - matched]:
        matched += 1
    return length + matched


def _loop_start(text: str, start: int, period: int) -> int:
    """Return where a loop that is longer than the window began."""
    while start and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return start


def _least_length(text: str, unit: str, period: int) -> int:
    """Return from how many periodic characters on a text is a loop."""
    if len(_FENCE.findall(text)) % 2 or not any(c.isalnum() for c in unit):
        return max(MIN_LINE_REPEATS * period, MIN_CODE_CHARS)
    lines = [line for line in text[-2 * period :].splitlines()[1:] if line.strip()]
    is_short = "\n" in unit and all(len(line) <= _SHORT_LINE_CHARS for line in lines)
    is_marked = "\n" in unit and any(_LINE_MARK.match(line) for line in lines)
    if is_short or is_marked or unit.count("|") > 1:
        return max(MIN_LINE_REPEATS * period, MIN_LINE_CHARS)
    return max(MIN_REPEATS * period, MIN_CHARS)


def _whole_sentence(text: str, end: int, period: int) -> int:
    """Return the end of the sentence or line near a place at which a text may be cut.

    Where a loop begins is only known up to the characters that stand before each of its rounds.
    """
    match = _SENTENCE_END.search(text, max(0, end - 1), end + period)
    return match.end() if match is not None else end
