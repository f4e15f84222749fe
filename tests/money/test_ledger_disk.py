"""A disk that fills up under the ledger: nothing is sent that isn't recorded, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from baton.core.errors import StoreError
from baton.core.ledger_types import Scope, Status
from baton.core.money import BilledTokens
from baton.money import Ledger
from money.test_ledger_abuse import Observer
from support.ledger_processes import DOLLAR, bill, process
from support.small_disk import mounted, mounted_alone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts a small disk")


def on_small_disk(disk: Path) -> None:
    """Spend with less and less room on a disk that only this process sees; print what came."""
    print(json.dumps(asyncio.run(_spend(disk)) if mounted(disk, 8 << 20) else None))


async def _spend(disk: Path) -> dict[str, Any]:
    path, records, filling = disk / "ledger.db", disk / "ledgers", disk / "filling"
    ledger = Ledger.open(path, records=records)
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
    ledger = Ledger.open(path, records=records)
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


def test_a_disk_that_fills_up_under_the_ledger_loses_no_charge(tmp_path: Path) -> None:
    code = f"""
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from money.test_ledger_disk import on_small_disk
on_small_disk(pathlib.Path({str(tmp_path)!r}))"""
    out, err = process(code).communicate(timeout=60)
    assert err == ""
    told = json.loads(out)
    if told is None:
        pytest.skip("this kernel lets no process mount a disk of its own")
    assert len(told["sent"]) > 20
    assert told["sentences"] == [
        "The disk is full, so the last change was not kept; everything before it was."
        f" Make room on the disk of {tmp_path / 'ledger.db'}, then try again."
    ]
    for call, billed in told["sent"].items():
        assert told["charges"][call] >= billed
    assert told["warning"] == ""


def under_another_name(ledger: Path, place: Path) -> None:
    """Spend by a ledger that is mounted in another place, without its log; print what came."""
    print(asyncio.run(_refusal(place)) if mounted_alone(ledger, place) else "")


async def _refusal(place: Path) -> str:
    ledger = Ledger.open(place)
    try:
        await ledger.hold(bill({Scope.DAY: DOLLAR}))
    except StoreError as error:
        return str(error)
    finally:
        await ledger.aclose()
    return "held"


async def test_a_ledger_that_is_mounted_by_itself_spends_nothing(tmp_path: Path) -> None:
    """Its log lies in another folder, so what is spent under the other name would be unknown."""
    there, here = tmp_path / "there" / "ledger.db", tmp_path / "a b" / "ledger.db"
    here.parent.mkdir()
    here.touch()
    ledger = Ledger.open(there)
    await ledger.hold(bill({Scope.DAY: DOLLAR}))
    code = f"""
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from money.test_ledger_disk import under_another_name
under_another_name(pathlib.Path({str(there)!r}), pathlib.Path({str(here)!r}))"""
    out, err = await asyncio.to_thread(process(code).communicate, timeout=60)
    await ledger.aclose()
    if out == "\n":
        pytest.skip("this kernel lets no process mount a file")
    assert (err, "is mounted by itself" in out) == ("", True)
