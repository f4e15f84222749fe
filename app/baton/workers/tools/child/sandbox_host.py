"""Where code runs: a process of its own for each piece of code, forked and thrown away.

The host is a fork of the tools' process, made before that has threads or knows anything. For the
first piece of code it imports what code may use; it forks once per piece, and is the only one to
kill its forks, so that no other process is ever hit. It never sees the code: files are handed
through to the fork.
"""

from __future__ import annotations

import importlib
import math
import os
import select
import signal
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import NoReturn

from baton.core.markdown import blocks
from baton.ipc.parent_channel import Failure
from baton.workers.tools.child import seccomp
from baton.workers.tools.messages import MAX_TEXT_CHARS

MAX_OUTPUT_BYTES = 64 * 1024
"""How many bytes code may print."""

PYTHON_NAMES = ("python", "py", "python3")
TESTS_LANGUAGE = "python-tests"
"""The language of a block of tests for the code in the other blocks; only these decide then."""

_IMPORTABLE_MODULES = """
    abc array ast asyncio base64 binascii bisect calendar cmath codecs collections collections.abc
    colorsys contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib doctest
    configparser encodings.ascii encodings.base64_codec encodings.cp1252 encodings.cp437
    encodings.hex_codec encodings.idna encodings.iso8859_15 encodings.latin_1 encodings.punycode
    encodings.raw_unicode_escape encodings.rot_13 encodings.unicode_escape encodings.utf_16
    encodings.utf_16_be encodings.utf_16_le encodings.utf_32 encodings.utf_7 encodings.utf_8_sig
    enum fnmatch fractions functools graphlib gzip hashlib heapq hmac html html.parser inspect io
    itertools json keyword linecache locale logging math numbers operator pickle pprint queue
    random re secrets shlex statistics string struct sys textwrap threading time timeit tokenize
    traceback types typing unicodedata unittest unittest._log unittest.async_case unittest.mock
    urllib.parse uuid warnings weakref xml.etree.ElementTree zlib tomllib yaml _strptime
    jsonschema baton.workers.tools.child.sandbox_guest
"""
"""What code can import: nothing is found any more once it is confined."""

HEADER = struct.Struct("d16sI")
"""What the confined process reads first: the seconds that it has, the word that shows that it ended
by itself, and the size of the code. What follows the code are tests that others wrote for it."""

_STATUS = struct.Struct("i")


class SandboxHost:
    """Runs code, from any thread of the tools' process."""

    def __init__(self, line: socket.socket) -> None:
        self._socket = line
        self._lock = threading.Lock()
        self._controls: dict[int, socket.socket] = {}
        self._cancelled: set[int] = set()

    @classmethod
    def start(cls) -> SandboxHost | None:
        """Fork the host, or return None where there is no sandbox."""
        if not seccomp.describe_sandbox():
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        with theirs:
            if os.fork() == 0:
                try:
                    _close_other_files(theirs.fileno())
                    seccomp.die_with_parent(parent)
                    _fork_on_demand(theirs)
                finally:
                    os._exit(1)
        return cls(ours)

    def run(self, number: int, text: str, seconds: float) -> str:
        """Return what the code in a text prints, and how it ended. Raises Failure."""
        if len(text) > MAX_TEXT_CHARS:
            raise Failure("WorkerError", "This is too long to be run.")
        code = _python_code(text)
        if not code:
            raise Failure("WorkerError", "There is no block of Python code in this.")
        tests = _python_code(text, TESTS_LANGUAGE).encode("utf-8", "replace")
        word, encoded = os.urandom(16), code.encode("utf-8", "replace")
        source = os.memfd_create("code")
        files = [source, *os.pipe(), *os.pipe()]
        mine, theirs = socket.socketpair()
        try:
            os.write(source, HEADER.pack(seconds, word, len(encoded)) + encoded + tests)
            os.lseek(source, 0, os.SEEK_SET)
            self._send([source, files[2], files[4], theirs.fileno()])
            for file in (files[2], files[4]):
                os.close(file)
            files = [source, files[1], files[3]]
            theirs.close()
            self._register(number, mine)
            mine.recv(1)  # the time counts from when it is forked
            out, err, why = _read_output(files[1], files[2], time.monotonic() + seconds)
            mine.shutdown(socket.SHUT_WR)
            status = _STATUS.unpack(mine.recv(_STATUS.size, socket.MSG_WAITALL))[0]
        except (OSError, struct.error):
            os._exit(1)  # without a host there is nothing to do; the front starts another
        finally:
            self._forget(number)
            mine.close()
            for file in files:
                os.close(file)
        return _run_result(out, err, why or _death_reason(status), status, word.hex())

    def cancel(self, number: int) -> None:
        """Have a piece of code killed, or not begun if it hasn't."""
        with self._lock:
            if (control := self._controls.get(number)) is None:
                self._cancelled.add(number)
            else:
                control.shutdown(socket.SHUT_WR)

    def _register(self, number: int, control: socket.socket) -> None:
        with self._lock:
            self._controls[number] = control
            if number in self._cancelled:
                control.shutdown(socket.SHUT_WR)

    def _forget(self, number: int) -> None:
        with self._lock:
            self._controls.pop(number, None)
            self._cancelled.discard(number)

    def _send(self, files: list[int]) -> None:
        with self._lock:
            socket.send_fds(self._socket, [b"run"], files)


def _python_code(text: str, language: str = "") -> str:
    """Return the Python code in a text, or "": blocks that say so, else the last that doesn't.

    With a language, such as TESTS_LANGUAGE, it is the blocks of that one.
    """
    found = blocks(text)
    wanted = (language,) if language else PYTHON_NAMES
    labelled = [block.text for block in found if block.language in wanted]
    bare = [block.text for block in found if not block.language and not language]
    return "\n\n".join(labelled or bare[-1:])


def _read_output(out: int, err: int, deadline: float) -> tuple[bytes, bytes, str]:
    """Read until both pipes end, time is up or too much has come; then say why."""
    got = {out: b"", err: b""}
    poll = select.poll()
    for file in got:
        poll.register(file, select.POLLIN)
    ended = 0
    while ended < len(got):
        left = deadline - time.monotonic()
        if left <= 0:
            return got[out], got[err], "time"
        for file, _ in poll.poll(math.ceil(left * 1000)):
            data = os.read(file, 65536)
            got[file] += data
            if not data:
                poll.unregister(file)
                ended += 1
            if len(got[file]) > MAX_OUTPUT_BYTES:
                return got[out], got[err], "output"
    return got[out], got[err], ""


def _death_reason(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return ""
    number = os.WTERMSIG(status)
    return "time" if number == signal.SIGXCPU else signal.Signals(number).name


def _run_result(out: bytes, err: bytes, why: str, status: int, word: str) -> str:
    """Write down what was printed and how it ended. Raises Failure for output that doesn't say so.

    The last line is this function's: only with the word is it what the sandbox has found.
    """
    reasons = {
        "time": "The code ran too long and was stopped.",
        "output": f"The code printed more than {MAX_OUTPUT_BYTES // 1024} KB and was stopped.",
        "SIGKILL": "The code was stopped, perhaps because memory ran out.",
    }
    if why:
        raise Failure("WorkerError", reasons.get(why, f"The code crashed Python ({why})."))
    ended = os.waitstatus_to_exitcode(status)
    *_, words, last = ["", "", *err.decode("utf-8", "replace").split("\n")]
    is_genuine = last == word
    words = " ".join(words.split()) if is_genuine else ""
    if ended not in (0, 1):
        raise Failure("WorkerError", words or "The code could not be run here.")
    printed = out.decode("utf-8", "replace").strip("\n")
    if ended:
        outcome = f"Failed: {words or 'Python was ended by the code itself.'}"
    else:
        outcome = words if is_genuine else "Not tested: The code itself ended Python."
    return f"{printed}\n{outcome}" if printed else outcome


def _close_other_files(kept: int) -> None:
    """Close every file but one: the front must see the tools' end when they end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in (0, 1, 2):
        os.dup2(nothing, file)
    os.closerange(3, kept)
    os.closerange(kept + 1, 65536)


def _fork_on_demand(line: socket.socket) -> NoReturn:
    """Fork for each message, and kill the fork when its control socket is closed."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    forks: dict[int, tuple[int, socket.socket]] = {}
    poll.poll()
    for name in _IMPORTABLE_MODULES.split():
        with suppress(ImportError):  # one that isn't there is missed only by code
            importlib.import_module(name)
    while True:
        for file, _ in poll.poll():
            if file == line.fileno():
                pid, control = _fork(line, forks)
                forks[control.fileno()] = (pid, control)
                poll.register(control, select.POLLIN)
            else:
                poll.unregister(file)
                _kill_fork(*forks.pop(file))


def _fork(
    line: socket.socket, forks: dict[int, tuple[int, socket.socket]]
) -> tuple[int, socket.socket]:
    _, files, _, _ = socket.recv_fds(line, 8, 4)
    if len(files) < 4:
        os._exit(0)  # the tools are gone
    me, (source, out, err, control) = os.getpid(), files
    if (pid := os.fork()) == 0:
        try:
            seccomp.die_with_parent(me)
            from baton.workers.tools.child import sandbox_guest  # only the host has imported it

            sandbox_guest.run(HEADER, source, out, err)
        finally:
            os._exit(2)
    for file in (source, out, err):
        os.close(file)
    held = socket.socket(fileno=control)
    with suppress(OSError):
        held.send(b".")
    return pid, held


def _kill_fork(pid: int, control: socket.socket) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        control.send(_STATUS.pack(status))
    control.close()
