"""What may be done with a prompt: who may see it, and whether money may be spent. Pure rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from baton.core.errors import BatonError, ConfigError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.hold_decision import unknown_price_error
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope
from baton.core.messages import AnswerFormat, Card


@frozen_dataclass
class RunTerms:
    """What the settings allow: ceilings in nano-dollars, when to ask, and where to connect.

    `mode` "local" uses no remote worker; `offline` connects to nothing but this machine; `is_free`
    uses no cloud worker, even a free one. `patience` is how many seconds a call waits for money
    that other runs hold. `has_private_remotes` is whether a worker on another machine may see
    private texts where its `privacy` says so.
    """

    ceilings: Mapping[Scope, int] = field(default_factory=dict)
    policy: Policy = Policy.ASK
    mode: str = "auto"
    offline: bool = False
    patience: float = 0.0
    is_free: bool = False
    has_private_remotes: bool = True


NOTHING_SPENT = RunTerms()
"""No ceiling is set, so nothing can be spent."""


@frozen_dataclass
class PromptLimits:
    """What the user allows one prompt: where its text may go, how long the answer may get.

    `budget` is what it may cost in nano-dollars; who types one needn't be asked again.
    `attended` is whether the user is there to be asked, `keep` whether the history is kept; with
    `alone` the worker gets no help. `strategy` decides what is run ("": the mode says). With
    `preview` the user sees the plan before anything of it is called. After `deadline` seconds the
    run ends with the text that there is. `shape` is the form that the answer must have, and before
    the first of `stop` it ends: other programs ask for both, and for `sampling` (see Request).
    `client` is the id of the access token that such a program has ("": the user asks): its budget
    allows nothing, it only narrows.
    """

    label: Label = Label.CLOUD
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    budget: int | None = None
    attended: bool = True
    keep: bool = True
    alone: bool = False
    strategy: str = ""
    preview: bool = False
    deadline: float | None = None
    shape: AnswerFormat | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    client: str = ""
    sampling: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_budget_typed(self) -> bool:
        """Whether the user set what the prompt may cost, which allows spending by itself."""
        return self.budget is not None and not self.client


ANYTHING = PromptLimits()
"""No limits but the worker's own."""


def check(card: Card, label: Label, terms: RunTerms) -> None:
    """Refuse a worker that may not see a text with this label, or may not be used at all.

    Raises ConfigError, or BudgetExceeded for a worker without a price.
    """
    if not label.allows(card.privacy):
        if card.place is Label.LOCAL:
            raise ConfigError(
                f"This conversation is private, and {card.id} is another program's.",
                f"`baton workers add {card.id} --private` lets private texts go to it.",
            )
        raise ConfigError(
            f"This conversation is {label}, and {card.id} is a {card.privacy} worker.",
            "Choose a local worker, or start a conversation that isn't private.",
        )
    if label is Label.LOCAL and card.remote and not terms.has_private_remotes:
        raise ConfigError(
            f"This request is private, and {card.id} is on another machine.",
            "Choose a worker on this machine, or send a request that isn't private.",
        )
    if terms.offline and card.needs_network:
        raise ConfigError(
            f"Baton is offline, and {card.id} is not on this machine.",
            "Choose a local worker, or leave offline.",
        )
    if terms.mode == "local" and card.place is not Label.LOCAL:
        raise ConfigError(
            f"The mode is local, and {card.id} is a {card.place} worker.",
            "Choose a local worker, or another mode.",
        )
    if terms.is_free and card.kind == "cloud":
        raise ConfigError(
            f"{card.id} is a cloud worker, and this access token may use none.",
            "`baton serve --show-token` shows the one that may.",
        )
    if card.price is None:
        raise unknown_price_error(card.id, card.model or card.id)


def may_use(card: Card, label: Label, terms: RunTerms) -> bool:
    """Whether `check` would let that worker see a text with this label."""
    try:
        check(card, label, terms)
    except BatonError:
        return False
    return True


def helpers(mine: Card, roster: Iterable[Card], label: Label, terms: RunTerms) -> list[Card]:
    """Return the workers to offer when a local one's answer won't do, as the user listed them.

    They cost something, or what they are sent may leave this machine.
    """
    others = [card for card in roster if not (card.is_local or card.is_tool)]
    if not mine.is_local:
        return []
    return [card for card in others if card.id != mine.id and may_use(card, label, terms)]


def must_ask(policy: Policy, limits: PromptLimits) -> bool | None:
    """Return whether the user must be asked before money is spent; None: it must not be spent."""
    if policy is Policy.NEVER:
        return None
    if policy is Policy.BUDGET or limits.is_budget_typed:
        return False
    return True if limits.attended else None
