"""Calls to a child process: many at once, left by their callers, and children that misbehave."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from msgspec import field

from baton.core.errors import WorkerUnavailable
from baton.ipc import process, supervisor
from baton.ipc.messages import FinalReply, FrameError, Message, ProgressReply
from baton.ipc.process import (
    Call,
    Child,
    ChildDied,
    ChildProcess,
    InvalidReply,
    environment,
    start_child,
)
from baton.ipc.supervisor import Supervisor
from support import fake_children

OBEYS = """
while (frame := receive()) is not None:
    number = frame["id"]
    for what in frame.get("says", []):
        send(**{"id": number, **what})
    if frame["type"] == "die":
        os.abort()
    if frame["type"] == "cancel":
        send(type="stopped", id=number)
"""
"""What a call `says` is said back, under its id unless it has another."""

DONE: dict[str, object] = {"type": "done"}


class Say(Message, tag="say"):
    says: list[dict[str, object]] = field(default_factory=list)


class Die(Say, tag="die"):
    pass


class TextReply(Message, tag="text"):
    text: int | str = ""


class Progress(ProgressReply, tag="progress"):
    done: int


class Done(FinalReply, tag="done"):
    pass


REPLIES = TextReply | Progress | Done

Make = Callable[[str], Child]


@pytest.fixture
async def make(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Start children that run some code; they are ended in the end."""
    async with AsyncExitStack() as closing:

        def made(code: str = OBEYS) -> Child:
            monkeypatch.setattr(process, "command", lambda _: fake_children.command(code))
            child = Child(ChildProcess("feigned", environment()), REPLIES)
            closing.push_async_callback(child.aclose)
            return child

        yield made


@pytest.fixture
def child(make: Make) -> Child:
    return make(OBEYS)


def text(what: object) -> dict[str, object]:
    return {"type": "text", "text": what}


async def received_replies(call: Call) -> list[object]:
    """Receive to the end, without it."""
    texts: list[object] = []
    while isinstance(reply := await call.receive(), TextReply):
        texts.append(reply.text)
    return texts


# Calls


async def test_many_at_once_get_each_their_own(child: Child) -> None:
    calls = [child.call(Say([text(n), text(-n), DONE])) for n in range(50)]
    assert await asyncio.gather(*map(received_replies, calls)) == [[n, -n] for n in range(50)]
    assert child.calls == []


async def test_answers_may_come_in_any_order(child: Child) -> None:
    first = child.call(Say())
    second = child.call(Say([text("2"), {**text("1"), "id": first.id}, DONE]))
    assert await received_replies(second) == ["2"]
    assert child.calls == [first]
    child.call(Say([{**DONE, "id": first.id}]))
    assert await received_replies(first) == ["1"]


async def test_what_is_of_no_call_is_kept_apart(child: Child) -> None:
    odd = [0, -1, 99, 2**60]
    call = child.call(Say([*({**DONE, "id": id} for id in odd), text("mine"), DONE]))
    assert await received_replies(call) == ["mine"]
    assert [(await child.receive()).id for _ in odd] == odd


BAD_IDS: list[object] = [[], {}, None, True, 1.5, "1"]


@pytest.mark.parametrize(
    "reply",
    [*({**DONE, "id": id} for id in BAD_IDS), {}, {"type": "x"}, text([])],
    ids=str,
)
async def test_a_reply_that_makes_no_sense_ends_the_child(
    child: Child, reply: dict[str, object]
) -> None:
    call = child.call(Say([text("before"), reply]))
    assert (await call.receive()).text == "before"
    with pytest.raises(InvalidReply, match="invalid reply"):
        await call.receive()
    await child.gone()
    assert child.has_failed


async def test_one_loop_may_ask_and_another_hear(child: Child) -> None:
    def ask() -> list[object]:
        return asyncio.run(received_replies(child.call(Say([text("hello"), DONE]))))

    assert await asyncio.to_thread(ask) == await asyncio.to_thread(ask) == ["hello"]
    assert await received_replies(child.call(Say([text("here"), DONE]))) == ["here"]


async def test_what_is_too_large_is_not_a_call(child: Child) -> None:
    with pytest.raises(FrameError):
        child.call(Say([text("x" * 17_000_000)]))
    assert child.calls == []
    assert await received_replies(child.call(Say([DONE]))) == []


# Cancelled calls


async def test_a_late_answer_to_a_cancelled_call_reaches_no_other_call(child: Child) -> None:
    left = child.call(Say([text("late")]))
    waiting = asyncio.create_task(left.receive())
    await asyncio.sleep(0)
    waiting.cancel()
    left.cancel()
    after = child.call(Say([text("mine"), {**text("too late"), "id": left.id}, DONE]))
    assert await received_replies(after) == ["mine"]
    assert child.calls == []
    assert not child.inbox


async def test_a_call_is_closed_when_the_child_has_let_go(child: Child) -> None:
    call = child.call(Say([text("on it")]))
    await call.receive()
    await call.close(60)
    assert call.ended
    assert not child.killed
    await call.close(60)
    assert await received_replies(child.call(Say([DONE]))) == [], (
        "it had one cancellation to answer"
    )


async def test_a_child_that_does_not_let_go_is_killed(make: Make) -> None:
    child = make("receive(); send(type='text', id=1, text='on it'); time.sleep(600)")
    call = child.call(Say())
    other = child.call(Say())
    await call.receive()
    await call.close(0.01)
    with pytest.raises(ChildDied, match=r"It was stopped\."):
        await other.receive()
    await call.close(60)


async def test_a_child_that_still_starts_is_not_waited_for_nor_killed(make: Make) -> None:
    child = make("time.sleep(1)" + OBEYS)
    await child.call(Say([text("late")])).close(0)
    assert await received_replies(child.call(Say([text("mine"), DONE]))) == ["mine"]
    assert child.calls == []


# Children that misbehave


async def test_a_death_ends_every_call_after_what_was_said(child: Child) -> None:
    calls = [child.call(Say([text(n)])) for n in range(3)]
    assert [(await call.receive()).text for call in calls] == [0, 1, 2]
    waiting = [asyncio.create_task(call.receive()) for call in calls]
    answered = child.call(Say([text("before"), DONE]))
    last = child.call(Die([text("last words")]))
    assert await received_replies(answered) == ["before"]
    assert (await last.receive()).text == "last words"
    for task in (*waiting, asyncio.create_task(last.receive())):
        with pytest.raises(ChildDied, match=r"It crashed \(SIGABRT\)\."):
            await task
    await child.gone()
    with pytest.raises(ChildDied, match="SIGABRT"):
        await child.call(Say()).receive()


async def test_a_silent_child_is_killed(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "SILENT_SECONDS", 1)
    call = child.call(Say([text("last words")]))
    await call.receive()
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(ChildDied, match="stopped answering"):
        await call.receive()
    await child.gone()


async def test_one_that_never_says_anything_is_killed_too(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "SILENT_SECONDS", 0)
    monkeypatch.setattr(process, "STARTING_SECONDS", 1)
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(ChildDied, match="stopped answering"):
        await child.call(Say()).receive()


async def test_a_crash_of_what_receives_ends_the_child_and_every_wait(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of ours, not the child's: what waits must not hang for it."""
    crashes: queue.Queue[threading.ExceptHookArgs] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", crashes.put)
    waiting = [asyncio.create_task(child.call(Say()).receive()) for _ in range(2)]
    await asyncio.sleep(0)
    broken = child.call(Say())
    monkeypatch.setattr(broken, "put", None)
    child.call(Say([{**text("never put"), "id": broken.id}]))
    for receiving in (*waiting, broken.receive(), child.receive()):
        with pytest.raises(ChildDied, match=r"Its replies can't be received \(TypeError\)\."):
            await receiving
    assert child.has_failed
    assert (await asyncio.to_thread(crashes.get, timeout=60)).exc_type is TypeError


async def test_more_than_anyone_receives_is_the_end(make: Make) -> None:
    child = make("receive()\nwhile True: send(type='text', id=1, text='on and on')")
    call = child.call(Say())
    await child.gone()
    call.messages.clear()
    with pytest.raises(ChildDied):
        await call.receive()


async def test_of_progress_only_the_newest_is_kept(make: Make) -> None:
    child = make(
        "receive(); send(type='text', id=1)\n"
        "for n in range(30_000): send(type='progress', id=1, done=n)\n"
        "send(type='done', id=1); receive()"
    )
    call = child.call(Say())
    assert await child.at_rest(60)
    replies = [await call.receive() for _ in range(3)]
    assert replies == [TextReply(id=1), Progress(29_999, id=1), Done(id=1)]


async def test_progress_that_is_received_meanwhile_goes_only_forward(make: Make) -> None:
    child = make(
        "receive()\nfor n in range(3000): send(type='progress', id=1, done=n)\n"
        "send(type='done', id=1); receive()"
    )
    call = child.call(Say())
    seen = []
    while isinstance(reply := await call.receive(), Progress):
        seen.append(reply.done)
    assert seen == sorted(set(seen))
    assert seen[-1] == 2999


async def test_several_may_wait_for_the_same_end(child: Child) -> None:
    call = child.call(Say())
    ends = [child.gone(), child.aclose(), child.aclose(), call.close(60), child.at_rest(60)]
    with suppress(ChildDied):
        await asyncio.gather(*ends, call.receive())
    assert child.ended


# Supervision


class ChildSupervisor(Supervisor):
    """Has the child that obeys."""

    def __init__(self) -> None:
        super().__init__("What obeys")
        self.started = 0

    def _start(self) -> Child:
        self.started += 1
        return start_child("fake", environment(), REPLIES, "What obeys")

    async def die(self, cause: str = "") -> None:
        """Have the child crash, and the death counted."""
        child = self.running()
        os.kill(child.pid, signal.SIGKILL)
        await child.gone()
        self.living(cause)


@pytest.fixture
async def keeper(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChildSupervisor]:
    monkeypatch.setattr(process, "command", lambda _: fake_children.command(OBEYS))
    keeper = ChildSupervisor()
    yield keeper
    await keeper.aclose()


async def test_it_is_started_when_it_is_needed_and_again_after_its_end(
    keeper: ChildSupervisor,
) -> None:
    assert keeper.started == 0
    first = keeper.running()
    assert keeper.running() is first
    first.kill()
    second = keeper.running()
    assert second is not first
    os.kill(second.pid, signal.SIGKILL)
    await second.gone()
    assert keeper.pid is None
    assert await received_replies(keeper.running().call(Say([DONE]))) == []
    assert keeper.started == 3


async def test_closing_ends_what_is_asked_also_while_it_starts(keeper: ChildSupervisor) -> None:
    await keeper.aclose()
    asked = asyncio.create_task(keeper.running().call(Say()).receive())
    await asyncio.gather(keeper.aclose(), keeper.aclose())
    with pytest.raises(ChildDied, match=r"It was stopped\."):
        await asked
    assert (keeper.pid, keeper.started) == (None, 1)
    assert await received_replies(keeper.running().call(Say([DONE]))) == [], "it may be used again"


async def test_what_cannot_be_started_is_reported(
    keeper: ChildSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "command", lambda _: ["/no/such/python"])
    with pytest.raises(WorkerUnavailable, match=r"What obeys can't be started: No such file"):
        keeper.running()


async def test_after_each_death_the_next_child_waits_longer(
    keeper: ChildSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", (0.2, 0.4, 0.8))
    monkeypatch.setattr(supervisor, "MAX_DEATHS", 9)
    for longest in (0.2, 0.4, 0.8, 0.8):
        await keeper.die()
        assert longest - 0.2 < keeper.backoff_left() <= longest
    assert await keeper.ready() is keeper.running()
    assert keeper.backoff_left() == 0


async def test_a_child_that_keeps_dying_is_in_quarantine_until_it_is_forgiven(
    keeper: ChildSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(supervisor.MAX_DEATHS):
        await keeper.die()
    with pytest.raises(WorkerUnavailable, match="What obeys failed 3 times") as refused:
        await keeper.ready()
    assert "try again in 10 minutes" in refused.value.hint
    keeper.forgive()
    assert (await keeper.ready()).pid == keeper.pid
    await keeper.die()
    monkeypatch.setattr(supervisor, "DEATHS_WINDOW_SECONDS", 0.0)
    assert keeper.backoff_left() == 0, "that was long ago"


async def test_deaths_count_by_their_cause(keeper: ChildSupervisor) -> None:
    for _ in range(supervisor.MAX_DEATHS):
        await keeper.die("an adapter")
    keeper.refuse_in_quarantine("What obeys")
    with pytest.raises(WorkerUnavailable, match="It failed 3 times"):
        keeper.refuse_in_quarantine("It", "an adapter")
    keeper.forgive("an adapter")
    keeper.refuse_in_quarantine("It", "an adapter")


async def test_old_deaths_take_no_memory(
    keeper: ChildSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cause in ("one", "other"):
        await keeper.die(cause)
    assert keeper.recent_deaths("third") == []
    assert {*keeper._deaths} == {"one", "other"}
    monkeypatch.setattr(supervisor, "DEATHS_WINDOW_SECONDS", -1.0)
    await keeper.die("last")
    assert keeper._deaths == {}


async def test_what_its_parent_ends_did_not_die(keeper: ChildSupervisor) -> None:
    for end in (Child.kill, Child.aclose):
        if (ending := end(keeper.running())) is not None:
            await ending
    assert keeper.living() is None
    assert keeper.recent_deaths() == []


async def test_closing_while_it_waits_for_its_next_start_starts_nothing(
    keeper: ChildSupervisor,
) -> None:
    await keeper.die()
    waiting = asyncio.create_task(keeper.ready())
    await asyncio.sleep(0)
    await keeper.aclose()
    with pytest.raises(ChildDied, match="It was stopped"):
        await waiting
    assert keeper.pid is None


def test_a_child_of_an_isolated_front_loads_no_code_of_the_environment(tmp_path: Path) -> None:
    """The gateway has keys: a PYTHONPATH that the front ignores must not reach it either."""
    (tmp_path / "sitecustomize.py").write_text("print('loaded')")
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    program = (
        "import subprocess; from baton.ipc.process import command, environment;"
        "done = subprocess.run(command('tools'), env=environment(), stdin=subprocess.DEVNULL,"
        " capture_output=True); print(done.returncode, b'loaded' in done.stdout, done.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("0 False b''\n", "")
