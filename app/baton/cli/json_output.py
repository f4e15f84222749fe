"""What `--json` and `--events` print: fixed, because people script against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from baton.cli.output import SCHEMA, to_json
from baton.core.errors import BatonError
from baton.core.events import Called, Event, Offered
from baton.core.money import format_usd
from baton.core.view import RunView, StepView
from baton.presentation.answers import call_object, offer_object, route_object, run_warnings


def run_object(
    view: RunView, error: BatonError | None = None, *, preview: bool = False
) -> dict[str, Any]:
    """Return a run as `--json` prints it; `error` is one that no event reports.

    With `preview`, a plan of which nothing ran is "planned", not "cancelled".
    """
    started, routed, failure = view.started, view.routed, view.failure
    reported: dict[str, str] | None = None
    if error is not None:
        reported = error_object(error)
    elif failure is not None:
        reported = {"type": failure.error, "message": failure.message, "hint": failure.hint}
    status = "planned" if preview and is_only_planned(view) else view.status
    return {
        "schema": SCHEMA,
        "status": "failed" if error is not None else status,
        "error": reported,
        "warnings": run_warnings(view),
        "answer": view.answer,
        "run_id": started.run if started else None,
        "conversation_id": started.conversation if started else None,
        "route": route_object(routed) if routed else None,
        "plan": [_step_object(step, view) for step in view.steps],
        "answer_steps": list(view.plan.answer) if view.plan else [],
        "calls": [call_object(call) for call in view.calls],
        "offers": [offer_object(offer) for offer in view.offers],
        "cost_usd": format_usd(view.cost),
        "held_usd": format_usd(0),  # at a run's end every hold is settled or unconfirmed
        "unconfirmed_usd": format_usd(sum(c.cost for c in view.calls if not c.confirmed)),
    }


def is_only_planned(view: RunView) -> bool:
    """Whether there is a plan of which nothing ran."""
    waiting = all(step.status == "waiting" for step in view.steps)
    return view.plan is not None and waiting and view.status in ("cancelled", "lost")


def error_object(error: BatonError) -> dict[str, str]:
    """Return an error as `--json` shows it."""
    return {"type": type(error).__name__, "message": error.message, "hint": error.hint}


def event_object(event: Event) -> dict[str, Any]:
    """Return one event as `--events` and `trace --json` show it."""
    if isinstance(event, Offered):
        return {"event": "Offered", "at": event.at, **offer_object(event)}
    fields = asdict(event)
    if isinstance(event, Called):
        fields["cost_usd"] = format_usd(fields.pop("cost"))
        fields["held_usd"] = format_usd(fields.pop("held"))
        fields["first_token_s"] = fields.pop("first_token")
    return {"event": type(event).__name__, **fields}


def failure_line(error: BatonError, args: Sequence[str]) -> str:
    """Return what a command with `--json` or `--events` prints when it got nowhere."""
    if "--json" not in args:
        shown = error_object(error)
        failed = {"error": shown["type"], "message": error.message, "hint": error.hint}
        return to_json({"event": "Failed", "at": 0.0, **failed})
    if args[0] in ("ask", "plan", "resume"):
        return to_json(run_object(RunView(), error))
    failed_object = {"schema": SCHEMA, "status": "failed", "error": error_object(error)}
    return to_json(failed_object)


def _step_object(step: StepView, view: RunView) -> dict[str, Any]:
    is_cut = step.is_cut or (view.deadline > 0 and not step.is_over and bool(step.text))
    return {
        "step": step.number,
        "worker": step.worker or step.step.worker,  # who did it, not who was planned
        "need": asdict(step.step.need),
        "subtask": step.step.subtask,
        "access": list(step.step.access),
        "status": "cut" if is_cut else step.status,
        "text": step.text,  # a draft that was replaced is nowhere else in it
    }
