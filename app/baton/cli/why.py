"""`baton why`: who answered, and what made it so."""

from __future__ import annotations

from typing import Any

import click

from baton.cli.completion import complete_run
from baton.cli.output import emit, emit_json
from baton.cli.stores import find_run, with_store
from baton.core.events import Weighed
from baton.core.history_types import RunRecord
from baton.core.money import format_usd
from baton.core.view import RunView, StepView
from baton.presentation.explanation import run_reasons
from baton.presentation.plans import record_view, step_destination
from baton.presentation.run_objects import route_object


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(run: str | None, as_json: bool) -> None:
    """Say who did what in RUN, and why: its id, the beginning of it, or without one the last run.

    What programs log of it is understood, too: chatcmpl-…, resp_…, msg_…, req_….
    `baton trace` shows all of it.
    """
    record = with_store(lambda store: find_run(store, run))
    emit_json(why_object(record)) if as_json else emit("\n".join(run_reasons(record)))


def why_object(record: RunRecord) -> dict[str, Any]:
    """Return a run's route as `why --json` prints it."""
    view = record_view(record)
    return {
        "schema": 1,
        "run_id": record.id,
        "status": record.status,
        "route": route_object(view.routed) if view.routed else None,
        "revisions": list(view.revisions),
        "weighed": [_weighed_object(weighed) for weighed in view.weighed],
        "steps": [_step_object(step, view) for step in view.steps],
        "reasons": run_reasons(record),
    }


def _step_object(step: StepView, view: RunView) -> dict[str, Any]:
    return {
        "step": step.number,
        "worker": step.worker,
        "destination": step_destination(step, view),
        "status": step.status,
    }


def _weighed_object(weighed: Weighed) -> dict[str, Any]:
    return {
        "worker": weighed.worker,
        "gain": weighed.gain,
        "bar": weighed.bar,
        "cost_usd": format_usd(weighed.cost),
        "ok": weighed.ok,
        "why": weighed.why,
    }
