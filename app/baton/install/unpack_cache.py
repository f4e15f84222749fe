"""What single files have unpacked themselves to: the trees in `<cache>/app`, and their locks.

A process that runs from a tree holds `<key>.lock`, shared; one that removes the tree holds it
alone. `lock` is held while a tree is unpacked (see packaging/launcher/tree.h).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CACHE_NAME = re.compile(r"([0-9a-f]{16})(\.lock|\.part\.\w+)?|lock")
"""What the launcher calls a tree (by its contents), its lock and drafts, and their lock."""

_PAYLOAD_MAGIC = b"\0Baton's payload"
_FIELDS_BYTES, _SUM_BYTES, _KEY_SLICE = 120, 32, slice(56, 64)
"""The trailer (packaging/launcher/pack.py): its fields, their sum, and what the tree is called."""

_OFFSET_AT, _HASH_AT = 24, 56
"""Where it says where the payload begins and how long it is, and which hash that has."""

_TAIL_BYTES = 8 << 20
"""What stands at a single file's end, behind which there may be a signature of that size."""


def is_single_file(file: Path) -> bool:
    """Whether that is a single file of Baton."""
    return _PAYLOAD_MAGIC in _read_tail(file)


def tree_key(file: Path) -> str:
    """Return what the tree of a single file is called; "" of other files, or if unreadable."""
    tail = _read_tail(file)
    at = max(0, tail.rfind(_PAYLOAD_MAGIC))
    fields, digest = (
        tail[at : at + _FIELDS_BYTES],
        tail[at + _FIELDS_BYTES : at + _FIELDS_BYTES + _SUM_BYTES],
    )
    return fields[_KEY_SLICE].hex() if hashlib.sha256(fields).digest() == digest else ""


def has_damaged_payload(file: Path) -> bool:
    """Whether what a single file unpacks isn't what was packed; False for other files.

    Raises OSError.
    """
    tail = _read_tail(file)
    at = tail.rfind(_PAYLOAD_MAGIC)
    if at < 0:
        return False
    offset, size = struct.unpack_from("<QQ", tail, at + _OFFSET_AT) if tree_key(file) else (0, 0)
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        opened.seek(offset)
        while size and (data := opened.read(min(size, 1 << 20))):
            digest.update(data)
            size -= len(data)
    return bool(size) or digest.digest() != tail[at + _HASH_AT : at + _HASH_AT + _SUM_BYTES]


class UnpackCache:
    """The trees in a folder."""

    def __init__(self, app: Path) -> None:
        self._app = app

    def paths(self) -> list[Path]:
        """Return the paths that the launcher can have made."""
        return [path for path in folder_entries(self._app) if _CACHE_NAME.fullmatch(path.name)]

    def trees(self) -> list[Path]:
        """Return the trees among them, and what is unfinished of any."""
        return [path for path in self.paths() if path.suffix != ".lock" and path.name != "lock"]

    def discard(self, key: str) -> None:
        """Remove a tree, and what is unfinished of it, unless a process runs from it."""
        with _hold_lock(self._app / f"{key}.lock") as alone:
            if alone:
                draft = self._app / f"{key}.part.{os.getpid()}"
                with suppress(OSError):  # so that there is never a half of it under its name
                    (self._app / key).rename(draft)
                _remove(draft)
                _remove(self._app / f"{key}.lock")
        with _hold_lock(self._app / "lock") as alone:
            for draft in self.paths() if alone else ():
                if draft.name.startswith(f"{key}.part."):
                    _remove(draft)

    def remove_all(self) -> list[str]:
        """Remove all but what another process runs from; return a sentence for each that stays.

        A tree that is free stays locked until this process ends, so that no other starts from it.
        """
        stays = []
        for path in self.trees():
            lock = self._app / ("lock" if ".part." in path.name else f"{path.name}.lock")
            if path.is_symlink() or not path.is_dir() or _try_lock(lock):
                _remove(path)
            else:
                stays.append(f"{path} stays: another Baton runs from it.")
        for lock in self.paths():
            if lock.suffix == ".lock" and not lock.with_suffix("").exists():
                _remove(lock)
        if [path.name for path in self.paths()] == ["lock"]:
            _remove(self._app / "lock")
        return stays


def folder_entries(folder: Path) -> list[Path]:
    """Return what is in a folder, nothing where it is a link or can't be read."""
    if folder.is_symlink():
        return []
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _read_tail(file: Path) -> bytes:
    if not file.is_file():  # a pipe would never end
        return b""
    with suppress(OSError), file.open("rb") as opened:
        opened.seek(max(0, opened.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return opened.read()
    return b""


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


@contextmanager
def _hold_lock(lock: Path) -> Iterator[bool]:
    """Hold a lock alone; False where it is missing or held, by this process too."""
    import fcntl

    try:
        handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = os.path.samestat(os.fstat(handle), lock.lstat())
        except OSError:
            alone = False
        yield alone
    finally:
        os.close(handle)


def _try_lock(lock: Path) -> bool:
    """Whether no other process holds a lock; this one got its handle from the launcher."""
    import fcntl

    try:
        handle = _inherited_handle(lock)
        handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW) if handle is None else handle
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with suppress(OSError):  # trying has let go of what was held
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    return True


def _inherited_handle(lock: Path) -> int | None:
    """Return this process's open handle of a file, if it has one. Raises OSError."""
    wanted = lock.lstat()
    for handle in _open_handles():
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), wanted):
                return handle
    return None


def _open_handles() -> Iterator[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            yield from [int(name) for name in os.listdir(folder) if name.isdecimal()]  # noqa: PTH208
            return
