"""Files of the models folder: safe names, safe opening, locks, replacement and deletion."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from baton.core.errors import ConfigError, ModelFileError
from baton.core.sanitiser import one_line
from baton.gguf.split_files import is_device_name, is_plain_name
from baton.platform.durable_files import make_folder, open_replacement

RECORD_FILE = "model.json"
"""The file in a model's folder that says what the model is."""

LOCK_FILE = ".lock"
"""The lock that a process holds while it changes the models folder."""

DRAFT_PREFIX = ".model-"
"""How the name begins of a record that is being written."""

PARTIAL_SUFFIX = ".partial"
"""How the name ends of a file that is on its way. Before that stands its sha256, or what it comes
from as a hash of its own; beside it are notes about it (`.partial.etag`) and its lock (`.lock`)."""

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_BATON_FILE = re.compile(
    rf"{re.escape(DRAFT_PREFIX)}[0-9a-f]+\.json|.+{re.escape(PARTIAL_SUFFIX)}(\..+)?|.+\.lock"
)


def is_model_id(name: str) -> bool:
    """Whether a name may be a model's id, and so its folder's name."""
    return _ID.fullmatch(name) is not None and not is_device_name(name)


def check_model_id(id: str) -> None:
    """Raise ConfigError if that can't be a model's id."""
    if not is_model_id(id):
        raise ConfigError(
            f"{one_line(id, 80)!r} can't be a model's id.",
            "An id has up to 64 of a-z, 0-9, dot, dash and underscore, and begins with a letter"
            " or digit.",
        )


def is_model_file(file: str) -> bool:
    """Whether a name may be that of a model's file in its folder."""
    return is_plain_name(file) and file.lower().endswith(".gguf")


def check_model_file(file: str) -> None:
    """Raise ConfigError if that can't be the name of a model's file in its folder."""
    if not is_model_file(file):
        raise ConfigError(
            f"A model's file can't be named {one_line(file, 80)!r} here.",
            "It needs a plain name that ends with .gguf.",
        )


def is_baton_file(name: str) -> bool:
    """Whether a file of that name is Baton's own: a draft, a partial download or a lock."""
    return _BATON_FILE.fullmatch(name) is not None


_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def open_regular_file(path: Path, *, itself: bool = False) -> Iterator[BinaryIO]:
    """Open an ordinary file; with `itself`, one that isn't a link. Raises OSError.

    It is checked before it is opened, since opening a device may have effects, and after, in case
    it was replaced by a pipe meanwhile.
    """
    try:
        _require_regular((path.lstat() if itself else path.stat()).st_mode)
        handle = os.open(path, _OPEN_FLAGS | _NO_FOLLOW if itself else _OPEN_FLAGS)
    except ValueError as error:  # no name that the system knows
        raise OSError(0, str(error)) from error
    with os.fdopen(handle, "rb") as file:
        _require_regular(os.fstat(handle).st_mode)
        yield file


def _require_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(0, "it isn't an ordinary file")


LOCK_SECONDS = 10.0
"""How many seconds to wait for another Baton's change, which takes a few milliseconds."""


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of the models folder, which is made if need be.

    Raises ModelFileError, also for an OSError inside.
    """
    from filelock import FileLock, Timeout

    with explain_folder_errors(folder):
        make_folder(folder)
        try:
            with FileLock(folder / LOCK_FILE, timeout=LOCK_SECONDS, poll_interval=0.01, mode=0o600):
                yield
        except Timeout:
            raise ModelFileError(
                f"Another Baton has kept {folder} locked for {LOCK_SECONDS:.0f} seconds, so nothing"
                " was changed.",
                "Wait for it, or end it, and try again.",
            ) from None


@contextmanager
def explain_folder_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError into a ModelFileError."""
    try:
        yield
    except OSError as error:
        raise ModelFileError(
            f"The models folder {folder} can't be changed: {error.strerror or error}. What was"
            " recorded before is kept.",
            "Check its owner and permissions, and that the disk isn't full.",
        ) from error


def replace_json(path: Path, data: bytes) -> None:
    """Replace a file: at any moment it is the old one or the new one."""
    draft = path.with_name(f"{DRAFT_PREFIX}{os.urandom(8).hex()}.json")
    with open_replacement(path, draft=draft) as file:
        file.write(data)


@contextmanager
def hold_download_locks(folder: Path, what: str) -> Iterator[None]:
    """Hold the locks of a model's downloads. Raises ConfigError if a download runs."""
    with ExitStack() as held:
        for lock in sorted(folder.glob("*.lock")):
            if not try_lock(lock, held):
                raise ConfigError(
                    f"{what} is being downloaded, so it was not removed.",
                    "Stop the download first, or wait for it.",
                )
        yield


def is_locked(lock: Path) -> bool:
    """Whether a process holds a lock now."""
    with ExitStack() as held:
        return not try_lock(lock, held)


def try_lock(lock: Path, until: ExitStack) -> bool:
    """Take a lock, if it is a lock's file; whether it was free."""
    from filelock import FileLock, Timeout

    try:
        before = lock.lstat()
        if not stat.S_ISREG(before.st_mode):
            return True
        until.enter_context(FileLock(lock, timeout=0, mode=0o600))
        if lock.lstat().st_ino != before.st_ino:  # its holder has just deleted it
            lock.unlink()
    except Timeout:
        return False
    except OSError:
        return True
    return True


def is_regular_file(path: Path) -> bool:
    """Whether there is an ordinary file; a link to one is none."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def delete_files(paths: Iterable[Path]) -> int:
    """Delete files; return the bytes freed. Missing files and folders are skipped.

    A file with other hard links frees nothing.
    """
    size = 0
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                continue
            path.unlink()
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                size += status.st_size
    return size
