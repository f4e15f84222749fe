"""Drafts by local workers, reviewed before one stays: the part of `hybrid`, and `cascade`.

`cascade` always compares two; `hybrid` drafts once or twice, and weighs what help costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from baton.core.judging.draft_scoring import tenths
from baton.core.judging.short_answer import (
    announced_answer,
    answers_agree,
    majority_index,
    short_answer,
)
from baton.core.plan_types import MAX_STEPS, Outcome, Plan
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.reading.task_kind import is_short_answer_wanted
from baton.core.routing_types import Judgement
from baton.core.strategies._estimates import can_pay_helper, chance_text, has_helper, third_drafter
from baton.core.strategies._steps import (
    answer_step,
    best_step,
    drafts_proposal,
    help_reason,
    is_lost,
    keep_step,
    local_only_reason,
    local_workers,
    single_answer,
    written_steps,
)

_MAJORITY_REASON = "More of the local answers say this."

MAX_DRAFTS = 3

_MIN_THIRD_DRAFT_GAIN = 0.05
"""With less to gain by help, two drafts are enough."""

_MIN_LOCAL_HELP_GAIN = 0.15
"""The same for a stronger worker here: it costs no money, but time."""


class DraftReview:
    """The default worker drafts, by itself or beside another; then one answer is chosen.

    Where the drafts won't do, a better worker on this machine is asked first, and where two leave
    it open, a third one here; then the helper, if its gain is worth its price. The draft is there
    by then, and stays beside what replaces it. With `is_doubted` the router expects that the helper
    is needed, although it has no figures.
    """

    def __init__(self, workers: Sequence[str] = (), *, is_doubted: bool = False) -> None:
        self._workers = workers
        self._is_doubted = is_doubted

    async def first(self, context: StrategyContext) -> Proposal:
        """Propose the drafts, or the answer where no worker could help."""
        routing = context.routing
        if len(self._workers) > 1:
            return drafts_proposal(routing, self._workers, _drafting_reason(routing, self._workers))
        if not has_helper(routing) and not routing.near:
            return single_answer(routing, local_only_reason(routing) or chance_text(routing))
        mine = routing.card(routing.worker).name
        first = f"{mine} answers first, and its answer is looked at before it stays."
        return replace(single_answer(routing, chance_text(routing) or first), final=False)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the draft that stays, or help; where help fails, the draft."""
        routing, plan = context.routing, outcome.plan
        drafts = _draft_numbers(routing, plan)
        last = len(plan.steps)
        if last == len(drafts):
            if last == 1 and (1 in outcome.failed or not (has_helper(routing) or routing.near)):
                return None
            return await self._review(context, outcome, drafts)
        if plan.answer != (last,):
            return None  # a draft was chosen already
        if plan.steps[-1].worker == routing.near:
            if is_lost(outcome, last):
                again = await self._review(context, outcome, drafts)
                return again or self._kept_proposal(routing, outcome, drafts)
            return await self._review_near(context, outcome)
        if not is_lost(outcome, last):
            return None
        if last - 1 > len(drafts) and not is_lost(outcome, last - 1):
            return keep_step(outcome, last - 1, NO_HELP_REASON)
        return self._kept_proposal(routing, outcome, drafts)

    def _kept_proposal(
        self, routing: RoutingContext, outcome: Outcome, drafts: Sequence[int]
    ) -> Proposal:
        whole = written_steps(outcome, drafts) or drafts
        return keep_step(outcome, _draft_by_rule(routing, outcome, whole), NO_HELP_REASON)

    async def _review(
        self, context: StrategyContext, outcome: Outcome, drafts: Sequence[int]
    ) -> Proposal | None:
        routing, last = context.routing, len(outcome.plan.steps)
        plain = _plain_fault(routing, outcome, drafts)
        near = routing.near if last == len(drafts) else ""
        may_ask = bool(plain) or await self._may_ask_for_help(context)
        if not may_ask and not near:
            return _keep_draft(outcome, _draft_by_rule(routing, outcome, drafts), "")
        await _check_drafts(context, outcome, written_steps(outcome, drafts))
        judged = await context.judge(outcome, drafts)
        stays = _kept_draft(routing, outcome, drafts, judged)
        quality = dict(zip(drafts, judged.quality, strict=True))
        hopeless = bool(plain) and len(drafts) == 1
        # A draft that plainly won't do is as good as no answer.
        here = 0.0 if hopeless else quality[stays]
        why = plain or _doubt_reason(drafts, judged)
        if near and (hopeless or _chance_of(near, judged) - here > _MIN_LOCAL_HELP_GAIN):
            reason = f"{why} {routing.card(near).name} is on this machine too, and costs nothing."
            step = answer_step(routing, near, optional=True)
            plan = outcome.plan.with_steps((step,), (last + 1,))
            return Proposal(plan, "local", reason, final=not has_helper(routing))
        gain = _chance_of(routing.helper, judged) - here
        if len(drafts) == 2 and (another := await _third_drafter(context, outcome, gain)):
            step = answer_step(routing, another, optional=True)
            return Proposal(outcome.plan.with_steps((step,), (stays,)), "local", why, final=False)
        if may_ask and has_helper(routing):
            chances = None if plain else (here, here + gain)
            if (offered := await _offer(context, outcome, why, gain, chances)) is not None:
                return offered
        return _keep_draft(outcome, stays, plain)

    async def _review_near(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the helper where the answer of the better worker here won't do either."""
        routing, last = context.routing, len(outcome.plan.steps)
        plain = help_reason(routing, outcome, last)
        if not has_helper(routing) or not (plain or await self._may_ask_for_help(context)):
            return None
        await _check_drafts(context, outcome, (last,))
        judged = await context.judge(outcome, (last,))
        here = 0.0 if plain else judged.quality[0]
        gain = _chance_of(routing.helper, judged) - here
        why = plain or _doubt_reason((last,), judged)
        chances = None if plain else (here, here + gain)
        return await _offer(context, outcome, why, gain, chances)

    async def _may_ask_for_help(self, context: StrategyContext) -> bool:
        """Whether the helper may be asked although the drafts look well."""
        known = self._is_doubted or context.routing.route.estimate is not None
        return known and has_helper(context.routing) and await can_pay_helper(context)


def _chance_of(worker: str, judged: Judgement) -> float:
    """Return how likely a worker's answer would be good, now that there are drafts."""
    return judged.quality[judged.best] + judged.gain.get(worker, 0.0) if worker else 0.0


async def _offer(
    context: StrategyContext,
    outcome: Outcome,
    why: str,
    gain: float,
    chances: tuple[float, float] | None,
) -> Proposal | None:
    """Propose the helper, if its gain is worth its price, and the user's waiting.

    `chances` are of a good answer here and there; without them it is plain why help is needed.
    """
    routing = context.routing
    if not await context.weigh(routing.helper, gain, plain=chances is None):
        return None
    if chances is not None:
        here, there = map(tenths, chances)
        why = f"{why} Right here: about {here}; {routing.card(routing.helper).name}: about {there}."
    step = answer_step(routing, routing.helper, optional=True)
    number = len(outcome.plan.steps) + 1
    return Proposal(outcome.plan.with_steps((step,), (number,)), "cloud", why)


async def _third_drafter(context: StrategyContext, outcome: Outcome, gain: float) -> str:
    """Return the local worker to ask before a paid one, or ""."""
    if (
        gain <= _MIN_THIRD_DRAFT_GAIN
        or not has_helper(context.routing)
        or not await can_pay_helper(context)
    ):
        return ""
    return third_drafter(context.routing, {step.worker for step in outcome.plan.steps})


def _draft_numbers(routing: RoutingContext, plan: Plan) -> Sequence[int]:
    """Return the numbers of the drafts: two or three that may fail, else the first step."""
    asked = (routing.helper, routing.near)
    mine = takewhile(lambda step: step.optional and step.worker not in asked, plan.steps)
    count = len(list(mine))
    return range(1, min(MAX_DRAFTS, count) + 1) if count > 1 else (1,)


def _drafting_reason(routing: RoutingContext, workers: Sequence[str]) -> str:
    """Say who drafts."""
    first, second = (routing.card(worker) for worker in workers)
    who = "Two workers here answer" if first.id != second.id else f"{first.name} answers twice"
    if not routing.helper:
        return f"{who}, to compare."
    return f"{who}, and a stronger one is asked if that pays."


def _plain_fault(routing: RoutingContext, outcome: Outcome, drafts: Sequence[int]) -> str:
    """Say in a sentence why drafts plainly call for help, or return ""."""
    if len(drafts) == 1:
        return help_reason(routing, outcome, 1)
    if len(drafts) == 2:
        return disagreement(routing, outcome)
    agreed = majority_index([outcome.text(n) for n in drafts])
    if agreed is None:
        return "No two of the three local answers agree."
    return "" if agreed == 0 else "Two other workers here say something else than the first."


def _doubt_reason(drafts: Sequence[int], judged: Judgement) -> str:
    """Say in a sentence why drafts that look well may still be wrong."""
    quality = judged.quality[judged.best]
    wrong = f"wrong about {tenths(1 - quality)} times."
    if len(drafts) > 1:
        return f"The local answers agree, but with such questions that is {wrong}"
    return f"Local answers like this one are {wrong}"


def _draft_by_rule(routing: RoutingContext, outcome: Outcome, drafts: Sequence[int]) -> int:
    """Return the draft that stays by rule."""
    if len(drafts) == 1:
        return drafts[0]
    agreed = majority_index([outcome.text(n) for n in drafts])
    return kept_answer(routing, outcome) if agreed is None else drafts[agreed]


def _kept_draft(
    routing: RoutingContext, outcome: Outcome, drafts: Sequence[int], judged: Judgement
) -> int:
    """Return the draft that stays: the first that can be used, else what was judged best.

    Two others that agree against it are a reason to ask for help, not to take theirs: in GSM8K that
    was right more often (by 69 in a hundred), in MMLU-Pro and MATH less often (by 33 and more), and
    nothing that is known before separates these.
    """
    if routing.route.estimate is None:
        return _draft_by_rule(routing, outcome, drafts)
    whole = written_steps(outcome, drafts) or list(drafts)
    first = whole[0]
    if not help_reason(routing, outcome, first) and short_answer(outcome.text(first)):
        return first
    quality = dict(zip(drafts, judged.quality, strict=True))
    return max(whole, key=quality.__getitem__)


def _keep_draft(outcome: Outcome, step: int, why: str) -> Proposal | None:
    """Propose that a draft is the answer, unless it is already."""
    if outcome.plan.answer == (step,):
        return None
    return keep_step(outcome, step, why or _MAJORITY_REASON)


async def _check_drafts(context: StrategyContext, outcome: Outcome, drafts: Sequence[int]) -> None:
    """Check the drafts that can be checked by computing."""
    from baton.core.judging.checks import is_checkable

    for number in drafts:
        if is_checkable(outcome.text(number)):
            await context.check(outcome, number)


# Help after a plan


def helper_proposal(routing: RoutingContext, outcome: Outcome) -> Proposal | None:
    """Propose that the helper answers instead; where it fails, the answer before it."""
    plan = outcome.plan
    last = len(plan.steps)
    if last > 1 and plan.steps[-1].is_direct and plan.steps[-1].worker == routing.helper:
        lost = plan.answer == (last,) and is_lost(outcome, last)
        return keep_step(outcome, last - 1, "The local answer stays.") if lost else None
    mine = _local_answer_step(routing, plan)
    if not mine or not has_helper(routing) or last >= MAX_STEPS:
        return None
    if mine in outcome.failed or not (why := help_reason(routing, outcome, mine)):
        return None
    # Optional: where the user keeps the draft, no other worker writes another one.
    step = answer_step(routing, routing.helper, optional=True)
    return Proposal(plan.with_steps((step,), (last + 1,)), "cloud", why)


def _local_answer_step(routing: RoutingContext, plan: Plan) -> int:
    """Return the last step, if it is the answer and was written here; else 0."""
    last = len(plan.steps)
    remote = {card.id for card in routing.roster if not card.is_local}
    return last if plan.answer == (last,) and plan.steps[-1].worker not in remote else 0


# Two workers, by rule


NO_HELP_REASON = "Nothing came from the stronger worker, so the local answer stays."


class Cascade:
    """Two workers here (or one, twice) answer; where they disagree, the helper is asked.

    Free text can't be compared: then the first answer counts, unless it plainly won't do. A default
    worker that is remote answers alone.
    """

    async def first(self, context: StrategyContext) -> Proposal:
        routing = context.routing
        if not routing.card(routing.worker).is_local:
            return single_answer(routing)
        cards = local_workers(routing)
        pair = [cards[0].id, cards[1].id if len(cards) > 1 else cards[0].id]
        drafters = "Two workers here answer" if len(cards) > 1 else f"{cards[0].name} answers twice"
        more = "a stronger one is asked if they disagree." if routing.helper else "to compare."
        return drafts_proposal(
            routing, pair, f"{drafters}, {'and ' if routing.helper else ''}{more}"
        )

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose the answer of the two, or help; where help fails, one of the two."""
        steps = len(outcome.plan.steps)
        if steps == 1:
            return None
        if steps == 2:
            return await self._compare(context, outcome)
        lost = outcome.plan.answer == (3,) and is_lost(outcome, 3)
        return (
            keep_step(outcome, kept_answer(context.routing, outcome), NO_HELP_REASON)
            if lost
            else None
        )

    async def _compare(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        routing = context.routing
        stays = kept_answer(routing, outcome)
        why = disagreement(routing, outcome)
        if why and routing.helper:
            step = answer_step(routing, routing.helper, optional=True)
            return Proposal(outcome.plan.with_steps((step,), (3,)), "cloud", why)
        if outcome.plan.answer == (stays,):
            return None
        return keep_step(outcome, stays, why or "Only one of the two has an answer.")


def disagreement(routing: RoutingContext, outcome: Outcome) -> str:
    """Say in a sentence why two answers call for a third, or return ""."""
    numbers = written_steps(outcome, (1, 2))
    if len(numbers) < 2:
        return help_reason(routing, outcome, numbers[0] if numbers else 1)
    texts = [outcome.text(n) for n in (1, 2)]
    # Of free text only what is announced as an answer counts: it may end with any number.
    if not is_short_answer_wanted(routing) and not all(map(announced_answer, texts)):
        return help_reason(routing, outcome, 1)
    if not any(map(short_answer, texts)):
        return "Neither of the two local answers gives a result."
    return "" if answers_agree(*texts) else "The two local answers disagree."


def kept_answer(routing: RoutingContext, outcome: Outcome) -> int:
    """Return the answer that stays: the first where both agree, else the stronger worker's."""
    numbers = written_steps(outcome, (1, 2))
    if len(numbers) < 2 or not disagreement(routing, outcome):
        return numbers[0] if numbers else 1
    return best_step(routing, outcome, numbers)
