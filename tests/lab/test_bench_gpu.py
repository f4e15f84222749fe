"""The script that measures a GPU: here without one, as far as a processor can do its steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")


def measured(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run the script without a card; return its exit code, and each step by its name."""
    script = [str(ROOT / "scripts/bench_gpu.py"), "--on-processor", "--folder", str(folder)]
    done = subprocess.run(
        [sys.executable, "-I", *script, *arguments], env={**os.environ, "OUT": str(folder)}
    )
    steps = json.loads((folder / "gpu.json").read_text())
    return done.returncode, {step["step"]: step for step in steps}


def test_a_step_that_fails_or_has_no_time_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "window.gguf").write_bytes(b"no model")
    code, steps = measured(tmp_path, "offload", "machine")
    assert code == 1
    assert [step["status"] for step in steps.values()] == ["failed", "done"]
    assert steps["machine"]["rows"]
    code, steps = measured(tmp_path, "--minutes", "0", "machine", "build")
    assert code == 1
    assert {step["status"] for step in steps.values()} == {"stopped: it took too long"}


@pytest.mark.long
def test_all_steps_run_on_a_processor(tmp_path: Path) -> None:
    _, steps = measured(tmp_path, "--minutes", "30")
    assert {name: step["status"] for name, step in steps.items()} == dict.fromkeys(
        ("machine", "build", "answer", "offload", "sizes"), "done"
    )
    rows = {name: {row["figure"]: row for row in step["rows"]} for name, step in steps.items()}
    for name in ("answer", "offload"):
        assert all(row["holds"] for row in rows[name].values()), rows[name]
    assert len(rows["sizes"]) == 3
