"""`baton serve` as a process of its own, and commands that end in this process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from baton.cli.root import baton

BATON = [sys.executable, "-P", "-m", "baton"]
NO_VARIABLES: Mapping[str, str] = {}


@contextmanager
def serve_process(
    home: Path, *options: str, environ: Mapping[str, str] = NO_VARIABLES, **popen: Any
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `baton serve`; yield the process and its address, and end it unless it has ended."""
    command = [*BATON, "serve", *(() if "--port" in options else ("--port", "0")), *options]
    variables = {**os.environ, **environ, "BATON_HOME": str(home)}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=variables, **popen
    ) as process:
        assert process.stderr is not None
        url = next((found[0] for line in process.stderr if (found := _address(line))), "")
        assert url, "it doesn't serve"
        try:
            yield process, url
        finally:
            process.terminate()
            if not process.stderr.closed:
                process.stderr.read()


def _address(line: str) -> re.Match[str] | None:
    return re.search(r"http://\S+/v1", line)


def run_command(*words: str, environ: Mapping[str, str] = NO_VARIABLES) -> Result:
    """Run a command of Baton in this process; an error is raised as it is."""
    return CliRunner().invoke(baton, words, env=environ, catch_exceptions=False)
