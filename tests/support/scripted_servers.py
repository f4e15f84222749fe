"""Servers of one scripted model, each in a process of its own that a test may kill."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.cloud_answer import tokens_of
from support.fake_cloud import Reply

_START_SECONDS = 60


@dataclass
class ScriptedServer:
    """One of them: `answer` are the tokens that it writes, `bills` the file with its answers."""

    process: subprocess.Popen[bytes]
    port: int
    answer: list[str]
    bills: Path

    @property
    def base_url(self) -> str:
        """Where it is asked."""
        return f"http://127.0.0.1:{self.port}/server/v1"

    @property
    def ended(self) -> int:
        """How many answers it gave to their end."""
        if not self.bills.exists():
            return 0
        lines = map(json.loads, self.bills.read_text().splitlines())
        return sum(line["kind"] == "bill" and line["ended"] for line in lines)


@contextmanager
def start_servers(
    folder: Path, rates: Sequence[float], *, tokens: int
) -> Iterator[list[ScriptedServer]]:
    """Start servers that answer with so many tokens.

    Each writes at a rate of so many a second, in all its answers together.
    """
    processes: list[subprocess.Popen[bytes]] = []
    try:
        ports = [folder / f"port-{number}" for number in range(len(rates))]
        bills = [folder / f"bills-{number}" for number in range(len(rates))]
        for port, bill, rate in zip(ports, bills, rates, strict=True):
            command = [sys.executable, "-m", "support.fake_cloud", "--port-file", str(port)]
            command += ["--bill-file", str(bill), "--tokens", str(tokens)]
            command += ["--total-rate", str(rate)]
            processes.append(subprocess.Popen(command, cwd=Path(__file__).parents[1]))
        answer = tokens_of(Reply(tokens=tokens))
        yield [
            ScriptedServer(process, _read_port(port), answer, bill)
            for process, port, bill in zip(processes, ports, bills, strict=True)
        ]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _read_port(file: Path) -> int:
    end = time.monotonic() + _START_SECONDS
    while not file.exists():
        if time.monotonic() > end:
            raise AssertionError("a scripted server didn't start")
        time.sleep(0.02)
    return int(file.read_text())
