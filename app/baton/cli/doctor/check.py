"""Checks: what one is given and returns, and how many are run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from baton.cli import interrupts
from baton.core.errors import BatonError, ConfigError
from baton.core.sanitiser import one_line
from baton.platform.paths import Paths
from baton.platform.processes import ENDING_SIGNALS, add_signal_handler, is_ignored
from baton.platform.settings import Settings, load_settings

_MAX_TEXT_CHARS = 400


class CheckState(StrEnum):
    """How a thing is: `warn` works, but not as well as it could."""

    OK = "ok"
    WARN = "warn"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found."""

    name: str
    state: CheckState
    text: str

    def as_line(self) -> str:
        """Return it as one line for the screen."""
        return f"{self.state:7} {self.name:12} {one_line(self.text, _MAX_TEXT_CHARS)}"


class CheckFailed(BatonError):
    """What was checked doesn't work."""


class CheckWarning(str):
    """What to say of a thing that works, but not as well as it could."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Where checks read and write, and with which settings and environment."""

    paths: Paths
    environ: Mapping[str, str]
    settings: Settings = field(default_factory=Settings)
    settings_error: ConfigError | None = None


Check = Callable[[CheckContext], Awaitable[str]]
"""Returns what to say of a thing that works, perhaps as a CheckWarning; raises if it doesn't."""


def setup_context(paths: Paths) -> CheckContext:
    """Return the user's own setup; settings that can't be read count as the defaults."""
    try:
        return CheckContext(paths, os.environ, load_settings(paths.config_file))
    except ConfigError as error:
        return CheckContext(paths, os.environ, settings_error=error)


async def run_check(
    name: str, check: Check, context: CheckContext, hint: str = "", seconds: float | None = None
) -> CheckResult:
    """Make a check; one that fails is a result. `hint` says what to do if the error doesn't."""
    try:
        async with asyncio.timeout(seconds):
            text = await check(context)
    except TimeoutError:
        why = f"It didn't end within {seconds or 0:.0f} s. {hint}"
    except BatonError as error:
        why = f"{error.message} {error.hint or hint}"
    except Exception as error:  # a broken part may raise anything
        reason = f"{type(error).__name__}: {error}".rstrip(": .")
        if isinstance(error, OSError) and error.filename:
            reason = f"{os.fsdecode(error.filename)}: {error.strerror}"
        why = f"It fails ({reason}). {hint}"
    else:
        state = CheckState.WARN if isinstance(text, CheckWarning) else CheckState.OK
        return CheckResult(name, state, str(text))
    return CheckResult(name, CheckState.BROKEN, why.strip())


async def run_checks(
    checks: Iterable[tuple[str, Check]], context: CheckContext
) -> AsyncIterator[CheckResult]:
    """Make checks, one after the other."""
    for name, check in checks:
        yield await run_check(name, check, context)


def report_checks(
    results: AsyncIterator[CheckResult], report: Callable[[CheckResult], object]
) -> None:
    """Report each result as it comes; ended by a signal, checks leave nothing behind either."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        with suppress(RuntimeError):
            for number in ENDING_SIGNALS:
                if not is_ignored(number):
                    add_signal_handler(number, task.cancel)
        async for result in results:
            report(result)

    interrupts.restore_default_handler()
    try:
        asyncio.run(work())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
