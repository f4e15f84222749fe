"""`baton bench --history`: the person's own prompts under another pace, or another ceiling.

Nothing is sent and nothing is spent: what was weighed then is in the history, and the rest is
estimated by the router, which runs here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from baton.bench import PastPrompt, PolicyRow, actual_row, replay_policy
from baton.cli.bench.base_bench import show_progress
from baton.cli.output import emit, emit_json, iso_time, notify
from baton.cli.stores import format_columns
from baton.cli.usage import parse_since
from baton.core.errors import ConfigError
from baton.core.feedback import dated_grade
from baton.core.history_types import PastRun
from baton.core.labels import Label
from baton.core.ledger_types import Scope, SpendingStyle
from baton.core.messages import Card, Role, Turn, TurnStatus
from baton.core.money import BilledTokens, format_usd, parse_usd, show_usd
from baton.core.plan_types import Material
from baton.core.view import RunView
from baton.platform.settings import find_paths, load_settings
from baton.presentation.plans import record_view

if TYPE_CHECKING:
    from baton.compose import Baton
    from baton.core.events import Called, Weighed
    from baton.core.ports import Route, Router

_ESTIMATE_SECONDS = 20.0
"""Seconds that one estimate may take."""

_MIN_SHOWN_PROMPTS = 20
"""More prompts than these take long enough to show how many are done."""

_TOOL_QUALITY = 1.0
"""What a tool can compute, it computes rightly."""

_NO_PROMPTS = "No prompt was answered {since}, so there is nothing to look back on."


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """The command's options; `policy` "" is the pace that is set, `budget` each day's ceiling."""

    since: str
    policy: str = ""
    budget: str | None = None
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class CollectedCases:
    """A person's prompts as cases, and those left out since they named a remote worker."""

    cases: Sequence[PastPrompt]
    named: int = 0
    named_cost: int = 0
    helper: str = ""


async def look_back(options: HistoryOptions) -> int:
    """Show what each policy would have come to, beside what happened. Raises ConfigError."""
    from baton.compose import compose

    since = parse_since(options.since)
    paths = find_paths()
    async with aclosing(compose(load_settings(paths.config_file), paths)) as baton:
        paces = _chosen_paces(options.policy, baton.settings.budget.pace)
        past = await baton.store.runs.finished(since)
        if not past and not options.as_json:
            notify(_NO_PROMPTS.format(since=_since_text(since)))
            return 0
        ceilings = _chosen_ceilings(options.budget, baton.settings.budget.ceilings)
        looked = await _collect_cases(baton, past)
    rows = [actual_row(looked.cases)]
    rows += [await replay_policy(looked.cases, pace, ceilings) for pace in paces]
    if options.as_json:
        emit_json(_report_object(since, looked, rows, ceilings))
    else:
        emit(_table(rows))
        emit("\n".join(_remarks(looked, rows, ceilings)))
    return 0


def _since_text(at: float) -> str:
    return time.strftime("since %d %B %Y", time.localtime(at))


def _chosen_paces(typed: str, set_: SpendingStyle) -> list[SpendingStyle]:
    names = [name for name in dict.fromkeys(part.strip() for part in typed.split(",")) if name]
    for name in names:
        if name not in set(SpendingStyle):
            known = ", ".join(SpendingStyle)
            raise ConfigError(f"There is no policy {name!r}.", f"There are: {known}.")
    return [SpendingStyle(name) for name in names] or [set_]


def _chosen_ceilings(typed: str | None, set_: Mapping[Scope, int]) -> Mapping[Scope, int]:
    ceilings = set_ if typed is None else {Scope.DAY: parse_usd(typed)}
    if not any(ceilings.values()):
        raise ConfigError(
            "No ceiling is above zero, so no policy would ask a remote worker.",
            "`--budget 0.10` looks at ten cents a day.",
        )
    return ceilings


# From runs to cases


async def _collect_cases(baton: Baton, past: Sequence[PastRun]) -> CollectedCases:
    """Return what each prompt comes to, as known then, else as estimated now."""
    from baton.routing import LearnedRouter, ScorerLimits, learned_file

    # No person waits for an estimate, so the router may take its time.
    patient = ScorerLimits(_ESTIMATE_SECONDS, _ESTIMATE_SECONDS, _ESTIMATE_SECONDS)
    router = LearnedRouter(learned=learned_file(baton.paths.data), limits=patient)
    try:
        return await _count_cases(await _make_estimator(baton, router), past)
    finally:
        if router.warning:
            notify(f"baton: {router.warning}")
        await router.aclose()


async def _count_cases(estimator: _Estimator, past: Sequence[PastRun]) -> CollectedCases:
    cases, named, cost = [], 0, 0
    for number, run in enumerate(past, start=1):
        if len(past) > _MIN_SHOWN_PROMPTS:
            show_progress("prompts", number, len(past))
        view = record_view(run.record)
        if estimator.is_named(view):
            named, cost = named + 1, cost + view.cost
        else:
            cases.append(await estimator.case(run, view))
    helper = estimator.helper
    return CollectedCases(cases, named, cost, helper.id if helper is not None else "")


async def _make_estimator(baton: Baton, router: Router) -> _Estimator:
    from baton.core.permissions import helpers

    orchestra = baton.orchestra
    roster = await orchestra.services.skills.cards_with_skills(orchestra.roster)
    by_id = {card.id: card for card in roster}
    mine = by_id[orchestra.worker().card.id]
    terms = replace(orchestra.terms, offline=False, mode="auto")
    here = next((c for c in (mine, *roster) if c.is_local and not c.is_tool), mine)
    found = helpers(here, roster, Label.CLOUD, terms)
    return _Estimator(router, by_id, here, found[0] if found else None)


@dataclass(frozen=True, slots=True)
class _Estimator:
    """Says what is expected of the worker `here` and of the `helper`, of any prompt."""

    router: Router
    roster: Mapping[str, Card]
    here: Card
    helper: Card | None

    def is_named(self, view: RunView) -> bool:
        """Whether the person had named a remote worker: no policy decides that."""
        if not _was_remote(view) or view.weighed:
            return False
        card = self.roster.get(view.routed.worker if view.routed else "")
        if card is not None:
            return not card.is_local
        left = {sent.worker for sent in view.sent}
        return bool(view.calls) and all(call.worker in left for call in view.calls)

    async def case(self, run: PastRun, view: RunView) -> PastPrompt:
        """Return what is known of a prompt, and what must be estimated."""
        good = dated_grade(run.signals, time.time())[0] if run.signals else None
        asked, record = _was_remote(view), run.record
        case = PastPrompt(
            record.created, record.conversation, _TOOL_QUALITY, 0.0, 0, asked, view.cost, good
        )
        last = next((one for one in reversed(view.weighed) if self._is_remote_help(one)), None)
        quality = _recorded_quality(view)
        if last is not None and quality is not None:
            seen = replace(case, quality=quality, gain=last.gain, cost=last.cost, weighed=True)
            return replace(seen, open=run.label.allows(self._privacy(last.worker)))
        return await self._estimated(run, view, case)

    def _is_remote_help(self, weighed: Weighed) -> bool:
        card = self.roster.get(weighed.worker)
        return weighed.cost > 0 or (card is not None and not card.is_local)

    def _privacy(self, worker: str) -> Label:
        card = self.roster.get(worker)
        return card.privacy if card is not None else Label.CLOUD

    async def _estimated(self, run: PastRun, view: RunView, case: PastPrompt) -> PastPrompt:
        from baton.core.judging.draft_scoring import expected_quality

        roster = (self.here, *(card for card in self.roster.values() if card is not self.here))
        route = await self.router.route(_material(run), roster)
        if route.tool:
            return case
        quality = expected_quality(self.here, route)
        if self.helper is None:
            return replace(case, quality=quality, open=False)
        gains = route.estimate.gain if route.estimate is not None else {}
        gain = gains.get(self.helper.id, expected_quality(self.helper, route) - quality)
        cost = _likely_cost(self.helper, view.calls, route)
        open_ = run.label.allows(self.helper.privacy)
        return replace(case, quality=quality, gain=gain, cost=cost, open=open_)


def _was_remote(view: RunView) -> bool:
    return bool(view.sent) or view.cost > 0


def _recorded_quality(view: RunView) -> float | None:
    scores = view.routed.scores if view.routed is not None else {}
    return scores.get("quality", scores.get("chance"))


def _material(run: PastRun) -> Material:
    """Return a prompt alone, without the turns before it."""
    record = run.record
    turn = Turn(
        record.prompt,
        record.conversation,
        None,
        Role.USER,
        run.asked,
        TurnStatus.DONE,
        run.label,
        record.created,
    )
    return Material((turn,))


def _likely_cost(card: Card, calls: Sequence[Called], route: Route) -> int:
    """Return what an answer likely costs: to read what was read then, and as long as expected."""
    if card.price is None or card.price.is_free:
        return 0
    longest = max(calls, key=lambda call: call.tokens_in + call.tokens_out, default=None)
    read, written = (longest.tokens_in, longest.tokens_out) if longest else (0, 0)
    expected = route.estimate.tokens if route.estimate is not None else 0
    return card.price.cost(
        BilledTokens(max(1, read), min(expected or max(1, written), card.max_output))
    )


# What a person sees


def _table(rows: Sequence[PolicyRow]) -> str:
    head = ["policy", "asked remotely", "cost", "good, as expected", "as you judged"]
    return format_columns([head, *(_cells(row) for row in rows)])


def _cells(row: PolicyRow) -> list[str]:
    judged = f"{row.rated_good:.1f} of {row.rated} ({row.known} known)" if row.rated else "-"
    return [
        row.policy,
        f"{row.asked} of {row.prompts}",
        show_usd(row.cost),
        f"{row.good:.1f} of {row.prompts}",
        judged,
    ]


def _remarks(
    looked: CollectedCases, rows: Sequence[PolicyRow], ceilings: Mapping[Scope, int]
) -> list[str]:
    """Say what the table means, what of it is known and what only expected."""
    lines = [""]
    lines += [_comparison_text(row, rows[0]) for row in rows[1:]]
    cases = looked.cases
    weighed = sum(case.weighed for case in cases)
    lines.append(
        f"Of {len(cases)} prompts, {weighed} were weighed then; for the others, what help gains is "
        "estimated now, here, from the prompt alone."
    )
    lines.append(_judgement_text(rows[0].rated))
    if kept := sum(not case.open for case in cases):
        lines.append(
            f"In {kept} of them no remote worker could have helped, or was allowed to see them: "
            "there no policy asks."
        )
    if looked.named:
        lines.append(
            f"{looked.named} more, for {show_usd(looked.named_cost)}, you asked of a remote "
            "worker by name; no policy decides that, and they are left out."
        )
    limits = ", ".join(
        f"{show_usd(most)} {_SCOPE_WORDS[scope]}" for scope, most in ceilings.items()
    )
    lines.append(f"Ceilings: {limits}. Nothing was sent, and nothing was spent.")
    return lines


_SCOPE_WORDS = {
    Scope.RUN: "a prompt",
    Scope.SESSION: "a conversation",
    Scope.DAY: "a day",
    Scope.MONTH: "a month",
}


def _judgement_text(count: int) -> str:
    """Say what a person's own words count for."""
    if not count:
        return "You judged none of the answers: all good answers are expected, not known."
    answers = "one answer" if count == 1 else f"{count} answers"
    return (
        f"You judged {answers}: that is known wherever a policy would have done the same. All "
        "other good answers are expected."
    )


def _comparison_text(row: PolicyRow, then: PolicyRow) -> str:
    """Say what a policy would have saved and lost, or the other way round."""
    money, good = row.cost - then.cost, row.good - then.good
    cost = "just as much"
    if money:
        cost = f"{show_usd(abs(money))} {'more' if money > 0 else 'less'}"
    answers = "as many good answers"
    if abs(good) >= 0.05:
        answers = f"{abs(good):.1f} good answers {'more' if good > 0 else 'fewer'}"
    return f"{row.policy} would have cost {cost}, and likely brought {answers}."


def _report_object(
    since: float, looked: CollectedCases, rows: Sequence[PolicyRow], ceilings: Mapping[Scope, int]
) -> dict[str, Any]:
    cases = looked.cases
    return {
        "schema": 1,
        "since": iso_time(since),
        "prompts": len(cases),
        "weighed": sum(case.weighed for case in cases),
        "estimated": sum(not case.weighed for case in cases),
        "judged": sum(case.good is not None for case in cases),
        "closed": sum(not case.open for case in cases),
        "named": looked.named,
        "named_usd": format_usd(looked.named_cost),
        "helper": looked.helper,
        "ceilings_usd": {scope.value: format_usd(most) for scope, most in ceilings.items()},
        "rows": [
            {
                "policy": row.policy,
                "asked": row.asked,
                "cost_usd": format_usd(row.cost),
                "expected_good": round(row.good, 3),
                "judged_good": round(row.rated_good, 3),
                "judged_known": row.known,
            }
            for row in rows
        ],
    }
