"""Weighing in a run: what is recorded, what it rests on, and what is known of it later."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from baton.core import events as ev
from baton.core.errors import StoreError
from baton.core.ledger_types import Policy, Scope, ScopeBalance, Standing
from baton.core.money import FREE, NANO
from baton.core.permissions import PromptLimits
from baton.core.plan_types import Outcome, Plan, single_step_plan
from baton.core.ports import Proposal, SpendingRoom, StrategyContext
from baton.core.spending.pace_controller import Pacing
from baton.history import Store
from support.scripted_plans import (
    DOWN,
    OrchestraSession,
    StubWorker,
    cloud,
    fail_with,
    local,
    open_orchestra,
    step,
)

BUDGET: dict[str, Any] = {"policy": Policy.BUDGET}


class GainStrategy:
    """Weighs a gain before the local worker answers, and looks at the money."""

    def __init__(self, gain: float, plain: bool = False) -> None:
        self.gain = gain
        self.plain = plain
        self.said: list[bool] = []
        self.money: list[SpendingRoom] = []

    async def first(self, context: StrategyContext) -> Proposal:
        self.said.append(await context.weigh("far", self.gain, plain=self.plain))
        self.money.append(await context.funds())
        return Proposal(single_step_plan(context.routing.worker))

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        return None


async def weighed_event(
    session: OrchestraSession, limits: PromptLimits | None = None
) -> ev.Weighed:
    view = await session.execute(None, limits=limits or PromptLimits())
    assert view.status == "finished"
    [event] = view.weighed
    assert event in (await session.record()).events
    return event


@pytest.mark.parametrize(("gain", "ok"), [(0.5, True), (0.01, False), (-0.2, False)])
async def test_a_decision_is_recorded_with_what_it_rests_on(gain: float, ok: bool) -> None:
    strategy = GainStrategy(gain)
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), strategy=strategy, **BUDGET
    ) as session:
        event = await weighed_event(session)
    assert (event.worker, event.gain, event.ok) == ("far", gain, ok)
    assert event.ok == (event.gain > event.bar)
    assert event.cost > 0
    assert "balanced wants a gain above 5 %" in event.why
    assert strategy.said == [ok]
    assert strategy.money == [SpendingRoom(NANO, 0.0)]


async def test_where_a_user_decides_that_is_said() -> None:
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), strategy=GainStrategy(0.5)
    ) as session:
        assert (await weighed_event(session)).why.endswith("You are asked first.")
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), strategy=GainStrategy(0.5), **BUDGET
    ) as session:
        assert "asked first" not in (await weighed_event(session)).why


@pytest.mark.parametrize(
    ("terms", "ceiling", "ok"),
    [
        ({}, NANO, True),  # a user decides
        (BUDGET, NANO, False),  # pace does
        (BUDGET, 1000, True),  # less is left than it costs: an offer says so
        ({"policy": Policy.NEVER}, NANO, True),  # the same
    ],
)
async def test_where_a_draft_plainly_will_not_do_the_user_hears_of_help(
    terms: dict[str, Any], ceiling: int, ok: bool
) -> None:
    strategy = GainStrategy(0.01, plain=True)
    there = open_orchestra(
        StubWorker(local()), StubWorker(cloud()), ceiling=ceiling, strategy=strategy, **terms
    )
    async with there as session:
        assert (await weighed_event(session)).ok is ok
    assert strategy.said == [ok]


async def test_what_costs_nothing_is_worth_any_gain() -> None:
    free = replace(cloud(), price=FREE)
    for gain, ok in ((1e-6, True), (0.0, False), (-1.0, False), (float("nan"), False)):
        async with open_orchestra(
            StubWorker(local()), StubWorker(free), ceiling=0, strategy=GainStrategy(gain)
        ) as session:
            event = await weighed_event(session)
        assert (event.ok, event.cost) == (ok, 0)
        assert event.why.startswith("It costs nothing")


@pytest.mark.parametrize(
    ("ceiling", "terms", "limits", "reason"),
    [
        (0, BUDGET, PromptLimits(), "but nothing may be spent."),
        (1000, BUDGET, PromptLimits(), "but that is more than is left today."),
        (
            NANO,
            {"policy": Policy.NEVER},
            PromptLimits(),
            "nothing may be spent: the policy is never.",
        ),
        (
            NANO,
            {},
            PromptLimits(attended=False),
            "nothing may be spent: you can't be asked.",
        ),
        (0, BUDGET, PromptLimits(budget=NANO), "but that is more than is left today."),
    ],
)
async def test_where_nothing_may_be_spent_nothing_is_worth_it(
    ceiling: int, terms: dict[str, Any], limits: PromptLimits, reason: str
) -> None:
    strategy = GainStrategy(1.0)
    there = open_orchestra(
        StubWorker(local()), StubWorker(cloud()), ceiling=ceiling, strategy=strategy, **terms
    )
    async with there as session:
        event = await weighed_event(session, limits)
    assert (event.ok, event.bar, strategy.said) == (False, 1.0, [False])
    assert event.why.endswith(reason)


async def test_a_typed_budget_pays_though_no_person_can_be_asked() -> None:
    limits = PromptLimits(attended=False, budget=NANO)
    strategy = GainStrategy(0.3)
    terms: dict[str, Any] = {"ceilings": {}}
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), strategy=strategy, **terms
    ) as session:
        assert (await weighed_event(session, limits)).ok
    assert strategy.money == [SpendingRoom(NANO, 0.0)]


async def test_a_ledger_that_can_not_be_read_spends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), strategy=GainStrategy(1.0), **BUDGET
    ) as session:

        async def broken(*_: object) -> None:
            raise StoreError("The disk is gone.", "")

        monkeypatch.setattr(session.ledger, "standing", broken)
        assert not (await weighed_event(session)).ok


async def test_a_pace_is_known_again_after_a_restart(tmp_path: Path) -> None:
    """Scarce money: what was weighed before says what is usual, and what is still to come."""
    scarce = {**BUDGET, "ceilings": {Scope.DAY: NANO // 200}}
    strategy = GainStrategy(0.2)
    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), strategy=strategy, home=tmp_path, **scarce
    ) as session:
        first = await weighed_event(session)
        for strategy.gain in [0.6] * 30:
            before = await weighed_event(session)
    store = Store(tmp_path / "baton.db")
    try:
        past = await store.runs.weighings()
        assert [one.gain for one in past] == [0.2] + [0.6] * 30
        assert [one.ok for one in past][-1] == before.ok
        assert len({one.conversation for one in past}) == 31
        morning = datetime.now().replace(hour=9, minute=0) + timedelta(days=1)
        clock = morning.timestamp  # just before midnight there is nothing still to come
        fresh, again = Pacing(clock=clock), Pacing(memory=store.runs.weighings, clock=clock)
        money = Standing((ScopeBalance(Scope.DAY, NANO // 200),))
        known = await again.weigh(0.4, first.cost, money)
        unknown = await fresh.weigh(0.4, first.cost, money)
        assert known.bar != unknown.bar
    finally:
        await store.aclose()


class FallbackStrategy:
    """Has the remote worker asked first, and looks at the money once that failed."""

    def __init__(self) -> None:
        self.money: list[SpendingRoom] = []

    async def first(self, context: StrategyContext) -> Proposal:
        return Proposal(Plan((step("far", "One."),), (1,)))

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        self.money.append(await context.funds())
        await context.weigh("far", 1.0)
        return None


async def test_what_earlier_runs_spent_is_not_there_for_those_that_continue() -> None:
    looks = FallbackStrategy()
    far = StubWorker(cloud(), fail_with(DOWN, "Half of it"))
    async with open_orchestra(StubWorker(local()), far, strategy=looks, **BUDGET) as session:
        await session.execute(None, limits=PromptLimits(budget=NANO // 10))
        first = await session.record()
        for limits in (PromptLimits(), PromptLimits(budget=1)):
            view = await session.watch(session.orchestra.resume(first, limits))
            charged = sum(charge.charged for charge in await session.ledger.charges())
            assert charged > 0
            assert looks.money[-1].left == max(0, (limits.budget or NANO // 10) - charged)
            assert [event.ok for event in view.weighed] == [not limits.budget]
