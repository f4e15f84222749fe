"""The types of the ledger: ceilings, holds, charges, and the egress log.

Amounts are in nano-dollars, times in seconds since the epoch (UTC); a day and a month are the
user's own, by the date of the hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from baton.core.errors import BudgetExceeded
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.messages import Purpose
from baton.core.money import BilledTokens, Price

MIN_USEFUL_TOKENS = 256
"""A cap below this makes no useful answer: such a call is refused (unless less was asked for)."""


class Scope(StrEnum):
    """What a ceiling is for: one prompt, one conversation, an access token, a day, a month."""

    RUN = "run"
    SESSION = "session"
    TOKEN = "token"
    DAY = "day"
    MONTH = "month"

    @property
    def phrase(self) -> str:
        """The scope in words: "today"."""
        return _SCOPE_PHRASES[self]


_SCOPE_PHRASES = {
    Scope.RUN: "this prompt",
    Scope.SESSION: "this conversation",
    Scope.TOKEN: "this access token",
    Scope.DAY: "today",
    Scope.MONTH: "this month",
}


class Policy(StrEnum):
    """When money may be spent: asked each time, once per conversation, not asked, or never."""

    ASK = "ask"
    ONCE = "once"
    BUDGET = "budget"
    NEVER = "never"


class SpendingStyle(StrEnum):
    """How much help must gain to be paid, and how much of what is allowed is planned to be used."""

    FRUGAL = "frugal"
    BALANCED = "balanced"
    BEST = "best"

    @property
    def description(self) -> str:
        """The style in a few words."""
        return _STYLE_DESCRIPTIONS[self]


_STYLE_DESCRIPTIONS = {
    SpendingStyle.FRUGAL: "only where help gains much",
    SpendingStyle.BALANCED: "where it clearly helps",
    SpendingStyle.BEST: "wherever it helps at all, while money lasts",
}


class Status(StrEnum):
    """How a call stands in the ledger."""

    HELD = "held"  # money is set aside; the call is on its way
    SETTLED = "settled"  # the provider's own count, at a genuine end
    UNCONFIRMED = "unconfirmed"  # ended any other way: charged at most until released
    RELEASED = "released"  # was unconfirmed; the user says that it wasn't charged
    VOID = "void"  # nothing was sent, or the provider refused it at no cost


@frozen_dataclass
class HoldRequest:
    """Everything the ledger must know to hold money for one call.

    `input_bound` is the most tokens the request can have, `wanted` the most the answer may
    have: what was asked for, within the worker's own limit. `expected` is the 99th percentile of
    the answer's length (None: unknown), `thinking` the tokens that a worker that thinks needs
    besides (0: it doesn't). `ceilings` are this process's settings (a scope that isn't there sets
    no limit); a run's ceiling comes from `--budget`. `client` is the id of the access token that
    the run came with ("": it is the user's own); see `opens_cloud`. `share` is among how many
    calls that are ready the headroom is divided. `keep` is whether what is sent may stay in the
    egress log (not with `--no-history`). `root` is the first of the runs that this one continues
    ("": none): all share one ceiling, and `is_inherited` is whether an earlier one's is in force.
    `patience` is how many seconds the call may wait for money that other runs hold (0: it doesn't
    wait).
    """

    run: str
    session: str
    worker: str
    provider: str
    model: str
    purpose: Purpose
    price: Price
    input_bound: int
    wanted: int
    ceilings: Mapping[Scope, int] = field(default_factory=dict)
    client: str = ""
    share: int = 1
    keep: bool = True
    root: str = ""
    is_inherited: bool = False
    expected: int | None = None
    thinking: int = 0
    patience: float = 0.0

    @property
    def cap(self) -> int:
        """The most tokens that are paid for: all that is wanted where that costs nothing."""
        if self.expected is None or self.price.is_free:
            return self.wanted
        return min(self.wanted, max(MIN_USEFUL_TOKENS, self.expected) + self.thinking)

    @property
    def least(self) -> int:
        """The fewest tokens that make a useful answer: thoughts alone make none."""
        return min(self.cap, MIN_USEFUL_TOKENS + self.thinking)


@frozen_dataclass
class Hold:
    """Money set aside for one call, whose answer may have `cap` tokens."""

    call: str
    cap: int
    amount: int


@frozen_dataclass
class ScopeBalance:
    """The balance of one scope. `ceiling` None sets no limit, and `left` is None then.

    `variable` is the environment's that sets the ceiling, so that nothing else can raise it, or "".
    """

    scope: Scope
    ceiling: int | None
    settled: int = 0
    held: int = 0
    unconfirmed: int = 0
    variable: str = ""

    @property
    def used(self) -> int:
        """The amount that counts against the ceiling."""
        return self.settled + self.held + self.unconfirmed

    @property
    def left(self) -> int | None:
        """What may still be held, never below 0."""
        return None if self.ceiling is None else max(0, self.ceiling - self.used)


def opens_cloud(room: ScopeBalance, client: str) -> bool:
    """Whether a balance's ceiling allows spending by itself; all others only narrow it.

    A program with an access token chooses a prompt's budget and what begins a conversation.
    """
    return bool(room.ceiling) and not (client and room.scope in (Scope.RUN, Scope.SESSION))


@frozen_dataclass
class Standing:
    """The balances of session and token (if given), day and month.

    `frozen` is why the cloud is, or "". `client` is the access token that they are for, or "".
    """

    rooms: tuple[ScopeBalance, ...]
    frozen: str = ""
    client: str = ""

    @property
    def is_cloud_on(self) -> bool:
        """Whether a ceiling above zero allows spending, apart from a prompt's own."""
        rooms = [room for room in self.rooms if room.scope is not Scope.RUN]
        return any(opens_cloud(room, self.client) for room in rooms)

    @property
    def is_budget_typed(self) -> bool:
        """Whether the user set what this prompt may cost."""
        rooms = [room for room in self.rooms if room.scope is Scope.RUN]
        return any(opens_cloud(room, self.client) for room in rooms)

    @property
    def tightest(self) -> ScopeBalance | None:
        """The scope with the least left."""
        limited = [room for room in self.rooms if room.left is not None]
        return min(limited, key=lambda room: room.left or 0, default=None)


@frozen_dataclass
class Charge:
    """One call as the ledger keeps it: `held` before it, `charged` once it ended; `source` is where
    its price comes from.
    """

    call: str
    at: float
    run: str
    session: str
    worker: str
    model: str
    purpose: Purpose
    status: Status
    held: int
    charged: int
    tokens_in: int
    tokens_out: int
    source: str


@frozen_dataclass
class Egress:
    """One request that left: exactly these bytes, keys removed, to this address.

    `body` None was removed with its conversation (or never kept); size and hash stay. Where it
    wasn't `left`, no connection came about.
    """

    key: int
    at: float
    call: str
    run: str
    worker: str
    destination: str
    size: int
    sha256: str
    held: int
    charged: int
    status: Status
    body: bytes | None
    left: bool = True


@frozen_dataclass
class UsageRow:
    """What calls cost in sum, of one day, worker or purpose (`name`).

    `charged` includes what is `unconfirmed`. Calls that were void are left out.
    """

    name: str
    calls: int
    tokens_in: int
    tokens_out: int
    charged: int
    unconfirmed: int


@frozen_dataclass
class DayCharge:
    """What a worker was charged on a day ("2026-11-25"), in billionths of a dollar."""

    day: str
    worker: str
    charged: int


class NoLedger:
    """A ledger that refuses every call (core.ports.Ledger): for use without remote workers."""

    async def hold(self, bill: HoldRequest) -> Hold:
        raise BudgetExceeded("The cloud is off here, so nothing was sent.")

    quote = hold

    async def hold_in_turn(self, bill: HoldRequest, ticket: int = 0) -> Hold | int:
        return await self.hold(bill)

    async def leave_queue(self, ticket: int) -> None:
        pass

    async def settle(self, call: str, used: BilledTokens) -> int:
        raise LookupError(call)

    async def leave(self, call: str, most: BilledTokens | None = None) -> int:
        raise LookupError(call)

    async def void(self, call: str) -> None:
        raise LookupError(call)

    async def standing(
        self,
        ceilings: Mapping[Scope, int],
        session: str | None = None,
        run: str | None = None,
        client: str = "",
    ) -> Standing:
        return Standing(())


NO_LEDGER = NoLedger()
