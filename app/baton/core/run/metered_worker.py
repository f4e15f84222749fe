"""The one gate that every call of a worker goes through.

It refuses what may not travel, hides what should not, holds money before a call and settles after
it, and reports what was used, however the call ends.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

from baton.core.aio import uninterrupted
from baton.core.errors import BatonError, BudgetExceeded, MoneyHeld, SettingRefused, WorkerError
from baton.core.events import Called
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.ledger_types import Hold, HoldRequest, Scope
from baton.core.messages import (
    Card,
    Chunk,
    Declined,
    Loading,
    Queued,
    Request,
    RequestSent,
    Retrying,
    Text,
    Thinking,
    Usage,
    max_input_tokens,
)
from baton.core.money import FREE, BilledTokens
from baton.core.permissions import PromptLimits, RunTerms, check
from baton.core.ports import Ledger, Redactor, Worker
from baton.core.stream_filters import HiddenText, Restorer, StopFilter


@dataclass(slots=True)
class CallUsage:
    """What one call used. Times in seconds, money in nano-dollars.

    `usage` stays None unless the worker truly ended. A worker of this machine's own, which the
    ledger doesn't know, holds and costs nothing.
    """

    worker: str
    request: Request
    began: float
    tokens_out: int = 0
    seconds: float = 0.0
    first_token: float | None = None
    loading: float = 0.0
    usage: Usage | None = None
    sent: bool = False
    declined: bool = False
    held: int = 0
    cost: int = 0

    def count(self, chunk: Chunk) -> None:
        """Add what a chunk says that has just come."""
        elapsed = time.monotonic() - self.began
        match chunk:
            case Loading():
                self.loading = elapsed
            case Thinking(tokens=tokens):
                self.tokens_out += tokens
            case Text(tokens=tokens):
                self.tokens_out += tokens
                if tokens and self.first_token is None:
                    self.first_token = elapsed
            case Usage():
                self.usage = chunk
                self.tokens_out = chunk.tokens_out
            case RequestSent():
                self.sent, self.declined = True, False  # a request before it may have been declined
            case Declined():
                self.declined = True
            case _:
                pass

    def event(self, step: int) -> Called:
        """The event that records the call, which belongs to a step (0: to none)."""
        usage = self.usage
        return Called(
            step=step,
            worker=self.worker,
            purpose=self.request.purpose,
            tokens_in=usage.tokens_in if usage else 0,
            tokens_out=self.tokens_out,
            cached=usage.cached if usage else 0,
            context=usage.context if usage else 0,
            cost=self.cost,
            confirmed=usage is not None and usage.is_confirmed,
            seconds=round(self.seconds, 3),
            first_token=None if self.first_token is None else round(self.first_token, 3),
            loading=round(self.loading, 3),
            finish=usage.finish if usage else None,
            held=self.held,
            call=self.request.call,
            expected_tokens=self.request.expected_tokens or 0,
            other_model=usage.other_model if usage else "",
            left_out=usage.left_out if usage else "",
        )


Record = Callable[[CallUsage], Coroutine[Any, Any, None]]
"""Records what a call used."""


@frozen_dataclass
class PreparedCall:
    """A request as its `worker` may see it: permitted, redacted and priced, once for each call.

    `hidden` is what was taken out; `stop` are the texts before which the answer ends, in which
    nothing is hidden. `bill` is None for a worker that the ledger doesn't know.
    """

    worker: str
    request: Request
    stop: tuple[str, ...]
    hidden: tuple[HiddenText, ...] = ()
    bill: HoldRequest | None = None

    def capped(self, tokens: int) -> PreparedCall:
        """The same call with an answer of so many tokens at most."""
        bill = self.bill and replace(self.bill, wanted=min(tokens, self.bill.wanted))
        return replace(self, request=replace(self.request, max_tokens=tokens), bill=bill)


@frozen_dataclass
class RunBudget:
    """The money of one run, and what else stands between its texts and remote workers.

    `run` and `session` (its conversation) are known once the run is recorded. `root` is the first
    of the runs that this one continues, or ""; `is_inherited` is whether the ceiling of an
    earlier one of them is in force, which `limits` holds.
    """

    ledger: Ledger
    redactor: Redactor | None
    terms: RunTerms
    limits: PromptLimits
    run: str = ""
    session: str = ""
    root: str = ""
    is_inherited: bool = False

    @property
    def ceilings(self) -> dict[Scope, int]:
        """The ceilings of the settings, and the run's own."""
        own = {} if self.limits.budget is None else {Scope.RUN: self.limits.budget}
        return {**self.terms.ceilings, **own}

    async def prepare(self, card: Card, request: Request) -> PreparedCall:
        """Check that a worker may see a request, hide in it what should not leave, and price it.

        Raises WorkerError, or BudgetExceeded for a worker without a price.
        """
        check(card, request.label, self.terms)
        request = replace(request, client=self.limits.client)
        if not card.uses_gateway:
            return PreparedCall(card.id, request, request.stop)
        stop, hidden = request.stop, tuple[HiddenText, ...]()
        if self.redactor is not None and card.remote:
            request, hidden = await asyncio.to_thread(redact_request, self.redactor, request)
        return PreparedCall(card.id, request, stop, hidden, self._bill(card, request))

    def _bill(self, card: Card, request: Request) -> HoldRequest:
        return HoldRequest(
            run=self.run,
            session=self.session,
            worker=card.id,
            provider=card.provider,
            model=card.model or card.id,
            purpose=request.purpose,
            price=card.price or FREE,  # `check` refuses an unknown one
            input_bound=max_input_tokens(request.messages, request.shape),
            wanted=min(request.max_tokens or card.max_output, card.max_output),
            ceilings=self.ceilings,
            client=self.limits.client,
            keep=self.limits.keep,
            root=self.root,
            is_inherited=self.is_inherited,
            expected=request.expected_tokens,
            thinking=card.thinking,
            patience=self.terms.patience,
        )

    async def quote(
        self, bill: HoldRequest, share: int = 1
    ) -> tuple[int, int, BudgetExceeded | None]:
        """Return what would be held for a call and its answer's cap, or why it would be refused.

        `share` is among how many calls that are about to be made the headroom is divided.
        """
        try:
            quoted = await self.ledger.quote(replace(bill, share=share))
        except BudgetExceeded as refused:
            return bill.price.max_cost(bill.input_bound, bill.cap), 0, refused
        return quoted.amount, quoted.cap, None


def redact_request(redactor: Redactor, request: Request) -> tuple[Request, tuple[HiddenText, ...]]:
    """Return a request with placeholders in its messages, its schema and its stop texts.

    Of the schema the strings are redacted one by one, names included: it stays JSON.
    """
    original, shape, inner = request.messages, request.shape, list[str]()

    def note(text: str) -> str:
        inner.append(text)
        return text

    schema = None if shape is None else _map_strings(json.loads(shape.schema), note)
    redacted = redactor.redact([*(message.text for message in original), *inner, *request.stop])
    texts = iter(redacted.texts)
    messages = tuple(replace(message, text=next(texts)) for message in original)
    if shape is not None:
        changed = _map_strings(schema, lambda text: next(texts))
        if changed != schema:
            shape = replace(shape, schema=json.dumps(changed, ensure_ascii=False))
    return replace(request, messages=messages, shape=shape, stop=tuple(texts)), redacted.hidden


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with its strings changed, and the names in its objects."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_map_strings(one, change) for one in value]
    if isinstance(value, dict):
        return {change(name): _map_strings(one, change) for name, one in value.items()}
    return value


MAX_REFUSED_SETTINGS = 8
"""How often a call is made in all, with one setting less each time."""


class MeteredWorker:
    """A worker behind the gate; `record` gets every call that was let through.

    `share` returns among how many calls that are about to be made the headroom is divided.
    """

    def __init__(
        self,
        worker: Worker,
        budget: RunBudget,
        record: Record,
        share: Callable[[], int] = lambda: 1,
    ) -> None:
        self._worker = worker
        self._budget = budget
        self._record = record
        self._share = share

    async def stream(self, request: Request | PreparedCall) -> AsyncGenerator[Chunk]:
        """Pass the worker's chunks on, and count them. Raises BudgetExceeded as well.

        A call that was prepared for the user's approval is made as it was prepared. The text ends
        before the first of its stop texts, even where the worker writes on: a paid call that is
        broken off stays charged at all its hold. One of which a setting was refused, at no charge,
        is made once more without it, with a hold of its own.
        """
        call, card = request, self._worker.card
        if isinstance(call, Request):
            call = await self._budget.prepare(card, call)
        if call.worker != card.id:
            raise ValueError(f"a call of {call.worker!r} was handed to {card.id!r}")
        for _ in range(MAX_REFUSED_SETTINGS):
            hold, text = None, _AnswerText(call)
            if call.bill is not None:
                turn = HoldTurn(self._budget.ledger, replace(call.bill, share=self._share()))
                async with aclosing(turn):
                    hold = await turn.take()
                    if hold is None:
                        yield Queued()
                        hold = await turn.wait()
            tally = _begin_usage(call, hold)
            try:
                async with aclosing(self._worker.stream(tally.request)) as chunks:
                    async for chunk in chunks:
                        for shown in text.take(chunk):
                            tally.count(shown)
                            yield shown
                return
            except BatonError as error:
                for rest in text.rest():
                    tally.count(rest)
                    yield rest
                if not isinstance(error, SettingRefused):
                    raise
                reason = error.message
            finally:
                tally.seconds = time.monotonic() - tally.began
                await uninterrupted(self._close(tally, hold))
            yield Retrying(reason, 0.0)
        raise WorkerError(reason, "Nothing was charged. Choose another worker.")

    async def _close(self, tally: CallUsage, hold: Hold | None) -> None:
        """Settle what was held, then record the call: the record names what was charged."""
        try:
            if hold is not None:
                tally.cost = await self._settle(tally, hold)
        except BatonError:
            # It stays held, and is charged once this process is gone.
            tally.cost = tally.held if tally.sent else 0
            if tally.usage is not None:
                tally.usage = replace(tally.usage, is_confirmed=False)
            with suppress(BatonError):
                await self._record(tally)
            raise
        await self._record(tally)

    async def _settle(self, tally: CallUsage, hold: Hold) -> int:
        ledger, usage = self._budget.ledger, tally.usage
        if usage is not None:
            used = BilledTokens(
                usage.tokens_in,
                usage.tokens_out,
                usage.cached,
                usage.cache_written,
                usage.reported,
            )
            if not usage.is_confirmed:
                return await ledger.leave(hold.call, used)
            return await ledger.settle(hold.call, used)
        if tally.sent and not tally.declined:
            return await ledger.leave(hold.call)
        await ledger.void(hold.call)
        return 0


def _begin_usage(call: PreparedCall, hold: Hold | None) -> CallUsage:
    """Return what a call that begins now has used; its answer is capped by what it `hold`s."""
    request, held = call.request, 0
    if hold is not None:
        request, held = replace(request, max_tokens=hold.cap, call=hold.call), hold.amount
    return CallUsage(call.worker, request, time.monotonic(), held=held)


class _AnswerText:
    """A worker's text as the user sees it: restored, and ended before the first stop text."""

    def __init__(self, call: PreparedCall) -> None:
        hidden = call.hidden
        if call.request.shape is not None:  # they are put back into strings of JSON
            quoted = (json.dumps(one.original, ensure_ascii=False)[1:-1] for one in hidden)
            pairs = zip(hidden, quoted, strict=True)
            hidden = tuple(replace(one, original=text) for one, text in pairs)
        self._restorer = Restorer(hidden)
        self._filter = StopFilter(call.stop)

    def take(self, chunk: Chunk) -> Iterator[Chunk]:
        """Yield what a chunk of the worker's makes."""
        if isinstance(chunk, Text):
            yield Text(self._filter.feed(self._restorer.feed(chunk.text)), chunk.tokens)
        elif isinstance(chunk, Usage):
            yield from self.rest()
            yield replace(chunk, stop=self._filter.found or chunk.stop)
        else:
            yield chunk

    def rest(self) -> Iterator[Text]:
        """Yield the end of a text that may have become more than text, and didn't."""
        if rest := self._filter.feed(self._restorer.flush()) + self._filter.flush():
            yield Text(rest, 0)


# Waiting for money that other calls hold


POLL_SECONDS = 0.1
"""How often a call that waits for money asks whether it is its turn."""


class HoldTurn:
    """One call that takes money; call `aclose` in the end, however it went."""

    def __init__(self, ledger: Ledger, bill: HoldRequest) -> None:
        self._ledger = ledger
        self._bill = bill
        self._ticket = 0

    async def take(self) -> Hold | None:
        """Set money aside, or return None while other runs hold it. Raises BudgetExceeded."""
        holding = asyncio.create_task(self._ask())
        try:
            return await asyncio.shield(holding)
        except asyncio.CancelledError:
            # It may be on disk all the same, and nothing will be sent for it.
            await uninterrupted(self._give_back(holding))
            raise

    async def _ask(self) -> Hold | None:
        if not self._bill.patience:
            return await self._ledger.hold(self._bill)
        got = await self._ledger.hold_in_turn(self._bill, self._ticket)
        if isinstance(got, Hold):
            self._ticket = 0
            return got
        self._ticket = got
        return None

    async def wait(self) -> Hold:
        """Wait until the money is set aside. Raises BudgetExceeded once that took too long."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._bill.patience
        while loop.time() < end:
            await asyncio.sleep(POLL_SECONDS)
            if (hold := await self.take()) is not None:
                return hold
        await self.aclose()
        try:
            return await self._ledger.hold(self._bill)
        except MoneyHeld as held:  # it was waited for, so it is a refusal like any other
            raise BudgetExceeded(held.message, held.hint) from held

    async def aclose(self) -> None:
        """Make way for those behind, if it still waits."""
        ticket, self._ticket = self._ticket, 0
        if ticket:
            await uninterrupted(self._ledger.leave_queue(ticket))

    async def _give_back(self, holding: asyncio.Task[Hold | None]) -> None:
        with suppress(BatonError):  # it was refused, or stays held until this process is gone
            if (hold := await holding) is not None:
                await self._ledger.void(hold.call)
