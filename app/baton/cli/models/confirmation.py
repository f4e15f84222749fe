"""Questions to the person at the terminal."""

from __future__ import annotations

import sys

import click

from baton.cli.output import can_ask, notify, require_terminal
from baton.cli.prompt_run import read_line
from baton.core.sanitiser import sanitise


async def ask_agreement(question: str) -> bool:
    """Ask for a yes; without a terminal, and after Enter alone, the answer is no."""
    if not can_ask():
        return False
    print(f"{sanitise(question)} [y/N]: ", end="", file=sys.stderr, flush=True)
    return (await read_line()).strip().lower() in ("y", "yes")


async def confirm(lines: list[str], question: str, nothing: str) -> None:
    """Have the person confirm what can't be undone.

    Raises ConfigError where there is no terminal, with `nothing` as what was not done.
    """
    require_terminal(nothing, "-y does it without asking.")
    for line in lines:
        notify(line)
    if not await ask_agreement(question):
        raise click.exceptions.Exit(1)
