"""Where a prompt goes, by a rule of its length and its words: no language model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from baton.core.judging.draft_scoring import expected_quality, judge_by_rule, word_likeness
from baton.core.messages import Card, head_and_tail, is_too_long
from baton.core.plan_types import KINDS, Material, Need
from baton.core.planning.assignment import success_difficulty
from baton.core.planning.turn_roles import scores_by_rule
from baton.core.ports import Route
from baton.core.reading.bare_expressions import ABOUT_BATON, can_compute
from baton.core.reading.follow_up import request_text
from baton.core.reading.task_kind import is_greeting, task_difficulty, task_kind
from baton.core.routing_types import Draft, Estimate, Judgement

_GOOD, _MORE = 0.5, 0.2
"""With less chance than this, a worker with that much more is worth a thought."""

_SURE = 1.5
"""A task kind is taken from the estimate where it is so many times as likely as the next one."""

_NOVEL = 0.8
"""Above this an estimate says less of a prompt than the rule does.

Questions of known domains have a novelty of .3 on average, everyday sums and facts one of .7, code,
chat and translations one of .8 to .9; below that the estimate itself leans on means and length.
"""

_NOUNS = {
    "math": "a maths question",
    "calculation": "a sum",
    "code": "a programming task",
    "knowledge": "a question of fact",
    "reasoning": "a question to think through",
    "writing": "something to write",
    "rewriting": "a text to rework",
    "summary": "a summary",
    "extraction": "something to pick out of a text",
    "translation": "a translation",
    "planning": "something to plan",
    "chat": "a plain message",
}
_GRADES = ("", "very easy", "easy", "of middling difficulty", "hard", "very hard")


class RuleRouter:
    """Routes by a rule. Other languages than English are known by their commonest words only."""

    def warm(self) -> None:
        """A rule is always ready."""

    async def route(self, material: Material, roster: Sequence[Card]) -> Route:
        """Return the route of the newest prompt."""
        return tool_alone(material, roster) or routed(material, roster)

    async def judge(
        self, material: Material, route: Route, roster: Sequence[Card], drafts: Sequence[Draft]
    ) -> Judgement:
        """Return what is expected of the drafts by their agreement, their end and their checks."""
        return judge_by_rule(route, roster, drafts)

    async def likeness(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return how many words each two texts share."""
        return word_likeness(texts)

    async def score_turns(
        self, text: str, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> Sequence[Sequence[float]]:
        """Return scores by which the worker that likely does it well works, and no other one."""
        return scores_by_rule(workers)

    async def aclose(self) -> None:
        """A rule holds nothing."""


def tool_alone(material: Material, roster: Sequence[Card]) -> Route | None:
    """Return the route to the tool in the roster that answers this prompt alone, or None."""
    if material.turns[-1].files:
        return None
    there, question = [card.id for card in roster if card.is_tool], material.question
    tool = next((tool for tool in there if can_compute(tool, question)), "")
    if not tool:
        return None
    if tool == ABOUT_BATON:
        return Route(
            "local",
            "Baton answers this about itself.",
            Need("chat", 1),
            tool=tool,
            decided_by="tool",
        )
    return Route(
        "local",
        f"This is a plain sum, conversion or time, which the {tool} tool computes exactly.",
        Need("calculation", 1),
        tool=tool,
        scores={"difficulty": 1.0},
        decided_by="tool",
    )


def routed(material: Material, roster: Sequence[Card], estimate: Estimate | None = None) -> Route:
    """Return the route to models: by the rule, as far as no estimate says it better.

    Where a prompt is like nothing that the estimate knows, only its task kind is taken from that;
    of a greeting not even that, which needs no help, however workers were measured.
    """
    request = request_text(material)
    text = head_and_tail(request)
    known = estimate if estimate is not None and estimate.novelty <= _NOVEL else None
    if known is None and is_greeting(text):
        estimate = None
    kind = task_kind(text, bool(material.files))
    if estimate is not None:
        kind = _likeliest(estimate, kind)
    difficulty = task_difficulty(text, len(request), kind)
    if known is not None:
        difficulty = _as_expected(known, roster, kind, difficulty)
    need = Need(kind, difficulty)
    template = _template(material, roster, need)
    route = Route("local", "", need, template=template, estimate=known)
    likely = expected_quality(roster[0], route) if roster else 0.0
    where, why = _where(route, likely, roster)
    scores = {"difficulty": float(difficulty)}
    if known is None:
        scores["chance"] = likely
    if estimate is not None:
        scores |= figures(estimate, roster)
    decider = "rule" if known is None else "router"
    return replace(
        route, where=where, why=why, scores=scores, estimate=estimate, decided_by=decider
    )


def rerouted(material: Material, roster: Sequence[Card], route: Route) -> Route:
    """Return a route where another worker comes first; its estimate compares with that one now."""
    estimate = route.estimate
    if estimate is not None and roster:
        base = estimate.gain.get(roster[0].id, 0.0)
        gain = {name: max(-1.0, min(1.0, g - base)) for name, g in estimate.gain.items()}
        estimate = replace(estimate, gain=gain)
    return tool_alone(material, roster) or routed(material, roster, estimate)


def figures(estimate: Estimate, roster: Sequence[Card]) -> dict[str, float]:
    """Return the figures of an estimate: the first worker's, and the most another one gains."""
    mine = roster[0].id if roster else ""
    gains = [gain for worker, gain in estimate.gain.items() if worker != mine]
    return {
        "quality": estimate.quality.get(mine, 0.0),
        "gain": max(gains, default=0.0),
        "novelty": estimate.novelty,
        "tokens": float(estimate.tokens),
        "tokens_p99": float(estimate.tokens_p99),
    }


def _likeliest(estimate: Estimate, ruled: str) -> str:
    """Return the task kind that is much likelier than any other, else the rule's."""
    kinds = sorted(KINDS, key=lambda kind: -estimate.kinds.get(kind, 0.0))
    first, second = (estimate.kinds.get(kind, 0.0) for kind in kinds[:2])
    return kinds[0] if first > _SURE * second else ruled


def _as_expected(estimate: Estimate, roster: Sequence[Card], kind: str, ruled: int) -> int:
    """Return a difficulty a step nearer to where workers of their skill do as is expected of them.

    No more than a step: skills and chances are rough, and far apart they would say anything.
    """
    cards = [card for card in roster if card.id in estimate.quality and not card.is_tool]
    cards = [card for card in cards if card.is_local] or cards
    if not cards:
        return ruled
    found = sum(success_difficulty(card, kind, estimate.quality[card.id]) for card in cards) / len(
        cards
    )
    step = max(-1.0, min(1.0, found - ruled))
    return max(1, min(5, round(ruled + (1 - estimate.novelty) * step)))


def _template(material: Material, roster: Sequence[Card], need: Need) -> str:
    """Return the workflow that suits a prompt, or ""."""
    if _too_long(material, roster):
        return "read-long-document"
    if need.kind == "code":
        return "plan-code-test" if need.difficulty >= 4 else ""
    return "draft-verify-revise" if need.difficulty >= 4 else ""


def _too_long(material: Material, roster: Sequence[Card]) -> bool:
    """Whether the files are more than the first worker can hold beside the question."""
    files = {file.name: file for turn in material.turns for file in turn.files}
    texts = [file.text for file in files.values()]
    return bool(texts and roster) and is_too_long(roster[0], texts, material.prompt)


def _where(route: Route, likely: float, roster: Sequence[Card]) -> tuple[str, str]:
    """Return where a prompt goes, and why in a sentence."""
    need, template = route.need, route.template
    grade = f"This looks like {_NOUNS[need.kind]}, {_GRADES[need.difficulty]}"
    if template == "read-long-document":
        return "plan", "The files are longer than your worker can read at once, so it reads pieces."
    if template:
        return "plan", f"{grade}, so the first answer is checked before you get it."
    others = [card for card in roster[1:] if not (card.is_local or card.is_tool)]
    if likely < _GOOD and any(_gain(card, route, likely) > _MORE for card in others):
        return "cloud", f"{grade}, and your local worker {_poor(route, likely)}."
    if roster and roster[0].is_local:
        return "local", f"{grade}, which can stay on this machine."
    return "local", f"{grade}, so one worker is enough."


def _gain(card: Card, route: Route, likely: float) -> float:
    """Return how much likelier a worker answers well than the first one."""
    if route.estimate is not None and card.id in route.estimate.gain:
        return route.estimate.gain[card.id]
    return expected_quality(card, route) - likely


def _poor(route: Route, likely: float) -> str:
    if route.estimate is None:
        return "is not strong at those"
    return f"gets about {max(1, round(10 * likely))} in 10 of those right"
