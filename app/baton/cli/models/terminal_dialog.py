"""What commands about models show and ask on a terminal: progress, and whether to go ahead."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence

import click

from baton.cli.output import can_ask, notify, require_terminal
from baton.cli.prompt_run import read_line
from baton.core.machine import show_part, show_speed
from baton.core.sanitiser import one_line, sanitise
from baton.download import Phase, Progress
from baton.presentation.words import duration_text, percent_done


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
"""Without a terminal a line is written each time so many percent more are done."""


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

    def __enter__(self) -> ProgressBoard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    def _draw(self, text: str = "") -> None:
        """Write over what was drawn before, all at once so that nothing flickers."""
        columns, rows = shutil.get_terminal_size()
        shown = [_truncate(line, columns - 1) for line in self._lines.values() if line]
        shown = shown[: max(1, rows - 2)]
        up = f"\x1b[{self._drawn}A\r" if self._drawn else ""
        lines = "".join(f"{line}\x1b[K\n" for line in (*text.splitlines(), *shown))
        print(f"{up}{lines}\x1b[J", end="", file=sys.stderr, flush=True)
        self._drawn, self._drawn_at = len(shown), time.monotonic()


def _truncate(line: str, width: int) -> str:
    """Cut a line that the terminal would wrap, which would misplace the redrawn lines."""
    return line if len(line) <= width else line[: max(1, width - 1)] + "…"


async def ask_agreement(question: str) -> bool:
    """Ask for a yes; without a terminal, and after Enter alone, the answer is no."""
    if not can_ask():
        return False
    print(f"{sanitise(question)} [y/N]: ", end="", file=sys.stderr, flush=True)
    return (await read_line()).strip().lower() in ("y", "yes")


async def confirm(lines: list[str], question: str, nothing: str) -> None:
    """Have the user confirm what can't be undone.

    Raises ConfigError where there is no terminal, with `nothing` as what was not done.
    """
    require_terminal(nothing, "-y does it without asking.")
    for line in lines:
        notify(line)
    if not await ask_agreement(question):
        raise click.exceptions.Exit(1)
