"""Plan, verify with another worker, repair once.

An answer is verified by executing what can be, then by another worker. The auditor sees the prompt
and the answer, and not how it came about. The steps themselves say how far that went, so it can be
resumed at any time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from baton.core.events import Checked, Verdict
from baton.core.messages import Card, fenced
from baton.core.plan_types import MAX_STEPS, PROMPT, Outcome, Step
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.strategies._steps import conversational_workers, full_access, strongest_worker
from baton.core.strategies.conductor_plan import ConductorStrategy


class Ultra:
    """A conducted answer that is verified. One worker by itself isn't audited, only checked."""

    def __init__(self) -> None:
        self._plan = ConductorStrategy()
        self._check = Verification()

    async def first(self, context: StrategyContext) -> Proposal:
        """Propose the conducted plan, which may still be corrected."""
        return replace(await self._plan.first(context), final=False)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Let the conductor finish, then verify."""
        if not is_verifying(outcome):
            proposal = await self._plan.next(context, outcome)
            if proposal is not None:
                return replace(proposal, final=False)
        return await self._check.next(context, outcome)


AUDIT = (
    "The result is somebody's answer to what was asked. Judge it by yourself: work out what must "
    "be right, and compare. If it is right and complete, your first line is the one word ACCEPT. "
    "Otherwise list the problems, one in each line, each with how to mend it. Don't write a new "
    "answer."
)

_REPAIR_START = "Write the final answer to what was asked, in full."

REPAIR = (
    f"{_REPAIR_START} The first results are the answer so far, the last one lists problems that "
    "somebody found in it. Mend those that are real, ignore those that aren't, keep all else, and "
    "mention neither."
)

_CHECK_REPAIR = (
    f"{_REPAIR_START} The results are the answer so far. It was checked by computing, and this is "
    "wrong in it. Mend it, keep all else, and don't mention the check."
)

_ACCEPTED = re.compile(r"\W{0,9}ACCEPT(?:ED)?\b", re.IGNORECASE)
_MIN_AUDITOR_SKILL = 2.0
"""A worker of less skill finds faults where there are none."""


class Verification:
    """Grows a plan that is over: with an audit, and with one repair where something is wrong."""

    def __init__(self) -> None:
        self._wrong: dict[tuple[int, ...], int] = {}

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the audit, the repair, or the answer from before a repair that made it worse."""
        steps = outcome.plan.steps
        if _is_repair(steps[-1]):
            return await self._review_repair(context, outcome)
        if steps[-1].subtask == AUDIT:
            return _repair_after_audit(context.routing, outcome)
        if len(steps) >= MAX_STEPS or not all(outcome.text(n) for n in outcome.plan.answer):
            return None
        wrong = await self._wrong_checks(context, outcome, outcome.plan.answer)
        if wrong:
            return _repair_proposal(
                context.routing, outcome, outcome.plan.answer, _findings_text(wrong)
            )
        return _audit_proposal(context.routing, outcome)

    async def _wrong_checks(
        self, context: StrategyContext, outcome: Outcome, steps: tuple[int, ...]
    ) -> list[Checked]:
        """Return the failed checks of some steps' texts."""
        found = [finding for n in steps for finding in await context.check(outcome, n)]
        wrong = [finding for finding in found if finding.verdict is Verdict.WRONG]
        self._wrong[steps] = len(wrong)
        return wrong

    async def _review_repair(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Return to the answer before the repair, if the repair is empty, unfinished or worse."""
        last = len(outcome.plan.steps)
        steps = outcome.plan.steps
        before = tuple(n for n in steps[-1].inputs if steps[n - 1].subtask != AUDIT)
        if outcome.plan.answer != (last,) or not before:
            return None
        if not outcome.text(last).strip() or last in outcome.cut:
            why = "The repair failed, so the answer stays as it was."
            return Proposal(replace(outcome.plan, answer=before), "plan", why)
        if before not in self._wrong:
            await self._wrong_checks(context, outcome, before)
        if len(await self._wrong_checks(context, outcome, (last,))) > self._wrong[before]:
            why = "The repair made it worse, so the answer stays as it was."
            return Proposal(replace(outcome.plan, answer=before), "plan", why)
        return None


def _is_repair(step: Step) -> bool:
    return step.subtask.startswith(_REPAIR_START)


def _audit_proposal(routing: RoutingContext, outcome: Outcome) -> Proposal | None:
    """Propose an audit by a capable worker that wrote no part of the answer, if there is one."""
    answer = outcome.plan.answer
    auditor = _choose_auditor(routing, {outcome.plan.steps[n - 1].worker for n in answer})
    if auditor is None:
        return None
    need = replace(routing.route.need, kind="reasoning")
    access = (PROMPT, *map(str, answer))
    step = Step(auditor.id, AUDIT, access, need, optional=True, check=True)
    plan = outcome.plan.with_steps((step,), answer)
    return Proposal(plan, "plan", f"{auditor.name} checks the answer.", final=False)


def _choose_auditor(routing: RoutingContext, authors: Iterable[str]) -> Card | None:
    from baton.core.planning.skill_estimates import skill

    wrote = set(authors)
    others = [card for card in conversational_workers(routing) if card.id not in wrote]
    if not others:
        return None
    best = strongest_worker(routing, others)
    return best if skill(best, "reasoning") >= _MIN_AUDITOR_SKILL else None


def _repair_after_audit(routing: RoutingContext, outcome: Outcome) -> Proposal | None:
    """Propose the repair that an audit calls for."""
    audit = len(outcome.plan.steps)
    verdict = outcome.text(audit).strip()
    if not verdict or is_accepted(verdict) or audit >= MAX_STEPS or audit in outcome.plan.answer:
        return None
    return _repair_proposal(routing, outcome, (*outcome.plan.answer, audit), "")


def is_accepted(verdict: str) -> bool:
    """Whether an audit found nothing wrong."""
    return _ACCEPTED.match(verdict.strip()) is not None


def _repair_proposal(
    routing: RoutingContext, outcome: Outcome, sees: tuple[int, ...], findings: str
) -> Proposal:
    """Propose a repair by the worker that wrote the end of the answer."""
    author = outcome.plan.steps[outcome.plan.answer[-1] - 1].worker
    known = {card.id for card in conversational_workers(routing)}
    task = f"{_CHECK_REPAIR}\n\n{fenced(findings)}" if findings else REPAIR
    step = Step(
        author if author in known else routing.worker,
        task,
        full_access(routing, sees),
        routing.route.need,
        optional=True,
    )
    plan = outcome.plan.with_steps((step,), (len(outcome.plan.steps) + 1,))
    why = "A check found a mistake in it." if findings else "The auditor found problems in it."
    return Proposal(plan, "plan", why, final=False)


def _findings_text(wrong: Iterable[Checked]) -> str:
    """Return what checks found, as data for the worker that repairs the answer."""
    return "\n".join(f"{finding.what}: {finding.note}"[:600] for finding in wrong)[:4000]


def is_verifying(outcome: Outcome) -> bool:
    """Whether a plan has come to its verification."""
    last = outcome.plan.steps[-1]
    return last.subtask == AUDIT or _is_repair(last)
