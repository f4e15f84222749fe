"""The history, opened for a command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from baton.cli.output import notify
from baton.core.errors import ConfigError
from baton.core.history_types import RunRecord
from baton.history import Store
from baton.platform.settings import find_paths

T = TypeVar("T")


@asynccontextmanager
async def user_history() -> AsyncIterator[Store]:
    """Open this person's history; what is wrong with it is said on stderr once."""
    store = Store.open(find_paths().database)
    try:
        if store.warning:
            notify(f"baton: {store.warning}")
        yield store
    finally:
        await store.aclose()


def with_store(work: Callable[[Store], Awaitable[T]]) -> T:
    """Run some work on the history and return what it returns."""

    async def run() -> T:
        async with user_history() as store:
            return await work(store)

    return asyncio.run(run())


async def find_run(store: Store, named: str | None) -> RunRecord:
    """Return the run that a person named, or the last one. Raises ConfigError."""
    if named is not None:
        return await store.run(named)
    if (last := await store.last_run()) is None:
        raise ConfigError("There was no run yet.", '`baton ask "Hello"` makes one.')
    return last
