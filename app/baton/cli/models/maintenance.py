"""`baton models rm`, `prune`, `export` and `verify`: what goes, and what is looked after."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from baton.cli import interrupts
from baton.cli.exit_codes import exit_code
from baton.cli.json_output import error_object
from baton.cli.models.inventory import complete_held, open_library
from baton.cli.models.pull import model_object
from baton.cli.models.terminal_dialog import ProgressBoard, confirm
from baton.cli.options import json_object_option, quiet_option, yes_option
from baton.cli.output import emit, emit_document, notify
from baton.compose.model_inventory import stored_row
from baton.core.catalogue_types import STARTER_ID, ModelRole, role_holders, settings_without_model
from baton.core.errors import BatonError, ConfigError, ModelFileError
from baton.core.machine import show_size
from baton.core.sanitiser import one_line
from baton.download import Progress
from baton.models import LibraryModel, ModelState
from baton.platform.durable_files import expand_home
from baton.platform.paths import find_paths
from baton.platform.settings import LocalWorkerSettings, Settings, write_settings
from baton.presentation.model_rows import fault_text, state_text
from baton.presentation.words import count_text
from baton.workers.local import starter

if TYPE_CHECKING:
    from baton.models import Library

_ids = click.argument("ids", nargs=-1, required=True, metavar="ID...", shell_complete=complete_held)


@click.command("rm", short_help="Remove models, and say what that frees.")
@_ids
@yes_option
@json_object_option
def remove(ids: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Remove models, and say how many bytes that frees.

    Conversations with them stay as they are, and another model can continue them. Baton chooses
    who takes over a model's roles (answering, drawing plans). A linked file stays where it is.
    """
    interrupts.restore_default_handler()
    freed, lines = asyncio.run(_remove(list(dict.fromkeys(ids)), yes))
    if as_json:
        return emit_document(status="finished", removed=freed)
    for line in lines:
        notify(line)


async def _remove(ids: Sequence[str], yes: bool) -> tuple[list[dict[str, Any]], list[str]]:
    async with open_library() as (library, settings):
        chosen = [require_fetched(id, library, settings) for id in ids]
        held = role_holders(settings.worker, settings.conductor, settings.prefer)
        if not yes:
            lines = [
                _model_line(one, [r for r, id in held.items() if id == one.id]) for one in chosen
            ]
            lines += [line for one in chosen for line in _dependent_worker_lines(one.id, settings)]
            all_of_it = show_size(sum(one.bytes for one in chosen))
            question = f"Remove {count_text(len(chosen), 'model')} ({all_of_it}) for good?"
            await confirm(lines, question, "Nothing was removed")
        freed, sentences = [], []
        for one in chosen:
            size = library.remove(one.id)
            if changes := settings_without_model(one.id, held):
                write_settings(find_paths().config_file, changes)
            freed.append({"id": one.id, "freed_bytes": size})
            sentences.append(_removal_text(one, size))
            if held[ModelRole.CHAT] == one.id:
                sentences.append(
                    f"From now on {STARTER_ID} answers; `baton models role chat ID` changes that."
                )
        return freed, sentences


def _dependent_worker_lines(model: str, settings: Settings) -> list[str]:
    """Say which other workers of the settings could answer no more without a model."""
    users = [
        entry.id
        for entry in settings.roster
        if isinstance(entry, LocalWorkerSettings) and entry.model == model != entry.id
    ]
    return [f"  {one_line(user)} is a worker with that model: it won't answer" for user in users]


def require_fetched(id: str, library: Library, settings: Settings) -> LibraryModel:
    """Return a model in Baton's own folder. Raises ConfigError, also for other workers.

    Raises ModelFileError for the starter where Baton came without it.
    """
    workers = {entry.id for entry in settings.roster}
    if id in workers - {held.id for held in library.models()}:
        if id == STARTER_ID:
            starter()  # says so where Baton came without it
        whose = "came with Baton and stays" if id == STARTER_ID else "stands in config.toml only"
        raise ConfigError(f"{id} {whose}: it was neither fetched nor imported.", "")
    return library.get(id)


def _removal_text(one: LibraryModel, size: int) -> str:
    if one.record.link:
        return f"{one.id} is taken off the list; {one_line(one.record.link)} stays where it is."
    return f"{one.id} is removed, which frees {show_size(size)}."


def _model_line(one: LibraryModel, roles: Sequence[ModelRole]) -> str:
    does = f"  {', '.join(role.value for role in roles)}" if roles else ""
    return f"  {one.id}  {state_text(stored_row(one))}  {show_size(one.bytes)}{does}"


@click.command(short_help="Delete leftovers of downloads.")
@yes_option
@json_object_option
def prune(yes: bool, as_json: bool) -> None:
    """Delete what is in the models' folder and belongs to no model, such as cut copies.

    What `baton models ls` lists stays as it is.
    """
    interrupts.restore_default_handler()
    gone = asyncio.run(_prune(yes))
    freed = sum(size for _, size in gone)
    if as_json:
        files = [{"file": str(path), "bytes": size} for path, size in gone]
        return emit_document(status="finished", freed_bytes=freed, removed=files)
    if gone:
        notify(f"Deleted {count_text(len(gone), 'leftover')}, which frees {show_size(freed)}.")
    else:
        notify("There is nothing to clean up.")


async def _prune(yes: bool) -> Sequence[tuple[Path, int]]:
    async with open_library() as (library, _):
        orphans = library.orphans()
        if orphans and not yes:
            lines = [f"  {one_line(str(path))}  {show_size(size)}" for path, size in orphans]
            size = show_size(sum(size for _, size in orphans))
            await confirm(lines, f"Delete this ({size})?", "Nothing was deleted")
        return library.prune() if orphans else []


@click.command(short_help="Read files again and compare their hashes.")
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=complete_held)
@quiet_option
@json_object_option
def verify(ids: tuple[str, ...], quiet: bool, as_json: bool) -> int:
    """Read models' files whole and compare them with their hashes: all models, or those named.

    Exit code 5 if one is broken or gone. `baton models pull ID` fetches it again.
    """
    interrupts.restore_default_handler()
    verified = asyncio.run(_verify(ids, quiet))
    wrong = [held for held, error in verified if error or not held.state.is_usable]
    if as_json:
        models = [
            model_object(held) | {"error": error_object(error) if error else None}
            for held, error in verified
        ]
        emit_document(status="failed" if wrong else "finished", models=models)
    elif verified:
        width = max(len(held.id) for held, _ in verified)
        for held, error in verified:
            emit(f"{held.id:{width}}  {error.message if error else _verdict_text(held)}")
    else:
        notify("There are no models to verify.")
    return exit_code(ModelFileError) if wrong else 0


async def _verify(ids: Sequence[str], quiet: bool) -> list[tuple[LibraryModel, BatonError | None]]:
    async with open_library() as (library, settings):
        chosen = [require_fetched(id, library, settings) for id in dict.fromkeys(ids)] or [
            held for held in library.models() if held.state is not ModelState.COMING
        ]
        with ProgressBoard([held.id for held in chosen], quiet) as board:
            return [await _verify_one(library, held, board) for held in chosen]


async def _verify_one(
    library: Library, held: LibraryModel, board: ProgressBoard
) -> tuple[LibraryModel, BatonError | None]:
    """Return a model's state, or the error where it can't be read."""
    problem = None
    try:
        async with aclosing(library.verify(held.id)) as steps:
            async for step in steps:
                if isinstance(step, Progress):
                    board.show(held.id, step)
                else:
                    held = step
    except BatonError as error:
        problem = error
    board.done(held.id)
    return held, problem


def _verdict_text(held: LibraryModel) -> str:
    if held.state is ModelState.COMING:
        return "not all of it is here yet"
    if not held.state.is_usable:
        return f"{held.state}: {fault_text(stored_row(held))} ({one_line(str(held.path))})"
    return f"as it should be ({show_size(held.record.size)}, sha256 {held.record.sha256[:12]}…)"


_EXAMPLES = """\b
Examples:
  baton models export /media/stick/baton               all models that are here
  baton models export qwen3.5-2b /media/stick/baton
Then, on the other machine:
  baton models import /media/stick/baton
"""


@click.command(epilog=_EXAMPLES, short_help="Copy models for a machine without a network.")
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=complete_held)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@quiet_option
@json_object_option
def export(ids: tuple[str, ...], folder: Path, quiet: bool, as_json: bool) -> None:
    """Copy models (all, or those named) into the folder DIR, for a machine without a network.

    Beside them stands what is known of them, hashes included: `baton models import DIR` verifies
    them by that.
    """
    interrupts.restore_default_handler()
    written, size = asyncio.run(_export(ids, folder, quiet))
    if as_json:
        files = [str(path) for path in written]
        return emit_document(status="finished", files=files, bytes=size)
    notify(
        f"Copied {count_text(len(written), 'model')} ({show_size(size)}) to {folder}. "
        f"There: `baton models import {folder}`."
    )


async def _export(ids: Sequence[str], folder: Path, quiet: bool) -> tuple[list[Path], int]:
    async with open_library() as (library, settings):
        chosen = [require_fetched(id, library, settings) for id in dict.fromkeys(ids)] or [
            held for held in library.models() if held.state.is_usable
        ]
        if not chosen:
            raise ModelFileError("There are no models to copy.", "`baton models pull` gets some.")
        size = sum(held.record.size for held in chosen)
        _check_room(folder, size)
        written: list[Path] = []
        ids = [held.id for held in chosen]
        with ProgressBoard(ids, quiet) as board:
            async with aclosing(library.export(ids, folder)) as steps:
                async for step in steps:
                    if isinstance(step, Progress):
                        board.show(ids[min(len(written), len(ids) - 1)], step)
                    else:
                        written.append(step)
        return written, size


def _check_room(folder: Path, size: int) -> None:
    """Refuse before anything is written what won't fit. Raises ModelFileError."""
    try:
        place = expand_home(folder).absolute()
        while not place.exists():
            place = place.parent
        free = shutil.disk_usage(place).free
    except (OSError, RuntimeError):
        return  # the first write will say what is wrong
    if free < size:
        raise ModelFileError(
            f"{folder} has room for {show_size(free)}, and {show_size(size)} are to be copied;"
            " nothing was written.",
            "Make room there, or name fewer models.",
        )
