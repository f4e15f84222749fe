"""What the Tab key offers of models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from baton.core.errors import BatonError
from baton.core.sanitiser import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from baton.models.library import Library


def _library() -> Library:
    from baton.compose import library
    from baton.platform.settings import find_paths, load_settings

    paths = find_paths()
    return library(load_settings(paths.config_file), paths)


def _items(offered: dict[str, str], begun: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(id, help=one_line(told, 60))
        for id, told in offered.items()
        if id.startswith(begun)
    ]


def _held(library: Library) -> dict[str, str]:
    return {held.id: held.record.name for held in library.models()}


def _listed(library: Library) -> dict[str, str]:
    return {entry.id: entry.name for entry in library.entries().values()}


def complete_held(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the ids of the models on the shelf."""
    try:
        return _items(_held(_library()), incomplete)
    except BatonError:
        return []


def complete_wanted(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the ids of the catalogue, and of what is on its way."""
    try:
        library = _library()
        return _items(_held(library) | _listed(library), incomplete)
    except BatonError:
        return []


def complete_known(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the workers' ids, and those of all models."""
    from baton.cli.completion import complete_worker

    workers = complete_worker(ctx, parameter, incomplete)
    known = {item.value for item in workers}
    more = complete_wanted(ctx, parameter, incomplete)
    return [*workers, *(item for item in more if item.value not in known)]
