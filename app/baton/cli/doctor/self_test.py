"""`baton doctor --self-test`: does this very program work? Nothing of the person's is touched.

Every check does the real thing, in a folder of its own. The order is that of a building: what the
program is, its parts, its files, then what they do together.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import suppress

from baton.cli import interrupts
from baton.cli.doctor import bundle, cloud, files, screen, works
from baton.cli.doctor.finding import Finding, State
from baton.cli.doctor.ground import Check, Ground, ground, mend
from baton.domain.errors import BatonError
from baton.os_signals import ENDING, hear

PATIENCE = 120.0
"""How many seconds a check may take; all of them together take some ten."""

AT_ONCE = max(2, min(4, (os.cpu_count() or 1) // 2))
"""How many parts are tried side by side."""

CHECKS: Mapping[str, Check] = {
    "build": bundle.build,
    "contents": bundle.contents,
    **works.PARTS,
    "llama.cpp": works.llama,
    "templates": files.templates,
    "prices": files.prices,
    "catalogue": files.catalogue,
    "router files": files.router_files,
    "hiding": files.hiding,
    "documents": files.documents,
    "answer": works.answer,
    "router": works.router,
    "plan": works.plan,
    "money": works.money,
    "history": works.history,
    "tools": works.tools,
    "keyring": works.keyring,
    "cloud": cloud.cloud,
    "screen": screen.screen,  # last: the app takes the system's signals over
}


async def self_test(only: Collection[str] = CHECKS) -> AsyncIterator[Finding]:
    """Check one thing after the other (`only` those). A check that fails is a finding."""
    with ground() as place:
        gate = asyncio.Semaphore(AT_ONCE)
        ahead = {
            name: asyncio.create_task(_one_of_few(gate, name, place))
            for name in works.PARTS
            if name in only
        }
        try:
            for name in CHECKS:
                if name in only:
                    yield await (ahead[name] if name in ahead else _found(name, place))
        finally:
            for task in ahead.values():
                task.cancel()
            await asyncio.gather(*ahead.values(), return_exceptions=True)


async def _one_of_few(gate: asyncio.Semaphore, name: str, place: Ground) -> Finding:
    async with gate:
        return await _found(name, place)


async def _found(name: str, place: Ground) -> Finding:
    """Make a check, and return what came of it."""
    try:
        async with asyncio.timeout(PATIENCE):
            found = await CHECKS[name](place)
    except TimeoutError:
        return Finding(name, State.BROKEN, f"It didn't end within {PATIENCE:.0f} s. {mend()}")
    except BatonError as error:
        return Finding(name, State.BROKEN, f"{error.message} {error.hint or mend()}")
    except Exception as error:  # whatever is broken here is what the self-test is for
        told = f"{type(error).__name__}: {error}".rstrip(": .")
        return Finding(name, State.BROKEN, f"It fails ({told}). {mend()}")
    return found if isinstance(found, Finding) else Finding(name, State.OK, found)


def _ending() -> list[int]:
    """Return what ends this process from outside; who started it with nohup wants it to go on."""
    return [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]


def run(tell: Callable[[Finding], object]) -> None:
    """Make all checks and tell of each; ended from outside, it leaves nothing behind either."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        with suppress(RuntimeError):
            for number in _ending():
                hear(number, task.cancel)
        async for finding in self_test():
            tell(finding)

    interrupts.hand_over()
    try:
        asyncio.run(work())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
