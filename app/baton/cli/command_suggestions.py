"""What a command that there isn't likely means: one beside it, or one of another group."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import click

from baton.cli.options import ALIASES

_MAX_SUGGESTIONS = 3

_GROUP_ORDER = ("models", "history", "workers", "budget", "keys", "egress", "config", "self")
"""Whose command is meant first where several groups have it: `ls` is mostly about models."""

_WORDS = {
    **ALIASES,
    "add": "pull",
    "delete": "rm",
    "del": "rm",
    "download": "pull",
    "fetch": "pull",
    "find": "search",
    "info": "show",
    "install": "pull",
    "upgrade": "update",
    "view": "show",
}
"""Other programs' words for a command of a group."""

_COMMAND_WORDS = {
    "chat": ("baton", "baton ask"),
    "config set": ("baton config edit",),
    "models search": ("baton models ls --all",),
    "check": ("baton doctor",),
    "cost": ("baton usage",),
    "costs": ("baton usage",),
    "generate": ("baton ask",),
    "help": ("baton --help",),
    "log": ("baton history ls",),
    "logs": ("baton history ls",),
    "prompt": ("baton ask",),
    "run": ("baton ask",),
    "settings": ("baton config show",),
    "status": ("baton doctor",),
    "version": ("baton --version",),
}
"""Other programs' words for whole commands, some for those of one group."""


def suggest_commands(name: str, context: click.Context) -> list[str]:
    """Return what likely is meant by a command that the context's group doesn't have, best first.

    Names that differ by a letter or two come last, as they are guessed.
    """
    top = context.find_root()
    assert isinstance(top.command, click.Group), "all commands are in a group"
    commands, every = top.command.list_commands(top), dict(_subcommands(top))
    path = context.command_path
    group = path.removeprefix("baton").strip()
    word = _WORDS.get(name, name)
    beside = commands if not group else every.get(group, [])
    words = [word, "show"] if word == "ls" else [word]
    if group and (own := next((one for one in words if one in beside), "")):
        return [f"{path} {own}"]
    same = [f"baton {other} {word}" for other in every if word in every[other]]
    known = _COMMAND_WORDS.get(f"{group} {name}".strip()) or _COMMAND_WORDS.get(name, ())
    near = difflib.get_close_matches(name, beside, n=1)
    for found in (
        known,
        [f"baton {name}"] if name in commands else [],
        [f"{path} {one}" for one in near] if group else [],
        same,
        [f"{path} {one}" for one in near],
    ):
        if found:
            return list(found[:_MAX_SUGGESTIONS])
    return [
        f"baton {other} {one}"
        for other in every
        for one in difflib.get_close_matches(word, every[other], n=1, cutoff=0.75)
    ][:_MAX_SUGGESTIONS]


def _subcommands(top: click.Context) -> Iterator[tuple[str, list[str]]]:
    """Yield each group with the names of its commands."""
    assert isinstance(top.command, click.Group), "all commands are in a group"
    for name in _GROUP_ORDER:
        command = top.command.get_command(top, name)
        if isinstance(command, click.Group):
            yield name, command.list_commands(top)
