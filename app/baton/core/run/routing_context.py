"""What is known of a prompt before anything is called: who may be used, and who answers."""

from __future__ import annotations

from dataclasses import replace

from baton.core.messages import Card, estimated_tokens, text_with_files
from baton.core.model_roles import RULE_CONDUCTOR
from baton.core.plan.plan import Material
from baton.core.ports import Route, RoutingContext
from baton.core.run.policy import check, may_use, stronger
from baton.core.run.run_context import RunContext


async def build_routing_context(stage: RunContext, material: Material) -> RoutingContext:
    """Find out who may be used, and where the router would send the prompt.

    Raises what `check` does where the default worker may not see it.
    """
    task, house = stage.task, stage.house
    label, terms = stage.begun.label, stage.purse.terms
    mine = _mine(stage)
    check(mine, label, terms)
    cards = [worker.card for name, worker in house.workers.items() if name != mine.id]
    usable = (mine, *(card for card in cards if may_use(card, label, terms)))
    roster = await house.skills.cards_with_skills(usable)
    route, helper, choice = await _routed(stage, material, roster), task.helper, ""
    wanted = house.prefer.get(route.need.kind, "") if task.open else ""
    if (preferred := _preferred(wanted, roster, material)) is not None:
        roster = (preferred, *(card for card in roster if card.id != preferred.id))
        route = await _routed(stage, material, roster)  # anew: it compares with who answers
        found = stronger(preferred, roster, label, terms)
        helper = found.id if found is not None and found.uses_gateway else ""
        choice = f"{preferred.name} is your choice for {route.need.kind}."
    allowed = {card.id for card in roster}
    return RoutingContext(
        material,
        roster[0].id,
        helper if helper in allowed else "",
        roster,
        route,
        replace(task.limits, label=label),  # an older conversation may be stricter
        terms.mode,
        house.conductor if house.conductor in (*allowed, RULE_CONDUCTOR) else "",
        house.templates,
        house.prefer,
        choice,
    )


def _mine(stage: RunContext) -> Card:
    """Return the card of the default worker; of the plan's own where that may not go on."""
    task, workers = stage.task, stage.house.workers
    label, terms = stage.begun.label, stage.purse.terms
    named = [step.worker for step in task.kept.plan.steps] if task.kept else []
    cards = [workers[name].card for name in (task.worker, *named) if name in workers]
    usable = (card for card in cards if not card.is_tool and may_use(card, label, terms))
    return next(usable, cards[0])


def _preferred(wanted: str, roster: tuple[Card, ...], material: Material) -> Card | None:
    """Return the worker that shall answer instead of the default one, if it may and can.

    Only one on this machine: what goes elsewhere is offered first, whatever is preferred.
    """
    card = next((card for card in roster[1:] if card.id == wanted), None)
    if card is None or card.is_tool or card.uses_gateway:
        return None
    size = sum(estimated_tokens(text_with_files(turn.text, turn.files)) for turn in material.turns)
    return card if not card.context or size < card.context else None


async def _routed(stage: RunContext, material: Material, roster: tuple[Card, ...]) -> Route:
    from baton.core.run.router_validation import sound_estimate

    route = await stage.house.router.route(material, roster)
    return replace(route, estimate=sound_estimate(route.estimate, roster))
