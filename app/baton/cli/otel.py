"""A run as OpenTelemetry's JSON Lines (OTLP/JSON): a span for the run, each step and each call.

Each line is an export of its own that holds one span, as the OTLP file exporter writes it and the
collector's `otlpjsonfile` receiver reads it. Ids follow from the run's, so that the same run is
always the same trace. The attributes are those of the GenAI conventions 0.1.0
(github.com/open-telemetry/semantic-conventions-genai). No text of a prompt or an answer is in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from baton import __version__
from baton.cli.output import to_json
from baton.core import events as ev
from baton.core.history_types import RunRecord
from baton.core.money import NANO
from baton.core.view import StepView
from baton.presentation.run_story import record_view, step_destination

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
"""What is said of a call, by its attribute; one without a value is left out."""


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
    found = {name: value for name, value in attributes.items() if value is not None}
    return [{"key": name, "value": _typed_value(value)} for name, value in found.items()]


def _typed_value(value: Value) -> dict[str, Any]:
    match value:
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
    return {"arrayValue": {"values": [{"stringValue": one} for one in value]}}
