"""Requests run: who answers one, what it may spend, which conversation it continues."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace

from baton.compose import Baton
from baton.core.aio import uninterrupted
from baton.core.catalogue_types import OWN_MODELS_PREFIX, STARTER_ID
from baton.core.errors import BatonError
from baton.core.events import Cancelled, Decision, Failed, Offered
from baton.core.labels import Label, strictest
from baton.core.ledger_types import Policy, Scope
from baton.core.messages import AnswerFormat, Message, Prompt, Request, Role, estimated_tokens
from baton.core.permissions import PromptLimits, RunTerms, may_use
from baton.core.planning.skill_estimates import strength
from baton.core.ports import CountingWorker
from baton.core.run.orchestra import Orchestra
from baton.core.run.run import Run
from baton.core.text_match import ANSWER_CHARS, label_by_sayings, plain_text, said_texts
from baton.history import Store
from baton.server.access import Client, Grant
from baton.server.api_errors import (
    ApiError,
    bad_request,
    failure_error,
    shown_error,
    stopped_error,
    too_long,
)
from baton.server.client_request import ClientRequest
from baton.server.conversation_finder import ConversationFinder
from baton.server.offered_models import EMBEDDING, OfferedModel, find_model, listed_models
from baton.server.served_run import AnswerText, ServedRun
from baton.server.tool_calls import FoundCalls, ToolCallReader

MAX_RUNS = 120
"""How many requests of one access token may run or wait for a worker at once."""

CHARS_PER_TOKEN, MAX_CHARS_PER_TOKEN = 4, 16
"""No tokenizer gets more into a token over a whole prompt: runs of spaces are the longest ones."""

FRAME_TOKENS = 5
"""About how many tokens a chat template puts around a message."""

MAX_SERVED = 200
"""How many requests that are over are remembered."""

MAX_BEGINNING_CHARS = 1_000
"""In so much of an answer its first letters are looked for while it is written."""


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """What the user who serves other programs allows them.

    `budget` is what the token that may spend may cost in all, in nano-dollars (None: no ceiling of
    its own). With `is_private` nothing leaves this machine.
    """

    budget: int | None = None
    is_private: bool = False


AS_CONFIGURED = ServingLimits()
"""What the settings allow."""


class RequestRunner:
    """Runs what clients ask, all of them with the same workers, ledger and history.

    `served` are the requests that were taken, the newest last, `home` is the id of the home that is
    served, `store` the history that requests are kept in. `allowed` is what the user allows
    them besides the settings.
    """

    def __init__(self, baton: Baton, allowed: ServingLimits = AS_CONFIGURED) -> None:
        self.served: list[ServedRun] = []
        self.home = baton.paths.id()
        self.orchestra = baton.orchestra
        self.store = baton.store
        self._aliases = baton.settings.serve.aliases
        self._allowed = allowed
        self._finder = ConversationFinder(baton.store)
        self._running = Counter[str]()
        self._forgetful: tuple[Orchestra, Store] | None = None
        self._unkept = deque[str]()
        self._closing = AsyncExitStack()

    def begin(self, asked: ClientRequest, client: Client, run: str = "") -> ServedRun:
        """Take a request, whose run gets the id `run` ("": any).

        Raises ApiError where it may not be run.
        """
        served = ServedRun(asked, client, self._find_answering(asked.model), run)
        self._check_grant(served)
        self._check_size(served)
        kept = [one for one in self.served if not (one.is_over and one.is_large)]
        self.served = [*kept[-MAX_SERVED:], served]
        return served

    async def count(self, asked: ClientRequest, client: Client) -> int:
        """Return how many tokens a request's prompt has, for the worker that likely answers it.

        Where that can't say without answering, it is an estimate. Raises ApiError.
        """
        served = ServedRun(asked, client, self._find_answering(asked.model))
        self._check_grant(served)
        name = self._named_worker(served, Label.CLOUD, self._terms(served))
        worker = self.orchestra.worker(name)
        system, earlier = asked.instructions, asked.earlier
        if asked.continues:
            record = (await self._finder.earlier_run(asked.continues, client)).record
            thread = await self.store.thread(record.conversation, record.answer)
            earlier = (*(Message(turn.role, turn.text) for turn in thread), *earlier)
            kept = await self.store.conversation(record.conversation)
            system = kept.system if system is None else system
        system = worker.card.system if system is None else system
        first = (Message(Role.SYSTEM, system),) if system else ()
        messages = (*first, *earlier, Message(Role.USER, asked.prompt))
        counted = None
        if isinstance(worker, CountingWorker):
            counted = await worker.count(Request(messages))
        if counted is None:
            counted = await asyncio.to_thread(_estimated_prompt, messages)
        return counted

    @asynccontextmanager
    async def place(self, client: Client) -> AsyncIterator[None]:
        """Take one of the places that a client's requests have. Raises ApiError (429)."""
        self._running[client.id] += 1
        try:
            if self._running[client.id] > MAX_RUNS:
                message = "Too many requests are being answered."
                raise ApiError(429, "too_many_requests", message)
            yield
        finally:
            self._running[client.id] -= 1

    async def run(self, served: ServedRun) -> FoundCalls:
        """Yield a request's answer in pieces, without its tool calls, and those calls.

        Leaving it stops the run. However it ends, `served` then has the whole run. Raises ApiError.
        """
        offer = served.asked.tools
        reader = None if offer is None else ToolCallReader(offer, lambda: served.id)
        try:
            async with self.place(served.client), await self._prepared_run(served) as run:
                text, given, is_marked = AnswerText(), "", False
                async for event in run:
                    served.apply(event)
                    served.recorded.set()
                    if isinstance(event, Offered):
                        self._check_ceiling(served)
                    if piece := text.feed(event, lambda: served.view):
                        if not is_marked:
                            given += piece
                            is_marked = await self._mark_answer(served, given, ANSWER_CHARS)
                        shown, calls = (piece, []) if reader is None else reader.feed(piece)
                        if shown or calls:
                            yield shown, calls
            if not is_marked:
                await self._mark_answer(served, given)
            self._conclude(served)
            if reader is not None:
                shown, calls, lost = reader.finish()
                if lost and not served.lose_call(lost):
                    shown += lost
                if shown or calls:
                    yield shown, calls
        except Exception as error:
            served.error = shown_error(error)
            raise served.error from error
        finally:
            served.is_over = True
            if served.view.status == "running":
                at, why = served.view.seconds, served.error
                failed = Failed("BatonError", why.message, "", at=at) if why is not None else None
                served.apply(failed or Cancelled(at=at))
            await uninterrupted(self._end(served))

    @staticmethod
    def _conclude(served: ServedRun) -> None:
        """Raise ApiError where the run has no answer."""
        view = served.view
        if view.failure is not None:
            error = failure_error(view.failure)
            if error.tokens is not None:
                error = too_long(*error.tokens, served.asked.largest_part)
            raise error
        if view.status != "finished":
            raise stopped_error()

    async def _mark_prompts(self, served: ServedRun) -> None:
        """Have what a private request says recognised by any process, where it isn't kept."""
        asked = served.asked
        if not asked.conditions.is_kept and served.label is not Label.CLOUD:
            texts = [*(message.text for message in asked.earlier), asked.prompt, ""]
            pairs = list(zip(texts[::2], texts[1::2], strict=True))
            await self.store.clients.keep_private_marks(pairs, served.client.id, served.label)

    async def _mark_answer(self, served: ServedRun, answer: str, least: int = 0) -> bool:
        """Have the answer recognised as well, once it has so many letters; return whether."""
        if served.asked.conditions.is_kept or served.label is Label.CLOUD:
            return True
        if len(plain_text(answer[:MAX_BEGINNING_CHARS])) < least:
            return False
        pairs = [(served.asked.prompt, answer)]
        await self.store.clients.keep_private_marks(pairs, served.client.id, served.label)
        return True

    async def _end(self, served: ServedRun) -> None:
        """Remove a request that was refused, and keep only marks of a private one."""
        asked, error = served.asked, served.error
        with suppress(BatonError):
            if served.view.status != "finished":
                await self._mark_answer(served, served.view.answer)
            store = self._orchestra_for(asked)[1]
            if error is not None and error.status < 500 and served.id and not served.view.cost:
                served.is_withdrawn = True  # first, for who asks while it is taken out
                await store.clients.withdraw(served.id)
            elif served.view.started is not None and not asked.conditions.is_kept:
                self._unkept.append(served.view.started.conversation)
                if served.is_large:
                    await store.purge(self._unkept.pop())
                elif len(self._unkept) > MAX_SERVED:
                    await store.purge(self._unkept.popleft())

    def listed_models(self, *, has_encoder: bool) -> list[OfferedModel]:
        """Return the models that clients are shown."""
        return listed_models(self.orchestra.roster, self._aliases, has_encoder=has_encoder)

    def find_model(self, named: str) -> OfferedModel:
        """Return the model that a request names. Raises ApiError."""
        return find_model(named, self.orchestra.roster, self._aliases)

    def _find_answering(self, named: str) -> OfferedModel:
        if (model := self.find_model(named)) is EMBEDDING:
            message = f"{named[:80]!r} only makes vectors."
            raise bad_request(message, "model", "POST /v1/embeddings asks it.")
        return model

    def _check_grant(self, served: ServedRun) -> None:
        """Refuse a worker that costs money, or is in the cloud, to a token that may not spend."""
        if served.client.grant is Grant.SPEND or not served.offered.worker:
            return
        card = self.orchestra.worker(served.offered.worker).card
        if not card.is_free or card.kind == "cloud":
            raise ApiError(
                403,
                "may_not_spend",
                f"{card.name} costs money, and this token may not spend any.",
                "`baton serve --show-token` shows the one that may.",
                "model",
            )

    def _check_size(self, served: ServedRun) -> None:
        """Refuse what no worker could read, before anything is done with it. Raises ApiError."""
        terms, named = self._terms(served), served.offered.worker
        roster = [card for card in self.orchestra.roster if not card.is_tool]
        cards = [card for card in roster if card.id == named or not named]
        contexts = [card.context for card in cards if may_use(card, Label.CLOUD, terms)]
        most, size = max(contexts, default=0), served.asked.size
        if contexts and all(contexts) and size > MAX_CHARS_PER_TOKEN * most:
            raise too_long(size // CHARS_PER_TOKEN, most, served.asked.largest_part)

    @staticmethod
    def _check_ceiling(served: ServedRun) -> None:
        """Stop a strict request that the ceiling stands in the way of. Raises ApiError."""
        if not served.asked.conditions.is_strict:
            return
        refused = [o for o in served.view.offers if o.decision is Decision.CEILING]
        if refused:
            raise ApiError(402, "budget_exceeded", refused[-1].message)

    async def _prepared_run(self, served: ServedRun) -> Run:
        """Return the run of a request, not begun. Raises BatonError."""
        asked, model = served.asked, served.offered
        label = await self._label(served)
        position, kept_label = await self._finder.find(served, label)
        served.label = strictest([kept_label, label])
        await self._mark_prompts(served)
        shape = asked.shape
        if asked.tools is not None:
            shape = await asyncio.to_thread(asked.tools.shape, shape)
        limits, terms = _limits(served, shape), self._terms(served)
        worker = self._named_worker(served, limits.label, terms)
        if model.worker:
            limits = replace(limits, alone=True)
        elif _must_call(served):
            limits = replace(limits, strategy="single")
        return self._orchestra_for(asked)[0].run(
            Prompt(asked.prompt, system=await self._finder.system(asked, position)),
            replace(position, run=served.run),
            limits,
            worker=worker,
            terms=terms,
        )

    def _named_worker(self, served: ServedRun, label: Label, terms: RunTerms) -> str | None:
        """Return the worker that has to answer a request; None: the default one, or others."""
        if not _must_call(served):
            return served.offered.worker or None
        # The one on this machine that calls tools best.
        roster = [card for card in self.orchestra.roster if card.is_local and not card.is_tool]
        usable = [card for card in roster if may_use(card, label, terms)]
        best = max(usable, key=strength, default=None)
        return best.id if best is not None and best.id != STARTER_ID else None

    async def _label(self, served: ServedRun) -> Label:
        """Return how far a request may travel: by its token, its conditions, what it brings back.

        Raises ApiError where it names a worker that may not see what was sent privately before.
        """
        client, named = served.client, served.offered.worker
        is_private = client.grant is Grant.PRIVATE or self._allowed.is_private
        if is_private or served.asked.conditions.is_private:
            return Label.LOCAL
        asked = served.asked
        schema = asked.shape.schema if asked.shape is not None else ""
        beside = (asked.instructions or "", schema, *asked.stop)
        own = [Message(Role.SYSTEM, text) for text in beside]
        turns = [*asked.earlier, Message(Role.USER, asked.prompt)]
        if asked.continues:
            record = (await self._finder.earlier_run(asked.continues, client)).record
            thread = await self.store.thread(record.conversation, record.answer)
            turns[:0] = (Message(turn.role, turn.text) for turn in thread)
        texts = await asyncio.to_thread(said_texts, asked.messages, turns, own)
        stores = [self.store, *([self._forgetful[1]] if self._forgetful is not None else [])]
        sayings = [saying for store in stores for saying in await store.clients.sayings(texts)]
        label = label_by_sayings(sayings, client.id)
        if named and not label.allows(self.orchestra.worker(named).card.privacy):
            raise ApiError(
                400,
                "private",
                f"This repeats what was sent privately before, and {named} may not see that.",
                f"{OWN_MODELS_PREFIX}local may.",
            )
        return label

    def _orchestra_for(self, asked: ClientRequest) -> tuple[Orchestra, Store]:
        """Return what runs a request, and where it is kept: on disk, or in memory for now."""
        own = self.orchestra
        if asked.conditions.is_kept:
            return own, self.store
        if self._forgetful is None:
            store = Store(None)
            self._closing.push_async_callback(store.aclose)
            made = Orchestra(replace(own.services, store=store), own.default, own.terms)
            self._forgetful = made, store
        self._forgetful[0].configure(default=own.default, workers=own.services.workers)
        return self._forgetful

    def _terms(self, served: ServedRun) -> RunTerms:
        """Return what a request may do: never more than the settings allow.

        A token that may spend is the user's yes to it, within the ceilings. To a program, private
        means that it stays on this machine, even where the `privacy` of a remote server is local.
        """
        own = replace(self.orchestra.terms, has_private_remotes=False)
        model, grant = served.offered, served.client.grant
        mode = own.mode if own.mode == "local" else model.mode or own.mode
        if grant is not Grant.SPEND:
            return replace(own, mode=mode, ceilings={}, policy=Policy.NEVER, is_free=True)
        policy = own.policy if own.policy is Policy.NEVER else Policy.BUDGET
        budget = self._allowed.budget
        token = {} if budget is None else {Scope.TOKEN: budget}
        return replace(own, mode=mode, policy=policy, ceilings={**own.ceilings, **token})

    async def aclose(self) -> None:
        """Forget what was kept in memory only."""
        await self._closing.aclose()


def _estimated_prompt(messages: Sequence[Message]) -> int:
    """Return about how many tokens a prompt of these messages has."""
    texts = sum(estimated_tokens(message.text) for message in messages)
    return texts + FRAME_TOKENS * (len(messages) + 1)


def _must_call(served: ServedRun) -> bool:
    """Whether one worker answers because tools may be called, which a plan can't."""
    model = served.offered
    return served.asked.tools is not None and not model.worker and model.mode != "ultra"


def _limits(served: ServedRun, shape: AnswerFormat | None) -> PromptLimits:
    asked = served.asked
    conditions = asked.conditions
    return PromptLimits(
        served.label,
        asked.max_tokens,
        asked.temperature,
        asked.seed,
        budget=conditions.budget,
        attended=False,
        keep=conditions.is_kept,
        deadline=conditions.deadline,
        shape=shape,
        top_p=asked.top_p,
        stop=asked.stop,
        client=served.client.id,
        sampling=asked.sampling,
    )
