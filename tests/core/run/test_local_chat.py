"""The whole way of a prompt: orchestra, real starter model, store."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio

from baton.core import events as ev
from baton.core.messages import Prompt, TurnStatus
from baton.core.permissions import PromptLimits
from baton.core.ports import ConversationPosition
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.history import Store
from support.local_worker_calls import CAPITAL, small

pytestmark = pytest.mark.local_model

START = ConversationPosition()
STORY = Prompt("Write a very long story about a river.")


@pytest_asyncio.fixture
async def store() -> AsyncIterator[Store]:
    opened = Store(None)
    yield opened
    await opened.aclose()


@pytest_asyncio.fixture
async def orchestra(store: Store) -> AsyncIterator[Orchestra]:
    orchestra = Orchestra(Services({"small": small()}, store), "small")
    yield orchestra
    await orchestra.aclose()


async def execute(
    orchestra: Orchestra, prompt: str, place: ConversationPosition = START
) -> list[ev.Event]:
    async with orchestra.run(Prompt(prompt), place) as run:
        return [event async for event in run]


def started_event(events: list[ev.Event]) -> ev.Started:
    [event] = (event for event in events if isinstance(event, ev.Started))
    return event


async def test_a_conversation_continues_where_it_was(orchestra: Orchestra, store: Store) -> None:
    first = started_event(await execute(orchestra, CAPITAL))
    events = await execute(orchestra, "And of Germany?", ConversationPosition(first.conversation))
    [called] = (event for event in events if isinstance(event, ev.Called))
    assert called.cached > 30, "the first turn isn't read again"
    turns = await store.thread(first.conversation, started_event(events).answer)
    assert "Paris" in turns[1].text
    assert [turn.status for turn in turns] == [TurnStatus.DONE] * 4


def command(process: psutil.Process) -> list[str]:
    """Return a process's command line; none of one that has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.sampled(0.5)
async def test_what_a_killed_child_had_written_is_kept(orchestra: Orchestra, store: Store) -> None:
    seen = ""
    failed: ev.Failed | None = None
    async with orchestra.run(STORY) as run:
        async for event in run:
            if isinstance(event, ev.Started):
                begun = event
            if isinstance(event, ev.Failed):
                failed = event
            if isinstance(event, ev.StepText):
                if not seen:
                    ours = psutil.Process().children()  # another test's may not be gone yet
                    [child] = [one for one in ours if command(one)[-1:] == ["runner"]]
                    os.kill(child.pid, signal.SIGSEGV)
                seen += event.text
    assert failed is not None
    assert (failed.error, "SIGSEGV" in failed.message) == ("WorkerUnavailable", True)
    *_, answer = await store.thread(begun.conversation, begun.answer)
    assert (answer.text, answer.status) == (seen, TurnStatus.FAILED)
    after = await execute(orchestra, CAPITAL)
    assert isinstance(after[-1], ev.Finished)


async def test_a_stopped_answer_is_kept_and_the_worker_is_ready(
    orchestra: Orchestra, store: Store
) -> None:
    seen = ""
    async with orchestra.run(STORY, limits=PromptLimits(max_tokens=2000)) as run:
        async for event in run:
            if isinstance(event, ev.Started):
                begun = event
            if isinstance(event, ev.StepText):
                seen += event.text
                run.cancel()
    *_, answer = await store.thread(begun.conversation, begun.answer)
    assert answer.text.startswith(seen.rstrip()[:10])
    assert answer.status is TurnStatus.CANCELLED
    after = await execute(orchestra, CAPITAL)
    assert isinstance(after[-1], ev.Finished)
