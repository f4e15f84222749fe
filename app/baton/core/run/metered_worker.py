"""Every worker that anyone is handed is metered: the one gate that every call goes through.

It refuses what may not travel, hides what should not, holds money before a call and settles after
it, and reports what was used; whatever way the call ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from baton.core.errors import BatonError, BudgetExceeded, MoneyHeld
from baton.core.ledger_types import Hold, HoldRequest, Scope
from baton.core.messages import (
    Card,
    Chunk,
    Declined,
    Loading,
    Queued,
    Request,
    RequestSent,
    Text,
    Thinking,
    Usage,
    max_input_tokens,
)
from baton.core.money import FREE, BilledTokens
from baton.core.ports import Ledger, Redactor, Worker
from baton.core.redaction_types import HiddenText, Restorer
from baton.core.run.policy import PromptLimits, RunTerms, check

T = TypeVar("T")

POLL_SECONDS = 0.1
"""How often a call that waits for money looks whether it is its turn."""


@dataclass(slots=True)
class CallUsage:
    """What one call used. Times in seconds, money in nano-dollars.

    `usage` stays None unless the worker truly ended. A worker of this machine's own, which the
    ledger doesn't know, holds and costs nothing.
    """

    worker: str
    request: Request
    tokens_out: int = 0
    seconds: float = 0.0
    first_token: float | None = None
    loading: float = 0.0
    usage: Usage | None = None
    sent: bool = False
    declined: bool = False
    held: int = 0
    cost: int = 0


Record = Callable[[CallUsage], Coroutine[Any, Any, None]]
"""Keeps what a call used."""


@dataclass(frozen=True, slots=True)
class RunBudget:
    """The money of one run, and what else stands between its texts and workers elsewhere.

    `run` and `session` (its conversation) are known once the run is recorded. `root` is the first
    of the runs that this one goes on with, or ""; `is_inherited` is whether the ceiling of an
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

    def bill(self, card: Card, request: Request, share: int = 1) -> HoldRequest:
        """Return what the ledger must know of a call; the request as it will be sent.

        `share` is among how many calls that are about to be made the headroom is divided.
        """
        return HoldRequest(
            run=self.run,
            session=self.session,
            worker=card.id,
            provider=card.provider,
            model=card.model or card.id,
            purpose=request.purpose,
            price=card.price or FREE,  # an unknown one was refused before
            input_bound=max_input_tokens(request.messages, request.shape),
            wanted=min(request.max_tokens or card.max_output, card.max_output),
            ceilings=self.ceilings,
            typed=self.limits.budget is not None,
            share=share,
            keep=self.limits.keep,
            root=self.root,
            is_inherited=self.is_inherited,
            expected=request.expected_tokens,
            thinking=card.thinking,
            patience=self.terms.patience,
        )

    async def redacted(
        self, card: Card, request: Request
    ) -> tuple[Request, tuple[HiddenText, ...]]:
        """Return the request as that worker may see it, and what was hidden in it."""
        if self.redactor is None or not card.uses_gateway or not card.remote:
            return request, ()
        texts = [message.text for message in request.messages]
        redacted = await asyncio.to_thread(self.redactor.redact, texts)
        pairs = zip(request.messages, redacted.texts, strict=True)
        messages = tuple(replace(message, text=text) for message, text in pairs)
        return replace(request, messages=messages), redacted.hidden


class MeteredWorker:
    """A worker behind the gate; `record` hears of every call that was let through.

    `share` tells among how many calls that are about to be made the headroom is divided.
    """

    def __init__(
        self, worker: Worker, purse: RunBudget, record: Record, share: Callable[[], int] = lambda: 1
    ) -> None:
        self._worker = worker
        self._purse = purse
        self._record = record
        self._share = share

    @property
    def card(self) -> Card:
        """The card of the worker inside."""
        return self._worker.card

    def warm(self) -> None:
        """Warm the worker inside."""
        self._worker.warm()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Pass the worker's chunks on, and count them. Raises BudgetExceeded as well."""
        check(self.card, request.label, self._purse.terms)
        tally = CallUsage(self.card.id, request)
        request, hidden = await self._purse.redacted(self.card, request)
        hold: Hold | None = None
        if self.card.uses_gateway:
            turn = HoldTurn(self._purse.ledger, self._purse.bill(self.card, request, self._share()))
            try:
                hold = await turn.take()
                if hold is None:
                    yield Queued()
                    hold = await turn.wait()
            finally:
                await turn.leave()
            tally.held = hold.amount
            request = tally.request = replace(request, max_tokens=hold.cap, call=hold.call)
        start = time.monotonic()
        try:
            async with aclosing(self._restored(request, hidden)) as chunks:
                async for chunk in chunks:
                    _count(tally, chunk, time.monotonic() - start)
                    yield chunk
        finally:
            tally.seconds = time.monotonic() - start
            await uninterrupted(self._close(tally, hold))

    async def aclose(self) -> None:
        """Close the worker inside."""
        await self._worker.aclose()

    async def _restored(
        self, request: Request, hidden: tuple[HiddenText, ...]
    ) -> AsyncGenerator[Chunk]:
        """Put what was hidden back into the answer."""
        restorer = Restorer(hidden)
        try:
            async with aclosing(self._worker.stream(request)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, Text):
                        chunk = replace(chunk, text=restorer.feed(chunk.text))
                    elif isinstance(chunk, Usage) and (rest := restorer.flush()):
                        yield Text(rest, 0)
                    yield chunk
        except BatonError:
            if rest := restorer.flush():
                yield Text(rest, 0)
            raise

    async def _close(self, tally: CallUsage, hold: Hold | None) -> None:
        """Settle what was held, then report the call: the report names what was charged."""
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
        ledger, usage = self._purse.ledger, tally.usage
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


class HoldTurn:
    """One call on its way to its money; whoever takes it must `leave` in the end."""

    def __init__(self, ledger: Ledger, bill: HoldRequest) -> None:
        self._ledger = ledger
        self._bill = bill
        self._ticket = 0

    @property
    def is_waiting(self) -> bool:
        """Whether it is in the line."""
        return bool(self._ticket)

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
        await self.leave()
        try:
            return await self._ledger.hold(self._bill)
        except MoneyHeld as held:  # it was waited for, so it is a refusal like any other
            raise BudgetExceeded(held.message, held.hint) from held

    async def leave(self) -> None:
        """Make way for those behind, if it still waits."""
        ticket, self._ticket = self._ticket, 0
        if ticket:
            await uninterrupted(self._ledger.leave_queue(ticket))

    async def _give_back(self, holding: asyncio.Task[Hold | None]) -> None:
        with suppress(BatonError):  # it was refused, or stays held until this process is gone
            if (hold := await holding) is not None:
                await self._ledger.void(hold.call)


def _count(tally: CallUsage, chunk: Chunk, elapsed: float) -> None:
    match chunk:
        case Loading():
            tally.loading = elapsed
        case Thinking(tokens=tokens):
            tally.tokens_out += tokens
        case Text(tokens=tokens):
            tally.tokens_out += tokens
            if tally.first_token is None:
                tally.first_token = elapsed
        case Usage():
            tally.usage = chunk
            tally.tokens_out = chunk.tokens_out
        case RequestSent():
            tally.sent = True
        case Declined():
            tally.declined = True
        case _:
            pass


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Await work to its end, however often its awaiter is cancelled meanwhile.

    A cancellation that came meanwhile is raised afterwards, unless the work itself failed.
    """
    task = asyncio.create_task(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    result = task.result()
    if cancelled:
        raise asyncio.CancelledError
    return result
