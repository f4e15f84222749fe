"""With which modes files and folders are made: looked at when they are, not when all is over.

    with record_modes() as modes: ...               # in this process
    baton_watched("ask", "hi")              # in the front process of a Baton, from its start

A mode is the one that was asked for: the umask, which Baton sets as well, doesn't count.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]

Modes = dict[Path, int]


class _Watch:
    """Stands in for the functions that make files and folders, and notes the modes."""

    def __init__(self) -> None:
        self.modes: Modes = {}
        self._open, self._mkdir, self._io_open = os.open, os.mkdir, io.open

    def open(self, path: Any, flags: int, mode: int = 0o777, **rest: Any) -> int:
        if flags & os.O_CREAT:
            self._note(path, mode)
        return self._open(path, flags, mode, **rest)

    def mkdir(self, path: Any, mode: int = 0o777, **rest: Any) -> None:
        self._note(path, mode)
        self._mkdir(path, mode, **rest)

    def io_open(self, file: Any, mode: str = "r", *args: Any, **rest: Any) -> Any:
        if set(mode) & set("wxa") and rest.get("opener") is None:
            self._note(file, 0o666)
        return self._io_open(file, mode, *args, **rest)

    def _note(self, path: Any, mode: int) -> None:
        if isinstance(path, str | bytes | os.PathLike) and not os.path.lexists(path):
            self.modes[Path(os.fsdecode(path)).absolute()] = mode & 0o777


@contextmanager
def record_modes() -> Iterator[Modes]:
    """Note the mode of each file and folder that is made meanwhile; the umask is 0."""
    watch = _Watch()
    umask = os.umask(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", watch.open)
        patch.setattr(os, "mkdir", watch.mkdir)
        patch.setattr(io, "open", watch.io_open)
        patch.setattr(builtins, "open", watch.io_open)
        try:
            yield watch.modes
        finally:
            os.umask(umask)


def open_to_others(modes: Modes, folder: Path) -> Modes:
    """Return what was made in a folder with a mode that lets others in."""
    return {
        path: mode for path, mode in modes.items() if mode & 0o077 and path.is_relative_to(folder)
    }


_WATCHED = """
import json, os, sys
os._exit = sys.exit  # which is how a command ends its process
sys.path.insert(0, sys.argv[1])
from support.file_modes import record_modes
with record_modes() as modes:
    try:
        from baton.cli import main
        main(sys.argv[3:])
    finally:
        with open(sys.argv[2], "w") as file:
            json.dump({str(path): mode for path, mode in modes.items()}, file)
"""


def baton_watched(*args: str) -> Modes:
    """Run Baton as a process and return the modes with which its front made things."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "modes.json")
        command = [sys.executable, "-I", "-c", _WATCHED, str(TESTS), str(record), *args]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=180)
        assert done.returncode == 0, done.stderr.decode()
        return {Path(path): mode for path, mode in json.loads(record.read_text()).items()}
