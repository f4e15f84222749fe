"""A call on its way to its money, which other runs may hold."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from baton.core.aio import uninterrupted
from baton.core.errors import BatonError, BudgetExceeded, MoneyHeld
from baton.core.ledger_types import Hold, HoldRequest
from baton.core.ports import Ledger

POLL_SECONDS = 0.1
"""How often a call that waits for money asks whether it is its turn."""


class HoldTurn:
    """One call that takes money; call `leave` in the end, however it went."""

    def __init__(self, ledger: Ledger, bill: HoldRequest) -> None:
        self._ledger = ledger
        self._bill = bill
        self._ticket = 0

    @property
    def is_waiting(self) -> bool:
        """Whether it is in the queue."""
        return bool(self._ticket)

    async def take(self) -> Hold | None:
        """Set money aside, or return None while other runs hold it. Raises BudgetExceeded."""
        holding = asyncio.create_task(self._ask())
        try:
            return await asyncio.shield(holding)
        except asyncio.CancelledError:
            # It may be on disk all the same, and nothing will be sent for it.
            await uninterrupted(self._give_back(holding))
            raise

    async def _ask(self) -> Hold | None:
        if not self._bill.patience:
            return await self._ledger.hold(self._bill)
        got = await self._ledger.hold_in_turn(self._bill, self._ticket)
        if isinstance(got, Hold):
            self._ticket = 0
            return got
        self._ticket = got
        return None

    async def wait(self) -> Hold:
        """Wait until the money is set aside. Raises BudgetExceeded once that took too long."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._bill.patience
        while loop.time() < end:
            await asyncio.sleep(POLL_SECONDS)
            if (hold := await self.take()) is not None:
                return hold
        await self.leave()
        try:
            return await self._ledger.hold(self._bill)
        except MoneyHeld as held:  # it was waited for, so it is a refusal like any other
            raise BudgetExceeded(held.message, held.hint) from held

    async def leave(self) -> None:
        """Make way for those behind, if it still waits."""
        ticket, self._ticket = self._ticket, 0
        if ticket:
            await uninterrupted(self._ledger.leave_queue(ticket))

    async def _give_back(self, holding: asyncio.Task[Hold | None]) -> None:
        with suppress(BatonError):  # it was refused, or stays held until this process is gone
            if (hold := await holding) is not None:
                await self._ledger.void(hold.call)
