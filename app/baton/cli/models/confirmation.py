"""Questions to whoever sits at the terminal."""

from __future__ import annotations

import sys

import click

from baton.cli.output import notify
from baton.cli.prompt_run import read_line
from baton.core.errors import ConfigError
from baton.core.sanitiser import sanitise


def somebody() -> bool:
    """Tell whether there is anybody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def agrees(question: str) -> bool:
    """Ask, if there is somebody; nobody doesn't agree, and neither does Enter alone."""
    if not somebody():
        return False
    print(f"{sanitise(question)} [y/N]: ", end="", file=sys.stderr, flush=True)
    return (await read_line()).strip().lower() in ("y", "yes")


async def confirm(lines: list[str], question: str, nothing: str) -> None:
    """Have the person say yes to what can't be taken back.

    Raises ConfigError where there is nobody to ask, saying that `nothing` was done.
    """
    if not somebody():
        raise ConfigError(f"{nothing}: there is nobody to ask.", "-y does it without asking.")
    for line in lines:
        notify(line)
    if not await agrees(question):
        raise click.exceptions.Exit(1)
