"""`baton bench --history`: your own prompts under another pace, or another ceiling.

Nothing is sent and nothing is spent: what was weighed then is in the history, and the rest is
estimated by the router, which runs here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from baton.bench import PastPrompt, PolicyRow, actual_row, backtest_pace
from baton.cli.output import emit, emit_document, iso_time, notify, show_progress
from baton.cli.stores import format_columns
from baton.cli.usage import parse_since
from baton.core.errors import ConfigError
from baton.core.history_types import PastRun, dated_grade
from baton.core.labels import Label
from baton.core.ledger_types import Scope, SpendingStyle
from baton.core.messages import Card, Role, Turn, TurnStatus
from baton.core.money import BilledTokens, format_usd, parse_usd, show_usd
from baton.core.plan_types import Material
from baton.core.view import RunView
from baton.platform.paths import find_paths
from baton.platform.settings import load_settings
from baton.presentation.run_story import record_view

if TYPE_CHECKING:
    from baton.compose import Baton
    from baton.core.events import Called
    from baton.core.ports import Route, Router

_ESTIMATE_SECONDS = 20.0
"""Seconds that one estimate may take: no user waits for an answer."""


async def compare_paces(
    history: str, policies: Sequence[str], budget: str | None, as_json: bool
) -> int:
    """Show what each pace would have changed, beside what happened. Raises ConfigError.

    Without `policies` the pace of the settings is tried, without a `budget` their ceilings.
    """
    from baton.compose import compose

    since, paths = parse_since(history), find_paths()
    settings = load_settings(paths.config_file).budget
    if unknown := [name for name in policies if name not in set(SpendingStyle)]:
        known = ", ".join(SpendingStyle)
        raise ConfigError(f"There is no policy {unknown[0]!r}.", f"There are: {known}.")
    paces = list(map(SpendingStyle, policies)) or [settings.pace]
    ceilings = settings.ceilings if budget is None else {Scope.DAY: parse_usd(budget)}
    if not any(ceilings.values()):
        raise ConfigError(
            "No ceiling is above zero, so no policy would ask a remote worker.",
            "`--budget 0.10` looks at ten cents a day.",
        )
    async with aclosing(compose(load_settings(paths.config_file), paths)) as baton:
        past = await baton.store.runs.finished(since)
        if not past and not as_json:
            day = time.strftime("%d %B %Y", time.localtime(since))
            notify(f"No prompt was answered since {day}, so there is nothing to compare.")
            return 0
        cases = await _collect_cases(baton, past)
    rows = [actual_row(cases), *[await backtest_pace(cases, pace, ceilings) for pace in paces]]
    if as_json:
        emit_document(
            since=iso_time(since),
            prompts=len(cases),
            weighed=sum(case.weighed for case in cases),
            judged=sum(case.good is not None for case in cases),
            closed=sum(not case.open for case in cases),
            named=len(past) - len(cases),
            ceilings_usd={scope.value: format_usd(most) for scope, most in ceilings.items()},
            rows=[
                {
                    "policy": row.policy,
                    "asked": row.asked,
                    "cost_usd": format_usd(row.cost),
                    "expected_good": round(row.good, 3),
                }
                for row in rows
            ],
        )
    else:
        emit(format_columns([_COLUMNS, *map(_cells, rows)]))
        emit("\n".join(["", *_remarks(cases, rows, len(past) - len(cases), ceilings)]))
    return 0


# From runs to cases


async def _collect_cases(baton: Baton, past: Sequence[PastRun]) -> list[PastPrompt]:
    """Return the prompts that a policy decides on, as known then, else as estimated now."""
    from baton.core.permissions import helpers
    from baton.routing import LearnedRouter, ScorerLimits

    orchestra = baton.orchestra
    roster = await orchestra.services.skills.cards_with_skills(orchestra.roster)
    mine = next(card for card in roster if card.id == orchestra.worker().card.id)
    here = next((c for c in (mine, *roster) if c.is_local and not c.is_tool), mine)
    terms = replace(orchestra.terms, offline=False, mode="auto")
    helper = next(iter(helpers(here, roster, Label.CLOUD, terms)), None)
    limits = ScorerLimits(_ESTIMATE_SECONDS, _ESTIMATE_SECONDS, _ESTIMATE_SECONDS)
    router = LearnedRouter(limits=limits)
    estimator = _Estimator(router, {card.id: card for card in roster}, here, helper)
    cases = []
    try:
        for number, run in enumerate(past, start=1):
            if (case := await estimator.case(run, record_view(run.record))) is not None:
                cases.append(case)
            show_progress("prompts", number, len(past))
        return cases
    finally:
        if router.warning:
            notify(f"baton: {router.warning}")
        await router.aclose()


@dataclass(frozen=True, slots=True)
class _Estimator:
    """Estimates what to expect of the worker `here` and of the `helper`, for any prompt."""

    router: Router
    roster: Mapping[str, Card]
    here: Card
    helper: Card | None

    async def case(self, run: PastRun, view: RunView) -> PastPrompt | None:
        """Return what is known of a prompt, and what must be estimated.

        None where a remote worker was asked without any weighing, as when the user names it.
        """
        asked = bool(view.sent) or view.cost > 0
        if asked and not view.weighed:
            return None
        record, scores = run.record, view.routed.scores if view.routed is not None else {}
        good = dated_grade(run.signals, time.time())[0] if run.signals else None
        case = PastPrompt(record.created, record.conversation, 1.0, 0.0, 0, asked, view.cost, good)
        remote = {card.id for card in self.roster.values() if not card.is_local}
        paid = [one for one in view.weighed if one.cost or one.worker in remote]
        quality = scores.get("quality", scores.get("chance"))
        if not paid or quality is None:
            return await self._estimated(run, view, case)
        last = paid[-1]
        helper = self.roster.get(last.worker)
        is_open = run.label.allows(helper.privacy if helper is not None else Label.CLOUD)
        return replace(
            case, quality=quality, gain=last.gain, cost=last.cost, open=is_open, weighed=True
        )

    async def _estimated(self, run: PastRun, view: RunView, case: PastPrompt) -> PastPrompt:
        from baton.core.judging.draft_scoring import expected_quality

        roster = (self.here, *(card for card in self.roster.values() if card is not self.here))
        route = await self.router.route(_material(run), roster)
        if route.tool:
            return case  # a tool computes it right
        quality = expected_quality(self.here, route)
        if self.helper is None:
            return replace(case, quality=quality, open=False)
        gains = route.estimate.gain if route.estimate is not None else {}
        return replace(
            case,
            quality=quality,
            gain=gains.get(self.helper.id, expected_quality(self.helper, route) - quality),
            cost=_likely_cost(self.helper, view.calls, route),
            open=run.label.allows(self.helper.privacy),
        )


def _material(run: PastRun) -> Material:
    """Return a prompt alone, without the turns before it."""
    record, done = run.record, TurnStatus.DONE
    ids = (record.prompt, record.conversation, None)
    return Material((Turn(*ids, Role.USER, run.asked, done, run.label, record.created),))


def _likely_cost(card: Card, calls: Sequence[Called], route: Route) -> int:
    """Return what an answer likely costs: to read what was read then, and as long as expected."""
    if card.price is None or card.price.is_free:
        return 0
    used = [(call.tokens_in, call.tokens_out) for call in calls]
    read, written = max(used, key=sum, default=(0, 0))
    if route.estimate is not None and route.estimate.tokens:
        written = route.estimate.tokens
    return card.price.cost(BilledTokens(max(1, read), min(max(1, written), card.max_output)))


# What the user sees


_COLUMNS = ["policy", "asked remotely", "cost", "good, as rated or expected"]


def _cells(row: PolicyRow) -> list[str]:
    total = f"of {row.prompts}"
    return [row.policy, f"{row.asked} {total}", show_usd(row.cost), f"{row.good:.1f} {total}"]


def _remarks(
    cases: Sequence[PastPrompt],
    rows: Sequence[PolicyRow],
    named: int,
    ceilings: Mapping[Scope, int],
) -> Iterator[str]:
    """Yield what the table means, what of it is known and what only expected."""
    for row in rows[1:]:
        money, good = row.cost - rows[0].cost, row.good - rows[0].good
        cost = f"{show_usd(abs(money))} {'more' if money > 0 else 'less'}" if money else "as much"
        answers = f"{abs(good):.1f} good answers {'more' if good > 0 else 'fewer'}"
        yield f"{row.policy} would have cost {cost}, and likely brought {answers}."
    rated = sum(case.good is not None for case in cases)
    weighed = sum(case.weighed for case in cases)
    yield (
        f"You rated {rated} of {len(cases)} answers: that counts where a policy would have done "
        f"the same. {weighed} prompts were weighed then; for the others, what help gains is "
        "estimated now, here, from the prompt alone."
    )
    if closed := sum(not case.open for case in cases):
        yield f"No remote worker could have helped with {closed} prompts, or was allowed to."
    if named:
        yield f"Left out: {named} prompts for which no policy decided, as you named the worker."
    limits = ", ".join(f"{show_usd(most)} a {scope.value}" for scope, most in ceilings.items())
    yield f"Ceilings: {limits}. Nothing was sent, and nothing was spent."
