"""Parts of a run as JSON objects: what the command line prints and the endpoint answers alike."""

from __future__ import annotations

from typing import Any

from baton.core.events import Called, Offered, Routed
from baton.core.hold_decision import overcharge_error
from baton.core.money import format_usd
from baton.core.view import RunView

ASK_AGAIN_HINT = "Ask another worker, or put it differently."
"""What helps where an answer is empty, or ended otherwise than it should."""


MORE_TOKENS_HINT = (
    "`max_output` in the worker's entry (`baton config edit`) allows more, and `cloud.effort` sets"
    " how much a cloud model thinks."
)
"""What helps where the length cap went into thoughts."""

MIN_SUGGESTED_TOKENS = 4096

DEADLINE_HINT = "`--deadline` with more seconds allows more."
"""What helps where the time was up."""


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
    if view.is_all_thoughts and not view.deadline:
        written = max((call.tokens_out for call in view.calls), default=0)
        more = max(2 * written, MIN_SUGGESTED_TOKENS)
        return f"Try `--max-tokens {more}`. {MORE_TOKENS_HINT}"
    return DEADLINE_HINT if view.deadline else ASK_AGAIN_HINT


def overcharge_warnings(view: RunView) -> list[dict[str, str]]:
    """Return the warnings about calls that cost more than was held for them."""
    errors = [
        overcharge_error(call.worker, call.cost, call.held) for call in view.overcharged_calls
    ]
    return [{"kind": "overcharge", "message": e.message, "hint": e.hint} for e in errors]


def route_object(routed: Routed) -> dict[str, Any]:
    """Return where the prompt went, and why; by which strategy ("" in runs of old)."""
    return {
        "where": routed.where,
        "why": routed.why,
        "scores": routed.scores,
        "strategy": routed.strategy,
        "decided_by": routed.decided_by,
    }


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
