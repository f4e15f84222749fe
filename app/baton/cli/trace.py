"""`baton trace` and `baton why`: what happened in one run, and what made it so."""

from __future__ import annotations

import hashlib
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

import click

from baton import __version__
from baton.cli.json_output import event_object
from baton.cli.options import complete_run
from baton.cli.output import emit, emit_document, iso_time, to_json, wrap_lines
from baton.cli.stores import find_run, format_time, with_ledger, with_store
from baton.core import events as ev
from baton.core.errors import ConfigError
from baton.core.history_types import RunRecord
from baton.core.ledger_types import Egress
from baton.core.money import NANO, format_usd, show_usd
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView
from baton.history import Store
from baton.presentation.answers import route_object
from baton.presentation.plans import plan_tree, subtask_text
from baton.presentation.run_story import (
    event_lines,
    record_view,
    resume_hint,
    run_story,
    step_destination,
    step_facts,
    step_summary,
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

    Ids that programs log work, too: chatcmpl-…, resp_…, msg_…, req_….

    \b
      baton trace --texts
      baton trace 3f2a --otel > run.jsonl       for a collector's otlpjsonfile receiver
    """
    if sum((texts, as_json, otel)) > 1:
        raise ConfigError("--texts, --json and --otel exclude each other.", "Choose one.")
    record, answer = with_store(lambda store: _find_run(store, run, texts))
    if otel:
        emit("\n".join(span_lines(record)))
    elif as_json:
        emit_document(**trace_object(record, _sent_requests(record)))
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
    return record, "".join(turn.text for turn in await store.runs.turns([record.answer]))


def _sent_requests(record: RunRecord) -> list[Egress]:
    """Return what the run sent, as the egress log has it."""
    if not any(isinstance(event, ev.Sent) for event in record.events):
        return []
    return with_ledger(lambda ledger: ledger.egress(record.id))[::-1]


def trace_object(record: RunRecord, left: Sequence[Egress] = ()) -> dict[str, object]:
    """Return a run's events as `trace --json` prints them."""
    return {
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
    """Write a run's story for the user: its steps, a line for each event, what it all took."""
    started = format_time(record.created)
    head = f"Run {record.id} · {started} · {record.status}\nConversation {record.conversation}"
    view = record_view(record)
    steps = ["", *_step_lines(view)] if len(view.steps) > 1 else []
    lines = [
        wrapped
        for event in record.events
        for line in event_lines([event])
        for wrapped in textwrap.wrap(
            f"{event.at:8.2f} s  {line.text}",
            width,
            subsequent_indent=_HANGING_INDENT,
            break_on_hyphens=False,
        )
    ]
    tokens = sum(call.tokens_in for call in view.calls), sum(call.tokens_out for call in view.calls)
    cost = f", {show_usd(view.cost)}" if view.cost else ""
    total = f"{view.seconds:.1f} s, {tokens[0]:,} tokens read, {tokens[1]:,} written{cost}"
    ways = [way for way in (resume_hint(record.id, view),) if way]
    if left:
        numbers = ", ".join(str(one.key) for one in left)
        ways.insert(0, f"What left, byte for byte: `baton egress show N` with N = {numbers}")
    return "\n".join([head, *steps, "", *lines, "", total, *ways])


_TREE_COLUMNS = 20
"""How wide the stems of the tree may be: a terminal has 80 columns."""


def _step_lines(view: RunView) -> list[str]:
    """Return the tree of the steps, with all that is known of each."""
    lines = []
    for branch in plan_tree([step.step for step in view.steps], _TREE_COLUMNS):
        step = view.steps[branch.number - 1]
        lines.append(f"{branch.stem}{step.number} {', '.join(step_summary(step, view))}")
        checks = [line.text for line in event_lines(step.checks)]
        for fact in (subtask_text(step.step), *step_facts(step, view), *checks):
            lines += wrap_lines(fact, f"{branch.below:{len(branch.stem) + 2}}")
    return lines


def step_texts(view: RunView, answer: str) -> str:
    """Return what every step wrote, each under its own heading."""
    parts = []
    for step in view.steps:
        text = step.text or (answer if len(view.steps) == 1 else "")
        if text:
            worker = one_line(step.worker or step.step.worker)
            parts.append(f"--- step {step.number}, {worker} ---\n{text.rstrip()}")
    return "\n\n".join(parts) or "No step wrote anything."


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(run: str | None, as_json: bool) -> None:
    """Say who did what in RUN, and why: its id, the beginning of it, or without one the last run.

    Ids that programs log work, too: chatcmpl-…, resp_…, msg_…, req_….
    `baton trace` shows all of it.
    """
    record = with_store(lambda store: find_run(store, run))
    emit_document(**why_object(record)) if as_json else emit("\n".join(_reasons(record)))


def why_object(record: RunRecord) -> dict[str, object]:
    """Return a run's route as `why --json` prints it."""
    view = record_view(record)
    return {
        "run_id": record.id,
        "status": record.status,
        "route": route_object(view.routed) if view.routed else None,
        "revisions": list(view.revisions),
        "weighed": [_weighed_object(weighed) for weighed in view.weighed],
        "steps": [
            {
                "step": step.number,
                "worker": step.worker,
                "destination": step_destination(step, view),
                "status": step.status,
            }
            for step in view.steps
        ],
        "reasons": _reasons(record),
    }


def _reasons(record: RunRecord) -> list[str]:
    return [line.text for line in run_story(record_view(record), record.id)]


def _weighed_object(weighed: ev.Weighed) -> dict[str, object]:
    fields = asdict(weighed)
    cost = format_usd(fields.pop("cost"))
    return {name: fields[name] for name in ("worker", "gain", "bar", "ok", "why")} | {
        "cost_usd": cost
    }


# As OpenTelemetry writes it


_INTERNAL, _CLIENT = 1, 3
_STATUS_ERROR = 2

Value = str | int | float | tuple[str, ...]

_CALL_ATTRIBUTES: Mapping[str, Callable[[ev.Called], Value | None]] = {
    "gen_ai.operation.name": lambda call: "chat",
    "gen_ai.request.model": lambda call: call.worker,
    "gen_ai.response.model": lambda call: call.other_model or None,
    "gen_ai.usage.input_tokens": lambda call: call.tokens_in,
    "gen_ai.usage.output_tokens": lambda call: call.tokens_out,
    "gen_ai.usage.cache_read.input_tokens": lambda call: call.cached,
    "gen_ai.response.time_to_first_chunk": lambda call: call.first_token,
    "gen_ai.response.finish_reasons": lambda call: call.finish and (call.finish.value,),
    "error.type": lambda call: None if call.confirmed else "ended_early",
}
"""What is reported of a call, by its attribute; one without a value is left out."""


def span_lines(record: RunRecord) -> list[str]:
    """Return the lines: the run's span, then the steps', then the calls'."""
    view = record_view(record)
    steps = [step for step in view.steps if step.began is not None]
    spans = [_run_span(record), *(_step_span(record, step, view.seconds) for step in steps)]
    for number, call in enumerate(view.calls, start=1):
        step = next((step for step in steps if step.number == call.step), None)
        host = "" if step is None else step_destination(step, view)
        spans.append(_call_span(record, number, call, host, parent=_step_key(step)))
    resource = {"attributes": _attribute_list({"service.name": "baton"})}
    scope = {"name": "baton", "version": __version__}
    scopes = [{"scope": scope, "spans": [span]} for span in spans]
    return [to_json({"resourceSpans": [{"resource": resource, "scopeSpans": [s]}]}) for s in scopes]


def _run_span(record: RunRecord) -> dict[str, Any]:
    view = record_view(record)
    attributes: dict[str, Value | None] = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.agent.name": "baton",
        "gen_ai.conversation.id": record.conversation,
        "gen_ai.usage.input_tokens": sum(call.tokens_in for call in view.calls),
        "gen_ai.usage.output_tokens": sum(call.tokens_out for call in view.calls),
    }
    failure = "" if view.failure is None else view.failure.message
    if view.failure is not None:
        attributes["error.type"] = view.failure.error
    elif record.status == "lost":
        failure, attributes["error.type"] = "Baton was ended before the run was.", "lost"
    name = "invoke_workflow baton"
    return _span(record, _step_key(None), name, (0.0, view.seconds), attributes, failure)


def _step_span(record: RunRecord, step: StepView, run_seconds: float) -> dict[str, Any]:
    attributes: dict[str, Value | None] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": step.worker,
        "gen_ai.conversation.id": record.conversation,
    }
    failure = step.why if step.status == "failed" else ""
    if step.status == "failed":
        errors = {e.step: e.error for e in record.events if isinstance(e, ev.StepFailed)}
        attributes["error.type"] = errors.get(step.number, "_OTHER")
    times = step.began or 0.0, run_seconds if step.ended is None else step.ended
    name = f"invoke_agent {step.worker}"
    span = _span(record, _step_key(step), name, times, attributes, failure)
    return span | {"parentSpanId": _span_id(record, _step_key(None))}


def _call_span(
    record: RunRecord, number: int, call: ev.Called, host: str, parent: str
) -> dict[str, Any]:
    attributes: dict[str, Value | None] = {"gen_ai.provider.name": host or "local"}
    attributes |= {name: value_of(call) for name, value_of in _CALL_ATTRIBUTES.items()}
    if host:
        address = urlsplit(f"//{host.partition(' through ')[0]}")
        attributes |= {"server.address": address.hostname or host, "server.port": address.port}
    failure = "" if call.confirmed else "The end of the call, or its count, was not confirmed."
    times = max(0.0, call.at - call.seconds), call.at
    span = _span(record, f"call {number}", f"chat {call.worker}", times, attributes, failure)
    return span | {"parentSpanId": _span_id(record, parent), "kind": _CLIENT}


def _span(
    record: RunRecord,
    key: str,
    name: str,
    times: tuple[float, float],
    attributes: Mapping[str, Value | None],
    failure: str,
) -> dict[str, Any]:
    """Return a span without a parent; `times` are seconds since the run began."""
    began = round(record.created * 1000) * 10**6
    start, end = times[0], max(times)
    return {
        "traceId": hashlib.sha256(record.id.encode()).hexdigest()[:32],
        "spanId": _span_id(record, key),
        "parentSpanId": "",
        "name": name,
        "kind": _INTERNAL,
        # Numbers of 64 bits are text in this JSON.
        "startTimeUnixNano": str(began + round(start * NANO)),
        "endTimeUnixNano": str(began + round(end * NANO)),
        "attributes": _attribute_list(attributes),
        "status": {"code": _STATUS_ERROR, "message": failure} if failure else {},
    }


def _step_key(step: StepView | None) -> str:
    return "run" if step is None else f"step {step.number}"


def _span_id(record: RunRecord, key: str) -> str:
    return hashlib.sha256(f"{record.id} {key}".encode()).hexdigest()[:16]


def _attribute_list(attributes: Mapping[str, Value | None]) -> list[dict[str, Any]]:
    present = {name: value for name, value in attributes.items() if value is not None}
    return [{"key": name, "value": _typed_value(value)} for name, value in present.items()]


def _typed_value(value: Value) -> dict[str, Any]:
    match value:
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
    return {"arrayValue": {"values": [{"stringValue": one} for one in value]}}
