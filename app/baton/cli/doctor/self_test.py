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
from baton.cli.doctor.check_result import CheckResult, CheckState
from baton.cli.doctor.temporary_home import Check, SelfTestHome, repair_hint, self_test_home
from baton.core.errors import BatonError
from baton.platform.os_signals import ENDING, hear

CHECK_SECONDS = 120.0
"""How many seconds a check may take; all of them together take some ten."""

MAX_PARALLEL_PARTS = max(2, min(4, (os.cpu_count() or 1) // 2))
"""How many parts are tried side by side."""

CHECKS: Mapping[str, Check] = {
    "build": build_files.check_build,
    "contents": build_files.check_contents,
    **self_test_checks.PART_CHECKS,
    "llama.cpp": self_test_checks.check_llama,
    "templates": data_file_checks.check_templates,
    "prices": data_file_checks.check_prices,
    "catalogue": data_file_checks.check_catalogue,
    "router files": data_file_checks.check_router_files,
    "hiding": data_file_checks.check_hiding,
    "documents": data_file_checks.check_documents,
    "answer": self_test_checks.check_answer,
    "router": self_test_checks.check_router,
    "plan": self_test_checks.check_plan,
    "money": self_test_checks.check_money,
    "history": self_test_checks.check_history,
    "tools": self_test_checks.check_tools,
    "keyring": self_test_checks.check_keyring,
    "cloud": cloud_check.check_cloud,
    "screen": screen_check.check_screen,  # last: the app takes the system's signals over
}


async def self_test(only: Collection[str] = CHECKS) -> AsyncIterator[CheckResult]:
    """Check one thing after the other (`only` those). A check that fails is a finding."""
    with self_test_home() as place:
        gate = asyncio.Semaphore(MAX_PARALLEL_PARTS)
        ahead = {
            name: asyncio.create_task(_run_limited(gate, name, place))
            for name in self_test_checks.PART_CHECKS
            if name in only
        }
        try:
            for name in CHECKS:
                if name in only:
                    yield await (ahead[name] if name in ahead else _run_check(name, place))
        finally:
            for task in ahead.values():
                task.cancel()
            await asyncio.gather(*ahead.values(), return_exceptions=True)


async def _run_limited(gate: asyncio.Semaphore, name: str, place: SelfTestHome) -> CheckResult:
    async with gate:
        return await _run_check(name, place)


async def _run_check(name: str, place: SelfTestHome) -> CheckResult:
    """Make a check, and return what came of it."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            found = await CHECKS[name](place)
    except TimeoutError:
        return CheckResult(
            name, CheckState.BROKEN, f"It didn't end within {CHECK_SECONDS:.0f} s. {repair_hint()}"
        )
    except BatonError as error:
        return CheckResult(
            name, CheckState.BROKEN, f"{error.message} {error.hint or repair_hint()}"
        )
    except Exception as error:  # whatever is broken here is what the self-test is for
        told = f"{type(error).__name__}: {error}".rstrip(": .")
        return CheckResult(name, CheckState.BROKEN, f"It fails ({told}). {repair_hint()}")
    return found if isinstance(found, CheckResult) else CheckResult(name, CheckState.OK, found)


def _ending_signals() -> list[int]:
    """Return what ends this process from outside; who started it with nohup wants it to go on."""
    return [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]


def run_self_test(tell: Callable[[CheckResult], object]) -> None:
    """Make all checks and tell of each; ended from outside, it leaves nothing behind either."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        with suppress(RuntimeError):
            for number in _ending_signals():
                hear(number, task.cancel)
        async for finding in self_test():
            tell(finding)

    interrupts.restore_default_handler()
    try:
        asyncio.run(work())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
