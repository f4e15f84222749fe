"""Refits the router on a person's own answers, keeps the versions, and reports the result."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from baton.core.errors import StoreError
from baton.core.history_types import (
    AnswerSignals,
    Signal,
    is_about_worker,
    rated_answers,
    strongest_signal,
)
from baton.core.routing_types import Candidate, RatedAnswer, RefitResult
from baton.platform.durable_files import create_file, make_folder

MIN_ANSWERS = 12
"""With fewer answers than this nothing is learned."""

MAX_ANSWERS = 1_000
"""How many answers are learned from: the newest, so that it takes seconds."""

_RESET_NOTE = "The router is again as it came; your marks stay in the history."

_COUNTED_SIGNALS = (
    "What counts: marks (+ or - on an answer, `baton history rate`), copies, asking again, asking "
    "a stronger worker, changing the prompt, and local drafts that a remote worker replaced."
)

_SIGNAL_PHRASES = {
    Signal.GOOD: "you marked good",
    Signal.BAD: "you marked bad",
    Signal.STRONGER: "after which you asked a stronger worker",
    Signal.AGAIN: "you wanted again",
    Signal.EDITED: "whose prompt you changed",
    Signal.COPIED: "you copied",
    Signal.AGREED: "that a remote worker confirmed",
    Signal.DIFFERED: "that a remote worker contradicted",
}


class AnswerSource(Protocol):
    """Knows what became of answers."""

    async def answered(self, limit: int) -> list[AnswerSignals]:
        """Return the newest answers of which anything is known, newest first."""
        ...

    async def signals_since(self, at: float) -> int:
        """Return with how many answers something was done after that time."""
        ...


Refit = Callable[[Sequence[RatedAnswer], Path], Awaitable[RefitResult]]
"""Refits the router on labels and writes a file, if that is better than what is in there."""


@dataclass(frozen=True, slots=True)
class LearningResult:
    """What learning came to.

    `answers` could be learned from; `signals` says what was known of how many of them. `left_out`
    more were written by tools, or by workers that are no longer here. `learned` is None where they
    were too few; with `dry_run` nothing was to be kept.
    """

    answers: int
    signals: Mapping[Signal, int] = field(default_factory=dict)
    left_out: int = 0
    learned: RefitResult | None = None
    dry_run: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether anything is different from now on."""
        return self.learned is not None and self.learned.kept and not self.dry_run


class Personaliser:
    """Refits the router on what is known of answers, and takes that back."""

    def __init__(
        self,
        answers: AnswerSource,
        candidates: Callable[[], Sequence[Candidate]],
        refit: Refit,
        versions: LearnedVersions,
    ) -> None:
        self._answers = answers
        self._candidates = candidates
        self._refit = refit
        self._versions = versions

    async def learn(self, *, dry: bool = False) -> LearningResult:
        """Learn from the newest answers, and keep that if it is better than before.

        Raises what refitting and keeping raise; nothing is changed then.
        """
        roster = {candidate.id: candidate for candidate in self._candidates()}
        known = [
            answer
            for answer in await self._answers.answered(MAX_ANSWERS)
            if is_about_worker(answer)
        ]
        here = [answer for answer in known if answer.worker in roster]
        signals = Counter(strongest_signal(answer.signals) for answer in here)
        lesson = LearningResult(len(here), signals, len(known) - len(here), dry_run=dry)
        if len(here) < MIN_ANSWERS:
            return lesson
        draft = self._versions.create_draft()
        try:
            learned = await self._refit(rated_answers(here, roster, time.time()), draft)
            if learned.kept and not dry:
                self._versions.keep(draft)
        finally:
            self._versions.discard(draft)
        return replace(lesson, learned=learned)

    async def count_new_answers(self) -> int:
        """Return with how many answers something was done since the last time."""
        return await self._answers.signals_since(self._versions.learned_at or 0.0)

    def undo(self) -> str:
        """Take back what was learned last; say what counts now."""
        return undo(self._versions)

    def forget(self) -> str:
        """Take back all that was ever learned; say what counts now."""
        return forget(self._versions)


def undo(versions: LearnedVersions) -> str:
    """Take back what was learned last; say what counts now."""
    if not versions.undo():
        return "There is nothing to undo: nothing was learned from your answers yet."
    if versions.learned_at is None:
        return f"What was learned is undone. {_RESET_NOTE}"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(versions.learned_at))
    return f"What was learned last is undone. What was learned on {when} counts again."


def forget(versions: LearnedVersions) -> str:
    """Take back all that was ever learned; say what counts now."""
    if not versions.forget():
        return "There is nothing to forget: nothing was learned from your answers yet."
    return f"All that was learned from your answers is removed. {_RESET_NOTE}"


def result_lines(lesson: LearningResult) -> list[str]:
    """Say in sentences what learning came to."""
    lines = [_basis_sentence(lesson)]
    if lesson.left_out:
        more = " more" if lesson.answers else ""
        were = f"1{more} was" if lesson.left_out == 1 else f"{lesson.left_out:,}{more} were"
        lines.append(f"{were} written by tools or workers that are no longer here, and left out.")
    learned = lesson.learned
    if learned is None:
        return [
            *lines,
            f"It takes {MIN_ANSWERS} to learn, so nothing was changed.",
            _COUNTED_SIGNALS,
        ]
    lines += learned.notes
    if learned.held:
        lines.append(_validation_sentence(learned))
    if not learned.kept:
        lines.append("Nothing was changed: prompts go where they went before.")
    elif lesson.dry_run:
        lines.append("Nothing was kept: this was only a look.")
    return lines


def _basis_sentence(lesson: LearningResult) -> str:
    """Say what there was to learn from."""
    if not lesson.answers and not lesson.signals:
        return "There is no answer to learn from yet."
    answers = "1 answer" if lesson.answers == 1 else f"{lesson.answers:,} answers"
    parts = [
        f"{lesson.signals[s]:,} {words}"
        for s, words in _SIGNAL_PHRASES.items()
        if lesson.signals.get(s)
    ]
    return f"There {'is' if lesson.answers == 1 else 'are'} {answers} to learn from: " + (
        f"{', '.join(parts)}."
    )


def _validation_sentence(learned: RefitResult) -> str:
    """Say how it did on answers that it hadn't seen."""
    return (
        f"Tried on {learned.held:,} that it had not seen: its mistake is {learned.after:.3f}, and "
        f"{learned.before:.3f} as it came (0 is always right, 0.25 a coin toss)."
    )


MAX_EARLIER_VERSIONS = 5
"""How many earlier versions can be gone back to."""

STALE_SECONDS = 24 * 3600
"""After how long what a Baton that was killed had begun is removed."""

_EARLIER_PATTERN, _DRAFT_PATTERN = "before-*.npz", "new-*.npz"


class LearnedVersions:
    """The versions of one learned file, in its folder."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._folder = file.parent

    @property
    def learned_at(self) -> float | None:
        """When the newest version was learned, in seconds since 1970 (None: there is none)."""
        try:
            return self.file.stat().st_mtime
        except OSError:
            return None

    @property
    def earlier(self) -> list[Path]:
        """The versions before it, oldest first."""
        return sorted(self._folder.glob(_EARLIER_PATTERN))

    def create_draft(self) -> Path:
        """Return a file of its own to learn into, with the newest version in it, if there is one.

        Raises StoreError.
        """
        with _explain_errors(self._folder):
            make_folder(self._folder)
            for left in self._folder.glob(_DRAFT_PATTERN):
                with suppress(FileNotFoundError):  # another Baton's, which is done with it
                    if time.time() - left.stat().st_mtime > STALE_SECONDS:
                        left.unlink()
            draft = self._folder / f"new-{os.getpid()}-{os.urandom(4).hex()}.npz"
            with suppress(FileNotFoundError):
                _copy_file(self.file, draft)
            return draft

    def keep(self, draft: Path) -> None:
        """Make what was learned into `draft` the newest version. Raises StoreError."""
        with _explain_errors(self._folder):
            number = max((_version_number(path) for path in self.earlier), default=0) + 1
            with suppress(FileNotFoundError):
                self._put_aside(number)
            draft.replace(self.file)
            for old in self.earlier[:-MAX_EARLIER_VERSIONS]:
                old.unlink(missing_ok=True)

    def _put_aside(self, number: int) -> None:
        while True:
            try:
                return _copy_file(self.file, self._folder / f"before-{number:06d}.npz")
            except FileExistsError:  # another Baton's, a moment ago
                number += 1

    def discard(self, draft: Path) -> None:
        """Forget what was learned into `draft`."""
        with _explain_errors(self._folder):
            draft.unlink(missing_ok=True)

    def undo(self) -> bool:
        """Go back to the version before, or to none; return whether there was one.

        Raises StoreError.
        """
        if self.learned_at is None:
            return False
        with _explain_errors(self._folder):
            if earlier := self.earlier:
                earlier[-1].replace(self.file)
            else:
                self.file.unlink(missing_ok=True)
            return True

    def forget(self) -> int:
        """Remove every version; return how many there were. Raises StoreError."""
        with _explain_errors(self._folder):
            there = [*self.earlier, *([self.file] if self.learned_at is not None else [])]
            for path in (*there, *self._folder.glob(_DRAFT_PATTERN)):
                path.unlink(missing_ok=True)
            return len(there)


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file to a place where there is none, with its time."""
    data, status = source.read_bytes(), source.stat()
    create_file(target, data)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _version_number(path: Path) -> int:
    digits = path.stem.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0


@contextmanager
def _explain_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"What is learned can't be kept in {folder}: {error.strerror}. Nothing was changed.",
            "Check the folder's owner and permissions, and that the disk isn't full.",
        ) from error
