"""`baton models`: what the models are, and what they are good at."""

from __future__ import annotations

import asyncio
import difflib
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import click

from baton.cli.aliases import AliasedGroup
from baton.cli.completion import complete_worker
from baton.cli.output import emit, emit_json, show_size
from baton.cli.workers import card_object, elsewhere, show_price
from baton.compose import compose
from baton.domain.chat import Card
from baton.domain.errors import ConfigError
from baton.domain.sanitise import one_line
from baton.engine.mastery import (
    GUESS,
    MEASURED,
    TYPED,
    Mastery,
    answers,
    guessed_from,
    in_short,
    own_answers,
    ranked,
    scores_of,
)
from baton.settings import find_paths, load

Known = tuple[Card, Mapping[str, Mastery], Mapping[str, tuple[float, int]]]
"""A worker, what it is good at by task kind, and what was measured of its model."""


@click.group(cls=AliasedGroup)
def models() -> None:
    """Show what the models are good at.

    \b
    For rewriting 9/10, nine of ten ordinary tasks of that kind go well. That begins with
    shipped measurements where the model is known, else with a guess from its size, and
    moves with what you do with answers: marking them good or bad, asking again, copying.
    Those of private conversations don't count here, as a worker that draws plans is told
    the figures; `baton learn` counts them, and what it keeps stays on this machine.
    """


@models.command("ls")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List the models; a star marks the one that answers unless -m says otherwise."""
    found, default = asyncio.run(_look())
    if as_json:
        return emit_json([_object(*known) | {"default": known[0].id == default} for known in found])
    width = max(len(one_line(card.id)) for card, _, _ in found)
    for card, table, _ in found:
        mark = "*" if card.id == default else " "
        facts = [_place(card), _size(card), in_short(card, table)]
        line = f"{mark} {one_line(card.id):{width}}  {'  '.join(filter(None, facts))}"
        emit(fitting(line, min(width + 4, 24)))


@models.command()
@click.argument("model", metavar="ID", shell_complete=complete_worker)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(model: str, as_json: bool) -> None:
    """Show what is known of the model ID, and what it is good at.

    ID is a worker's, as `baton models ls` lists them.
    """
    found, _ = asyncio.run(_look())
    card, table, measured = _named(model, found)
    if as_json:
        return emit_json(_object(card, table, measured))
    address, _ = elsewhere(load(find_paths().config_file), card.id)
    facts = {
        "Model": card.id,
        "Name": card.name,
        "Known as": card.model if card.model != card.name else "",
        "Runs": f"{_place(card)}{f', {card.hardware}' if card.hardware else ''}",
        "Address": address,
        "Size": _size(card),
        "Licence": card.licence,
        "Context": f"{card.context:,} tokens" if card.context else "",
        "Price": show_price(card),
        "Note": card.note,
        **_good_at(card, table, measured),
    }
    lines = (f"{name + ':':14}{one_line(text)}" for name, text in facts.items() if text)
    emit("\n".join(fitting(line, 14) for line in lines))


def fitting(line: str, indent: int) -> str:
    """Break a line between words where it is for a screen, and go on in that column."""
    if not sys.stdout.isatty():
        return line
    width = max(40, shutil.get_terminal_size().columns - 1)
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)


async def _look() -> tuple[list[Known], str]:
    paths = find_paths()
    baton = compose(load(paths.config_file), paths)
    try:
        skills = baton.orchestra.skills
        return [
            (card, await skills.of(card), scores_of(card, skills.scores))
            for card in baton.orchestra.roster
            if not card.is_tool
        ], baton.orchestra.default
    finally:
        await baton.aclose()


def _named(typed: str, found: Sequence[Known]) -> Known:
    by_id = {known[0].id: known for known in found}
    if typed in by_id:
        return by_id[typed]
    names = {name.casefold(): card.id for card, _, _ in found for name in (card.id, card.name)}
    near = difflib.get_close_matches(typed.casefold(), names, n=1)
    meant = f"Did you mean {names[near[0]]!r}?" if near else "`baton models ls` lists them."
    raise ConfigError(f"There is no model {typed!r}.", meant)


def _good_at(
    card: Card, table: Mapping[str, Mastery], measured: Mapping[str, tuple[float, int]]
) -> dict[str, str]:
    """Return the lines that say what a model is good at, and how that is known."""
    best = ranked(table)
    count = answers(table)
    own = f" ({own_answers(count)})" if count else ""
    guessed = sum(one.basis == GUESS for one in best)
    rest = "everything" if guessed == len(best) else "everything else"
    source = f"{guessed_from(card)}{' and what was measured' if measured else ''}"
    return {
        "Good at": ", ".join(f"{one.kind} {one.tenths}/10" for one in best) + own,
        "Your answers": _listed((one.kind, f"{one.answers}") for one in best if one.answers),
        "Measured": _listed(
            (one.kind, f"on {measured[one.kind][1]:,} questions")
            for one in best
            if one.basis == MEASURED
        ),
        "Set by you": ", ".join(one.kind for one in best if one.basis == TYPED),
        "Guessed": f"{rest}, from {source}" if guessed else "",
    }


def _listed(pairs: Any) -> str:
    return ", ".join(f"{kind} ({told})" for kind, told in pairs)


def _place(card: Card) -> str:
    """Say where a model runs."""
    if card.kind == "local":
        return "on this machine"
    where = {"local": "on this machine", "lan": "in this network", "cloud": "in the cloud"}
    return where[card.privacy.value]


def _size(card: Card) -> str:
    billions = card.parameters / 1e9
    count = ""
    if card.parameters:
        count = f"{billions:,.1f} billion" if billions >= 1 else f"{1000 * billions:,.0f} million"
        count += " parameters"
    return ", ".join(filter(None, (count, show_size(card.size) if card.size else "")))


def _object(
    card: Card, table: Mapping[str, Mastery], measured: Mapping[str, tuple[float, int]]
) -> dict[str, Any]:
    """Return what is known of a model for machines."""
    skills = [
        {
            "kind": one.kind,
            "chance": round(one.chance, 3),
            "level": round(one.level, 2),
            "basis": one.basis,
            "answers": one.answers,
            "measured_on": measured[one.kind][1] if one.basis == MEASURED else 0,
        }
        for one in ranked(table)
    ]
    return card_object(card) | {"answers": answers(table), "skills": skills}
