"""`baton ask` at a terminal: the first one leaves a background process, the next ones use it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.ipc.borrower import Borrower
from baton.platform.unix_sockets import IS_SUPPORTED
from support.lent_models import await_lender, have_ended, processes_of
from support.processes import is_over
from support.terminal import Terminal

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(not IS_SUPPORTED, reason="models are not lent here"),
]

OUTSIDE_A_CONTAINER = """
from baton.platform import processes
processes.CONTAINER_FILES = processes.CONTAINER_VARIABLES = ()
from baton.cli import main
main()
"""
"""Baton, where no sign of a container is looked for: tests may run in one."""

QUESTION = "What is the capital of France?"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A BATON_HOME; its background process is ended."""
    yield tmp_path / "home"
    Borrower(tmp_path / "home/state").stop()


def ask(home: Path, *options: str, code: str = OUTSIDE_A_CONTAINER, **more: str) -> str:
    """Ask at a terminal; return all that it showed."""
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "BATON_HOME")}
    command = [sys.executable, "-P", "-c", code, "ask", *options, QUESTION]
    terminal = Terminal(command, {**env, "BATON_HOME": str(home), **more}, columns=200)
    terminal.wait(lambda _: is_over(terminal.process), 120)
    terminal.read()
    return terminal.text


def test_the_first_says_that_a_process_stays_and_the_next_uses_it_silently(home: Path) -> None:
    first = ask(home)
    assert "Paris" in first
    assert first.count("background process") == 1
    assert "`baton serve --stop` ends it" in first
    found = await_lender(home / "state")
    assert {child.kind for child in found.children} == {"runner", "scorer", "fork_server"}
    second = ask(home)
    assert "Paris" in second
    assert "background" not in second
    again = await_lender(home / "state")
    assert [child.pid for child in again.children] == [child.pid for child in found.children]
    processes = processes_of(again)
    assert Borrower(home / "state").stop()
    assert have_ended(processes)
    assert "background" not in ask(home), "it is said once"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (["--no-daemon"], {}),
        (["--quiet"], {}),
        ([], {"CI": "true"}),
        ([], {"container": "podman"}),
        ([], {"BATON_DAEMON": "false"}),
    ],
    ids=["option", "quiet", "ci", "container", "setting"],
)
def test_where_nothing_stays(home: Path, options: list[str], variables: dict[str, str]) -> None:
    code = OUTSIDE_A_CONTAINER
    if "container" in variables:
        code = code.replace("processes.CONTAINER_VARIABLES = ", "")
    shown = ask(home, *options, code=code, **variables)
    assert "Paris" in shown
    assert "background" not in shown
    assert not (home / "state/lender-noticed").exists()
    assert not (home / "state/lender.sock").exists()
