"""`baton models`: the models there are, and how they come, go, and get their roles."""

from __future__ import annotations

import click

from baton.cli.models.maintenance import export, prune, remove, verify
from baton.cli.models.model_import import import_
from baton.cli.models.model_list import list_, ps, show
from baton.cli.models.pull import pull
from baton.cli.models.recommend import recommend, role
from baton.cli.options import AliasedGroup

__all__ = ["models"]

_EXAMPLES = """\b
Examples:
  baton models recommend             what suits this machine
  baton models pull --recommended    fetch it
  baton models ls --all              all that Baton knows of
  baton models show qwen3.5-4b       size, licence, whether it fits, its skills
  baton models role chat qwen3.5-4b  have it answer from now on
"""


@click.group(cls=AliasedGroup, epilog=_EXAMPLES)
def models() -> None:
    """List, fetch, verify, remove and recommend models, and show what they are good at.

    \b
    9/10 for rewriting means that nine of ten ordinary tasks of that kind succeed. It starts
    from shipped measurements where the model is known, else from published ones or a guess
    from its size, and changes with what you do with answers: marking them good or bad,
    asking again, copying. Those of private conversations don't count, as a worker that
    draws plans sees the figures.
    """


for _command in (
    list_, show, recommend, pull, role, ps, verify, remove, prune, import_, export,
):  # fmt: skip
    models.add_command(_command)
