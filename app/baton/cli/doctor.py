"""`baton doctor`: does everything here work? One line for each thing, and no secrets in any."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import click

from baton import __version__
from baton.adapters import hardware
from baton.cli.output import emit, emit_json, show_size
from baton.domain.errors import BatonError, ConfigError
from baton.domain.sanitise import one_line
from baton.settings import Paths, Settings, find_paths, load

_PATIENCE = 5.0
"""How many seconds a keyring may take to answer; one that wants unlocking can block forever."""

_LITTLE = 2**30
"""Bytes of disk below which it is worth a warning."""


class State(StrEnum):
    """How a thing is: `warn` works, but not as well as it could."""

    OK = "ok"
    WARN = "warn"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    name: str
    state: State
    text: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> int:
    """Check that everything here works; ends with 1 when something is broken."""
    findings: list[Finding] = []
    for finding in examine(find_paths()):
        findings.append(finding)
        if not as_json:
            emit(f"{finding.state:7} {finding.name:12} {one_line(finding.text, 400)}")
    broken = sum(finding.state is State.BROKEN for finding in findings)
    if as_json:
        status = "failed" if broken else "finished"
        emit_json({"schema": 1, "status": status, "checks": [asdict(f) for f in findings]})
    return 1 if broken else 0


def examine(paths: Paths) -> Iterator[Finding]:
    """Check one thing after the other, the quick ones first. A check that fails is a finding."""
    yield _python()
    settings = Settings()
    try:
        settings = load(paths.config_file)
        yield Finding("settings", State.OK, _settings_text(paths.config_file))
    except ConfigError as error:
        yield Finding("settings", State.BROKEN, str(error))
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("machine", _machine),
        ("terminal", _terminal),
        ("folders", lambda: _folders(paths)),
        ("disk", lambda: _disk(paths.data)),
        ("sqlite", _sqlite),
        ("history", lambda: _history(paths.database)),
        ("keyring", _keyring),
        ("onnxruntime", _onnxruntime),
        ("llama.cpp", _llama_cpp),
        ("answer", lambda: _answer(settings, paths)),
    )
    for name, check in checks:
        try:
            yield check()
        except BatonError as error:
            yield Finding(name, State.BROKEN, str(error))
        except Exception as error:  # whatever is broken here is what the doctor is for
            yield Finding(name, State.BROKEN, f"{type(error).__name__}: {error}")


def _python() -> Finding:
    import platform

    text = f"baton {__version__}, Python {platform.python_version()} on {platform.platform()}"
    return Finding("python", State.OK, text)


def _settings_text(file: Path) -> str:
    return f"{file} is fine" if file.exists() else f"all as delivered ({file} is not there)"


def _machine() -> Finding:
    machine = hardware.machine()
    text = (
        f"{show_size(machine.available)} of {show_size(machine.memory)} memory free,"
        f" {machine.cores} cores, {machine.threads} threads"
    )
    return Finding("machine", State.WARN if machine.available < _LITTLE else State.OK, text)


def _terminal() -> Finding:
    terminal = hardware.terminal()
    if not terminal.attached:
        return Finding(
            "terminal", State.OK, "none attached; the app needs one, `baton ask` doesn't"
        )
    colours = {2: "no colours", 2**24: "16 million colours"}
    inside = "".join(f", in {name}" for name in terminal.inside)
    text = (
        f"{terminal.columns}x{terminal.lines}, TERM={terminal.term},"
        f" {colours.get(terminal.colours, f'{terminal.colours} colours')}{inside}"
    )
    small = terminal.columns < 80 or terminal.lines < 24
    return Finding("terminal", State.WARN if small else State.OK, text + " (small)" * small)


def _folders(paths: Paths) -> Finding:
    folders = (paths.config, paths.data, paths.state, paths.cache)
    listed = ", ".join(dict.fromkeys(str(folder) for folder in folders))
    for folder in folders:
        place = _existing(folder)
        if not os.access(place, os.W_OK | os.X_OK):
            return Finding("folders", State.BROKEN, f"{place} can't be written to.")
    files = (paths.data, paths.database, paths.state, paths.logs, paths.config_file)
    open_ones = [str(f) for f in files if f.exists() and f.stat().st_mode & 0o077]
    if open_ones:
        text = f"Others on this machine may read {', '.join(open_ones)}; `chmod go= ...` ends that."
        return Finding("folders", State.WARN, text)
    return Finding("folders", State.OK, listed)


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(_existing(folder)).free
    state = State.WARN if free < _LITTLE else State.OK
    return Finding("disk", state, f"{show_size(free)} free for {folder}")


def _sqlite() -> Finding:
    from baton.adapters.store import sqlite_version, weakness

    if weak := weakness():
        return Finding("sqlite", State.WARN, weak)
    return Finding("sqlite", State.OK, f"SQLite {sqlite_version()}")


def _history(database: Path) -> Finding:
    """Look at the file without writing to it, so that a broken one stays as it is."""
    from baton.sqlite import sqlite3

    if not database.exists():
        return Finding("history", State.OK, "none yet")
    address = f"{database.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        verdict = str(error)
    if verdict != "ok":
        return Finding("history", State.BROKEN, f"{database} is damaged: {verdict}")
    return Finding("history", State.OK, f"{database}, {show_size(database.stat().st_size)}")


def _keyring() -> Finding:
    """Ask in a child, because a keyring that waits to be unlocked never returns."""
    code = "import keyring; k = keyring.get_keyring(); print(type(k).__module__, k.priority)"
    done = _child(code)
    if done is None:
        return Finding("keyring", State.WARN, f"no answer within {_PATIENCE:.0f} s; is it locked?")
    backend, _, priority = done.stdout.strip().rpartition(" ")
    if done.returncode or not backend:
        return Finding("keyring", State.WARN, f"can't be used: {_last_line(done.stderr)}")
    if backend.endswith((".fail", ".null")) or float(priority) <= 0:
        text = "none on this machine; keys for cloud models can come from the environment"
        return Finding("keyring", State.WARN, text)
    return Finding("keyring", State.OK, backend)


def _onnxruntime() -> Finding:
    from baton.adapters.local import probe

    found = asyncio.run(probe("onnxruntime"))
    names = ", ".join(name.removesuffix("ExecutionProvider") for name in found["providers"])
    return Finding("onnxruntime", State.OK, f"{found['version']}, runs on {names}")


def _llama_cpp() -> Finding:
    from baton.adapters.local import probe

    found = asyncio.run(probe("llama"))
    abilities = ", ".join(re.findall(r"(\w+) = 1", found["system"]))
    devices = ", ".join(
        f"{device['description']} ({show_size(device['free'])} free)" for device in found["devices"]
    )
    gpu = f"can use {devices or 'a GPU, but found none'}" if found["gpu"] else "CPU only"
    return Finding("llama.cpp", State.OK, f"build {found['version']}, {gpu}; {abilities}")


def _answer(settings: Settings, paths: Paths) -> Finding:
    from baton.cli.trial import try_out

    trial = asyncio.run(try_out(settings, paths, None))
    where = f" ({trial.hardware})" if trial.hardware else ""
    text = f"{settings.worker} wrote {trial.tokens} tokens in {trial.seconds:.1f} s{where}"
    return Finding("answer", State.OK, text)


def _child(code: str) -> subprocess.CompletedProcess[str] | None:
    """Run Python code in a child; None when it took too long."""
    try:
        return subprocess.run(
            [sys.executable, "-I", "-c", code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return None


def _last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "it died without a word")
