"""What every bench has in common: its questions, its rounds, and what was played before."""

from __future__ import annotations

import random
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from baton.bench import BenchSetting, PlayedQuestion, ResultsFile, StrategyRow
from baton.core.errors import BudgetExceeded, ConfigError
from baton.core.money import parse_usd
from baton.core.sanitiser import one_line

if TYPE_CHECKING:
    from baton.core.plan.answer_grades import Dataset, Question


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """The command's options, as click passes them."""

    strategy: str
    workers: str
    cloud: tuple[str, ...] = ()
    budget: str | None = None
    limit: int | None = None
    seed: int | None = None
    out: Path | None = None
    router: Path | None = None
    held_out: str | None = None
    at: str | None = None

    @property
    def strategies(self) -> tuple[str, ...]:
        """The names of the strategies."""
        return split_names(self.strategy)


def split_names(text: str) -> tuple[str, ...]:
    """Return the words between commas, each once."""
    return tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))


class Round(NamedTuple):
    """A strategy played over all questions, for what all of it may cost (None: anything)."""

    title: str
    strategy: str
    ceiling: int | None


_EXAMPLES = {"workers": "--workers small,gpt", "strategy": "--strategy single,hybrid"}


class Bench(ABC):
    """A dataset being played: what is there already is not played again."""

    def __init__(self, options: BenchOptions, dataset: Dataset) -> None:
        self.options = options
        self.dataset = dataset
        self.workers = split_names(options.workers)
        for option, names in (("workers", self.workers), ("strategy", options.strategies)):
            if not names:
                raise ConfigError(f"--{option} names none.", f"For example: {_EXAMPLES[option]}.")
        self.results = ResultsFile(options.out or Path(f"{dataset.name}.results.jsonl"))
        questions = list(dataset.questions)
        if options.seed is not None:
            random.Random(options.seed).shuffle(questions)
        if options.held_out is not None:
            questions = _held_out_questions(questions, options.held_out)
        self.questions: Sequence[Question] = questions[: options.limit]
        self.budget = None if options.budget is None else parse_usd(options.budget)

    @property
    def rounds(self) -> Sequence[Round]:
        """What is played, one after the other."""
        return [Round(name, name, self.budget) for name in self.options.strategies]

    def terms(self, one: Round) -> str:
        """Return what else changes results."""
        return ""

    def setting(self, one: Round) -> BenchSetting:
        """Return what results of a round belong to."""
        name, digest = self.dataset.name, self.dataset.digest
        return BenchSetting(name, digest, one.strategy, self.workers, self.terms(one))

    def done(self, one: Round) -> list[PlayedQuestion]:
        """Return what is there already of the questions, in the file's order."""
        wanted = {question.id for question in self.questions}
        found = self.results.played_before(self.setting(one))
        return [played for name, played in found.items() if name in wanted]

    async def go_on(self, one: Round) -> AsyncIterator[PlayedQuestion]:
        """Give what was played before, then play the rest and keep it."""
        before = self.done(one)
        for played in before:
            yield played
        known = {played.question for played in before}
        rest = [question for question in self.questions if question.id not in known]
        if rest:
            setting = self.setting(one)
            async for played in self.play(one, rest, before):
                self.results.append(setting, played)
                yield played

    @abstractmethod
    def play(
        self, one: Round, questions: Sequence[Question], before: Sequence[PlayedQuestion]
    ) -> AsyncIterator[PlayedQuestion]:
        """Play questions. Raises BudgetExceeded where money doesn't last."""

    def baselines(self) -> Sequence[StrategyRow]:
        """Return what is known without playing."""
        return ()

    def remarks(self, rows: Sequence[StrategyRow]) -> Sequence[str]:
        """Return what is to be said besides the figures."""
        return ()

    def explained(self, error: BudgetExceeded, strategy: str, done: int) -> BudgetExceeded:
        """Return the error that says where the bench stopped, and what to do."""
        return BudgetExceeded(
            f"Stopped at {done} of {len(self.questions)} questions of {strategy}: {error.message} "
            f"All results are kept in {self.results.path}.",
            error.hint or "The same command goes on from there once more may be spent (--budget).",
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def show_progress(name: str, done: int, count: int) -> None:
    """Show on a terminal how many of `count` are done."""
    if sys.stderr.isatty():
        end = "\r" if done < count else "\r\x1b[2K"
        print(f"{one_line(name, 40)}: {done} of {count}", end=end, file=sys.stderr, flush=True)


def _held_out_questions(questions: Sequence[Question], salt: str) -> list[Question]:
    """Return the questions that a router trained with that salt never saw. Raises ConfigError."""
    from baton.core.plan.answer_grades import is_held_out

    if not all(question.key for question in questions):
        raise ConfigError(
            "Which questions a router was trained on is unknown: they have no `qhash`.",
            "Leave --held-out away.",
        )
    if found := [question for question in questions if is_held_out(question, salt)]:
        return found
    raise ConfigError("No question is left.", "Name another salt, or leave --held-out away.")
