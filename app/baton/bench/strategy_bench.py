"""How well a strategy does on questions with known answers, each run like any other prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from baton.bench.graded_questions import Question, grade_answer, python_in, wilson_interval
from baton.core.errors import (
    ERROR_CLASSES,
    BatonError,
    BudgetExceeded,
    ConfigError,
    StoreError,
    WorkerUnavailable,
)
from baton.core.events import Decision, Failed, Offered, StepFailed
from baton.core.hold_decision import overcharge_error
from baton.core.messages import Message, Prompt, Purpose, Request, Role, Text, fenced
from baton.core.permissions import PromptLimits
from baton.core.ports import Worker
from baton.core.run.orchestra import Orchestra
from baton.core.view import RunView
from baton.platform.durable_files import open_private

PASSED_PREFIX = "Passed: "
"""How the last line begins that the sandbox prints for code whose tests ran and passed."""

_REFUSED_ERROR = "BudgetExceeded"
_SETUP_ERRORS = ("SecretMissing", "ModelFileError", "ConfigError", "StoreError")
"""Errors that don't judge a strategy: a key, a model file or a setting is missing."""

_NO_SANDBOX = "Nothing executes code safely here, so it was not graded."


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """How one question went. `score` is from 0 to 1, None where it can't be graded.

    `outside` counts those of the `calls` that went to remote workers. `cost` is in nano-dollars.
    `note` says what went wrong, `error` is its class where the answer isn't the cause.
    """

    question: str
    score: float | None
    tokens_in: int = 0
    tokens_out: int = 0
    cost: int = 0
    seconds: float = 0.0
    calls: int = 0
    outside: int = 0
    note: str = ""
    error: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether a call was refused because money was missing."""
        return self.error == _REFUSED_ERROR


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """What a strategy reached on all its questions."""

    name: str
    results: list[QuestionResult]

    @property
    def graded(self) -> list[float]:
        """The scores of the questions that could be graded."""
        return [one.score for one in self.results if one.score is not None]

    @property
    def accuracy(self) -> float:
        """The share that was right of those that could be graded."""
        return sum(self.graded) / len(self.graded) if self.graded else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that holds the accuracy with 95 % certainty."""
        return wilson_interval(sum(self.graded), len(self.graded))

    @property
    def cost(self) -> int:
        """What all questions cost, in nano-dollars."""
        return sum(one.cost for one in self.results)

    @property
    def refused(self) -> int:
        """The number of questions for which the ceiling forbade a call."""
        return sum(one.is_refused for one in self.results)

    @property
    def local_share(self) -> float:
        """The share of the questions for which nothing left this machine."""
        return self.mean(lambda one: not one.outside)

    def mean(self, value: Callable[[QuestionResult], float]) -> float:
        """Return the mean of a value of each question, 0 without questions."""
        return sum(map(value, self.results)) / max(1, len(self.results))


Grade = Callable[[Question, RunView], Awaitable[tuple[float | None, str]]]
"""Returns the score of a run's answer and, where there is none or it is low, why."""

Execute = Callable[[str, str], Awaitable[str]]
"""Runs Python, then tests of it, in a sandbox; returns what is printed and how it ended.

The last line isn't the code's: it begins with PASSED_PREFIX only where the tests ran. Raises
WorkerError.
"""


def code_executor(tool: Worker) -> Execute:
    """Return what executes code and its tests by that tool."""

    async def execute(code: str, tests: str) -> str:
        parts = (("python", code), ("python-tests", tests))
        text = "\n\n".join(fenced(part).replace("\n", f"{name}\n", 1) for name, part in parts)
        request = Request((Message(Role.USER, text),), Purpose.VERIFY)
        pieces = [chunk.text async for chunk in tool.stream(request) if isinstance(chunk, Text)]
        return "".join(pieces)

    return execute


def grader(execute: Execute | None = None) -> Grade:
    """Return what grades answers; without `execute`, code isn't graded."""

    async def grade(question: Question, view: RunView) -> tuple[float | None, str]:
        if view.status != "finished":
            return 0.0, view.failure.message if view.failure else f"The run was {view.status}."
        if question.kind != "python":
            return grade_answer(question, view.answer), ""
        if execute is None:
            return None, _NO_SANDBOX
        if "assert" not in question.tests:
            return None, "Its tests assert nothing."
        try:
            last = (await execute(python_in(view.answer), question.tests)).rpartition("\n")[2]
        except WorkerUnavailable as error:
            return None, error.message  # that doesn't judge the code
        except BatonError as error:
            return 0.0, error.message
        return (1.0, "") if last.startswith(PASSED_PREFIX) else (0.0, last[-200:])

    return grade


async def run_questions(
    orchestra: Orchestra,
    questions: Iterable[Question],
    limits: PromptLimits,
    grade: Grade,
    budget: int | None = None,
) -> AsyncIterator[QuestionResult]:
    """Run questions one after the other, as their order decides what money is left for the next.

    Raises BudgetExceeded once a `budget` (in nano-dollars, for all of them) or another ceiling
    stops a call: what a strategy does without money isn't what is measured then. Without a budget
    it is. Raises what makes every other question pointless, and BudgetExceeded after a call that
    cost more than was held for it, which freezes the cloud.
    """
    spent = 0
    for question in questions:
        if budget is not None:
            if spent >= budget:
                raise BudgetExceeded("The bench's budget is used up.")
            limits = replace(limits, budget=budget - spent)
        view, error, why = RunView(), "", ""
        prompt = Prompt(question.prompt, system=question.system)
        async with orchestra.run(prompt, limits=limits) as run:
            async for event in run:
                view = view.apply(event)
                match event:
                    case Offered(decision=Decision.CEILING, message=why):
                        error = _REFUSED_ERROR
                    case StepFailed() | Failed() if event.error in (_REFUSED_ERROR, *_SETUP_ERRORS):
                        error, why = event.error, event.message
        result = _result(orchestra, question, view, *await grade(question, view))
        result = replace(result, note=why or result.note, error=error)
        if error in _SETUP_ERRORS or (budget is not None and result.is_refused):
            raise ERROR_CLASSES[error](why)
        spent += result.cost
        yield result
        for call in view.overcharged_calls:
            raise overcharge_error(call.worker, call.cost, call.held)


def _result(
    orchestra: Orchestra, question: Question, view: RunView, score: float | None, note: str
) -> QuestionResult:
    remote = {card.id for card in orchestra.roster if card.remote}
    return QuestionResult(
        question.name,
        score,
        sum(call.tokens_in for call in view.calls),
        sum(call.tokens_out for call in view.calls),
        view.cost,
        view.worked_seconds,
        len(view.calls),
        sum(call.worker in remote for call in view.calls),
        note,
    )


class _Line(msgspec.Struct, frozen=True):
    digest: str
    strategy: str
    workers: tuple[str, ...]
    result: QuestionResult


_LINE_START = b'{"digest":'
"""How every line begins."""


class ResultsFile:
    """A file of results, so that an interrupted bench continues: a line of JSON for each.

    `digest` is that of the questions' file.
    """

    def __init__(self, path: Path, digest: str, workers: tuple[str, ...]) -> None:
        self.path = path
        self._digest = digest
        self._workers = workers

    def results(self, strategy: str) -> dict[str, QuestionResult]:
        """Return the results of a strategy with these workers, by question.

        Raises ConfigError for a file of something else, or of other questions.
        """
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{self.path} can't be read: {error.strerror}.") from error
        results: dict[str, QuestionResult] = {}
        for number, raw in enumerate(lines, start=1):
            try:
                line = msgspec.json.decode(raw, type=_Line)
            except (ValueError, RecursionError) as error:
                if raw.startswith(_LINE_START) or _LINE_START.startswith(raw):
                    continue  # it was broken off
                raise ConfigError(
                    f"Line {number} of {self.path} isn't a result of a bench.",
                    "Name another file with --out; this one is as it was.",
                ) from error
            if line.digest != self._digest:
                raise ConfigError(
                    f"The questions have changed since {self.path} was begun.",
                    "Old and new results can't be distinguished: name another file with --out.",
                )
            if (line.strategy, line.workers) == (strategy, self._workers):
                results[line.result.question] = line.result
        return results

    def append(self, strategy: str, result: QuestionResult) -> None:
        """Write how one more question went. Raises StoreError."""
        line = msgspec.json.encode(_Line(self._digest, strategy, self._workers, result))
        try:
            with open(self.path, "ab", opener=open_private) as file:
                # The line before may have been broken off, so each is preceded by its end.
                file.write(b"\n" * bool(file.tell()) + line)
        except OSError as error:
            raise StoreError(
                f"{self.path} can't be written: {error.strerror}; what is in it is kept.",
                "Make room, or name another file with --out.",
            ) from error
