"""What is said beside an answer: that it is likely wrong, can't be known here, or was checked.

Checks by computing cost nothing, so they are made of every answer; so is the question to the
router how likely the answer is right. What is said of it once in a conversation is a short mark
from then on, until its cause or remedy changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from baton.core.events import FAILED_CHECK, Checked, Verdict, Warned
from baton.core.judging.checks import is_checkable
from baton.core.judging.draft_scoring import expected_quality, tenths
from baton.core.labels import Label
from baton.core.messages import Card, Role, Turn, TurnStatus
from baton.core.money import show_usd
from baton.core.plan_types import Material, Outcome
from baton.core.planning.token_estimates import likely_cost
from baton.core.ports import PlanningContext, RoutingContext
from baton.core.reading.bare_expressions import is_computable
from baton.core.reading.follow_up import request_text
from baton.core.reading.missing_knowledge import LACK_TEXTS, missing_knowledge
from baton.core.reading.task_kind import is_greeting

MIN_CHANCE = 0.5
"""An answer that is right with less chance than this is marked."""

MIN_REMEDY_GAIN = 0.15
"""Another worker is named where it is likelier right by this much."""

LIKELY_WRONG = "likely_wrong"
REPETITION = "repetition"
NOT_CONDUCTED = "not_conducted"
CHAT_TEMPLATE = "chat_template"

CONDUCTED_STRATEGIES = ("ultra", "conductor")
"""The strategies that the user chooses for their plans."""

_TEXT_KINDS = ("writing", "rewriting", "planning", "chat")
"""Kinds whose answers are good or weak rather than right or wrong."""

_BETTER_MODEL = "`baton models recommend` names better models for this machine."


class ReviewContext(PlanningContext, Protocol):
    """What the review of an answer asks of the run."""

    async def check(
        self, outcome: Outcome, step: int, *, decided_only: bool = False
    ) -> tuple[Checked, ...]:
        """Check a step's text by computing, and record what was decided, or all of it."""
        ...

    async def chance(self, outcome: Outcome, step: int, part: Material | None) -> float:
        """Return how likely what a step wrote is good, from 0 to 1; of a `part` as of a whole."""
        ...


async def review_answer(
    context: ReviewContext,
    outcome: Outcome,
    authors: Mapping[int, str],
    known: Mapping[str, str],
    cautions: Iterable[str] = (),
) -> list[Warned]:
    """Return what is to be said beside the answer that a plan produced.

    `authors` says who wrote each of its steps; `known` has the hints that were given before in the
    conversation, by kind. `cautions` are what is wrong with the authors' models themselves.
    """
    cards = {card.id: card for card in context.routing.roster}
    tools = {card.id for card in cards.values() if card.is_tool}
    written = [
        n for n in outcome.plan.answer if outcome.text(n).strip() and authors[n] not in tools
    ]
    found = [Warned(CHAT_TEMPLATE, text, _BETTER_MODEL) for text in cautions if text]
    for number in written:
        found += await _review_step(context, outcome, number, cards.get(authors[number]))
        if number in outcome.looped:
            message = "The model repeated itself, so it was stopped where that began."
            found.append(Warned(REPETITION, message, _BETTER_MODEL, step=number))
    return [replace(one, is_known=known.get(one.kind) == one.hint) for one in _first_of_kind(found)]


def missing_plan_warning(routing: RoutingContext, strategy: str, outcome: Outcome) -> Warned | None:
    """Return what is said where the user asked for a plan, and one worker answered."""
    steps, tools = outcome.plan.steps, {card.id for card in routing.roster if card.is_tool}
    if len(steps) > 1 or not steps[0].is_direct or steps[0].worker in tools:
        return None
    if strategy in CONDUCTED_STRATEGIES:
        message = "No worker here could draw a plan, so one worker answered."
        return Warned(NOT_CONDUCTED, message, _BETTER_MODEL)
    if routing.mode == "ultra" and routing.limits.alone:
        message = "One worker was chosen to answer alone, so the mode ultra had no effect."
        return Warned(NOT_CONDUCTED, message, "Leave out -m, or name a --strategy with it.")
    return None


def _first_of_kind(found: list[Warned]) -> list[Warned]:
    """Return each kind once, of likely wrong parts the likeliest; each wrong check by itself."""
    found = sorted(found, key=lambda one: (one.kind != LIKELY_WRONG, one.chance or 0.0))
    kept: list[Warned] = []
    for one in found:
        if one.kind == FAILED_CHECK or all(one.kind != other.kind for other in kept):
            kept.append(one)
    return kept


async def _review_step(
    context: ReviewContext, outcome: Outcome, number: int, card: Card | None
) -> list[Warned]:
    """Return what is to be said of one step of the answer."""
    routing, step = context.routing, outcome.plan.steps[number - 1]
    part = None if step.is_direct else _part_material(step.subtask)
    asked = part or routing.material
    checks: tuple[Checked, ...] = ()
    if is_checkable(outcome.text(number), asked.question):
        checks = await context.check(outcome, number, decided_only=True)
    wrong = [
        Warned(FAILED_CHECK, _check_message(found), step=number)
        for found in checks
        if found.verdict is Verdict.WRONG
    ]
    if (lack := missing_knowledge(asked)) is not None:
        texts = LACK_TEXTS[lack]
        return [Warned(lack.value, texts.message, texts.hint, step=number), *wrong]
    if step.check or _is_proven(checks) or is_greeting(request_text(asked)):
        return wrong
    chance = await context.chance(outcome, number, part)
    if chance >= MIN_CHANCE:
        return wrong
    kind = routing.route.need.kind if step.is_direct else step.need.kind
    hint = await _remedy(context, asked, card, chance, outcome.failed_workers)
    message = _chance_message(chance, kind, card)
    return [Warned(LIKELY_WRONG, message, hint, round(chance, 3), step=number), *wrong]


def _part_material(subtask: str) -> Material:
    """Return a part of a request as if it were the whole."""
    turn = Turn("", "", None, Role.USER, subtask, TurnStatus.DONE, Label.LOCAL, 0.0)
    return Material((turn,))


def _is_proven(checks: tuple[Checked, ...]) -> bool:
    """Whether an answer's own tests ran and passed, and nothing in it was found wrong."""
    decided = [found for found in checks if found.verdict is not Verdict.UNCHECKED]
    has_tests = any(found.what.endswith(("its tests", "its schema")) for found in decided)
    return has_tests and all(found.verdict is Verdict.RIGHT for found in decided)


def _check_message(found: Checked) -> str:
    """Say what a check found wrong; of sums and units what is right instead."""
    what = "Recomputed" if found.what in ("sums", "units") else found.what
    return f"{what}: {found.note.rstrip('.')}."


def _chance_message(chance: float, kind: str, card: Card | None) -> str:
    where = "here" if card is None or card.place is Label.LOCAL else f"by {card.name}"
    if kind in _TEXT_KINDS:
        return f"Likely weak: about {tenths(chance)} answers like this are good {where}."
    return f"Likely wrong: about {tenths(chance)} answers like this are right {where}."


async def _remedy(
    context: ReviewContext,
    asked: Material,
    card: Card | None,
    chance: float,
    failed: Collection[str],
) -> str:
    """Return the one thing that would help most with an answer that is likely wrong.

    Those that `failed` in this run wouldn't.
    """
    routing = context.routing
    if is_computable(asked.question) and not any(c.is_tool for c in routing.roster):
        return "`tools = true` in config.toml has this computed exactly."
    better = [
        other
        for other in routing.roster
        if not (other.is_tool or other.id in failed or (card is not None and other.id == card.id))
        and expected_quality(other, routing.route) >= chance + MIN_REMEDY_GAIN
    ]
    if not better:
        return _BETTER_MODEL
    free = [other for other in better if other.is_free]
    best = max(free or better, key=lambda other: expected_quality(other, routing.route))
    way = f"`-m {best.id}`, or /model {best.id}"
    if best.is_free:
        return f"{best.name} does better and costs nothing: {way}."
    left, cost = (await context.funds()).left, likely_cost(best, asked, routing.route)
    if left is not None and left < cost:
        allow = f"`-m {best.id} --budget 0.05` (for example), or a ceiling in /budget"
        return f"{best.name} does better: {allow} lets it be asked."
    return f"{best.name} does better, for about {show_usd(cost)}: {way}."
