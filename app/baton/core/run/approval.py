"""Before something leaves: what it is, what it can cost, and who decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from baton.core.errors import StoreError
from baton.core.events import Decision, Event, Offered
from baton.core.ledger_types import Policy, Standing
from baton.core.messages import Card, Message, Role
from baton.core.permissions import must_ask
from baton.core.ports import Ask, CallOffer, Choice, Question, RecordedRun, Store
from baton.core.run.metered_worker import PreparedCall, RunBudget
from baton.core.stream_filters import RedactedTexts

KEEP, ONCE, CONVERSATION, EDIT = "keep", "once", "conversation", "edit"
"""The ids of the choices."""

_ALLOW = (
    "--budget 0.05 (for example) allows it for one prompt, `baton budget set policy budget` always."
)
_SPEAKERS = {Role.SYSTEM: "Instructions", Role.USER: "You", Role.ASSISTANT: "Baton"}


class PromptWithdrawn(Exception):
    """The user decided not to send the prompt after all."""


class Approval:
    """Has the calls of one run approved, one after the other.

    It knows which steps are about to hold money: they share what is left.
    """

    def __init__(
        self,
        budget: RunBudget,
        store: Store,
        recorded: RecordedRun,
        ask: Ask,
        emit: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._budget = budget
        self._store = store
        self._session = recorded.conversation
        self._policy = recorded.policy
        self._ask = ask
        self._emit = emit
        self._lock = asyncio.Lock()
        self._waiting: set[int] = set()

    @property
    def policy(self) -> Policy:
        """When this run may spend."""
        if self._budget.terms.policy is Policy.NEVER:
            return Policy.NEVER  # what a conversation was once allowed doesn't outlive it
        return self._policy or self._budget.terms.policy

    def expect(self, steps: Iterable[int]) -> None:
        """Let steps that are about to hold money share what is left."""
        self._waiting.update(steps)

    def forget(self, step: int) -> None:
        """Let a step that needs no money any more have no share."""
        self._waiting.discard(step)

    def take_share(self, step: int) -> int:
        """Return among how many steps the headroom is divided; this one holds its part now."""
        count = len(self._waiting | {step})
        self._waiting.discard(step)
        return count

    async def ask_for(
        self,
        card: Card,
        call: PreparedCall,
        why: str,
        *,
        step: int = 0,
        draft: Callable[[], str] = str,
        keep: str = "",
        named: bool = False,
        expected: int | None = None,
    ) -> tuple[Offered, PreparedCall]:
        """Offer a worker's help; return what became of that, and the call as it was approved.

        The answer is capped as the price says: a longer one could cost more than the user saw.
        A `step` has a share in what is left. `named` is whether the user chose that worker, and
        no plan did; `keep` is what not sending it is called, `expected` what the call likely costs
        in nano-dollars. A ledger that can't be read leaves the draft that is there; without one,
        raises StoreError.
        """
        async with self._lock:
            text = draft()
            try:
                hidden = RedactedTexts((), call.hidden).summary()
                written, own = written_parts(call.request.messages)
                shown = CallOffer(
                    card, why, written, hidden, 0, None, "", text, keep, own, expected
                )
                offered, cap = await self._offer(shown, call, step, named)
            except StoreError as error:
                if not text:
                    raise
                offered, cap = Offered(card.id, why, 0, 0, "", Decision.NEVER, str(error), step), 0
            if offered.decision is not Decision.SENT:
                self.forget(step)
            # Within the lock: a user who takes the prompt back isn't asked about the next step.
            await self._emit(offered)
        return offered, call.capped(cap)

    async def _offer(
        self, shown: CallOffer, call: PreparedCall, step: int, named: bool
    ) -> tuple[Offered, int]:
        assert call.bill is not None, "what stays on this machine needs no approval"
        card, messages = shown.card, call.request.messages
        size = sum(len(message.text.encode("utf-8", "replace")) for message in messages)
        share = len(self._waiting | {step}) if step else 1
        most, cap, refused = await self._budget.quote(call.bill, share)
        decision, message = Decision.SENT, ""
        if refused is not None:
            decision, message = Decision.CEILING, str(refused)
        elif not card.is_free or not (card.is_local or named):
            # The user must agree to spending, and to what leaves without their asking.
            decision, message = await self._decide(replace(shown, most=most))
        return Offered(card.id, shown.why, most, size, shown.hidden, decision, message, step), cap

    async def _decide(self, offer: CallOffer) -> tuple[Decision, str]:
        policy, budget = self.policy, self._budget
        ask = must_ask(policy, budget.limits)
        if ask is False and offer.card.kind == "cloud" and offer.card.is_free:
            # Without a ceiling the cloud is off: that a model is free allows nothing unasked.
            standing = await budget.ledger.standing(budget.terms.ceilings, self._session)
            is_allowed = budget.limits.is_budget_typed or self._policy is Policy.BUDGET
            if not (standing.is_cloud_on or is_allowed):
                ask = True if budget.limits.attended else None
        if ask is None:
            reason, remedy = "you couldn't be asked", _ALLOW
            if policy is Policy.NEVER:
                reason, remedy = "the policy is never to spend", "`baton budget set policy ask`."
            return Decision.NEVER, f"{offer.card.name} was not asked: {reason}. {remedy}"
        return (await self._ask_person(offer, policy) if ask else Decision.SENT), ""

    async def _ask_person(self, offer: CallOffer, policy: Policy) -> Decision:
        budget = self._budget
        standing = await budget.ledger.standing(budget.terms.ceilings, self._session)
        choice = await self._ask(question(offer, standing))
        if choice == CONVERSATION or (choice == ONCE and policy is Policy.ONCE):
            await self._store.allow(self._session, Policy.BUDGET)
            self._policy = Policy.BUDGET
        if choice in (ONCE, CONVERSATION):
            return Decision.SENT
        return Decision.EDIT if choice == EDIT else Decision.KEPT


def question(offer: CallOffer, standing: Standing) -> Question:
    """Return the question that puts an offer to the user; the safe choice comes first."""
    room = standing.tightest
    left, scope = (room.left, room.scope.value) if room is not None else (None, "")
    shown = replace(offer, left=left, scope=scope)
    keep = offer.keep or ("Keep the local answer" if offer.draft else "Don't send")
    choices = (
        Choice(KEEP, keep),
        Choice(ONCE, "Send once"),
        Choice(CONVERSATION, "Send in this conversation"),
        Choice(EDIT, "Edit first"),
    )
    return Question(f"Ask {offer.card.name}?", choices, KEEP, shown)


def written_parts(messages: Iterable[Message]) -> tuple[str, str]:
    """Return all that a worker would see: what isn't Baton's own, and Baton's own instructions."""
    parts: tuple[list[str], list[str]] = [], []
    for message in messages:
        is_own = message.role is Role.SYSTEM or message.is_instruction
        parts[is_own].append(f"{_SPEAKERS[message.role]}: {message.text}")
    text, instructions = ("\n\n".join(part) for part in parts)
    return text, instructions
