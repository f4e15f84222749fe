"""An answer with all that is known of it, for any of the protocols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baton.core.events import Decision
from baton.core.labels import Label
from baton.core.messages import Card, Finish
from baton.core.money import format_usd
from baton.core.view import RunView
from baton.presentation.answers import route_object, run_warnings
from baton.server.request_messages import note_unknown
from baton.server.served_run import ServedRun
from baton.server.tool_calls import ToolCall


@dataclass(frozen=True, slots=True)
class TokenCount:
    """What an answer used: tokens, and nano-dollars.

    `read`, `written` and `cached` are those of the calls that made the answer, which a client takes
    for its context; `local`, `cloud` and `cost` those of all calls, planning and checking too.
    """

    read: int = 0
    written: int = 0
    cached: int = 0
    local: int = 0
    cloud: int = 0
    cost: int = 0

    def shares(self) -> dict[str, Any]:
        """Return what the protocols have no fields for."""
        return {
            "cost_usd": format_usd(self.cost),
            "local_tokens": self.local,
            "cloud_tokens": self.cloud,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, or as much of it as there is.

    `finish` is stop, length, content_filter or tool_calls; `stop` is the stop text before which it
    ended, or "". `report` says what happened, and which warnings there are. `created` is in seconds
    since the epoch.
    """

    run: str
    model: str
    created: int
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    stop: str = ""
    usage: TokenCount = field(default_factory=TokenCount)
    report: Mapping[str, Any] = field(default_factory=dict)


def answer_head(served: ServedRun) -> Answer:
    """Return a request's answer without what is known at its end only."""
    return Answer(served.id, served.asked.model, int(served.began))


def make_answer(
    served: ServedRun, roster: Iterable[Card], text: str, calls: Iterable[ToolCall]
) -> Answer:
    """Return a request's answer as it stands."""
    called = tuple(calls)
    cards = {card.id: card for card in roster}
    return Answer(
        served.id,
        served.asked.model,
        int(served.began),
        text,
        called,
        "tool_calls" if called else _finish(served.view),
        _stop(served.view),
        count_tokens(served.view, cards, served.asked.max_tokens),
        _report(served, cards),
    )


def _report(served: ServedRun, cards: Mapping[str, Card]) -> dict[str, Any]:
    """Return what happened in a run: who answered, why, and what a person should know of it."""
    view = served.view
    workers = dict.fromkeys(call.worker for call in view.calls)
    remote = [name for name in workers if name in cards and not cards[name].is_local]
    sampled: list[str] = []
    if remote and served.asked.sampling:
        note_unknown([*served.asked.sampling], sampled)
    said = [*served.warnings, *sampled]
    ignored = [{"kind": "ignored", "message": message, "hint": ""} for message in said]
    refused = [offer for offer in view.offers if offer.decision is Decision.CEILING]
    return {
        "run_id": view.started.run if view.started else None,
        "conversation_id": view.started.conversation if view.started else None,
        "route": route_object(view.routed) if view.routed else None,
        "workers": list(workers),
        "budget_reached": bool(refused),
        "budget_message": refused[-1].message if refused else "",
        "warnings": [*run_warnings(view), *ignored],
    }


def _stop(view: RunView) -> str:
    answer = view.plan.answer if view.plan is not None else ()
    return view.steps[answer[-1] - 1].stop if answer else ""


def _finish(view: RunView) -> str:
    if view.is_cut or view.is_all_thoughts or view.deadline:
        return "length"
    answer = view.plan.answer if view.plan is not None else ()
    is_filtered = any(view.steps[n - 1].finish is Finish.FILTER for n in answer)
    return "content_filter" if is_filtered else "stop"


def count_tokens(view: RunView, cards: Mapping[str, Card], cap: int | None = None) -> TokenCount:
    """Return what a run used; an answer in several steps has no more tokens than its `cap`."""
    steps = view.plan.answer if view.plan is not None else ()
    made = {call.step: call for call in view.calls if call.step in steps}.values()  # the last tries
    written = sum(call.tokens_out for call in made)
    shares = dict.fromkeys(Label, 0)
    for call in view.calls:
        card = cards.get(call.worker)
        shares[card.place if card is not None else Label.LOCAL] += call.tokens_in + call.tokens_out
    return TokenCount(
        sum(call.tokens_in for call in made),
        written if cap is None else min(written, cap),
        sum(call.cached for call in made),
        sum(shares.values()) - shares[Label.CLOUD],
        shares[Label.CLOUD],
        view.cost,
    )
