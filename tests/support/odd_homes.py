"""Homes as they shouldn't be, and the way to run a command that has to live with one."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

BATON = [sys.executable, "-P", "-m", "baton"]
FOLDERS = ("config", "data", "state", "cache")
STRANGER = 4242
"""A user that no test runs as; without an entry in passwd."""

_HELD = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
_AS_STRANGER = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]


@dataclass(frozen=True)
class OddHome:
    """A home: `make` changes a good one, and `place` is what a sentence then names ("": nothing).

    `environ` are variables that differ (None: unset), `command` is what Baton is started by.
    """

    make: Callable[[Path], object]
    place: str = ""
    environ: Mapping[str, str | None] = field(default_factory=dict)
    command: tuple[str, ...] = ()


def _link(path: str, target: str) -> Callable[[Path], object]:
    def make(home: Path) -> None:
        _remove(home / path)
        (home / path).symlink_to(home / target)

    return make


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _missing(path: str) -> Callable[[Path], object]:
    return lambda home: _remove(home / path)


def _file(path: str) -> Callable[[Path], object]:
    def make(home: Path) -> None:
        _remove(home / path)
        (home / path).write_text("not a folder")

    return make


def _folder(path: str) -> Callable[[Path], object]:
    def make(home: Path) -> None:
        _remove(home / path)
        (home / path).mkdir()

    return make


def _read_only(path: str) -> Callable[[Path], object]:
    return lambda home: subprocess.run(["chmod", "-R", "a-w", str(home / path)], check=True)


def _foreign(path: str) -> Callable[[Path], object]:
    def make(home: Path) -> None:
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", str(STRANGER), str(home / path)], check=True)
        (home / path).chmod(0)

    return make


def _newer(path: str) -> Callable[[Path], object]:
    def make(home: Path) -> None:
        with closing(sqlite3.connect(home / path)) as connection:
            connection.execute("INSERT INTO migrations (name, applied) VALUES ('to come', 0)")
            (count,) = connection.execute("SELECT count(*) FROM migrations").fetchone()
            connection.execute(f"PRAGMA user_version = {count}")
            connection.commit()

    return make


def _as_it_is(home: Path) -> None:
    """Change nothing."""


HOMES: dict[str, OddHome] = {"as it should be": OddHome(_as_it_is)}
for _name in FOLDERS:
    HOMES |= {
        f"{_name} is a link to nowhere": OddHome(_link(_name, "gone"), _name),
        f"{_name} is a link to itself": OddHome(_link(_name, _name), _name),
        f"{_name} is a file": OddHome(_file(_name), _name),
        f"{_name} is read-only": OddHome(_read_only(_name), _name),
        f"{_name} is another user's": OddHome(_foreign(_name), _name),
        f"{_name} is missing": OddHome(_missing(_name)),
    }
for _name in ("data/baton.db", "data/ledger.db", "config/config.toml"):
    HOMES |= {
        f"{_name} is a folder": OddHome(_folder(_name), _name),
        f"{_name} is a link to itself": OddHome(_link(_name, _name), _name),
        f"{_name} is another user's": OddHome(_foreign(_name), _name),
    }
HOMES |= {
    "config/config.toml is a link to nowhere": OddHome(
        _link("config/config.toml", "gone"), "config/config.toml"
    ),
    "the history is newer": OddHome(_newer("data/baton.db"), "data/baton.db"),
    "the ledger is newer": OddHome(_newer("data/ledger.db"), "data/ledger.db"),
    "it is missing": OddHome(shutil.rmtree),
    "it is a file": OddHome(_file(""), "."),
    "it is a link to nowhere": OddHome(_link("", "../gone"), "."),
    "it is a link to itself": OddHome(_link("", ""), "."),
    "it is read-only": OddHome(_read_only("."), "."),
    "it is another user's": OddHome(_foreign("."), "."),
    "it is on a full disk": OddHome(
        _as_it_is,
        ".",
        command=(
            *("unshare", "-m", "sh", "-c"),
            'mount -t tmpfs -o size=64k none "$BATON_HOME" || exit 77;'
            ' cat /dev/zero >"$BATON_HOME/fill" 2>/dev/null; exec "$@"',
            "sh",
        ),
    ),
    "there is no home": OddHome(_as_it_is, "HOME", {"BATON_HOME": None, "HOME": None}),
    "HOME is empty": OddHome(_as_it_is, "HOME", {"BATON_HOME": None, "HOME": ""}),
    "HOME isn't a whole path": OddHome(_as_it_is, "HOME", {"BATON_HOME": None, "HOME": "here"}),
    "HOME is the root": OddHome(_as_it_is, "/.", {"BATON_HOME": None, "HOME": "/"}),
    "HOME is missing": OddHome(_as_it_is, "/missing", {"BATON_HOME": None, "HOME": "/missing"}),
    "BATON_HOME is of an unknown user": OddHome(
        _as_it_is, "~unknown-user", {"BATON_HOME": "~unknown-user/x"}
    ),
    "BATON_HOME is a device": OddHome(_as_it_is, "/dev/null", {"BATON_HOME": "/dev/null"}),
    "BATON_HOME is too long": OddHome(_as_it_is, "xxx", {"BATON_HOME": f"/tmp/{'x' * 300}"}),
}


def start_of(odd: OddHome, home: Path) -> tuple[list[str], dict[str, str]] | None:
    """Return what starts Baton in an odd home, and its environment; None where that can't be.

    Root is held to the modes of files.
    """
    environ: dict[str, str | None] = {
        **os.environ,
        "BATON_HOME": str(home),
        "EDITOR": "true",
        **odd.environ,
    }
    needs_stranger = odd.environ.get("BATON_HOME", "") is None
    is_root = os.geteuid() == 0
    if shutil.which("setpriv") is None or ((needs_stranger or odd.command) and not is_root):
        return None
    before = [*odd.command]
    if is_root:
        before += _AS_STRANGER if needs_stranger else _HELD
    return [*before, *BATON], {name: value for name, value in environ.items() if value is not None}


def run_in(
    odd: OddHome, home: Path, *args: str, piped: bytes = b"", seconds: float = 60
) -> tuple[int, str, str] | None:
    """Run a command in a home that was made odd; None where this machine can't make it so.

    Returns the exit code (0 for what served until it was stopped), stdout and stderr.
    """
    started = start_of(odd, home)
    if started is None:
        return None
    command, environ = started
    with subprocess.Popen(
        [*command, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=environ,
    ) as process:
        try:
            out, err = process.communicate(piped, timeout=seconds)
            code = process.returncode
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate()
            code = 0
    return None if code == 77 else (code, out.decode(), err.decode())
