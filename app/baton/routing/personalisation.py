"""Learning from a person's own answers: what is known of them, handed to the router, and told."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from baton.core.feedback import Answered, Signal, counts, rated, tells
from baton.core.routing_types import Candidate, Learned, Rated

LEAST = 12
"""With fewer answers than this nothing is learned."""

MOST = 1_000
"""How many answers are learned from: the newest, so that it takes seconds."""

_AS_IT_CAME = "The router is again as it came; your marks stay in the history."

_COUNTS = (
    "What counts: marks (+ or - on an answer, `baton history rate`), copies, asking again, asking "
    "a stronger worker, changing the prompt, and local drafts that a worker elsewhere replaced."
)

_DONE = {
    Signal.GOOD: "you marked good",
    Signal.BAD: "you marked bad",
    Signal.STRONGER: "after which you asked a stronger worker",
    Signal.AGAIN: "you wanted again",
    Signal.EDITED: "whose prompt you changed",
    Signal.COPIED: "you copied",
    Signal.AGREED: "that a worker elsewhere confirmed",
    Signal.DIFFERED: "that a worker elsewhere contradicted",
}


class Answers(Protocol):
    """Knows what became of answers."""

    async def answered(self, limit: int) -> list[Answered]:
        """Return the newest answers of which anything is known, newest first."""
        ...

    async def signals_since(self, at: float) -> int:
        """Return with how many answers something was done after that time."""
        ...


class Versions(Protocol):
    """Keeps what was learned, and what that was before."""

    def begin(self) -> Path:
        """Return a file to learn into, with the newest version in it, if there is one."""
        ...

    def keep(self, draft: Path) -> None:
        """Make what was learned into `draft` the newest version."""
        ...

    def drop(self, draft: Path) -> None:
        """Forget what was learned into `draft`."""
        ...

    def undo(self) -> bool:
        """Go back to the version before, or to none; tell whether there was anything to undo."""
        ...

    def forget(self) -> int:
        """Remove every version; return how many there were."""
        ...

    @property
    def at(self) -> float | None:
        """When the newest version was learned (None: there is none)."""
        ...


Teach = Callable[[Sequence[Rated], Path], Awaitable[Learned]]
"""Refits the router on labels and writes a file, if that is better than what is in there."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What learning came to.

    `answers` could be learned from; `signals` says what was known of how many of them. `gone` more
    were written by tools, or by workers that are no longer here. `learned` is None where they were
    too few; with `dry` nothing was to be kept.
    """

    answers: int
    signals: Mapping[Signal, int] = field(default_factory=dict)
    gone: int = 0
    learned: Learned | None = None
    dry: bool = False

    @property
    def kept(self) -> bool:
        """Whether anything is different from now on."""
        return self.learned is not None and self.learned.kept and not self.dry


class Tutor:
    """Refits the router on what is known of answers, and takes that back."""

    def __init__(
        self,
        answers: Answers,
        candidates: Callable[[], Sequence[Candidate]],
        teach: Teach,
        versions: Versions,
    ) -> None:
        self._answers = answers
        self._candidates = candidates
        self._teach = teach
        self._versions = versions

    async def learn(self, *, dry: bool = False) -> Lesson:
        """Learn from the newest answers, and keep that if it is better than before.

        Raises what teaching and keeping raise; nothing is changed then.
        """
        roster = {candidate.id: candidate for candidate in self._candidates()}
        known = [answer for answer in await self._answers.answered(MOST) if tells(answer)]
        here = [answer for answer in known if answer.worker in roster]
        signals = Counter(counts(answer.signals) for answer in here)
        lesson = Lesson(len(here), signals, len(known) - len(here), dry=dry)
        if len(here) < LEAST:
            return lesson
        draft = self._versions.begin()
        try:
            learned = await self._teach(rated(here, roster, time.time()), draft)
            if learned.kept and not dry:
                self._versions.keep(draft)
        finally:
            self._versions.drop(draft)
        return replace(lesson, learned=learned)

    async def news(self) -> int:
        """Return with how many answers something was done since the last time."""
        return await self._answers.signals_since(self._versions.at or 0.0)

    def undo(self) -> str:
        """Take back what was learned last; say what counts now."""
        return undo(self._versions)

    def forget(self) -> str:
        """Take back all that was ever learned; say what counts now."""
        return forget(self._versions)


def undo(versions: Versions) -> str:
    """Take back what was learned last; say what counts now."""
    if not versions.undo():
        return "There is nothing to undo: nothing was learned from your answers yet."
    if versions.at is None:
        return f"What was learned is undone. {_AS_IT_CAME}"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(versions.at))
    return f"What was learned last is undone. What was learned on {when} counts again."


def forget(versions: Versions) -> str:
    """Take back all that was ever learned; say what counts now."""
    if not versions.forget():
        return "There is nothing to forget: nothing was learned from your answers yet."
    return f"All that was learned from your answers is removed. {_AS_IT_CAME}"


def told(lesson: Lesson) -> list[str]:
    """Say in sentences what learning came to."""
    lines = [_basis(lesson)]
    if lesson.gone:
        more = " more" if lesson.answers else ""
        were = f"1{more} was" if lesson.gone == 1 else f"{lesson.gone:,}{more} were"
        lines.append(f"{were} written by tools or workers that are no longer here, and left out.")
    learned = lesson.learned
    if learned is None:
        return [*lines, f"It takes {LEAST} to learn, so nothing was changed.", _COUNTS]
    lines += learned.notes
    if learned.held:
        lines.append(_checked(learned))
    if not learned.kept:
        lines.append("Nothing was changed: prompts go where they went before.")
    elif lesson.dry:
        lines.append("Nothing was kept: this was only a look.")
    return lines


def _basis(lesson: Lesson) -> str:
    """Say what there was to learn from."""
    if not lesson.answers and not lesson.signals:
        return "There is no answer to learn from yet."
    answers = "1 answer" if lesson.answers == 1 else f"{lesson.answers:,} answers"
    parts = [
        f"{lesson.signals[s]:,} {words}" for s, words in _DONE.items() if lesson.signals.get(s)
    ]
    return f"There {'is' if lesson.answers == 1 else 'are'} {answers} to learn from: " + (
        f"{', '.join(parts)}."
    )


def _checked(learned: Learned) -> str:
    """Say how it did on answers that it hadn't seen."""
    return (
        f"Tried on {learned.held:,} that it had not seen: its mistake is {learned.after:.3f}, and "
        f"{learned.before:.3f} as it came (0 is always right, 0.25 a coin toss)."
    )
