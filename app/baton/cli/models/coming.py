"""`baton models pull` and `import`: models that come to this machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from baton.cli import interrupts
from baton.cli.booked import columns
from baton.cli.failures import complain
from baton.cli.models import words
from baton.cli.models.asking import agrees
from baton.cli.models.board import Board
from baton.cli.models.completing import complete_wanted
from baton.cli.models.known import opened
from baton.cli.options import offline_option, quiet_option
from baton.cli.output import emit, emit_json, talk
from baton.cli.result import error_object
from baton.compose import appoint
from baton.domain.catalogue import Role
from baton.domain.errors import BatonError, ConfigError
from baton.domain.fit import Fit
from baton.domain.library import Foreign, Held, Progress, State
from baton.domain.sanitise import one_line
from baton.engine.library import NeedsAgreement
from baton.engine.roles import told
from baton.settings import Settings, find_paths, load

if TYPE_CHECKING:
    from baton.engine.library import Library

Steps = AsyncGenerator[Progress | Held]

_PULLS = """\b
Examples:
  baton models pull qwen3.5-4b             one of the catalogue (`baton models ls --all`)
  baton models pull --recommended          what `baton models recommend` says
  baton models pull                        go on with whatever isn't all here yet
  baton models pull hf.co/USER/REPO:Q4_K_M any GGUF model of Hugging Face
  baton models pull https://example.org/a.gguf --role coder

\b
HF_ENDPOINT (another hub), HF_TOKEN, HF_HUB_OFFLINE and HTTPS_PROXY are respected. Without
a network: `baton models export` elsewhere, `baton models import` here.
"""


@dataclass
class Outcome:
    """What came of what was asked for: `held` in the end, or the error."""

    asked: str
    held: Held | None = None
    error: BatonError | None = None
    said: str = ""
    roles: tuple[Role, ...] | None = field(default=None)


@click.command(epilog=_PULLS, short_help="Fetch models, or go on with it.")
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=complete_wanted)
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice([role.value for role in Role]),
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
    that nobody has, or those of --role.
    """
    if recommended and models:
        raise ConfigError("--recommended says itself which models.", "Leave out the names.")
    wish = Wish(models, tuple(map(Role, roles)) or None, agree, force)
    interrupts.hand_over()
    outcomes = asyncio.run(_pull(wish, recommended, offline, quiet))
    if as_json:
        emit_json(_object(outcomes))
    return _code(outcomes, as_json)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to come, and how."""

    models: tuple[str, ...]
    roles: tuple[Role, ...] | None
    agreed: bool
    forced: bool


async def _pull(wish: Wish, recommended: bool, offline: bool, quiet: bool) -> list[Outcome]:
    async with opened(offline) as (library, settings):
        if recommended:
            picks = (await library.recommend()).picks
            outcomes = [Outcome(pick.entry.id, roles=pick.roles) for pick in picks if not pick.here]
            if not outcomes:
                talk("What suits this machine best is here already.")
        elif wish.models:
            outcomes = [Outcome(name, roles=wish.roles) for name in dict.fromkeys(wish.models)]
        else:
            outcomes = [_going_on(held) for held in library.models() if _is_unfinished(held)]
            if not outcomes:
                talk(
                    "Nothing is on its way. `baton models recommend` says what suits this machine."
                )
        for outcome in outcomes:
            await _want(library, outcome, wish)
        await _fetch_all(library, settings, [one for one in outcomes if one.held], quiet)
        return outcomes


def _is_unfinished(held: Held) -> bool:
    return held.state in (State.COMING, State.BROKEN) and bool(str(held.record.source).strip("/"))


def _going_on(held: Held) -> Outcome:
    return Outcome(held.id, held)


async def _want(library: Library, outcome: Outcome, wish: Wish) -> None:
    """Have a model looked up; what stands in its way is kept, so that others may still come."""
    try:
        if outcome.held is not None:
            outcome.held = library.pause(outcome.held.id, False)
            return
        try:
            outcome.held = await _wanted(library, outcome, wish, wish.agreed)
        except NeedsAgreement as error:
            if not await agrees(f"{error.message} Fetch it under this licence?"):
                raise
            outcome.held = await _wanted(library, outcome, wish, True)
    except BatonError as error:
        outcome.error = error


async def _wanted(library: Library, outcome: Outcome, wish: Wish, agreed: bool) -> Held:
    return await library.want(outcome.asked, outcome.roles, agreed=agreed, force=wish.forced)


async def _fetch_all(
    library: Library, settings: Settings, outcomes: Sequence[Outcome], quiet: bool
) -> None:
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
    fresh = outcome.held.state is not State.HERE or outcome.roles is not None
    try:
        async with aclosing(library.fetch(id)) as steps:
            async for step in steps:
                if isinstance(step, Held):
                    outcome.held = step
                else:
                    board.show(id, step)
        outcome.said = await _settled(library, outcome.held, fresh)
    except BatonError as error:
        outcome.error = error
        board.done(id)
    else:
        board.done(id, outcome.said)


async def _settled(library: Library, held: Held, fresh: bool) -> str:
    """Give a model its roles if it has arrived just now (or was asked to take some), and say so."""
    paths = find_paths()
    name = f"{held.id} ({words.in_gb(held.record.size)})"
    if held.state is State.BROKEN:
        return f"{name} is broken: {held.record.wrong}."
    if not fresh:
        return f"{name} is here already."
    roles = appoint(held, library, load(paths.config_file), paths)
    said = told(held.id, name, roles)
    verdict = await library.verdict(held.id)
    return said if verdict.fit is Fit.FITS else f"{said} {verdict.why}".strip()


def _say_what_is_kept(library: Library, outcomes: Sequence[Outcome]) -> None:
    kept = sum(library.get(one.held.id).bytes for one in outcomes if one.held is not None)
    talk(f"Stopped; {words.in_gb(kept)} are kept. `baton models pull` goes on from there.")


def _code(outcomes: Sequence[Outcome], as_json: bool) -> int:
    """Tell of what went wrong, and return the exit code of the first of it."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    codes = [complain(error) for error in errors]
    return codes[0] if codes else 0


def _object(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    return {
        "schema": 1,
        "status": "failed" if failed else "finished",
        "error": error_object(failed[0]) if failed else None,
        "models": [
            held_object(outcome.held)
            | {
                "asked": outcome.asked,
                "error": error_object(outcome.error) if outcome.error else None,
            }
            for outcome in outcomes
        ],
    }


def held_object(held: Held | None) -> dict[str, Any]:
    """Return how a model stands, for machines."""
    record = held.record if held is not None else None
    return {
        "id": held.id if held else None,
        "state": held.state.value if held else None,
        "size": record.size if record else 0,
        "bytes": held.bytes if held else 0,
        "sha256": record.sha256 if record else "",
        "licence": record.licence if record else "",
        "file": str(held.path) if held else None,
        "linked": bool(record and record.link),
        "wrong": record.wrong if record else "",
    }


# From this machine


_IMPORTS = """\b
Examples:
  baton models import ~/Downloads/model.gguf
  baton models import --link /data/model.gguf      use it where it lies
  baton models import /media/stick/baton           what `baton models export` wrote
  baton models import --found                      list those of Ollama, LM Studio and others
  baton models import --found llama3.2:3b          use one of these where it lies
"""


@click.command("import", epilog=_IMPORTS, short_help="Take model files of this machine or a stick.")
@click.argument("paths", nargs=-1, metavar="[PATH|NAME]...")
@click.option("--found", is_flag=True, help="List the models of other programs, or link NAMEs.")
@click.option("--link", is_flag=True, help="Use the file where it lies, in place of a copy.")
@click.option("--id", "id", default="", metavar="ID", help="What to call it.")
@click.option("--force", is_flag=True, help="Take it even if it won't fit.")
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
    """Take GGUF files, or a folder that `baton models export` made; connects to nothing.

    A file is copied, verified and then used; with --link it stays where it is, and is read again
    before it is used whenever it has changed. With --found, the models that Ollama, LM Studio,
    Hugging Face's cache and others keep on this machine are listed; naming some links them.
    """
    if not paths and not found:
        raise ConfigError("Which file?", "`baton models import PATH`, or --found for a list.")
    if id and len(paths) != 1:
        raise ConfigError("--id is for one file.", "Import them one by one.")
    interrupts.hand_over()
    if found and not paths:
        return _list_found(as_json)
    outcomes = asyncio.run(_import(paths, found, link, id, force, quiet))
    if as_json:
        emit_json(_object(outcomes))
    return _code(outcomes, as_json)


def _list_found(as_json: bool) -> int:
    listed = asyncio.run(_foreign())
    if as_json:
        emit_json([_foreign_object(one) for one in listed])
    elif not listed:
        talk("No other program keeps models here that aren't linked yet.")
    else:
        rows = [[_shown(one), one_line(one.program, 20), words.in_gb(one.size)] for one in listed]
        emit(columns(rows, left=2))
        talk("`baton models import --found NAME` uses one where it lies.")
    return 0


async def _foreign() -> Sequence[Foreign]:
    async with opened() as (library, _):
        return await asyncio.to_thread(library.foreign)


def _shown(one: Foreign) -> str:
    return one_line(one.name, 60)


def _foreign_object(one: Foreign) -> dict[str, Any]:
    return {
        "name": one.name,
        "program": one.program,
        "size": one.size,
        "file": str(one.path),
        "sha256": one.sha256,
        "source": str(one.source).strip("/"),
    }


async def _import(
    paths: Sequence[str], found: bool, link: bool, id: str, force: bool, quiet: bool
) -> list[Outcome]:
    async with opened() as (library, _):
        files = [(name, Path(name)) for name in paths]
        if found:
            listed = await asyncio.to_thread(library.foreign)
            files = [(name, _named(name, listed).path) for name in paths]
        outcomes: list[Outcome] = []
        board = Board([_title(name) for name, _ in files], quiet)
        try:
            for name, file in files:
                steps = library.add(file, id=id, link=link or found, force=force)
                await _take(library, name, steps, board, outcomes)
        finally:
            board.close()
        return outcomes


async def _take(
    library: Library, name: str, steps: Steps, board: Board, outcomes: list[Outcome]
) -> None:
    """Take what a file or a folder holds; each that arrived is told at once."""
    began = time.time()
    try:
        async with aclosing(steps):
            async for step in steps:
                if isinstance(step, Progress):
                    board.show(_title(name), step)
                    continue
                outcomes.append(Outcome(name, step))
                board.say(await _settled(library, step, step.record.added >= began))
    except BatonError as error:
        outcomes.append(Outcome(name, error=error))
    board.done(_title(name))


def _title(name: str) -> str:
    return one_line(Path(name).name or name, 40)


def _named(name: str, listed: Sequence[Foreign]) -> Foreign:
    import difflib

    for one in listed:
        if name in (one.name, _shown(one), str(one.path)):
            return one
    near = difflib.get_close_matches(name, [_shown(one) for one in listed], n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "`baton models import --found` lists them."
    raise ConfigError(f"No other program here has a model {name!r}.", hint)
