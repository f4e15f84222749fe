"""Thoughts: what a model writes for itself before its answer. They aren't part of it.

Pure text in, pure text out, however the text is cut into pieces. A mark counts where an answer
could begin, and for a model that has used it, at a later line's beginning: an answer that speaks of
`<think>` is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple


class ThoughtMarks(NamedTuple):
    """How thoughts begin and end. After one that `answers`, nothing but the answer follows.

    What `may_be_answer` isn't a thought before its end has come.
    """

    opens: str
    closes: str
    answers: bool = False
    may_be_answer: bool = False


_PAIRS = (
    ThoughtMarks("<think>", "</think>"),
    ThoughtMarks("[THINK]", "[/THINK]"),
    ThoughtMarks("<|channel>thought", "<channel|>"),
    ThoughtMarks("<seed:think>", "</seed:think>"),
    ThoughtMarks("<mm:think>", "</mm:think>"),
    ThoughtMarks("<|START_THINKING|>", "<|END_THINKING|>"),
    ThoughtMarks("<|inner_prefix|>", "<|inner_suffix|>"),
    ThoughtMarks("<|begin_of_thought|>", "<|end_of_thought|>"),  # OpenThinker
    ThoughtMarks("<longcat_think>", "</longcat_think>"),
    ThoughtMarks("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi-VL
    ThoughtMarks("<thought>", "</thought>"),  # EXAONE, and Gemini where it speaks like OpenAI
)
"""What models are known to put around their thoughts."""

_WORDS = tuple(
    ThoughtMarks(f"<{word}>", f"</{word}>")
    for word in ("thinking", "thought", "Thought", "reasoning", "reason", "reflection")
)
"""The same of models that took it from their prompts: a prompt may ask for such a part, too."""

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

REMOTE_MARKS = (
    *_PAIRS,
    *(mark for mark in _WORDS if mark not in _PAIRS),
    *_CHANNELS,
    ThoughtMarks("analysis<|message|>", "<|end|>"),  # behind a prompt that began the channel
    # gpt-oss behind a server that drops its special tokens
    ThoughtMarks("analysis", "assistantfinal", answers=True, may_be_answer=True),
)
"""What a model behind a server may put around its thoughts: its template isn't known here."""

MAX_UNSURE_CHARS = 20_000
"""How much of what sounds like thoughts is held back for their end."""

_STRAY_ENDS = ("</think>", "</thinking>", "</thought>", "[/THINK]")
_STRAY_CLOSE = re.compile(f"(?:{'|'.join(map(re.escape, _STRAY_ENDS))})(?! [a-z]|[`,.;:!?)'\"])")
"""The end of thoughts whose beginning the server's template wrote; not one that is spoken of."""

_LINE_ENDS = [f"{end}\n" for end in _STRAY_ENDS]

_THOUGHT_BEGINNING = re.compile(
    r"\s*(?:(?:okay|ok|alright|hmm+|well|right)[,.]+\s+)?(?:(?:so|now|first),?\s+)?"
    r"(?:the user|(?:i|we) (?:need|have|should|must|want) |i'm (?:trying|supposed)"
    r"|let(?:'s| me| us) (?:think|see|break|tackle|start|recall|figure|try|analy|parse)"
    r"|thinking process|\u597d\u7684|\u55ef|\u7528\u6237|\u9996\u5148)",
    re.IGNORECASE,
)

_ENOUGH = "\n\nThat is enough thinking; I answer now."
"""What thoughts end with where they would leave no room for the answer: in the model's own voice,
so that it continues with what it has."""


def remote_marks(prompt: str) -> tuple[ThoughtMarks, ...]:
    """Return the marks that a server's model may use: no plain word that the prompt speaks of."""
    return tuple(mark for mark in REMOTE_MARKS if mark not in _WORDS or mark.opens not in prompt)


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

    `begun` is the mark that the prompt left open. With `may_be_begun` it may have left one open,
    which isn't known: the beginning is held back until `release`, for an end without a beginning.
    Where that end comes later, `took_back` is set: what was given before were thoughts. With any of
    them `had_thoughts` is.
    """

    def __init__(
        self,
        marks: Sequence[ThoughtMarks] = (),
        begun: ThoughtMarks | None = None,
        *,
        may_be_begun: bool = False,
    ) -> None:
        self.took_back = False
        self._marks = marks
        self._open = begun
        self.had_thoughts = begun is not None
        self._answering = not marks
        self._held = ""
        self._said: list[str] = []  # of the answer, where a mark may follow in it
        self._used = begun if begun in _PAIRS else None
        self._is_unsure = self._may_be_begun = may_be_begun
        self._is_aside = False
        # Some models close what was closed in the prompt already.
        self._stray = [m.closes for m in marks if m in _PAIRS]

    @property
    def is_thinking(self) -> bool:
        """Whether the model is within its thoughts."""
        return self._open is not None

    @property
    def is_unsure(self) -> bool:
        """Whether text is held back that may be thoughts without a beginning."""
        return self._is_unsure and bool(self._held)

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
        shown = ""
        while True:
            if not self._answering:
                if not (self._begins() if self._open is None else self._ends(self._open)):
                    return shown
            else:
                shown += self._take_answer()
                if self._answering:
                    return shown

    def release(self) -> str:
        """Return what is held back in doubt, unless it sounds like thoughts."""
        if not self._is_unsure or _THOUGHT_BEGINNING.match(self._held):
            return ""
        self._is_unsure = False
        return self.feed("")

    def flush(self, *, is_cut: bool = False) -> str:
        """Return what was held back for what might have followed: the model has ended.

        Thoughts in the middle of an answer have no end where it `is_cut` at its cap.
        """
        rest, self._held = self._held, ""
        if self._open is not None:
            is_text = (self._is_aside and not is_cut) or self._open.may_be_answer
            return f"{self._open.opens}{rest}" if is_text else ""
        if self._is_unsure and (end := _stray_end(rest)) is not None:
            self.had_thoughts = True
            return rest[end:].lstrip()
        return rest.lstrip() if self.had_thoughts and not self._said else rest

    def _begins(self) -> bool:
        """Look whether thoughts begin here, or the answer does."""
        text = self._held.lstrip()
        if any(mark.opens.startswith(text) and mark.opens != text for mark in self._marks):
            return False  # it may become one
        for mark in self._marks:
            if text.startswith(mark.opens):
                self._open, self.had_thoughts, self._is_unsure = mark, True, False
                self._held = text[len(mark.opens) :]
                return True
        for close in self._stray:
            if text.startswith(close):
                self._held, self.had_thoughts = text[len(close) :], True
                return True
        if any(close.startswith(text) for close in self._stray):
            return False
        if self._is_unsure:
            return self._doubts(text)
        self._answering = True
        if self.had_thoughts:
            self._held = text
        return True

    def _doubts(self, text: str) -> bool:
        """Look in what may be thoughts without a beginning for their end."""
        end = _stray_end(text)
        if end is not None and end <= len(text) - 2:
            self._held, self.had_thoughts, self._is_unsure = text[end:], True, False
            return True
        # Otherwise what follows shows whether a mark is only spoken of.
        may_end = text[0].isalpha() and len(text) < MAX_UNSURE_CHARS
        self._is_unsure = end is not None or may_end
        return not self._is_unsure

    def _ends(self, mark: ThoughtMarks) -> bool:
        """Look for the end of thoughts, and forget them."""
        _, found, after = self._held.partition(mark.closes)
        if not found:
            if not (self._is_aside or mark.may_be_answer):
                self._held = _partial_mark(mark.closes, self._held)
            return False
        self._open, self._held, self._answering = None, after, mark.answers or self._is_aside
        self._used = mark if mark in _PAIRS else None
        self.had_thoughts, self._is_aside, self._may_be_begun = True, False, False
        return True

    def _take_answer(self) -> str:
        """Return what of the answer is held, up to thoughts within it."""
        text, self._held = self._held, ""
        if self._may_be_begun:
            whole = "".join((*self._said, text)) if _STRAY_CLOSE.search(text) else ""
            if (end := _stray_end(whole, is_line=True)) is not None:
                self._said, self._held, self._may_be_begun = [], whole[end:], False
                self.took_back = self.had_thoughts = True
                self._answering = False
                return ""
        elif (mark := self._used) is None:
            return text
        else:
            at = text.find(mark.opens)
            while at >= 0 and not _may_think("".join((*self._said, text[:at]))):
                at = text.find(mark.opens, at + 1)
            if at >= 0:
                self._open, self._is_aside, self._answering = mark, True, False
                self._held, text = text[at + len(mark.opens) :], text[:at]
        if self._answering:
            ends = [self._used.opens] if self._used else _LINE_ENDS
            self._held = max((_partial_mark(end, text) for end in ends), key=len)
            text = text[: len(text) - len(self._held)]
        self._said.append(text)
        return text


def _stray_end(text: str, *, is_line: bool = False) -> int | None:
    """Return where thoughts end whose beginning isn't there; None where none do.

    With `is_line` only an end that ends its line counts.
    """
    for match in _STRAY_CLOSE.finditer(text):
        if is_line and text[match.end() : match.end() + 1] != "\n":
            continue
        before = text[: match.start()]
        if match[0].replace("/", "") not in before and not _is_in_code(before):
            return match.end()
    return None


def _may_think(before: str) -> bool:
    """Whether thoughts may begin behind this much of an answer."""
    is_set_off = before[-1:] == "\n" or before[-1:].isalnum() or before[-1:] in ".!?:"
    return is_set_off and not _is_in_code(before)


def _is_in_code(before: str) -> bool:
    """Whether what follows a text stands in code."""
    line = before[before.rfind("\n") + 1 :]
    fences = re.findall(r"`{3,}|^ {0,3}~{3,}", before, re.MULTILINE)
    return len(fences) % 2 == 1 or line.count("`") % 2 == 1 or line.startswith(("    ", "\t"))


def _partial_mark(mark: str, text: str) -> str:
    """Return the end of a text that may be the beginning of a mark."""
    most = min(len(mark) - 1, len(text))
    return next((text[-n:] for n in range(most, 0, -1) if mark.startswith(text[-n:])), "")
