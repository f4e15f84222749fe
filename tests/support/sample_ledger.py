"""A ledger in which something happened, for the commands that show it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from baton.core.ledger_types import HoldRequest, Scope
from baton.core.messages import Purpose
from baton.core.money import NANO, BilledTokens, Price, Rates
from baton.money import Ledger

DOLLAR = Price(Rates(1000 * NANO, 1000 * NANO, 1000 * NANO, 1000 * NANO), source="a test")
"""A tenth of a cent for each token."""

BODY = b'{"model":"gpt-5-mini","messages":[{"role":"user","content":"Gr\xc3\xbc\xc3\x9fe"}]}'


@dataclass(frozen=True)
class SampleCalls:
    """Two calls: `settled` cost $0.012, `unconfirmed` is charged at $0.11."""

    settled: str
    unconfirmed: str


def bill(run: str, purpose: Purpose = Purpose.STEP, keep: bool = True) -> HoldRequest:
    return HoldRequest(
        run,
        "c0ffee",
        "gpt",
        "openai",
        "openai/gpt-5-mini",
        purpose,
        DOLLAR,
        10,
        100,
        {Scope.DAY: NANO},
        keep=keep,
    )


def spend(file: Path, days_ago: float = 0) -> SampleCalls:
    """Make two calls that sent something, the second of which was cut."""
    clock = partial(_earlier, 86400 * days_ago)

    async def run() -> SampleCalls:
        ledger = Ledger(file, clock)
        try:
            first = await ledger.hold(bill("aaaa1111"))
            await ledger.sent(first.call, "api.openai.com", BODY)
            await ledger.settle(first.call, BilledTokens(10, 2))
            second = await ledger.hold(bill("bbbb2222"))
            await ledger.sent(second.call, "api.openai.com", b"\xff\x00")
            await ledger.leave(second.call)
            return SampleCalls(first.call, second.call)
        finally:
            await ledger.aclose()

    return asyncio.run(run())


def _earlier(seconds: float) -> float:
    return time.time() - seconds
