"""Which models there are, which of them is meant, and their ids on Tab."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import click

from baton.cli.options import complete_worker, completer
from baton.compose import compose, library as compose_library, model_inventory
from baton.core.catalogue_types import STARTER_ID
from baton.core.errors import ConfigError
from baton.core.sanitiser import one_line
from baton.platform.paths import find_paths
from baton.platform.settings import Settings, load_settings
from baton.presentation.model_rows import ModelRow
from baton.workers.local import starter

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from baton.models import Library


@asynccontextmanager
async def open_library(offline: bool = False) -> AsyncIterator[tuple[Library, Settings]]:
    """Open the user's library, and close it at the end."""
    paths = find_paths()
    settings = load_settings(paths.config_file, flags={"offline": True} if offline else {})
    async with aclosing(compose_library(settings, paths)) as library:
        yield library, settings


def list_models(*, whole: bool = False) -> list[ModelRow]:
    """Return the models that answer or are on their way, and with `whole` the catalogue's too."""

    async def look() -> list[ModelRow]:
        paths = find_paths()
        async with aclosing(compose(load_settings(paths.config_file), paths)) as baton:
            return await model_inventory.list_models(baton, whole)

    return asyncio.run(look())


def find_known_model(typed: str) -> ModelRow:
    """Return the model that the user means. Raises ConfigError that names the nearest.

    Raises ModelFileError for the starter where Baton came without it.
    """
    rows = {row.id: row for row in list_models(whole=True)}
    if typed in rows:
        return rows[typed]
    if typed == STARTER_ID:
        starter()
    names = {name.casefold(): id for id, row in rows.items() for name in (id, row.name)}
    near = difflib.get_close_matches(typed.casefold(), names, n=1)
    meant = f"Did you mean {names[near[0]]!r}?" if near else "`baton models ls --all` lists them."
    raise ConfigError(f"There is no model {typed!r}.", meant)


@completer
def complete_held() -> Mapping[str, str]:
    """Offer the ids of the library's models."""
    paths = find_paths()
    library = compose_library(load_settings(paths.config_file), paths)
    return {held.id: one_line(held.record.name, 60) for held in library.models()}


@completer
def complete_wanted() -> Mapping[str, str]:
    """Offer the ids of the catalogue, and of models that are being downloaded."""
    paths = find_paths()
    library = compose_library(load_settings(paths.config_file), paths)
    names = {held.id: held.record.name for held in library.models()}
    names |= {entry.id: entry.name for entry in library.entries().values()}
    return {id: one_line(name, 60) for id, name in names.items()}


def complete_known(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the workers' ids, and those of all models."""
    workers = complete_worker(ctx, parameter, incomplete)
    known = {item.value for item in workers}
    more = complete_wanted(ctx, parameter, incomplete)
    return [*workers, *(item for item in more if item.value not in known)]
