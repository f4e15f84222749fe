"""`baton self`: the packaged binary, replaced by another version, put back, or taken away."""

from __future__ import annotations

import click

from baton.cli.self_.licences import licences
from baton.cli.self_.uninstall import uninstall
from baton.cli.self_.update import rollback, show, update

__all__ = ["own"]

_EXAMPLES = """\b
Examples:
  baton self show        which build this is, and what it replaced
  baton self update      get the newest release from where this one came
  baton self update --from /media/stick/baton
  baton self rollback    go back to the version before
  baton self uninstall   take Baton away; asks about models and history
  baton self licences    what it holds of others, and their licences

\b
Baton never looks for updates by itself.
"""


@click.group("self", epilog=_EXAMPLES)
def own() -> None:
    """Update this program, go back to the version before, or take it away.

    That is for the packaged binary: a checkout is renewed with `git pull`.
    """


for _command in (show, update, rollback, uninstall, licences):
    own.add_command(_command)
