"""A request played as a run: who answers, what it may spend, which conversation it goes on with."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from baton.compose import Baton
from baton.core.errors import BatonError, ConfigError
from baton.core.events import Cancelled, Decision, Event, Offered, StepText
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import Message, Prompt, Role
from baton.core.model_roles import STARTER_ID
from baton.core.ports import NEW, ConversationPosition
from baton.core.run.orchestra import Orchestra
from baton.core.run.policy import PromptLimits, RunTerms, may_use, strength
from baton.core.run.run import Run
from baton.core.view import RunView
from baton.history import Store
from baton.server.access import Grant
from baton.server.answer_text import AnswerText
from baton.server.api_errors import ApiError, api_error, error_of_name
from baton.server.client_request import ClientRequest
from baton.server.offered_models import OfferedModel, find_model
from baton.server.tool_calls import with_instructions

MAX_RUNS = 256
"""How many requests may be played or wait for a worker at once."""

MAX_CONVERSATIONS = 1_000
MAX_SERVED = 200
"""How many conversations, and how many requests that are over, are remembered."""


@dataclass(slots=True)
class ServedRun:
    """A request that was taken: for the list of served requests, and for its answer.

    `began` is in seconds since the epoch. `error` is what the client is shown where there is no
    answer. `recorded` is set once it has an id; `is_over` says that nothing of it goes on.
    """

    asked: ClientRequest
    offered: OfferedModel
    began: float = field(default_factory=time.time)
    _view: RunView = field(default_factory=RunView)
    error: ApiError | None = None
    is_over: bool = False
    recorded: asyncio.Event = field(default_factory=asyncio.Event)
    _texts: list[StepText] = field(default_factory=list)

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
    def model(self) -> str:
        """The model that was asked for."""
        return self.asked.model

    @property
    def prompt(self) -> str:
        """What was asked."""
        return self.asked.prompt

    @property
    def failure(self) -> str:
        """Why there is no answer, in a sentence, or ""."""
        return self.error.message if self.error is not None else ""

    @property
    def id(self) -> str:
        """The run's id, "" until it is recorded."""
        return self.view.started.run if self.view.started is not None else ""


class Player:
    """Plays what clients ask, all of them with the same workers, ledger and history.

    `served` are the requests that were taken, the newest last.
    """

    def __init__(self, baton: Baton) -> None:
        self.served: list[ServedRun] = []
        self._baton = baton
        self._running = 0
        self._forgetful: tuple[Orchestra, Store] | None = None
        self._known: OrderedDict[bytes, tuple[str, str]] = OrderedDict()
        self._closing = AsyncExitStack()

    @property
    def orchestra(self) -> Orchestra:
        """What plays."""
        return self._baton.orchestra

    @property
    def store(self) -> Store:
        """The history that requests are kept in."""
        return self._baton.store

    async def begin(self, asked: ClientRequest, grant: Grant) -> ServedRun:
        """Take a request. Raises ApiError where it may not be played."""
        if self._running >= MAX_RUNS:
            raise ApiError(429, "too_many_requests", "Too many requests are being answered.")
        served = ServedRun(asked, find_model(asked.model, self.orchestra.roster))
        self._check_grant(served, grant)
        self.served = [*self.served[-MAX_SERVED:], served]
        return served

    async def play(self, served: ServedRun, grant: Grant) -> AsyncGenerator[str]:
        """Yield a request's answer in pieces; leaving it stops the run.

        However it ends, `served` then has the whole run. Raises ApiError.
        """
        self._running += 1
        try:
            async with await self._run(served, grant) as run:
                text = AnswerText()
                async for event in run:
                    served.apply(event)
                    served.recorded.set()
                    if isinstance(event, Offered):
                        self._check_ceiling(served)
                    if piece := text.feed(event, lambda: served.view):
                        yield piece
            self._conclude(served)
        except BatonError as error:
            served.error = api_error(error)
            raise served.error from error
        except ApiError as error:
            served.error = error
            raise
        finally:
            self._running -= 1
            served.is_over = True
            if served.view.status == "running":
                served.apply(Cancelled(at=served.view.seconds))

    def _conclude(self, served: ServedRun) -> None:
        """Remember the conversation. Raises ApiError where the run has no answer."""
        view = served.view
        if view.failure is not None:
            failure = view.failure
            raise error_of_name(failure.error, failure.message, failure.hint)
        if view.status != "finished" or view.started is None:
            raise ApiError(503, "stopped", "Baton stopped before the answer was there.")
        if served.asked.conditions.is_kept:
            asked = served.asked
            said = (*asked.earlier, Message(Role.USER, asked.prompt))
            key = _key(asked.system, (*said, Message(Role.ASSISTANT, view.answer)))
            self._known[key] = (view.started.conversation, view.started.answer)
            while len(self._known) > MAX_CONVERSATIONS:
                self._known.popitem(last=False)

    def _check_grant(self, served: ServedRun, grant: Grant) -> None:
        """Refuse a worker that costs money to a token that may not spend."""
        if grant is Grant.SPEND or not served.offered.worker:
            return
        card = self.orchestra.worker(served.offered.worker).card
        if not card.is_free:
            raise ApiError(
                403,
                "may_not_spend",
                f"{card.name} costs money, and this token may not spend any.",
                "`baton serve --show-token` shows the one that may.",
                "model",
            )

    @staticmethod
    def _check_ceiling(served: ServedRun) -> None:
        """Stop a strict request that the ceiling stands in the way of. Raises ApiError."""
        if not served.asked.conditions.is_strict:
            return
        refused = [o for o in served.view.offers if o.decision is Decision.CEILING]
        if refused:
            raise ApiError(402, "budget_exceeded", refused[-1].message)

    async def _run(self, served: ServedRun, grant: Grant) -> Run:
        """Return the run of a request, not begun. Raises BatonError."""
        asked, model = served.asked, served.offered
        orchestra = self.orchestra if asked.conditions.is_kept else self._without_history()
        limits, terms = _limits(asked), _terms(orchestra.terms, model, grant)
        worker: str | None = model.worker or None
        if worker is not None:
            limits = replace(limits, alone=True)
        elif asked.tools is not None and model.manner != "ultra":
            worker = self._strongest_here(limits.label, terms)  # a plan can't call them
            limits = replace(limits, strategy="single")
        system = with_instructions(asked.system, asked.tools)
        position = await self._position(asked)
        return orchestra.play(
            Prompt(asked.prompt, system=system), position, limits, worker=worker, terms=terms
        )

    def _strongest_here(self, label: Label, terms: RunTerms) -> str | None:
        """Return the worker on this machine that calls tools best; None: the default one."""
        roster = [card for card in self.orchestra.roster if card.is_local and not card.is_tool]
        usable = [card for card in roster if may_use(card, label, terms)]
        best = max(usable, key=strength, default=None)
        return best.id if best is not None and best.id != STARTER_ID else None

    async def _position(self, asked: ClientRequest) -> ConversationPosition:
        """Return where a request goes: its conversation, if Baton has it, or a new one."""
        if asked.continues:
            record = await self._record(asked.continues)
            return ConversationPosition(record[0], record[1])
        if not asked.earlier:
            return NEW
        known = self._known.get(_key(asked.system, asked.earlier))
        if known is not None and asked.conditions.is_kept:
            return ConversationPosition(*known)
        return ConversationPosition(earlier=asked.earlier)

    async def _record(self, run: str) -> tuple[str, str]:
        """Return the conversation and the answer of an earlier run. Raises ApiError."""
        try:
            record = await self.store.runs.get(run)
        except ConfigError as error:
            message = "There is no such earlier response here."
            raise ApiError(
                404, "response_not_found", message, param="previous_response_id"
            ) from error
        return record.conversation, record.answer

    def _without_history(self) -> Orchestra:
        """Return an orchestra of the same parts that keeps nothing but money on disk."""
        if self._forgetful is None:
            store = Store.open(None)
            self._closing.push_async_callback(store.aclose)
            own = self.orchestra
            made = Orchestra(replace(own.services, store=store), own.default, own.terms)
            self._forgetful = made, store
        made, store = self._forgetful
        own = self.orchestra
        made.configure(default=own.default, workers=own.services.workers)
        return made

    async def aclose(self) -> None:
        """Forget what was kept in memory only."""
        await self._closing.aclose()


def _limits(asked: ClientRequest) -> PromptLimits:
    conditions = asked.conditions
    return PromptLimits(
        Label.LOCAL if conditions.is_private else Label.CLOUD,
        asked.max_tokens,
        asked.temperature,
        asked.seed,
        budget=conditions.budget,
        attended=False,
        keep=conditions.is_kept,
        deadline=conditions.deadline,
        shape=asked.tools.shape() if asked.tools is not None else asked.shape,
        top_p=asked.top_p,
        stop=asked.stop,
    )


def _terms(own: RunTerms, model: OfferedModel, grant: Grant) -> RunTerms:
    """Return what a request may do: never more than the settings allow.

    A token that may spend is the person's yes to it, within the ceilings.
    """
    mode = own.mode if own.mode == "local" else model.manner or own.mode
    if grant is Grant.FREE:
        return replace(own, mode=mode, ceilings={}, policy=Policy.NEVER)
    policy = own.policy if own.policy is Policy.NEVER else Policy.BUDGET
    return replace(own, mode=mode, policy=policy)


def _key(system: str | None, said: tuple[Message, ...]) -> bytes:
    """Return what a conversation is known by: all that was said in it."""
    digest = hashlib.sha256((system or "").encode("utf-8", "replace"))
    for message in said:
        text = message.text.encode("utf-8", "replace")
        digest.update(f"\0{message.role.value}\0{len(text)}\0".encode())
        digest.update(text)
    return digest.digest()
