"""Recorded models as an orchestra of their own, with a scratch history and scratch money."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from baton.adapters.ledger import Ledger
from baton.adapters.replay import ReplayWorker, card_of
from baton.adapters.store import Store
from baton.domain.chat import Card, Purpose
from baton.domain.grading import Dataset, Question
from baton.domain.ledger import Bill, Policy, Scope
from baton.domain.prices import PER, Price, Rates, Used
from baton.domain.spending import MOST
from baton.engine.bench import Grader, Played, play_all
from baton.engine.orchestra import Orchestra
from baton.engine.policy import Limits, Terms

Recordings = Mapping[str, Price | None]
"""The models to replay, in the order in which they are listed; those elsewhere with a price."""


def cards(models: Recordings) -> list[Card]:
    """Return the cards of the models as they are replayed."""
    return [card_of(model, price) for model, price in models.items()]


@asynccontextmanager
async def replayed(
    dataset: Dataset, models: Recordings, ceiling: int | None = None, spent: int = 0
) -> AsyncIterator[Orchestra]:
    """Give an orchestra of recorded models that may spend up to a ceiling, without being asked.

    `spent` counts against it already. Nothing is kept.
    """
    ledger, store = Ledger.open(None), Store.open(None)
    ceilings = {Scope.MONTH: MOST if ceiling is None else ceiling}
    workers = {model: ReplayWorker(dataset, model, price) for model, price in models.items()}
    terms = Terms(ceilings, Policy.BUDGET)
    orchestra = Orchestra(workers, store, next(iter(workers)), ledger=ledger, terms=terms)
    try:
        if spent:
            await _book(ledger, spent)
        yield orchestra
    finally:
        await orchestra.aclose()
        await ledger.aclose()
        await store.aclose()


async def _book(ledger: Ledger, amount: int) -> None:
    """Charge an amount that an earlier replay spent."""
    one = PER  # a nano-dollar for each token
    bill = Bill(
        "", "", "earlier", "replay", "earlier", Purpose.ANSWER, Price(Rates(one, one, one, one)),
        amount, 0, {Scope.MONTH: MOST},
    )  # fmt: skip
    hold = await ledger.hold(bill)
    await ledger.settle(hold.call, Used(amount, 0))


async def replay(
    dataset: Dataset,
    questions: Sequence[Question],
    models: Recordings,
    strategy: str,
    ceiling: int | None = None,
    before: Sequence[Played] = (),
) -> AsyncIterator[Played]:
    """Play questions by recorded models, within a ceiling of which some is spent already.

    Where that forbids a call the strategy goes on without: it is part of what is measured.
    """
    spent = sum(one.cost for one in before)
    limits = Limits(strategy=strategy, attended=False, keep=False)
    async with replayed(dataset, models, ceiling, spent) as orchestra:
        async for played in play_all(orchestra, questions, limits, Grader(dataset.recorded)):
            yield played
