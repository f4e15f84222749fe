"""`baton self licences`: what the packaged binary holds of others, and under which licences."""

from __future__ import annotations

from pathlib import Path

import click

import baton
from baton.cli.output import emit
from baton.core.errors import ConfigError

FILE = "THIRD-PARTY.txt"
"""The build writes it beside the package's own files."""


@click.command(short_help="Print what Baton holds of others, with its licences.")
def licences() -> None:
    """Print what Baton holds of others, with the texts of all their licences."""
    file = Path(baton.__file__).with_name(FILE)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            "This Baton is no packaged binary: it holds nothing of others, but uses packages that"
            " were installed beside it.",
            "Each has its licence in its own *.dist-info folder; NOTICE names the main ones.",
        ) from None
    emit(text.rstrip("\n"))
