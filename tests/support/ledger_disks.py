"""Programs that spend on a disk of their own: a small one, or one that is mounted twice."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from baton.core.errors import StoreError
from baton.core.ledger_types import Scope, Status
from baton.core.money import BilledTokens
from baton.money import Ledger
from support.ledger_observer import Observer
from support.ledger_processes import DOLLAR, bill
from support.private_mounts import mount_small_disk, mounted_alone


def on_small_disk(disk: Path) -> None:
    """Spend with less and less room on a disk that only this process sees; print what came."""
    print(json.dumps(asyncio.run(_spend(disk)) if mount_small_disk(disk, 8 << 20) else None))


async def _spend(disk: Path) -> dict[str, Any]:
    path, records, filling = disk / "ledger.db", disk / "ledgers", disk / "filling"
    ledger = Ledger(path, records=records)
    sent: dict[str, int] = {}
    sentences: set[str] = set()
    for room in (4_000_000, 400_000, 60_000, 20_000, 8_000, 4_096, 1, 0):
        _fill(disk, filling, room)
        for _ in range(60):
            hold = None
            try:
                hold = await ledger.hold(bill({Scope.DAY: 1000 * DOLLAR}))
                await ledger.sent(hold.call, "https://cloud.invalid", os.urandom(900))
                sent[hold.call] = hold.amount  # what a provider may bill from now on
                sent[hold.call] = await ledger.settle(hold.call, BilledTokens(10, 10))
            except StoreError as error:
                sentences.add(str(error))
                break
    filling.unlink()
    await ledger.aclose()
    ledger = Ledger(path, records=records)
    standing = await ledger.standing({})
    hold = await ledger.hold(bill({Scope.DAY: 1000 * DOLLAR}))
    await ledger.void(hold.call)
    charges = {charge.call: charge for charge in await ledger.charges(limit=10_000)}
    await ledger.aclose()
    with Observer(path) as observer:
        observer.must_be_sound()
    return {
        "sent": sent,
        "charges": {
            call: (one.held if one.status is Status.HELD else one.charged)
            for call, one in charges.items()
        },
        "sentences": sorted(sentences),
        "warning": ledger.warning or standing.frozen,
    }


def _fill(disk: Path, filling: Path, room: int) -> None:
    """Leave so much room on the disk."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with filling.open("ab") as file:
        file.write(bytes(max(0, free - room)))


def under_another_name(ledger: Path, place: Path) -> None:
    """Spend by a ledger that is mounted in another place, without its log; print what came."""
    print(asyncio.run(_refusal(place)) if mounted_alone(ledger, place) else "")


async def _refusal(place: Path) -> str:
    ledger = Ledger(place)
    try:
        await ledger.hold(bill({Scope.DAY: DOLLAR}))
    except StoreError as error:
        return str(error)
    finally:
        await ledger.aclose()
    return "held"
