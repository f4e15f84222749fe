"""Requests of which the model's process dies: these fail, all others are answered."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.errors import WorkerError, WorkerUnavailable
from baton.core.messages import AnswerFormat, Reading, Request, Retrying, Text, Usage
from baton.ipc import process, supervisor
from baton.platform import unix_sockets
from baton.workers.local import LocalWorker
from support.lent_models import STORY, borrowing_worker, lender
from support.local_worker_calls import CAPITAL, Answer, ask, listen, request, small

pytestmark = [pytest.mark.sampled(0.5), pytest.mark.local_model]

# The real runner, which dies when it reads one of these words; it notes its starts and such deaths.
RUNNER = """
import os, sys, time
from baton.workers.local.child import main, prompt, sampler
sampler.MAX_SECONDS = 0.5
def note(what):
    with open({notes!r}, "a") as notes: print(what, file=notes)
read = prompt.PromptReader.chat
def chat(reader, request):
    text = request.messages[-1]["content"]
    if "KILL" in text or "{always}" in text:
        note(text)
        time.sleep(1.2 if "SLOWLY" in text else 0)
        os.kill(os.getpid(), 9)
    if "EXIT" in text:
        note(text)
        print("my last words are", text, file=sys.stderr, flush=True)
        os._exit(1)
    return read(reader, request)
prompt.PromptReader.chat = chat
note("start")
main.main()
"""


class DeadlyWorker:
    """A worker of that runner; `always` is a word of which it dies as well."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, always: str = "KILL") -> None:
        self._notes = folder / "notes"
        code = RUNNER.format(notes=str(self._notes), always=always)
        monkeypatch.setattr(process, "command", lambda _: [sys.executable, "-P", "-c", code])
        monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", (0.01, 0.02, 0.03))
        self.worker = small(slots=4)

    @property
    def notes(self) -> list[str]:
        """Its starts, and the prompts of which it died."""
        return self._notes.read_text().splitlines() if self._notes.exists() else []

    def deaths_of(self, prompt: str) -> int:
        return self.notes.count(prompt)

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not is_so():  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)


Make = Callable[..., DeadlyWorker]


@pytest.fixture
async def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    made: list[DeadlyWorker] = []

    def make(always: str = "KILL") -> DeadlyWorker:
        made.append(DeadlyWorker(tmp_path, monkeypatch, always))
        return made[-1]

    yield make
    for one in made:
        await one.worker.aclose()


async def outcomes(worker: LocalWorker, *asked: str | Request) -> list[str]:
    """Ask all at once; return the outcome of each: its text, or its error's message."""
    requests = [request(one, max_tokens=8) if isinstance(one, str) else one for one in asked]
    found = await asyncio.gather(*(listen(worker, one) for one in requests), return_exceptions=True)
    return [one.text if isinstance(one, Answer) else str(one) for one in found]


async def test_a_request_that_kills_alone_fails_at_once_and_the_model_is_well(make: Make) -> None:
    deadly = make()
    worker = deadly.worker
    assert "Paris" in (await ask(worker, CAPITAL)).text
    with pytest.raises(
        WorkerError, match="crashed on this request, so it isn't tried again"
    ) as died:
        await ask(worker, "KILL")
    assert "perhaps because memory ran out" in died.value.message
    assert deadly.notes == ["start", "KILL"]
    assert worker.model.recent_deaths() == []
    answer = await ask(worker, CAPITAL)
    assert "Paris" in answer.text
    assert not any(isinstance(chunk, Retrying) for chunk in answer.chunks)


async def test_the_same_request_is_refused_once_it_has_killed_twice(make: Make) -> None:
    deadly = make()
    for _ in range(4):
        with pytest.raises(WorkerError, match="isn't tried again"):
            await ask(deadly.worker, "KILL")
    assert deadly.notes == ["start", "KILL"] * 2
    assert "Paris" in (await ask(deadly.worker, CAPITAL)).text
    other = replace(request("KILL"), client="other")
    assert "isn't tried again" in (await outcomes(deadly.worker, other))[0]
    assert deadly.deaths_of("KILL") == 3, "what one client asked shows to no other"


async def test_those_beside_it_are_answered(make: Make) -> None:
    deadly = make()
    await ask(deadly.worker, CAPITAL, max_tokens=1)
    found = await outcomes(deadly.worker, CAPITAL, "KILL", CAPITAL, CAPITAL)
    assert "isn't tried again" in found.pop(1)
    assert all("Paris" in text for text in found)
    assert deadly.deaths_of("KILL") <= 2
    assert deadly.worker.model.recent_deaths() == []


async def test_five_at_once_take_the_model_from_none(make: Make) -> None:
    deadly = make()
    deadly_prompts = [f"KILL {n}" for n in range(5)]  # more than it has slots
    found = await outcomes(deadly.worker, *deadly_prompts, *[CAPITAL] * 3)
    assert all("isn't tried again" in text for text in found[:5])
    assert all("Paris" in text for text in found[5:])
    assert max(map(deadly.deaths_of, deadly_prompts)) <= 2
    assert deadly.worker.model.recent_deaths() == []


async def test_ten_that_are_the_same_kill_twice(make: Make) -> None:
    deadly = make()
    await ask(deadly.worker, CAPITAL, max_tokens=1)
    found = await outcomes(deadly.worker, CAPITAL, *["KILL"] * 10)
    assert all("isn't tried again" in text for text in found[1:])
    assert "Paris" in found[0] or "What it had written is kept" in found[0]
    assert deadly.deaths_of("KILL") <= 2


SLOW = AnswerFormat("root ::= " + "(" * 9 + '"a"' + "){0,9}" * 9, "{}")


async def test_those_that_ask_for_a_slow_form_hold_others_up_the_least(make: Make) -> None:
    deadly = make()
    await ask(deadly.worker, CAPITAL, max_tokens=1)
    slow = replace(request("Hello"), shape=SLOW)
    ended = []

    async def end(asked: Request, name: str) -> str:
        [text] = await outcomes(deadly.worker, asked)
        ended.append(name)
        return text

    plain = request(CAPITAL, max_tokens=8)
    found = await asyncio.gather(end(slow, "slow"), end(plain, "plain"), end(plain, "plain"))
    assert "The form of an answer took too long" in found[0]
    assert all("Paris" in text for text in found[1:])
    assert ended == ["plain", "plain", "slow"]
    assert deadly.notes == ["start"] * 2, "it took the process with it when all had ended"
    assert deadly.worker.model.recent_deaths() == []


async def test_a_model_that_dies_of_every_request_is_left_alone(make: Make) -> None:
    deadly = make(always="")
    found = [(await outcomes(deadly.worker, f"Question {n}"))[0] for n in range(3)]
    assert "crashed on this request" in found[0]
    assert "killed from outside" in found[1]
    assert "is not started for now" in found[2]
    assert len(deadly.worker.model.recent_deaths()) >= supervisor.MAX_DEATHS


async def test_a_model_that_dies_of_all_requests_at_once_is_left_alone(make: Make) -> None:
    deadly = make(always="")
    await outcomes(deadly.worker, *(f"Question {n}" for n in range(5)))
    with pytest.raises(WorkerUnavailable, match="is not started for now"):
        await ask(deadly.worker, CAPITAL)


async def test_who_comes_while_one_is_tried_alone_waits_for_it(make: Make) -> None:
    deadly = make()
    await ask(deadly.worker, CAPITAL, max_tokens=1)
    first = asyncio.create_task(outcomes(deadly.worker, "KILL SLOWLY", CAPITAL))
    await deadly.until(lambda: deadly.deaths_of("KILL SLOWLY") == 2)
    assert ["Paris" in text for text in await outcomes(deadly.worker, CAPITAL, CAPITAL)] == [
        True
    ] * 2
    assert "Paris" in (await first)[1]
    assert deadly.deaths_of("KILL SLOWLY") == 2


async def test_one_is_tried_alone_once_others_are_answered(make: Make) -> None:
    deadly = make()
    worker = deadly.worker
    await ask(worker, CAPITAL, max_tokens=1)
    beside = asyncio.create_task(ask(worker, CAPITAL))
    async with aclosing(worker.stream(request("KILL"))) as kills:
        async for chunk in kills:
            if isinstance(chunk, Retrying):
                break
        assert "Paris" in (await beside).text
        async with aclosing(worker.stream(request(STORY, max_tokens=200))) as story:
            async for chunk in story:
                if isinstance(chunk, Text):
                    break
            killing = asyncio.create_task(anext(kills))
            assert isinstance([chunk async for chunk in story][-1], Usage)
        with pytest.raises(WorkerError, match="crashed on this request"):
            await killing
    assert deadly.deaths_of("KILL") == 2


async def test_who_left_is_suspected_too(make: Make) -> None:
    deadly = make()
    await ask(deadly.worker, CAPITAL, max_tokens=1)
    gone = asyncio.create_task(ask(deadly.worker, "KILL SLOWLY"))
    await deadly.until(lambda: deadly.deaths_of("KILL SLOWLY"))
    beside = asyncio.create_task(ask(deadly.worker, CAPITAL))
    await asyncio.sleep(0.05)
    gone.cancel()
    answer = await beside
    assert "Paris" in answer.text
    assert sum(isinstance(chunk, Retrying) for chunk in answer.chunks) == 1
    assert deadly.notes == ["start", "KILL SLOWLY", "start"]
    assert deadly.worker.model.recent_deaths() == []


async def test_what_a_process_said_last_is_for_no_client(make: Make) -> None:
    deadly = make()
    own, clients = await outcomes(
        deadly.worker, *(replace(request("EXIT"), client=client) for client in ("", "one"))
    )
    assert "my last words are EXIT" in own
    assert "last words" not in clients
    assert "Its process ended." in clients


@pytest.mark.skipif(not unix_sockets.IS_SUPPORTED, reason="models are not lent here")
async def test_one_that_is_alone_with_a_borrowed_model_may_be_innocent(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with lender(folder):
        worker = borrowing_worker(folder)
        text, killed = "", 0
        async with aclosing(worker.stream(request(CAPITAL))) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Reading) and not killed:
                    assert worker.model.is_borrowed
                    killed = worker.process or 0
                    assert killed
                    os.kill(killed, signal.SIGKILL)
                text += chunk.text if isinstance(chunk, Text) else ""
        assert "Paris" in text
        assert worker.process != killed
        assert not worker.model.is_borrowed
        assert worker.model.recent_deaths() == []
        await worker.aclose()
