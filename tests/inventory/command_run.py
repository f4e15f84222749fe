"""Runs of the command line inside this process, in an empty home, as text to compare."""

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
from inventory.description import shape_records

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


def json_records(main: Main, lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
    """Yield the type of every field that command lines print as JSON or as JSON Lines."""
    for line in lines:
        run = run_line(main, line)
        yield {"command": line.words, "exit_code": run.code}
        for place, kind in shape_records(_values(run.out), line.varying).items():
            yield {"command": line.words, "field": place, "type": kind}


def _values(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


_ID = re.compile(r"(?<![\w.])(?:[0-9a-f]{12}|[0-9a-f]{16}|[0-9a-f]{32})(?![\w.])")
_NUMBERS = r"at|seconds|\w+_s|created|updated|\w+UnixNano|most_usd|expected_tokens"
_PATTERNS = (
    (re.compile(rf'("(?:{_NUMBERS})": )"?[\d.e-]+"?'), r"\1<number>"),
    (re.compile(r'("scores": ){[^{}]*}'), r"\1<scores>"),  # those of the router, or of the rule
    (re.compile(r'("decided_by": )"(?:rule|late|router)"'), r"\1<router or rule>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "<date>"),
    (re.compile(r"\b\d+ days old"), "<days> days old"),
    (re.compile(r"(?<![\w$.])\d+(\.\d+)? (ms|s)\b"), "<seconds> s"),
)
_HISTORY_SIZE = re.compile(r'(?<=The history takes )[\d.]+ [kM]B|(?<="disk_bytes": )\d+')
_ABSENT_WITHOUT_SANDBOX = re.compile(r", python(?=\.)|^  python +tool +Python\n", re.MULTILINE)
"""A list of names of which some come from a folder, in the order of the file system."""


class Normaliser:
    """Replaces what differs between two runs: folders, versions, times, and ids by their order."""

    def __init__(self, words: Mapping[str, str], is_fixed: bool = False) -> None:
        """`words` are replaced; with `is_fixed`, times and ids are committed data's, and stay."""
        self._words = words
        self._is_fixed = is_fixed
        self._ids: dict[str, str] = {}

    def text(self, text: str) -> str:
        """Return a text without what differs."""
        for found, word in self._words.items():
            text = text.replace(found, word)
        text = _HISTORY_SIZE.sub("<size>", _ABSENT_WITHOUT_SANDBOX.sub("", text))
        if self._is_fixed:
            return text
        for pattern, word in _PATTERNS:
            text = pattern.sub(word, text)
        return _ID.sub(lambda match: self._id(match[0]), text)

    def _id(self, found: str) -> str:
        return self._ids.setdefault(found, f"<id {len(self._ids) + 1}>")


def _run_text(line: Line, run: CommandRun, normaliser: Normaliser) -> str:
    """Return a command and all that came of it, as text."""
    words = [repr(word) if " " in word or not word else word for word in line.args]
    set_before = [f"{name}={value}" for name, value in line.variables.items()]
    parts = [f"config.toml: {text}" for text in line.config.splitlines()]
    parts += [normaliser.text(" ".join(["$", *set_before, "baton", *words]))]
    parts += [normaliser.text(run.out).rstrip("\n")] if run.out.strip() else []
    parts += [f"! {text}" for text in normaliser.text(run.err).split("\n") if text]
    return "\n".join([*parts, f"exit code {run.code}", ""])


def runs_text(main: Main, lines: Iterable[Line], normaliser: Normaliser) -> str:
    """Return command lines with all that comes of them."""
    return "\n".join(_run_text(line, run_line(main, line), normaliser) for line in lines)
