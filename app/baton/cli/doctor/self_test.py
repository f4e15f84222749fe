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
from baton.cli.doctor import (
    build_files,
    cloud_check,
    data_file_checks,
    screen_check,
    self_test_checks,
)
from baton.cli.doctor.check_result import Finding, State
from baton.cli.doctor.temporary_home import Check, Ground, ground, mend
from baton.core.errors import BatonError
from baton.platform.os_signals import ENDING, hear

PATIENCE = 120.0
"""How many seconds a check may take; all of them together take some ten."""

AT_ONCE = max(2, min(4, (os.cpu_count() or 1) // 2))
"""How many parts are tried side by side."""

CHECKS: Mapping[str, Check] = {
    "build": build_files.build,
    "contents": build_files.contents,
    **self_test_checks.PARTS,
    "llama.cpp": self_test_checks.llama,
    "templates": data_file_checks.templates,
    "prices": data_file_checks.prices,
    "catalogue": data_file_checks.catalogue,
    "router files": data_file_checks.router_files,
    "hiding": data_file_checks.hiding,
    "documents": data_file_checks.documents,
    "answer": self_test_checks.answer,
    "router": self_test_checks.router,
    "plan": self_test_checks.plan,
    "money": self_test_checks.money,
    "history": self_test_checks.history,
    "tools": self_test_checks.tools,
    "keyring": self_test_checks.keyring,
    "cloud": cloud_check.cloud,
    "screen": screen_check.screen,  # last: the app takes the system's signals over
}


async def self_test(only: Collection[str] = CHECKS) -> AsyncIterator[Finding]:
    """Check one thing after the other (`only` those). A check that fails is a finding."""
    with ground() as place:
        gate = asyncio.Semaphore(AT_ONCE)
        ahead = {
            name: asyncio.create_task(_one_of_few(gate, name, place))
            for name in self_test_checks.PARTS
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
