"""The example runs as it is: a prompt becomes events, by workers that follow a script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "minimal.py"


def test_the_smallest_orchestra_plays_a_plan_of_two_steps() -> None:
    assert len(EXAMPLE.read_text("utf-8").splitlines()) <= 30
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "app")}
    done = subprocess.run(
        [sys.executable, EXAMPLE], env=environ, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    kinds = [line.partition("(")[0] for line in done.stdout.splitlines()]
    assert kinds[:3] == ["Started", "Routed", "Planned"]
    assert (kinds.count("StepFinished"), kinds[-1]) == (2, "Finished")
