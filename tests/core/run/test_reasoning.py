"""Thoughts in a run: they are told and counted, and are no part of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from baton.core import events as ev
from baton.core.messages import Chunk, Finish, Request, Text, Thinking, TurnStatus, Usage
from baton.core.run.policy import PromptLimits
from support.scripted_plans import Act, Actor, house, local

ONE = PromptLimits(strategy="single")


def thinks(*chunks: Chunk) -> Act:
    async def act(request: Request) -> AsyncGenerator[Chunk]:
        for chunk in chunks:
            yield chunk

    return act


async def test_they_are_told_and_counted_and_not_kept() -> None:
    worker = Actor(local(), thinks(Thinking(5, 50.0), Text("Paris", 1), Usage(10, 6, Finish.STOP)))
    async with house(worker) as here:
        view = await here.play(None, limits=ONE)
        progress = [e for e in here.events if isinstance(e, ev.Progress)]
        assert [(e.phase, e.tokens_per_second) for e in progress] == [(ev.Phase.THINKING, 50.0)]
        assert view.answer == "Paris"
        assert await here.answer() == ("Paris", TurnStatus.DONE)
        assert view.calls[-1].tokens_out == 6


async def test_an_answer_cut_within_them_is_told_as_cut() -> None:
    worker = Actor(local(), thinks(Thinking(5, 50.0), Usage(10, 5, Finish.LENGTH)))
    async with house(worker) as here:
        view = await here.play(None, limits=ONE)
        assert await here.answer() == ("", TurnStatus.CUT)
        assert view.steps[0].is_cut
        assert view.calls[-1].finish is Finish.LENGTH


async def test_those_of_a_stopped_answer_count_too() -> None:
    async def act(request: Request) -> AsyncGenerator[Chunk]:
        yield Thinking(5, 50.0)
        yield Thinking(7, 50.0)
        yield Text("A", 1)
        await asyncio.Event().wait()

    async with house(Actor(local(), act)) as here:
        await here.watch(here.begin(None, limits=ONE), lambda e: isinstance(e, ev.StepText))
        kept = await here.record()
        called = [event for event in kept.events if isinstance(event, ev.Called)]
        assert [call.tokens_out for call in called] == [13]
