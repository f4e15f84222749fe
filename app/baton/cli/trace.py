"""`baton trace`: what happened in one run."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

import click

from baton.cli.completion import complete_run
from baton.cli.json_output import event_object
from baton.cli.output import emit, emit_json, iso_time, wrap_lines
from baton.cli.stores import find_run, format_time, with_ledger, with_store
from baton.core import events as ev
from baton.core.errors import ConfigError
from baton.core.history_types import RunRecord
from baton.core.hold_decision import shown_rounded_up
from baton.core.ledger_types import Egress
from baton.core.messages import Finish
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView
from baton.history import Store
from baton.presentation.answers import offer_text, weighed_text
from baton.presentation.plans import (
    access_text,
    call_charge,
    call_times,
    call_tokens,
    check_text,
    need_text,
    record_view,
    resume_hint,
    step_place,
    subtask_text,
)

_UNLIMITED_COLUMNS = 10**6
"""How wide lines may be where they don't go to a terminal."""

_HANGING_INDENT = " " * 12
"""What continues a line stands under its text, not under its time."""


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--texts", is_flag=True, help="Show what each step wrote, in full.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: every event.")
@click.option("--otel", is_flag=True, help="Print spans as OpenTelemetry's JSON Lines.")
def trace(run: str | None, texts: bool, as_json: bool, otel: bool) -> None:
    """Show what happened in RUN: its id, the beginning of it, or without one the last run.

    What programs log of it is understood, too: chatcmpl-…, resp_…, msg_…, req_….

    \b
      baton trace --texts
      baton trace 3f2a --otel > run.jsonl       for a collector's otlpjsonfile receiver
    """
    if sum((texts, as_json, otel)) > 1:
        raise ConfigError("--texts, --json and --otel exclude each other.", "Choose one.")
    record, answer = with_store(lambda store: _find_run(store, run, texts))
    if otel:
        from baton.cli.otel import span_lines

        emit("\n".join(span_lines(record)))
    elif as_json:
        emit_json(trace_object(record, _sent_requests(record)))
    else:
        width = (
            shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else _UNLIMITED_COLUMNS
        )
        text = trace_text(record, _sent_requests(record), width)
        emit(f"{text}\n\n{step_texts(record_view(record), answer)}" if texts else text)


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
    return with_ledger(lambda ledger: ledger.egress(record.id))[::-1]


def trace_object(record: RunRecord, left: Sequence[Egress] = ()) -> dict[str, object]:
    """Return a run's events as `trace --json` prints them."""
    return {
        "schema": 1,
        "run_id": record.id,
        "conversation_id": record.conversation,
        "status": record.status,
        "created": iso_time(record.created),
        "events": [event_object(event) for event in record.events],
        "egress": [one.key for one in left],
    }


def trace_text(
    record: RunRecord, left: Sequence[Egress] = (), width: int = _UNLIMITED_COLUMNS
) -> str:
    """Write a run's story for a person: its steps, a line for each event, what it all took."""
    started = format_time(record.created)
    head = f"Run {record.id} · {started} · {record.status}\nConversation {record.conversation}"
    view = record_view(record)
    steps = ["", *step_tree(view)] if len(view.steps) > 1 else []
    lines = [
        line
        for event in record.events
        for text in _event_lines(event)
        for line in textwrap.wrap(
            f"{event.at:8.2f} s  {text}",
            width,
            subsequent_indent=_HANGING_INDENT,
            break_on_hyphens=False,
        )
    ]
    tokens = sum(call.tokens_in for call in view.calls), sum(call.tokens_out for call in view.calls)
    cost = f", {show_usd(view.cost)}" if view.cost else ""
    total = f"{view.seconds:.1f} s, {tokens[0]:,} tokens read, {tokens[1]:,} written{cost}"
    ways = [way for way in (resume_hint(record.id, view),) if way]
    return "\n".join([head, *steps, "", *lines, "", total, *_egress_hint(left), *ways])


def _egress_hint(left: Sequence[Egress]) -> list[str]:
    """Say how to see the bytes that left."""
    if not left:
        return []
    numbers = ", ".join(str(one.key) for one in left)
    return [f"What left, byte for byte: `baton egress show N` with N = {numbers}"]


def _retry_line(event: ev.StepRetried) -> str:
    if not event.reason:
        return f"step {event.step} begins its text again: what came so far were thoughts"
    delay = event.delay
    other = f"goes to {one_line(event.worker)} instead" if event.worker else ""
    how = other or (f"tried again in {delay:.0f} s" if delay else "tried again at once")
    return f"step {event.step} {how}: {one_line(event.reason)}"


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
            return [f"offered: {offer_text(event, event.worker)}"]
        case ev.StepStarted(step=step, worker=worker):
            return [f"step {step} given to {one_line(worker)}"]
        case ev.StepRetried():
            return [_retry_line(event)]
        case ev.Trimmed(turns=turns):
            return [f"the {turns} oldest turns are left out from here on"]
        case ev.Called():
            return [_call_text(event)]
        case _:
            return _step_event_lines(event)


def _step_event_lines(event: ev.Event) -> list[str]:
    match event:
        case ev.StepFinished(step=step, finish=finish):
            end = FINISH_WORDS.get(finish)
            return [f"step {step} done{f' ({end})' if end else ''}"]
        case ev.StepSkipped(step=step, why=why):
            return [f"step {step} left out: {one_line(why)}"]
        case ev.StepFailed(step=step, message=message):
            return [f"step {step} failed: {one_line(message)}"]
        case ev.Failed(error=error, message=message):
            return [f"failed ({error}): {one_line(message)}"]
        case ev.Cancelled():
            return ["stopped; the text so far was kept"]
        case ev.Finished():
            return ["finished"]
        case _:
            return _finding_lines(event)


def _finding_lines(event: ev.Event) -> list[str]:
    """Return the lines of what was weighed, sent, checked and said."""
    match event:
        case ev.Weighed():
            return [weighed_text(event, event.worker)]
        case ev.Sent(step=step, destination=destination, size=size):
            whose = f"step {step}" if step else "planning"
            return [f"{whose} sent {size:,} bytes to {one_line(destination)}"]
        case ev.Unsent(step=step, worker=worker, destination=destination):
            whose = f"step {step}" if step else "planning"
            where = one_line(destination or worker)
            return [f"{whose} had no connection to {where}, so that did not leave"]
        case ev.Checked():
            return [f"step {event.step} checked, {check_text(event)}"]
        case ev.Warned(message=message):
            return [f"said beside the answer: {one_line(message, 400)}"]
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
    sees = access_text(step.access)
    return (
        f"step 1: {one_line(step.subtask)} By {one_line(step.worker)}, seeing {sees}{draft}.{why}"
    )


def _call_text(call: ev.Called) -> str:
    step = f"step {call.step} " if call.step else ""
    expected = f" (at most {call.expected_tokens:,} expected)" if call.expected_tokens else ""
    charge = call_charge(call)
    if call.cost and not call.confirmed:
        charge += f" (`baton budget release {one_line(call.call)}`)"
    parts = [
        f"{step}called {one_line(call.worker)} ({call.purpose})",
        f"{call_tokens(call)}{expected}",
        *call_times(call, 2),
        "" if call.confirmed else "ended early or without a plausible count",
        charge,
    ]
    return ", ".join(filter(None, parts))


_MAX_DEPTH = 6
"""Steps below this depth are not indented further: a terminal has 80 columns."""


def step_tree(view: RunView) -> list[str]:
    """Return the lines of the tree."""
    lines = []
    planning = [call for call in view.calls if call.step == 0]
    for call in planning:
        cost = f", {show_usd(call.cost)}" if call.cost else ""
        lines.append(f"planned by {one_line(call.worker)} in {call.seconds:.1f} s{cost}")
    children: dict[int, list[StepView]] = {}
    for step in view.steps:
        children.setdefault(max(step.step.inputs, default=0), []).append(step)
    return lines + _branches(0, "", 0, children, view)


def _branches(
    parent: int, prefix: str, depth: int, children: dict[int, list[StepView]], view: RunView
) -> list[str]:
    lines: list[str] = []
    below = children.get(parent, [])
    for step in below:
        is_last = step is below[-1]
        lines.append(f"{prefix}{'└─' if is_last else '├─'} {_step_head(step, view)}")
        inner = prefix if depth >= _MAX_DEPTH else prefix + ("   " if is_last else "│  ")
        bar = "│  " if step.number in children and depth < _MAX_DEPTH else "   "
        lines += [line for fact in _step_facts(step) for line in wrap_lines(fact, inner + bar)]
        lines += _branches(step.number, inner, depth + 1, children, view)
    return lines


def _step_head(step: StepView, view: RunView) -> str:
    worker = one_line(step.worker or step.step.worker)
    answers = ", answers" if view.plan is not None and step.number in view.plan.answer else ""
    place = "" if step.began is None else f" {step_place(step, view)},"
    head = f"{step.number} {worker},{place} {_step_status(step)}{answers}"
    calls = [call for call in view.calls if call.step == step.number]
    if not calls:
        return head
    read, wrote = sum(c.tokens_in for c in calls), sum(c.tokens_out for c in calls)
    cost = sum(call.cost for call in calls)
    price = f", {show_usd(cost)}" if cost else ""
    return f"{head}: {read:,} tokens read, {wrote:,} written{price}"


FINISH_WORDS = {
    Finish.LENGTH: "cut at its cap",
    Finish.FILTER: "ended by a content filter",
    Finish.TOOL: "ended in the call of a tool",
    Finish.EMPTY: "empty",
    Finish.THOUGHTS: "cut at its cap in its thoughts, without an answer",
}


def _step_status(step: StepView) -> str:
    status = FINISH_WORDS.get(step.finish, step.status) if step.status == "done" else step.status
    if step.status == "done" and step.began is None:
        return f"{status} before"
    if step.began is None or step.ended is None:
        return status
    return f"{status} in {step.ended - step.began:.1f} s"


def _step_facts(step: StepView) -> list[str]:
    marks = ", optional" * step.step.optional + ", checks" * step.step.check
    planned = step.step.worker
    if planned and step.worker != planned:
        marks += f", in place of {one_line(planned)}"
    need = f"{need_text(step.step.need)}{marks}"
    facts = [subtask_text(step.step), f"{need}; sees {access_text(step.step.access)}"]
    if step.why:
        most = f" (at most {shown_rounded_up(step.most)})" if step.most else ""
        facts.append(one_line(step.why) + most)
    return facts + [f"checked, {check_text(check)}" for check in step.checks]


def step_texts(view: RunView, answer: str) -> str:
    """Return what every step wrote, each under its own heading."""
    parts = []
    for step in view.steps:
        text = step.text or (answer if len(view.steps) == 1 else "")
        if text:
            worker = one_line(step.worker or step.step.worker)
            parts.append(f"--- step {step.number}, {worker} ---\n{text.rstrip()}")
    return "\n\n".join(parts) or "No step wrote anything."
