"""`baton workers`: what can answer."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import click

from baton.cli.aliases import AliasedGroup
from baton.cli.completion import complete_worker
from baton.cli.output import emit, emit_json, show_size
from baton.compose import compose
from baton.domain.chat import Card
from baton.domain.sanitise import one_line
from baton.settings import find_paths, load


@click.group(cls=AliasedGroup)
def workers() -> None:
    """Show and test what can answer."""


@workers.command("ls")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List the workers; a star marks the one that answers unless -m says otherwise."""
    cards, default = _roster()
    if as_json:
        return emit_json([asdict(card) | {"default": card.id == default} for card in cards])
    width = max(len(one_line(card.id)) for card in cards)
    emit("\n".join(_row(card, card.id == default, width) for card in cards))


@workers.command()
@click.argument("worker", shell_complete=complete_worker)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(worker: str, as_json: bool) -> None:
    """Show what is known of WORKER."""
    card = _card(worker)
    if as_json:
        return emit_json(asdict(card))
    facts = {
        "Worker": card.id,
        "Name": card.name,
        "Runs": card.hardware or card.kind,
        "Privacy": card.privacy.value,
        "Context": f"{card.context:,} tokens" if card.context else "",
        "Longest answer": f"{card.max_output:,} tokens",
        "Parameters": f"{card.parameters / 1e6:,.0f} million" if card.parameters else "",
        "File": show_size(card.size) if card.size else "",
        "Licence": card.licence,
        "Note": card.note,
    }
    emit("\n".join(f"{name + ':':16}{one_line(text)}" for name, text in facts.items() if text))


@workers.command()
@click.argument("worker", shell_complete=complete_worker)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def test(worker: str, as_json: bool) -> None:
    """Let WORKER write eight tokens."""
    from baton.cli.trial import try_out

    paths = find_paths()
    trial = asyncio.run(try_out(load(paths.config_file), paths, worker))
    if as_json:
        return emit_json({"schema": 1, "status": "finished", "worker": worker, **asdict(trial)})
    where = f" on {one_line(trial.hardware)}" if trial.hardware else ""
    emit(f"{one_line(worker)} works: {trial.tokens} tokens in {trial.seconds:.1f} s{where}.")


def _roster() -> tuple[tuple[Card, ...], str]:
    async def look() -> tuple[tuple[Card, ...], str]:
        paths = find_paths()
        baton = compose(load(paths.config_file), paths, history=False)
        try:
            return baton.orchestra.roster, baton.orchestra.default
        finally:
            await baton.aclose()

    return asyncio.run(look())


def _card(worker: str) -> Card:
    async def look() -> Card:
        paths = find_paths()
        baton = compose(load(paths.config_file), paths, history=False)
        try:
            return baton.orchestra.worker(worker).card
        finally:
            await baton.aclose()

    return asyncio.run(look())


def _row(card: Card, default: bool, width: int) -> str:
    mark = "*" if default else " "
    size = f"  {show_size(card.size)}" if card.size else ""
    return f"{mark} {one_line(card.id):{width}}  {card.kind:7}  {one_line(card.name, 50)}{size}"
