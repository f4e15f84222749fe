"""`baton models ls`, `show` and `ps`: which models there are, and which are loaded."""

from __future__ import annotations

import asyncio
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from baton.cli.models.inventory import complete_known, find_known_model, list_models, open_library
from baton.cli.output import emit, emit_document, iso_time, notify
from baton.cli.stores import format_columns
from baton.cli.workers import (
    WorkerConfiguration,
    card_object,
    configuration_lines,
    configuration_object,
    configured_addresses,
    sourced_price_text,
    worker_configuration,
)
from baton.compose.model_inventory import row_load
from baton.core.catalogue_types import FREE_LICENCES, UNKNOWN_SOURCE
from baton.core.machine import show_size
from baton.core.messages import Card
from baton.core.planning.skill_table import (
    CONFIGURED,
    GUESS,
    MEASURED,
    PUBLISHED,
    Mastery,
    count_own_answers,
    guess_basis,
    masteries_best_first,
    own_answers_text,
)
from baton.core.sanitiser import one_line
from baton.gguf.memory_fit import Fit, FitVerdict, judge_fit
from baton.models import ModelState
from baton.platform.paths import find_paths
from baton.presentation.model_rows import (
    ModelRow,
    fault_text,
    licence_text,
    origin_text,
    row_facts,
    speed_text,
    state_text,
)
from baton.presentation.words import ago_text, count_text, duration_text

if TYPE_CHECKING:
    from baton.ipc.lending_protocol import Description
    from baton.workers.local import LoadedModel


_COLUMNS = ("  id", "role", "state", "size", "memory", "tokens/s", "last used", "licence")
_OPTIONAL_COLUMNS = ("licence", "last used", "memory", "role")
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
    --all, catalogue or won't fit: not here, with what it is good for in brackets.
    """
    rows = list_models(whole=whole)
    if as_json:
        return emit_document(models=[details_object(known) for known in rows])
    if rows:
        emit(_table(rows))
    notify(asyncio.run(_totals()))


@click.command(short_help="Show all that is known of a model.")
@click.argument("model", metavar="ID", shell_complete=complete_known)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(model: str, as_json: bool) -> None:
    """Show what is known of the model ID, whether it fits, how it writes, what it is good at.

    ID is one of `baton models ls --all`: also of the catalogue, before anything is fetched.
    """
    row = find_known_model(model)
    details = asyncio.run(_model_details(row))
    if as_json:
        return emit_document(**(details_object(row) | _more_fields(row, details)))
    lines = (
        f"{k + ':':14}{one_line(text, 400)}" for k, text in _lines(row, details).items() if text
    )
    emit("\n".join(wrap_line(line, 14) for line in lines))


@click.command(short_help="List the models that are loaded now.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ps(as_json: bool) -> None:
    """List the models that are loaded now, by any Baton of yours on this machine.

    Between commands a background process may keep some loaded.
    """
    from baton.compose import background
    from baton.workers.local import list_loaded_models

    lender = background.description(find_paths())
    lent = set() if lender is None else {child.pid for child in lender.children}
    loaded = [
        replace(one, front=lender.pid) if lender is not None and one.pid in lent else one
        for one in list_loaded_models()
    ]
    found = list_models() if loaded else []
    names = {row.file.resolve(): row.id for row in found if row.file is not None}
    if as_json:
        return emit_document(
            models=[_running_object(one, names) for one in loaded],
            background=None if lender is None else _background_object(lender),
        )
    if lender is not None:
        notify(background_text(lender))
    if not loaded:
        return notify("No model is loaded.")
    head = ["model", "memory", "loaded for", "process", "of Baton"]
    rows = [
        [
            _running_name(one, names),
            show_size(one.memory),
            duration_text(max(0.0, time.time() - one.started)),
            str(one.pid),
            str(one.front),
        ]
        for one in loaded
    ]
    emit(format_columns([head, *rows]))


def background_text(lender: Description) -> str:
    """Say what the background process holds, and when it ends."""
    ending = "in use now"
    if lender.ends_in is not None:
        ending = f"ends in {duration_text(lender.ends_in)} unless used"
    return (
        f"Background process {lender.pid}: {show_size(_background_memory(lender))} in"
        f" {1 + len(lender.children)} processes; {ending}."
    )


def _background_memory(lender: Description) -> int:
    """Return the bytes that the background process and its children take."""
    from baton.workers.local import memory_of_process

    return sum(memory_of_process(pid) for pid in (lender.pid, *(c.pid for c in lender.children)))


def _background_object(lender: Description) -> dict[str, Any]:
    return {
        "pid": lender.pid,
        "memory_bytes": _background_memory(lender),
        "ends_in_seconds": lender.ends_in,
        "children": [
            {"kind": child.kind, "pid": child.pid, "borrowers": child.borrowers}
            for child in lender.children
        ],
    }


def wrap_line(line: str, indent: int) -> str:
    """Break a line between words where it is for a screen, and continue in that column."""
    if not sys.stdout.isatty():
        return line
    width = max(40, shutil.get_terminal_size().columns - 1)
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)


# The table


def _table(listed: Sequence[ModelRow]) -> str:
    rows = [dict(zip(_COLUMNS, _cells(known), strict=True)) for known in listed]
    shown = list(_COLUMNS)
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        shown = [name for name in shown if any(row[name] for row in rows)]
        widths = {
            name: 2 + max(len(text) for text in (name, *(r[name] for r in rows))) for name in shown
        }
        for column in _OPTIONAL_COLUMNS:
            if column in shown and sum(widths[name] for name in shown) > width:
                shown.remove(column)
    cells = [[row[name] for name in shown] for row in rows]
    return format_columns([shown, *cells], shown.index("size"), words_last=shown[-1] == "licence")


def _cells(row: ModelRow) -> tuple[str, ...]:
    suits = f"({', '.join(row.suits)})" if row.is_offered else ""
    return (
        f"{'*' if row.is_answering else ' '} {one_line(row.id, 40)}",
        suits or ", ".join(row.roles),
        state_text(row),
        show_size(row.size) if row.size else "",
        show_size(row.load) if row.load is not None else "",
        speed_text(row),
        "" if row.used is None else ago_text(time.time() - row.used),
        licence_text(row.licence),
    )


async def _totals() -> str:
    """Say how much all of it is, what is still to come, what could be freed, and what is odd."""
    async with open_library() as (library, _):
        models, problems = library.models(), library.problems()
        orphans = sum(size for _, size in library.orphans())
    here = [held for held in models if held.state is not ModelState.COMING]
    sizes = {
        "linked": sum(held.record.size for held in here if held.state is ModelState.LINKED),
        "still to come": sum(h.record.size - h.bytes for h in models if h not in here),
    }
    parts = [f"{count_text(len(here), 'model')}, {show_size(sum(held.bytes for held in here))}"]
    parts = [*parts, *(f"{show_size(size)} {what}" for what, size in sizes.items() if size)]
    parts = parts if models else []
    parts += [f"`baton models prune` frees {show_size(orphans)}"] if orphans else []
    total = f"{'; '.join(parts)}." if parts else ""
    if not models:
        total += " Nothing was fetched yet: `baton models recommend` says what suits this machine."
    return "\n".join([total.strip(), *problems])


# What is loaded


def _running_name(one: LoadedModel, names: dict[Path, str]) -> str:
    """Name a model by its id, else by its file."""
    if one.path is None:
        return "on the GPU"
    return one_line(names.get(one.path.resolve()) or one.path.name, 40)


def _running_object(one: LoadedModel, names: dict[Path, str]) -> dict[str, Any]:
    return {
        "id": None if one.path is None else names.get(one.path.resolve()),
        "file": None if one.path is None else str(one.path),
        "memory_bytes": one.memory,
        "started": iso_time(one.started),
        "pid": one.pid,
        "front": one.front,
    }


_FIT_TEXTS = {
    Fit.FITS: "fits",
    Fit.TIGHT: "fits, with little left for other programs",
    Fit.SPILLS: "a part of it runs on the processor, more slowly",
    Fit.WONT: "won't fit",
}


class _ModelDetails(NamedTuple):
    """What is looked up of one model: whether it fits, its addresses, and how it writes."""

    verdict: FitVerdict | None
    address: str
    configuration: WorkerConfiguration | None


async def _model_details(row: ModelRow) -> _ModelDetails:
    async with open_library() as (library, settings):
        load = row_load(row, library)
        machine = await library.inspect_machine() if load is not None else None
    verdict = judge_fit([load], machine) if load is not None and machine is not None else None
    addresses, _ = configured_addresses(settings, row.id)
    configuration = None
    if row.card is not None and not row.is_offered:
        configuration = worker_configuration(row.card, settings, row.file)
    return _ModelDetails(verdict, ", ".join(each.url for each in addresses), configuration)


def _lines(row: ModelRow, details: _ModelDetails) -> dict[str, str]:
    card, cells, fit = _card(row), row_facts(row), details.verdict
    memory = f"about {show_size(row.load)} when loaded" if row.load is not None else ""
    scores = row.entry.scores if row.entry is not None else ()
    return {
        "Model": row.id,
        "Name": card.name,
        "Known as": card.model if card.model != card.name else "",
        "State": _state_line(row),
        "Address": details.address,
        **cells,
        "Size": ", ".join(filter(None, (_parameters_text(card.parameters), cells["Size"]))),
        "Memory": memory + (f" with {row.context:,} tokens of context" if row.context else ""),
        "Fits here": f"{_FIT_TEXTS[fit.fit]}. {fit.why} {fit.remedy}".strip() if fit else "",
        "Template": card.caution,
        "Speed": f"{speed_text(row)} tokens/s here" if row.speed else "",
        "Last used": "" if row.used is None else ago_text(time.time() - row.used),
        "Licence": _licence_line(row),
        "Price": "" if row.is_offered else sourced_price_text(card),
        "Scores": "; ".join(f"{s.name} {s.value:g} ({s.source})" for s in scores),
        **(configuration_lines(details.configuration) if details.configuration else {}),
        "From": origin_text(row),
        "File": str(row.file) if row.file is not None else "",
        "SHA-256": row.sha256,
        **_skill_lines(card, row.skills, row.measured),
    }


def _card(row: ModelRow) -> Card:
    assert row.card is not None, "other programs' models are not listed here"
    return row.card


def _state_line(row: ModelRow) -> str:
    fault = fault_text(row)
    text = f"{state_text(row)}: {fault}" if fault else state_text(row)
    if row.is_offered:
        return f"not here; `baton models pull {row.id}` fetches it"
    return f"{text}; `baton models pull {row.id}` resumes it" if row.is_paused else text


def _licence_line(row: ModelRow) -> str:
    name = licence_text(row.licence)
    if row.is_offered and name.lower() not in FREE_LICENCES:
        return f"{name or 'unknown'}, which you have to agree to"
    return name


def _parameters_text(parameters: int) -> str:
    billions = parameters / 1e9
    count = f"{billions:,.1f} billion" if billions >= 1 else f"{1000 * billions:,.0f} million"
    return f"{count} parameters" if parameters else ""


def _skill_lines(
    card: Card, table: Mapping[str, Mastery], measured: Mapping[str, tuple[float, int]]
) -> dict[str, str]:
    """Return the lines that say what a model is good at, and how that is known."""
    best = masteries_best_first(table)
    total = count_own_answers(table)
    own = f" ({own_answers_text(total)})" if total else ""
    guessed = sum(one.basis == GUESS for one in best)
    rest = "everything" if guessed == len(best) else "everything else"
    source = f"{guess_basis(card)}{' and what was measured' if measured else ''}"
    return {
        "Good at": ", ".join(f"{one.kind} {one.tenths}/10" for one in best) + own,
        "Your answers": _join_pairs((one.kind, f"{one.answers}") for one in best if one.answers),
        "Measured": _join_pairs(
            (one.kind, f"on {measured[one.kind][1]:,} questions")
            for one in best
            if one.basis == MEASURED
        ),
        "Published": ", ".join(one.kind for one in best if one.basis == PUBLISHED),
        "Set by you": ", ".join(one.kind for one in best if one.basis == CONFIGURED),
        "Guessed": f"{rest}, from {source}" if guessed else "",
    }


def _join_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} ({text})" for kind, text in pairs)


# For machines


def details_object(row: ModelRow) -> dict[str, Any]:
    """Return what is known of a model as `--json` prints it; sizes in bytes."""
    return card_object(_card(row)) | {
        "answers": count_own_answers(row.skills),
        "skills": [_skill_object(one, row.measured) for one in masteries_best_first(row.skills)],
        "default": row.is_answering,
        "roles": [role.value for role in row.roles],
        "too_large": row.is_offered and row.fit == Fit.WONT,
        "paused": row.is_paused,
        "memory_bytes": row.load,
        "tokens_per_second": None if row.speed is None else round(row.speed, 1),
        "last_used": None if row.used is None else iso_time(row.used),
        **file_object(row),
    }


def file_object(row: ModelRow) -> dict[str, Any]:
    """Return how a model's file stands, for machines; sizes in bytes."""
    names = ("size", "bytes", "sha256", "licence", "wrong", "fault")
    return {name: getattr(row, name) for name in names} | {
        "state": row.state or None,
        "file": str(row.file) if row.file is not None else None,
    }


def _skill_object(one: Mastery, measured: Mapping[str, tuple[float, int]]) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "chance": round(one.chance, 3),
        "level": round(one.level, 2),
        "basis": one.basis,
        "answers": one.answers,
        "measured_on": measured[one.kind][1] if one.basis == MEASURED else 0,
    }


def _more_fields(row: ModelRow, details: _ModelDetails) -> dict[str, Any]:
    """Return what `show --json` has besides."""
    scores = row.entry.scores if row.entry is not None else ()
    return {
        "address": details.address,
        "source": "" if row.source == UNKNOWN_SOURCE else str(row.source),
        "revision": row.source.revision,
        "linked": row.is_linked,
        "forced": row.is_forced,
        "scores": [asdict(score) for score in scores],
        "fit": None if details.verdict is None else verdict_object(details.verdict),
        **(configuration_object(details.configuration) if details.configuration else {}),
    }


def verdict_object(verdict: FitVerdict) -> dict[str, Any]:
    """Return how well models fit, for machines."""
    return {
        "verdict": verdict.fit.value,
        "needed_bytes": verdict.needed,
        "room_bytes": verdict.room,
        "why": verdict.why,
        "remedy": verdict.remedy,
        "mend": verdict.remedy,  # the old name, for one release
    }
