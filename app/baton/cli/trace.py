"""`baton trace`: what happened in one run."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Sequence

import click

from baton.cli.completion import complete_run
from baton.cli.history_access import find_run, with_store
from baton.cli.json_output import event_object
from baton.cli.output import emit, emit_json
from baton.cli.resume import resume_hint
from baton.cli.step_text import record_view
from baton.cli.step_tree import FINISH_WORDS, step_texts, step_tree
from baton.core import events as ev
from baton.core.errors import ConfigError
from baton.core.history_types import RunRecord
from baton.core.hold_decision import shown_rounded_up
from baton.core.ledger_types import Egress
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.history import Store

_UNLIMITED_COLUMNS = 10**6
"""How wide lines may be where nobody reads them at a terminal."""

_HANGING_INDENT = " " * 12
"""What continues a line stands under its text, not under its time."""


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--texts", is_flag=True, help="Show what each step wrote, in full.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: every event.")
@click.option("--mermaid", is_flag=True, help="Print a flowchart of the steps for Mermaid.")
@click.option("--otel", is_flag=True, help="Print spans as OpenTelemetry's JSON Lines.")
def trace(run: str | None, texts: bool, as_json: bool, mermaid: bool, otel: bool) -> None:
    """Show what happened in RUN: its id, the beginning of it, or without one the last run.

    \b
      baton trace --texts
      baton trace 3f2a --mermaid > run.mmd
      baton trace 3f2a --otel > run.jsonl       for a collector's otlpjsonfile receiver
    """
    if sum((texts, as_json, mermaid, otel)) > 1:
        raise ConfigError(
            "--texts, --json, --mermaid and --otel exclude each other.", "Choose one."
        )
    record, answer = with_store(lambda store: _find_run(store, run, texts))
    if mermaid:
        from baton.cli.mermaid import flowchart

        emit(flowchart(record_view(record)))
    elif otel:
        from baton.cli.otel import span_lines

        emit("\n".join(span_lines(record)))
    elif as_json:
        emit_json(trace_object(record, _sent_requests(record)))
    else:
        width = (
            shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else _UNLIMITED_COLUMNS
        )
        told = trace_text(record, _sent_requests(record), width)
        emit(f"{told}\n\n{step_texts(record_view(record), answer)}" if texts else told)


async def _find_run(store: Store, named: str | None, with_answer: bool) -> tuple[RunRecord, str]:
    """Return a run and the answer's text, which no event holds where one step wrote it."""
    record = await find_run(store, named)
    if not with_answer:
        return record, ""
    turns = await store.thread(record.conversation, record.answer)
    return record, next((turn.text for turn in turns if turn.id == record.answer), "")


def _sent_requests(record: RunRecord) -> list[Egress]:
    """Return what the run sent, as the egress log has it."""
    if not any(isinstance(event, ev.Sent) for event in record.events):
        return []
    from baton.cli.ledger_access import with_ledger

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


def trace_text(
    record: RunRecord, left: Sequence[Egress] = (), width: int = _UNLIMITED_COLUMNS
) -> str:
    """Write a run's story for a person: its steps, a line for each event, what it all took."""
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
    head = f"Run {record.id} · {started} · {record.status}\nConversation {record.conversation}"
    view = record_view(record)
    steps = ["", *step_tree(view)] if len(view.steps) > 1 else []
    lines = [
        line
        for event in record.events
        for told in _event_lines(event)
        for line in textwrap.wrap(
            f"{event.at:8.2f} s  {told}",
            width,
            subsequent_indent=_HANGING_INDENT,
            break_on_hyphens=False,
        )
    ]
    tokens = sum(call.tokens_in for call in view.calls), sum(call.tokens_out for call in view.calls)
    cost = f", {show_usd(view.cost)}" if view.cost else ""
    total = f"{view.seconds:.1f} s, {tokens[0]:,} tokens read, {tokens[1]:,} written{cost}"
    ways = [way for way in (resume_hint(record.id, view, record.status),) if way]
    return "\n".join([head, *steps, "", *lines, "", total, *_egress_hint(left), *ways])


def _egress_hint(left: Sequence[Egress]) -> list[str]:
    """Say how to see the bytes that left."""
    if not left:
        return []
    numbers = ", ".join(str(one.key) for one in left)
    return [f"What left, byte for byte: `baton egress show N` with N = {numbers}"]


def _event_lines(event: ev.Event) -> list[str]:
    match event:
        case ev.Started():
            return ["prompt stored"]
        case ev.Routed(where=where, why=why, strategy=strategy):
            by = f" (strategy {one_line(strategy)})" if strategy else ""
            return [f"goes {where}{by}: {one_line(why)}"]
        case ev.Planning(worker=worker):
            return [f"{one_line(worker)} is asked for a plan"]
        case ev.Planned():
            return [_planned_text(event)]
        case ev.Offered():
            return [_offer_text(event)]
        case ev.StepStarted(step=step, worker=worker):
            return [f"step {step} given to {one_line(worker)}"]
        case ev.StepRetried(step=step, reason=reason, delay=delay):
            return [f"step {step} tried again in {delay:.0f} s: {one_line(reason)}"]
        case ev.Trimmed(turns=turns):
            return [f"the {turns} oldest turns are left out from here on"]
        case ev.Called():
            return [_call_text(event)]
        case _:
            return _step_event_lines(event)


def _step_event_lines(event: ev.Event) -> list[str]:
    match event:
        case ev.Weighed(worker=worker, ok=ok, why=why):
            verdict = "worth asking" if ok else "not asked"
            return [f"{one_line(worker)} is {verdict}: {one_line(why)}"]
        case ev.Sent(step=step, destination=destination, size=size):
            whose = f"step {step}" if step else "planning"
            return [f"{whose} sent {size:,} bytes to {one_line(destination)}"]
        case ev.StepFinished(step=step, finish=finish):
            end = FINISH_WORDS.get(finish)
            return [f"step {step} done{f' ({end})' if end else ''}"]
        case ev.StepSkipped(step=step, why=why):
            return [f"step {step} left out: {one_line(why)}"]
        case ev.Checked():
            return [_checked_text(event)]
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


def _planned_text(event: ev.Planned) -> str:
    plan = event.plan
    why = f" ({one_line(event.why)})" if event.why else ""
    draft = "" if event.final else "; its answer may still be replaced"
    if len(plan.steps) > 1:
        answer = ", ".join(map(str, plan.answer))
        return f"a plan of {len(plan.steps)} steps, answered by {answer}{draft}{why}"
    [step] = plan.steps
    sees = one_line(", ".join(step.access))
    return (
        f"step 1: {one_line(step.subtask)} By {one_line(step.worker)}, seeing {sees}{draft}.{why}"
    )


def _checked_text(event: ev.Checked) -> str:
    note = f" ({one_line(event.note)})" if event.note else ""
    return f"step {event.step} checked, {one_line(event.what)}: {event.verdict}{note}"


def _call_text(call: ev.Called) -> str:
    step = f"step {call.step} " if call.step else ""
    parts = [
        f"{step}called {one_line(call.worker)} ({call.purpose}): {call.seconds:.2f} s",
        f"read {call.tokens_in:,} tokens ({call.cached:,} known already)",
        f"wrote {call.tokens_out:,}{_expected_text(call)}",
    ]
    if call.loading:
        parts.append(f"loading {call.loading:.2f} s")
    if call.first_token is not None:
        parts.append(f"first word after {call.first_token:.2f} s")
    if not call.confirmed:
        parts.append("ended early or without a plausible count")
    return ", ".join(parts) + _charge_text(call)


def _expected_text(call: ev.Called) -> str:
    return f" (at most {call.expected_tokens:,} expected)" if call.expected_tokens else ""


def _charge_text(call: ev.Called) -> str:
    if call.confirmed:
        return f", {show_usd(call.held)} held and {show_usd(call.cost)} charged" * bool(call.held)
    if not call.cost:
        return ", nothing charged" * bool(call.held)
    return f", {show_usd(call.cost)} unconfirmed (`baton budget release {one_line(call.call)}`)"


_DECISIONS = {
    ev.Decision.SENT: "allowed",
    ev.Decision.KEPT: "you kept what there was",
    ev.Decision.EDIT: "you wanted to change it first",
    ev.Decision.CEILING: "not sent",
    ev.Decision.NEVER: "not sent",
}


def _offer_text(offer: ev.Offered) -> str:
    hidden = f", {one_line(offer.hidden)} hidden" if offer.hidden else ""
    most = f"at most {shown_rounded_up(offer.most)}" if offer.most else "free"
    message = f" ({one_line(offer.message)})" if offer.message else ""
    return (
        f"offered to {one_line(offer.worker)} ({one_line(offer.why)}): {offer.size:,} bytes of"
        f" text{hidden}, {most}; {_DECISIONS[offer.decision]}{message}"
    )
