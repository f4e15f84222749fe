"""Two ways to call the command line: inside this process, and as a process of its own."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from baton.cli.root import run
from baton.platform.paths import find_paths
from support.command_line import Call, CallResult, Process
from support.sample_ledger import SampleCalls, spend


@pytest.fixture(autouse=True)
def _idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show no other program at work: a measurement waits until there is none."""
    monkeypatch.setattr("psutil.cpu_percent", lambda _: 0.0)


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in this process, with some bytes piped in."""

    def call(*args: str, piped: bytes = b"") -> CallResult:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
        capfd.readouterr()
        code = run(args)
        out, err = capfd.readouterr()
        return CallResult(code, out, err)

    return call


@pytest.fixture
def process() -> Process:
    """Call a command as a process of its own."""

    def process(
        *args: str, piped: bytes = b"", stdout: int = subprocess.PIPE
    ) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-I", "-m", "baton", *args]
        return subprocess.run(
            command, input=piped, stdout=stdout, stderr=subprocess.PIPE, timeout=180
        )

    return process


@pytest.fixture
def spent(home: Path) -> SampleCalls:
    return spend(find_paths().ledger)
