"""Answers to the prompt: who may write them, the steps in which they do, and which one counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from baton.core.judging.answer_faults import help_wanted
from baton.core.judging.short_answer import answers_agree, majority_index
from baton.core.labels import Label
from baton.core.messages import Card, Finish
from baton.core.plan_types import (
    DIRECT_SUBTASK,
    FILE,
    HISTORY,
    PROMPT,
    Outcome,
    Plan,
    Step,
    direct_step,
)
from baton.core.planning.skill_estimates import MAX_PEER_SKILL_GAP, skill, strength
from baton.core.ports import Proposal, RoutingContext, StrategyContext
from baton.core.reading.bare_expressions import ABOUT_BATON, asks_who_answers


def answer_step(routing: RoutingContext, worker: str, *, optional: bool = False) -> Step:
    """Return a step in which a worker answers the prompt, seeing all of the conversation."""
    step = direct_step(worker, routing.material.files, routing.route.need)
    return replace(step, optional=True) if optional else step


def single_answer(routing: RoutingContext, why: str = "") -> Proposal:
    """Propose that the default worker alone answers."""
    card = routing.card(routing.worker)
    reason = local_only_reason(routing) if card.is_local else ""
    reason = reason or _single_reason(routing, card)
    plan = Plan((answer_step(routing, card.id),), (1,))
    reasons = f"{routing.choice} {why}".strip() or reason
    return Proposal(plan, "cloud" if card.remote else "local", reasons)


def _single_reason(routing: RoutingContext, card: Card) -> str:
    """Say in a sentence why that worker answers, and no other."""
    if routing.limits.alone:
        return f"{'The program' if routing.limits.client else 'You'} chose {card.name}."
    if all(other.is_tool or other.id == card.id for other in routing.roster):
        return f"{card.name} is the only worker that may answer."
    return f"{card.name} is set to answer."


def local_only_reason(routing: RoutingContext) -> str:
    """Say in a sentence what keeps the prompt on this machine, or return ""."""
    if routing.limits.label is Label.LOCAL:
        return "This conversation is private, so no remote model is asked."
    return "The mode is local, so no remote model is asked." if routing.mode == "local" else ""


def drafts_proposal(routing: RoutingContext, workers: Iterable[str], why: str) -> Proposal:
    """Propose that each of these answers independently; a later proposal chooses."""
    steps = tuple(answer_step(routing, worker, optional=True) for worker in workers)
    remote = any(routing.card(step.worker).remote for step in steps)
    reasons = f"{routing.choice} {why}".strip()
    return Proposal(Plan(steps, (1,)), "cloud" if remote else "local", reasons, final=False)


def full_access(routing: RoutingContext, steps: Iterable[int]) -> tuple[str, ...]:
    """Return the access list of a step that sees the conversation and some results."""
    files = (FILE + name for name in routing.material.files)
    return (PROMPT, HISTORY, *files, *map(str, steps))


def conversational_workers(routing: RoutingContext) -> list[Card]:
    """Return all workers but tools, the default one first; only that one with `limits.alone`."""
    mine = routing.card(routing.worker)
    if routing.limits.alone:
        return [mine]
    others = (card for card in routing.roster if card.id != mine.id and not card.is_tool)
    return [mine, *others]


async def allowed_workers(context: StrategyContext) -> list[Card]:
    """Return the workers that may be asked: those with a price only where money may be spent."""
    left = (await context.funds()).left
    mine, *others = conversational_workers(context.routing)
    return [mine, *(card for card in others if left != 0 or card.is_free)]


def local_workers(routing: RoutingContext) -> list[Card]:
    """Return the local workers, the default one first, then by skill.

    Those of other programs on this machine are among them.
    """
    found = [card for card in conversational_workers(routing) if card.is_local and not card.is_tool]
    others = [card for card in found if card.id != routing.worker]
    others.sort(key=lambda card: (prompt_skill(routing, card), strength(card)), reverse=True)
    return [card for card in found if card.id == routing.worker] + others


def strongest_worker(routing: RoutingContext, among: Iterable[Card]) -> Card:
    """Return the worker with the most skill for the prompt; the first of equals."""
    return max(among, key=lambda card: (prompt_skill(routing, card), strength(card)))


def best_step(routing: RoutingContext, outcome: Outcome, among: Iterable[int]) -> int:
    """Return the step with the strongest worker; the first among peers.

    A size says little among peers, and the first is the worker that the user chose.
    """
    cards = {card.id: card for card in routing.roster}
    numbers = list(among)
    powers = {
        n: prompt_skill(routing, cards[worker])
        for n in numbers
        if (worker := outcome.plan.steps[n - 1].worker) in cards
    }
    if not powers:  # they were run earlier, and are gone since
        return numbers[0]
    least = max(powers.values()) - MAX_PEER_SKILL_GAP
    return next(n for n in numbers if powers.get(n, 0.0) >= least)


def prompt_skill(routing: RoutingContext, card: Card) -> float:
    """Return how difficult a prompt of this kind may be for a worker."""
    return skill(card, routing.route.need.kind)


def help_reason(routing: RoutingContext, outcome: Outcome, step: int) -> str:
    """Say in a sentence why a step's text calls for a second look, or return ""."""
    if step in outcome.looped:
        return "The local model repeated itself and was stopped."
    finish = Finish.LENGTH if step in outcome.cut else Finish.STOP
    return help_wanted(outcome.text(step), finish, routing.limits)


def written_steps(outcome: Outcome, among: Iterable[int]) -> list[int]:
    """Return the steps that have a whole text."""
    return [n for n in among if outcome.text(n).strip()]


def is_lost(outcome: Outcome, step: int) -> bool:
    """Whether a step that is over has no text."""
    return not outcome.texts.get(step, "").strip()


def keep_step(outcome: Outcome, step: int, why: str) -> Proposal:
    """Propose that a step's text is the answer."""
    return Proposal(replace(outcome.plan, answer=(step,)), why=why)


# Another worker than the default one


class Delegation:
    """A tool or another worker answers first; if it has no answer, the default worker does.

    `worker` "" is the tool that the router names.
    """

    def __init__(self, worker: str = "", why: str = "") -> None:
        self._worker = worker
        self._why = why

    async def first(self, context: StrategyContext) -> Proposal:
        routing = context.routing
        why = self._why or routing.route.why
        if not self._worker:
            step = replace(_tool_step(routing), optional=True)
            return Proposal(Plan((step,), (1,)), "local", why)
        step = answer_step(routing, self._worker, optional=True)
        where = "cloud" if routing.card(self._worker).remote else "local"
        return Proposal(Plan((step,), (1,)), where, why)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Propose that the default worker answers after all."""
        if len(outcome.plan.steps) > 1 or not is_lost(outcome, 1):
            return None
        routing = context.routing
        step = answer_step(routing, routing.worker)
        name = routing.card(routing.worker).name
        return Proposal(outcome.plan.with_steps((step,), (2,)), why=f"{name} answers.")


def _tool_step(routing: RoutingContext) -> Step:
    if routing.route.tool == ABOUT_BATON:
        return Step(ABOUT_BATON, _self_description(routing), (), routing.route.need)
    material = routing.material
    if material.question != material.prompt:  # a tool reads nothing else
        return Step(routing.route.tool, material.question, (), routing.route.need)
    return Step(routing.route.tool, DIRECT_SUBTASK, (PROMPT,), routing.route.need)


def _self_description(routing: RoutingContext) -> str:
    """Return the answer to a prompt about Baton itself (`tool_routing.can_compute`)."""
    card = routing.card(routing.worker)
    name = f"{_model_text(card)} answers here, in Baton."
    if asks_who_answers(routing.material.question):
        return name
    lines = [
        name,
        "Sums, units, dates and times are computed exactly. Files can be attached (`-f FILE`, or"
        " `@path` in the prompt). A request for several things is split into steps.",
    ]
    helpers = [c.name for c in routing.roster if not c.is_tool and c.id != card.id]
    if helpers:
        lines.append(f"Further workers: {', '.join(helpers[:5])}.")
    else:
        lines.append(
            "Larger models answer better: `baton models recommend` names those that suit this"
            " machine."
        )
    lines.append("F1 in the app and `baton --help` list everything.")
    return "\n\n".join(lines)


def _model_text(card: Card) -> str:
    """Name a worker, its size and its place in a phrase."""
    size = ""
    if card.parameters:
        millions = card.parameters / 1e6
        count = f"{millions:.0f} million" if millions < 1000 else f"{millions / 1000:.3g} billion"
        size = f", {count} parameters"
    place = "on this machine"
    if card.place is not Label.LOCAL:
        place = f"at {card.provider or card.address or 'a remote server'}"
    return f"{card.name} ({place}{size})"


# Votes


class VoteStrategy:
    """Chooses among the steps of a plan once they are over, and says so once."""

    def __init__(self) -> None:
        self._said = False

    def vote_proposal(self, outcome: Outcome, best: int) -> Proposal | None:
        """Propose the first answer of the majority; without one the `best`, if it was written."""
        numbers = written_steps(outcome, range(1, len(outcome.plan.steps) + 1))
        if self._said or not numbers:
            return None
        self._said = True
        texts = [outcome.text(n) for n in numbers]
        index = majority_index(texts)
        if index is None:
            chosen = best if best in numbers else numbers[0]
            return keep_step(outcome, chosen, _no_majority_reason(len(numbers)))
        votes = sum(answers_agree(texts[index], text) for text in texts)
        return keep_step(outcome, numbers[index], f"{votes} of {len(texts)} answers agree.")


def _no_majority_reason(count: int) -> str:
    if count == 1:
        return "Only one answer was written."
    return "No two answers agree more than others do, so the one that is likeliest right counts."
