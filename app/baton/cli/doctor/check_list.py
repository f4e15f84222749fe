"""The list of all checks, those of a person's setup and those of Baton itself, and their runner."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from enum import Flag, auto

from baton.cli import interrupts
from baton.cli.doctor import cloud_check, function_checks, program_checks, setup_checks
from baton.cli.doctor.check import (
    Check,
    CheckContext,
    CheckResult,
    CheckState,
    CheckWarning,
    repair_hint,
    self_test_context,
    setup_context,
)
from baton.core.errors import BatonError
from baton.doctor import PARTS
from baton.platform.processes import ENDING_SIGNALS, add_signal_handler, is_ignored
from baton.platform.settings import find_paths

CHECK_SECONDS = 120.0
"""How many seconds a check of the self-test may take; all of them together take some ten."""

MAX_PARALLEL_PARTS = max(2, min(4, (os.cpu_count() or 1) // 2))
"""How many parts the self-test tries side by side."""


class CheckScope(Flag):
    """In which run of the doctor something is checked."""

    SETUP = auto()
    SELF_TEST = auto()
    BOTH = SETUP | SELF_TEST


@dataclass(frozen=True, slots=True)
class ListedCheck:
    """One check of the list."""

    name: str
    scope: CheckScope
    check: Check


def _part_entry(name: str) -> ListedCheck:
    scope = CheckScope.BOTH if name == "onnxruntime" else CheckScope.SELF_TEST
    return ListedCheck(name, scope, program_checks.part_check(name))


CHECKS: tuple[ListedCheck, ...] = (
    ListedCheck("python", CheckScope.SETUP, program_checks.check_build),
    ListedCheck("build", CheckScope.SELF_TEST, program_checks.check_build),
    ListedCheck("contents", CheckScope.SELF_TEST, program_checks.check_contents),
    ListedCheck("settings", CheckScope.SETUP, setup_checks.check_settings),
    ListedCheck("machine", CheckScope.SETUP, setup_checks.check_machine),
    ListedCheck("terminal", CheckScope.SETUP, setup_checks.check_terminal),
    ListedCheck("folders", CheckScope.SETUP, setup_checks.check_folders),
    ListedCheck("background", CheckScope.SETUP, setup_checks.check_background),
    ListedCheck("disk", CheckScope.SETUP, setup_checks.check_disk),
    ListedCheck("sqlite", CheckScope.SETUP, setup_checks.check_sqlite),
    ListedCheck("history", CheckScope.SETUP, setup_checks.check_history),
    ListedCheck("keyring", CheckScope.SETUP, setup_checks.check_keyring),
    ListedCheck("keys", CheckScope.SETUP, setup_checks.check_keys),
    ListedCheck("money", CheckScope.SETUP, setup_checks.check_money),
    ListedCheck("models", CheckScope.SETUP, setup_checks.check_models),
    ListedCheck("templates", CheckScope.SELF_TEST, program_checks.check_templates),
    ListedCheck("prices", CheckScope.BOTH, program_checks.check_prices),
    ListedCheck("catalogue", CheckScope.SELF_TEST, program_checks.check_catalogue),
    ListedCheck("router files", CheckScope.SELF_TEST, program_checks.check_router_files),
    ListedCheck("hiding", CheckScope.SELF_TEST, program_checks.check_hiding),
    ListedCheck("documents", CheckScope.SELF_TEST, program_checks.check_documents),
    ListedCheck("egress", CheckScope.SETUP, setup_checks.check_egress),
    ListedCheck("tools", CheckScope.BOTH, function_checks.check_tools),
    # From here on engines start.
    *(_part_entry(name) for name in PARTS if name != "keyring"),
    ListedCheck("router", CheckScope.SETUP, setup_checks.check_router),
    ListedCheck("llama.cpp", CheckScope.BOTH, program_checks.check_llama),
    ListedCheck("answer", CheckScope.SETUP, setup_checks.check_answer),
    ListedCheck("conductor", CheckScope.SETUP, setup_checks.check_conductor),
    ListedCheck("answer", CheckScope.SELF_TEST, function_checks.check_answer),
    ListedCheck("router", CheckScope.SELF_TEST, function_checks.check_router),
    ListedCheck("plan", CheckScope.SELF_TEST, function_checks.check_plan),
    ListedCheck("money", CheckScope.SELF_TEST, function_checks.check_money),
    ListedCheck("history", CheckScope.SELF_TEST, function_checks.check_history),
    ListedCheck("keyring", CheckScope.SELF_TEST, function_checks.check_keyring),
    ListedCheck("cloud", CheckScope.SELF_TEST, cloud_check.check_cloud),
    # Last: it takes signals over.
    ListedCheck("screen", CheckScope.SELF_TEST, function_checks.check_screen),
)

SELF_TEST_NAMES = tuple(entry.name for entry in CHECKS if CheckScope.SELF_TEST in entry.scope)


async def check_setup() -> AsyncGenerator[CheckResult]:
    """Check the person's own setup, the quick checks first."""
    context = setup_context(find_paths())
    for entry in CHECKS:
        if CheckScope.SETUP in entry.scope:
            yield await _run_check(entry, context)


async def self_test(only: Collection[str] = SELF_TEST_NAMES) -> AsyncIterator[CheckResult]:
    """Check Baton itself (`only` these), in a folder of its own; nothing of the person's is used.

    Every check does the real thing.
    """
    chosen = [e for e in CHECKS if CheckScope.SELF_TEST in e.scope and e.name in only]
    with self_test_context() as context:
        slots = asyncio.Semaphore(MAX_PARALLEL_PARTS)

        async def run_part(entry: ListedCheck) -> CheckResult:
            async with slots:
                return await _run_check(entry, context)

        parts = {
            entry.name: asyncio.create_task(run_part(entry))
            for entry in chosen
            if entry.name in PARTS and entry.name != "keyring"
        }
        try:
            for entry in chosen:
                if entry.name in parts:
                    yield await parts[entry.name]
                else:
                    yield await _run_check(entry, context)
        finally:
            for task in parts.values():
                task.cancel()
            await asyncio.gather(*parts.values(), return_exceptions=True)


async def _run_check(entry: ListedCheck, context: CheckContext) -> CheckResult:
    """Make a check; one that fails is a result."""
    is_self_test = context.folder is not None
    hint = repair_hint() if is_self_test else ""
    try:
        async with asyncio.timeout(CHECK_SECONDS if is_self_test else None):
            text = await entry.check(context)
    except TimeoutError:
        why = f"It didn't end within {CHECK_SECONDS:.0f} s. {hint}"
    except BatonError as error:
        why = f"{error.message} {error.hint or hint}"
    except Exception as error:  # a broken part may raise anything
        reason = f"{type(error).__name__}: {error}".rstrip(": .")
        if isinstance(error, OSError) and error.filename:
            reason = f"{os.fsdecode(error.filename)}: {error.strerror}"
        why = f"It fails ({reason}). {hint}"
    else:
        state = CheckState.WARN if isinstance(text, CheckWarning) else CheckState.OK
        return CheckResult(entry.name, state, str(text))
    return CheckResult(entry.name, CheckState.BROKEN, why.strip())


def report_checks(
    results: AsyncIterator[CheckResult], report: Callable[[CheckResult], object]
) -> None:
    """Make checks and report each; ended by a signal, they leave nothing behind either."""

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
