"""A program in tmux, as many people run theirs."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


class Tmux:
    """Runs a command in a window of a tmux server of its own, which ends with this."""

    def __init__(self, socket: Path, command: Sequence[str], folder: Path | None = None) -> None:
        """Open it, in this folder."""
        self._server = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        line = f"{shlex.join(command)}; echo ended with $?; sleep 600"
        where = ["-c", str(folder)] if folder else []
        self._do("new-session", "-d", "-x", "100", "-y", "30", *where, line)

    def __enter__(self) -> Tmux:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        subprocess.run([*self._server, "kill-server"], capture_output=True)

    @property
    def text(self) -> str:
        """What the window shows."""
        return self._do("capture-pane", "-p")

    def type(self, text: str) -> None:
        """Type letters."""
        self._do("send-keys", "-l", text)

    def press(self, key: str) -> None:
        """Press a key by tmux's name of it, such as Enter or C-q."""
        self._do("send-keys", key)

    def wait_for(self, text: str, longest: float = 60) -> None:
        """Wait until the window shows this."""
        end = time.monotonic() + longest
        while text not in (shown := self.text):
            assert time.monotonic() < end, f"not within {longest} s; the window shows:\n{shown}"
            time.sleep(0.1)

    def _do(self, *command: str) -> str:
        done = subprocess.run([*self._server, *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout
