"""Killed anywhere on the way of a call: nothing that was sent is missing in the ledger."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from baton.core.ledger_types import Charge, Status
from baton.money import Ledger
from support.fake_cloud import Cloud, CloudBehaviour, ReceivedRequest, Reply
from support.killed_call import POINTS
from support.metered_calls import MODELS, PRICES

TESTS = Path(__file__).parent.parent
PATH = os.pathsep.join([str(TESTS), str(TESTS.parent / "app")])
AT_ONCE = 3


@dataclass(frozen=True)
class Kill:
    """One attempt: which process is killed where. `wait` is in seconds, at that point."""

    run: str
    kind: str
    victim: str
    point: str
    wait: float = 0.0


def wait_until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.005)


def gateways_of(front: psutil.Process) -> list[psutil.Process]:
    return [child for child in front.children() if child.cmdline()[-1:] == ["gateway"]]


def received_calls(cloud: Cloud, run: str) -> list[ReceivedRequest]:
    return [received for received in cloud.calls if f"of {run}:".encode() in received.body]


def commit(kill: Kill, cloud: Cloud, home: Path) -> None:
    """Start a call, and kill its front or its gateway at the point."""
    arguments = ["--home", str(home), "--port", str(cloud.port), "--kind", kill.kind]
    arguments += ["--run", kill.run, "--point", kill.point]
    front = subprocess.Popen(
        [sys.executable, "-P", "-m", "support.killed_call", *arguments],
        env={**os.environ, "PYTHONPATH": PATH},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert front.stdin is not None
    assert front.stdout is not None
    with front:
        assert front.stdout.readline() == f"at {kill.point}\n"
        if kill.point == "after send":
            wait_until(lambda: received_calls(cloud, kill.run), "the request arrives")
        time.sleep(kill.wait)
        gateways = gateways_of(psutil.Process(front.pid))
        assert gateways
        if kill.victim == "front":
            front.kill()
        else:
            for gateway in gateways:
                gateway.kill()
            front.stdin.write("\n")
            front.stdin.flush()
            assert front.stdout.read().splitlines()[-1] == "over"
    gone, alive = psutil.wait_procs(gateways, timeout=10)
    assert not alive, "the gateway outlives its front"
    assert gone


def kills(part: int, count: int) -> list[Kill]:
    """Return so many attempts: each point and victim in turn, few of them through the library."""
    dice = random.Random(part)
    turns = itertools.cycle(itertools.product(("front", "gateway"), POINTS))
    every = list(MODELS)
    found = []
    for number, (victim, point) in zip(range(count), turns, strict=False):
        kind = every[(number // 20 + part) % len(every)] if number % 20 == 19 else "server"
        wait = dice.choice([0.0, dice.random() * 0.1])
        found.append(Kill(f"kill-{number:04d}", kind, victim, point, wait))
    return found


async def charges_of(home: Path, attempts: list[Kill]) -> dict[str, list[Charge]]:
    ledger = Ledger(home / "ledger.db")
    try:
        assert ledger.warning == ""
        return {kill.run: await ledger.charges(kill.run) for kill in attempts}
    finally:
        await ledger.aclose()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("part", "first", "end"),
    [
        (0, 0, 6),  # the front, at each point
        (0, 6, 12),  # the gateway
        *(pytest.param(part, 0, 100, marks=pytest.mark.long) for part in range(1, 11)),
    ],
)
def test_no_call_is_missing_after_a_kill(tmp_path: Path, part: int, first: int, end: int) -> None:
    attempts = kills(part, end)[first:]
    # Slow enough to be killed in the middle; who leaves is billed for the whole cap.
    reply, manner = Reply(tokens=60, rate=100), CloudBehaviour(whole_cap=True)
    with Cloud(prices=PRICES, reply=reply, manner=manner) as cloud:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda kill: commit(kill, cloud, tmp_path), attempts))
        cloud.quiet()
    charges = asyncio.run(charges_of(tmp_path, attempts))
    bills = {bill.number: bill for bill in cloud.bills}
    reached = set()
    for kill in attempts:
        received = received_calls(cloud, kill.run)
        assert len(received) <= 1, f"{kill} sent twice"
        assert len(charges[kill.run]) <= 1
        if kill.point in ("after send", "mid-stream", "before settle"):
            assert received, f"{kill} came too early"
        for one in received:
            (charge,) = charges[kill.run]
            assert charge.charged >= bills[one.number].nanos > 0, f"{kill} costs less than billed"
            assert charge.status in (Status.UNCONFIRMED, Status.SETTLED)
            reached.add((kill.victim, kill.point))
        assert all(charge.status is not Status.HELD for charge in charges[kill.run])
    assert len(reached) >= min(6, len(attempts) // 2)
    with sqlite3.connect(tmp_path / "ledger.db") as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
