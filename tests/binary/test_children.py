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
    "fetcher": ("download/test_hub_source.py",),
    "gateway": (
        "workers/cloud/test_answer*.py",
        "workers/cloud/test_gateway*.py",
        "workers/cloud/test_worker*.py",
    ),
    "runner": (
        "workers/local/test_answer*.py",
        "workers/local/test_lora.py",
        "workers/local/test_model_file.py",
        "workers/local/test_reasoning.py",
        "workers/local/test_worker*.py",
    ),
    "scorer": ("routing/test_scorer_process.py",),
    "tools": ("workers/tools/test_worker.py",),
}
WATCHED_FROM_INSIDE = "not test_the_gateway_reaches_nothing_but_the_provider"
"""It has the child's Python load a guard, which the binary's wouldn't."""


@pytest.mark.parametrize("child", TESTS)
def test_a_frozen_child_does_all_that_it_does_in_a_checkout(child: str, folder: Path) -> None:
    found = [sorted((ROOT / "tests").glob(pattern)) for pattern in TESTS[child]]
    assert all(found)
    files = [str(path) for paths in found for path in paths]
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
