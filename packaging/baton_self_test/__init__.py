"""The self-test of a packaged program: `baton doctor --self-test`.

Only the packaged program has it. In a checkout it runs with `PYTHONPATH=packaging`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Collection

from baton.cli.doctor import setup_checks
from baton.cli.doctor.check import CheckResult, run_check
from baton_self_test import cloud_check, function_checks, program_checks
from baton_self_test.context import SelfTest, SelfTestContext, repair_hint, self_test_context
from baton_self_test.library_parts import PARTS

CHECK_SECONDS = 120.0
"""How many seconds a check may take; all of them together take some ten."""

MAX_PARALLEL_PARTS = max(2, min(4, (os.cpu_count() or 1) // 2))
"""How many parts are tried side by side."""

TEST_KEY = "test key"
"""The one part that must wait for its turn: it uses the user's own keyring."""

CHECKS: dict[str, SelfTest] = {
    "build": setup_checks.check_build,
    "contents": program_checks.check_contents,
    "templates": program_checks.check_templates,
    "prices": setup_checks.check_prices,
    "catalogue": program_checks.check_catalogue,
    "router files": program_checks.check_router_files,
    "hiding": program_checks.check_hiding,
    "documents": program_checks.check_documents,
    "tools": setup_checks.check_tools,
    **{name: program_checks.part_check(name) for name in PARTS if name != TEST_KEY},
    "llama.cpp": setup_checks.check_llama,
    "model": function_checks.check_model,
    "task kinds": function_checks.check_task_kinds,
    "plan": function_checks.check_plan,
    "ledger": function_checks.check_ledger,
    "search": function_checks.check_search,
    TEST_KEY: function_checks.check_test_key,
    "cloud": cloud_check.check_cloud,
    # Last: it takes signals over.
    "screen": function_checks.check_screen,
}
"""The checks by their names. What `baton doctor` checks as well is used from there."""


async def run_self_test(only: Collection[str] = tuple(CHECKS)) -> AsyncIterator[CheckResult]:
    """Check Baton itself (`only` these), in a folder of its own; nothing of the user's is used.

    Every check does the real thing.
    """
    chosen = {name: check for name, check in CHECKS.items() if name in only}
    with self_test_context() as context:
        slots = asyncio.Semaphore(MAX_PARALLEL_PARTS)

        async def run_part(name: str) -> CheckResult:
            async with slots:
                return await _run(name, context)

        parts = {
            name: asyncio.create_task(run_part(name))
            for name in chosen
            if name in PARTS and name != TEST_KEY
        }
        try:
            for name in chosen:
                yield await (parts[name] if name in parts else _run(name, context))
        finally:
            for task in parts.values():
                task.cancel()
            await asyncio.gather(*parts.values(), return_exceptions=True)


async def _run(name: str, context: SelfTestContext) -> CheckResult:
    async def check(_: object) -> str:
        return await CHECKS[name](context)

    return await run_check(name, check, context, repair_hint(), CHECK_SECONDS)
