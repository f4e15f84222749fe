"""Before something leaves: what it is, what it can cost, and who decides."""

from __future__ import annotations

from dataclasses import replace

from baton.core.errors import BudgetExceeded
from baton.core.events import Decision, Offered
from baton.core.ledger_types import Policy, Standing
from baton.core.messages import Card, Message, Request, Role
from baton.core.money import FREE
from baton.core.ports import Ask, CallOffer, Choice, Question, RecordedRun, Store
from baton.core.redaction_types import RedactedTexts
from baton.core.run.metered_worker import RunBudget
from baton.core.run.policy import must_ask

KEEP, ONCE, CONVERSATION, EDIT = "keep", "once", "conversation", "edit"
"""The ids of the choices."""

_ALLOW = (
    "--budget 0.05 (for example) allows it for one prompt, `baton budget set policy budget` always."
)
_SPEAKERS = {Role.SYSTEM: "Instructions", Role.USER: "You", Role.ASSISTANT: "Baton"}


class PromptWithdrawn(Exception):
    """The person decided not to send the prompt after all."""


class ApprovalGate:
    """Makes the offers of one run, and has them decided."""

    def __init__(self, purse: RunBudget, store: Store, ask: Ask, begun: RecordedRun) -> None:
        self._purse = purse
        self._store = store
        self._ask = ask
        self._session = begun.conversation
        self._policy = begun.policy

    async def make(
        self,
        card: Card,
        request: Request,
        why: str,
        *,
        draft: str = "",
        keep: str = "",
        share: int = 1,
        named: bool = False,
    ) -> tuple[Offered, int]:
        """Offer a worker's help; return what became of that, and the answer's cap it is for.

        With a longer answer the call could cost more than the person saw, once there is more money
        left. `share` is among how many calls the headroom is divided. `named` is whether the
        person chose that worker, and no plan did; `keep` is what not sending it is called. `at` is
        for the caller.
        """
        shown, hidden = await self._purse.redacted(card, request)
        told = RedactedTexts((), hidden).summary()
        size = sum(len(message.text.encode("utf-8", "replace")) for message in shown.messages)
        most, cap, refused = await self._quote(card, shown, share)
        if refused is not None:
            decision, message = Decision.CEILING, str(refused)
            return Offered(0.0, card.id, why, most, size, told, decision, message), 0
        decision, message = Decision.SENT, ""
        if self._costs_or_surprises(card, named):
            text = written(shown.messages)
            offer = CallOffer(card, why, text, told, most, None, "", draft, keep)
            decision, message = await self._decide(offer)
        return Offered(0.0, card.id, why, most, size, told, decision, message), cap

    async def most(self, card: Card, request: Request) -> int:
        """Return what the call can cost at most, as an offer of it would say."""
        shown, _ = await self._purse.redacted(card, request)
        return (await self._quote(card, shown))[0]

    async def _quote(
        self, card: Card, request: Request, share: int = 1
    ) -> tuple[int, int, BudgetExceeded | None]:
        """Return what would be held for a call and its answer's cap, or why it would be refused."""
        bill = self._purse.bill(card, request, share)
        try:
            quoted = await self._purse.ledger.quote(bill)
        except BudgetExceeded as refused:
            return bill.price.max_cost(bill.input_bound, bill.cap), 0, refused
        return quoted.amount, quoted.cap, None

    @staticmethod
    def _costs_or_surprises(card: Card, named: bool) -> bool:
        """Tell whether the person must agree: to spending, and to leaving without being asked."""
        return not (card.price or FREE).is_free or (card.remote and not named)

    @property
    def policy(self) -> Policy:
        """When this run may spend."""
        if self._purse.terms.policy is Policy.NEVER:
            return Policy.NEVER  # leave that a conversation once got doesn't outlive it
        return self._policy or self._purse.terms.policy

    async def _decide(self, offer: CallOffer) -> tuple[Decision, str]:
        policy = self.policy
        ask = must_ask(policy, self._purse.limits)
        if ask is None:
            reason, mend = "nobody was there to be asked", _ALLOW
            if policy is Policy.NEVER:
                reason, mend = "the policy is never to spend", "`baton budget set policy ask`."
            return Decision.NEVER, f"{offer.card.name} was not asked: {reason}. {mend}"
        if not ask:
            return Decision.SENT, ""
        return await self._put(offer, policy), ""

    async def _put(self, offer: CallOffer, policy: Policy) -> Decision:
        """Ask the person."""
        purse = self._purse
        standing = await purse.ledger.standing(purse.terms.ceilings, self._session)
        choice = await self._ask(question(offer, standing))
        if choice == CONVERSATION or (choice == ONCE and policy is Policy.ONCE):
            await self._store.allow(self._session, Policy.BUDGET)
            self._policy = Policy.BUDGET
        if choice in (ONCE, CONVERSATION):
            return Decision.SENT
        return Decision.EDIT if choice == EDIT else Decision.KEPT


def question(offer: CallOffer, standing: Standing) -> Question:
    """Return the question that puts an offer to the person; the safe choice comes first."""
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


def written(messages: tuple[Message, ...]) -> str:
    """Write out what a worker would see: all of it, each message under its speaker."""
    return "\n\n".join(f"{_SPEAKERS[m.role]}: {m.text}" for m in messages)
