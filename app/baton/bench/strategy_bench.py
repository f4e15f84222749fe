"""How well a strategy does on questions whose answers are known: played like any other prompt.

Its result is shown beside what is possible without any strategy, where recordings hold that.
"""

from __future__ import annotations

import os
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from baton.core.errors import (
    ERROR_CLASSES,
    BatonError,
    BudgetExceeded,
    ConfigError,
    StoreError,
    WorkerUnavailable,
)
from baton.core.events import Called, Decision, Event, Failed, Offered, StepFailed
from baton.core.hold_decision import overcharge_error
from baton.core.messages import Card, Prompt
from baton.core.money import FREE, BilledTokens
from baton.core.permissions import PromptLimits
from baton.core.plan.answer_grades import (
    PYTHON,
    Dataset,
    Question,
    RecordedAnswer,
    grade_answer,
    python_in,
    recorded_tokens,
    wilson_interval,
)
from baton.core.run.orchestra import Orchestra
from baton.core.view import RunView
from baton.platform.durable_files import open_private

Execute = Callable[[str, str], Awaitable[str]]
"""Runs Python, then tests of it, where it can do no harm; returns what is printed and how it ended.

The last line is not the code's: it begins with PASSED only where the tests ran. Raises WorkerError.
"""

PASSED_PREFIX = "Passed: "

REFUSED_ERROR = "BudgetExceeded"
_SETUP_ERRORS = ("SecretMissing", "ModelFileError", "ConfigError", "StoreError")

NO_SANDBOX = "Nothing executes code safely here, so it was not graded."


@dataclass(frozen=True, slots=True)
class PlayedQuestion:
    """How one question went. `score` is from 0 to 1, None where it can't be graded.

    `outside` counts those of the `calls` that went to remote workers. `cost` is in nano-dollars.
    `worker` wrote the answer ("" where several did); `note` says what went wrong, `error` is its
    class where that was no fault of the answer's.
    """

    question: str
    score: float | None
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    seconds: float = 0.0
    calls: int = 0
    outside: int = 0
    worker: str = ""
    note: str = ""
    error: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether a call was refused because money was missing."""
        return self.error == REFUSED_ERROR

    @property
    def is_broken(self) -> bool:
        """Whether it says nothing of the strategy: a key, a model file or a setting is missing."""
        return self.error in _SETUP_ERRORS


class Grader:
    """Grades what came out of a run: by the recording where one worker's own text is the answer."""

    def __init__(
        self,
        recorded: Mapping[str, Mapping[str, RecordedAnswer]] | None = None,
        execute: Execute | None = None,
    ) -> None:
        self._recorded = recorded or {}
        self._execute = execute

    async def __call__(self, question: Question, view: RunView) -> tuple[float | None, str]:
        """Return the score and, where there is none or it says little, why."""
        if view.status != "finished":
            return 0.0, view.failure.message if view.failure else f"The run was {view.status}."
        once = self._recorded.get(answer_author(view), {}).get(question.id)
        if once is not None and view.answer.strip():
            # A recording whose end a cap cut off says nothing any more.
            return (0.0, "The answer was cut at its cap.") if view.is_cut else (once.score, "")
        if question.kind == PYTHON:
            return await self._tested(question, view.answer)
        if not (question.answer or question.parts):
            return None, "There is no answer to compare with."
        return grade_answer(question, view.answer), ""

    async def _tested(self, question: Question, text: str) -> tuple[float | None, str]:
        if self._execute is None:
            return None, NO_SANDBOX
        if "assert" not in question.tests:
            return None, "Its tests assert nothing."
        try:
            said = await self._execute(python_in(text), question.tests)
        except WorkerUnavailable as error:
            return None, error.message  # that says nothing of the code
        except BatonError as error:
            return 0.0, error.message
        last = said.rpartition("\n")[2]
        return (1.0, "") if last.startswith(PASSED_PREFIX) else (0.0, last[-200:])


def answer_author(view: RunView) -> str:
    """Return whose own text the answer is, or ""."""
    answer = view.plan.answer if view.plan is not None else ()
    if len(answer) != 1:
        return ""
    return view.steps[answer[0] - 1].worker


async def play(
    orchestra: Orchestra, question: Question, limits: PromptLimits, grader: Grader
) -> PlayedQuestion:
    """Play one question to its end and grade what came out."""
    played, _ = await _play(orchestra, question, limits, grader)
    return played


async def _play(
    orchestra: Orchestra, question: Question, limits: PromptLimits, grader: Grader
) -> tuple[PlayedQuestion, Sequence[Called]]:
    """Play one question; return also the calls that cost more than was held for them."""
    view, error, why = RunView(), "", ""
    prompt = Prompt(question.prompt, system=question.system)
    async with orchestra.play(prompt, limits=limits) as run:
        async for event in run:
            view = view.apply(event)
            if (problem := _setup_problem(event)) is not None:
                error, why = problem
    score, note = await grader(question, view)
    remote = {card.id for card in orchestra.roster if card.remote}
    played = PlayedQuestion(
        question.id,
        score,
        sum(call.tokens_in for call in view.calls),
        sum(call.tokens_out for call in view.calls),
        view.cost,
        view.worked_seconds,
        len(view.calls),
        sum(call.worker in remote for call in view.calls),
        answer_author(view),
        why or note,
        error,
    )
    return played, view.overcharged_calls


def _setup_problem(event: Event) -> tuple[str, str] | None:
    """Return the error and message of an event about missing money, keys or files, if it is one."""
    match event:
        case Offered(decision=Decision.CEILING, message=message):
            return REFUSED_ERROR, message
        case StepFailed(error=error, message=message) | Failed(error=error, message=message):
            return (error, message) if error in (REFUSED_ERROR, *_SETUP_ERRORS) else None
    return None


async def play_all(
    orchestra: Orchestra,
    questions: Iterable[Question],
    limits: PromptLimits,
    grader: Grader,
    budget: int | None = None,
) -> AsyncIterator[PlayedQuestion]:
    """Play questions one after the other, as their order decides what money is left for the next.

    Raises BudgetExceeded once a `budget` (in nano-dollars, for all of them) or another ceiling
    stands in the way: what a strategy does without money is not what is measured then. Without a
    budget it is. Raises it also after a call that cost more than was held for it, which freezes the
    cloud, and what makes every other question as pointless.
    """
    spent = 0
    for question in questions:
        if budget is not None:
            if spent >= budget:
                raise BudgetExceeded("The bench's budget is used up.")
            limits = replace(limits, budget=budget - spent)
        played, overcharged = await _play(orchestra, question, limits, grader)
        if played.is_broken or (budget is not None and played.is_refused):
            raise ERROR_CLASSES[played.error](played.note)
        spent += played.cost
        yield played
        for call in overcharged:
            raise overcharge_error(call.worker, call.cost, call.held)


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """What a strategy came to over all its questions; `right` is the sum of their scores.

    `local` counts the questions for which nothing left this machine. `cost` is in nano-dollars.
    `baseline`: nothing was played, it comes from the recordings.
    """

    name: str
    questions: int
    graded: int
    right: float
    tokens_in: int
    tokens_out: int
    cost: int
    seconds: float
    calls: int
    local: int
    refused: int = 0
    baseline: bool = False

    @property
    def accuracy(self) -> float:
        """The share that was right of those that could be graded."""
        return self.right / self.graded if self.graded else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Where the accuracy lies with 95 % certainty."""
        return wilson_interval(self.right, self.graded)

    @property
    def local_share(self) -> float:
        """The share of the questions for which nothing left this machine."""
        return self.local / self.questions if self.questions else 0.0


def sum_row(name: str, played: Sequence[PlayedQuestion], *, baseline: bool = False) -> StrategyRow:
    """Add up how questions went."""
    scores = [one.score for one in played if one.score is not None]
    return StrategyRow(
        name,
        len(played),
        len(scores),
        sum(scores),
        sum(one.tokens_in for one in played),
        sum(one.tokens_out for one in played),
        sum(one.cost for one in played),
        sum(one.seconds for one in played),
        sum(one.calls for one in played),
        sum(not one.outside for one in played),
        sum(one.is_refused for one in played),
        baseline,
    )


# What recordings show without playing anything

ALWAYS_PREFIX = "always "
"""The prefix of the rows of one worker alone."""


def play_alone(dataset: Dataset, questions: Sequence[Question], card: Card) -> list[PlayedQuestion]:
    """Return how the questions go where one worker answers them all."""
    return [_recorded_result(dataset, question, card) for question in questions]


def play_oracle(
    dataset: Dataset, questions: Sequence[Question], cards: Sequence[Card]
) -> list[PlayedQuestion]:
    """Return how the questions go where the cheapest worker that is right answers each.

    Where none is right, the cheapest answers.
    """
    return [
        max(
            (_recorded_result(dataset, question, card) for card in cards),
            key=lambda one: (one.score or 0.0, -one.cost),
        )
        for question in questions
    ]


def _recorded_result(dataset: Dataset, question: Question, card: Card) -> PlayedQuestion:
    once = dataset.recorded[card.id][question.id]
    system = card.system if question.system is None else question.system
    read = recorded_tokens(system) + recorded_tokens(question.prompt)
    cost = (card.price or FREE).cost(BilledTokens(read, once.tokens))
    return PlayedQuestion(
        question.id, once.score, read, once.tokens, cost, 0.0, 1, int(card.remote), card.id
    )


def baseline_rows(
    dataset: Dataset, questions: Sequence[Question], cards: Sequence[Card]
) -> tuple[StrategyRow, ...]:
    """Return the rows of these workers from the recordings: each alone, and the oracle."""
    alone = [
        sum_row(ALWAYS_PREFIX + card.id, play_alone(dataset, questions, card), baseline=True)
        for card in cards
    ]
    best = sum_row("oracle", play_oracle(dataset, questions, cards), baseline=True)
    return (*alone, best)


def mixing_ends(rows: Sequence[StrategyRow]) -> tuple[StrategyRow, StrategyRow] | None:
    """Return what random mixing lies between: the best that is free, and the dearest.

    Of those that always ask one worker; None where there aren't both.
    """
    alone = [row for row in rows if row.baseline and row.name.startswith(ALWAYS_PREFIX)]
    free = max((row for row in alone if not row.cost), key=lambda r: r.accuracy, default=None)
    paid = max((row for row in alone if row.cost), key=lambda r: r.cost, default=None)
    return None if free is None or paid is None else (free, paid)


def random_mixing(rows: Sequence[StrategyRow], cost: int) -> float | None:
    """Return the accuracy of random routing at this cost; None where there are no ends."""
    if (found := mixing_ends(rows)) is None:
        return None
    free, paid = found
    share = min(1.0, cost / paid.cost)
    return free.accuracy + share * (paid.accuracy - free.accuracy)


class BenchSetting(msgspec.Struct, frozen=True):
    """What a result belongs to. `terms` are what else changes results: prices and ceilings."""

    dataset: str
    digest: str
    strategy: str
    workers: tuple[str, ...]
    terms: str = ""


class _Line(msgspec.Struct, frozen=True):
    setting: BenchSetting
    played: PlayedQuestion


_LINE_START = b'{"setting":'
"""How every line begins."""


class ResultsFile:
    """What was played before, and what is played now, in one file. Raises StoreError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def played_before(self, setting: BenchSetting) -> dict[str, PlayedQuestion]:
        """Return what is there of a setting, by question.

        Raises ConfigError for another file, or one with results of the dataset as it was before.
        """
        found: dict[str, PlayedQuestion] = {}
        for line in self._lines():
            other = line.setting
            if (other.dataset, other.digest != setting.digest) == (setting.dataset, True):
                raise ConfigError(
                    f"{setting.dataset} has changed since {self.path} was begun.",
                    "Old and new results can't be distinguished: name another file with --out.",
                )
            if other == setting:
                found[line.played.question] = line.played
        return found

    def _lines(self) -> Iterator[_Line]:
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"{self.path} can't be read: {error.strerror}.") from error
        *lines, rest = raw.split(b"\n")
        if not (rest.startswith(_LINE_START) or _LINE_START.startswith(rest)):
            raise self._format_error(len(lines) + 1)  # else it was broken off in the middle
        for number, line in enumerate(lines, start=1):
            try:
                yield msgspec.json.decode(line, type=_Line)
            except (ValueError, RecursionError) as error:
                raise self._format_error(number) from error

    def _format_error(self, number: int) -> ConfigError:
        return ConfigError(
            f"Line {number} of {self.path} is no result of a bench.",
            "Name another file with --out; this one is as it was.",
        )

    def append(self, setting: BenchSetting, played: PlayedQuestion) -> None:
        """Write down how one more question went."""
        line = msgspec.json.encode(_Line(setting, played)) + b"\n"
        try:
            with _open_file(self.path) as file:
                _cut_broken_line(file.fileno())
                file.seek(0, os.SEEK_END)
                file.write(line)
        except OSError as error:
            raise StoreError(
                f"{self.path} can't be written: {error.strerror}; what is in it is kept.",
                "Make room, or name another file with --out.",
            ) from error


def _open_file(path: Path) -> BinaryIO:
    mode = "r+b" if path.exists() else "x+b"
    return cast(BinaryIO, open(path, mode, opener=open_private))


def _cut_broken_line(file: int) -> None:
    """Cut off a last line that was not written to its end."""
    size = os.fstat(file).st_size
    if size == 0 or os.pread(file, 1, size - 1) == b"\n":
        return
    data = os.pread(file, size, 0)
    os.ftruncate(file, data.rfind(b"\n") + 1)
