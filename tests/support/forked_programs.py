"""Programs in processes of their own, each forked from one that has loaded Baton's databases.

A new Python takes 0.3 s of processor time to import them, a forked one a few milliseconds. What a
test kills, counts or sets limits for is a real process: another one's child, with its own id.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

PRELUDE = """
import asyncio, os, pathlib, signal, sys
from support import ledger_processes as spend, store_conversations as talk
"""
"""What every program begins with."""


class Program:
    """A running program, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, code: str) -> None:
        (stdin, own_in), *outputs = os.pipe(), os.pipe(), os.pipe(), os.pipe()
        (own_out, stdout), (own_err, stderr), (status, child_status) = outputs
        theirs = [stdin, stdout, stderr, child_status]
        _send_to_forker(PRELUDE + code, theirs)
        for handle in theirs:
            os.close(handle)
        self.stdin: IO[str] = os.fdopen(own_in, "w")
        self.stdout: IO[str] = os.fdopen(own_out)
        self._stderr: IO[str] = os.fdopen(own_err)
        self._status: IO[str] = os.fdopen(status)
        self.pid = int(self._status.readline())

    @functools.cached_property
    def returncode(self) -> int:
        """The exit status, negative for a signal. Waits for the end."""
        with self._status:
            return int(self._status.readline())

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the program has ended and was noticed to have."""
        if "returncode" not in self.__dict__:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, text: str = "", timeout: float = 60) -> tuple[str, str]:
        """Send a last text; return what was still printed, and the errors. Kills what hangs."""
        watch = threading.Timer(timeout, self.kill)
        watch.start()
        try:
            try:
                with self.stdin:
                    self.stdin.write(text)
            except BrokenPipeError:
                pass
            with self.stdout, self._stderr, ThreadPoolExecutor(1) as pool:
                errors = pool.submit(self._stderr.read)
                printed = self.stdout.read()
                return printed, errors.result()
        finally:
            _ = self.returncode
            watch.cancel()


_lock = threading.Lock()


@functools.cache
def _forker() -> socket.socket:
    """Start the process that forks; it ends with this one."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
    code += f"from support.forked_programs import serve\nserve({there.fileno()})"
    process = subprocess.Popen([sys.executable, "-c", code], pass_fds=[there.fileno()])
    there.close()

    def end() -> None:
        here.close()
        process.wait()

    atexit.register(end)
    return here


def _send_to_forker(code: str, handles: list[int]) -> None:
    """Have a program started in this environment, with handles for its streams and its status."""
    request = json.dumps([code, dict(os.environ), str(Path.cwd())]).encode()
    with _lock:
        socket.send_fds(_forker(), [len(request).to_bytes(4, "big")], handles)
        _forker().sendall(request)


def serve(handle: int) -> None:
    """Fork a process for each program that is asked for, until the asker has ended."""
    import sqlite_utils  # noqa: F401  # what migrates

    from support import ledger_processes, store_conversations  # noqa: F401

    with socket.socket(fileno=handle) as asker:
        while True:
            size, handles, *_ = socket.recv_fds(asker, 4, 4)
            _reap_ended()
            if not size:
                return
            code, environ, folder = json.loads(_receive(asker, int.from_bytes(size, "big")))
            if not os.fork():
                asker.close()
                _watch(code, environ, folder, handles)
            for one in handles:
                os.close(one)


def _reap_ended() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _receive(asker: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        content += asker.recv(size - len(content))
    return content


def _watch(code: str, environ: dict[str, str], folder: str, handles: list[int]) -> None:
    """Fork the program itself; report its id, then its exit status."""
    *streams, status = handles
    if not (pid := os.fork()):
        os.close(status)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(environ)
        os.chdir(folder)
        time.tzset()
        random.seed()
        os._exit(_run(code))
    for stream in streams:
        os.close(stream)
    os.write(status, f"{pid}\n".encode())
    _, ended = os.waitpid(pid, 0)
    os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
    os._exit(0)


def _run(code: str) -> int:
    """Run a program as Python's -c does; return its exit status."""
    try:
        exec(code, {"__name__": "__main__"})
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else bool(end.code)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
