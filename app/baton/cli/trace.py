"""`baton trace`: what happened in one run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import reduce

import click

from baton.adapters.store import Store
from baton.cli.output import emit, emit_json
from baton.cli.result import event_object
from baton.cli.stored import with_store
from baton.domain import events as ev
from baton.domain.errors import ConfigError
from baton.domain.history import RunRecord
from baton.domain.ledger import Egress
from baton.domain.money import show_usd
from baton.domain.sanitise import one_line
from baton.domain.spending import at_least
from baton.domain.view import RunView


@click.command()
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def trace(run: str | None, as_json: bool) -> None:
    """Show what happened in RUN: its id, the beginning of it, or without one the last run."""
    record = with_store(lambda store: _record(store, run))
    left = _left(record)
    emit_json(trace_object(record, left)) if as_json else emit(trace_text(record, left))


async def _record(store: Store, run: str | None) -> RunRecord:
    if run is not None:
        return await store.run(run)
    if (last := await store.last_run()) is None:
        raise ConfigError("There was no run yet.", '`baton ask "Hello"` makes one.')
    return last


def _left(record: RunRecord) -> list[Egress]:
    """Return what the run sent, as the egress log has it."""
    if not any(isinstance(event, ev.Sent) for event in record.events):
        return []
    from baton.cli.booked import with_ledger

    return with_ledger(lambda ledger: ledger.egress(record.id))[::-1]


def trace_object(record: RunRecord, left: Sequence[Egress] = ()) -> dict[str, object]:
    """Return a run's events as `trace --json` prints them."""
    return {
        "schema": 1,
        "run_id": record.id,
        "conversation_id": record.conversation,
        "status": record.status,
        "created": record.created,
        "events": [event_object(event) for event in record.events],
        "egress": [one.key for one in left],
    }


def trace_text(record: RunRecord, left: Sequence[Egress] = ()) -> str:
    """Write a run's story for a person: a line for each event, then what it all took."""
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
    head = f"Run {record.id} · {started} · {record.status}\nConversation {record.conversation}"
    lines = [f"{event.at:8.2f} s  {line}" for event in record.events for line in _told(event)]
    view = reduce(RunView.apply, record.events, RunView())
    tokens = sum(call.tokens_in for call in view.calls), sum(call.tokens_out for call in view.calls)
    cost = f", {show_usd(view.cost)}" if view.cost else ""
    total = f"{view.seconds:.1f} s, {tokens[0]:,} tokens read, {tokens[1]:,} written{cost}"
    return "\n".join([head, "", *lines, "", total, *_look_at(left)])


def _look_at(left: Sequence[Egress]) -> list[str]:
    """Say how to see the bytes that left."""
    if not left:
        return []
    numbers = ", ".join(str(one.key) for one in left)
    return [f"What left, byte for byte: `baton egress show N` with N = {numbers}"]


def _told(event: ev.Event) -> list[str]:
    match event:
        case ev.Started():
            return ["prompt stored"]
        case ev.Routed(where=where, why=why):
            return [f"goes {where}: {one_line(why)}"]
        case ev.Planned(plan=plan):
            return [_step(n, s.worker, s.subtask, s.access) for n, s in enumerate(plan.steps, 1)]
        case ev.Offered():
            return [_offer(event)]
        case ev.StepStarted(step=step, worker=worker):
            return [f"step {step} given to {one_line(worker)}"]
        case ev.StepRetried(step=step, reason=reason, delay=delay):
            return [f"step {step} tried again in {delay:.0f} s: {one_line(reason)}"]
        case ev.Trimmed(turns=turns):
            return [f"the {turns} oldest turns are left out from here on"]
        case ev.Called():
            return [_call(event)]
        case _:
            return _end(event)


def _end(event: ev.Event) -> list[str]:
    match event:
        case ev.Sent(step=step, destination=destination, size=size):
            return [f"step {step} sent {size:,} bytes to {one_line(destination)}"]
        case ev.Drafted(step=step, text=text):
            return [f"step {step}'s text is kept as a draft ({len(text):,} characters)"]
        case ev.StepFinished(step=step, finish=finish):
            cut = " (cut at its length cap)" if finish == "length" else ""
            return [f"step {step} done{cut}"]
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
    return ", ".join(parts) + _charged(call)


def _charged(call: ev.Called) -> str:
    if call.confirmed:
        return f", {show_usd(call.held)} held and {show_usd(call.cost)} charged" * bool(call.held)
    if not call.cost:
        return ", nothing charged" * bool(call.held)
    return f", {show_usd(call.cost)} unconfirmed (`baton budget release {one_line(call.call)}`)"


_DECIDED = {
    ev.Decision.SENT: "allowed",
    ev.Decision.KEPT: "you kept what there was",
    ev.Decision.EDIT: "you wanted to change it first",
    ev.Decision.CEILING: "not sent",
    ev.Decision.NEVER: "not sent",
}


def _offer(offer: ev.Offered) -> str:
    hidden = f", {one_line(offer.hidden)} hidden" if offer.hidden else ""
    most = f"at most {at_least(offer.most)}" if offer.most else "free"
    message = f" ({one_line(offer.message)})" if offer.message else ""
    return (
        f"offered to {one_line(offer.worker)} ({one_line(offer.why)}): {offer.size:,} bytes of"
        f" text{hidden}, {most}; {_DECIDED[offer.decision]}{message}"
    )
