"""`baton resume`: continues an interrupted run, or runs a plan that was drawn."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import click

from baton.cli.ask import running_loop
from baton.cli.options import (
    budget_option,
    complete_run,
    events_option,
    json_option,
    no_stream_option,
    offline_option,
    quiet_option,
)
from baton.cli.output import notify
from baton.cli.stores import find_run
from baton.core.errors import ConfigError
from baton.core.money import format_usd, parse_usd
from baton.core.permissions import PromptLimits
from baton.core.sanitiser import one_line
from baton.platform.paths import find_paths
from baton.platform.settings import load_settings
from baton.presentation.run_story import ENDED_STATUSES, has_not_begun, record_view, run_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from baton.cli.prompt_run import OutputOptions
    from baton.compose import Baton
    from baton.core.events import Routed
    from baton.core.history_types import RunRecord
    from baton.history import Store

_MAX_RUNS_SEARCHED = 200
"""How many of the newest runs may be the one that is meant."""


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@offline_option
@budget_option
@json_option
@events_option
@no_stream_option
@quiet_option
def resume(
    run: str | None,
    offline: bool,
    budget: str | None,
    as_json: bool,
    as_events: bool,
    no_stream: bool,
    quiet: bool,
) -> int:
    """Continue an interrupted run, or run a plan that `baton plan` drew.

    What finished steps wrote is kept, and not paid for again. The run's own --offline and --budget
    hold on; what it was charged counts. RUN is the run's id or the beginning
    of it; without one it is the latest that was interrupted or only planned.
    """
    if as_json and as_events:
        raise ConfigError("--json and --events exclude each other.", "Choose one.")
    from baton.cli.prompt_run import OutputOptions

    renderer = "json" if as_json else "events" if as_events else "whole" if no_stream else "text"
    limits = PromptLimits(
        budget=None if budget is None else parse_usd(budget),
        attended=os.isatty(0) and os.isatty(2),
    )
    from baton.compose import compose

    settings = load_settings(find_paths().config_file, flags={"offline": True} if offline else {})
    baton = compose(settings, find_paths())
    with running_loop(baton) as runner:
        return runner.run(
            _resume_run(
                baton, run, OutputOptions(renderer, quiet, has_warnings=settings.warnings), limits
            )
        )


async def _resume_run(
    baton: Baton, named: str | None, options: OutputOptions, limits: PromptLimits
) -> int:
    from baton.cli.prompt_run import show_run
    from baton.core.run.orchestra import routed_as

    record = await _find_resumable(baton.store, named)
    routed = routed_as(record)
    if routed.offline:
        baton.orchestra.go_offline(True)
    for bound in () if options.quiet else _kept_limits(routed, limits):
        notify(f"baton: {bound}")

    if not options.quiet and (named is None or os.isatty(2)):
        title = (await baton.store.conversation(record.conversation)).title
        notify(_opening_line(record, title))
    return await show_run(partial(baton.orchestra.resume, record, limits), options)


def _kept_limits(routed: Routed, limits: PromptLimits) -> Iterator[str]:
    """Say which limits of a run still hold though they weren't typed again."""
    if routed.offline:
        yield "This run began offline, so it continues offline."
    if routed.budget is not None and (limits.budget is None or limits.budget > routed.budget):
        ceiling = f"a ceiling of ${format_usd(routed.budget)}"
        yield f"This run began with {ceiling}, which still holds; ask again to allow more."


def _is_resumable(record: RunRecord) -> bool:
    """Whether a user who names no run may mean this one.

    Not one step that failed, which would fail again, nor what they decided not to send.
    """
    view = record_view(record)
    hopeless = record.status == "failed" and len(view.steps) == 1
    return view.plan is not None and not hopeless and not view.is_withdrawn


def _opening_line(record: RunRecord, title: str) -> str:
    """Say which run is resumed, in the conversation with that title, and from where."""
    view = record_view(record)
    progress = run_progress(view)
    run = f"run {record.id} ({one_line(title, 60)})"
    if not progress:
        return f"Asking again what {run} asked."
    if has_not_begun(view):
        return f"Running the plan of {run}."
    return f"R{run[1:]} was {progress}; continuing."


async def _find_resumable(store: Store, named: str | None) -> RunRecord:
    """Return the run that is meant. Raises ConfigError."""
    if named is not None:
        return await find_run(store, named)
    answered: set[str] = set()
    for listed in await store.runs.newest(_MAX_RUNS_SEARCHED):  # newest first
        if listed.status not in ENDED_STATUSES:
            answered.add(listed.prompt)
        elif listed.prompt not in answered:
            record = await store.runs.get(listed.id)
            if _is_resumable(record):
                return record
    raise ConfigError(
        "No run was interrupted, and no plan waits to be run.",
        '`baton plan "Compare tea and coffee"` draws one.',
    )
