"""`baton models ls`, `show` and `ps`: which models there are, and which are loaded."""

from __future__ import annotations

import asyncio
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from baton.cli.models import model_text
from baton.cli.models.inventory import (
    IN_CATALOGUE,
    KnownModel,
    complete_known,
    find_known_model,
    list_models,
    open_library,
)
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
from baton.core.byte_format import show_size
from baton.core.catalogue_types import FREE_LICENCES, UNKNOWN_SOURCE, ThinkingMode
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
from baton.platform.settings import find_paths
from baton.presentation.models import licence_text
from baton.presentation.words import count_text, duration_text

if TYPE_CHECKING:
    from baton.ipc.lending_protocol import Description
    from baton.models import LibraryModel
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
    --all, catalogue or too large: not here, with what it is good for in brackets.
    """
    found = asyncio.run(list_models(whole))
    if as_json:
        return emit_document(models=[details_object(known) for known in found])
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
    known = find_known_model(model, asyncio.run(list_models(whole=True)))
    found = asyncio.run(model_details(known))
    if as_json:
        return emit_document(**(details_object(known) | found.more))
    lines = (f"{name + ':':14}{one_line(text, 400)}" for name, text in found.lines.items() if text)
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
    found = asyncio.run(list_models()) if loaded else []
    names = {known.file.resolve(): known.id for known in found if known.file is not None}
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
    emit(format_columns([head, *(_running_row(one, names) for one in loaded)]))


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
    """Break a line between words where it is for a screen, and go on in that column."""
    if not sys.stdout.isatty():
        return line
    width = max(40, shutil.get_terminal_size().columns - 1)
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)


# The table


def _table(found: Sequence[KnownModel]) -> str:
    rows = [dict(zip(_COLUMNS, _cells(known), strict=True)) for known in found]
    shown = list(_COLUMNS)
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        shown = [name for name in shown if any(row[name] for row in rows)]
        for column in _OPTIONAL_COLUMNS:
            if column in shown and _width(shown, rows) > width:
                shown.remove(column)
    cells = [[row[name] for name in shown] for row in rows]
    return format_columns([shown, *cells], shown.index("size"), words_last=shown[-1] == "licence")


def _width(shown: Sequence[str], rows: Sequence[dict[str, str]]) -> int:
    return sum(2 + max(map(len, (name, *(row[name] for row in rows)))) for name in shown)


def _cells(known: KnownModel) -> tuple[str, ...]:
    return (
        f"{'*' if known.default else ' '} {one_line(known.id, 40)}",
        _roles(known),
        "too large" if known.too_large else known.state,
        show_size(known.size) if known.size else "",
        show_size(known.load.total) if known.load is not None else "",
        model_text.speed_text(known.speed),
        "" if known.used is None else model_text.day_text(known.used),
        licence_text(known.licence),
    )


def _roles(known: KnownModel) -> str:
    """Name a model's roles; in brackets what one that isn't here would be good for."""
    if known.state == IN_CATALOGUE and known.entry is not None:
        return f"({', '.join(role.value for role in known.entry.roles)})"
    return ", ".join(role.value for role in known.roles)


async def _totals() -> str:
    """Say how much all of it is, what is still to come, what could be freed, and what is odd."""
    async with open_library() as (library, _):
        models, problems = library.models(), library.problems()
        orphans = sum(size for _, size in library.orphans())
    parts = _amounts(models) if models else []
    if orphans:
        parts.append(f"`baton models prune` frees {show_size(orphans)}")
    total = f"{'; '.join(parts)}." if parts else ""
    if not models:
        total += " Nothing was fetched yet: `baton models recommend` says what suits this machine."
    return "\n".join([total.strip(), *problems])


def _amounts(models: Sequence[LibraryModel]) -> list[str]:
    here = [held for held in models if held.state is not ModelState.COMING]
    parts = [f"{count_text(len(here), 'model')}, {show_size(sum(held.bytes for held in here))}"]
    linked = sum(held.record.size for held in here if held.state is ModelState.LINKED)
    if linked:
        parts.append(f"{show_size(linked)} linked")
    coming = sum(
        held.record.size - held.bytes for held in models if held.state is ModelState.COMING
    )
    if coming:
        parts.append(f"{show_size(coming)} still to come")
    return parts


# What is loaded


def _running_row(one: LoadedModel, names: dict[Path, str]) -> list[str]:
    return [
        _running_name(one, names),
        show_size(one.memory),
        duration_text(max(0.0, time.time() - one.started)),
        str(one.pid),
        str(one.front),
    ]


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


_THINKING_TEXTS = {
    ThinkingMode.NONE: "",
    ThinkingMode.SWITCH: "if wanted",
    ThinkingMode.ALWAYS: "always, before it answers",
}
_FIT_TEXTS = {
    Fit.FITS: "fits",
    Fit.TIGHT: "fits, with little left for other programs",
    Fit.SPILLS: "a part of it runs on the processor, more slowly",
    Fit.WONT: "won't fit",
}


class ModelDetails(NamedTuple):
    """Lines for people, and what `--json` has besides what `ls` prints."""

    lines: dict[str, str]
    more: dict[str, Any]


async def model_details(known: KnownModel) -> ModelDetails:
    """Return all that is known of a model."""
    async with open_library() as (library, settings):
        verdict = None
        if known.load is not None:
            verdict = judge_fit([known.load], await library.inspect_machine())
    addresses, _ = configured_addresses(settings, known.id)
    address = ", ".join(each.url for each in addresses)
    manner = None
    if known.state != IN_CATALOGUE:
        manner = worker_configuration(known.card, settings, known.file)
    return ModelDetails(
        _lines(known, verdict, address, manner), _more_fields(known, verdict, address, manner)
    )


def _lines(
    known: KnownModel, verdict: FitVerdict | None, address: str, manner: WorkerConfiguration | None
) -> dict[str, str]:
    card = known.card
    return {
        "Model": card.id,
        "Name": card.name,
        "Known as": card.model if card.model != card.name else "",
        "State": _state_text(known),
        "Roles": ", ".join(role.value for role in known.roles),
        "Runs": _place_text(card) + (f", {card.hardware}" if card.hardware else ""),
        "Address": address,
        "Size": _size_text(known),
        "Memory": _memory_text(known),
        "Fits here": _fit_text(verdict),
        "Template": known.card.caution,
        "Speed": f"{model_text.speed_text(known.speed)} tokens/s here" if known.speed else "",
        "Last used": "" if known.used is None else model_text.day_text(known.used),
        "Licence": _licence_text(known),
        "Context": f"{card.context:,} tokens" if card.context else "",
        "Price": sourced_price_text(card) if known.state != IN_CATALOGUE else "",
        "Note": card.note or (known.entry.note if known.entry else ""),
        **_catalogue_lines(known),
        **(configuration_lines(manner) if manner is not None else {}),
        **_file_lines(known),
        **_skill_lines(card, known.table, known.measured),
    }


def _catalogue_lines(known: KnownModel) -> dict[str, str]:
    if (entry := known.entry) is None:
        return {}
    return {
        "Good for": ", ".join(role.value for role in entry.roles),
        "Thinks": _THINKING_TEXTS[entry.thinking],
        "Scores": "; ".join(f"{s.name} {s.value:g} ({s.source})" for s in entry.scores),
    }


def _file_lines(known: KnownModel) -> dict[str, str]:
    source = known.source
    pinned = f" at {source.revision[:12]}" if source.revision else ""
    return {
        "From": "" if source == UNKNOWN_SOURCE else f"{source}{pinned}",
        "File": str(known.file) if known.file is not None else "",
        "SHA-256": known.sha256,
    }


def _state_text(known: KnownModel) -> str:
    record = known.held.record if known.held is not None else None
    if record is not None and record.wrong:
        return f"{known.state}: {record.wrong}"
    if record is not None and record.fault:
        return f"{known.state}, but it can't answer: {record.fault}"
    if known.state == "gone":
        return f"gone: {known.held.missing if known.held else 'the file'} isn't there any more"
    if known.state == IN_CATALOGUE:
        return f"not here; `baton models pull {known.id}` fetches it"
    if record is not None and record.paused:
        return f"{known.state}; `baton models pull {known.id}` goes on"
    return known.state


def _memory_text(known: KnownModel) -> str:
    if (load := known.load) is None:
        return ""
    context = f" with {load.context:,} tokens of context" if load.context else ""
    return f"about {show_size(load.total)} when loaded{context}"


def _fit_text(verdict: FitVerdict | None) -> str:
    if verdict is None:
        return ""
    return " ".join(filter(None, (f"{_FIT_TEXTS[verdict.fit]}.", verdict.why, verdict.remedy)))


def _licence_text(known: KnownModel) -> str:
    name = licence_text(known.licence)
    if known.state == IN_CATALOGUE and name.lower() not in FREE_LICENCES:
        return f"{name or 'unknown'}, which you have to agree to"
    return name


def _size_text(known: KnownModel) -> str:
    billions = known.card.parameters / 1e9
    count = ""
    if billions:
        count = f"{billions:,.1f} billion" if billions >= 1 else f"{1000 * billions:,.0f} million"
        count += " parameters"
    return ", ".join(filter(None, (count, show_size(known.size) if known.size else "")))


def _place_text(card: Card) -> str:
    where = {"local": "on this machine", "lan": "in this network", "cloud": "in the cloud"}
    return where[card.place.value]


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


def details_object(known: KnownModel) -> dict[str, Any]:
    """Return what is known of a model as `--json` prints it; sizes in bytes."""
    record = known.held.record if known.held is not None else None
    return card_object(known.card) | {
        "answers": count_own_answers(known.table),
        "skills": [_skill_object(one, known.measured) for one in masteries_best_first(known.table)],
        "default": known.default,
        "roles": [role.value for role in known.roles],
        "state": known.held.state.value if known.held is not None else known.state,
        "too_large": known.too_large,
        "paused": record is not None and record.paused,
        "wrong": record.wrong if record is not None else "",
        "fault": record.fault if record is not None else "",
        "size": known.size,
        "bytes": known.held.bytes if known.held is not None else 0,
        "memory_bytes": known.load.total if known.load is not None else None,
        "tokens_per_second": None if known.speed is None else round(known.speed, 1),
        "last_used": None if known.used is None else iso_time(known.used),
        "licence": known.licence,
        "file": str(known.file) if known.file is not None else None,
        "sha256": known.sha256,
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


def _more_fields(
    known: KnownModel, verdict: FitVerdict | None, address: str, manner: WorkerConfiguration | None
) -> dict[str, Any]:
    """Return what `show --json` has besides."""
    record = known.held.record if known.held is not None else None
    source = known.source
    return {
        "address": address,
        "source": "" if source == UNKNOWN_SOURCE else str(source),
        "revision": source.revision,
        "linked": record is not None and bool(record.link),
        "forced": record is not None and record.forced,
        "scores": [
            {"name": score.name, "value": score.value, "source": score.source}
            for score in (known.entry.scores if known.entry else ())
        ],
        "fit": None if verdict is None else verdict_object(verdict),
        **(configuration_object(manner) if manner is not None else {}),
    }


def verdict_object(verdict: FitVerdict) -> dict[str, Any]:
    """Return how well models fit, for machines."""
    return {
        "verdict": verdict.fit.value,
        "needed_bytes": verdict.needed,
        "room_bytes": verdict.room,
        "why": verdict.why,
        "mend": verdict.remedy,
    }
