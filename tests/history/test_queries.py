"""How fast workers write here and when they were last asked, by the history."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from baton.core import events as ev
from baton.core.labels import Label
from baton.core.messages import Finish, Prompt, Purpose
from baton.core.ports import ConversationPosition
from baton.history import Store


@pytest_asyncio.fixture
async def store() -> AsyncIterator[Store]:
    opened = Store.open(None)
    yield opened
    await opened.aclose()


async def called(
    store: Store,
    worker: str,
    tokens: int,
    seconds: float,
    first_token: float | None = 1.0,
    at: float = 5.0,
) -> None:
    begun = await store.begin(Prompt("Hello"), ConversationPosition(), Label.CLOUD)
    call = ev.Called(
        at, 1, worker, Purpose.STEP, 30, tokens, 0, 0, 0, True, seconds, first_token, 0.5,
        Finish.STOP,
    )  # fmt: skip
    await store.append(begun.run, call)
    await store.append(begun.run, ev.Finished(at))


async def test_speed_is_what_was_written_after_the_first_token(store: Store) -> None:
    await called(store, "small", 101, 3.0)
    await called(store, "small", 51, 2.0)
    [(worker, (speed, last))] = (await store.worker_usage()).items()
    assert worker == "small"
    assert speed == pytest.approx(150 / 3.0)
    assert abs(last - time.time()) < 60


async def test_a_call_that_wrote_next_to_nothing_says_nothing_of_speed(store: Store) -> None:
    await called(store, "small", 3, 1.001)
    await called(store, "cut", 40, 2.0, first_token=None)
    assert [speed for speed, _ in (await store.worker_usage()).values()] == [None, None]


async def test_the_newest_calls_count_since_a_machine_may_change(store: Store) -> None:
    for _ in range(3):
        await called(store, "small", 11, 11.0)
    for _ in range(20):
        await called(store, "small", 101, 2.0)
    assert (await store.worker_usage())["small"][0] == pytest.approx(100.0)


@pytest.mark.parametrize("at", [1e300, -1e300, 1e12])
async def test_an_import_may_say_anything(store: Store, at: float) -> None:
    await called(store, "small", 10**9, 1e-9, 0.0, at=at)
    [(speed, last)] = (await store.worker_usage()).values()
    assert speed is None
    assert 0 < last <= time.time()


async def test_nothing_was_asked_yet(store: Store) -> None:
    assert await store.worker_usage() == {}
