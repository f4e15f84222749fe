"""Verbs that may be written out."""

from __future__ import annotations

import click

ALIASES = {"list": "ls", "remove": "rm", "get": "pull"}


class AliasedGroup(click.Group):
    """A group whose commands answer to their longer names as well."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command by either name."""
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))
