"""Models and downloads in words: numbers, times, states, and a line for each download."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence

from baton.cli.output import notify
from baton.core.byte_format import show_part, show_speed
from baton.core.sanitiser import one_line, sanitise
from baton.download import Phase, Progress
from baton.models import LibraryModel, ModelState
from baton.presentation.words import duration_text, percent_done


def day_text(seconds: float) -> str:
    """Write when something was, as short as it can be understood: "14:03", "12 Nov", "Nov 2025"."""
    then, now = time.localtime(seconds), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%d %b" if then[0] == now[0] else "%b %Y", then).lstrip("0")


def speed_text(tokens: float | None) -> str:
    """Write tokens per second, or "" where nothing was measured."""
    return "" if tokens is None else f"{tokens:.0f}" if tokens >= 10 else f"{tokens:.1f}"


def state_text(held: LibraryModel) -> str:
    """Say how a model stands: "here", "coming 40 %", "paused 40 %", "broken"."""
    if held.state is not ModelState.COMING:
        return held.state.value
    word = "paused" if held.record.paused else "coming"
    return f"{word} {percent_done(held.bytes, held.record.size)} %"


def progress_text(step: Progress) -> str:
    """Say how far a download is: "45 %  0.6 of 1.3 GB  12 MB/s  1 min left"."""
    if step.phase is Phase.WAITING:
        return "waiting: another Baton fetches it"
    percent = f"{percent_done(step.done, step.total):3} %"
    if step.phase is Phase.VERIFYING:
        return f"{percent}  verifying"
    rate = show_speed(step.speed) if step.speed else ""
    left = f"{duration_text(step.left)} left" if step.left is not None else ""
    return "  ".join(filter(None, (percent, show_part(step.done, step.total), rate, left)))


_REDRAW_SECONDS = 0.1
_STEP = 10
"""Without a terminal a line is said each time so many percent more are done."""


class ProgressBoard:
    """Shows on stderr the progress of several downloads; nothing when `quiet`."""

    def __init__(self, names: Sequence[str], quiet: bool = False) -> None:
        self._width = max((len(one_line(name, 40)) for name in names), default=0)
        self._lines = dict.fromkeys(names, "")
        self._quiet = quiet
        self._redraws = sys.stderr.isatty() and os.environ.get("TERM") not in {None, "", "dumb"}
        self._drawn = 0
        self._drawn_at = 0.0
        self._said: dict[str, tuple[Phase, int]] = {}

    def show(self, name: str, step: Progress) -> None:
        """Show the progress of a download."""
        text = progress_text(step)
        self._lines[name] = f"{one_line(name, 40):{self._width}}  {text}"
        if self._quiet:
            return
        if self._redraws:
            if time.monotonic() - self._drawn_at >= _REDRAW_SECONDS:
                self._draw()
            return
        mark = (step.phase, percent_done(step.done, step.total) // _STEP)
        if self._said.get(name) != mark:
            self._said[name] = mark
            notify(self._lines[name])

    def done(self, name: str, text: str = "") -> None:
        """Remove a download's line, after a message about its result."""
        self._lines.pop(name, None)
        if text:
            self.say(text)
        elif self._redraws and not self._quiet:
            self._draw()

    def say(self, text: str) -> None:
        """Print a message that stays, above the redrawn lines."""
        if self._quiet:
            return
        if self._redraws:
            self._draw(sanitise(text))
        else:
            notify(text)

    def close(self) -> None:
        """Remove all lines."""
        self._lines.clear()
        if self._drawn:
            self._draw()

    def _draw(self, said: str = "") -> None:
        """Write over what was drawn before, all at once so that nothing flickers."""
        columns, rows = shutil.get_terminal_size()
        shown = [_truncate(line, columns - 1) for line in self._lines.values() if line]
        shown = shown[: max(1, rows - 2)]
        up = f"\x1b[{self._drawn}A\r" if self._drawn else ""
        lines = "".join(f"{line}\x1b[K\n" for line in (*said.splitlines(), *shown))
        print(f"{up}{lines}\x1b[J", end="", file=sys.stderr, flush=True)
        self._drawn, self._drawn_at = len(shown), time.monotonic()


def _truncate(line: str, width: int) -> str:
    """Cut a line that the terminal would wrap, which would misplace the redrawn lines."""
    return line if len(line) <= width else line[: max(1, width - 1)] + "…"
