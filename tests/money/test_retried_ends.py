"""Calls that end while the disk is full: recorded once it isn't, not held till the process ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from baton.core.errors import StoreError
from baton.core.ledger_types import Status
from baton.core.money import BilledTokens
from baton.money import Ledger, ledger as ledger_module
from baton.platform.sqlite import Connection
from support.ledger_processes import bill


class FullDisk:
    """Refuses the ledger's writes as long as it is full."""

    def __init__(self, ledger: Ledger) -> None:
        self.is_full = False
        self._change = ledger._database._change

    @contextmanager
    def change(self, connection: Connection) -> Iterator[None]:
        with self._change(connection):
            yield
            if self.is_full:
                raise StoreError("The disk is full.")


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda ledger, call: ledger.leave(call), Status.UNCONFIRMED),
        (lambda ledger, call: ledger.settle(call, BilledTokens(10, 10)), Status.SETTLED),
        (lambda ledger, call: ledger.void(call), Status.VOID),
    ],
)
async def test_calls_that_end_on_a_full_disk_are_recorded_once_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[..., object], status: Status
) -> None:
    monkeypatch.setattr(ledger_module, "RETRY_SECONDS", 0.01)
    ledger = Ledger(tmp_path / "ledger.db")
    disk = FullDisk(ledger)
    monkeypatch.setattr(ledger._database, "_change", disk.change)
    held = [await ledger.hold(bill()) for _ in range(3)]
    disk.is_full = True
    for hold in held:
        with pytest.raises(StoreError):
            await end(ledger, hold.call)  # type: ignore[misc]
    assert {charge.status for charge in await ledger.charges()} == {Status.HELD}
    disk.is_full = False
    async with asyncio.timeout(10):
        while {charge.status for charge in await ledger.charges()} != {status}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    other = await ledger.hold(bill())
    await ledger.void(other.call)
    await ledger.aclose()
