"""The children's own tests, with the binary in their place: all that they do works when frozen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.binary

ROOT = Path(__file__).parents[2]
TESTS = {
    "fetcher": "test_downloads*.py",
    "gateway": "test_cloud*.py",
    "runner": "test_local*.py",
    "scorer": "test_router*.py",
    "tools": "test_tools*.py",
}
WATCHED_FROM_INSIDE = "not test_the_gateway_reaches_nothing_but_the_provider"
"""It has the child's Python load a guard, which the binary's wouldn't."""


@pytest.mark.parametrize("child", TESTS)
def test_a_frozen_child_does_all_that_it_does_in_a_checkout(child: str, folder: Path) -> None:
    files = [str(path) for path in sorted((ROOT / "tests" / "adapters").glob(TESTS[child]))]
    assert files
    pytest_with = [sys.executable, "-m", "pytest", "-p", "binary.frozen_children", "-q"]
    ran = subprocess.run(
        [*pytest_with, "-k", WATCHED_FROM_INSIDE, *files],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "tests", "FROZEN_BATON": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-5000:]
