"""The Protocols that core uses, and the values that they exchange."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol, runtime_checkable

from baton.core.events import Checked, Event
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.labels import Label
from baton.core.ledger_types import Hold, HoldRequest, Policy, Scope, Standing
from baton.core.messages import (
    AnswerFormat,
    Card,
    Chunk,
    Message,
    Prompt,
    Purpose,
    Request,
    Turn,
    TurnStatus,
)
from baton.core.money import BilledTokens
from baton.core.permissions import ANYTHING, PromptLimits
from baton.core.plan_types import Material, Need, Outcome, Plan
from baton.core.routing_types import Draft, Estimate, Judgement, TextVector
from baton.core.stream_filters import RedactedTexts


class Worker(Protocol):
    """What can be given a subtask."""

    @property
    def card(self) -> Card:
        """What is known of the worker right now."""
        ...

    def warm(self) -> None:
        """Begin what takes long before a first word, and return at once. Never raises."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer the request: progress and text as they come, then exactly one Usage.

        Closing the generator (or cancelling its consumer) stops the work within 2 s. A worker
        behind the gateway yields RequestSent before each request, and makes one at most that can
        cost anything. Raises ModelFileError, SecretMissing, WorkerUnavailable, ContextTooLong
        (before any text) or WorkerError.
        """
        ...

    async def aclose(self) -> None:
        """Let go of processes and memory. The worker may be used again."""
        ...


@runtime_checkable
class ResidentWorker(Protocol):
    """A worker whose model takes memory of this machine: `resident` bytes now.

    `process` is the same for workers that share a model, None while none runs.
    """

    @property
    def resident(self) -> int: ...

    @property
    def process(self) -> int | None: ...


@runtime_checkable
class CountingWorker(Protocol):
    """A worker that counts a request's tokens without answering it."""

    async def count(self, request: Request) -> int | None:
        """Return how many tokens its prompt has; None where that isn't known now."""
        ...


@runtime_checkable
class ClaimJudge(Protocol):
    """A worker that judges claimed sums, such as "17 + 25 = 42"."""

    async def judge_claims(self, claims: Sequence[str]) -> Sequence[str]:
        """Return for each "Yes: LEFT = VALUE", "No: LEFT = VALUE" or "Unreadable"."""
        ...


@runtime_checkable
class CheckableWorker(Protocol):
    """A worker that needs more than Baton itself: a key, a program that runs."""

    async def fault(self) -> str:
        """Return in a sentence why it can't work now, "" if it may. Quick; sends nothing."""
        ...


@runtime_checkable
class AdaptedWorker(Protocol):
    """A worker that may put a LoRA adapter on its model."""

    @property
    def adapter(self) -> Path | None: ...


@frozen_dataclass
class ConversationPosition:
    """Where in the tree of turns a prompt goes.

    `conversation` None is a new one. `after` None is the conversation's newest turn, "" its very
    beginning. With `again`, the id of a prompt, that prompt is answered once more. `earlier` is
    what was said before it where another program keeps the conversation: by turns of the two.
    `program` is that program's name, `said` stands for all that it sent, the prompt included. `run`
    is the id of the run, "" for any.
    """

    conversation: str | None = None
    after: str | None = None
    again: str | None = None
    earlier: tuple[Message, ...] = ()
    program: str = ""
    said: str = ""
    run: str = ""


NEW = ConversationPosition()
"""A new conversation."""


@frozen_dataclass
class RecordedRun:
    """What the store recorded before anything was called: ids, and what the worker will see.

    `warned` has the hints that were last given in the conversation, by the kind of the warning.
    """

    run: str
    conversation: str
    prompt: str
    answer: str
    label: Label
    system: str | None
    turns: tuple[Turn, ...]
    policy: Policy | None = None
    warned: Mapping[str, str] = field(default_factory=dict)


class Store(Protocol):
    """Keeps what happened. Every method returns only when its change is on disk."""

    async def begin(
        self, prompt: Prompt, place: ConversationPosition, label: Label, client: str = ""
    ) -> RecordedRun:
        """Record a prompt, its run and its empty answer; the conversation too, if it is new.

        `client` is the id of the access token that it came with, or "".
        """
        ...

    async def append(self, run: str, *events: Event) -> None:
        """Record events of a run; a terminal one ends the run's row as well."""
        ...

    async def write(self, turn: str, text: str, status: TurnStatus, worker: str = "") -> None:
        """Record an answer's text as far as it is."""
        ...

    async def save_progress(self, texts: Mapping[str, str]) -> None:
        """Record the texts so far of answers that are being written, but for those gone by now."""
        ...

    async def add_draft(self, answer: str, text: str, worker: str) -> None:
        """Record the draft that an answer replaced, as the version before it."""
        ...

    async def trim(self, conversation: str, first: str) -> None:
        """From now on send only the turns from `first` on; the earlier ones stay in history."""
        ...

    async def allow(self, conversation: str, policy: Policy | None) -> None:
        """Record when a conversation may spend from now on (None: as the settings say)."""
        ...


class Ledger(Protocol):
    """Keeps money under its ceilings, for every Baton on this machine at once.

    Every method returns only when its change is on disk. Raises StoreError when that fails.
    """

    async def hold(self, bill: HoldRequest) -> Hold:
        """Set the most a call can cost aside, before anything is sent. Raises BudgetExceeded."""
        ...

    async def hold_in_turn(self, bill: HoldRequest, ticket: int = 0) -> Hold | int:
        """Set money aside, or return the ticket with which the call waits for other runs' money.

        Ask again with it, now and then, until the money is held or `leave_queue` is called. Raises
        BudgetExceeded.
        """
        ...

    async def leave_queue(self, ticket: int) -> None:
        """Wait no more with a ticket."""
        ...

    async def quote(self, bill: HoldRequest) -> Hold:
        """Return what `hold` would set aside now, and set nothing aside. Raises BudgetExceeded.

        What other runs hold counts as there where the call may wait for it.
        """
        ...

    async def settle(self, call: str, used: BilledTokens) -> int:
        """Charge what the provider counted at a genuine end; return that cost.

        More than was held is charged too, and freezes the cloud.
        """
        ...

    async def leave(self, call: str, most: BilledTokens | None = None) -> int:
        """Charge what the call costs at most, or all that was held; unconfirmed. Return it.

        More than was held freezes the cloud.
        """
        ...

    async def void(self, call: str) -> None:
        """Give back what was held: nothing was sent, or it was refused at no cost."""
        ...

    async def standing(
        self,
        ceilings: Mapping[Scope, int],
        session: str | None = None,
        run: str | None = None,
        client: str = "",
    ) -> Standing:
        """Return how the scopes stand now, under this process's ceilings or newer ones.

        `run` is the first of the runs that continue each other, and share one ceiling; `client`
        is the access token that it came with, or "".
        """
        ...


@frozen_dataclass
class Route:
    """What a router says of a prompt, before anything is called.

    `where` is local, plan or cloud, `why` a sentence for the user, `need` what the prompt asks
    for. `tool` is the id of a tool that answers it alone, `template` the name of a workflow that
    suits it; either may be "". `estimate` is what is expected of each model, where that was
    predicted; `scores` are its figures, to be shown. `decided_by` is tool, router, rule or late
    (events.Routed).
    """

    where: str
    why: str
    need: Need = field(default_factory=Need)
    tool: str = ""
    template: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    estimate: Estimate | None = None
    decided_by: str = "rule"


class Router(Protocol):
    """Decides in a few milliseconds where a prompt goes; asks no language model. Never raises."""

    def warm(self) -> None:
        """Begin what takes long before a first route, and return at once."""
        ...

    async def route(self, material: Material, roster: Sequence[Card]) -> Route:
        """Return the route of the newest prompt; the first card is the default worker's."""
        ...

    async def judge(
        self, material: Material, route: Route, roster: Sequence[Card], drafts: Sequence[Draft]
    ) -> Judgement:
        """Return what is expected now that there are drafts, in the order of the drafts."""
        ...

    async def likeness(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return how alike each two texts are in meaning, from 0 to 1."""
        ...

    async def score_turns(
        self, text: str, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> Sequence[Sequence[float]]:
        """Return a row for each role of core.planning.turn_roles: a score for each worker in it.

        `position` and `workers` are what that module's figures say of them.
        """
        ...

    async def aclose(self) -> None:
        """Let go of processes and memory. The router may be used again."""
        ...


@runtime_checkable
class TextEncoder(Protocol):
    """A router whose encoder can be used by itself. `trouble` is why it can't be now, or ""."""

    @property
    def trouble(self) -> str: ...

    async def embed(self, text: str) -> TextVector:
        """Return the vector of a whole text. Raises WorkerUnavailable."""
        ...


class Template(Protocol):
    """A workflow drawn by hand."""

    @property
    def about(self) -> str:
        """What it is for, in a sentence."""
        ...

    def plan(self, material: Material, roster: Sequence[Card], need: Need | None = None) -> Plan:
        """Return its plan for a prompt that asks for `need`; steps' workers may be "".

        Raises PlanError.
        """
        ...


Templates = Callable[[], Mapping[str, Template]]
"""Reads all templates, by name: only when one is wanted."""


@frozen_dataclass
class RoutingContext:
    """What a strategy knows before anything is called.

    `worker` answers unless a plan says otherwise. When that won't do, `near` is asked first, which
    is better, on this machine too, and free; then `helper`, which the user is asked about where
    it costs something or may be remote. Either may be "". `roster` are the cards of all that may be
    used for this prompt, `worker`'s first: one that may not see it, has no price or can't work now
    isn't there. `conductor` was named by the user to draw
    plans (or ""; model_roles.RULE_CONDUCTOR: no model may). `mode` is auto, local, mini or ultra,
    `limits` what the user allows. `prefer` names the worker for tasks of a kind; `choice` says in
    a sentence that `worker` answers for that reason (or "").
    """

    material: Material
    worker: str
    helper: str
    roster: tuple[Card, ...]
    route: Route
    limits: PromptLimits = ANYTHING
    mode: str = "auto"
    conductor: str = ""
    templates: Templates = dict
    prefer: Mapping[str, str] = field(default_factory=dict)
    choice: str = ""
    near: str = ""

    def card(self, worker: str) -> Card:
        """Return the card of a worker in the roster. Raises LookupError."""
        return {card.id: card for card in self.roster}[worker]


@frozen_dataclass
class SpendingRoom:
    """What may still be spent: `left` in nano-dollars (None: no limit) of the scope with the least.

    0 is left where the cloud is off. `extra` is how much more a call must gain now than if there
    were money for all.
    """

    left: int | None
    extra: float


class PlanningContext(Protocol):
    """What a conductor has at hand to draw a plan."""

    @property
    def routing(self) -> RoutingContext:
        """What was known before anything was called."""
        ...

    async def funds(self) -> SpendingRoom:
        """Return what may be spent now."""
        ...

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
        """Return what a worker says apart from any step (a plan, a verdict).

        Metered like every call; where it would leave this machine, the user is asked first, and
        `why` says in a sentence what for.
        Raises BudgetExceeded where that isn't allowed, and what the worker raises.
        """
        ...


class StrategyContext(PlanningContext, Protocol):
    """What a strategy has at hand during a run."""

    async def split(self) -> Plan | None:
        """Return the trained conductor's plan for the prompt, None where it has no parts.

        Raises BatonError where the conductor fails.
        """
        ...

    async def check(self, outcome: Outcome, step: int) -> tuple[Checked, ...]:
        """Check a step's text by executing, parsing and recomputing what can be, and record it."""
        ...

    async def judge(self, outcome: Outcome, steps: Sequence[int]) -> Judgement:
        """Return what is expected of the answers that some steps have written, in their order."""
        ...

    async def likeness(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return how alike each two texts are in meaning, from 0 to 1."""
        ...

    async def score_turns(
        self, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> Sequence[Sequence[float]]:
        """Return a row for each role of core.planning.turn_roles: a score for each worker in it."""
        ...

    async def weigh(self, worker: str, gain: float, *, plain: bool = False) -> bool:
        """Return whether asking a worker is worth its price for that gain, and record it.

        A worker that is free is worth any gain above 0; where nothing may be spent, none is. Where
        it is `plain` that what there is won't do, a user who is asked anyway decides, and hears
        of it if less is left than it costs.
        """
        ...


@frozen_dataclass
class Proposal:
    """What is to be run next: a plan that begins with all the steps run so far.

    Where it isn't `final`, the strategy may replace the answer later. The first proposal's `where`
    (local, plan or cloud) and `why` show the user the route; a later one's `why` says what made
    it necessary.
    """

    plan: Plan
    where: str = "local"
    why: str = ""
    final: bool = True


class Strategy(Protocol):
    """Decides what is run: pure but for what it asks of its context."""

    async def first(self, context: StrategyContext) -> Proposal:
        """Return the first plan."""
        ...

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        """Return a grown plan, or None when the plan's answer stands.

        Called when every step that can be run is over, whether it went well or not.
        """
        ...


class Conductor(Protocol):
    """Draws plans."""

    async def plan(self, context: PlanningContext) -> Plan:
        """Return a plan for the prompt; its steps' workers may be "". Raises PlanError."""
        ...

    async def review(self, context: PlanningContext, outcome: Outcome) -> Plan | None:
        """Return None to accept what came out, or a corrective plan.

        Its steps are numbered on from the outcome's, which they may name. Raises PlanError.
        """
        ...


class Redactor(Protocol):
    """Finds what should not leave this machine."""

    def redact(self, texts: Sequence[str]) -> RedactedTexts:
        """Return the texts with placeholders; the same thing always gets the same one."""
        ...


@frozen_dataclass
class Choice:
    """One answer the user may give."""

    id: str
    label: str


@frozen_dataclass
class CallOffer:
    """What would leave this machine: shown to the user before it does.

    `text` and Baton's own `instructions` are exactly what would be sent, already redacted; `hidden`
    says what was taken out. `most` is the most it can cost, `expected` what it likely costs (None:
    not known) and `left` what the tightest `scope` has left, in nano-dollars.
    `draft` is the local answer so far, `keep` what not sending it is called ("": as suits that).
    """

    card: Card
    why: str
    text: str
    hidden: str
    most: int
    left: int | None
    scope: str
    draft: str = ""
    keep: str = ""
    instructions: str = ""
    expected: int | None = None


@frozen_dataclass
class StepPrice:
    """What a step is expected to cost and what it can cost at most, in nano-dollars.

    None: it has no price. Of a step that reads other results it is only about that, since their
    length isn't known yet.
    """

    expected: int | None
    most: int | None


@frozen_dataclass
class Question:
    """Something only the user can decide. `default` is the safe choice, taken without them.

    It is about an `offer` to send something, or about a `plan` before anything of it is called:
    `prices` are those of its steps, `workers` those who could do them, and `price_plan` returns the
    prices of another plan; it raises BatonError where that can't be run.
    """

    text: str
    choices: tuple[Choice, ...]
    default: str
    offer: CallOffer | None = None
    plan: Plan | None = None
    prices: tuple[StepPrice, ...] = ()
    workers: tuple[Card, ...] = ()
    price_plan: Callable[[Plan], Awaitable[tuple[StepPrice, ...]]] | None = None


Ask = Callable[[Question], Awaitable[str]]
"""How a front end puts a question to the user: returns the id of the choice."""


async def take_default(question: Question) -> str:
    """Answer for a user who isn't there."""
    return question.default
