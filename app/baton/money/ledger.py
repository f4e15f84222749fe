"""The ledger: an asyncio façade over one connection on one background thread."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path

from baton.core.errors import ConfigError, StoreError
from baton.core.hold_decision import MAX_AMOUNT_NANOS
from baton.core.ledger_types import (
    Charge,
    DayCharge,
    Egress,
    Hold,
    HoldRequest,
    Scope,
    Standing,
    UsageRow,
)
from baton.core.money import BilledTokens
from baton.money import call_funds, queries
from baton.money.call_funds import LedgerContext
from baton.money.ledger_file import (
    LEDGER,
    LedgerProgress,
    LedgerRecords,
    is_mounted,
    is_same_file,
    open_ledger,
    read_progress,
)
from baton.money.queries import UsageGrouping
from baton.platform.database_thread import DatabaseThread
from baton.platform.processes import Owner, current_process, is_alive
from baton.platform.sqlite import Connection, transaction

_PAGE_ROWS = 100

RETRY_SECONDS = 2.0
"""How long after each failure the end of a call is recorded again."""


class Ledger:
    """Money under its ceilings and what left this machine, in one SQLite file for all Batons.

    Every method returns only when its change is on disk. Methods raise StoreError when the disk
    won't have it, ConfigError for what the user typed wrong, and LookupError for a call that isn't
    on its way: settling twice is a bug. Work is done in the order of the calls; the event loop
    never waits for the disk.
    """

    def __init__(
        self,
        path: Path | None,
        clock: Callable[[], float] = time.time,
        *,
        records: Path | None = None,
        history: Path | None = None,
        reread: Callable[[], Mapping[Scope, int]] = dict,
        bounds: Mapping[Scope, tuple[int, str]] = {},
    ) -> None:
        """Begin to open the ledger at this path (None: in memory, forgotten at the end).

        Returns at once. What goes wrong is raised by the first call. A ceiling that is
        set once the ledger is open, by any Baton, rules over those that bills bring along. Before
        that it is in the settings, which `reread` returns: the lower of both rules. `bounds`
        are the environment's ceilings and their variables, which nothing raises. A folder of
        `records` and the `history` remember a ledger that is lost or set back.
        """
        self._path = path
        self._clock = clock
        self._memory = None if path is None else LedgerRecords(path, records, history)
        opening = partial(open_ledger, self._memory)
        self._database = DatabaseThread(path, LEDGER, opening, self._recorded)
        self._read, self._write = self._database.read, self._database.write
        self._bounds = bounds
        self._unended = deque[Callable[[Connection], int | None]]()
        self._retrying: asyncio.Task[None] | None = None
        self._is_file_checked = False
        self._reread = self._database.submit(reread)
        self._database.submit(self._recover)

    @property
    def warning(self) -> str:
        """What the user must know about the opening, in a sentence, or "". Waits for it."""
        return self._database.opened.warning

    async def _end(self, work: Callable[[Connection], int | None]) -> int | None:
        """Record how a call ended; if the disk won't have it, as soon as it will."""
        try:
            return await self._write(work)
        except StoreError:
            self._unended.append(work)
            if self._retrying is None or self._retrying.done():
                self._retrying = asyncio.create_task(self._retry())
            raise

    async def _retry(self) -> None:
        while self._unended:
            await asyncio.sleep(RETRY_SECONDS)
            with suppress(StoreError):
                while self._unended:
                    with suppress(LookupError):  # another Baton has ended it by now
                        await self._write(self._unended[0])
                    self._unended.popleft()

    @contextmanager
    def _recorded(self, connection: Connection) -> Iterator[None]:
        """Change the ledger, then record beside it how far it has come."""
        with transaction(connection):
            self._require_growth(connection)
            self._is_file_checked = False
            for owner in self._lost_owners(connection):
                call_funds.take_over_calls(connection, owner, self._clock())
            yield
            progress = read_progress(connection)
        self._progress = progress  # not before the commit, which a full disk refuses
        if self._memory is not None:
            self._memory.record(self._progress)

    # What a call needs (core.ports.Ledger)

    async def hold(self, bill: HoldRequest) -> Hold:
        """Set the most a call can cost aside, before anything is sent. Raises BudgetExceeded."""

        def work(connection: Connection) -> Hold:
            self._require_file()
            return call_funds.hold(connection, bill, self._context())

        return await self._write(work)

    async def hold_in_turn(self, bill: HoldRequest, ticket: int = 0) -> Hold | int:
        """Set money aside, or return the ticket with which the call waits for other runs' money.

        Ask again with it, now and then, until the money is held or `leave_queue` is called. Raises
        BudgetExceeded.
        """

        def is_turn_reached(connection: Connection) -> bool:
            self._take_over(connection)
            with transaction(connection, "DEFERRED"):
                return call_funds.is_turn_reached(connection, bill, self._context(), ticket)

        def work(connection: Connection) -> Hold | int:
            self._require_file()
            return call_funds.hold_in_turn(connection, bill, self._context(), ticket)

        if ticket and not await self._database.run(is_turn_reached):
            return ticket
        return await self._write(work)

    async def leave_queue(self, ticket: int) -> None:
        """Wait no more with a ticket."""
        await self._write(lambda c: call_funds.leave_queue(c, ticket))

    async def quote(self, bill: HoldRequest) -> Hold:
        """Return what `hold` would set aside now, and set nothing aside. Raises BudgetExceeded.

        What other runs hold counts as there where the call may wait for it.
        """

        def work(connection: Connection) -> Hold:
            self._take_over(connection)
            with transaction(connection, "DEFERRED"):
                return call_funds.quote_hold(connection, bill, self._context())

        return await self._database.run(work)

    async def settle(self, call: str, used: BilledTokens) -> int:
        """Charge what the provider counted at a genuine end; return that cost.

        More than was held is charged too, and freezes the cloud. What was left or taken for lost
        before stays unconfirmed, and is charged no less.
        """
        cost = await self._end(lambda c: call_funds.settle_call(c, call, used, self._clock()))
        return cost or 0

    async def leave(self, call: str, most: BilledTokens | None = None) -> int:
        """Charge what the call costs at most, or all that was held; unconfirmed. Return it.

        More than was held, which only an answer past its cap can cost, freezes the cloud.
        """
        cost = await self._end(
            lambda c: call_funds.charge_unconfirmed(c, call, self._clock(), most)
        )
        return cost or 0

    async def void(self, call: str) -> None:
        """Give back what was held: nothing was sent, or it was refused at no cost."""
        await self._end(lambda c: call_funds.void_call(c, call, self._clock()))

    async def sent(self, call: str, destination: str, body: bytes) -> None:
        """Record exactly what is about to be sent for a call, keys removed. Then send it, once."""

        def work(connection: Connection) -> None:
            self._require_file()
            call_funds.record_sent(connection, call, destination, body, self._clock())

        await self._write(work)

    async def record_unsent(self, call: str) -> None:
        """Record that what `sent` announced did not leave."""

        def work(connection: Connection) -> None:
            call_funds.record_unsent(connection, call, self._clock())

        await self._write(work)

    async def standing(
        self,
        ceilings: Mapping[Scope, int],
        session: str | None = None,
        run: str | None = None,
        client: str = "",
    ) -> Standing:
        """Return how the scopes stand now, under this process's ceilings or newer ones.

        `run` is the first of the runs that continue each other, and share one ceiling; `client`
        is the access token that it came with, or "".
        """
        names = {Scope.RUN: run, Scope.SESSION: session, Scope.TOKEN: client or None}

        def work(connection: Connection) -> Standing:
            self._take_over(connection)
            with transaction(connection, "DEFERRED"):
                return call_funds.read_standing(connection, ceilings, names, self._context())

        return await self._database.run(work)

    # What the user decides

    async def set_ceiling(self, scope: Scope, amount: int | None) -> None:
        """Set a ceiling for all Batons that run now (None: none). Raises ConfigError."""
        if scope in (Scope.RUN, Scope.TOKEN):
            raise ConfigError(
                f"The ceiling for {scope.phrase} is its own.",
                "Use --budget with `baton ask` or `baton serve`.",
            )
        if amount is not None and not 0 <= amount <= MAX_AMOUNT_NANOS:
            raise ConfigError(
                "A ceiling is from 0 to 1000000 dollars.", "For example: `baton budget set day 2`."
            )
        await self._write(lambda c: call_funds.set_ceiling(c, scope, amount, self._clock()))

    async def release(self, call: str) -> int:
        """Take an unconfirmed charge back, by (the beginning of) its call's id; return it.

        Raises ConfigError for anything else.
        """
        return await self._write(lambda c: call_funds.release_call(c, call, self._clock()))

    async def release_all(self) -> int:
        """Take all unconfirmed charges back; return their sum."""
        return await self._write(lambda c: call_funds.release_all_calls(c, self._clock()))

    async def lift_freeze(self) -> bool:
        """Lift a freeze; return whether there was one."""
        return await self._write(lambda c: call_funds.thaw(c, self._clock()))

    async def forget(self, runs: Sequence[str]) -> None:
        """Remove what these runs sent so that none of it remains; charges and hashes stay."""
        await self._write(lambda c: call_funds.forget_bodies(c, list(runs)))
        await self._database.wipe_copies()

    # What front ends show

    async def unconfirmed(self) -> list[Charge]:
        """Return the calls whose cost is unconfirmed, newest first."""
        return await self._read(queries.unconfirmed)

    async def charges(self, run: str | None = None, limit: int = 200) -> list[Charge]:
        """Return the newest calls, newest first; of the runs whose id begins so, if given."""
        return await self._read(queries.charges, run, limit)

    async def usage(self, by: UsageGrouping, since: float | None = None) -> list[UsageRow]:
        """Return what calls cost in sum: days in order, workers and purposes dearest first."""
        return await self._read(queries.usage, by, since)

    async def day_charges(self, since: float) -> list[DayCharge]:
        """Return what each worker was charged on each day, the days in their order."""
        return await self._read(queries.day_charges, since)

    async def egress(self, run: str | None = None, limit: int = 200) -> list[Egress]:
        """Return what left last, newest first; of the runs whose id begins so, if given."""
        return await self._read(queries.egress, run, limit)

    async def find_egress(self, key: int) -> Egress:
        """Return one request that left. Raises ConfigError."""
        return await self._read(queries.find_egress, key)

    async def every_egress(self) -> AsyncIterator[Egress]:
        """Yield everything that ever left, oldest first."""
        last = 0
        while page := await self._read(queries.egress_after, last, _PAGE_ROWS):
            for one in page:
                yield one
            last = page[-1].key

    async def aclose(self) -> None:
        """Close the file. Nothing may be called afterwards."""
        if self._retrying is not None:
            self._retrying.cancel()
        await self._database.aclose()

    # On the background thread

    @cached_property
    def _progress(self) -> LedgerProgress:
        return self._database.opened.progress

    @cached_property
    def _owner(self) -> Owner:
        return current_process()

    def _context(self) -> LedgerContext:
        since, reread = self._database.opened.since, self._reread.result()
        return LedgerContext(self._clock(), self._owner, since, reread, self._bounds)

    def _require_file(self) -> None:
        """Spend nothing that the next Baton wouldn't know of. Raises StoreError.

        Once is enough for all that is committed together.
        """
        if self._is_file_checked:
            return
        files = self._database.opened.files
        if not all(is_same_file(path, file) for path, file in files.items()):
            raise StoreError(
                "The ledger, or the log beside it, was moved away while it was in use, so nothing "
                "was sent.",
                "Start Baton again.",
            )
        if self._path is not None and self._path.stat().st_nlink > 1:
            raise StoreError(
                f"The ledger {self._path} has another name as well (a hard link): what is spent "
                "under one name is not known under the other, so nothing was sent.",
                "Remove the other name.",
            )
        if self._path is not None and is_mounted(self._path):
            raise StoreError(
                f"The ledger {self._path} is mounted by itself: what is spent where it comes from "
                "is not known here, so nothing was sent.",
                "Mount its whole folder.",
            )
        self._is_file_checked = True

    def _require_growth(self, connection: Connection) -> None:
        """Write nothing into a file that forgot what this process wrote. Raises StoreError."""
        if read_progress(connection).rows < self._progress.rows:
            raise StoreError(
                "The ledger was replaced by an older one while it was in use, so nothing more was "
                "sent or recorded.",
                "Start Baton again.",
            )

    def _recover(self) -> None:
        """End what killed processes left on its way; what goes wrong shows at the next call."""
        if self._database.is_open:
            self._database.run_on_thread(self._take_over)

    def _take_over(self, connection: Connection) -> None:
        """End the calls of processes that are gone. Until then they count as held."""
        if self._lost_owners(connection):
            with self._recorded(connection):
                pass  # every change begins with it

    def _lost_owners(self, connection: Connection) -> list[Owner]:
        owners = call_funds.call_owners(connection)
        return [owner for owner in owners if owner != self._owner and not is_alive(owner)]
