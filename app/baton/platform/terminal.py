"""What this terminal is, as far as a person may want to know."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TerminalInfo:
    """Where Baton is shown. `colours` is how many there are; `inside` names tmux, screen or SSH."""

    attached: bool
    columns: int
    lines: int
    colours: int
    term: str
    inside: tuple[str, ...]


def inspect_terminal(environ: Mapping[str, str] = os.environ) -> TerminalInfo:
    """Look this terminal up."""
    columns, lines = shutil.get_terminal_size()
    places = (("TMUX", "tmux"), ("STY", "screen"), ("SSH_CONNECTION", "SSH"))
    return TerminalInfo(
        attached=os.isatty(0) and os.isatty(1),
        columns=columns,
        lines=lines,
        colours=_count_colours(environ),
        term=environ.get("TERM", ""),
        inside=tuple(name for variable, name in places if environ.get(variable)),
    )


def _count_colours(environ: Mapping[str, str]) -> int:
    term = environ.get("TERM", "")
    if environ.get("NO_COLOR") or term in {"", "dumb"}:
        return 2
    if environ.get("COLORTERM", "").lower() in {"truecolor", "24bit"} or term.endswith("-direct"):
        return 2**24
    return 256 if "256" in term else 16
