"""A process that makes one call and is killed on its way: `python -m support.killed_call`.

It prints `at POINT` when it is there, and continues (unless it is dead by then) with the next line
on stdin. POINT is one of POINTS.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from baton.core.errors import BatonError
from baton.core.ledger_types import Hold, HoldRequest
from baton.core.messages import RequestSent, Text
from baton.core.money import BilledTokens
from baton.core.run.metered_worker import CallUsage
from baton.money import Ledger
from support.fake_cloud import Cloud
from support.metered_calls import KEYS, MeteredGateway

POINTS = ("before hold", "after hold", "before send", "after send", "mid-stream", "before settle")
WAITS = {"after send"}
"""Points that the victim doesn't wait at: what it does next must happen first."""


async def reach(point: str, chosen: str) -> None:
    """Report that a point is reached, if it is the chosen one."""
    if point == chosen:
        print("at", point, flush=True)
        if point not in WAITS:
            await asyncio.to_thread(sys.stdin.readline)


class StoppingLedger(Ledger):
    """The ledger, and a stop before or after what it does."""

    point = ""

    async def hold(self, bill: HoldRequest) -> Hold:
        await reach("before hold", self.point)
        hold = await super().hold(bill)
        await reach("after hold", self.point)
        return hold

    async def sent(self, call: str, destination: str, body: bytes) -> None:
        await super().sent(call, destination, body)
        await reach("before send", self.point)

    async def settle(self, call: str, used: BilledTokens) -> int:
        await reach("before settle", self.point)
        return await super().settle(call, used)


async def call(home: Path, port: int, kind: str, run: str, point: str) -> None:
    """Make one call."""
    ledger = StoppingLedger(home / "ledger.db")
    assert isinstance(ledger, StoppingLedger)
    ledger.point = point
    record: list[CallUsage] = []
    said = ""
    async with MeteredGateway(Cloud(port=port), home, ledger=ledger) as metered:
        metered.workers[kind].warm()
        try:
            async for chunk in metered.stream(kind, run, record):
                if isinstance(chunk, RequestSent):
                    await reach("after send", point)
                elif isinstance(chunk, Text):
                    await reach("mid-stream", "" if said else point)
                    said += chunk.text
        except BatonError as error:
            print("failed", error, flush=True)
    print("over", flush=True)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--kind", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--point", required=True)
    given = parser.parse_args()
    os.environ.update(KEYS)
    asyncio.run(call(given.home, given.port, given.kind, given.run, given.point))


if __name__ == "__main__":
    main()
