"""A prompt played for the command line: what is printed where, and the exit code."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import pytest_asyncio

from baton.adapters.scripted import Script, ScriptedWorker
from baton.adapters.store import Store
from baton.cli.play import Manner, play, told
from baton.domain.chat import Card, Chunk, Finish, Prompt, Request, Text, TurnStatus, Usage
from baton.domain.errors import ContextTooLong, ModelFileError, WorkerUnavailable
from baton.engine.orchestra import Orchestra
from baton.engine.policy import Limits
from baton.engine.ports import Offer, Place

PLAINLY = Manner()
ANEW = Place()


@pytest_asyncio.fixture
async def store() -> AsyncIterator[Store]:
    opened = Store.open(None)
    yield opened
    await opened.aclose()


Said = Chunk | BaseException | float | str


def says(*items: Said) -> Script:
    chunks = [Text(item) if isinstance(item, str) else item for item in items]
    return lambda request: list(chunks)


async def played(
    store: Store, script: Script, manner: Manner = PLAINLY, place: Place = ANEW
) -> int:
    worker = ScriptedWorker(script)
    orchestra = Orchestra({"scripted": worker}, store, "scripted")
    return await play(orchestra, Prompt("Hello?"), place, Limits(), None, manner)


async def kept(store: Store) -> tuple[str, TurnStatus]:
    latest = await store.latest()
    assert latest is not None
    last = (await store.thread(latest))[-1]
    return last.text, last.status


@contextmanager
def stdout_is(descriptor: int) -> Iterator[None]:
    """Let this process's descriptor 1 be another one for a while."""
    saved = os.dup(1)
    os.dup2(descriptor, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


@pytest.mark.parametrize("form", ["text", "whole"])
async def test_stdout_gets_the_answer_and_nothing_else(
    store: Store, capfd: pytest.CaptureFixture[str], form: str
) -> None:
    assert await played(store, says("Par", "is\x1b[31m"), Manner(form)) == 0
    assert capfd.readouterr() == ("Paris\x1b[31m\n", "")  # a pipe gets the data as it is


async def test_json_is_one_object(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    assert await played(store, says("Paris\n"), Manner("json")) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert json.loads(out)["answer"] == "Paris\n"


async def test_events_are_lines_from_started_to_finished(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await played(store, says("Par", "is"), Manner("events")) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert (lines[0]["event"], lines[-1]["event"]) == ("Started", "Finished")
    assert [line["text"] for line in lines if line["event"] == "StepText"] == ["Par", "is"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ModelFileError("m.gguf is broken.", "Get it again."), 5),
        (WorkerUnavailable("scripted died.", "Try again."), 6),
        (ContextTooLong(9000, 4096), 6),
    ],
)
async def test_a_failure_is_a_sentence_and_a_code_and_keeps_the_text(
    store: Store, capfd: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    assert await played(store, says("Par", error)) == code
    out, err = capfd.readouterr()
    assert out == "Par\n"
    assert err.startswith("baton: ")
    assert err.count("\n") == 1
    assert await kept(store) == ("Par", TurnStatus.FAILED)


async def test_a_failure_with_json_is_an_object_too(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    script = says("Par", WorkerUnavailable("scripted died."))
    assert await played(store, script, Manner("json")) == 6
    shown = json.loads(capfd.readouterr().out)
    assert (shown["status"], shown["answer"]) == ("failed", "Par")


async def test_a_cut_answer_is_never_silent(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await played(store, says("Once", Usage(9, 1, Finish.LENGTH))) == 0
    assert "cut at its length cap" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_signal_ends_it_in_good_order(
    store: Store, capfd: pytest.CaptureFixture[str], number: signal.Signals, form: str
) -> None:
    for pause in (0.2, 0.21):  # as `timeout` does it: to the process, then to its group
        asyncio.get_running_loop().call_later(pause, os.kill, os.getpid(), number)
    assert await played(store, says("Par", 30.0, "is"), Manner(form)) == 128 + number
    await asyncio.sleep(0.1)  # the second one may come after the end, and must do no harm
    out = capfd.readouterr().out
    assert (json.loads(out)["status"] == "cancelled") if form == "json" else (out == "Par\n")
    assert await kept(store) == ("Par", TurnStatus.CANCELLED)


async def test_a_closed_pipe_stops_the_writing_and_is_no_failure(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    slowly: list[Said] = ["is ", 0.05]
    with stdout_is(writing):
        code = await played(store, says("Par", *slowly * 600))
    os.close(writing)
    assert code == 0
    assert capfd.readouterr().err == ""
    text, status = await kept(store)
    assert text.startswith("Par")
    assert status is TurnStatus.CANCELLED


async def test_a_full_disk_behind_stdout_is_told_and_the_answer_kept(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with stdout_is(full):
        code = await played(store, says("Paris"), Manner("whole"))
    os.close(full)
    assert code == 1
    told = capfd.readouterr().err
    assert "No space left on device" in told
    assert "in your history" in told
    assert await kept(store) == ("Paris", TurnStatus.DONE)


async def test_a_reader_that_pauses_holds_up_neither_the_run_nor_the_way_out(
    store: Store,
) -> None:
    reading, writing = os.pipe()
    asyncio.get_running_loop().call_later(1.0, os.kill, os.getpid(), signal.SIGINT)
    with stdout_is(writing):
        code = await asyncio.wait_for(played(store, says("x" * 200_000, 0.1, "y")), 10)
        assert code == 128 + signal.SIGINT
        assert await kept(store) == ("x" * 200_000 + "y", TurnStatus.DONE)
        os.close(reading)  # lets the thread that still writes go
        await asyncio.sleep(0.1)
    os.close(writing)


async def test_turns_that_no_longer_fit_are_left_out_only_when_told_to(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    def forgetful(request: Request) -> list[Chunk | BaseException | float]:
        if len(request.messages) > 2:
            return [ContextTooLong(9000, 4096)]
        return [Text("word " * 2000)]

    assert await played(store, forgetful, Manner("whole")) == 0
    place = Place(await store.latest())
    assert await played(store, says("two"), place=place) == 0
    capfd.readouterr()
    assert await played(store, forgetful, place=place) == 6
    assert "--drop-oldest" in capfd.readouterr().err
    assert await played(store, forgetful, Manner(drop_oldest=True), place) == 0
    assert len(await store.thread(str(place.conversation))) == 8


def test_an_offer_names_no_less_than_it_can_cost_and_no_more_than_is_left() -> None:
    card = Card("gpt", "cloud", "gpt-5-mini")
    offer = Offer(card, "Why not?", "You: Hi", "", 14_400_000, 15_600_000, "day")
    assert "at most $0.02 · $0.01 left today" in told(offer)
