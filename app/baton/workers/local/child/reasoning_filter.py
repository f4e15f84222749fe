"""Thoughts: what a model writes for itself before its answer. They are no part of it.

Pure text in, pure text out, however the text is cut into pieces. Only where an answer could begin
is a mark one: an answer that speaks of `<think>` is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class ThoughtMarks(NamedTuple):
    """How thoughts begin and end. After one that `answers`, nothing but the answer follows."""

    opens: str
    closes: str
    answers: bool = False


_PAIRS = (
    ThoughtMarks("<think>", "</think>"),
    ThoughtMarks("[THINK]", "[/THINK]"),
    ThoughtMarks("<|channel>thought", "<channel|>"),
    ThoughtMarks("<seed:think>", "</seed:think>"),
    ThoughtMarks("<mm:think>", "</mm:think>"),
    ThoughtMarks("<|START_THINKING|>", "<|END_THINKING|>"),
    ThoughtMarks("<|inner_prefix|>", "<|inner_suffix|>"),
)
"""What models are known to put around their thoughts."""

_ANALYSIS = (
    ThoughtMarks("<|channel|>analysis", "<|end|>"),
    ThoughtMarks("<|channel|>commentary", "<|end|>"),
)
_FINAL = "<|channel|>final<|message|>"
_CHANNELS = (
    *_ANALYSIS,
    ThoughtMarks("<|start|>", "assistant"),
    ThoughtMarks("<|channel|>final", "<|message|>", answers=True),
)
"""The same for gpt-oss, which names the channel of everything it writes."""

_ENOUGH = "\n\nThat is enough thinking; I answer now."
"""What thoughts end with where they would leave no room for the answer: in the model's own voice,
so that it goes on with what it has."""


def known_marks(template: str, is_token: Callable[[str], bool]) -> tuple[ThoughtMarks, ...]:
    """Return the marks that a model uses, by its chat template's source and its vocabulary."""
    if is_token("<|channel|>") and is_token("<|message|>"):
        return _CHANNELS
    return tuple(mark for mark in _PAIRS if mark.opens in template or is_token(mark.opens))


def open_marks(prompt: str, marks: Sequence[ThoughtMarks]) -> ThoughtMarks | None:
    """Return the mark that a prompt ends with, so that the model begins within thoughts."""
    end = prompt[-200:].rstrip()
    return next((mark for mark in marks if end.endswith(mark.opens)), None)


def no_thoughts_text(prompt: str, marks: Sequence[ThoughtMarks]) -> str:
    """Return what must follow a prompt so that the model answers at once; "" if nothing must."""
    if _ANALYSIS[0] in marks:
        return _FINAL
    mark = open_marks(prompt, marks)
    return f"\n{mark.closes}\n\n" if mark is not None else ""


class ThoughtFilter:
    """Takes what a model writes, and gives back what of it is the answer.

    `begun` is the mark that the prompt left open.
    """

    def __init__(
        self, marks: Sequence[ThoughtMarks] = (), begun: ThoughtMarks | None = None
    ) -> None:
        self._marks = marks
        self._open = begun
        self._any = begun is not None
        self._answering = not marks
        self._held = ""
        # Some models close what was closed in the prompt already.
        self._stray = [m.closes for m in marks if m in _PAIRS]

    @property
    def is_thinking(self) -> bool:
        """Whether the model is within its thoughts."""
        return self._open is not None

    @property
    def closing_text(self) -> str:
        """What the model must be made to write for its thoughts to end; "" if there are none."""
        if self._open is None:
            return ""
        if self._open in _ANALYSIS:
            return f"{_ENOUGH}<|end|><|start|>assistant{_FINAL}"
        return f"{_ENOUGH}\n{self._open.closes}\n\n" if self._open in _PAIRS else ""

    def feed(self, text: str) -> str:
        """Take a piece of text; return what can be said of the answer now."""
        self._held += text
        while not self._answering and self._goes_on():
            pass
        if not self._answering:
            return ""
        said, self._held = self._held, ""
        return said

    def flush(self) -> str:
        """Return what was held back for what might have followed: the model has ended."""
        said, self._held = self._held, ""
        if self._open is not None:
            return ""
        return said.lstrip() if self._any else said

    def _goes_on(self) -> bool:
        """Read on in what is held; return whether there may be more to read."""
        return self._begins() if self._open is None else self._ends(self._open)

    def _begins(self) -> bool:
        """Look whether thoughts begin here, or the answer does."""
        text = self._held.lstrip()
        for mark in self._marks:
            if text.startswith(mark.opens):
                self._open, self._any = mark, True
                self._held = text[len(mark.opens) :]
                return True
        for close in self._stray:
            if text.startswith(close):
                self._held, self._any = text[len(close) :], True
                return True
        if any(known.startswith(text) for known in (*self._stray, *(m.opens for m in self._marks))):
            return False  # it may become one
        self._answering = True
        if self._any:
            self._held = text
        return False

    def _ends(self, mark: ThoughtMarks) -> bool:
        """Look for the end of thoughts, and forget them."""
        _, found, after = self._held.partition(mark.closes)
        if not found:
            self._held = _partial_mark(mark.closes, self._held)
            return False
        self._open, self._held, self._answering = None, after, mark.answers
        return True


def _partial_mark(mark: str, text: str) -> str:
    """Return the end of a text that may be the beginning of a mark."""
    most = min(len(mark) - 1, len(text))
    return next((text[-n:] for n in range(most, 0, -1) if mark.startswith(text[-n:])), "")
