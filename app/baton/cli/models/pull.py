"""`baton models pull`: models that come from a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from baton.cli import interrupts
from baton.cli.models import model_text
from baton.cli.models.confirmation import agrees
from baton.cli.models.download_progress import Board
from baton.cli.models.inventory import opened
from baton.cli.models.last_recommendation import advise, kept
from baton.cli.models.model_completion import complete_wanted
from baton.cli.models.pull_result import Outcome, as_object, exit_code, settled
from baton.cli.options import offline_option, quiet_option
from baton.cli.output import emit_json, notify
from baton.core.byte_format import show_size
from baton.core.catalogue_types import UNKNOWN_SOURCE, ModelRole
from baton.core.errors import BatonError, ConfigError, ModelFileError
from baton.core.model_roles import recommended_roles, role_holders, roles_on_arrival
from baton.models.library_state import NeedsAgreement
from baton.models.model_types import LibraryModel, ModelState

if TYPE_CHECKING:
    from baton.models.library import Library
    from baton.platform.settings import Settings

_PULLS = """\b
Examples:
  baton models pull qwen3.5-4b               `baton models ls --all` lists more
  baton models pull --recommended            what `recommend` says
  baton models pull                          go on with what isn't all here yet
  baton models pull hf.co/USER/REPO:Q4_K_M   any GGUF model of Hugging Face
  baton models pull https://example.org/a.gguf --role coder

\b
HF_ENDPOINT (another hub), HF_TOKEN, HF_HUB_OFFLINE and HTTPS_PROXY are respected.
Without a network: `baton models export` elsewhere, `baton models import` here.
"""


@click.command(epilog=_PULLS, short_help="Fetch models, or go on with it.")
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=complete_wanted)
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice([role.value for role in ModelRole]),
    help="What it shall do when it is here, in place of what suits it. Can be repeated.",
)
@click.option("--recommended", is_flag=True, help="Fetch what suits this machine best.")
@click.option("--agree", is_flag=True, help="You have read the licence, and accept it.")
@click.option("--force", is_flag=True, help="Fetch it even if it won't fit; that is remembered.")
@offline_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, on failure too.")
def pull(
    models: tuple[str, ...],
    roles: tuple[str, ...],
    recommended: bool,
    agree: bool,
    force: bool,
    offline: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Fetch models, several side by side, and verify every byte of them.

    A download that was interrupted goes on where it ended, whatever interrupted it. A model is used
    only when all of it has come and its hash is right; then it takes the roles that suit it and
    that no other model has, or those of --role. It draws plans only with `--role conductor`: see
    `baton bench --conductor`.
    """
    if recommended and models:
        raise ConfigError("--recommended says itself which models.", "Leave out the names.")
    wish = Wish(models, tuple(map(ModelRole, roles)) or None, agree, force)
    interrupts.restore_default_handler()
    outcomes = asyncio.run(_pull(wish, recommended, offline, quiet))
    if as_json:
        emit_json(as_object(outcomes))
    return exit_code(outcomes)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to come, and how."""

    models: tuple[str, ...]
    roles: tuple[ModelRole, ...] | None
    agreed: bool
    forced: bool


async def _pull(wish: Wish, recommended: bool, offline: bool, quiet: bool) -> list[Outcome]:
    async with opened(offline) as (library, settings):
        if recommended:
            outcomes = await _recommended(library, settings)
        elif wish.models:
            outcomes = [Outcome(name, roles=wish.roles) for name in dict.fromkeys(wish.models)]
        else:
            outcomes = [_going_on(held) for held in library.models() if _is_unfinished(held)]
            if not outcomes:
                notify(
                    "Nothing is on its way. `baton models recommend` says what suits this machine."
                )
        for outcome in outcomes:
            await _want(library, outcome, wish)
        await _fetch_all(library, [one for one in outcomes if one.held], quiet)
        return outcomes


async def _recommended(library: Library, settings: Settings) -> list[Outcome]:
    """Return what the person was told to suit this machine, or else what does now."""
    entries = library.entries()
    picks = kept(entries)
    if not picks:
        _, found = await advise(library, settings, True)
        picks = [(pick.entry.id, pick.roles) for pick in found.picks]
    here = {held.id for held in library.models() if held.state.is_usable}
    missing = [(id, recommended_roles(roles)) for id, roles in picks if id not in here]
    # Also after an attempt that was killed when a model had come, before it had its roles.
    having = role_holders(settings.worker, settings.conductor, settings.prefer)
    idle = [(id, roles_on_arrival((), roles, having)) for id, roles in picks if id in here]
    idle = [(id, roles) for id, roles in idle if roles]
    if missing:
        size = show_size(sum(entries[id].size for id, _ in missing))
        notify(f"{model_text.listed([id for id, _ in missing])}, {size}, will be fetched.")
    else:
        notify("What suits this machine best is here already.")
    return [Outcome(id, roles=roles) for id, roles in (*idle, *missing)]


def _is_unfinished(held: LibraryModel) -> bool:
    return not held.state.is_usable and _has_source(held)


def _has_source(held: LibraryModel) -> bool:
    return held.record.source != UNKNOWN_SOURCE


def _going_on(held: LibraryModel) -> Outcome:
    return Outcome(held.id, held)


async def _want(library: Library, outcome: Outcome, wish: Wish) -> None:
    """Have a model looked up; what stands in its way is kept, so that others may still come."""
    try:
        if (held := _on_shelf(library, outcome)) is not None:
            outcome.held = library.pause(held.id, False)
            return
        try:
            outcome.held = await _wanted(library, outcome, wish, wish.agreed)
        except NeedsAgreement as error:
            if not await agrees(_to_agree(error)):
                raise
            outcome.held = await _wanted(library, outcome, wish, True)
    except BatonError as error:
        outcome.error = error


def _to_agree(error: NeedsAgreement) -> str:
    place = f" It can be read at {error.place}." if error.place else ""
    return f"{error.message}{place}\nFetch it under this licence?"


def _on_shelf(library: Library, outcome: Outcome) -> LibraryModel | None:
    """Return the model that is to go on, if it is one that the catalogue doesn't know."""
    if outcome.held is not None or outcome.asked in library.entries():
        return outcome.held
    held = {one.id: one for one in library.models()}.get(outcome.asked)
    if held is not None and not held.state.is_usable and not _has_source(held):
        raise ModelFileError(
            f"{held.id} came from a file of this machine, so it can't be fetched again.",
            f"`baton models rm {held.id}`, then `baton models import PATH`.",
        )
    return held


async def _wanted(library: Library, outcome: Outcome, wish: Wish, agreed: bool) -> LibraryModel:
    return await library.request_model(
        outcome.asked, outcome.roles, agreed=agreed, force=wish.forced
    )


async def _fetch_all(library: Library, outcomes: Sequence[Outcome], quiet: bool) -> None:
    """Fetch side by side; one that fails leaves the others alone."""
    board = Board([outcome.held.id for outcome in outcomes if outcome.held], quiet)
    tasks = [asyncio.create_task(_fetch(library, one, board)) for one in outcomes]
    try:
        for task in asyncio.as_completed(tasks):
            await task
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        board.close()
        _say_what_is_kept(library, outcomes)
        raise
    finally:
        board.close()


async def _fetch(library: Library, outcome: Outcome, board: Board) -> None:
    assert outcome.held is not None, "only what was found is fetched"
    id = outcome.held.id
    fresh = outcome.held.state is not ModelState.HERE or outcome.roles is not None
    try:
        async with aclosing(library.fetch(id)) as steps:
            async for step in steps:
                if isinstance(step, LibraryModel):
                    outcome.held = step
                else:
                    board.show(id, step)
        outcome.said = await settled(library, outcome.held, fresh, outcome.roles)
    except BatonError as error:
        outcome.error = error
        board.done(id)
    else:
        board.done(id, outcome.said)


def _say_what_is_kept(library: Library, outcomes: Sequence[Outcome]) -> None:
    kept = sum(library.get(one.held.id).bytes for one in outcomes if one.held is not None)
    notify(f"Stopped; {show_size(kept)} are kept. `baton models pull` goes on from there.")
