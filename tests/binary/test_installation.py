"""From a release on a stick to a Baton that answers, and away again, on a bare Debian."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from binary.bare_systems import SUITES, BareMachine

pytestmark = pytest.mark.binary

INSTALL = Path(__file__).parents[2] / "packaging" / "install.sh"
QUESTION = "What is the capital of France?"
BATON = "/home/.local/bin/baton"


@pytest.fixture(params=SUITES)
def machine(
    request: pytest.FixtureRequest, bare: Callable[..., BareMachine], single: Path, tmp_path: Path
) -> BareMachine:
    """Give a machine with a release in its home, and nothing else of Baton."""
    machine = bare(request.param, tmp_path / "home")
    version = subprocess.check_output([single, "--version"], text=True).split()[-1]
    release = machine.home / "release"
    release.mkdir()
    name = f"baton-{version}-linux-x86_64"
    shutil.copy(single, release / name)
    with single.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    (release / "SHA256SUMS").write_text(f"{digest}  {name}\n")
    shutil.copy(INSTALL, release)
    return machine


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_installed_used_repaired_and_taken_away(machine: BareMachine) -> None:
    assert f"is installed: {BATON}" in good(machine.run("sh", "/home/release/install.sh"))
    shown = json.loads(good(machine.run(BATON, "self", "show", "--json")))
    assert (shown["flavour"], shown["platform"]) == ("full", "linux-x86_64")
    assert "Paris" in good(machine.run(BATON, "ask", "--temperature", "0", QUESTION))
    completion = machine.home / ".local/share/bash-completion/completions/baton"
    assert good(machine.run("bash", "-n", f"/home/{completion.relative_to(machine.home)}")) == ""
    (machine.home / ".local/bin/baton").write_bytes(b"#!/bin/sh\nexit 1\n")
    good(machine.run("sh", "/home/release/install.sh"))
    assert "Paris" in good(machine.run(BATON, "ask", "--temperature", "0", QUESTION))
    choices = [f"--{what}=remove" for what in ("models", "history", "keys")]
    good(machine.run(BATON, "self", "uninstall", "--yes", *choices))
    left = {
        path.parts[len(machine.home.parts)] for path in machine.home.rglob("*") if path.is_file()
    }
    assert left == {"release"}, list(machine.home.glob("**/*"))
