"""Runs a program that may open no socket, and counts its attempts: `baton doctor --offline`.

`python -m baton.doctor.child.network_watch` reads one JSON object on stdin, {"command": [...],
"seconds": n}, and writes one on stdout, see `WatchResult`. Two means, each used where this machine
has it:

- seccomp's user notification (Linux 5.0; seccomp_unotify(2)): the kernel holds each call that makes
  a socket, in the program and in all that it starts, and asks this process, which counts it and has
  it refused. Where no socket is made, nothing is connected to and no name is looked up.
- a network namespace of its own, in which there is no network at all, loopback included.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import platform
import select
import signal
import socket
import struct
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from baton.doctor import WatchResult

SECCOMP, NAMESPACE = "seccomp", "a network namespace"
MAX_OUTPUT_BYTES = 1 << 20
"""Bytes of each of the program's streams that are kept."""

_MACHINES = {"x86_64": (0xC000003E, 317, 41), "aarch64": (0xC00000B7, 277, 198)}
"""The kernel's name for a machine, and its numbers of the calls `seccomp` and `socket`."""

_IO_URING_SETUP = 425
"""The same on both; a ring makes sockets without a system call for each."""

_NO_NEW_PRIVILEGES, _MODE_FILTER, _NEW_LISTENER = 38, 1, 8
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_ALLOW, _NOTIFY, _KILL = 0x7FFF0000, 0x7FC00000, 0x80000000
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_OTHER_NUMBERS = 0x40000000
"""From here on the x32 numbers, by which the same calls can be made."""

_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_REQUEST = struct.Struct("QIIiIQ6Q")
_REPLY = struct.Struct("QqiI")


def main() -> None:
    """Watch the program that stdin names."""
    asked = json.loads(sys.stdin.read())
    print(json.dumps(asdict(watch_program(asked["command"], asked["seconds"]))), flush=True)


def watch_program(command: list[str], seconds: float) -> WatchResult:
    """Run a program without a network for at most so long; no process of it is left afterwards."""
    watched = WatchResult([], {})
    mine, theirs = socket.socketpair()
    out, err = os.pipe(), os.pipe()
    if (pid := os.fork()) == 0:
        _become_program(command, theirs, out[1], err[1])
    theirs.close()
    for end in (out[1], err[1]):
        os.close(end)
    kept = [_Reader(out[0]), _Reader(err[0])]
    with mine:
        notices = _receive_means(mine, watched)
        try:
            watched.status = _wait_for_program(pid, notices, watched, time.monotonic() + seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            if notices is not None:
                os.close(notices)
    watched.out, watched.err = (reader.text() for reader in kept)
    return watched


class _Reader(threading.Thread):
    """Keeps what comes out of a pipe, which would otherwise be full some time."""

    def __init__(self, pipe: int) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._kept = b""
        self.start()

    def run(self) -> None:
        """Read up to the end."""
        with os.fdopen(self._pipe, "rb", buffering=0) as stream:
            while piece := stream.read(65536):
                self._kept = (self._kept + piece)[:MAX_OUTPUT_BYTES]

    def text(self) -> str:
        """Return what came, once all is over."""
        self.join(5)
        return self._kept.decode("utf-8", "replace")


def _receive_means(line: socket.socket, watched: WatchResult) -> int | None:
    """Take over what the program's process says of its means, and the kernel's notices."""
    names, ancillary, _, _ = line.recvmsg(256, socket.CMSG_SPACE(4))
    watched.means = [mean for mean in names.decode().split(",") if mean]
    for _, _, data in ancillary:
        return int(array.array("i", data)[0])
    return None


def _wait_for_program(
    pid: int, notices: int | None, watched: WatchResult, deadline: float
) -> int | None:
    """Answer the kernel until the program has ended; return its exit status."""
    poll = select.poll()
    if notices is not None:
        poll.register(notices, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0:
        for _, event in poll.poll(min(left, 0.1) * 1000):
            if notices is not None and event & select.POLLIN:
                _refuse_socket(notices, watched)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _refuse_socket(notices: int, watched: WatchResult) -> None:
    """Count one attempt, and have it refused."""
    request = bytearray(_REQUEST.size)
    try:
        fcntl.ioctl(notices, _RECEIVE, request, True)
        id, _, _, number, _, _, family, *_ = _REQUEST.unpack(request)
        name = _family_name(number, family)
        watched.attempts[name] = watched.attempts.get(name, 0) + 1
        fcntl.ioctl(notices, _ANSWER, bytearray(_REPLY.pack(id, 0, -errno.EACCES, 0)), True)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EINTR):  # it ended meanwhile
            raise


def _family_name(number: int, family: int) -> str:
    if number == _IO_URING_SETUP:
        return "io_uring"
    try:
        return socket.AddressFamily(family & 0xFFFF).name
    except ValueError:
        return f"family {family}"


def _become_program(command: list[str], line: socket.socket, out: int, err: int) -> NoReturn:
    """In the new process: give up the network, say by which means, and become the program."""
    try:
        os.setsid()
        means = [NAMESPACE] if _leave_network() else []
        notices = _install_filter()
        if notices is not None:
            means.insert(0, SECCOMP)
        files = [] if notices is None else [notices]
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
        line.sendmsg([",".join(means).encode() or b","], rights if files else [])
        if not means:
            os._exit(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for file, to in ((nothing, 0), (out, 1), (err, 2)):
            os.dup2(file, to)
        os.closerange(3, 65536)
        os.execvp(command[0], command)
    finally:
        os._exit(127)


def _leave_network() -> bool:
    """Move this process into a network namespace of its own, as root or in a user namespace."""
    library = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if user == 0 and library.unshare(_NEW_NET) == 0:
        return True
    if library.unshare(_NEW_USER | _NEW_NET) != 0:
        return False
    with contextlib.suppress(OSError):
        for file, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            Path("/proc/self", file).write_text(text, "ascii")
    return True


def _install_filter() -> int | None:
    """Have the kernel ask about each socket from now on; return where, None if it can't."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return None
    machine, seccomp, make_socket = _MACHINES[platform.machine()]
    program = [
        (_LOAD, 0, 0, 4),
        (_IF_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),  # another machine's calls have other numbers
        (_LOAD, 0, 0, 0),
        (_IF_AT_LEAST, 3, 0, _OTHER_NUMBERS),
        (_IF_EQUAL, 3, 0, make_socket),
        (_IF_EQUAL, 2, 0, _IO_URING_SETUP),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _KILL),
        (_RETURN, 0, 0, _NOTIFY),
    ]
    written = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(written, len(written))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    library = ctypes.CDLL(None, use_errno=True)
    zeros = [ctypes.c_ulong(0)] * 3
    if library.prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), *zeros) != 0:
        return None
    notices = library.syscall(
        ctypes.c_long(seccomp),
        ctypes.c_ulong(_MODE_FILTER),
        ctypes.c_ulong(_NEW_LISTENER),
        ctypes.create_string_buffer(header, len(header)),
    )
    return notices if notices >= 0 else None


if __name__ == "__main__":
    main()
