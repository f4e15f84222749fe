"""Recorded models as an orchestra of their own, with a scratch history and scratch money."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from baton.bench.replay_worker import ReplayWorker, recorded_card
from baton.bench.strategy_bench import Grader, PlayedQuestion, play_all
from baton.core.errors import ConfigError
from baton.core.hold_decision import MAX_AMOUNT_NANOS
from baton.core.ledger_types import HoldRequest, Policy, Scope, SpendingStyle
from baton.core.messages import Card, Purpose
from baton.core.money import TOKENS_PER_RATE, BilledTokens, Price, Rates
from baton.core.plan.answer_grades import Dataset, Question
from baton.core.run.orchestra import Orchestra
from baton.core.run.policy import PromptLimits, RunTerms
from baton.core.spending.pace_controller import Pacing
from baton.core.spending.usage_rate import UsageRate
from baton.history import Store
from baton.money import Ledger

if TYPE_CHECKING:
    from baton.routing import LearnedRouter

Recordings = Mapping[str, Price | None]
"""The models to replay, in the order in which they are listed; those elsewhere with a price."""

REPLAYABLE = ("single", "hybrid", "route", "knn", "cascade", "majority", "smoothie")
"""The strategies that only ask what was recorded: the questions themselves, once of each model."""

SPENDING = ("hybrid", "route", "knn", "cascade")
"""Those of them that may ask somebody elsewhere."""

_WARM, _COLD = 10.0, 120.0
"""How many seconds the router may take: here it is no matter, and the rule mustn't stand in."""


@dataclass(frozen=True, slots=True)
class Table:
    """What is played with: the recordings, who of them takes part, and who decides.

    `router` is the folder of a trained router (None: a rule decides). The questions may cost up to
    `ceiling` in all.
    """

    dataset: Dataset
    models: Recordings
    router: Path | None = None
    ceiling: int | None = None


def cards(models: Recordings) -> list[Card]:
    """Return the cards of the models as they are replayed."""
    return [recorded_card(model, price) for model, price in models.items()]


class Progress:
    """How many of so many questions are done."""

    def __init__(self, count: int, done: int = 0) -> None:
        self.done = done
        self._count = count

    def __call__(self) -> float:
        """Return the share that is done, with the question that is at hand."""
        return (self.done + 1) / max(1, self._count)


@asynccontextmanager
async def replayed(table: Table, progress: Progress, spent: int = 0) -> AsyncIterator[Orchestra]:
    """Give an orchestra of recorded models that may spend up to a ceiling, without being asked.

    `spent` counts against it already. A ceiling is there to be used up by the last question.
    Nothing is kept.
    """
    ledger, store = Ledger.open(None), Store.open(None)
    ceilings = {Scope.MONTH: MAX_AMOUNT_NANOS if table.ceiling is None else table.ceiling}
    workers = {
        model: ReplayWorker(table.dataset, model, price) for model, price in table.models.items()
    }
    terms = RunTerms(ceilings, Policy.BUDGET)
    orchestra = Orchestra(workers, store, next(iter(workers)), ledger=ledger, terms=terms)
    thrift = SpendingStyle.BALANCED if table.ceiling is None else SpendingStyle.BEST
    orchestra.pacer = Pacing(thrift, rhythm=UsageRate(progress))
    orchestra.router = _router(table.router)
    try:
        if spent:
            await _book(ledger, spent)
        yield orchestra
    finally:
        await orchestra.aclose()
        await ledger.aclose()
        await store.aclose()


def _router(folder: Path | None) -> LearnedRouter | None:
    """Return the router in a folder. Raises ConfigError if it can't be used."""
    if folder is None:
        return None
    from baton.routing import LearnedRouter
    from baton.routing import ScorerLimits as Patience

    router = LearnedRouter(folder, limits=Patience(_WARM, _COLD, _COLD))

    def refuse(why: str) -> None:
        raise ConfigError(why, "Name a folder that scripts/train_router wrote: --router DIR")

    if router.warning:
        refuse(router.warning)
    router.on_warning = refuse
    return router


async def _book(ledger: Ledger, amount: int) -> None:
    """Charge an amount that an earlier replay spent."""
    one = TOKENS_PER_RATE  # a nano-dollar for each token
    bill = HoldRequest(
        "", "", "earlier", "replay", "earlier", Purpose.ANSWER, Price(Rates(one, one, one, one)),
        amount, 0, {Scope.MONTH: MAX_AMOUNT_NANOS},
    )  # fmt: skip
    hold = await ledger.hold(bill)
    await ledger.settle(hold.call, BilledTokens(amount, 0))


async def replay(
    table: Table,
    questions: Sequence[Question],
    strategy: str,
    before: Sequence[PlayedQuestion] = (),
) -> AsyncIterator[PlayedQuestion]:
    """Play questions by recorded models, within a ceiling of which some is spent already.

    Where that forbids a call the strategy goes on without: it is part of what is measured.
    """
    spent = sum(one.cost for one in before)
    limits = PromptLimits(strategy=strategy, attended=False, keep=False)
    progress = Progress(len(before) + len(questions), len(before))
    async with replayed(table, progress, spent) as orchestra:
        grader = Grader(table.dataset.recorded)
        async for played in play_all(orchestra, questions, limits, grader):
            progress.done += 1
            yield played
