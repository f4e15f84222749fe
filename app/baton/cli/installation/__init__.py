"""`baton self`: the packaged binary, replaced by another version, put back, or taken away."""

from __future__ import annotations

from pathlib import Path

import click

import baton
from baton.cli.installation.uninstall import uninstall
from baton.cli.installation.update import rollback, show, update
from baton.cli.output import emit
from baton.core.errors import ConfigError

__all__ = ["own"]

LICENCES_FILE = "THIRD-PARTY.txt"
"""The build writes it beside the package's own files."""

_EXAMPLES = """\b
Examples:
  baton self show        which build this is, and what it replaced
  baton self update      get the newest release from where this one came
  baton self update --from /media/stick/baton
  baton self rollback    go back to the previous version
  baton self uninstall   uninstall Baton; asks about models and history
  baton self licences    what other software it contains, and the licences

\b
Baton never looks for updates by itself.
"""


@click.group("self", epilog=_EXAMPLES)
def own() -> None:
    """Update, roll back or uninstall Baton.

    That is for the packaged binary: a checkout is renewed with `git pull`.
    """


@click.command(short_help="Print what other software Baton contains, with its licences.")
def licences() -> None:
    """Print what other software Baton contains, with the texts of all its licences."""
    file = Path(baton.__file__).with_name(LICENCES_FILE)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            "This Baton isn't a packaged binary: it contains no other software, but uses packages"
            " that were installed beside it.",
            "Each has its licence in its own *.dist-info folder; NOTICE names the main ones.",
        ) from None
    emit(text.rstrip("\n"))


for _command in (show, update, rollback, uninstall, licences):
    own.add_command(_command)
