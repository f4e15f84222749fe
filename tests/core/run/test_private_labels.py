"""Private text stays where it may be: random runs over the real engine, store and ledger.

Every text carries a canary that names how far it may travel; the remote workers record all that
they are sent. The scripted local worker says back what it saw, so that what is derived from private
text is as private.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from baton.core import events as ev
from baton.core.errors import ContextTooLong, WorkerUnavailable
from baton.core.history_types import Signal
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope
from baton.core.messages import (
    Attachment,
    Card,
    Chunk,
    Finish,
    Prompt,
    Request,
    RequestSent,
    Text,
    Usage,
)
from baton.core.money import NANO, Price, Rates
from baton.core.permissions import PromptLimits, RunTerms, may_use
from baton.core.planning.skill_table import SkillTable
from baton.core.ports import NEW, ConversationPosition, Proposal, Question, StrategyContext, Worker
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.core.strategies.route import Single
from baton.history import Store
from baton.money import Ledger
from baton.workers.cloud import CloudWorker, Gateway
from baton.workers.cloud.redaction import Redaction
from baton.workers.scripted_worker import ScriptedWorker
from support.adversarial_router import Adversary
from support.fake_cloud import REFUSED, Cloud
from support.scripted_plans import (
    StubWorker,
    answer_with,
    cloud,
    local,
    open_orchestra,
    request_text,
)

RUNS = 12
"""How many prompts one world runs."""

PRICE = Price(Rates(NANO, 2 * NANO, NANO, NANO))
SMALL = Card("small", "local", "Small", context=4096)
BIG = Card("big", "local", "Big", context=8192, parameters=7)
HERE = Card("here", "server", "An engine on this machine", provider="server")
LAB = Card("lab", "server", "The lab's", privacy=Label.LAN, provider="server", remote=True)
GPT = Card("gpt", "cloud", "gpt", privacy=Label.CLOUD, price=PRICE, provider="a", remote=True)
OPUS = replace(GPT, id="opus", name="opus", provider="b")
REMOTE = (LAB, GPT, OPUS)


@dataclass
class RandomScenario:
    """Random people, prompts and workers, from one seed; `real` workers replace scripted ones."""

    dice: random.Random
    folder: Path
    real: Mapping[str, Worker] = field(default_factory=dict)
    store: Store = field(init=False)
    ledger: Ledger = field(init=False)
    orchestra: Orchestra = field(init=False)
    workers: dict[str, ScriptedWorker] = field(init=False)
    counter: count[int] = field(default_factory=count)
    places: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workers = {
            card.id: ScriptedWorker(self.remote if card.uses_gateway else self.local, card)
            for card in (SMALL, BIG, HERE, *REMOTE)
        }
        self.open(Store(self.folder / "0.db"))

    def open(self, store: Store) -> None:
        """Compose a new orchestra, over that store."""
        dice = self.dice
        self.store = store
        self.ledger = Ledger(None)
        ids = dice.sample(list(self.workers), len(self.workers))
        self.orchestra = Orchestra(
            Services(
                {id: self.real.get(id, self.workers[id]) for id in ids},
                store,
                ledger=self.ledger,
                redactor=dice.choice([None, Redaction(["ann"])]),
            ),
            dice.choice(["small", "big"]),
            RunTerms({Scope.DAY: 1000 * NANO}, dice.choice([*Policy, *[Policy.ASK] * 4])),
        )
        if dice.random() < 0.7:  # what the router wants isn't a reason to send private text
            self.orchestra.configure(router=Adversary(dice, greedy=dice.random() < 0.5))

    async def aclose(self) -> None:
        await self.store.aclose()
        await self.ledger.aclose()

    # What workers say

    def local(self, request: Request) -> Iterable[Chunk | BaseException]:
        """Say back what was seen, or something that calls for a stronger worker."""
        seen = " ".join(message.text for message in request.messages)
        said = self.dice.choice(["", "I'm sorry, but I can't.", seen, f"I cannot. {seen[:200]}"])
        if self.dice.random() < 0.1 and len(request.messages) > 3:
            yield ContextTooLong(9000, 4096)
        yield Text(said)
        if self.dice.random() < 0.1:
            yield WorkerUnavailable("It died.")
        ends = [end for end in Finish if end is not Finish.THOUGHTS]  # no worker says that
        yield Usage(10, 10, self.dice.choice(ends))

    def remote(self, request: Request) -> Iterable[Chunk | BaseException]:
        if self.dice.random() < 0.1:
            yield ContextTooLong(9000, 4096)
        yield RequestSent("api.example.org", 100)
        yield Text(self.dice.choice(["", "Fine.", request.messages[-1].text]))
        if self.dice.random() < 0.2:
            yield WorkerUnavailable("It was cut.")
        yield Usage(10, 10, Finish.STOP)

    # What people do

    def label(self) -> Label:
        return self.dice.choices(list(Label), [1, 1, 4])[0]

    def text(self, label: Label) -> str:
        return f"canary-{label}-{next(self.counter)} and ann@example.org"

    def prompt(self, label: Label) -> Prompt:
        dice = self.dice
        files: tuple[Attachment, ...] = ()
        if dice.random() < 0.4:
            own = self.label()
            files = (Attachment("notes.txt", self.text(own), 1, own),)
        system = self.text(label) if dice.random() < 0.3 else None
        return Prompt(self.text(label), files, system)

    def place(self) -> ConversationPosition:
        """Continue, begin a new one, branch off, or have a prompt answered again."""
        if not self.places or self.dice.random() < 0.25:
            return NEW
        conversation, prompt, answer = self.dice.choice(self.places)
        after = self.dice.choice([None, None, answer, ""])
        if self.dice.random() < 0.25:
            return ConversationPosition(conversation, again=prompt)
        return ConversationPosition(conversation, after)

    async def ask(self, question: Question) -> str:
        return self.dice.choice(question.choices).id

    async def execute(self) -> None:
        dice = self.dice
        label = self.label()
        limits = PromptLimits(
            label,
            budget=dice.choice([*[None] * 5, NANO]),
            attended=dice.random() < 0.9,
            max_tokens=dice.choice([None, 500]),
        )
        worker = dice.choice([None, None, None, *self.workers])
        run = self.orchestra.run(self.prompt(label), self.place(), limits, self.ask, worker=worker)
        patience = dice.choice([0, 3, 6, *[1000] * 7])
        async with run:
            async for event in run:
                if isinstance(event, ev.Started):
                    self.places.append((event.conversation, event.prompt, event.answer))
                if (patience := patience - 1) < 0:
                    run.cancel()

    async def meddle(self) -> None:
        """Do what happens between prompts: a restart, a move to another machine, a deletion."""
        what = self.dice.random()
        if what < 0.1:
            data = await self.store.archive.export()
            await self.aclose()
            store = Store(self.folder / f"{next(self.counter)}.db")
            await store.archive.import_(data)
            self.open(store)
            moved = {conversation.id for conversation in await store.conversations()}
            self.places = [place for place in self.places if place[0] in moved]
        elif what < 0.3 and self.places:
            conversation, _, _ = self.dice.choice(self.places)
            await self.store.hide(conversation)
        elif what < 0.4 and self.places:
            conversation, _, _ = self.dice.choice(self.places)
            await self.store.allow(conversation, self.dice.choice(list(Policy)))


def leaks(workers: Iterable[ScriptedWorker]) -> list[tuple[str, str]]:
    """Return every canary that a worker saw and was not allowed to see."""
    return [
        (worker.card.id, canary)
        for worker in workers
        for canary, label in canaries(worker.requests)
        if not Label(label).allows(worker.card.privacy)
    ]


def canaries(requests: Iterable[Request]) -> set[tuple[str, str]]:
    """Return the canaries in all that a worker was sent, and how far each may travel."""
    return in_text(" ".join(message.text for request in requests for message in request.messages))


def in_text(text: str) -> set[tuple[str, str]]:
    return set(re.findall(r"(canary-(local|lan|cloud)-\d+)", text))


async def execute_all(world: RandomScenario) -> RandomScenario:
    try:
        for _ in range(RUNS):
            await world.execute()
            await world.meddle()
    finally:
        await world.aclose()
    return world


async def search_leaks(seeds: range, tmp_path: Path) -> None:
    """Run the worlds of some seeds, and look for leaks in what their workers saw."""
    worlds = []
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        worlds.append(await execute_all(RandomScenario(random.Random(seed), folder)))
        assert leaks(worlds[-1].workers.values()) == [], f"with the seed {seed}"
    # It could have: texts did leave, and workers here did see private ones.
    for label in Label:
        able = [w for world in worlds for w in world.workers.values() if w.card.privacy is label]
        seen = canaries(request for worker in able for request in worker.requests)
        assert label in {travels for _, travels in seen}, label


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(0, 12, 4))
async def test_private_text_and_what_is_derived_from_it_never_leaves(
    first: int, tmp_path: Path
) -> None:
    await search_leaks(range(first, first + 4), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("first", range(12, 108, 24))
async def test_private_text_never_leaves_in_many_worlds(first: int, tmp_path: Path) -> None:
    await search_leaks(range(first, first + 24), tmp_path)


async def test_what_was_derived_stays_private_when_its_source_is_left_out(tmp_path: Path) -> None:
    world = RandomScenario(random.Random(1), tmp_path)
    world.workers["small"] = ScriptedWorker(lambda r: [Text(m.text) for m in r.messages], SMALL)
    await world.ledger.aclose()
    world.open(world.store)
    world.orchestra.change_terms(policy=Policy.BUDGET)
    secret = Attachment("secret.txt", "canary-local-1", 1, Label.LOCAL)

    async def execute(prompt: Prompt, worker: str) -> ev.Started:
        place = ConversationPosition(world.places[0][0]) if world.places else NEW
        async with world.orchestra.run(prompt, place, worker=worker) as run:
            [started] = [event async for event in run if isinstance(event, ev.Started)]
        world.places.append((started.conversation, started.prompt, started.answer))
        return started

    await execute(Prompt("Read this.", (secret,)), "small")
    second = await execute(Prompt("What did it say?"), "small")
    await world.store.trim(second.conversation, second.prompt)
    third = await execute(Prompt("Is that so?"), "gpt")
    thread = await world.store.thread(third.conversation, third.answer)
    assert "canary-local-1" in thread[3].text
    assert world.workers["gpt"].requests == []
    await world.aclose()


async def test_a_strategy_sees_the_label_of_the_conversation_where_that_is_stricter() -> None:
    seen: list[Label] = []

    class LabelRecorder(Single):
        async def first(self, context: StrategyContext) -> Proposal:
            seen.append(context.routing.limits.label)
            return await super().first(context)

    async with open_orchestra(
        StubWorker(local()), StubWorker(cloud()), strategy=LabelRecorder()
    ) as session:
        view = await session.execute(None, limits=PromptLimits(Label.LOCAL))
        assert view.started is not None
        await session.execute(None, place=ConversationPosition(view.started.conversation))
        assert seen == [Label.LOCAL, Label.LOCAL]


@pytest.mark.parametrize("privacy", list(Label))
@pytest.mark.parametrize("remote", [True, False])
def test_offline_refuses_every_worker_that_is_not_on_this_machine(
    privacy: Label, remote: bool
) -> None:
    card = Card("lab", "server", "The lab's", privacy=privacy, remote=remote, price=PRICE)
    assert may_use(card, Label.CLOUD, RunTerms())
    assert may_use(card, Label.CLOUD, RunTerms(offline=True)) is not remote


async def test_an_answer_that_is_cut_keeps_an_end_that_looks_like_a_placeholder() -> None:
    """What may become a placeholder is kept back while more may come, and shown when none does."""
    cut = WorkerUnavailable("The connection was cut.", "Try again.")

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        yield Text("Her address is [mail")
        raise cut

    hiding = Redaction([])
    async with open_orchestra(
        StubWorker(cloud(), respond), redactor=hiding, policy=Policy.BUDGET
    ) as session:
        view = await session.execute(None, "Write to ann@example.org.", PromptLimits(alone=True))
        assert view.status == "failed"
        assert (await session.answer())[0] == "Her address is [mail"


async def test_the_search_for_leaks_finds_one(tmp_path: Path) -> None:
    """With false cards, of clouds that call themselves local, the same runs do leak."""
    found: list[tuple[str, str]] = []
    for seed in range(5):
        if found:
            break
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = RandomScenario(random.Random(seed), folder)
        for card in REMOTE:
            world.workers[card.id].card = replace(card, privacy=Label.LOCAL)
        await execute_all(world)
        for card in REMOTE:
            world.workers[card.id].card = card
        found += leaks(world.workers.values())
    assert found


async def search_leaks_on_the_wire(seeds: range, tmp_path: Path) -> None:
    """Run the same runs through the real gateway, and look at what its servers received."""
    dice = random.Random(seeds.start)
    worlds: list[RandomScenario] = []

    async def record(call: str, destination: str, body: bytes) -> None:
        await worlds[-1].ledger.sent(call, destination, body)

    environ = {**os.environ, "OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"}
    gateway = Gateway(record, keys_file=tmp_path / "keys.toml", environ=environ)
    gpt = replace(GPT, provider="openai", model="openai/gpt-4o-mini")
    opus = replace(OPUS, provider="anthropic", model="anthropic/claude-haiku-4-5")
    with Cloud() as cloud, Cloud() as lab:
        cloud.choose = lab.choose = lambda _: dice.choice([None, None, None, *REFUSED])
        real: dict[str, Worker] = {
            "gpt": CloudWorker(
                gpt, gateway, base_url=cloud.base("openai"), api_key_env="OPENAI_API_KEY"
            ),
            "opus": CloudWorker(
                opus, gateway, base_url=cloud.base("anthropic"), api_key_env="ANTHROPIC_API_KEY"
            ),
            "lab": CloudWorker(LAB, gateway, base_url=lab.base("server")),
        }
        for seed in seeds:
            folder = tmp_path / str(seed)
            folder.mkdir()
            worlds.append(RandomScenario(random.Random(seed), folder, real))
            await execute_all(worlds[-1])
        await gateway.aclose()
    to_cloud, to_lab = (
        in_text(" ".join(sent.body.decode() for sent in kit.received)) for kit in (cloud, lab)
    )
    assert {label for _, label in to_cloud} == {"cloud"}
    assert "local" not in {label for _, label in to_lab}
    assert to_lab


async def test_nothing_private_reaches_a_cloud_over_the_wire(tmp_path: Path) -> None:
    await search_leaks_on_the_wire(range(3, 6), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1, 97, 24))
async def test_nothing_private_reaches_a_cloud_in_many_worlds(first: int, tmp_path: Path) -> None:
    await search_leaks_on_the_wire(range(first, first + 24), tmp_path)


@pytest.mark.parametrize("label", [Label.LOCAL, Label.CLOUD])
async def test_ratings_of_private_answers_reach_no_remote_worker(label: Label) -> None:
    """A remote conductor reads what workers are good at, by answers that may leave as well."""
    far = StubWorker(cloud(), answer_with("No plan."))
    async with open_orchestra(
        StubWorker(local(), answer_with("7")), far, policy=Policy.BUDGET
    ) as session:
        session.orchestra.configure(conductor=far.card.id)

        async def planner_prompt() -> str:
            session.orchestra.configure(skills=SkillTable(outcomes=session.store.feedback.outcomes))
            far.requests.clear()
            await session.execute(None, "Plan it.", PromptLimits(strategy="conductor"))
            return request_text(far.requests[0])

        before = await planner_prompt()
        assert "skills of 5" in before
        for _ in range(12):
            await session.execute(None, "3 and 4?", PromptLimits(label, strategy="single"))
            await session.store.feedback.rate((await session.record()).answer, Signal.BAD)
        assert (await planner_prompt() == before) is (label is Label.LOCAL)
