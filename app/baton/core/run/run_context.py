"""What a run is given, and what all of its parts share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from baton.core.errors import ContextTooLong
from baton.core.events import Event, Trimmed
from baton.core.ledger_types import NO_LEDGER
from baton.core.messages import (
    Card,
    Prompt,
    Turn,
    count_turns_to_drop,
    estimated_tokens,
    text_with_files,
)
from baton.core.plan.plan import Material, Outcome
from baton.core.plan.request_parts import TrainedConductor
from baton.core.plan.skill_table import SkillTable
from baton.core.ports import (
    Ask,
    Choice,
    ConversationPosition,
    Ledger,
    Question,
    RecordedRun,
    Redactor,
    Router,
    RoutingContext,
    Store,
    Strategy,
    Templates,
    Worker,
    no_templates,
)
from baton.core.run.approval import Approval
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
from baton.core.run.policy import PromptLimits, RunTerms
from baton.core.run.rule_router import RuleRouter
from baton.core.spending.pace_controller import Pacing


class WorkerSlots:
    """How many requests each worker takes at once, over all runs: one semaphore per worker."""

    def __init__(self) -> None:
        self._free: dict[str, asyncio.Semaphore] = {}

    def of(self, card: Card) -> asyncio.Semaphore:
        """Return what to enter (`async with`) while a worker is used."""
        return self._free.setdefault(card.id, asyncio.Semaphore(max(1, card.slots)))


@dataclass(frozen=True, slots=True)
class Services:
    """What an orchestra is made of, and every run of it shares.

    `conductor` draws plans ("": `trained`, which comes with Baton; model_roles.RULE_CONDUCTOR: no
    model), `prefer` names the worker for tasks of a kind; `pacer` decides whether help pays,
    `skills` says what workers are good at.
    """

    workers: Mapping[str, Worker]
    store: Store
    ledger: Ledger = NO_LEDGER
    redactor: Redactor | None = None
    router: Router = field(default_factory=RuleRouter)
    templates: Templates = no_templates
    pacer: Pacing = field(default_factory=Pacing)
    skills: SkillTable = field(default_factory=SkillTable)
    trained: TrainedConductor | None = None
    conductor: str = ""
    prefer: Mapping[str, str] = field(default_factory=dict)
    slots: WorkerSlots = field(default_factory=WorkerSlots)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is to be played: a prompt, where it goes, within which bounds, and who decides how.

    `worker` answers unless a plan says otherwise, `helper` (or "") when that won't do. `strategy`
    has a `name`; None plays what is given. `kept` is a plan to begin with, and what is known of its
    steps already. Where the worker `is_open`, the person named none: it may be another that they
    prefer for what the prompt asks. `root` is the first of the runs that this one goes on with, or
    ""; `is_budget_inherited` is whether an earlier one's ceiling is in force.
    """

    prompt: Prompt
    position: ConversationPosition
    limits: PromptLimits
    terms: RunTerms
    worker: str
    helper: str
    name: str
    strategy: Strategy | None
    kept: Outcome | None = None
    is_open: bool = False
    root: str = ""
    is_budget_inherited: bool = False


class RunConversation:
    """The turns that a run's workers are shown, fewer once the person lets it be trimmed."""

    def __init__(
        self,
        recorded: RecordedRun,
        store: Store,
        ask: Ask,
        emit: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._id = recorded.conversation
        self._material = Material(recorded.turns)
        self._store = store
        self._ask = ask
        self._emit = emit
        self._lock = asyncio.Lock()

    @property
    def material(self) -> Material:
        """What workers are shown now."""
        return self._material

    async def trim(self, error: ContextTooLong, shown: Material) -> bool:
        """Leave the oldest turns out, if the person wants that; return whether it was done."""
        async with self._lock:
            if self._material is not shown:
                return True  # for another step, which was as long
            return await self._trim(error)

    async def _trim(self, error: ContextTooLong) -> bool:
        turns = self._material.turns
        first = count_turns_to_drop(turns, _room(error, turns))
        if first == 0:
            error.hint = "Shorten the prompt, or attach less."
            return False
        question = Question(
            f"{error.message} Leave out the {first} oldest turns? They stay in your history.",
            (Choice("trim", "Leave them out"), Choice("stop", "Stop here")),
            default="stop",
        )
        if await self._ask(question) != "trim":
            return False
        self._material = Material(turns[first:])
        await self._store.trim(self._id, turns[first].id)
        await self._emit(Trimmed(first))
        return True


def _room(error: ContextTooLong, turns: tuple[Turn, ...]) -> int:
    """Turn the worker's exact count into our estimate's scale, and leave half of it free."""
    estimate = sum(estimated_tokens(text_with_files(turn.text, turn.files)) for turn in turns)
    return estimate * error.limit // (2 * max(error.needed, 1))


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a run has once it is recorded. `emit` times an event, keeps it and publishes it."""

    request: RunRequest
    services: Services
    recorded: RecordedRun
    routing: RoutingContext
    conversation: RunConversation
    budget: RunBudget
    approval: Approval
    emit: Callable[[Event], Awaitable[None]]
    ask: Ask

    def metered(
        self, worker: Worker, step: int = 0, share: Callable[[], int] = lambda: 1
    ) -> MeteredWorker:
        """Return a worker behind the gate, whose calls are recorded as the step's."""

        async def record(usage: CallUsage) -> None:
            await self.emit(usage.event(step))

        return MeteredWorker(worker, self.budget, record, share)

    def is_named(self, worker: str, step: int) -> bool:
        """Whether the person named that worker: for answers, or for plans (step 0)."""
        is_conductor = step == 0 and worker == self.services.conductor
        return is_conductor or worker == self.request.worker
