"""A small context at which strategies are run without workers, money or models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from baton.core.errors import BatonError, WorkerError
from baton.core.events import Checked, Verdict
from baton.core.judging.draft_scoring import judge_by_rule, word_likeness, written_drafts
from baton.core.labels import Label
from baton.core.messages import (
    AnswerFormat,
    Attachment,
    Card,
    Message,
    Purpose,
    Role,
    Turn,
    TurnStatus,
)
from baton.core.money import Price, Rates
from baton.core.plan_types import Material, Need, Outcome, Plan, Step
from baton.core.planning.assignment import assign_workers
from baton.core.planning.turn_roles import scores_by_rule
from baton.core.ports import Proposal, Route, RoutingContext, SpendingRoom, Strategy
from baton.core.routing_types import Estimate, Judgement
from baton.core.strategies import make_strategy
from baton.workers.template_files import read_templates

BILLION = 1_000_000_000
TINY = Card("tiny", "local", "Tiny", context=8192, parameters=135_000_000)
LLAMA = Card("llama", "local", "Llama", context=8192, parameters=8 * BILLION)
GEMMA = Card("gemma", "local", "Gemma", context=8192, parameters=9 * BILLION)
BIG = Card("big", "local", "Big", context=32_768, parameters=70 * BILLION)
PRICE = Price(Rates(3 * 10**9, 15 * 10**9, 0, 0))
CLOUD = Card(
    "gpt", "cloud", "GPT", privacy=Label.CLOUD, price=PRICE, remote=True, context=128_000, slots=4
)
SERVER = Card("lab", "server", "Lab", Label.LAN, context=32_768, model="qwen2.5:32b")
TOOL = Card("calculator", "tool", "Calculator")

SUM = "How many apples are 3 and 4 apples?"
TALE = "Tell me a tale."
CHAT = Need()
MATH = Need("math", 3)
RICH = SpendingRoom(None, 0.0)
NOTHING = Outcome(Plan((Step("", "x"),), (1,)))


def routing_context(
    *cards: Card,
    prompt: str = TALE,
    need: Need = CHAT,
    files: Sequence[str] = (),
    **more: Any,
) -> RoutingContext:
    attached = tuple(Attachment(name, "word " * 50, 250) for name in files)
    turn = Turn(
        "t", "c", None, Role.USER, prompt, TurnStatus.DONE, Label.CLOUD, 0.0, files=attached
    )
    remote = [card.id for card in cards if not card.is_local]
    helper = remote[0] if remote and cards[0].is_local else ""
    facts: dict[str, Any] = {
        "route": Route("local", "Because.", need),
        "templates": read_templates,
    } | more
    return RoutingContext(Material((turn,)), cards[0].id, helper, cards, **facts)


def expects(
    quality: Mapping[str, float],
    *,
    need: Need = MATH,
    novelty: float = 0.1,
    tokens: int = 100,
    nearby: Mapping[str, float] | None = None,
) -> Route:
    """Return a route with an estimate; gains are over the first that is named."""
    first = next(iter(quality.values()))
    gain = {name: value - first for name, value in quality.items()}
    kinds = {need.kind: 1.0}
    estimate = Estimate(kinds, dict(quality), gain, dict(nearby or {}), tokens, novelty)
    return Route("local", "Because.", need, estimate=estimate)


Say = Callable[[int, Step], "str | BatonError"]
"""What comes of a step: its text, or why it failed."""


@dataclass
class ScriptedContext:
    """Where a strategy is run without workers (core.ports.StrategyContext)."""

    routing: RoutingContext
    money: SpendingRoom = RICH
    answers: list[str | BatonError] = field(default_factory=list)
    wrong: Mapping[int, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    weighed: list[str] = field(default_factory=list)
    parts: Plan | None = None
    scores: Callable[..., Sequence[Sequence[float]]] = field(
        default=lambda _, workers: scores_by_rule(workers)
    )

    async def funds(self) -> SpendingRoom:
        return self.money

    async def ask(
        self,
        worker: str,
        messages: Sequence[Message],
        purpose: Purpose,
        shape: AnswerFormat | None = None,
        max_tokens: int | None = None,
        *,
        why: str,
    ) -> str:
        self.asked.append(worker)
        answer = self.answers.pop(0) if self.answers else WorkerError("It has nothing to say.")
        if isinstance(answer, BatonError):
            raise answer
        return answer

    async def split(self) -> Plan | None:
        return self.parts

    async def check(self, outcome: Outcome, step: int) -> tuple[Checked, ...]:
        verdict = Verdict.WRONG if step in self.wrong else Verdict.UNCHECKED
        return (Checked(step, "sums", verdict, self.wrong.get(step, "")),)

    async def judge(self, outcome: Outcome, steps: Sequence[int]) -> Judgement:
        authors = {n: outcome.plan.steps[n - 1].worker for n in steps}
        shown = written_drafts(self.routing, outcome, authors, dict.fromkeys(self.wrong, 1))
        return judge_by_rule(self.routing.route, self.routing.roster, shown)

    async def likeness(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return word_likeness(texts)

    async def score_turns(
        self, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> Sequence[Sequence[float]]:
        return self.scores(position, workers)

    async def weigh(self, worker: str, gain: float, *, plain: bool = False) -> bool:
        self.weighed.append(worker)
        price = self.routing.card(worker).price
        if price is not None and price.is_free:
            return gain > 0
        if plain and self.money.left == 0:
            return True  # so that the user hears of it
        return self.money.left != 0 and gain > 0.05 + self.money.extra


@dataclass
class Execution:
    """How it went: all proposals, and the texts there were at the end."""

    proposals: list[Proposal] = field(default_factory=list)
    outcome: Outcome = NOTHING

    @property
    def workers(self) -> list[str]:
        return [step.worker for step in self.outcome.plan.steps]

    @property
    def answer(self) -> tuple[int, ...]:
        return self.outcome.plan.answer

    @property
    def text(self) -> str:
        return "\n\n".join(self.outcome.texts.get(n, "") for n in self.answer)

    @property
    def why(self) -> str:
        return self.proposals[-1].why


MOST_PROPOSALS = 12


async def execute(
    chosen: Strategy | str,
    context: ScriptedContext,
    say: Say,
    *,
    cut: Sequence[int] = (),
    tear: str = "",
) -> Execution:
    """Run a strategy as a run does; with `tear`, steps that fail leave that text behind."""
    executed = Execution()
    way = make_strategy(chosen) if isinstance(chosen, str) else chosen
    texts: dict[int, str] = {}
    failed: dict[int, str] = {}
    steps: tuple[Step, ...] = ()
    proposal: Proposal | None = await way.first(context)
    while proposal is not None:
        assert len(executed.proposals) < MOST_PROPOSALS, "it never ends"
        assert proposal.plan.steps[: len(steps)] == steps, "what was played was changed"
        assert proposal.where in ("local", "plan", "cloud")
        assert proposal.why.strip(), "a person is shown why"
        before = executed.proposals[-1] if executed.proposals else None
        if before is not None and before.final:
            shown = any(texts.get(n, "").strip() for n in before.plan.answer)
            assert not shown, "what was shown for good was taken back"
        left = context.money.left
        roster = context.routing.roster
        plan = assign_workers(
            proposal.plan, roster, left=left, after=len(steps), material=context.routing.material
        )
        executed.proposals.append(proposal)
        sunk = False
        for number in range(len(steps) + 1, len(plan.steps) + 1):
            step = plan.steps[number - 1]
            said = WorkerError("Left out.") if sunk else say(number, step)
            if isinstance(said, str):
                texts[number] = said
                continue
            failed[number] = said.message
            if tear and not sunk:
                texts[number] = tear
            sunk = sunk or not step.optional
        steps = plan.steps
        executed.outcome = Outcome(plan, {n: t for n, t in texts.items() if t}, set(cut), failed)
        proposal = await way.next(context, executed.outcome)
    return executed


def says(*texts: str | BatonError) -> Say:
    return lambda number, step: texts[number - 1]


DOWN: BatonError = WorkerError("It is down.")
