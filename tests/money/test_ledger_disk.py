"""A disk that fills up under the ledger: nothing is sent that isn't recorded, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from baton.core.ledger_types import Scope
from baton.money import Ledger
from support.forked_programs import Program
from support.ledger_processes import DOLLAR, bill

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts a small disk")


def test_a_disk_that_fills_up_under_the_ledger_loses_no_charge(tmp_path: Path) -> None:
    code = f"""
from support.ledger_disks import on_small_disk
on_small_disk(pathlib.Path({str(tmp_path)!r}))"""
    out, err = Program(code).communicate(timeout=60)
    assert err == ""
    report = json.loads(out)
    if report is None:
        pytest.skip("this kernel lets no process mount a disk of its own")
    assert len(report["sent"]) > 20
    assert report["sentences"] == [
        "The disk is full, so the last change was not kept; everything before it was."
        f" Make room on the disk of {tmp_path / 'ledger.db'}, then try again."
    ]
    for call, billed in report["sent"].items():
        assert report["charges"][call] >= billed
    assert report["warning"] == ""


async def test_a_ledger_that_is_mounted_by_itself_spends_nothing(tmp_path: Path) -> None:
    """Its log is in another folder, so what is spent under the other name would be unknown."""
    there, here = tmp_path / "there" / "ledger.db", tmp_path / "a b" / "ledger.db"
    here.parent.mkdir()
    here.touch()
    ledger = Ledger(there)
    await ledger.hold(bill({Scope.DAY: DOLLAR}))
    code = f"""
from support.ledger_disks import under_another_name
under_another_name(pathlib.Path({str(there)!r}), pathlib.Path({str(here)!r}))"""
    out, err = await asyncio.to_thread(Program(code).communicate, timeout=60)
    await ledger.aclose()
    if out == "\n":
        pytest.skip("this kernel lets no process mount a file")
    assert (err, "is mounted by itself" in out) == ("", True)
