"""The thread that does a database's work, shared by the history and the ledger."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from baton.platform.sqlite import (
    Connection,
    DatabaseDamaged,
    DatabaseWording,
    check_stamp,
    explain_errors,
    transaction,
)

P = ParamSpec("P")
T = TypeVar("T")


class OpenedDatabase(Protocol):
    """An open database."""

    @property
    def connection(self) -> Connection:
        """The connection, used by one thread only."""
        ...


Opened = TypeVar("Opened", bound=OpenedDatabase)


class DatabaseThread(Generic[Opened]):
    """One connection on one background thread: work is done in the order of the calls.

    The event loop never waits for the disk. Opening begins at once; what goes wrong there is raised
    by the first call. Changes are made inside `change`.
    """

    def __init__(
        self,
        path: Path | None,
        wording: DatabaseWording,
        open_it: Callable[[], Opened],
        change: Callable[[Connection], AbstractContextManager[None]] = transaction,
    ) -> None:
        self.path = path
        self._wording = wording
        self._change = change
        self._waiting = deque[tuple[Callable[[Connection], Any], Future[Any]]]()
        self._thread = ThreadPoolExecutor(1, f"baton-{wording.name}")
        self._opened = self._thread.submit(open_it)

    @property
    def opened(self) -> Opened:
        """The open database. Waits for it; raises what opening raised."""
        return self._opened.result()

    @property
    def is_open(self) -> bool:
        """Whether opening went well. Waits for it."""
        return self._opened.exception() is None

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Have the thread do something else in its turn."""
        return self._thread.submit(work)

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Return what a piece of work returns, which sees to its own transactions."""
        return await self._in_turn(partial(self.run_on_thread, work))

    async def _in_turn(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def run_on_thread(self, work: Callable[[Connection], T]) -> T:
        """Do a piece of work, called on the thread itself. Raises StoreError."""
        connection = self.opened.connection
        try:
            with explain_errors(self.path, self._wording):
                return work(connection)
        except DatabaseDamaged:
            if self.path is not None:
                check_stamp(self.path).unlink(missing_ok=True)  # the next start looks closely
            raise

    async def read(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what a function reads in one transaction."""

        def read(connection: Connection) -> T:
            with transaction(connection, "DEFERRED"):
                return work(connection, *args, **kwargs)

        return await self.run(read)

    async def write(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what a function returns once its changes are on disk, all of them or none.

        All that wait at that moment are committed together: the disk takes as long for one.
        """
        written = Future[T]()
        self._waiting.append((lambda connection: work(connection, *args, **kwargs), written))
        try:
            await self._in_turn(self._write_waiting)
        except asyncio.CancelledError:
            written.cancel()  # no effect once it is being written
            raise
        return written.result()

    def _write_waiting(self) -> None:
        changes = [self._waiting.popleft() for _ in range(len(self._waiting))]
        self._write([one for one in changes if one[1].set_running_or_notify_cancel()])

    def _write(self, changes: Sequence[tuple[Callable[[Connection], Any], Future[Any]]]) -> None:
        """Commit changes together; where one of several fails, one by one."""

        def commit(connection: Connection) -> list[Any]:
            with self._change(connection):
                return [work(connection) for work, _ in changes]

        try:
            results = self.run_on_thread(commit) if changes else []
        except BaseException as error:
            if len(changes) == 1:
                return changes[0][1].set_exception(error)
            for one in changes:
                self._write([one])
        else:
            for (_, written), result in zip(changes, results, strict=True):
                written.set_result(result)

    async def wipe_copies(self) -> None:
        """Remove the copies of deleted texts in the log and in backups from before a migration.

        The room that they took is given back.
        """

        def wipe(connection: Connection) -> None:
            connection.execute("PRAGMA incremental_vacuum").fetchall()  # a page freed for each row
            _empty_log(connection)
            if self.path is not None:
                for backup in self.path.parent.glob(f"{self.path.name}.before-*"):
                    backup.unlink(missing_ok=True)

        await self.run(wipe)

    async def empty_log(self) -> None:
        """Remove the copies of deleted texts in the log."""
        await self.run(_empty_log)

    async def aclose(self) -> None:
        """Close the file. Nothing may be called afterwards."""
        self._thread.submit(self._close)
        await asyncio.to_thread(self._thread.shutdown)

    def _close(self) -> None:
        if self.is_open:
            self.opened.connection.close()


def _empty_log(connection: Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
