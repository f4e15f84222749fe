"""`baton models pull`: models that come from a hub, and what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from baton.cli import interrupts
from baton.cli.error_report import report_error
from baton.cli.json_output import error_object
from baton.cli.models.inventory import complete_wanted, open_library
from baton.cli.models.model_list import file_object
from baton.cli.models.recommend import measure_and_recommend
from baton.cli.models.terminal_dialog import ProgressBoard, ask_agreement
from baton.cli.options import offline_option, quiet_option
from baton.cli.output import emit_document, notify
from baton.compose import appoint
from baton.compose.model_inventory import stored_row
from baton.core.catalogue_types import (
    ModelRole,
    arrival_text,
    configured_roles,
    role_holders,
    roles_on_arrival,
)
from baton.core.errors import BatonError, ConfigError, ModelFileError
from baton.core.machine import show_size
from baton.gguf.memory_fit import Fit
from baton.models import LibraryModel, ModelDownload, ModelState, NeedsAgreement
from baton.platform.paths import find_paths
from baton.platform.settings import Settings, configured_values, load_settings
from baton.presentation.model_rows import ModelRow
from baton.presentation.words import join_words

if TYPE_CHECKING:
    from baton.models import Library

_EXAMPLES = """\b
Examples:
  baton models pull qwen3.5-4b               `baton models ls --all` lists more
  baton models pull --recommended            what `recommend` says
  baton models pull                          resume what isn't all here yet
  baton models pull hf.co/USER/REPO:Q4_K_M   any GGUF model of Hugging Face
  baton models pull https://example.org/a.gguf --role coder

\b
HF_ENDPOINT (another hub), HF_TOKEN, HF_HUB_OFFLINE and https_proxy are respected.
Without a network: `baton models export` on another machine, `baton models import` here.
"""


@click.command(epilog=_EXAMPLES, short_help="Download models, or resume downloads.")
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=complete_wanted)
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice([role.value for role in ModelRole]),
    help="Its role when it is here, in place of those that suit it. Can be repeated.",
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

    An interrupted download resumes where it ended. A model is used
    only when all of it has come and its hash is right; then it takes the roles that suit it and
    that no other model has, or those of --role. It draws plans only with `--role conductor`: see
    `baton bench --conductor`.
    """
    if recommended and models:
        raise ConfigError("--recommended chooses the models itself.", "Leave out the names.")
    wish = PullRequest(models, tuple(map(ModelRole, roles)) or None, agree, force)
    interrupts.restore_default_handler()
    outcomes = asyncio.run(_pull(wish, recommended, offline, quiet))
    if as_json:
        emit_document(**results_object(outcomes))
    return report_failures(outcomes)


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What the command asks for."""

    models: tuple[str, ...]
    roles: tuple[ModelRole, ...] | None
    agreed: bool
    forced: bool


async def _pull(
    wish: PullRequest, recommended: bool, offline: bool, quiet: bool
) -> list[PullResult]:
    async with open_library(offline) as (library, settings):
        if recommended:
            outcomes = await _recommended_results(library, settings)
        elif wish.models:
            outcomes = [PullResult(name, roles=wish.roles) for name in dict.fromkeys(wish.models)]
        else:
            held = [one for one in library.models() if stored_row(one).is_fetchable]
            outcomes = [PullResult(one.id, one) for one in held]
            if not outcomes:
                notify(
                    "Nothing is on its way. `baton models recommend` says what suits this machine."
                )
        for outcome in outcomes:
            await _request(library, outcome, wish)
        await _fetch_all(library, [one for one in outcomes if one.held], quiet)
        return outcomes


async def _recommended_results(library: Library, settings: Settings) -> list[PullResult]:
    """Return the last recommendation that the user read, else what suits the machine now."""
    entries = library.entries()
    picks = [(id, roles) for id, roles in library.memory.picks() if id in entries]
    if not picks:
        _, advice = await measure_and_recommend(library, settings, True)
        picks = [(pick.entry.id, pick.roles) for pick in advice.picks]
    here = {held.id for held in library.models() if held.state.is_usable}
    # Roles also for those that are here: an attempt may have been killed before they had theirs.
    having = role_holders(settings.worker, settings.conductor, settings.prefer)
    configured = configured_roles(configured_values(find_paths().config_file))
    free = {id: roles_on_arrival((), roles, having, configured) for id, roles in picks}
    missing = [(id, roles) for id, roles in free.items() if id not in here]
    idle = [(id, roles) for id, roles in free.items() if id in here and roles]
    if missing:
        size = show_size(sum(entries[id].size for id, _ in missing))
        notify(f"{join_words([id for id, _ in missing])}, {size}, will be fetched.")
    else:
        notify("What suits this machine best is here already.")
    return [PullResult(id, roles=roles) for id, roles in (*idle, *missing)]


async def _request(library: Library, outcome: PullResult, wish: PullRequest) -> None:
    """Have a model looked up; what stands in its way is kept, so that others may still come."""
    try:
        if (held := _resumable_model(library, outcome)) is not None:
            outcome.held = library.pause(held.id, False)
            return
        download = ModelDownload(library)
        look_up = partial(download.request, outcome.asked, outcome.roles, force=wish.forced)
        try:
            outcome.held = await look_up(agreed=wish.agreed)
        except NeedsAgreement as error:
            place = f" It can be read at {error.place}." if error.place else ""
            question = f"{error.message}{place}\nFetch it under this licence?"
            if not await ask_agreement(question):
                raise
            outcome.held = await look_up(agreed=True)
    except BatonError as error:
        outcome.error = error


def _resumable_model(library: Library, outcome: PullResult) -> LibraryModel | None:
    """Return the model whose download is to resume, if the catalogue doesn't know it."""
    if outcome.held is not None or outcome.asked in library.entries():
        return outcome.held
    held = {one.id: one for one in library.models()}.get(outcome.asked)
    if held is not None and not stored_row(held).is_fetchable and not held.state.is_usable:
        raise ModelFileError(
            f"{held.id} came from a file of this machine, so it can't be fetched again.",
            f"`baton models rm {held.id}`, then `baton models import PATH`.",
        )
    return held


async def _fetch_all(library: Library, outcomes: Sequence[PullResult], quiet: bool) -> None:
    """Fetch side by side; a failure doesn't stop the others."""
    with ProgressBoard([outcome.held.id for outcome in outcomes if outcome.held], quiet) as board:
        tasks = [asyncio.create_task(_fetch(library, one, board)) for one in outcomes]
        try:
            for task in asyncio.as_completed(tasks):
                await task
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            board.close()
            kept = sum(library.get(one.held.id).bytes for one in outcomes if one.held is not None)
            notify(f"Stopped; {show_size(kept)} are kept. `baton models pull` resumes from there.")
            raise


async def _fetch(library: Library, outcome: PullResult, board: ProgressBoard) -> None:
    assert outcome.held is not None, "only what was found is fetched"
    id = outcome.held.id
    fresh = outcome.held.state is not ModelState.HERE or outcome.roles is not None
    try:
        async with aclosing(ModelDownload(library).fetch(id)) as steps:
            async for step in steps:
                if isinstance(step, LibraryModel):
                    outcome.held = step
                else:
                    board.show(id, step)
        board.done(id, await assign_roles(library, outcome.held, fresh, outcome.roles))
    except BatonError as error:
        outcome.error = error
        board.done(id)


@dataclass
class PullResult:
    """The result of one request: the model as `held`, or the error."""

    asked: str
    held: LibraryModel | None = None
    error: BatonError | None = None
    roles: tuple[ModelRole, ...] | None = None


async def assign_roles(
    library: Library, held: LibraryModel, fresh: bool, roles: tuple[ModelRole, ...] | None = None
) -> str:
    """Give a model its roles if it has arrived just now (or was asked to take some), and say so."""
    paths = find_paths()
    name = f"{held.id} ({show_size(held.record.size)})"
    if held.state is ModelState.BROKEN:
        return f"{name} is broken: {held.record.wrong}."
    if not fresh:
        return f"{name} is here already."
    wanted = replace(held.record, roles=held.record.roles if roles is None else roles)
    takes = appoint(replace(held, record=wanted), library, load_settings(paths.config_file), paths)
    fault, note = held.record.fault, held.record.note
    arrival = arrival_text(held.id, name, takes, library.suitable_roles(held.id), fault=fault)
    verdict = await library.verdict(held.id)
    why = "" if fault or verdict.fit is Fit.FITS else verdict.why
    return " ".join(filter(None, (arrival, "" if fault else note, why)))


def report_failures(outcomes: Sequence[PullResult]) -> int:
    """Report all errors, and return the exit code of the first one."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    codes = [report_error(error) for error in errors]
    return codes[0] if codes else 0


def results_object(outcomes: Sequence[PullResult]) -> dict[str, Any]:
    """Return what came of all of it, for machines."""
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    return {
        "status": "failed" if failed else "finished",
        "error": error_object(failed[0]) if failed else None,
        "models": [
            model_object(outcome.held)
            | {
                "asked": outcome.asked,
                "error": error_object(outcome.error) if outcome.error else None,
            }
            for outcome in outcomes
        ],
    }


def model_object(held: LibraryModel | None) -> dict[str, Any]:
    """Return how a model stands, for machines."""
    row = stored_row(held) if held is not None else ModelRow("", "", "")
    return file_object(row) | {
        "id": row.id or None,
        "linked": row.is_linked,
        "caution": held.record.note if held is not None else "",
    }
