"""Thoughts in a run: they are reported and counted, and aren't part of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from baton.core import events as ev
from baton.core.messages import Chunk, Finish, Request, Text, Thinking, TurnStatus, Usage
from baton.core.permissions import PromptLimits
from support.scripted_plans import Responder, StubWorker, local, open_orchestra

ONE = PromptLimits(strategy="single")


def thinks(*chunks: Chunk) -> Responder:
    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        for chunk in chunks:
            yield chunk

    return respond


async def test_they_are_reported_and_counted_and_not_kept() -> None:
    worker = StubWorker(
        local(), thinks(Thinking(5, 50.0), Text("Paris", 1), Usage(10, 6, Finish.STOP))
    )
    async with open_orchestra(worker) as session:
        view = await session.execute(None, limits=ONE)
        progress = [e for e in session.events if isinstance(e, ev.Progress)]
        assert [(e.phase, e.tokens_per_second) for e in progress] == [(ev.Phase.THINKING, 50.0)]
        assert view.answer == "Paris"
        assert await session.answer() == ("Paris", TurnStatus.DONE)
        assert view.calls[-1].tokens_out == 6


async def test_an_answer_cut_within_them_is_reported_as_cut() -> None:
    worker = StubWorker(local(), thinks(Thinking(5, 50.0), Usage(10, 5, Finish.LENGTH)))
    async with open_orchestra(worker) as session:
        view = await session.execute(None, limits=ONE)
        assert await session.answer() == ("", TurnStatus.CUT)
        assert view.steps[0].is_cut
        assert view.calls[-1].finish is Finish.LENGTH


async def test_those_of_a_stopped_answer_count_too() -> None:
    async def respond(request: Request) -> AsyncGenerator[Chunk]:
        yield Thinking(5, 50.0)
        yield Thinking(7, 50.0)
        yield Text("A", 1)
        await asyncio.Event().wait()

    async with open_orchestra(StubWorker(local(), respond)) as session:
        await session.watch(session.begin(None, limits=ONE), lambda e: isinstance(e, ev.StepText))
        kept = await session.record()
        called = [event for event in kept.events if isinstance(event, ev.Called)]
        assert [call.tokens_out for call in called] == [13]
