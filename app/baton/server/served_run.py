"""A request that was taken, its run as far as it is, and its answer for any of the protocols."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baton.core.events import (
    Cancelled,
    Decision,
    Event,
    Failed,
    Finished,
    Planned,
    StepFailed,
    StepFinished,
    StepRetried,
    StepSkipped,
    StepText,
)
from baton.core.labels import Label
from baton.core.messages import Card, Finish
from baton.core.money import format_usd
from baton.core.view import RunView
from baton.presentation.answers import route_object, run_warnings
from baton.presentation.served_requests import ServedRequest
from baton.server.access import Client
from baton.server.api_errors import ApiError
from baton.server.client_request import ClientRequest
from baton.server.offered_models import OfferedModel
from baton.server.request_messages import note_unknown
from baton.server.tool_calls import ToolCall

MAX_SHOWN_CHARS = 50_000
"""A request that is over and larger is not remembered for the list of requests."""


@dataclass(slots=True)
class ServedRun:
    """A request that was taken: for the list of served requests, and for its answer.

    `run` is the id that its run will have ("": any), `label` how far it may travel, `began` in
    seconds since the epoch. `error` is what the client is shown where there is no answer.
    `warnings` are sentences about what isn't as it was asked for. `recorded` is set once it has an
    id; `is_over` says that it has ended, and `is_withdrawn` that it was refused and taken
    out of the history.
    """

    asked: ClientRequest
    client: Client
    offered: OfferedModel
    run: str = ""
    label: Label = Label.CLOUD
    began: float = field(default_factory=time.time)
    _view: RunView = field(default_factory=RunView)
    error: ApiError | None = None
    is_over: bool = False
    is_withdrawn: bool = False
    recorded: asyncio.Event = field(default_factory=asyncio.Event)
    warnings: list[str] = field(init=False)
    _texts: list[StepText] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.warnings = [*self.asked.warnings]

    def lose_call(self, text: str) -> bool:
        """Warn of a text that began like a tool call and is not one; return whether to omit it."""
        if self.view.is_cut:
            warning = (
                "A call of a tool was cut at the most tokens, and left out: allow more of them."
            )
        elif self.asked.tools is not None and self.asked.tools.must_call:
            warning = "A tool had to be called, and the worker wrote something else."
        else:
            return False
        self.warnings.append(warning)
        return self.view.is_cut

    @property
    def view(self) -> RunView:
        """The run as it stands."""
        if self._texts:
            last, whole = self._texts[-1], "".join(one.text for one in self._texts)
            self._texts.clear()
            self._view = self._view.apply(StepText(last.step, whole, at=last.at))
        return self._view

    def apply(self, event: Event) -> None:
        """Take what happened; texts are put together until the view is looked at."""
        if isinstance(event, StepText) and (not self._texts or self._texts[-1].step == event.step):
            self._texts.append(event)
        else:
            self._view = self.view.apply(event)

    @property
    def is_large(self) -> bool:
        """Whether it takes too much room to be remembered."""
        return self.asked.weight >= MAX_SHOWN_CHARS

    @property
    def request(self) -> ServedRequest:
        """What is shown of it, as it stands now."""
        status = self.error.status if self.error is not None else 200 if self.is_over else 0
        return ServedRequest(
            self.client.program,
            "",
            self.asked.model,
            status,
            self.error.message if self.error is not None else "",
            self.asked.prompt,
            self.run,
            self.began,
            self.view,
            self.is_over,
        )

    @property
    def id(self) -> str:
        """The run's id, "" until it is recorded."""
        return self._view.started.run if self._view.started is not None else ""


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


class StreamWriter(ABC):
    """Writes an answer in a protocol's events, while it comes."""

    def begin(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes before the first piece."""
        return []

    @abstractmethod
    def text(self, answer: Answer, piece: str) -> list[dict[str, Any]]:
        """Return a piece of the answer."""

    def call(self, answer: Answer, call: ToolCall) -> list[dict[str, Any]]:
        """Return a call of a tool, of which a protocol may have none."""
        return []

    @abstractmethod
    def end(self, answer: Answer) -> list[dict[str, Any]]:
        """Return what comes after the last piece."""

    def fail(self, answer: Answer, error: ApiError) -> list[dict[str, Any]]:
        """Return what ends a stream that can't be continued."""
        return [error.openai()]


def answer_head(served: ServedRun) -> Answer:
    """Return a request's answer without what is known at its end only."""
    return Answer(served.id, served.asked.model, int(served.began))


def make_answer(
    served: ServedRun, roster: Iterable[Card], text: str, calls: Iterable[ToolCall]
) -> Answer:
    """Return a request's answer as it stands."""
    called, view = tuple(calls), served.view
    cards = {card.id: card for card in roster}
    steps = [view.steps[n - 1] for n in (view.plan.answer if view.plan is not None else ())]
    finish = "tool_calls" if called else "stop"
    if not called and (view.is_cut or view.is_all_thoughts or view.deadline):
        finish = "length"
    elif not called and any(step.finish is Finish.FILTER for step in steps):
        finish = "content_filter"
    return Answer(
        served.id,
        served.asked.model,
        int(served.began),
        text,
        called,
        finish,
        steps[-1].stop if steps else "",
        count_tokens(view, cards, served.asked.max_tokens),
        _report(served, cards),
    )


def _report(served: ServedRun, cards: Mapping[str, Card]) -> dict[str, Any]:
    """Return what happened in a run: who answered, why, and what a user should know of it."""
    view = served.view
    workers = dict.fromkeys(call.worker for call in view.calls)
    remote = [name for name in workers if name in cards and not cards[name].is_local]
    sampled: list[str] = []
    if remote and served.asked.sampling:
        note_unknown([*served.asked.sampling], sampled)
    warnings = [*served.warnings, *sampled]
    ignored = [{"kind": "ignored", "message": message, "hint": ""} for message in warnings]
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


class AnswerText:
    """Turns events into pieces of the answer. What was given is never taken back.

    Of a draft nothing is given, since it may be replaced. A long answer is not copied as a whole
    for each of its pieces: `_part` is the step whose texts are given as they come (0: none).
    """

    def __init__(self) -> None:
        self._given = 0
        self._part = 0
        self._is_part_empty = True

    def feed(self, event: Event, view: Callable[[], RunView]) -> str:
        """Return what an event adds; `view` returns the run with it applied."""
        match event:
            case StepText(step=self._part, text=text) if text:
                piece = ("\n\n" if self._is_part_empty and self._given else "") + text
                self._is_part_empty = False
                self._given += len(piece)
                return piece
            case StepRetried(step=self._part):
                self._is_part_empty = True
            case Planned() | StepFinished() | StepFailed() | StepSkipped():
                now = view()
                answer = now.plan.answer if now.plan is not None and not now.draft else ()
                self._part = next((n for n in answer if not now.steps[n - 1].is_over), 0)
                self._is_part_empty = not (self._part and now.steps[self._part - 1].text)
                return self._rest(now.stable_answer)
            case Finished() | Failed() | Cancelled():
                now = view()
                return self._rest(now.answer if now.status == "finished" else "")
        return ""

    def _rest(self, text: str) -> str:
        rest = text[self._given :]
        self._given += len(rest)
        return rest
