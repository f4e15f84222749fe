"""`baton bench --conductor`: who splits requests best on this machine, and so conducts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from baton.bench import ConductorBench, ConductorRow, plan_drawer, read_episodes
from baton.cli.bench.base_bench import show_progress, split_names
from baton.cli.options import add_named_worker
from baton.cli.output import emit, emit_json, notify
from baton.cli.stores import format_columns
from baton.core.catalogue_types import ModelRole
from baton.core.errors import BatonError, ConfigError
from baton.core.planning.conductor import can_conduct
from baton.core.run.rule_router import RuleRouter
from baton.core.sanitiser import one_line
from baton.platform.settings import LocalWorkerSettings, Paths, Settings, find_paths, load_settings

if TYPE_CHECKING:
    from baton.bench import Episode
    from baton.compose import Baton
    from baton.core.messages import Card
    from baton.core.ports import Worker

SCHEMA = 1
TRAINED_NAME = "Baton's own"
"""How the trained conductor is called where workers go by their ids."""

_COLUMNS = ["conductor", "score", "95 %", "valid", "kept whole", "split right", "seconds"]


@dataclass(frozen=True, slots=True)
class ConductorOptions:
    """What was given on the command line: `workers` "" is all that could conduct."""

    workers: str
    limit: int | None
    as_json: bool


@dataclass(frozen=True, slots=True)
class ConductorVerdict:
    """Who conducts from now on ("": Baton's own), whether that is new, and a sentence on it."""

    conductor: str
    is_changed: bool
    said: str


async def compare(options: ConductorOptions) -> int:
    """Have each conductor plan the episodes, show the table, and let the best one conduct."""
    paths = find_paths()
    settings = load_settings(paths.config_file)
    episodes = read_episodes(options.limit)
    rows: list[ConductorRow] = []
    failures: list[str] = []
    async with _compose_candidates(settings, options, paths) as (baton, candidates):
        bench = _bench(baton)
        for name in candidates:
            try:
                rows.append(await _play_conductor(bench, baton, name, episodes))
            except BatonError as error:
                failures.append(f"{name or TRAINED_NAME} could not be tried: {error.message}")
        whole = options.limit is None or options.limit >= len(read_episodes())
        found = _decide_conductor(rows, baton, settings, paths, whole=whole)
    _show(rows, failures, found, options.as_json)
    return 0 if rows else 1


@asynccontextmanager
async def _compose_candidates(
    settings: Settings, options: ConductorOptions, paths: Paths
) -> AsyncIterator[tuple[Baton, list[str]]]:
    """Put local workers together; yield them, and who is compared ("": the trained conductor).

    Raises ConfigError for a worker that isn't known, isn't local, or can't conduct.
    """
    from baton.compose import compose

    named = []
    for name in split_names(options.workers):
        settings, known = add_named_worker(settings, name)
        named.append(known or name)
    remote = {entry.id for entry in settings.roster if not isinstance(entry, LocalWorkerSettings)}
    if refused := [name for name in named if name in remote]:
        raise ConfigError(
            f"{one_line(refused[0])} is not a local model, and only those are compared.",
            "Name local models: --workers A,B",
        )
    entries = tuple(entry for entry in settings.workers if isinstance(entry, LocalWorkerSettings))
    # Also where the person wants no model to plan, the comparison takes place.
    alone = msgspec.structs.replace(settings, workers=entries, conductor="", offline=True)
    baton = compose(alone, paths, history=False)
    try:
        roster = {card.id: card for card in baton.orchestra.roster}
        for name in named:
            _refuse_tool(baton.orchestra.worker(name).card)
        able = [card.id for card in roster.values() if not card.uses_gateway and can_conduct(card)]
        trained = [""] if baton.orchestra.services.trained is not None else []
        yield baton, [*trained, *(named or able)]
    finally:
        await baton.aclose()


def _refuse_tool(card: Card) -> None:
    if card.is_tool:
        raise ConfigError(f"{card.id} is a tool, and tools draw no plans.", "Name local models.")


def _bench(baton: Baton) -> ConductorBench:
    """Return what all conductors plan with: local workers and tools, the default worker first."""
    default = baton.orchestra.default
    cards = [card for card in baton.orchestra.roster if not card.uses_gateway]
    cards.sort(key=lambda card: (card.is_tool, card.id != default))
    workers: Mapping[str, Worker] = {card.id: baton.orchestra.worker(card.id) for card in cards}
    router = baton.orchestra.services.router or RuleRouter()
    return ConductorBench(workers, router, baton.orchestra.services.skills)


async def _play_conductor(
    bench: ConductorBench, baton: Baton, name: str, episodes: Sequence[Episode]
) -> ConductorRow:
    trained = baton.orchestra.services.trained
    draw = plan_drawer(name if name or trained is None else trained)
    drawn = []
    async for one in bench.play(draw, episodes):
        drawn.append(one)
        show_progress(name or TRAINED_NAME, len(drawn), len(episodes))
    return ConductorRow(name, drawn)


# What comes of it


def _decide_conductor(
    rows: Sequence[ConductorRow], baton: Baton, settings: Settings, paths: Paths, *, whole: bool
) -> ConductorVerdict:
    """Decide who conducts from now on: whom the settings name, else who scored best.

    Only a score above the trained conductor's, on all episodes, changes the settings.
    """
    now = settings.conductor
    trained = next((row for row in rows if not row.conductor), None)
    best = max((row for row in rows if row.conductor), key=lambda row: row.score, default=None)
    if best is None:
        return ConductorVerdict(now, False, "")
    if trained is None:
        return ConductorVerdict(
            now, False, "Baton's own conductor isn't here, so no setting is changed."
        )
    if best.score <= trained.score:
        said = "No model plans better here than Baton's own conductor"
        stays = (
            f"; {_UNCHANGED_TEXT.format(one_line(now), 'none')}"
            if now
            else ", which goes on planning"
        )
        return ConductorVerdict(now, False, f"{said}{stays}.")
    name = one_line(best.conductor)
    figures = f"{best.score:.2f} against {trained.score:.2f}"
    said = f"{name} plans better here than Baton's own conductor ({figures})"
    if now == best.conductor:
        return ConductorVerdict(now, False, f"{said}, and conducts already.")
    if now:
        return ConductorVerdict(
            now, False, f"{said}; {_UNCHANGED_TEXT.format(one_line(now), name)}."
        )
    if not whole:
        return ConductorVerdict(
            now, False, f"{said}; only all episodes, without --limit, change who plans."
        )
    if not _is_permanent(best.conductor, baton, paths):
        return ConductorVerdict(
            now, False, f"{said}; with an entry in config.toml it could conduct."
        )
    baton.assign(best.conductor, [ModelRole.CONDUCTOR])
    undo = "`baton models role conductor none` undoes that"
    return ConductorVerdict(best.conductor, True, f"{said} and conducts from now on; {undo}.")


_UNCHANGED_TEXT = (
    "your setting `conductor` stays {}, which `baton models role conductor {}` changes"
)


def _is_permanent(worker: str, baton: Baton, paths: Paths) -> bool:
    """Whether the settings can name a worker: one made of a file's path is gone afterwards."""
    entries = {entry.id for entry in load_settings(paths.config_file).roster}
    return worker in entries | {held.id for held in baton.library.models()}


def _show(
    rows: Sequence[ConductorRow], failures: Sequence[str], verdict: ConductorVerdict, as_json: bool
) -> None:
    for failure in failures:
        notify(failure)
    if as_json:
        return emit_json(
            {
                "schema": SCHEMA,
                "status": "finished" if rows else "failed",
                "rows": list(map(_row_object, rows)),
                "conductor": verdict.conductor,
                "changed": verdict.is_changed,
                "said": verdict.said,
                "failures": list(failures),
            }
        )
    if not rows:
        return notify("Nothing here could conduct.")
    emit(format_columns([_COLUMNS, *map(_cells, rows)]))
    if verdict.said:
        emit(verdict.said)


def _cells(row: ConductorRow) -> list[str]:
    low, high = row.interval
    return [
        one_line(row.conductor, 24) or TRAINED_NAME,
        f"{row.score:.2f}",
        f"{low:.2f}-{high:.2f}",
        *(_share_text(share) for share in (row.valid, row.kept_whole, row.split_right)),
        f"{row.seconds:.2f}",
    ]


def _share_text(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.0f} %"


def _row_object(row: ConductorRow) -> dict[str, Any]:
    """Return a row as `--json` prints it; the names are fixed."""
    low, high = row.interval
    read, written = row.tokens
    return {
        "conductor": row.conductor or None,
        "episodes": len(row.drawn),
        "score": row.score,
        "low": low,
        "high": high,
        "valid": row.valid,
        "kept_whole": row.kept_whole,
        "split_right": row.split_right,
        "seconds": round(row.seconds, 3),
        "tokens_in": read,
        "tokens_out": written,
        "plans": [
            {
                "episode": one.episode.id,
                "score": one.score.points,
                "steps": [step.subtask for step in one.plan.steps] if one.plan else [],
                "problem": one.problem,
                "seconds": round(one.seconds, 3),
            }
            for one in row.drawn
        ],
    }
