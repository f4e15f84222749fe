"""A remote worker: a provider's model, or one behind an OpenAI-compatible server."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from baton.core.errors import ContextTooLong, SettingRefused, WorkerUnavailable
from baton.core.labels import Label, address_label
from baton.core.messages import (
    ENDPOINTS_PASSED,
    Card,
    Chunk,
    Declined,
    Finish,
    Request,
    RequestSent,
    Retrying,
    Role,
    Text,
    Usage,
    estimated_tokens,
    max_input_tokens,
)
from baton.core.money import FREE, NANO
from baton.core.sanitiser import whole_characters
from baton.ipc.messages import Failed, FrameError
from baton.ipc.process import Call, ChildDied, error_of
from baton.platform.secrets import PROVIDERS
from baton.workers.cloud.address_pool import AddressLease, AddressPool, WorkerAddress
from baton.workers.cloud.messages import (
    AnswerText,
    CallDone,
    CallWorker,
    RequestAnnounced,
    SendRequest,
    TokenCount,
)
from baton.workers.cloud.price_table import is_same_model
from baton.workers.cloud.provider_models import refuse_unasked, unknown_provider

if TYPE_CHECKING:
    from baton.workers.cloud.gateway import Gateway

GRACE_SECONDS = 1.5
"""How long the child may take to stop a call before it is killed."""

MAX_NAMED_ADDRESSES = 3
"""How many of a worker's addresses are named where the user reads where a text goes."""


@dataclass(slots=True)
class CallAttempt:
    """One request of a call, to one of the addresses, and how far it came.

    `may_repeat_sent` is whether another address may get it although this one had it, `asked_with`
    what was learned of its model and is in place, `left_out` that in words.
    """

    lease: AddressLease
    may_repeat_sent: bool
    asked_with: dict[str, str] = field(default_factory=dict)
    left_out: str = ""
    said: str = ""
    was_announced: bool = False
    is_unsent: bool = False
    is_declined: bool = False
    has_failed: bool = False
    tokens: int = 0
    first_text: float = 0.0

    def take(self, piece: AnswerText) -> bool:
        """Add a piece of the answer; return whether it continues what came before."""
        self.said = piece.text if piece.starts_again else self.said + piece.text
        self.first_text = self.first_text or time.monotonic()
        return not piece.starts_again

    @property
    def writing_seconds(self) -> float:
        """How long ago the answer's first text came."""
        return time.monotonic() - self.first_text if self.said else 0.0

    @property
    def may_move(self) -> bool:
        """Whether it may be made at another address: nothing is shown or charged twice."""
        if self.said or not self.has_failed:
            return False
        return self.is_unsent or self.may_repeat_sent


class CloudWorker:
    """Answers through the gateway: a card of kind "cloud" or "server".

    `card.model` is litellm's name for a cloud model and the server's own for another. A cloud
    worker with a `base_url` is asked there, in its provider's dialect. Several `addresses` of a
    server in its place serve the same model: calls are spread over them. `api_key_env` names the
    variable (or the keyring's entry) with its key; without it a cloud worker has its provider's,
    and one with an address none.
    """

    def __init__(
        self,
        card: Card,
        gateway: Gateway,
        *,
        base_url: str = "",
        addresses: Sequence[WorkerAddress] = (),
        api_key_env: str = "",
        temperature: float | None = None,
    ) -> None:
        self._gateway = gateway
        self._temperature = temperature
        provider = PROVIDERS.get(card.provider) if card.kind == "cloud" else None
        there = base_url or (provider.base_url if provider is not None else "")
        self._pool = AddressPool(addresses or [WorkerAddress(there, card.slots, card.remote)])
        self._has_own_address = bool(base_url or addresses)
        self._note = card.note
        self.card = replace(card, address=self._route_text(card))
        # A provider's key goes to its own address, or where the user named its variable.
        own = provider is not None and api_key_env in provider.variables
        self._variable = "" if own else api_key_env
        self._needs_key = bool(api_key_env) or (card.kind == "cloud" and not base_url)
        if self._variable:
            gateway.register(card, self._variable)
        else:
            own_key = provider is not None and self._needs_key
            gateway.register(card, *(provider.variables if provider and own_key else ()))

    def warm(self) -> None:
        """Begin to start the gateway."""
        self._gateway.warm(self.card)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer the request; see core.ports.Worker.

        A request that had no word of an answer goes to another address, if the first one can't have
        cost anything: not a byte of it left, or the worker is free of charge. One that broke off
        without an answer does so once: it may be what brings servers down.
        """
        tried: list[int] = []
        may_repeat_sent = self.card.is_free
        while True:
            lease = await self._pool.take(
                tried,
                offline=self._gateway.offline,
                beginning=_beginning(request),
                continues=any(message.role is Role.ASSISTANT for message in request.messages),
            )
            if lease is None:  # offline, maybe since the first address was tried
                raise self._gateway.offline_error(self.card)
            attempt = CallAttempt(lease, may_repeat_sent)
            try:
                async with aclosing(self._attempt(request, attempt)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                self._pool.record_answer(lease, attempt.tokens, attempt.writing_seconds)
                self._note_failures()
                return
            except WorkerUnavailable as error:
                if attempt.has_failed:
                    self._pool.record_failure(lease)
                    self._note_failures()
                tried.append(lease.number)
                left = set(self._pool.allowed(self._gateway.offline)) - {*tried}
                if not left or not attempt.may_move:
                    if len(tried) == 1:
                        raise
                    raise self._after_others(error, tried) from error
                if not (attempt.is_unsent or attempt.is_declined):
                    may_repeat_sent = False
                reason = error.message
            finally:
                self._pool.release(lease)
            yield Retrying(reason, 0.0)

    def _note_failures(self) -> None:
        """Name in the card's note the addresses that failed when they were last asked."""
        failing = self._pool.failing if len(self._pool.addresses) > 1 else []
        names = ", ".join(urlsplit(each.url).netloc for each in failing)
        note = f"{self._note} Failed when last asked: {names}.".strip() if names else self._note
        if note != self.card.note:
            self.card = replace(self.card, note=note)

    def _after_others(self, error: WorkerUnavailable, tried: Sequence[int]) -> WorkerUnavailable:
        """Return the error of a call's last address, which names those that failed before it."""
        before = ", ".join(urlsplit(self._pool.addresses[n].url).netloc for n in tried[:-1])
        return WorkerUnavailable(f"{error.message} Before it failed: {before}.", error.hint)

    async def _attempt(self, request: Request, attempt: CallAttempt) -> AsyncGenerator[Chunk]:
        """Make one request; `attempt` knows afterwards how far it came."""
        from baton.core.aio import uninterrupted

        call: Call | None = None
        destination = ""
        try:
            call = await self._start_call(request, attempt)
            while True:
                match await call.receive():
                    case RequestAnnounced(host=host, body=body):
                        await self._gateway.record(request.call, host, body)
                        attempt.was_announced, destination = True, host
                        yield RequestSent(host, len(body))
                        call.send(SendRequest())
                    case AnswerText() as piece:
                        if not attempt.take(piece):
                            yield Retrying("", 0.0)
                        yield Text(piece.text, piece.tokens)
                    case CallDone() as done:
                        self._gateway.forgive()
                        self._gateway.learned.confirm(self._asked_as(attempt), attempt.asked_with)
                        usage = self._usage(done, request, attempt)
                        attempt.tokens = usage.tokens_out
                        yield usage
                        return
                    case Failed() as failed:
                        is_unsent = await self._record_failure(failed, request, attempt)
                        if failed.declined:
                            yield Declined(is_unsent, destination)
                        self._learn(failed, attempt)
                        raise error_of(failed)
                    case _:
                        raise call.child.reject()
        except ChildDied as death:
            kept = " What was written is kept." if attempt.said else ""
            message = f"The connection to {self.card.name} crashed. {death}{kept}"
            hint = f"Try again.{self._charged(attempt.was_announced)}"
            raise WorkerUnavailable(message, hint) from death
        finally:
            if call is not None:
                await uninterrupted(call.close(GRACE_SECONDS))

    def _asked_as(self, attempt: CallAttempt) -> str:
        """Return what settings are learned for: its model where an attempt goes, at an effort."""
        where = f"{self.card.model} at {attempt.lease.address.url}"
        return f"{where}, effort {self._gateway.effort}"

    def _learn(self, failed: Failed, attempt: CallAttempt) -> None:
        """Raise SettingRefused if the request may be answered without what was refused."""
        learned, model = self._gateway.learned, self._asked_as(attempt)
        option, value = failed.option, failed.value
        asked_with, lasts = attempt.asked_with, failed.lasts
        if option and learned.try_instead(model, option, value, asked_with, lasts=lasts):
            raise SettingRefused(failed.message, failed.hint)
        learned.give_up(model, attempt.asked_with)

    async def _record_failure(self, failed: Failed, request: Request, attempt: CallAttempt) -> bool:
        """Note how a call failed; return whether what was announced didn't leave."""
        self._gateway.forgive()
        attempt.has_failed, attempt.is_unsent = True, failed.unsent
        attempt.is_declined = failed.declined
        is_unsent = failed.unsent and attempt.was_announced
        if is_unsent:
            await self._gateway.record_unsent(request.call)
        return is_unsent

    def _route_text(self, card: Card) -> str:
        """Return where requests go, and through which proxy: each address, or the first of many."""
        urls = [each.url for each in self._pool.addresses]
        routes = [route for url in urls if (route := self._gateway.route_text(url, card.privacy))]
        if len(routes) > MAX_NAMED_ADDRESSES:
            more = len(routes) - MAX_NAMED_ADDRESSES + 1
            routes = [*routes[: MAX_NAMED_ADDRESSES - 1], f"one of {more} more"]
        return " or ".join(routes)

    async def _start_call(self, request: Request, attempt: CallAttempt) -> Call:
        asked, remote = self._call_message(request, attempt), attempt.lease.address.remote
        try:
            return await self._gateway.call(self.card, asked, remote=remote)
        except FrameError as error:
            texts = [*(message.text for message in request.messages), asked.schema]
            needed = sum(map(estimated_tokens, texts))
            raise ContextTooLong(needed, self.card.context) from error

    async def fault(self) -> str:
        """Say why it can't work now; see core.ports.CheckableWorker."""
        import asyncio

        card = self.card
        provider = PROVIDERS.get(card.provider) if card.kind == "cloud" else None
        if card.kind == "cloud" and provider is None:
            return unknown_provider(card.provider).message
        if self._needs_key:
            own = provider.variables if provider is not None else ()
            variables = (self._variable,) if self._variable else own
            if not await self._gateway.has_key(card.provider, self._variable, variables):
                return f"There is no key for {card.name}."
        urls = [each.url for each in self._pool.addresses] if self._has_own_address else []
        if urls and all(address_label(url) is Label.LOCAL for url in urls):
            heard = await asyncio.gather(*(asyncio.to_thread(_is_listening, url) for url in urls))
            if not any(heard):
                return f"{card.name} can't be reached: nothing listens at {', '.join(urls)}."
        return ""

    async def aclose(self) -> None:
        """Nothing to close: all workers share the gateway."""

    def _charged(self, sent: bool) -> str:
        """Return a sentence about the charge for a call that broke off, or ""."""
        if not sent or (self.card.price or FREE).is_free:
            return ""
        return " All that was held stays charged; `baton budget release` lists it."

    def _call_message(self, request: Request, attempt: CallAttempt) -> CallWorker:
        """Return what the gateway must know. Raises ConfigError."""
        card, patience, lease = self.card, self._gateway.patience, attempt.lease
        cloud = card.kind == "cloud"
        if cloud:
            refuse_unasked(card.model)
        slow = not cloud or card.thinking > 0
        if lease.has_others and attempt.may_repeat_sent:
            slow = False  # another address may be quicker
        temperature = request.temperature
        learned, model = self._gateway.learned, self._asked_as(attempt)
        attempt.asked_with = {option: one.value for option, one in learned.of(model).items()}
        attempt.left_out = learned.text(model)
        return CallWorker(
            who=self._name_at(lease),
            provider=card.provider,
            model=card.model.removeprefix(f"{card.provider}/") if cloud else card.model,
            base_url=lease.address.url,
            variable=self._variable,
            needs_key=self._needs_key,
            through_library=cloud,
            messages=[
                {"role": m.role.value, "content": whole_characters(m.text)}
                for m in request.messages
            ],
            cap=request.max_tokens or card.max_output,
            bound=max_input_tokens(request.messages, request.shape),
            context=card.context,
            connect=patience.connect_of_many if lease.has_others else patience.connect,
            first=patience.first_of_slow if slow else patience.first,
            stall=max(patience.first_of_slow, patience.stall) if slow else patience.stall,
            temperature=self._temperature if temperature is None else temperature,
            top_p=request.top_p,
            seed=request.seed,
            stop=request.stop,
            schema=whole_characters(request.shape.schema) if request.shape else "",
            most=_max_price(card),
            privacy=card.privacy.value,
            via=self._via(lease.address.url),
            learned=attempt.asked_with,
        )

    def _via(self, url: str) -> str:
        """Return through which homes the request came; far addresses learn how many, not which."""
        if not self._has_own_address:
            return ""
        passed, home = ENDPOINTS_PASSED.get(), self._gateway.home
        ids = passed if passed[-1:] == (home,) else (*passed, home)
        return ",".join("-" if address_label(url) is Label.CLOUD else id for id in ids)

    def _name_at(self, lease: AddressLease) -> str:
        """Return what the asked one is called: its provider, or itself, at which address."""
        card = self.card
        if card.kind == "cloud" and not self._has_own_address:
            return PROVIDERS[card.provider].title
        if len(self._pool.addresses) == 1:
            return card.name
        return f"{card.name} at {urlsplit(lease.address.url).netloc}"

    def _usage(self, done: CallDone, request: Request, attempt: CallAttempt) -> Usage:
        """Return what was counted; without a plausible count, the most it can be."""
        price, count = self.card.price, done.usage
        if count is None and price is not None and price.is_free:
            read = sum(estimated_tokens(message.text) for message in request.messages)
            count = TokenCount(read, max(estimated_tokens(attempt.said), done.fewest))
        most = TokenCount(max_input_tokens(request.messages, request.shape), done.bound)
        shown = count or most
        return Usage(
            shown.tokens_in,
            shown.tokens_out,
            Finish(done.finish) if done.finish in set(Finish) else Finish.STOP,
            shown.cached,
            self.card.context,
            shown.cache_written,
            shown.reported,
            is_confirmed=count is not None,
            other_model="" if is_same_model(self.card.model, done.model) else done.model,
            left_out=attempt.left_out,
        )


def _beginning(request: Request) -> str:
    """Return what all calls of a conversation begin with: the system's text and the first prompt.

    A server that answered one of them has it in its cache.
    """
    roles = [message.role for message in request.messages]
    first = roles.index(Role.USER) if Role.USER in roles else 0
    return "\n".join(message.text for message in request.messages[: first + 1])


_CONNECT_SECONDS = 1.0
"""How long a program on this machine may take to take a connection; more says nothing."""


def _is_listening(url: str) -> bool:
    """Whether some program takes connections at an address of this machine."""
    import socket

    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    hosts = ["127.0.0.1", "::1"] if parts.hostname == "localhost" else [parts.hostname or ""]
    for host in hosts:
        try:
            socket.create_connection((host, port), _CONNECT_SECONDS).close()
        except ConnectionError:
            continue
        except OSError:
            return True  # it is busy, or the call finds out more
        return True
    return False


def _max_price(card: Card) -> dict[str, float] | None:
    """Return the highest prices that money was held for, where another provider may answer."""
    if card.provider != "openrouter" or card.price is None:
        return None
    price = card.price
    return {"prompt": price.dearest_input / NANO, "completion": price.dearest_output / NANO}
