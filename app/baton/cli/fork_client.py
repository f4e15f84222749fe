"""`ask` in a process that the background process keeps ready for it: the terminal's side.

That process has all modules imported, and nothing else: it reads neither prompts nor settings nor
keys. For each `ask` it forks; the fork takes over the terminal's streams, folder and environment,
and is the front from then on. Signals are passed on to it, and its end is this process's end.
"""

from __future__ import annotations

import _locale  # its wrapper imports much more
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from baton.core.errors import ConfigError
from baton.platform.paths import find_paths

TYPE_CHECKING = False  # typing's own would import it
if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket
    from types import FrameType

READY_SECONDS = 1.0
"""How long a fork may take until it is ready: 3 to 10 ms; after that `ask` does it all itself."""

FORWARDED = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")
READY, GO = 1 << 31, b"\1"
"""A fork that is ready says READY with its process; it then waits for GO."""

NUMBER_BYTES = 4
"""The size of what it says: that, and the status with which it ends."""

_OWN_VARIABLES = ("GCONV", "GLIBC_", "LD_", "MALLOC_", "PYTHONPATH")
"""What variables begin with that a process reads at its start only."""

_STATUS_FIELDS = (
    *("Uid", "Gid", "Groups", "SigBlk", "SigIgn", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
    *("NoNewPrivs", "Seccomp", "Seccomp_filters", "Cpus_allowed", "Mems_allowed"),
)


def ask_forked(words: Sequence[str]) -> int | None:
    """Have a fork run the command with these words; return its exit code.

    None: there is no fork server, or none whose fork could stand for this process, and nothing has
    happened yet.
    """
    if sys.platform != "linux" or "--no-daemon" in words:
        return None
    try:
        place = find_paths().front_socket
    except ConfigError:  # `ask` itself says so
        return None
    if not os.access(place, os.F_OK):
        return None
    from baton.platform.unix_sockets import connect

    try:
        if any(map(_is_in_background, range(3))):
            return None
        connection = connect(place, READY_SECONDS)
    except OSError:
        return None
    with connection:
        try:
            _send_request(connection, words)
            if not (ready := _read_number(connection)) & READY:
                return None
            connection.sendall(GO)
        except OSError:
            return None
        try:
            _forward_signals(ready & ~READY)
            connection.settimeout(None)
            status = _read_number(connection)
        except OSError:
            print("baton: The process that wrote the answer was ended.", file=sys.stderr)
            return 1
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with suppress(OSError):  # SIGKILL can't be set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def surroundings() -> str:
    """Return what a process has of its starter and a fork of another one can't take over.

    Where it runs (namespaces, cgroup, root folder), what it may do (user, capabilities, limits,
    processors, priority), and with what Python and which code.
    """
    status = dict(line.partition(":")[::2] for line in _read("/proc/self/status").splitlines())
    limits = _read("/proc/self/limits").splitlines()
    variables = sorted(name for name in os.environ if name.startswith(_OWN_VARIABLES))
    root, flags = Path("/").stat(), sys.flags
    parts: list[object] = [
        *(space.readlink() for space in sorted(Path("/proc/self/ns").iterdir())),
        *(status.get(name) for name in _STATUS_FIELDS),
        *(line for line in limits if not line.startswith("Max core")),  # children have none
        *(f"{name}={os.environ[name]}" for name in variables),
        *(_read("/proc/self/cgroup"), _read("/proc/self/attr/current").strip("\0\n")),
        *(root.st_dev, root.st_ino, os.nice(0), os.sched_getscheduler(0)),
        *(sys.executable, __file__, flags.isolated, flags.utf8_mode, flags.optimize),
        _locale.setlocale(_locale.LC_CTYPE),
    ]
    return "\n".join(map(str, parts))


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "surrogateescape")
    except OSError:
        return ""


def _is_in_background(terminal: int) -> bool:
    """Whether this process may not read from its terminal now, as after `baton ask ... &`."""
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:  # it isn't a terminal, or none of this session
        return False


def _send_request(connection: socket, words: Sequence[str]) -> None:
    """Send streams, folder, surroundings, words and environment. Raises OSError."""
    from socket import send_fds

    variables = [f"{name}={value}" for name, value in os.environ.items()]
    importance = _read("/proc/self/oom_score_adj").strip()
    fields = [surroundings(), importance, str(len(words)), *words, *variables]
    body = os.fsencode("\0".join(fields))
    folder = os.open(".", os.O_PATH | os.O_DIRECTORY)
    try:
        send_fds(connection, [len(body).to_bytes(NUMBER_BYTES, "big")], [0, 1, 2, folder])
    finally:
        os.close(folder)
    connection.sendall(body)


def _read_number(connection: socket) -> int:
    """Return the next number. Raises OSError, also where the other side has ended."""
    if len(data := connection.recv(NUMBER_BYTES)) < NUMBER_BYTES:
        raise ConnectionError("it has ended")
    return int.from_bytes(data, "big")


def _forward_signals(fork: int) -> None:
    """Pass on to the fork what is sent to this process; its number stays its own until we end."""

    def forward(number: int, _: FrameType | None) -> None:
        os.kill(fork, number)

    def stop(_: int, __: FrameType | None) -> None:
        os.kill(fork, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(fork, signal.SIGCONT)

    for name in FORWARDED:
        number = getattr(signal, name)
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, forward)
    signal.signal(signal.SIGTSTP, stop)
