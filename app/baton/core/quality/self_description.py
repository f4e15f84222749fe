"""What Baton answers to "what can you do?" and "which model are you?": a model would guess."""

from __future__ import annotations

from baton.core.labels import Label
from baton.core.messages import Card
from baton.core.plan.tool_routing import asks_who_answers
from baton.core.ports import RoutingContext


def self_description(routing: RoutingContext) -> str:
    """Return the answer to a prompt about Baton itself (`tool_routing.can_compute`)."""
    card = routing.card(routing.worker)
    name = f"{_model_text(card)} answers here, in Baton."
    if asks_who_answers(routing.material.prompt):
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
    if card.privacy is not Label.LOCAL:
        place = f"at {card.provider or card.address or 'a remote server'}"
    return f"{card.name} ({place}{size})"
