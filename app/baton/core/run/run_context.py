"""What a run is given, and what all of its parts share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from baton.core.events import Event
from baton.core.messages import Prompt
from baton.core.plan.plan import Outcome
from baton.core.plan.request_parts import TrainedConductor
from baton.core.plan.skill_table import SkillTable
from baton.core.ports import (
    Ask,
    ConversationPosition,
    Pacer,
    RecordedRun,
    Router,
    Store,
    Strategy,
    Templates,
    Worker,
)
from baton.core.run.approval import ApprovalGate
from baton.core.run.metered_worker import RunBudget
from baton.core.run.policy import PromptLimits
from baton.core.run.worker_slots import Slots


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is to be played: a prompt, where it goes, within which limits, and who decides how.

    `worker` answers unless a plan says otherwise, `helper` (or "") when that won't do. `strategy`
    has a `name`; None plays what is given. `kept` is a plan to begin with, and what is known of its
    steps already. Where the worker is `open`, the person named none: it may be another that they
    prefer for what the prompt asks.
    """

    prompt: Prompt
    place: ConversationPosition
    limits: PromptLimits
    worker: str
    helper: str
    name: str
    strategy: Strategy | None
    kept: Outcome | None = None
    open: bool = False


@dataclass(frozen=True, slots=True)
class Services:
    """What every run of an orchestra shares."""

    workers: Mapping[str, Worker]
    store: Store
    router: Router
    templates: Templates
    slots: Slots
    pacer: Pacer
    skills: SkillTable
    conductor: str = ""
    prefer: Mapping[str, str] = field(default_factory=dict)
    trained: TrainedConductor | None = None


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a run has once it is recorded. `emit` times an event, keeps it and publishes it."""

    task: RunRequest
    house: Services
    begun: RecordedRun
    purse: RunBudget
    offers: ApprovalGate
    emit: Callable[[Event], Awaitable[None]]
    ask: Ask
