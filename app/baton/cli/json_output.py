"""What `--json` and `--events` print: fixed, because people script against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from baton.cli.output import SCHEMA, to_json
from baton.core.errors import BatonError
from baton.core.events import Called, Event, Offered, Routed
from baton.core.hold_decision import overcharge_error
from baton.core.money import format_usd
from baton.core.view import RunView, StepView

ASK_AGAIN_HINT = "Ask another worker, or put it differently."
"""What helps where an answer is empty, or ended otherwise than it should."""


DEADLINE_HINT = "`--deadline` with more seconds allows more."
"""What helps where the time was up."""


def run_object(
    view: RunView, error: BatonError | None = None, *, preview: bool = False
) -> dict[str, Any]:
    """Return a run as `--json` prints it; `error` is one that no event reports.

    With `preview`, a plan that nothing was played of is "planned", not "cancelled".
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


def run_warnings(view: RunView) -> list[dict[str, str]]:
    """Return what a person must learn though there may be an answer."""
    lack = {
        "kind": "deadline" if view.deadline else "incomplete",
        "message": view.incomplete_reason,
        "hint": incomplete_hint(view),
    }
    substituted = [
        {"kind": "substituted", "message": said, "hint": "`baton workers test` tries a worker."}
        for said in view.substitutions
    ]
    quality = [{"kind": w.kind, "message": w.message, "hint": w.hint} for w in view.warnings]
    incomplete = [lack] if view.incomplete_reason else []
    return [*overcharge_warnings(view), *substituted, *incomplete, *quality]


def incomplete_hint(view: RunView) -> str:
    """Return what helps where an answer isn't whole."""
    return DEADLINE_HINT if view.deadline else ASK_AGAIN_HINT


def overcharge_warnings(view: RunView) -> list[dict[str, str]]:
    """Return the warnings about calls that cost more than was held for them."""
    errors = [
        overcharge_error(call.worker, call.cost, call.held) for call in view.overcharged_calls
    ]
    return [{"kind": "overcharge", "message": e.message, "hint": e.hint} for e in errors]


def is_only_planned(view: RunView) -> bool:
    """Whether there is a plan of which nothing was played."""
    waiting = all(step.status == "waiting" for step in view.steps)
    return view.plan is not None and waiting and view.status in ("cancelled", "lost")


def route_object(routed: Routed) -> dict[str, Any]:
    """Return where the prompt went, and why; by which strategy ("" in runs of old)."""
    return {
        "where": routed.where,
        "why": routed.why,
        "scores": routed.scores,
        "strategy": routed.strategy,
        "decided_by": routed.decided_by,
    }


def error_object(error: BatonError) -> dict[str, str]:
    """Return an error as `--json` shows it."""
    return {"type": type(error).__name__, "message": error.message, "hint": error.hint}


def call_object(call: Called) -> dict[str, Any]:
    """Return one use of one worker; times in seconds, `first_token_s` from the call on.

    `step` 0 is no step of the plan: the plan itself was drawn, or judged.
    """
    return {
        "step": call.step,
        "worker": call.worker,
        "purpose": call.purpose.value,
        "tokens_in": call.tokens_in,
        "tokens_out": call.tokens_out,
        "cost_usd": format_usd(call.cost),
        "confirmed": call.confirmed,
        "seconds": call.seconds,
        "first_token_s": call.first_token,
    }


def offer_object(offer: Offered) -> dict[str, Any]:
    """Return an offer of remote help: what could have left, at what price at most."""
    return {
        "worker": offer.worker,
        "why": offer.why,
        "most_usd": format_usd(offer.most),
        "bytes": offer.size,
        "hidden": offer.hidden,
        "decision": offer.decision.value,
        "message": offer.message,
        "step": offer.step,
    }


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
