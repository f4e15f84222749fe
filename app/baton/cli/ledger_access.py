"""The ledger, opened for a command, and what it holds as a person reads it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from baton.cli.output import notify
from baton.compose import open_ledger
from baton.money import Ledger
from baton.platform.settings import find_paths

T = TypeVar("T")


@asynccontextmanager
async def user_ledger() -> AsyncIterator[Ledger]:
    """Open this person's ledger; what is wrong with it is said on stderr once."""
    ledger = open_ledger(find_paths())
    try:
        if ledger.warning:
            notify(f"baton: {ledger.warning}")
        yield ledger
    finally:
        await ledger.aclose()


def with_ledger(work: Callable[[Ledger], Awaitable[T]]) -> T:
    """Run some work on the ledger and return what it returns."""

    async def run() -> T:
        async with user_ledger() as ledger:
            return await work(ledger)

    return asyncio.run(run())


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
    """Write a time for a person."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
