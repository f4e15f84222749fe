"""Random plans with random failures: every run ends once and leaves nothing behind.

Each scenario follows from its number alone: `RandomScenario(4711)` is the same one every time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from random import Random

import pytest

from baton.core import events as ev
from baton.core.errors import (
    BatonError,
    BudgetExceeded,
    ConfigError,
    ContextTooLong,
    PlanError,
    SecretMissing,
    StoreError,
    WorkerError,
    WorkerUnavailable,
)
from baton.core.labels import Label
from baton.core.ledger_types import Hold, HoldRequest, Policy, Scope, Standing
from baton.core.messages import (
    Attachment,
    Card,
    Chunk,
    Declined,
    Finish,
    Loading,
    Message,
    Prompt,
    Purpose,
    Request,
    Role,
    Text,
    TurnStatus,
    Usage,
    max_input_tokens,
)
from baton.core.money import FREE, NANO
from baton.core.permissions import PromptLimits, RunTerms, may_use
from baton.core.plan_types import DIRECT_SUBTASK, FILE, KINDS, MAX_STEPS, Need, Outcome, Plan, Step
from baton.core.ports import NEW, ConversationPosition, Proposal, Question, StrategyContext
from baton.core.run import step_executor as part
from baton.core.run.run import Run
from baton.core.run.run_context import Services
from baton.core.strategies import STRATEGIES
from baton.core.view import RunView
from baton.history import Store
from baton.money import Ledger
from baton.workers.template_files import read_templates
from support.adversarial_router import Adversary
from support.prompt_injections import plans
from support.scripted_plans import (
    PATIENCE,
    ScriptedOrchestra,
    StubWorker,
    cloud,
    local,
    request_text,
    view_of,
)

FIRST_SEED = 1000
"""A step's number can be read from its request's seed: this and what it adds."""

GAP = "\n".join(f"filler line {n}" for n in range(20))
FILES = {
    "old.txt": ("F1a-lynx", "F1b-lynx"),
    "notes.md": ("F2a-lynx", "F2b-lynx"),
    "a#1/2": ("F3a-lynx", "F3b-lynx"),
}
"""Files, a word at the beginning and at the end of each. The first came with the turn before."""

TEMPLATES = read_templates()

PROMPT, HISTORY = "P-heron", "H-otter"
GONE = "half-of-it"
"""What a worker writes before it fails: no other worker may see it."""

ERRORS: tuple[Callable[[], BatonError], ...] = (
    lambda: WorkerError("It can't."),
    lambda: WorkerUnavailable("It is down.", "Wait."),
    lambda: WorkerUnavailable("It is down.", "Wait."),
    lambda: BudgetExceeded("Its own purse is empty."),
    lambda: SecretMissing("It has no key.", "Give it one."),
)


def attachment(name: str) -> Attachment:
    first, last = FILES[name]
    return Attachment(name, f"{first}\n{GAP}\n{last}", 9)


class FailingLedger(Ledger):
    """A ledger whose disk fails now and then, but never with money on its way."""

    random = Random(0)
    often = 0.0

    def _may_fail(self) -> None:
        if self.random.random() < self.often:
            raise StoreError("The disk of the ledger is full.")

    async def quote(self, bill: HoldRequest) -> Hold:
        self._may_fail()
        return await super().quote(bill)

    async def hold(self, bill: HoldRequest) -> Hold:
        self._may_fail()
        return await super().hold(bill)

    async def standing(
        self,
        ceilings: Mapping[Scope, int],
        session: str | None = None,
        run: str | None = None,
        client: str = "",
    ) -> Standing:
        self._may_fail()
        return await super().standing(ceilings, session, run, client)


class FailingStore(Store):
    """A store whose disk is full after so many events."""

    left = -1

    async def append(self, run: str, *events: ev.Event) -> None:
        if self.left == 0:
            raise StoreError("The disk is full.")
        self.left -= 1
        await super().append(run, *events)


class RandomScenario:
    """Workers, a conversation, a plan, a user and all that goes wrong with them."""

    def __init__(self, number: int) -> None:
        self.random = Random(number)
        self.workers = {card.id: StubWorker(card, self.respond(card)) for card in self.cards()}
        self.plan = self.make_plan()
        chance = self.random.random
        self.label = Label.LOCAL if chance() < 0.15 else Label.CLOUD
        self.terms = self.make_terms()
        self.strategy = self.random.choice([*["", "growing"] * 5, *STRATEGIES, *TEMPLATES])
        self.conductor = self.random.choice(["", *self.workers])
        self.limits = PromptLimits(
            label=self.label,
            seed=FIRST_SEED,
            budget=self.random.choice([None, None, 5_000_000, NANO]),
            attended=chance() < 0.9,
            alone=chance() < 0.05,
            preview=chance() < 0.08,
            strategy=self.strategy,
        )
        self.stops_after = self.random.randrange(60) if chance() < 0.25 else -1
        self.full_after = self.random.randrange(20) if chance() < 0.03 else -1
        self.run: Run | None = None
        self.yes = 0
        self.asking = 0
        self.refuses = chance() < 0.3

    # What there is

    def cards(self) -> list[Card]:
        r = self.random
        local_cards = [local(f"small{n}", r.randint(1, 3)) for n in range(r.randint(1, 3))]
        far = [cloud(f"far{n}", r.randint(1, 4)) for n in range(r.randint(0, 3))]
        lab = replace(cloud("lab", price=FREE), kind="server", privacy=Label.LAN)
        own = replace(lab, id="own", privacy=Label.LOCAL, remote=False)
        dear = cloud("unpriced", price=None)
        tool = Card("calculator", "tool", "Calculator")
        some = replace(local_cards[0], id="strong", parameters=r.choice([7, 70]) * 10**9)
        cards = local_cards + far + [c for c in (lab, own, dear, tool, some) if r.random() < 0.3]
        first, rest = cards[0], cards[1:]
        r.shuffle(rest)
        if r.random() < 0.1 and far:  # the user wants a remote worker
            first, rest = far[0], [first, *(card for card in rest if card is not far[0])]
        context = r.choice([0, 0, 3000, 9000])
        return [first, *(replace(c, context=context) if r.random() < 0.3 else c for c in rest)]

    def make_terms(self) -> RunTerms:
        r = self.random
        scopes = r.sample([Scope.SESSION, Scope.DAY, Scope.MONTH], r.randint(0, 3))
        ceilings = {scope: r.choice([0, 2_000_000, 20_000_000, NANO, NANO]) for scope in scopes}
        mode = "local" if r.random() < 0.07 else "auto"
        return RunTerms(ceilings, r.choice([*Policy]), mode, r.random() < 0.07)

    def make_step(self, number: int) -> Step:
        r = self.random
        things = ["prompt", "history", *(FILE + name for name in FILES)]
        things += ["file:notes.md#1/2", "file:notes.md#2/2", "file:a#1/2#2/2", "file:../../passwd"]
        things += [str(n) for n in range(1, number)] * 3
        access = dict.fromkeys(r.choice(things) for _ in range(r.randint(0, 5)))
        return Step(
            r.choice([*self.workers, *self.workers, "", "nobody"]),
            DIRECT_SUBTASK if r.random() < 0.25 else f"Do step {number}.",
            tuple(access),
            Need(r.choice(KINDS), r.randint(1, 5)),
            r.random() < 0.25,
            r.random() < 0.15,
        )

    def make_plan(self) -> Plan:
        count = self.random.randint(1, 9)
        steps = tuple(self.make_step(number) for number in range(1, count + 1))
        return Plan(steps, self.make_answer(count))

    def make_answer(self, count: int) -> tuple[int, ...]:
        some = self.random.sample(range(1, count + 1), self.random.randint(1, min(3, count)))
        return tuple(sorted(some)) if self.random.random() < 0.5 else (count,)

    # What happens

    def respond(self, card: Card) -> Callable[[Request], AsyncGenerator[Chunk]]:
        async def respond(request: Request) -> AsyncGenerator[Chunk]:
            fate = self.random.random()
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)
            yield Loading(1.0)
            if fate < 0.04:
                raise ContextTooLong(5000, card.context or 4096)
            if fate < 0.08 and card.uses_gateway:
                yield Declined()
                raise WorkerUnavailable("It is busy.")
            if fate < 0.16:
                raise self.random.choice(ERRORS)()
            async for chunk in self.write(request, fate):
                yield chunk
            yield self.usage(request)

        return respond

    async def write(self, request: Request, fate: float) -> AsyncGenerator[Chunk]:
        """Write some text; fail or hang while at it, if that is its fate."""
        number = number_of(request)
        for piece in range(self.random.randrange(3)):
            yield Text(f"{GONE if fate < 0.24 else 'piece'} {number}.{piece} ")
            await asyncio.sleep(0)
        if fate < 0.24:
            raise self.random.choice(ERRORS)()
        if fate < 0.26:
            await self.hang()
        if request.purpose is Purpose.PLAN:
            yield Text(self.random.choice(plans("Do it.", first_of(request))))
        elif fate < 0.96:
            yield Text(f"O{number}-marten.")

    def usage(self, request: Request) -> Usage:
        """Count as a provider does that keeps to the cap."""
        read = self.random.randint(1, max_input_tokens(request.messages, request.shape))
        wrote = self.random.randint(1, request.max_tokens or 50)
        ends = [Finish.STOP, Finish.STOP, Finish.STOP, Finish.LENGTH]
        return Usage(read, wrote, self.random.choice(ends))

    async def hang(self) -> None:
        """Wait for ever; the user loses patience."""
        for _ in range(self.random.randrange(30)):
            await asyncio.sleep(0)
        assert self.run is not None
        self.run.cancel()
        await asyncio.Event().wait()

    async def ask(self, question: Question) -> str:
        assert not self.asking, "two questions at once"
        self.asking += 1
        try:
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)
            if self.random.random() < 0.02:
                await self.hang()
            choices = [choice.id for choice in question.choices]
            if question.plan is not None:
                return "go" if self.random.random() < 0.7 else self.random.choice(choices)
            choice = "keep" if "keep" in choices and self.refuses else self.random.choice(choices)
            self.yes += choice in ("once", "conversation")
            return choice
        finally:
            self.asking -= 1


class GrowingStrategy:
    """Proposes a plan, and more and more of it, whether that makes sense or not."""

    def __init__(self, scenario: RandomScenario) -> None:
        self.scenario = scenario
        self.random = scenario.random

    async def first(self, context: StrategyContext) -> Proposal:
        await self._look(context)
        return Proposal(self.scenario.plan, why="Why not.", final=False)

    async def next(self, context: StrategyContext, outcome: Outcome) -> Proposal | None:
        await self._look(context)
        executed, fate = len(outcome.plan.steps), self.random.random()
        if fate < 0.4 or executed > MAX_STEPS - 4:
            return None
        if fate < 0.45:
            return Proposal(self.scenario.make_plan(), why="Another one.")
        more = tuple(
            self.scenario.make_step(executed + n) for n in range(1, self.random.randint(1, 4))
        )
        answer = self.scenario.make_answer(executed + len(more))
        return Proposal(outcome.plan.with_steps(more, answer), why="More.", final=fate < 0.7)

    async def _look(self, context: StrategyContext) -> None:
        await context.funds()
        if self.random.random() < 0.2:
            card = self.random.choice(context.routing.roster)
            message = Message(Role.USER, f"Draw a plan for {context.routing.material.prompt}")
            try:
                await context.ask(
                    card.id,
                    [message],
                    Purpose.PLAN,
                    max_tokens=self.random.choice([None, 99]),
                    why="It would plan.",
                )
            except BatonError:
                if self.random.random() < 0.1:
                    raise PlanError("There is no plan.") from None


def number_of(request: Request) -> int:
    """Return the number of the step that a request is for; 0 for the run itself."""
    if request.purpose is Purpose.PLAN or request.seed is None:
        return 0
    return request.seed - FIRST_SEED + 1


def first_of(request: Request) -> int:
    """Return the number that the first step of a plan must have."""
    numbered = re.search(r"New steps are numbered from (\d+)", request_text(request))
    return int(numbered[1]) if numbered else 1


# What must hold


async def execute(number: int) -> str:
    """Run a scenario and check all that must hold after it; return how it ended."""
    scenario = RandomScenario(number)
    store, ledger = FailingStore(None), FailingLedger(None)
    try:
        return await _execute(scenario, store, ledger)
    finally:
        await ledger.aclose()
        await store.aclose()


async def _execute(scenario: RandomScenario, store: Store, ledger: Ledger) -> str:
    default = next(iter(scenario.workers))
    orchestra = ScriptedOrchestra(
        Services(scenario.workers, store, ledger=ledger), default, scenario.terms
    )
    orchestra.given = GrowingStrategy(scenario) if scenario.strategy == "growing" else None
    orchestra.configure(conductor=scenario.conductor)
    if scenario.random.random() < 0.6:
        orchestra.configure(
            router=Adversary(scenario.random, greedy=scenario.random.random() < 0.3)
        )
    orchestra.configure(templates=lambda: TEMPLATES)
    old = Prompt(f"{HISTORY} before", (attachment("old.txt"),))
    begun = await store.begin(old, NEW, scenario.label)
    await store.write(begun.answer, f"answered {HISTORY}", TurnStatus.DONE)
    prompt = Prompt(f"{PROMPT} now", (attachment("notes.md"), attachment("a#1/2")))
    place = ConversationPosition(begun.conversation)
    assert isinstance(ledger, FailingLedger)
    assert isinstance(store, FailingStore)
    ledger.random, ledger.often = scenario.random, 0.3 if scenario.random.random() < 0.05 else 0.0
    store.left = scenario.full_after
    plan = None if scenario.strategy else scenario.plan
    run = orchestra.run(prompt, place, scenario.limits, scenario.ask, plan=plan)
    view = await follow(scenario, run, store, ledger)
    if view.status != "finished" and scenario.full_after < 0:
        await go_on(scenario, orchestra, store, ledger)
    return view.status


async def follow(scenario: RandomScenario, run: Run, store: Store, ledger: Ledger) -> RunView:
    """Follow a run to its end, however that comes, and check all that must hold then."""
    before = asyncio.all_tasks()
    events: list[ev.Event] = []
    scenario.run = run
    async with asyncio.timeout(PATIENCE), run:
        if scenario.stops_after == 0:
            run.cancel()
        async for event in run:
            events.append(event)
            if len(events) == scenario.stops_after:
                run.cancel()
    assert isinstance(ledger, FailingLedger)
    assert isinstance(store, FailingStore)
    ledger.often, store.left = 0.0, -1
    assert asyncio.all_tasks() == before
    assert all(worker.running == 0 for worker in scenario.workers.values())
    view = check_events(events)
    check_access(scenario, view)
    check_workers(scenario, events)
    await check_money(scenario, ledger)
    if scenario.full_after < 0:
        await check_kept(store, events)
    return view


async def go_on(
    scenario: RandomScenario, orchestra: ScriptedOrchestra, store: Store, ledger: Ledger
) -> None:
    """Continue a run that ended early: what was finished isn't done again."""
    record = await store.runs.last()
    assert record is not None
    old = view_of(list(record.events))
    if old.plan is None:
        with pytest.raises(ConfigError):
            orchestra.resume(record)
        return
    scenario.stops_after = scenario.random.choice([-1, -1, 30])
    for worker in scenario.workers.values():
        worker.requests = []
    view = await follow(
        scenario, orchestra.resume(record, scenario.limits, scenario.ask), store, ledger
    )
    done = {step.number: step.text for step in old.steps if step.status == "done" and step.text}
    begun = [(step.step.subtask, step.step.access) for step in old.steps]
    if [(step.step.subtask, step.step.access) for step in view.steps[: len(begun)]] != begun:
        return  # it ended before, or no worker could run the rest, and the ordinary plan ran
    called = {number_of(r) for worker in scenario.workers.values() for r in worker.requests}
    assert not called & set(done)
    assert {n: view.steps[n - 1].text for n in done} == done


def check_events(events: list[ev.Event]) -> RunView:
    """Exactly one event ends the run, the last one; what is stored is in order of time."""
    assert [isinstance(e, ev.TERMINAL) for e in events] == [False] * (len(events) - 1) + [True]
    stored = [e.at for e in events if not isinstance(e, ev.TRANSIENT)]
    assert stored == sorted(stored)
    view = view_of(events)
    ends: dict[int, int] = {}
    for event in events:
        if isinstance(event, ev.StepFinished | ev.StepFailed | ev.StepSkipped):
            ends[event.step] = ends.get(event.step, 0) + 1
    assert set(ends.values()) <= {1}
    if view.status == "finished":
        assert all(step.is_over for step in view.steps)
        assert view.plan is not None
        answering = [view.steps[n - 1] for n in view.plan.answer]
        assert "done" in {part.status for part in answering}
        assert all(part.status == "done" or part.step.optional for part in answering)
    return view


def allowed_words(access: tuple[str, ...]) -> set[str]:
    """Return the words that a worker with this access list may see."""
    words = {PROMPT} if "prompt" in access else set()
    words |= {HISTORY} if "history" in access else set()
    for name, (first, last) in FILES.items():
        whole = FILE + name in access
        words |= {first} if whole or f"{FILE}{name}#1/2" in access else set()
        words |= {last} if whole or f"{FILE}{name}#2/2" in access else set()
    return words | {f"O{n}-marten" for n in access if n.isdecimal()}


def check_access(scenario: RandomScenario, view: RunView) -> None:
    """No worker saw a word that the step's access list doesn't name, or one that was taken back."""
    everything = {PROMPT, HISTORY, *(word for words in FILES.values() for word in words)}
    everything |= {f"O{n}-marten" for n in range(1, len(view.steps) + 1)}
    for worker in scenario.workers.values():
        for request in worker.requests:
            if request.purpose is Purpose.PLAN:
                assert not any(
                    word in request_text(request) for words in FILES.values() for word in words
                )
                continue
            if request.seed is None:
                assert worker.card.is_tool  # computes something for a check
                continue
            step = view.steps[number_of(request) - 1].step
            allowed, text = allowed_words(step.access), request_text(request)
            seen = {word for word in everything if word + "." in text or word in text.split()}
            assert seen <= allowed, (step, seen - allowed)
            assert GONE not in text
            assert (PROMPT in text) == ("prompt" in step.access)
            systems = [m.text for m in request.messages if m.role is Role.SYSTEM]
            assert systems == [worker.card.system]


def check_workers(scenario: RandomScenario, events: list[ev.Event]) -> None:
    """No worker was called that may not be, and no remote one without leave."""
    first = next(iter(scenario.workers))
    for name, worker in scenario.workers.items():
        if not worker.requests:
            continue
        card = worker.card
        assert may_use(card, scenario.label, scenario.terms)
        assert all(request.label is scenario.label for request in worker.requests)
        if not card.is_local:
            sent = [e for e in events if isinstance(e, ev.Offered) and e.worker == name]
            leave = [e for e in sent if e.decision is ev.Decision.SENT]
            assert len(worker.requests) <= len(leave)
        asks = scenario.terms.policy in (Policy.ASK, Policy.ONCE) and scenario.limits.budget is None
        planned = all(request.purpose is Purpose.PLAN for request in worker.requests)
        named = name == first or (planned and name == scenario.conductor)
        free = card.price is not None and card.price.is_free
        if card.remote and not (free and named):
            assert scenario.terms.policy is not Policy.NEVER
            assert scenario.yes or not asks


async def check_money(scenario: RandomScenario, ledger: Ledger) -> None:
    """Nothing is held any more, and no ceiling was passed."""
    charges = await ledger.charges()
    session = charges[0].session if charges else None
    standing = await ledger.standing(scenario.terms.ceilings, session)
    for room in standing.rooms:
        assert room.held == 0
        assert room.ceiling is None or room.used <= room.ceiling
    for run in {charge.run for charge in charges}:
        charged = sum(charge.charged for charge in charges if charge.run == run)
        assert scenario.limits.budget is None or charged <= scenario.limits.budget
    assert not standing.frozen


async def check_kept(store: Store, events: list[ev.Event]) -> None:
    """What is on disk agrees with what was seen."""
    record = await store.runs.last()
    assert record is not None
    live, stored = view_of(events), view_of(list(record.events))
    assert record.status == stored.status == live.status
    last = (await store.thread(record.conversation, record.answer))[-1]
    ends = {"finished": ("done", "cut"), "failed": ("failed",), "cancelled": ("cancelled",)}
    assert last.status in ends[live.status]
    assert last.text == live.answer
    assert [s.status for s in stored.steps if s.is_over] == [
        s.status for s in live.steps if s.is_over
    ]
    assert [s.text for s in stored.steps if s.status == "done" and len(stored.steps) > 1] == [
        s.text for s in live.steps if s.status == "done" and len(live.steps) > 1
    ]
    assert (stored.calls, stored.offers) == (live.calls, live.offers)


async def execute_scenarios(numbers: range, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "RETRY_SECONDS", 0.0)
    ends: set[str] = set()
    for number in numbers:
        try:
            ends.add(await execute(number))
        except BaseException as error:
            error.add_note(f"in scenario {number}")
            raise
    assert ends == {"finished", "failed", "cancelled"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [989, 8584])
async def test_a_run_that_once_failed_or_never_ended(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps side by side meet their failures in any order, so how it ends may differ."""
    monkeypatch.setattr(part, "RETRY_SECONDS", 0.0)
    assert await execute(number) in {"finished", "failed"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 300, 60))
async def test_every_run_ends_once_and_leaves_nothing_behind(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await execute_scenarios(range(first, first + 60), monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("first", range(300, 10_300, 500))
async def test_every_run_of_thousands_ends_once(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await execute_scenarios(range(first, first + 500), monkeypatch)
