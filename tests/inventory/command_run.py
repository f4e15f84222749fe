"""Runs of the command line inside this process, in an empty home, as records to compare."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inventory.command_lists import Line
from inventory.description import objects_in, shape_records

Main = Callable[[Sequence[str]], int]
"""Runs a command line and returns its exit code."""

COLUMNS = 80
KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")


@dataclass(frozen=True)
class CommandRun:
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


@contextmanager
def empty_home(folder: Path) -> Iterator[Path]:
    """Give this process an empty home, a fixed environment, UTC and an empty working folder."""
    environ, cwd = dict(os.environ), Path.cwd()
    work = folder / "work"
    work.mkdir(parents=True)
    kept = {name: environ[name] for name in KEPT_VARIABLES if name in environ}
    os.environ.clear()
    os.environ.update(
        kept,
        HOME=str(folder),
        BATON_HOME=str(folder / "baton"),
        COLUMNS=str(COLUMNS),
        LANG="C.UTF-8",
        TERM="dumb",
        TZ="UTC",
        PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring",
    )
    time.tzset()
    os.chdir(work)
    try:
        yield folder
    finally:
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environ)
        time.tzset()


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for a while."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def replace_everywhere(real: object, other: object, package: str) -> Iterator[None]:
    """Put another object into every module of a package that holds the real one, for a while."""
    _exchange(real, other, package)
    try:
        yield
    finally:
        _exchange(other, real, package)  # also where a module was loaded meanwhile


def _exchange(old: object, new: object, package: str) -> None:
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == package]
    for module in modules:
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)


def run_command(main: Main, args: Sequence[str], piped: str = "") -> CommandRun:
    """Run a command with text piped in; what threads write to the descriptors is caught as well."""
    sys.stdout.flush()
    sys.stderr.flush()
    streams = sys.stdin, sys.stdout, sys.stderr
    saved = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.stdin = io.TextIOWrapper(io.BytesIO(piped.encode()))
            sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            code = main(args)
            sys.stdout.close()
            sys.stderr.close()
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
            for number, descriptor in enumerate(saved, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)
        return CommandRun(code, _text(out), _text(err))


def _text(file: io.BufferedRandom) -> str:
    file.seek(0)
    return file.read().decode("utf-8")


def run_line(main: Main, line: Line) -> CommandRun:
    """Run a command line, with its settings and variables."""
    if line.config:
        file = Path(os.environ["BATON_HOME"], "config", "config.toml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(line.config, "utf-8")
    with environment(line.variables):
        return run_command(main, line.args, line.piped)


def put_data(source: Path) -> None:
    """Put copies of a folder's databases into this home."""
    folder = Path(os.environ["BATON_HOME"], "data")
    folder.mkdir(parents=True, mode=0o700)
    for file in source.glob("*.db"):
        shutil.copy(file, folder / file.name)
        (folder / file.name).chmod(0o600)


def output_records(main: Main, lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
    """Yield the exit code of each command line and what it prints where, then all fields of JSON.

    Fields of lines that differ by an id only are taken together.
    """
    printed: dict[str, list[Any]] = {}
    varying: dict[str, tuple[str, ...]] = {}
    for line in lines:
        run = run_line(main, line)
        values = json_values(run.out)
        yield {
            "command": line.text,
            "exit_code": run.code,
            "stdout": "JSON" if values else "text" if run.out.strip() else "",
            "stderr": "text" if run.err.strip() else "",
        }
        if values:
            command = _ID.sub("ID", line.text)
            printed.setdefault(command, []).extend(values)
            varying[command] = line.varying
    for command, values in printed.items():
        for place, kind in shape_records(values, varying[command]).items():
            yield {"command": command, "field": place, "type": kind}


def value_records(main: Main, lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
    """Yield all values that command lines print as JSON or as JSON Lines, an object in each."""
    for line in lines:
        for place, value in objects_in(json_values(run_line(main, line).out)):
            kept = {name: one for name, one in value.items() if name not in line.varying}
            yield {"command": line.text, "place": place, "value": kept}


def json_values(text: str) -> list[Any]:
    """Return the objects and lists of a text that is JSON or JSON Lines, none of any other."""
    try:
        values = [json.loads(text)]
    except json.JSONDecodeError:
        try:
            values = [json.loads(line) for line in text.splitlines()]
        except json.JSONDecodeError:
            return []
    return [value for value in values if isinstance(value, dict | list)]


_ID = re.compile(r"\b[0-9a-f]{12}\b")
