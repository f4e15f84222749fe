"""Bills for the ledger's tests, and the processes that spend side by side or are killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from baton.core.errors import BudgetExceeded
from baton.core.ledger_types import Hold, HoldRequest, Scope
from baton.core.messages import Purpose
from baton.core.money import BilledTokens, Price, Rates
from baton.money import Ledger

MINI = Price(Rates(250_000_000, 2_000_000_000, 25_000_000, 312_500_000), source="a test")
CENT = 10**7
DOLLAR = 100 * CENT
DAY = {Scope.DAY: DOLLAR}
NOON = 1_699_963_200.0
"""14 November 2023, 12:00 UTC: the same day in all time zones but a few."""


def bill(
    ceilings: dict[Scope, int] = DAY,
    run: str = "r1",
    session: str = "s1",
    worker: str = "gpt",
    price: Price = MINI,
    bound: int = 1000,
    wanted: int = 1000,
    client: str = "",
    share: int = 1,
    keep: bool = True,
) -> HoldRequest:
    """Return a bill of at most $0.0023125, unless stated otherwise."""
    return HoldRequest(
        run=run,
        session=session,
        worker=worker,
        provider="openai",
        model=worker,
        purpose=Purpose.ANSWER,
        price=price,
        input_bound=bound,
        wanted=wanted,
        ceilings=ceilings,
        client=client,
        share=share,
        keep=keep,
    )


def time_of(schedule: int) -> float:
    """Return a time on a day of the schedule's own."""
    return NOON + schedule * 86400


def ceilings_of(schedule: int) -> dict[Scope, int]:
    """Return the same ceilings for a schedule in every process: some tight, some unset."""
    dice = random.Random(schedule)
    found = {scope: dice.randint(CENT, 40 * CENT) for scope in Scope if dice.random() < 0.8}
    month = time.strftime("%Y-%m", time.localtime(time_of(schedule)))
    found[Scope.MONTH] = random.Random(month).randint(DOLLAR, 5 * DOLLAR)
    return found


def spend(path: Path, name: str, tasks: int) -> None:
    """For each number on stdin, let that many tasks spend under the schedule's ceilings at once."""

    async def main() -> None:
        now = [NOON]
        ledger = Ledger(path, clock=lambda: now[0])
        dice = random.Random(name)
        for line in sys.stdin:
            schedule = int(line)
            now[0] = time_of(schedule)
            async with asyncio.TaskGroup() as group:
                for _ in range(tasks):
                    group.create_task(_task(ledger, schedule, dice))
            print(schedule, flush=True)
        await ledger.aclose()

    asyncio.run(main())


async def _task(ledger: Ledger, schedule: int, dice: random.Random) -> None:
    """Spend up to the cap, and end calls in every way."""
    ceilings = ceilings_of(schedule)
    for _ in range(dice.randint(1, 2)):
        asked = bill(
            ceilings,
            run=f"r{schedule}-{dice.randint(0, 3)}",
            session=f"s{schedule}",
            bound=dice.randint(1, 20_000),
            wanted=dice.randint(1, 4096),
            client=dice.choice(("", f"t{schedule}")),
            share=dice.randint(1, 3),
        )
        try:
            hold = await ledger.hold(asked)
        except BudgetExceeded:
            return
        await _end(ledger, hold, asked, dice)


async def _end(ledger: Ledger, hold: Hold, asked: HoldRequest, dice: random.Random) -> None:
    await asyncio.sleep(0)
    if dice.random() < 0.3:
        await ledger.sent(hold.call, "https://cloud.invalid/v1", b"{}")
    match dice.choice(["all", "some", "leave", "void", "release"]):
        case "all":
            worst = BilledTokens(asked.input_bound, hold.cap, cache_written=asked.input_bound)
            assert await ledger.settle(hold.call, worst) == hold.amount
        case "some":
            used = BilledTokens(dice.randint(0, asked.input_bound), dice.randint(0, hold.cap))
            assert await ledger.settle(hold.call, used) <= hold.amount
        case "void":
            await ledger.void(hold.call)
        case ending:
            assert await ledger.leave(hold.call) == hold.amount
            if ending == "release":
                await ledger.release(hold.call)


def call_until_killed(path: Path, bills: Path, tasks: int) -> None:
    """Make calls in so many tasks; a provider bills each, to the cap, when it is sent.

    Prints what was acknowledged.
    """

    async def call(ledger: Ledger, book: int) -> None:
        while True:
            hold = await ledger.hold(bill({Scope.DAY: 1000 * DOLLAR}))
            print("held", hold.call, hold.amount, flush=True)
            await ledger.sent(hold.call, "https://cloud.invalid/v1", b"x" * 500)
            print("sent", hold.call, hold.amount, flush=True)
            os.write(book, f"{hold.call} {MINI.cost(BilledTokens(1000, hold.cap))}\n".encode())
            cost = await ledger.settle(hold.call, BilledTokens(1000, hold.cap))
            print("settled", hold.call, cost, flush=True)

    async def main() -> None:
        ledger = Ledger(path)
        book = os.open(bills, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        await asyncio.gather(*(call(ledger, book) for _ in range(tasks)))

    asyncio.run(main())


def migrate_until_killed(path: Path, number: int, statement: int) -> None:
    """Open a ledger, and die before a statement of a migration, both counted from 0."""
    from baton.money import ledger_file
    from baton.money.ledger_file import LedgerRecords
    from baton.money.schema import MIGRATIONS

    class KillingStatements(tuple[str, ...]):
        def __iter__(self) -> Iterator[str]:
            for at, text in enumerate(super().__iter__()):
                if at == statement:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield text

    migrations = list(MIGRATIONS)
    migrations[number] = replace(
        migrations[number], statements=KillingStatements(migrations[number].statements)
    )
    vars(ledger_file)["MIGRATIONS"] = tuple(migrations)
    ledger_file.open_ledger(LedgerRecords(path))
