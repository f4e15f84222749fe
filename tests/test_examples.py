"""The examples run as they are, with the names that `baton` offers to programs."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import baton

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    example = ROOT / "examples" / name
    assert len(example.read_text("utf-8").splitlines()) <= 60
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "app")}
    command = [sys.executable, str(example), *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done


def test_the_smallest_orchestra_runs_a_plan_of_two_steps() -> None:
    done = run("minimal.py")
    assert done.stderr == ""
    kinds = [line.partition("(")[0] for line in done.stdout.splitlines()]
    assert kinds[:3] == ["Started", "Routed", "Planned"]
    assert (kinds.count("StepFinished"), kinds[-1]) == (2, "Finished")


def test_a_worker_of_ones_own_answers_with_lines_of_a_file(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("One ceiling.\nA floor.\nCeilings hold.\n", "utf-8")
    done = run("own_worker.py", str(text), "ceiling")
    assert done.stdout == "One ceiling.\nCeilings hold.\n"
    assert re.fullmatch(r"Finished after \d+\.\d s\.\n", done.stderr)


def test_the_public_names_are_those_of_the_page_and_of_the_examples() -> None:
    table = (ROOT / "docs" / "library.md").read_text("utf-8").split("## What can be imported")[1]
    rows = (line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    documented = sorted(name for row in rows for name in re.findall(r"`(\w+)`", row))
    assert baton.__all__ == documented
    code = "".join(path.read_text("utf-8") for path in EXAMPLES)
    used = {*re.findall(r"baton\.(\w+)", code)}
    for names in re.findall(r"^from baton import (.+)$", code, re.MULTILINE):
        used |= {*names.split(", ")}
    assert used == {*baton.__all__}
    assert not re.search(r"(?:from|import) baton\.", code)


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    for name in baton.__all__:
        value = getattr(baton, name)
        assert value.__name__ == name
        assert inspect.isclass(value)
        assert value.__doc__
        assert value.__doc__ != name


def test_importing_the_package_loads_none_of_its_parts() -> None:
    code = "import sys, baton; print(*(name for name in sys.modules if name.startswith('baton')))"
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == {"baton", "baton.core", "baton.core.lazy_loading"}
