"""Plans run by stub workers, over real history and real money.

async with open_orchestra(StubWorker(SMALL, respond), StubWorker(FAR, respond)) as session:
    view = await session.run(Plan(...))
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from baton.core import events as ev
from baton.core.errors import WorkerUnavailable
from baton.core.history_types import RunRecord
from baton.core.labels import Label
from baton.core.ledger_types import Scope
from baton.core.messages import (
    Card,
    Chunk,
    Finish,
    Prompt,
    Request,
    RequestSent,
    Text,
    TurnStatus,
    Usage,
)
from baton.core.money import NANO, Price, Rates
from baton.core.permissions import ANYTHING, PromptLimits, RunTerms
from baton.core.plan_types import Plan, Step
from baton.core.ports import NEW, ConversationPosition, Question, Redactor, Strategy
from baton.core.run.orchestra import Orchestra
from baton.core.run.run import Run
from baton.core.run.run_context import Services
from baton.core.view import RunView
from baton.history import Store
from baton.money import Ledger

PATIENCE = 60
"""Seconds after which a test that hangs is taken for failed."""

DOWN = WorkerUnavailable("It is down.", "Wait.")

PRICE = Price(Rates(NANO, 2 * NANO, NANO, NANO))
"""$1 and $2 per million tokens."""


def local(name: str = "small", slots: int = 1, context: int = 0) -> Card:
    return Card(name, "local", name.title(), context=context, slots=slots)


def cloud(name: str = "far", slots: int = 4, price: Price | None = PRICE) -> Card:
    return Card(
        name,
        "cloud",
        name.title(),
        privacy=Label.CLOUD,
        price=price,
        provider="openai",
        model=f"openai/{name}",
        remote=True,
        slots=slots,
    )


Responder = Callable[[Request], AsyncGenerator[Chunk]]


async def echo_prompt(request: Request) -> AsyncGenerator[Chunk]:
    """Answer with the last line that was read."""
    yield Text(request.messages[-1].text.splitlines()[-1])


def answer_with(*texts: str) -> Responder:
    """Answer with the same texts each time."""

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        for text in texts:
            yield Text(text)

    return respond


def fail_with(error: Exception, *texts: str) -> Responder:
    """Fail each time, after some text."""

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        for text in texts:
            yield Text(text)
        raise error

    return respond


def hang_at(word: str) -> Responder:
    """Wait for ever once a word is read; echo what doesn't hold it."""

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if word in request_text(request):
            await asyncio.Event().wait()
        async for chunk in echo_prompt(request):
            yield chunk

    return respond


def step(worker: str, text: str, *access: str, optional: bool = False) -> Step:
    """Return a step that sees what is named; the prompt, if nothing is."""
    return Step(worker, text, access or ("prompt",), optional=optional)


def side_by_side(count: int, worker: str) -> Plan:
    """Return a plan of so many steps that don't see each other, all of them the answer."""
    steps = tuple(step(worker, f"Part {n}.") for n in range(1, count + 1))
    return Plan(steps, tuple(range(1, count + 1)))


def statuses(view: RunView) -> list[str]:
    return [step.status for step in view.steps]


def request_text(request: Request) -> str:
    """Return all that a request shows."""
    return "\n".join(message.text for message in request.messages)


class StubWorker:
    """A worker that answers with `respond`, and keeps the requests it received."""

    def __init__(self, card: Card, respond: Responder = echo_prompt) -> None:
        self.card = card
        self.respond = respond
        self.requests: list[Request] = []
        self.running = 0
        self.most_at_once = 0

    def warm(self) -> None:
        """Nothing takes long here."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        self.requests.append(request)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        ended, written = False, 0
        try:
            if self.card.uses_gateway:
                yield RequestSent("cloud.example", 9)
            async with aclosing(self.respond(request)) as chunks:
                async for chunk in chunks:
                    ended, written = isinstance(chunk, Usage), written + isinstance(chunk, Text)
                    yield chunk
            if not ended:
                yield Usage(10, written, Finish.STOP)
        finally:
            self.running -= 1

    async def aclose(self) -> None:
        """Nothing is held."""


@dataclass
class Person:
    """Answers each question with the next choice (the last one again and again)."""

    choices: list[str] = field(default_factory=lambda: ["keep"])
    asked: list[Question] = field(default_factory=list)
    being_asked: int = 0

    async def __call__(self, question: Question) -> str:
        assert not self.being_asked, "two questions at once"
        self.being_asked += 1
        try:
            self.asked.append(question)
            await asyncio.sleep(0)
            return self.choices.pop(0) if len(self.choices) > 1 else self.choices[0]
        finally:
            self.being_asked -= 1


class ScriptedOrchestra(Orchestra):
    """An orchestra that knows one strategy more: the one it was `given`."""

    given: Strategy | None = None

    def _strategy(self, name: str) -> Strategy:
        return self.given if self.given is not None else super()._strategy(name)


def view_of(events: list[ev.Event]) -> RunView:
    return reduce(RunView.apply, events, RunView())


@dataclass
class OrchestraSession:
    """An orchestra of stub workers; `events` are those of the run run last."""

    orchestra: ScriptedOrchestra
    store: Store
    ledger: Ledger
    person: Person
    workers: dict[str, StubWorker]
    events: list[ev.Event] = field(default_factory=list)

    def begin(
        self,
        plan: Plan | None,
        text: str = "The prompt",
        limits: PromptLimits = ANYTHING,
        place: ConversationPosition = NEW,
        prompt: Prompt | None = None,
    ) -> Run:
        return self.orchestra.run(prompt or Prompt(text), place, limits, self.person, plan=plan)

    async def execute(
        self,
        plan: Plan | None,
        text: str = "The prompt",
        limits: PromptLimits = ANYTHING,
        place: ConversationPosition = NEW,
        prompt: Prompt | None = None,
    ) -> RunView:
        return await self.watch(self.begin(plan, text, limits, place, prompt))

    async def watch(self, run: Run, until: Callable[[ev.Event], bool] | None = None) -> RunView:
        """Follow a run to its end, or cancel it after some event."""
        self.events = []
        async with asyncio.timeout(PATIENCE), run:
            async for event in run:
                self.events.append(event)
                if until is not None and until(event):
                    run.cancel()
        return view_of(self.events)

    async def record(self) -> RunRecord:
        """Return the newest run as it is on disk."""
        kept = await self.store.runs.last()
        assert kept is not None
        return kept

    async def answer(self) -> tuple[str, TurnStatus]:
        """Return the newest run's answer as it is on disk."""
        kept = await self.record()
        last = (await self.store.thread(kept.conversation, kept.answer))[-1]
        return last.text, last.status

    async def held(self) -> int:
        standing = await self.ledger.standing(self.orchestra.terms.ceilings)
        return sum(room.held for room in standing.rooms)

    async def spent(self) -> int:
        standing = await self.ledger.standing(self.orchestra.terms.ceilings)
        return next(room.used for room in standing.rooms if room.scope is Scope.DAY)


@asynccontextmanager
async def open_orchestra(
    *workers: StubWorker,
    choice: str | list[str] = "keep",
    ceiling: int = NANO,
    strategy: Strategy | None = None,
    home: Path | None = None,
    redactor: Redactor | None = None,
    **terms: object,
) -> AsyncIterator[OrchestraSession]:
    """Open an orchestra of these workers, the first of which is the default worker.

    Without a `home` its history and its ledger are kept in memory.
    """
    store = Store(home / "baton.db" if home else None)
    ledger = Ledger(home / "ledger.db" if home else None)
    given: dict[str, object] = {"ceilings": {Scope.DAY: ceiling}, **terms}
    names = {worker.card.id: worker for worker in workers}
    orchestra = ScriptedOrchestra(
        Services(names, store, ledger=ledger, redactor=redactor),
        workers[0].card.id,
        RunTerms(**given),  # type: ignore[arg-type]
    )
    orchestra.given = strategy
    person = Person([choice] if isinstance(choice, str) else choice)
    try:
        yield OrchestraSession(orchestra, store, ledger, person, names)
    finally:
        await orchestra.aclose()
        await ledger.aclose()
        await store.aclose()
