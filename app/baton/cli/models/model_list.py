"""`baton models ls`, `show` and `ps`: what there is, and what is loaded now."""

from __future__ import annotations

import asyncio
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from baton.cli.models import model_text
from baton.cli.models.details import as_object, facts
from baton.cli.models.inventory import IN_CATALOGUE, Known, named, opened, survey
from baton.cli.models.model_completion import complete_known
from baton.cli.output import emit, emit_json, notify
from baton.cli.stores import format_columns
from baton.core.byte_format import show_size
from baton.core.sanitiser import one_line
from baton.models.model_types import ModelState

if TYPE_CHECKING:
    from baton.models.model_types import LibraryModel
    from baton.workers.local.loaded_models import Running

_HEAD = ("  id", "role", "state", "size", "memory", "tokens/s", "last used", "licence")
_LESS_WANTED = ("licence", "last used", "memory", "role")
"""The columns that a narrow terminal does without, the first one first."""


@click.command("ls", short_help="List the models, what they take, how fast they write.")
@click.option("-a", "--all", "whole", is_flag=True, help="List the catalogue's other models too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(whole: bool, as_json: bool) -> None:
    """List the models: where they are, what they take, how fast they write here.

    A star marks the one that answers unless -m says otherwise. `memory` is what a model takes when
    it is loaded, `tokens/s` what it wrote on this machine lately.

    \b
    States: here, starter (came with Baton), linked (another program's file), coming,
    paused, changed (read again before it is used), broken, gone; server, cloud; with
    --all, catalogue or too large: not here, with what it is good for in brackets.
    """
    found = asyncio.run(survey(whole))
    if as_json:
        return emit_json([as_object(known) for known in found])
    if found:
        emit(_table(found))
    notify(asyncio.run(_totals()))


@click.command(short_help="Show all that is known of a model.")
@click.argument("model", metavar="ID", shell_complete=complete_known)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(model: str, as_json: bool) -> None:
    """Show what is known of the model ID, whether it fits, how it writes, what it is good at.

    ID is one of `baton models ls --all`: also of the catalogue, before anything is fetched.
    """
    known = named(model, asyncio.run(survey(whole=True)))
    told = asyncio.run(facts(known))
    if as_json:
        return emit_json(as_object(known) | told.more)
    lines = (f"{name + ':':14}{one_line(text, 400)}" for name, text in told.lines.items() if text)
    emit("\n".join(fitting(line, 14) for line in lines))


@click.command(short_help="List the models that are loaded now.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ps(as_json: bool) -> None:
    """List the models that are loaded now, by any Baton of yours on this machine."""
    from baton.workers.local.loaded_models import running

    loaded = running()
    found = asyncio.run(survey()) if loaded else []
    names = {known.file.resolve(): known.id for known in found if known.file is not None}
    if as_json:
        return emit_json([_running_object(one, names) for one in loaded])
    if not loaded:
        return notify("No model is loaded.")
    head = ["model", "memory", "loaded for", "process", "of Baton"]
    emit(format_columns([head, *(_running_row(one, names) for one in loaded)]))


def fitting(line: str, indent: int) -> str:
    """Break a line between words where it is for a screen, and go on in that column."""
    if not sys.stdout.isatty():
        return line
    width = max(40, shutil.get_terminal_size().columns - 1)
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)


# The table


def _table(found: Sequence[Known]) -> str:
    rows = [dict(zip(_HEAD, _cells(known), strict=True)) for known in found]
    shown = list(_HEAD)
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        shown = [name for name in shown if any(row[name] for row in rows)]
        for column in _LESS_WANTED:
            if column in shown and _width(shown, rows) > width:
                shown.remove(column)
    cells = [[row[name] for name in shown] for row in rows]
    return format_columns([shown, *cells], shown.index("size"), words_last=shown[-1] == "licence")


def _width(shown: Sequence[str], rows: Sequence[dict[str, str]]) -> int:
    return sum(2 + max(map(len, (name, *(row[name] for row in rows)))) for name in shown)


def _cells(known: Known) -> tuple[str, ...]:
    return (
        f"{'*' if known.default else ' '} {one_line(known.id, 40)}",
        _roles(known),
        "too large" if known.too_large else known.state,
        show_size(known.size) if known.size else "",
        show_size(known.load.total) if known.load is not None else "",
        model_text.speed(known.speed),
        "" if known.used is None else model_text.day(known.used),
        model_text.licence(known.licence),
    )


def _roles(known: Known) -> str:
    """Name a model's roles; in brackets what one that isn't here would be good for."""
    if known.state == IN_CATALOGUE and known.entry is not None:
        return f"({', '.join(role.value for role in known.entry.roles)})"
    return ", ".join(role.value for role in known.roles)


async def _totals() -> str:
    """Say how much all of it is, what is still to come, what could be freed, and what is odd."""
    async with opened() as (library, _):
        models, problems = library.models(), library.problems()
        orphans = sum(size for _, size in library.orphans())
    told = _amounts(models) if models else []
    if orphans:
        told.append(f"`baton models prune` frees {show_size(orphans)}")
    total = f"{'; '.join(told)}." if told else ""
    if not models:
        total += " Nothing was fetched yet: `baton models recommend` says what suits this machine."
    return "\n".join([total.strip(), *problems])


def _amounts(models: Sequence[LibraryModel]) -> list[str]:
    here = [held for held in models if held.state is not ModelState.COMING]
    told = [f"{model_text.count(len(here))}, {show_size(sum(held.bytes for held in here))}"]
    linked = sum(held.record.size for held in here if held.state is ModelState.LINKED)
    if linked:
        told.append(f"{show_size(linked)} linked")
    coming = sum(
        held.record.size - held.bytes for held in models if held.state is ModelState.COMING
    )
    if coming:
        told.append(f"{show_size(coming)} still to come")
    return told


# What is loaded


def _running_row(one: Running, names: dict[Path, str]) -> list[str]:
    return [
        _name(one, names),
        show_size(one.memory),
        model_text.duration(max(0.0, time.time() - one.started)),
        str(one.pid),
        str(one.front),
    ]


def _name(one: Running, names: dict[Path, str]) -> str:
    """Name a model by its id, else by its file."""
    if one.path is None:
        return "on the GPU"
    return one_line(names.get(one.path.resolve()) or one.path.name, 40)


def _running_object(one: Running, names: dict[Path, str]) -> dict[str, Any]:
    return {
        "id": None if one.path is None else names.get(one.path.resolve()),
        "file": None if one.path is None else str(one.path),
        "memory_bytes": one.memory,
        "started": one.started,
        "pid": one.pid,
        "front": one.front,
    }
