"""The child `fork_server` of the background process: it forks a front for each `ask`.

It has imported what an `ask` imports, and knows nothing else: requests are read in the fork. It
ends with the background process, and as soon as a file that it has imported has changed; a fork
that is at work continues. How a request looks: see `fork_client`.
"""

from __future__ import annotations

import gc
import os
import random
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from baton import cli
from baton.cli.fork_client import GO, NUMBER_BYTES, READY, READY_SECONDS, surroundings
from baton.core.errors import BatonError
from baton.core.lazy_loading import compile_patterns
from baton.ipc import messages
from baton.ipc.lending_protocol import StartForking
from baton.platform import unix_sockets
from baton.platform.paths import find_paths
from baton.platform.settings import load_settings
from baton.workers.local import read_model_header

STREAMS = 3
"""stdin, stdout and stderr; the folder comes after them."""


class ForkServer:
    """Forks a front for each connection, and ends forks whose terminal's side has ended.

    A fork that has ended stays in the table of processes until its connection is closed, so that
    no signal can reach another process of the same number.
    """

    def __init__(self, listening: socket.socket, parent: int) -> None:
        self._listening = listening
        self._parent = parent
        self._versions = _module_versions()
        self._surroundings = surroundings()
        self._forks: dict[int, tuple[socket.socket, int]] = {}
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        for descriptor in (listening.fileno(), parent, self._woken):
            self._poll.register(descriptor, select.POLLIN)

    def serve(self) -> None:
        """Fork until the background process ends."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._parent:
                    return
                if descriptor == self._woken:
                    os.read(descriptor, 4096)
                    self._report_ended()
                elif descriptor in self._forks:
                    self._end(descriptor)
                elif _module_versions() != self._versions:
                    return
                else:
                    self._welcome()

    def _welcome(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:
            return
        if not unix_sockets.is_same_person(connection):
            return connection.close()
        if (pid := os.fork()) == 0:
            self._close()
            _be_front(connection, self._surroundings)
        self._forks[connection.fileno()] = connection, pid
        self._poll.register(connection.fileno(), 0)  # whether the other side has ended

    def _close(self) -> None:
        """Let go in a fork what is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._listening, *(connection for connection, _ in self._forks.values())):
            each.close()
        for descriptor in (self._parent, self._woken, self._wake):
            os.close(descriptor)

    def _report_ended(self) -> None:
        """Tell the other side of each fork that was killed by what; others say it themselves."""
        for connection, pid in self._forks.values():
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                if ended.si_code != os.CLD_EXITED:
                    _send_number(connection, ended.si_status)
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)

    def _end(self, descriptor: int) -> None:
        """End the fork whose terminal's side has ended."""
        self._poll.unregister(descriptor)
        connection, pid = self._forks.pop(descriptor)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        connection.close()


def _be_front(connection: socket.socket, surroundings: str) -> NoReturn:
    """Run in a fork what is asked for, and end."""
    try:
        if (words := _take_request(connection, surroundings)) is not None and _may_serve():
            _send_number(connection, READY | os.getpid())
            if connection.recv(1) == GO:
                connection.settimeout(None)
                code = cli.run_command(words, is_fork=True)
                _send_number(connection, code << 8)
    except KeyboardInterrupt:
        _send_number(connection, cli.INTERRUPTED << 8)
    finally:
        os._exit(1)


def _take_request(connection: socket.socket, surroundings: str) -> list[str] | None:
    """Become a process of those who ask; return their words, None where it can't be one."""
    connection.settimeout(READY_SECONDS)
    header, descriptors, _, _ = socket.recv_fds(connection, NUMBER_BYTES, STREAMS + 1)
    rest, body = int.from_bytes(header, "big"), b""
    while len(body) < rest:
        if not (part := connection.recv(rest - len(body))):
            return None
        body += part
    theirs, importance, count, *fields = os.fsdecode(body).split("\0")
    if theirs != surroundings or len(descriptors) != STREAMS + 1:
        return None
    for number, descriptor in enumerate(descriptors[:STREAMS]):
        os.dup2(descriptor, number)
    os.fchdir(descriptors[STREAMS])
    for descriptor in descriptors:
        os.close(descriptor)
    words, variables = fields[: int(count)], fields[int(count) :]
    os.environ.clear()
    os.environ.update(variable.partition("=")[::2] for variable in variables)
    os.setsid()
    time.tzset()
    random.seed()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(importance, "ascii")
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    return words


def _may_serve() -> bool:
    """Whether the settings allow a background process. What is wrong with them, `ask` says."""
    try:
        return load_settings(find_paths().config_file).daemon
    except BatonError:
        return False


def _send_number(connection: socket.socket, number: int) -> None:
    with suppress(OSError):
        connection.sendall(number.to_bytes(NUMBER_BYTES, "big"))


def _module_versions() -> list[object]:
    """Return what changes when a file changes that is imported here."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return [_version(file) for file in (sys.executable, *files) if file]


def _version(file: str) -> Any:
    try:
        status = Path(file).stat()
    except OSError:  # within the single file
        return file
    return file, status.st_ino, status.st_size, status.st_mtime_ns


def main() -> None:
    """Import what an `ask` needs, then fork until the background process ends."""
    commands = os.fdopen(os.dup(0), "rb")
    start: StartForking | None = messages.read(commands, messages.request_decoder(StartForking))
    if start is None or not unix_sockets.is_private(start.place.parent):
        return
    for name in start.modules:
        with suppress(ImportError):
            import_module(name)
    for path in start.models:
        with suppress(BatonError):  # the router's files are none
            read_model_header(path)  # which is kept as long as the file is the same
    compile_patterns()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    gc.collect()
    gc.freeze()
    with unix_sockets.bind(start.place) as listening:
        listening.listen()
        ForkServer(listening, commands.fileno()).serve()
