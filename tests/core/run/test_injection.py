"""Prompt injections at five seams, read by workers that do all that they read.

Nothing that a file, an answer, a conversation or a name says opens what an access list doesn't
name, sends anything to a remote worker without the user's word, or changes what may be spent.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest
import tomlkit

from baton.cli.root import run as command
from baton.cli.trace import trace_text
from baton.core import events as ev
from baton.core.errors import WorkerError
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import (
    Attachment,
    Card,
    Chunk,
    Finish,
    Prompt,
    Purpose,
    Request,
    Role,
    Text,
    TurnStatus,
    Usage,
    max_input_tokens,
)
from baton.core.money import FREE
from baton.core.permissions import PromptLimits
from baton.core.plan_types import DIRECT_SUBTASK, FILE, MAX_STEPS, Plan, Step
from baton.core.ports import NEW, ConversationPosition
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.core.sanitiser import one_line, sanitise
from baton.core.view import RunView
from baton.history import Store
from baton.platform.paths import find_paths
from support.prompt_injections import FAMILIES, GUISES, PAYLOADS, Payload
from support.scripted_plans import (
    OrchestraSession,
    Responder,
    StubWorker,
    cloud,
    fail_with,
    local,
    open_orchestra,
    request_text,
    view_of,
)

SEAMS = ("file", "review", "worker", "history", "name")
STRATEGIES = (
    *("", "conductor", "hybrid", "conductor", "moa", "cascade", "conductor", "majority"),
    *("ultra", "reflect", "conductor", "vote", "single"),
)
"""What the file, the history and the name meet in turn; "" is a plan drawn beforehand."""

KINDS = ("ask", "private", "offline", "budget")
"""What stands in the way: the user's no, privacy, no connection, or the ceiling alone."""

CEILING = 6_000_000

FIRST_SEED = 1000
"""A step's number can be read from its request's seed: this and what it adds."""

PROMPT, HISTORY, NOTES, SECRET, OTHER_CONVERSATION = (
    f"{w}-word" for w in ("heron", "otter", "lynx", "stoat", "mole")
)


def obeys(payload: Payload) -> Responder:
    """Say what the payload wants, and draw the plan that it wants, for any request."""

    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        yield Text(draw_plan(payload, request) if request.purpose is Purpose.PLAN else payload.text)
        yield dear(request)

    return respond


def dear(request: Request) -> Usage:
    """Count as much as a provider may."""
    return Usage(max_input_tokens(request.messages), request.max_tokens or 99, Finish.STOP)


def draw_plan(payload: Payload, request: Request) -> str:
    """Draw the payload's plan, with the numbers that a corrective one has to have."""
    numbered = re.search(r"New steps are numbered from (\d+)", request_text(request))
    return payload.plan(int(numbered[1]) if numbered else 1)


def roster(payload: Payload, seam: str) -> list[Card]:
    """Return workers here, on the network and in the cloud, and one that has no price."""
    small = replace(local("small", 2), parameters=8 * 10**9, system="You are small.")
    big = replace(local("big"), parameters=70 * 10**9, system="You are big.")
    own = replace(cloud("own", price=FREE), kind="server", privacy=Label.LOCAL, remote=False)
    lan = replace(own, id="lan", privacy=Label.LAN, remote=True)
    gpt, dear = cloud("gpt"), cloud("dear", price=None)
    if seam == "name":
        name = payload.name
        own = replace(own, id=f"own {name}", name=name, model=name, provider=name)
        gpt = replace(gpt, id=f"gpt {name}", name=name, model=f"openai/{name}")
    return [small, big, own, lan, gpt, dear]


def steps(worker: str, files: tuple[str, ...]) -> Plan:
    """Return a plan in which each step sees a part of what there is."""
    return Plan(
        (
            Step("small", "Extract the facts.", files[:1]),
            Step("big", "Write them out.", ("1", "prompt")),
            Step(worker, "Is that right?", ("1", "2"), check=True),
            Step("small", "Put it into the conversation.", ("2", "3", "history")),
            Step("small", DIRECT_SUBTASK, ("prompt",), optional=True),
        ),
        (4, 5),
    )


async def attack(payload: Payload, seam: str) -> None:
    """Run a prompt with the payload at one seam, and check that nothing gave way."""
    cards = roster(payload, seam)
    kind = KINDS[payload.number // 2 % len(KINDS)]
    label = Label.LOCAL if kind == "private" else Label.CLOUD
    choice = "keep" if kind == "ask" else "conversation"
    workers = [StubWorker(card, obeys(payload)) for card in cards]
    policy = Policy.BUDGET if kind == "budget" else Policy.ASK
    offline = kind == "offline"
    async with open_orchestra(
        *workers, choice=choice, ceiling=CEILING, policy=policy, offline=offline
    ) as session:
        session.orchestra.configure(conductor=cards[payload.number // 30 % 2 + (seam == "name")].id)
        terms = replace(session.orchestra.terms)
        await _write_other_conversation(session.store)
        place = await _history(session.store, payload if seam == "history" else None, label)
        prompt = _prompt(payload if seam == "file" else None)
        view = await _execute(session, payload, seam, prompt, place, label)
        assert session.orchestra.terms == terms
        names = tuple(file.name for file in prompt.files)
        check_reads(session, view, names)
        check_systems(session, payload, cards)
        await check_unchanged(session, place, label)
        if kind == "budget":
            await check_within_the_ceiling(session)
        else:
            await check_nothing_left(session, kind)
        await check_shown(session)


async def _write_other_conversation(store: Store) -> None:
    begun = await store.begin(
        Prompt(f"Another conversation: {OTHER_CONVERSATION}"), NEW, Label.LOCAL
    )
    await store.write(begun.answer, OTHER_CONVERSATION, TurnStatus.DONE)


async def _history(store: Store, payload: Payload | None, label: Label) -> ConversationPosition:
    text = payload.text if payload else "Good morning."
    begun = await store.begin(Prompt(f"{HISTORY} {text}"), NEW, label)
    await store.write(begun.answer, f"{HISTORY} {text}", TurnStatus.DONE)
    return ConversationPosition(begun.conversation)


def _prompt(payload: Payload | None) -> Prompt:
    text = payload.text if payload else "Facts."
    name = one_line(payload.text, 60) if payload else "notes.txt"
    files = (Attachment(name, f"{NOTES} {text}", 9), Attachment("secret.txt", SECRET, 9))
    return Prompt(f"{PROMPT}: what is in there?", files)


async def _execute(
    session: OrchestraSession,
    payload: Payload,
    seam: str,
    prompt: Prompt,
    place: ConversationPosition,
    label: Label,
) -> RunView:
    name = "conductor" if seam == "review" else STRATEGIES[payload.number % len(STRATEGIES)]
    limits = PromptLimits(label, seed=FIRST_SEED, strategy=name)
    plan = None
    if seam == "worker" or not name:
        outside = [card.id for card in session.orchestra.roster][2:]
        worker = outside[payload.number % len(outside)]
        plan = steps(worker, tuple(FILE + file.name for file in prompt.files))
    if seam == "review":
        # The plan itself is harmless; only what its worker says is not.
        for stub in session.workers.values():
            stub.respond = _harmless_at_first(payload)
    return await session.execute(
        plan, limits=replace(limits, strategy=name), place=place, prompt=prompt
    )


HARMLESS = json.dumps(
    {
        "steps": [
            {"kind": "extraction", "difficulty": 2, "sees": ["file 1"], "uses": [], "worker": 1,
             "check": False, "task": "List the facts."},
            {"kind": "chat", "difficulty": 2, "sees": ["prompt"], "uses": [1], "worker": 1,
             "check": False, "task": "Answer from them."},
        ],
        "answer": [2],
    }
)  # fmt: skip


def _harmless_at_first(payload: Payload) -> Responder:
    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        if request.purpose is not Purpose.PLAN:
            yield Text(payload.text)
        else:
            yield Text(
                draw_plan(payload, request) if payload.mark in request_text(request) else HARMLESS
            )
        yield dear(request)

    return respond


# What must hold


def number_of(request: Request) -> int:
    assert request.seed is not None
    return request.seed - FIRST_SEED + 1


def check_reads(session: OrchestraSession, view: RunView, names: tuple[str, ...]) -> None:
    """No request shows what its step's access list doesn't name."""
    words = {"prompt": PROMPT, "history": HISTORY}
    words |= dict(zip((FILE + name for name in names), (NOTES, SECRET), strict=True))
    assert 1 <= len(view.steps) <= MAX_STEPS
    for worker in session.workers.values():
        for request in worker.requests:
            text = request_text(request)
            assert OTHER_CONVERSATION not in text
            if request.purpose is Purpose.PLAN:
                assert NOTES not in text
                assert SECRET not in text
                continue
            access = view.steps[number_of(request) - 1].step.access
            for name, word in words.items():
                assert word not in text or name in access, (name, access)


def check_systems(session: OrchestraSession, payload: Payload, cards: list[Card]) -> None:
    """Only Baton and the worker's own card speak as the system, and a planner knows no names."""
    for worker in session.workers.values():
        for request in worker.requests:
            systems = [m.text for m in request.messages if m.role is Role.SYSTEM]
            assert request.messages[0].role is Role.SYSTEM
            if request.purpose is not Purpose.PLAN:
                assert systems == [worker.card.system]
                continue
            [rules] = systems
            assert rules.startswith("You plan work that others do")
            assert payload.mark not in rules
            assert not any(
                card.name in rules or (card.model and card.model in rules) for card in cards
            )


async def check_unchanged(
    session: OrchestraSession, place: ConversationPosition, label: Label
) -> None:
    """Nothing may be spent or seen that might not have been before."""
    assert place.conversation is not None
    standing = await session.ledger.standing(session.orchestra.terms.ceilings, place.conversation)
    assert [room.ceiling for room in standing.rooms if room.ceiling is not None] == [CEILING]
    conversation = await session.store.conversation(place.conversation)
    assert (conversation.policy, conversation.label) == (None, label)
    assert conversation.system is None
    assert len(await session.store.conversations()) == 2
    assert session.workers["dear"].requests == []  # it has no price
    assert isinstance(session.events[-1], ev.TERMINAL)


async def check_within_the_ceiling(session: OrchestraSession) -> None:
    """Where the user needn't be asked, what may be spent is spent and no more."""
    assert session.person.asked == []
    assert await session.held() == 0
    assert await session.spent() <= CEILING
    offered = [e for e in session.events if isinstance(e, ev.Offered)]
    assert {e.decision for e in offered} <= {ev.Decision.SENT, ev.Decision.CEILING}
    assert all(e.most <= CEILING for e in offered if e.decision is ev.Decision.SENT)


async def check_nothing_left(session: OrchestraSession, kind: str) -> None:
    """No remote worker was called, and nothing was spent."""
    for worker in session.workers.values():
        assert not (worker.card.remote and worker.requests), worker.card.id
    charges = await session.ledger.charges()
    assert not any(charge.held or charge.charged for charge in charges)
    if kind != "ask":
        assert session.person.asked == []
    for question in session.person.asked:
        assert question.default == "keep"
        assert question.offer is not None
    decisions = {
        e.decision for e in session.events if isinstance(e, ev.Offered) if _pays(session, e)
    }
    assert decisions <= {ev.Decision.KEPT}


def _pays(session: OrchestraSession, event: ev.Offered) -> bool:
    return session.workers[event.worker].card.remote


async def check_shown(session: OrchestraSession) -> None:
    """What is printed of the run holds nothing that a terminal would obey."""
    record = await session.store.runs.last()
    assert record is not None
    trace = trace_text(record)
    assert sanitise(trace) == trace
    assert view_of(list(record.events)).status == view_of(session.events).status


STRIDE = 21
"""Every so many payloads meet all strategies and all that stands in the way."""


def test_there_are_enough_of_them() -> None:
    assert len(PAYLOADS) == len(FAMILIES) * len(GUISES) == 300
    assert len({payload.text for payload in PAYLOADS}) == 300


async def attack_with(payloads: list[Payload], seam: str, home: Path) -> None:
    for payload in payloads:
        try:
            await attack(payload, seam)
        except BaseException as error:
            error.add_note(f"{seam}, payload {payload.number}: {payload.family}, {payload.guise}")
            raise
    assert not list(home.parent.glob("baton home/**/*"))  # no setting was written


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(0, STRIDE, 5))
async def test_nothing_gives_way(first: int, home: Path) -> None:
    for seam in SEAMS:
        await attack_with(PAYLOADS[first::STRIDE], seam, home)


@pytest.mark.long
@pytest.mark.parametrize("seam", SEAMS)
async def test_nothing_gives_way_to_any_payload(seam: str, home: Path) -> None:
    await attack_with(PAYLOADS, seam, home)


# What is printed


class Terminal(io.StringIO):
    """What a terminal is sent."""

    def isatty(self) -> bool:
        return True


def printed_text(monkeypatch: pytest.MonkeyPatch, *args: str, terminal: bool = True) -> str:
    """Return what a command prints."""
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    assert command(args) == 0, args
    return out.getvalue()


async def _record_run(payload: Payload) -> ev.Started:
    """Run all seams at once over the history that commands read; return how it began."""
    store = Store(find_paths().database)
    try:
        place = await _history(store, payload, Label.CLOUD)
        cards = roster(payload, "name")
        workers = {card.id: StubWorker(card, obeys(payload)) for card in cards}
        broken = WorkerError(f"Broken: {payload.text}", payload.text)
        workers["big"] = StubWorker(cards[1], fail_with(broken, payload.text))
        orchestra = Orchestra(Services(workers, store), "small")
        prompt = _prompt(payload)
        plan = steps(cards[2].id, tuple(FILE + file.name for file in prompt.files))
        plan = replace(plan, steps=(*plan.steps[:-1], Step("small", payload.text, ("prompt",))))
        async with orchestra.run(prompt, place, plan=plan) as run:
            events = [event async for event in run]
        assert isinstance(events[0], ev.Started)
        return events[0]
    finally:
        await store.aclose()


UGLY = ("ansi", "tags", "html")


@pytest.mark.parametrize(
    "guise",
    [g if g in UGLY else pytest.param(g, marks=pytest.mark.long) for g in GUISES],
)
def test_nothing_that_is_printed_is_obeyed_by_a_terminal(
    guise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = next(p for p in PAYLOADS if p.guise == guise and p.family == "offer")
    began = asyncio.run(_record_run(payload))
    run = began.run
    for args in (
        ("trace", run),
        ("trace", run, "--texts"),
        ("trace", run, "--otel"),
        ("trace", run, "--json"),
        ("why", run),
        ("history", "ls"),
        ("history", "show", began.conversation),
        ("history", "search", payload.mark),
    ):
        out = printed_text(monkeypatch, *args)
        has_texts = args[0] == "trace" and "--otel" not in args
        assert payload.mark in out or not has_texts, args
        assert sanitise(out) == out, args


def test_a_story_keeps_its_form_with_any_text_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text begins a line or a record of its own."""
    shapes: set[tuple[int, ...]] = set()
    for guise in ("plain", "fenced", "ansi"):
        payload = next(p for p in PAYLOADS if p.guise == guise and p.family == "result")
        run = asyncio.run(_record_run(payload)).run
        trace = printed_text(monkeypatch, "trace", run, terminal=False)
        assert sanitise(trace) == trace  # in a pipe as well: each line is Baton's own
        spans = printed_text(monkeypatch, "trace", run, "--otel", terminal=False).splitlines()
        assert all(json.loads(span)["resourceSpans"] for span in spans)
        events = json.loads(printed_text(monkeypatch, "trace", run, "--json", terminal=False))[
            "events"
        ]
        # A fenced text may be checked, and found wrong: those events depend on what it says.
        executed = [event for event in events if event["event"] not in ("Checked", "Warned")]
        shapes.add((len(spans), len(executed)))
    assert len(shapes) == 1


def test_a_model_s_name_from_the_settings_is_only_a_name(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [payload.name for payload in PAYLOADS if payload.guise in UGLY]
    entries = [
        {"id": f"w{n} {name}", "kind": "server", "model": name, "base_url": "http://127.0.0.1:9"}
        for n, name in enumerate(names)
    ]
    file = find_paths().config_file
    file.parent.mkdir(parents=True)
    file.write_text(tomlkit.dumps({"workers": entries}), "utf-8", "surrogatepass")
    out = printed_text(monkeypatch, "workers", "ls")
    assert sanitise(out) == out
    assert len(out.splitlines()) >= len(names)
    shown = printed_text(monkeypatch, "workers", "show", entries[0]["id"])
    assert sanitise(shown) == shown
