"""Where a process may stay behind when a command ends: only where a user would notice it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from baton.platform import processes

CODE = "from baton.platform.processes import is_interactive; print(is_interactive())"


@pytest.mark.parametrize("variable", processes.CI_VARIABLES)
def test_automatic_builds(variable: str) -> None:
    assert processes.is_in_ci({variable: "true"})
    assert not processes.is_in_ci({variable: "false"})
    assert not processes.is_in_ci({variable: ""})


@pytest.mark.parametrize("variable", processes.CONTAINER_VARIABLES)
def test_containers_that_say_so(variable: str, tmp_path: Path) -> None:
    assert processes.is_in_container({variable: "podman"}, tmp_path)
    assert not processes.is_in_container({}, tmp_path)


@pytest.mark.parametrize("name", processes.CONTAINER_FILES)
def test_containers_by_their_files(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert processes.is_in_container({}, tmp_path)


def test_nothing_stays_where_nobody_is_at_a_terminal() -> None:
    """As in cron, in a service, or in a pipe."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", CODE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


def test_a_terminal_counts_unless_it_is_of_a_build_or_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "isatty", lambda _: True)
    assert processes.may_leave_process({}, tmp_path)
    assert not processes.may_leave_process({"CI": "1"}, tmp_path)
    assert not processes.may_leave_process({"container": "oci"}, tmp_path)
