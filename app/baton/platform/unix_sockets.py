"""Unix sockets between processes of one person: where they are, and who is at the other end."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_ADDRESS_BYTES = 100
"""How long the path of a Unix socket may be: the kernel's limit is 104 to 108 bytes."""

IS_SUPPORTED = hasattr(socket, "AF_UNIX") and os.name == "posix"
"""Whether there are any here. On Windows it would take a named pipe, which isn't written."""


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Yield an address of the socket at `path` that isn't too long. Raises OSError."""
    if len(os.fsencode(path)) <= MAX_ADDRESS_BYTES:
        yield str(path)
        return
    if sys.platform != "linux":
        raise OSError("the state folder's path is too long for a socket")
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


def bind(path: Path) -> socket.socket:
    """Return a socket at `path` that only this user reaches, in place of what was there.

    Raises OSError. Only who holds a lock may call it: it takes the place of one that is used, too.
    """
    path.unlink(missing_ok=True)  # of one that was killed
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with socket_address(path) as address:
        listening.bind(address)
    path.chmod(0o600)
    return listening


def connect(path: Path, seconds: float) -> socket.socket:
    """Return a connection to this user's process that listens at `path`.

    It waits at most `seconds` for each answer. Raises OSError, also where it is another user's.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        with socket_address(path) as address:
            connection.connect(address)
        if not is_same_person(connection):
            raise PermissionError("the other process is another user's")
    except OSError:
        connection.close()
        raise
    return connection


def is_there(path: Path, inode: int) -> bool:
    """Whether the socket at `path` is still the one with that number."""
    try:
        return path.stat().st_ino == inode
    except OSError:
        return False


def is_private(folder: Path) -> bool:
    """Whether a folder is this user's, and others can't enter it."""
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def peer_of(connection: socket.socket) -> tuple[int, int] | None:
    """Return the user and the process (0: unknown) at the other end; None if it isn't known."""
    system: str = sys.platform  # else mypy checks only one system's lines
    try:
        if system == "linux":
            data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid, uid, _ = struct.unpack("3i", data)
            return uid, pid
        if system == "darwin":  # LOCAL_PEERCRED: struct xucred begins with version and uid
            version, uid = struct.unpack("2I", connection.getsockopt(0, 1, 76)[:8])
            return None if version else (uid, 0)
    except (OSError, struct.error):
        pass
    return None


def is_same_person(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's."""
    peer = peer_of(connection)
    return peer is not None and peer[0] == os.geteuid()
