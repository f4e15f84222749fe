"""What a run is given, and what all of its parts share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field

from baton.core.errors import ContextTooLong, StoreError
from baton.core.events import (
    Event,
    Phase,
    Progress,
    Sent,
    StepRetried,
    Trimmed,
    Unsent,
    Weighed,
)
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.ledger_types import NO_LEDGER, Policy, Standing
from baton.core.messages import (
    Card,
    Chunk,
    Declined,
    Loading,
    Prompt,
    Queued,
    Reading,
    RequestSent,
    Retrying,
    Thinking,
    Turn,
    Writing,
    count_turns_to_drop,
    estimated_tokens,
    text_with_files,
)
from baton.core.permissions import PromptLimits, RunTerms, must_ask
from baton.core.plan_types import Material, Outcome
from baton.core.planning.request_parts import TrainedConductor
from baton.core.planning.skill_table import SkillTable
from baton.core.planning.token_estimates import likely_cost
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
    SpendingRoom,
    Store,
    Strategy,
    Templates,
    Worker,
)
from baton.core.run.approval import Approval
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
from baton.core.run.rule_router import RuleRouter
from baton.core.spending.pace_controller import Pacing, is_spending_allowed, valid_gain


class WorkerSlots:
    """How many requests each worker takes at once, over all runs: one semaphore per worker."""

    def __init__(self) -> None:
        self._free: dict[str, asyncio.Semaphore] = {}

    def of(self, card: Card) -> asyncio.Semaphore:
        """Return what to enter (`async with`) while a worker is used."""
        return self._free.setdefault(card.id, asyncio.Semaphore(max(1, card.slots)))


StoreRest = Callable[[], Awaitable[None]]

FLUSH_SECONDS = 0.15
"""How long streamed text may stay in memory alone; with the write itself it stays below 250 ms."""


class AnswerSaver:
    """Saves the answers of all current runs, those of one store in one transaction.

    A transaction costs about a millisecond of processor time however little is in it: with 16
    runs at once that each saved their own, they took as long as all else of `baton serve`.
    """

    def __init__(self) -> None:
        self._texts: dict[str, tuple[Store, Callable[[], str], StoreRest]] = {}
        self._saved: dict[str, str] = {}
        self._saving: asyncio.Task[None] | None = None

    def add(self, store: Store, answer: str, text: Callable[[], str], rest: StoreRest) -> None:
        """Save what `text` returns, whenever it has changed, as the text of an answer.

        `rest` stores what there is of its run besides.
        """
        self._texts[answer] = store, text, rest
        self._saved[answer] = ""
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._keep_saving())

    def remove(self, answer: str) -> None:
        """Save an answer no more; what is written to the store from now on stands."""
        self._texts.pop(answer, None)
        self._saved.pop(answer, None)
        if not self._texts and self._saving is not None:
            self._saving.cancel()
            self._saving = None

    async def _keep_saving(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            for _, _, store_rest in [*self._texts.values()]:
                with contextlib.suppress(StoreError):
                    await store_rest()
            for store, texts in self._changed_texts().items():
                # A disk that is full now may have room in a moment; the end says if it hasn't.
                with contextlib.suppress(StoreError):
                    await store.save_progress(texts)
                    self._saved |= {n: text for n, text in texts.items() if n in self._texts}

    def _changed_texts(self) -> dict[Store, dict[str, str]]:
        found: dict[Store, dict[str, str]] = {}
        for answer, (store, text, _) in self._texts.items():
            if (now := text()) != self._saved[answer]:
                found.setdefault(store, {})[answer] = now
        return found


@frozen_dataclass
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
    templates: Templates = dict
    pacer: Pacing = field(default_factory=Pacing)
    skills: SkillTable = field(default_factory=SkillTable)
    trained: TrainedConductor | None = None
    conductor: str = ""
    prefer: Mapping[str, str] = field(default_factory=dict)
    slots: WorkerSlots = field(default_factory=WorkerSlots)
    saver: AnswerSaver = field(default_factory=AnswerSaver)


@frozen_dataclass
class RunRequest:
    """What is to be run: a prompt, where it goes, within which bounds, and who decides how.

    `worker` answers unless a plan says otherwise. `strategy` has a `name`; None runs what is
    given. `kept` is a plan to begin with, and what is known of its
    steps already. Where the worker `is_open`, the user named none: it may be another that they
    prefer for what the prompt asks. `root` is the first of the runs that this one continues, or
    ""; `is_budget_inherited` is whether an earlier one's ceiling is in force.
    """

    prompt: Prompt
    position: ConversationPosition
    limits: PromptLimits
    terms: RunTerms
    worker: str
    name: str
    strategy: Strategy | None
    kept: Outcome | None = None
    is_open: bool = False
    root: str = ""
    is_budget_inherited: bool = False


class RunConversation:
    """The turns that a run's workers are shown, fewer once the user lets it be trimmed."""

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
        """Leave the oldest turns out, if the user wants that; return whether it was done."""
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


_NO_BALANCES = Standing(())
_FREE_REASON = "It costs nothing."
_NO_GAIN_REASON = "It costs nothing, but is not likelier to be right."
_ASKED_NOTE = " You are asked first."
_NEVER_REASON = "the policy is never."
_UNATTENDED_REASON = "you can't be asked."


@frozen_dataclass
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
        """Whether the user named that worker: for answers, or for plans (step 0)."""
        is_conductor = step == 0 and worker == self.services.conductor
        return is_conductor or worker == self.request.worker

    async def spending_room(self) -> SpendingRoom:
        """Return what the run may still spend."""
        standing = await self._standing()
        rooms = [room for room in standing.rooms if room.left is not None]
        if not is_spending_allowed(standing) or any(room.ceiling == 0 for room in rooms):
            return SpendingRoom(0, 1.0)
        extra = await self.services.pacer.extra(standing, self.budget.session)
        return SpendingRoom(min((room.left or 0 for room in rooms), default=None), extra)

    async def weigh_help(self, card: Card, gain: float, *, plain: bool = False) -> Weighed:
        """Decide whether the expected gain of asking a worker is worth its price.

        Where it is `plain` that what there is won't do, pace only decides where no person is asked
        and there is enough money: else the offer shows the user what help costs, or what prevents
        it.
        """
        gain = valid_gain(gain)
        if card.price is not None and card.price.is_free:
            return Weighed(
                card.id, gain, 0.0, 0, gain > 0, _FREE_REASON if gain > 0 else _NO_GAIN_REASON
            )
        cost = likely_cost(card, self.conversation.material, self.routing.route)
        standing, policy = await self._standing(), self.approval.policy
        pace = await self.services.pacer.weigh(gain, cost, standing, self.budget.session)
        permission = must_ask(policy, self.budget.limits)
        ok = pace.ok
        if plain and not ok:
            rooms = (room.left for room in standing.rooms if room.left is not None)
            ok = permission is not False or min(rooms, default=cost) < cost
        why = pace.why
        if permission is None:
            reason = _NEVER_REASON if policy is Policy.NEVER else _UNATTENDED_REASON
            why = f"{why.rstrip('.')}: {reason}"
        elif permission and ok:
            why += _ASKED_NOTE
        return Weighed(card.id, gain, pace.bar, cost, ok, why)

    async def _standing(self) -> Standing:
        """Return the balances, with the ceiling of this prompt, which resumed runs share.

        It is empty where the ledger can't be read, or where there is no person to ask.
        """
        budget = self.budget
        if must_ask(self.approval.policy, budget.limits) is None:
            return _NO_BALANCES
        first = None if budget.limits.budget is None else budget.root or budget.run
        try:
            return await budget.ledger.standing(
                budget.ceilings, budget.session, first, budget.limits.client
            )
        except StoreError:
            return _NO_BALANCES


def chunk_event(step: int, worker: str, chunk: Chunk) -> Event | None:
    """Return the event that a chunk of a step's worker makes (0: of no step), None for text.

    What a worker declined once it was sent, its error says.
    """
    match chunk:
        case RequestSent(destination=destination, size=size):
            return Sent(step, worker, destination, size)
        case Declined(unsent=True, destination=destination):
            return Unsent(step, worker, destination)
        case Retrying(reason=reason, delay=delay):
            return StepRetried(step, reason, delay)
        case Queued():
            return Progress(step, Phase.QUEUED, None)
        case Loading(fraction=fraction):
            return Progress(step, Phase.LOADING, fraction)
        case Reading(done=done, total=total):
            return Progress(step, Phase.READING, done / total if total else None)
        case Thinking(tokens_per_second=speed):
            return Progress(step, Phase.THINKING, None, speed)
        case Writing(tokens_per_second=speed):
            return Progress(step, Phase.WRITING, None, speed)
    return None
