"""`baton models import`: models that are on this machine already, or on a stick."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from baton.cli import interrupts
from baton.cli.models.inventory import open_library
from baton.cli.models.pull import PullResult, assign_roles, report_failures, results_object
from baton.cli.models.terminal_dialog import ProgressBoard
from baton.cli.options import quiet_option
from baton.cli.output import emit, emit_document, notify
from baton.cli.stores import format_columns
from baton.core.catalogue_types import UNKNOWN_SOURCE
from baton.core.errors import BatonError, ConfigError
from baton.core.machine import show_size
from baton.core.sanitiser import one_line
from baton.download import Progress
from baton.models import ExternalModel, LibraryModel, ModelImport

if TYPE_CHECKING:
    from baton.models import Library

Steps = AsyncGenerator[Progress | LibraryModel]

_EXAMPLES = """\b
Examples:
  baton models import ~/Downloads/model.gguf
  baton models import --link /data/model.gguf      use it where it is
  baton models import /media/stick/baton           what `baton models export` wrote
  baton models import --found                      list those of Ollama, LM Studio and others
  baton models import --found llama3.2:3b          use one of these where it is
"""


@click.command(
    "import", epilog=_EXAMPLES, short_help="Import model files from a disk or USB stick."
)
@click.argument("paths", nargs=-1, metavar="[PATH|NAME]...")
@click.option(
    "--found", is_flag=True, help="List the models of other programs, or link those named."
)
@click.option("--link", is_flag=True, help="Use the file where it is, in place of a copy.")
@click.option("--id", "id", default="", metavar="ID", help="What to call it.")
@click.option("--force", is_flag=True, help="Import it even if it won't fit.")
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, on failure too.")
def import_(
    paths: tuple[str, ...],
    found: bool,
    link: bool,
    id: str,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Import GGUF files, or a folder that `baton models export` made; connects to nothing.

    A file is copied, verified and then used; with --link it stays where it is, and is read again
    before it is used whenever it has changed. With --found, the models that Ollama, LM Studio,
    Hugging Face's cache and others keep on this machine are listed; naming some links them.
    """
    if not paths and not found:
        raise ConfigError("Which file?", "`baton models import PATH`, or --found for a list.")
    if id and len(paths) != 1:
        raise ConfigError("--id is for one file.", "Import them one by one.")
    interrupts.restore_default_handler()
    if found and not paths:
        return _list_found(as_json)
    outcomes = asyncio.run(_import(paths, found, link, id, force, quiet))
    if as_json:
        emit_document(**results_object(outcomes))
    return report_failures(outcomes)


def _list_found(as_json: bool) -> int:
    async def look() -> Sequence[ExternalModel]:
        async with open_library() as (library, _):
            return await asyncio.to_thread(library.external_models)

    listed = asyncio.run(look())
    if as_json:
        emit_document(models=[_external_object(one) for one in listed])
    elif not listed:
        notify("No other program keeps models here that aren't linked yet.")
    else:
        rows = [
            [_shown_name(one), one_line(one.program, 20), show_size(one.size)] for one in listed
        ]
        emit(format_columns(rows, left=2))
        notify("`baton models import --found NAME` uses one where it is.")
    return 0


def _shown_name(one: ExternalModel) -> str:
    return one_line(one.name, 60)


def _external_object(one: ExternalModel) -> dict[str, Any]:
    return {
        "name": one.name,
        "program": one.program,
        "size": one.size,
        "file": str(one.path),
        "sha256": one.sha256,
        "source": "" if one.source == UNKNOWN_SOURCE else str(one.source),
    }


async def _import(
    paths: Sequence[str], found: bool, link: bool, id: str, force: bool, quiet: bool
) -> list[PullResult]:
    async with open_library() as (library, _):
        files = [(name, Path(name)) for name in paths]
        if found:
            listed = await asyncio.to_thread(library.external_models)
            files = [(name, _find_external(name, listed).path) for name in paths]
        outcomes: list[PullResult] = []
        entries, files_of = library.entries(), ModelImport(library)
        with ProgressBoard([_title(name) for name, _ in files], quiet) as board:
            try:
                for name, file in files:
                    is_remote = name in entries or name.startswith(
                        ("hf.co/", "https://", "http://")
                    )
                    if is_remote and not found and not os.path.lexists(name):  # noqa: ASYNC240
                        outcomes.append(PullResult(name, error=_pull_error(name)))
                        continue
                    add = partial(files_of.add, file, id=id, link=link or found, force=force)
                    await _import_one(library, name, add, board, outcomes)
            except asyncio.CancelledError:
                board.close()
                notify("Stopped; files that weren't verified yet were not imported.")
                raise
        return outcomes


async def _import_one(
    library: Library,
    name: str,
    add: Callable[[], Steps],
    board: ProgressBoard,
    outcomes: list[PullResult],
) -> None:
    """Take what a file or a folder holds; each arrival is reported at once."""
    began = time.time()
    try:
        async with aclosing(add()) as steps:
            async for step in steps:
                if isinstance(step, Progress):
                    board.show(_title(name), step)
                    continue
                outcomes.append(PullResult(name, step))
                board.say(await assign_roles(library, step, step.record.added >= began))
    except BatonError as error:
        outcomes.append(PullResult(name, error=error))
    board.done(_title(name))


def _pull_error(name: str) -> ConfigError:
    return ConfigError(
        f"{one_line(name)} isn't a file on this machine, and import fetches nothing.",
        f"`baton models pull {one_line(name)}` does.",
    )


def _title(name: str) -> str:
    return one_line(Path(name).name or name, 40)


def _find_external(name: str, listed: Sequence[ExternalModel]) -> ExternalModel:
    import difflib

    for one in listed:
        if name in (one.name, _shown_name(one), str(one.path)):
            return one
    near = difflib.get_close_matches(name, [_shown_name(one) for one in listed], n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "`baton models import --found` lists them."
    raise ConfigError(f"No other program here has a model {name!r}.", hint)
