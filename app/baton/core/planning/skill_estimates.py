"""Skill estimates from a worker's card: the difficulty of tasks that it does well."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from baton.core.labels import Label
from baton.core.messages import Card
from baton.core.model_names import parse_model_name
from baton.core.permissions import RunTerms, may_use

_SKILL_BY_BILLIONS = (
    (0.135, 1.0),
    (0.5, 1.4),
    (1.0, 1.7),
    (3.0, 2.3),
    (8.0, 3.0),
    (14.0, 3.4),
    (30.0, 4.0),
    (70.0, 4.3),
    (400.0, 4.7),
)
"""Billions of parameters, and the difficulty that a model of that size masters four times in five.

A prior, no measurement. Taking GSM8K for maths of difficulty 2 to 3 and MATH level 5 for 5, it is
near what models of 2024 scored in ZeroEval (GSM8K: 2B .53, 8B .77 to .83, 27B .89, 70B .93; MATH
level 5: 2B .05, 8B .08 to .21, 32B .60, 70B .43). Models of one size differ by more than the rows
do, so `skills` in the settings replaces it.
"""

_KIND_OFFSETS = {
    # Small models fall behind most where many steps must all be right, least where the text is
    # already there.
    "math": -0.3,
    "calculation": -0.6,
    "code": -0.2,
    "knowledge": -0.2,
    "reasoning": -0.3,
    "planning": -0.3,
    "rewriting": 0.4,
    "summary": 0.4,
    "extraction": 0.4,
    "chat": 0.4,
}
"""The offset of a kind of task, for models below the frontier."""

UNKNOWN_BILLIONS = {Label.LOCAL: 3.0, Label.LAN: 8.0, Label.CLOUD: 200.0}
"""The size that a model counts as of which only the place is known."""

_FRONTIER_SKILL = 4.0

_STEEPNESS, _EVEN_LOG_ODDS = 1.7, 1.4
"""How fast the chance falls with difficulty, and its odds where skill and difficulty are equal."""

_BYTES_PER_PARAMETER = 0.65
"""Bytes of file per parameter, as most GGUF files are quantised."""

MAX_PEER_SKILL_GAP = 0.75
"""Workers whose skills differ by less are peers: they check each other. Of two that differ by more
the weaker one is just wrong where they disagree."""

_TOOL_KINDS = {
    "calculator": frozenset({"calculation"}),
    "units": frozenset({"calculation"}),
    "clock": frozenset({"calculation"}),
    "python": frozenset({"calculation", "code"}),
}


def skill(card: Card, kind: str) -> float:
    """Return the difficulty, 1 to 5, up to which a worker does tasks of a kind well."""
    if card.is_tool:
        return 5.0 if is_tool_for(card, kind) else 1.0
    for known in (card.skills, card.published):
        if kind in known:
            return min(5.0, max(1.0, known[kind]))
    return _with_kind_offset(general_skill(card), kind)


def skill_by_size(size: float, kind: str) -> float:
    """Return the same for a model of which only its billions of parameters are known."""
    return _with_kind_offset(_interpolated_skill(size), kind)


def _with_kind_offset(base: float, kind: str) -> float:
    lean = _KIND_OFFSETS.get(kind, 0.0) if base < _FRONTIER_SKILL else 0.0
    return min(5.0, max(1.0, base + lean))


def chance_at(level: float, difficulty: float) -> float:
    """Return the chance that a worker of a level does a task of a difficulty well, 0 to 1."""
    return 1 / (1 + math.exp(-(_STEEPNESS * (level - difficulty) + _EVEN_LOG_ODDS)))


def level_at(likely: float, difficulty: float) -> float:
    """Return the level at which the chance of success at a difficulty is `likely`."""
    likely = min(1 - 1e-6, max(1e-6, likely))
    return difficulty + (math.log(likely / (1 - likely)) - _EVEN_LOG_ODDS) / _STEEPNESS


def is_tool_for(card: Card, kind: str) -> bool:
    """Whether a tool is for tasks of a kind."""
    return kind in _TOOL_KINDS.get(card.id, frozenset())


def parameter_billions(card: Card) -> float:
    """Return about how many billions of parameters a model has; 0 if unknown."""
    if card.parameters:
        return card.parameters / 1e9
    for name in (card.model, card.id, card.name):
        if size := parse_model_name(name).billions:
            return size
    return card.size / _BYTES_PER_PARAMETER / 1e9 if card.kind == "local" else 0.0


def billions_by_price(dollars: float) -> float:
    """Return the size that a model counts as whose million tokens of answer cost so much.

    The weights in models/router/heads.json were fitted to this curve (scripts/train_router).
    """
    return 25.0 * math.pow(min(dollars, 200.0), 0.75)


def general_skill(card: Card) -> float:
    """Return the skill of a worker apart from any kind of task, 1 to 5: by its size or price."""
    size = parameter_billions(card)
    if not size and card.price is not None and not card.price.is_free:
        size = billions_by_price(card.price.dearest_output / 10**9)
    return _interpolated_skill(size or UNKNOWN_BILLIONS[card.place])


def strength(card: Card) -> tuple[float, int, int]:
    """Order the workers on this machine by what they can be expected to do: by size, where known.

    Of a model behind another program only the name says it.
    """
    return general_skill(card), card.parameters, card.size


def stronger(mine: Card, roster: Iterable[Card], label: Label, terms: RunTerms) -> Card | None:
    """Return the worker to ask when this one's answer won't do, or None.

    What is free and near comes first: the strongest on this machine, unless it is a mere peer; then
    the helpers in the order in which the user listed them; then any stronger one on this machine.
    """
    if not mine.is_local:
        return None
    others = [card for card in roster if card.id != mine.id and not card.is_tool]
    others = [card for card in others if may_use(card, label, terms)]
    here = [card for card in others if card.is_local and strength(card) > strength(mine)]
    best = max(here, key=strength, default=None)
    if best is not None and strength(best)[0] - strength(mine)[0] >= MAX_PEER_SKILL_GAP:
        return best
    return next((card for card in others if not card.is_local), best)


def _interpolated_skill(size: float) -> float:
    """Interpolate the table on a logarithmic scale."""
    first, last = _SKILL_BY_BILLIONS[0], _SKILL_BY_BILLIONS[-1]
    if size <= first[0]:
        return first[1]
    for (low, below), (high, above) in pairwise(_SKILL_BY_BILLIONS):
        if size <= high:
            part = math.log(size / low) / math.log(high / low)
            return below + part * (above - below)
    return last[1]
