"""A program in a pseudo-terminal, seen through a terminal emulator."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence

import pexpect
import psutil
import pyte


class Terminal:
    """Runs a command on a screen of its own. `raw` is every byte that it wrote."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], columns: int = 100, lines: int = 30
    ) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._child: pexpect.spawn[bytes] = pexpect.spawn(
            command[0],
            list(command[1:]),
            env={"COLORTERM": "truecolor", **env, "TERM": "xterm-256color"},
            dimensions=(lines, columns),
            timeout=30,
            use_poll=True,
        )
        self._child.delaybeforesend = None
        self.raw = b""
        self.process = psutil.Process(self._child.pid)

    @property
    def text(self) -> str:
        """What the screen shows, line by line."""
        return "\n".join(self._screen.display)

    @property
    def title(self) -> str:
        """What the program named the window."""
        return str(self._screen.title)

    def send(self, keys: str) -> None:
        """Type; a terminal takes a few thousand bytes at once."""
        left = keys.encode()
        while left:
            left = left[self._child.send(left) :]
            self.read(0)

    def answer(self, line: str) -> None:
        """Answer a question with a line.

        A question drops what was typed before it waits, so the line is typed again while nothing
        but its echo comes; an answer too many is dropped by the next question in the same way.
        """
        echo = len(line.encode()) + 1  # the terminal shows Enter as two bytes
        for _ in range(20):
            before, start = len(self.raw), time.perf_counter()
            self.send(line)
            while time.perf_counter() - start < 1:
                self.read()
                if len(self.raw) > before + echo or not self._child.isalive():
                    return
        raise AssertionError(f"no answer is taken; the screen shows:\n{self.text}")

    def read(self, longest: float = 0.05) -> None:
        """Take in all that the program writes within that time (seconds)."""
        with contextlib.suppress(pexpect.TIMEOUT, pexpect.EOF):
            data = self._child.read_nonblocking(65536, longest)
            self.raw += data
            self._stream.feed(data)

    def skim(self, longest: float, until: bytes = b"") -> bool:
        """Read past the emulator for so long (seconds), or until these bytes; say if they came."""
        data, end = b"", time.perf_counter() + longest
        while (left := end - time.perf_counter()) > 0 and not (until and until in data):
            with contextlib.suppress(pexpect.TIMEOUT, pexpect.EOF):
                data += self._child.read_nonblocking(65536, left)
        return until in data

    def wait(self, seen: Callable[[str], bool], longest: float = 60) -> float:
        """Read until the screen is as wanted; return how long that took, in seconds."""
        start = time.perf_counter()
        while not seen(self.text):
            if time.perf_counter() - start > longest:
                raise AssertionError(f"not within {longest} s; the screen shows:\n{self.text}")
            self.read()
        return time.perf_counter() - start

    def wait_for(self, text: str, longest: float = 60) -> float:
        """Read until the screen shows this text."""
        return self.wait(lambda shown: text in shown, longest)

    def resize(self, columns: int, lines: int) -> None:
        """Change the window's size."""
        self._screen.resize(lines, columns)
        self._child.setwinsize(lines, columns)

    @property
    def is_running(self) -> bool:
        """Whether the program hasn't ended yet."""
        return bool(self._child.isalive())

    def children(self) -> list[psutil.Process]:
        """Return the program's child processes."""
        return self.process.children(recursive=True)

    def wait_end(self, longest: float = 60) -> int:
        """Wait for the program's own end; return its exit status (negative for a signal)."""
        end = time.monotonic() + longest
        while self._child.isalive() and time.monotonic() < end:
            self.read()
        assert not self._child.isalive(), f"it still runs and shows:\n{self.text}"
        self.read()
        signal = self._child.signalstatus
        return -signal if signal is not None else self._child.exitstatus or 0

    def hang_up(self) -> None:
        """Close the window, and leave the program to itself."""
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, self._child.child_fd)  # closed only once, with the child
        os.close(nothing)

    def close(self) -> None:
        """End the program, if it still runs."""
        self._child.close(force=True)
