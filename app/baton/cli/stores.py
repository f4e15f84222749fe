"""The history and the ledger, opened for a command."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from baton.cli.output import notify
from baton.core.errors import ConfigError
from baton.core.sanitiser import one_line
from baton.platform.paths import find_paths

if TYPE_CHECKING:
    from baton.core.history_types import RunRecord
    from baton.history import Store
    from baton.money import Ledger

S = TypeVar("S")
T = TypeVar("T")


@asynccontextmanager
async def user_history() -> AsyncIterator[Store]:
    """Open the user's history; report on stderr what is wrong with it."""
    from baton.history import Store

    async with aclosing(Store(find_paths().database)) as store:
        if store.warning:
            notify(f"baton: {store.warning}")
        yield store


def with_store(work: Callable[[Store], Awaitable[T]]) -> T:
    """Run some work on the history and return what it returns."""

    return asyncio.run(_work_on(user_history(), work))


async def _work_on(opened: AbstractAsyncContextManager[S], work: Callable[[S], Awaitable[T]]) -> T:
    async with opened as store:
        return await work(store)


_CLIENT_ID = re.compile(r"(?:chatcmpl-|cmpl-|msg_|req_|resp_)([0-9a-f]{12})")
"""A run's id as programs that `baton serve` serves log it."""


async def find_run(store: Store, named: str | None) -> RunRecord:
    """Return the run that the user named, also by a program's id of it, or the last one.

    Raises ConfigError.
    """
    if named is not None:
        asked = _CLIENT_ID.fullmatch(named.strip())
        try:
            return await store.runs.get(asked[1] if asked else named)
        except ConfigError as error:
            if asked is None:
                raise
            raise ConfigError(
                f"The request {named.strip()} has no run here: {_refusal(asked[1])}."
            ) from error
    if (last := await store.runs.last()) is None:
        raise ConfigError("There was no run yet.", '`baton ask "Hello"` makes one.')
    return last


def _refusal(request: str) -> str:
    """Say what the log of `baton serve` has of a request without a run."""
    for name in ("serve.log", "serve.log.1"):
        with suppress(OSError):
            for line in (find_paths().logs / name).read_text("utf-8", "replace").splitlines():
                if f"(req_{request})" in line:
                    reason = " ".join(one_line(line, 400).split()).rpartition(" (req_")[0]
                    return f"it was refused. The log says: {reason.rstrip('.')}"
    return "it was refused, or isn't kept"


@asynccontextmanager
async def user_ledger() -> AsyncIterator[Ledger]:
    """Open the user's ledger; report on stderr what is wrong with it."""
    from baton.compose import open_ledger

    async with aclosing(open_ledger(find_paths())) as ledger:
        if ledger.warning:
            notify(f"baton: {ledger.warning}")
        yield ledger


def with_ledger(work: Callable[[Ledger], Awaitable[T]]) -> T:
    """Run some work on the ledger and return what it returns."""

    return asyncio.run(_work_on(user_ledger(), work))


def format_columns(
    rows: Sequence[Sequence[str]], left: int = 1, *, words_last: bool = False
) -> str:
    """Write rows in columns: the first ones (`left`) aligned left, the others right.

    With `words_last` the last one holds words and is aligned left, too.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = len(widths) - 1 if words_last else -1
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        aligned = [
            cell.ljust(width) if place < left or place == words else cell.rjust(width)
            for place, (cell, width) in enumerate(cells)
        ]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def format_time(seconds: float) -> str:
    """Write a time for the user."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
