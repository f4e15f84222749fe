"""Before something leaves: what it is, what it can cost, and who decides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from baton.domain.chat import Card, Message, Request, Role
from baton.domain.errors import BudgetExceeded
from baton.domain.events import Decision, Offered
from baton.domain.ledger import Policy, Standing
from baton.domain.prices import FREE
from baton.domain.redaction import Redacted
from baton.engine.meter import Purse
from baton.engine.policy import must_ask
from baton.engine.ports import Ask, Begun, Choice, Offer, Question, Store

KEEP, ONCE, CONVERSATION, EDIT = "keep", "once", "conversation", "edit"
"""The ids of the choices."""

_ALLOW = (
    "--budget 0.05 (for example) allows it for one prompt, `baton budget set policy budget` always."
)
_SPEAKERS = {Role.SYSTEM: "Instructions", Role.USER: "You", Role.ASSISTANT: "Baton"}


class Withdrawn(Exception):
    """The person decided not to send the prompt after all."""


@dataclass(frozen=True, slots=True)
class Offers:
    """Makes the offers of one run, and has them decided.

    `caps` gets the answer's cap that an offer's price is for, by worker: with a longer one the call
    could cost more than the person saw, once there is more money left.
    """

    purse: Purse
    store: Store
    ask: Ask
    begun: Begun
    caps: dict[str, int] = field(default_factory=dict)

    async def make(self, card: Card, request: Request, why: str, draft: str = "") -> Offered:
        """Offer a worker's help; return what became of that. `at` is for the caller to set."""
        shown, hidden = await self.purse.redacted(card, request)
        told = Redacted((), hidden).told()
        size = sum(len(message.text.encode("utf-8", "replace")) for message in shown.messages)
        bill = self.purse.bill(card, shown)
        try:
            quoted = await self.purse.ledger.quote(bill)
        except BudgetExceeded as refused:
            most = bill.price.most(bill.input_bound, bill.wanted)
            return Offered(0.0, card.id, why, most, size, told, Decision.CEILING, str(refused))
        most, self.caps[card.id] = quoted.amount, quoted.cap
        decision, message = Decision.SENT, ""
        if self._costs_or_surprises(card, draft):
            offer = Offer(card, why, written(shown.messages), told, most, None, "", draft)
            decision, message = await self._decide(offer)
        return Offered(0.0, card.id, why, most, size, told, decision, message)

    @staticmethod
    def _costs_or_surprises(card: Card, draft: str) -> bool:
        """Tell whether the person must agree: to spending, and to leaving without being asked."""
        return not (card.price or FREE).is_free or (bool(draft) and card.remote)

    async def _decide(self, offer: Offer) -> tuple[Decision, str]:
        policy = self.begun.policy or self.purse.terms.policy
        if self.purse.terms.policy is Policy.NEVER:
            policy = Policy.NEVER  # leave that a conversation once got doesn't outlive it
        ask = must_ask(policy, self.purse.limits)
        if ask is None:
            reason, mend = "nobody was there to be asked", _ALLOW
            if policy is Policy.NEVER:
                reason, mend = "the policy is never to spend", "`baton budget set policy ask`."
            return Decision.NEVER, f"{offer.card.name} was not asked: {reason}. {mend}"
        if not ask:
            return Decision.SENT, ""
        return await self._put(offer, policy), ""

    async def _put(self, offer: Offer, policy: Policy) -> Decision:
        """Ask the person."""
        session = self.begun.conversation
        standing = await self.purse.ledger.standing(self.purse.terms.ceilings, session)
        choice = await self.ask(question(offer, standing))
        if choice == CONVERSATION or (choice == ONCE and policy is Policy.ONCE):
            await self.store.allow(session, Policy.BUDGET)
        if choice in (ONCE, CONVERSATION):
            return Decision.SENT
        return Decision.EDIT if choice == EDIT else Decision.KEPT


def question(offer: Offer, standing: Standing) -> Question:
    """Return the question that puts an offer to the person; the safe choice comes first."""
    room = standing.tightest
    left, scope = (room.left, room.scope.value) if room is not None else (None, "")
    shown = replace(offer, left=left, scope=scope)
    keep = "Keep the local answer" if offer.draft else "Don't send"
    choices = (
        Choice(KEEP, keep),
        Choice(ONCE, "Send once"),
        Choice(CONVERSATION, "Send in this conversation"),
        Choice(EDIT, "Edit first"),
    )
    return Question(f"Ask {offer.card.name}?", choices, KEEP, shown)


def written(messages: tuple[Message, ...]) -> str:
    """Write out what a worker would see: all of it, each message under its speaker."""
    return "\n\n".join(f"{_SPEAKERS[m.role]}: {m.text}" for m in messages)
