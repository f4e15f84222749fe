"""`baton trace`: what happened in one run."""

from __future__ import annotations

import time
from functools import reduce

import click

from baton.adapters.store import Store
from baton.cli.output import emit, emit_json
from baton.cli.result import event_object
from baton.cli.stored import with_store
from baton.domain import events as ev
from baton.domain.errors import ConfigError
from baton.domain.history import RunRecord
from baton.domain.money import show_usd
from baton.domain.sanitise import one_line
from baton.domain.view import RunView


@click.command()
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def trace(run: str | None, as_json: bool) -> None:
    """Show what happened in RUN: its id, the beginning of it, or without one the last run."""
    record = with_store(lambda store: _record(store, run))
    emit_json(trace_object(record)) if as_json else emit(trace_text(record))


async def _record(store: Store, run: str | None) -> RunRecord:
    if run is not None:
        return await store.run(run)
    if (last := await store.last_run()) is None:
        raise ConfigError("There was no run yet.", '`baton ask "Hello"` makes one.')
    return last


def trace_object(record: RunRecord) -> dict[str, object]:
    """Return a run's events as `trace --json` prints them."""
    return {
        "schema": 1,
        "run_id": record.id,
        "conversation_id": record.conversation,
        "status": record.status,
        "created": record.created,
        "events": [event_object(event) for event in record.events],
    }


def trace_text(record: RunRecord) -> str:
    """Write a run's story for a person: a line for each event, then what it all took."""
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
    head = f"Run {record.id} · {started} · {record.status}\nConversation {record.conversation}"
    lines = [f"{event.at:8.2f} s  {line}" for event in record.events for line in _told(event)]
    view = reduce(RunView.apply, record.events, RunView())
    tokens = sum(call.tokens_in for call in view.calls), sum(call.tokens_out for call in view.calls)
    cost = f", {show_usd(view.cost)}" if view.cost else ""
    total = f"{view.seconds:.1f} s, {tokens[0]:,} tokens read, {tokens[1]:,} written{cost}"
    return "\n".join([head, "", *lines, "", total])


def _told(event: ev.Event) -> list[str]:
    match event:
        case ev.Started():
            return ["prompt stored"]
        case ev.Routed(where=where, why=why):
            return [f"goes {where}: {one_line(why)}"]
        case ev.Planned(plan=plan):
            return [_step(n, s.worker, s.subtask, s.access) for n, s in enumerate(plan.steps, 1)]
        case ev.StepStarted(step=step, worker=worker):
            return [f"step {step} given to {one_line(worker)}"]
        case ev.StepRetried(step=step, reason=reason, delay=delay):
            return [f"step {step} tried again in {delay:.0f} s: {one_line(reason)}"]
        case ev.Trimmed(turns=turns):
            return [f"the {turns} oldest turns are left out from here on"]
        case ev.Called():
            return [_call(event)]
        case ev.StepFinished(step=step, finish=finish):
            return [
                f"step {step} done" + (" (cut at its length cap)" if finish == "length" else "")
            ]
        case _:
            return _end(event)


def _end(event: ev.Event) -> list[str]:
    match event:
        case ev.StepFailed(step=step, message=message):
            return [f"step {step} failed: {one_line(message)}"]
        case ev.Failed(error=error, message=message):
            return [f"failed ({error}): {one_line(message)}"]
        case ev.Cancelled():
            return ["stopped; the text so far was kept"]
        case ev.Finished():
            return ["finished"]
        case _:
            return []


def _step(number: int, worker: str, subtask: str, access: tuple[str, ...]) -> str:
    sees = one_line(", ".join(access))
    return f"step {number}: {one_line(subtask)} By {one_line(worker)}, seeing {sees}."


def _call(call: ev.Called) -> str:
    parts = [
        f"called {one_line(call.worker)} ({call.purpose}): {call.seconds:.2f} s",
        f"read {call.tokens_in:,} tokens ({call.cached:,} known already)",
        f"wrote {call.tokens_out:,}",
    ]
    if call.loading:
        parts.append(f"loading {call.loading:.2f} s")
    if call.first_token is not None:
        parts.append(f"first word after {call.first_token:.2f} s")
    if not call.confirmed:
        parts.append("ended early")
    if call.cost:
        parts.append(show_usd(call.cost))
    return ", ".join(parts)
