"""Files that only this user can read, and that a crash or a power cut leaves whole.

    replace_file(path, text)                    # the old text or the new one, never a part
    with open_replacement(path) as file: ...    # the same, piece by piece
    create_file(path, text)                     # a new one; FileExistsError where one is
    read_ordinary(path, limit)                  # no pipe, no device, at most `limit` bytes

Each file is made with the mode 0600 and each folder with 0700: a `chmod` afterwards would leave a
moment in which others can open it. All raise OSError.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

STALE_SECONDS = 60
"""After how long an unfinished draft is removed: a write takes milliseconds."""

_WINDOWS_FULL = {39, 112}  # ERROR_HANDLE_DISK_FULL, ERROR_DISK_FULL
_BASE_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def open_private(path: str | Path, flags: int) -> int:
    """Return a descriptor of a file; one that the flags make is private from its first moment.

    Fits `open(..., opener=open_private)`.
    """
    return os.open(path, flags | _BASE_FLAGS, PRIVATE_FILE)


def read_ordinary(path: Path, limit: int) -> bytes:
    """Read all of a file unless it is a pipe or a device, for those may never end."""
    descriptor = os.open(path, os.O_RDONLY | _BASE_FLAGS | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it isn't an ordinary file", str(path))
        if status.st_size > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.read(limit)


def create_file(path: Path, text: str | bytes) -> None:
    """Write a new file; where that fails, none of it stays."""
    descriptor = open_private(path, _CREATE_FLAGS)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _write_through(file, text)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_file(path: Path, text: str | bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Write a file that is the old one or the new one at any moment."""
    with open_replacement(path, mode=mode) as file:
        file.write(text.encode() if isinstance(text, str) else text)


@contextmanager
def open_replacement(
    path: Path, *, mode: int = PRIVATE_FILE, draft: Path | None = None
) -> Iterator[BinaryIO]:
    """Open a file that takes the place of the one at `path` at the end, if there was no error.

    `mode` is what it has then; until then it is private. `draft` is where it is written, else a
    free name beside it. A link stays and its target is replaced; a pipe or a device is written to.
    """
    path = path.resolve()
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with path.open("wb") as file:
            yield file
        return
    draft = draft or _free_draft(path)
    descriptor = open_private(draft, _CREATE_FLAGS)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            _write_through(file)
            if mode != PRIVATE_FILE:
                draft.chmod(mode)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _free_draft(path: Path) -> Path:
    """Return a free name beside a file; what a killed Baton began there is removed."""
    from hashlib import sha256  # with OpenSSL, which few commands need

    begun = f".baton-{sha256(path.name.encode('utf-8', 'replace')).hexdigest()[:8]}-"
    with suppress(OSError):
        for left in path.parent.glob(f"{begun}*.part"):
            if time.time() - left.stat().st_mtime > STALE_SECONDS:
                left.unlink(missing_ok=True)
    return path.with_name(f"{begun}{os.urandom(8).hex()}.part")


def _write_through(file: BinaryIO, text: str | bytes = b"") -> None:
    file.write(text.encode() if isinstance(text, str) else text)
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def hold_lock(path: Path, seconds: float = 0.0) -> Iterator[None]:
    """Hold a lock among processes, whose file is taken away again.

    Raises TimeoutError where another process keeps it for so many seconds.
    """
    from filelock import FileLock

    lock = FileLock(path, mode=PRIVATE_FILE, poll_interval=0.01, thread_local=False)
    lock.acquire(timeout=seconds)
    try:
        yield
    finally:
        # A process that waits for it notices that it is deleted, and makes a new one. Where what is
        # open can't be deleted, that fails until it was released.
        with suppress(OSError):
            path.unlink()
        lock.release()
        if os.name == "nt":
            with suppress(OSError):
                path.unlink()


def is_disk_full(error: OSError) -> bool:
    """Whether the system refuses a write because the disk, or this user's part of it, is full."""
    full = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
    return error.errno in full or getattr(error, "winerror", None) in _WINDOWS_FULL


def sync_folder(folder: Path) -> None:
    """Make sure that a folder's names outlast a power cut, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder that only this user can open, and those above it, where there are none."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    except FileExistsError as error:  # a file, or a link that leads to no folder
        raise OSError(errno.ENOTDIR, folder_fault(folder), str(folder)) from error
    sync_folder(folder.parent)


def folder_fault(folder: Path) -> str:
    """Say why a folder can't be used, or made where there is none, or return ""."""
    for place in (folder, *folder.parents):
        try:
            status = place.stat()
        except (FileNotFoundError, NotADirectoryError):
            if place.is_symlink():
                return f"{place} is a link to {place.readlink()}, which isn't there"
            continue
        except OSError as error:
            return f"{place} can't be read ({error.strerror})"
        if not stat.S_ISDIR(status.st_mode):
            return f"{place} isn't a folder"
        wanted = os.W_OK | os.X_OK | (os.R_OK if place == folder else 0)
        if not os.access(place, wanted):
            is_own = os.name != "posix" or status.st_uid == os.geteuid()
            whose = "" if is_own else " (it is another user's)"
            return f"{place} can't be written to{whose}"
        return ""
    return ""


def expand_home(path: str | Path) -> Path:
    """Return a path with the home in place of `~`; as it is where there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
