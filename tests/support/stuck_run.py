"""A process that runs a plan of four steps and never gets past the third one.

`python -m support.stuck_run HOME` prints `there` when two steps are finished and the third one's
request is on its way, and waits to be killed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from baton.core import events as ev
from baton.core.ledger_types import Policy
from baton.core.plan_types import Plan
from support.scripted_plans import StubWorker, cloud, hang_at, local, open_orchestra, step

FOUR = Plan(
    (
        step("small", "One."),
        step("far", "Two.", "1"),
        step("far", "Three.", "2"),
        step("small", "Four.", "1", "3"),
    ),
    (4,),
)


async def main(home: Path) -> None:
    """Run as far as it goes."""
    workers = StubWorker(local()), StubWorker(cloud(), hang_at("Three."))
    async with (
        open_orchestra(*workers, home=home, policy=Policy.BUDGET) as session,
        session.begin(FOUR) as run,
    ):
        async for event in run:
            if isinstance(event, ev.Sent) and event.step == 3:
                print("there", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
