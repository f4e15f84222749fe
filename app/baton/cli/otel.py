"""A run as OpenTelemetry's JSON Lines (OTLP/JSON): a span for the run, each step and each call.

Each line is an export of its own that holds one span, as the OTLP file exporter writes it and the
collector's `otlpjsonfile` receiver reads it. Ids follow from the run's, so that the same run is
always the same trace. No text that anybody wrote is in it but instructions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from baton import __version__
from baton.cli.output import to_json
from baton.core import events as ev
from baton.core.history_types import RunRecord
from baton.core.money import NANO
from baton.core.view import RunView, StepView
from baton.presentation.run_story import record_view, step_destination, step_place

_INTERNAL, _CLIENT = 1, 3
_STATUS_OK, _STATUS_ERROR = 1, 2

Value = str | int | float | bool | tuple[str, ...]


def span_lines(record: RunRecord) -> list[str]:
    """Return the lines, the run's span first."""
    found = _SpanBuilder(record)
    resource = {"attributes": _attributes({"service.name": "baton"})}
    scope = {"name": "baton", "version": __version__}
    return [
        to_json(
            {
                "resourceSpans": [
                    {"resource": resource, "scopeSpans": [{"scope": scope, "spans": [span]}]}
                ]
            }
        )
        for span in found.every_span()
    ]


class _SpanBuilder:
    """The spans of one run."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._view: RunView = record_view(record)

    def every_span(self) -> Iterator[dict[str, Any]]:
        """Give the run's span, then the steps', then the calls'."""
        yield self._run()
        for step in self._view.steps:
            if step.began is not None:
                yield self._step(step)
        for number, call in enumerate(self._view.calls, start=1):
            yield self._call(number, call)

    def _run(self) -> dict[str, Any]:
        record, view = self._record, self._view
        facts: dict[str, Value] = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": "baton",
            "gen_ai.conversation.id": record.conversation,
            "gen_ai.usage.input_tokens": sum(call.tokens_in for call in view.calls),
            "gen_ai.usage.output_tokens": sum(call.tokens_out for call in view.calls),
            "baton.run": record.id,
            "baton.status": record.status,
            "baton.cost_usd": view.cost / NANO,
        }
        if view.routed is not None:
            facts |= {"baton.route": view.routed.where, "baton.route.why": view.routed.why}
            facts["baton.strategy"] = view.routed.strategy
        failure = "" if view.failure is None else view.failure.message
        if view.failure is not None:
            facts["error.type"] = view.failure.error
        elif record.status == "lost":
            failure, facts["error.type"] = "Baton was ended before the run was.", "lost"
        events = (e for e in record.events if isinstance(e, ev.Offered | ev.Weighed))
        return self._span("run", "", "invoke_workflow baton", 0.0, view.seconds, facts, failure) | {
            "events": [self._event(event) for event in events]
        }

    def _step(self, step: StepView) -> dict[str, Any]:
        facts: dict[str, Value] = {
            "baton.step": step.number,
            "baton.worker": step.worker,
            "baton.place": step_place(step, self._view),
            "baton.kind": step.step.need.kind,
            "baton.difficulty": step.step.need.difficulty,
            "baton.subtask": step.step.subtask,
            "baton.access": step.step.access,
            "baton.status": "cut" if step.is_cut else step.status,
        }
        failure = step.why if step.status == "failed" else ""
        if step.status == "failed":
            facts["error.type"] = self._error(step)
        began, ended = step.began or 0.0, step.ended
        name = f"step {step.number} {step.worker}"
        end = self._view.seconds if ended is None else ended
        return self._span(_step_key(step.number), "run", name, began, end, facts, failure) | {
            "events": [
                self._event(event)
                for event in self._record.events
                if isinstance(event, ev.StepRetried | ev.Checked | ev.Sent | ev.Unsent | ev.Warned)
                and event.step == step.number
            ]
        }

    def _call(self, number: int, call: ev.Called) -> dict[str, Any]:
        host = next(
            (step_destination(s, self._view) for s in self._view.steps if s.number == call.step), ""
        )
        facts: dict[str, Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": host or "local",
            "gen_ai.request.model": call.worker,
            "gen_ai.usage.input_tokens": call.tokens_in,
            "gen_ai.usage.output_tokens": call.tokens_out,
            "gen_ai.usage.cache_read.input_tokens": call.cached,
            "baton.purpose": call.purpose.value,
            "baton.cost_usd": call.cost / NANO,
            "baton.confirmed": call.confirmed,
            "baton.loading_s": call.loading,
        }
        if host:
            facts |= _server_attributes(host)
        if call.first_token is not None:
            facts["gen_ai.response.time_to_first_chunk"] = call.first_token
        if call.finish is not None:
            facts["gen_ai.response.finish_reasons"] = (call.finish.value,)
        failure = (
            ""
            if call.confirmed
            else "The worker did not confirm the end of the call, or its count."
        )
        if failure:
            facts["error.type"] = "ended_early"
        known = any(s.number == call.step and s.began is not None for s in self._view.steps)
        parent = _step_key(call.step) if known else "run"
        start = max(0.0, call.at - call.seconds)
        name = f"chat {call.worker}"
        span = self._span(f"call {number}", parent, name, start, call.at, facts, failure)
        return span | {"kind": _CLIENT}

    def _span(
        self,
        key: str,
        parent: str,
        name: str,
        start: float,
        end: float,
        facts: dict[str, Value],
        failure: str,
    ) -> dict[str, Any]:
        status: dict[str, Any] = {"code": _STATUS_OK}
        if failure:
            status = {"code": _STATUS_ERROR, "message": failure}
        return {
            "traceId": hashlib.sha256(self._record.id.encode()).hexdigest()[:32],
            "spanId": self._id(key),
            "parentSpanId": self._id(parent) if parent else "",
            "name": name,
            "kind": _INTERNAL,
            "startTimeUnixNano": self._time(start),
            "endTimeUnixNano": self._time(max(start, end)),
            "attributes": _attributes(facts),
            "status": status,
        }

    def _event(
        self,
        event: ev.Offered
        | ev.Weighed
        | ev.StepRetried
        | ev.Checked
        | ev.Sent
        | ev.Unsent
        | ev.Warned,
    ) -> dict[str, Any]:
        facts: dict[str, Value]
        match event:
            case ev.Offered(worker=worker, why=why, decision=decision, most=most):
                facts = {"worker": worker, "why": why, "decision": decision.value}
                facts["most_usd"] = most / NANO
            case ev.Weighed(worker=worker, why=why, gain=gain, bar=bar, ok=ok):
                facts = {"worker": worker, "why": why, "gain": gain, "bar": bar, "ok": ok}
                facts["cost_usd"] = event.cost / NANO
            case ev.StepRetried(reason=reason, delay=delay):
                facts = {"reason": reason, "delay_s": delay}
            case ev.Checked(what=what, verdict=verdict, note=note):
                facts = {"what": what, "verdict": verdict.value, "note": note}
            case ev.Sent(destination=host, size=size):
                facts = {"destination": host, "bytes": size}
            case ev.Unsent(worker=worker, destination=host):
                facts = {"worker": worker, "destination": host}
            case ev.Warned(kind=kind, message=message):
                facts = {"kind": kind, "message": message}
        return {
            "timeUnixNano": self._time(event.at),
            "name": type(event).__name__,
            "attributes": _attributes({f"baton.{name}": value for name, value in facts.items()}),
        }

    def _error(self, step: StepView) -> str:
        """Return the class name of the error that a step ended with."""
        errors = [
            event.error
            for event in self._record.events
            if isinstance(event, ev.StepFailed) and event.step == step.number
        ]
        return errors[-1] if errors else "_OTHER"

    def _id(self, key: str) -> str:
        return hashlib.sha256(f"{self._record.id} {key}".encode()).hexdigest()[:16]

    def _time(self, at: float) -> str:
        """Return nanoseconds since the epoch; 64-bit numbers are text in this JSON."""
        return str(round(self._record.created * 1000) * 10**6 + round(at * NANO))


def _server_attributes(host: str) -> dict[str, Value]:
    """Return the attributes of an address: a name, with or without a port (and a proxy)."""
    parts = urlsplit(f"//{host.partition(' through ')[0]}")
    port = {"server.port": parts.port} if parts.port else {}
    return {"server.address": parts.hostname or host, **port}


def _step_key(number: int) -> str:
    return f"step {number}"


def _attributes(facts: dict[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _typed_value(value)} for key, value in facts.items()]


def _typed_value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [{"stringValue": one} for one in value]}}
