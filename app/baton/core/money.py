"""Money as integer nano-dollars, and what a worker's tokens cost: exact, and rounded up.

A rate is in nano-dollars per million tokens, so that every published price is a whole number
($0.0375 per million tokens is 37,500,000).
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, InvalidOperation

from baton.core.errors import ConfigError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.sanitiser import one_line

NANO = 10**9
_MAX_DOLLARS = 1_000_000  # dollars; beyond this a ceiling is a typing mistake


def parse_usd(text: str) -> int:
    """Read the user's amount of US dollars ("0.50", "$2") as nano-dollars.

    Raises ConfigError for anything that isn't a plain amount from 0 to a million.
    """
    try:  # Python reads "0_05" as 5
        amount = Decimal("NaN" if "_" in text else text.strip().removeprefix("$"))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or not 0 <= amount <= _MAX_DOLLARS:
        raise ConfigError(
            f"{one_line(repr(text), 60)} is not an amount of US dollars.",
            f"Write it like 0.50, from 0 to {_MAX_DOLLARS:,}.",
        )
    return int((amount * NANO).to_integral_value(ROUND_CEILING))


def format_usd(nanos: int) -> str:
    """Write nano-dollars as a decimal string without an exponent, for machines: "0.004"."""
    whole, rest = divmod(nanos, NANO)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def exact_usd(nanos: int) -> str:
    """Write nano-dollars for display without rounding: "$0.17793", "$0.20"."""
    whole = format_usd(nanos)
    return f"${whole}" if nanos % (NANO // 100) else f"${Decimal(nanos) / NANO:.2f}"


def show_usd(nanos: int) -> str:
    """Write nano-dollars for display, with the digits that matter: "$0.004", "$1.20"."""
    if nanos and nanos < NANO // 100:
        cents = Decimal(nanos) / NANO
        return f"${cents:.1g}" if cents >= Decimal("0.0001") else "under $0.0001"
    return f"${Decimal(nanos) / NANO:.2f}"


# Prices


TOKENS_PER_RATE = 10**6


@frozen_dataclass
class Rates:
    """Nano-dollars per million tokens, for each way in which a token can be charged."""

    input: int
    output: int
    cache_read: int
    cache_write: int


@frozen_dataclass
class Tier:
    """The rates of a whole request whose prompt has more than `above` tokens."""

    above: int
    rates: Rates


@frozen_dataclass
class BilledTokens:
    """What a provider counted.

    `tokens_in` is the whole prompt; `cached` and `cache_written` are parts of it. `tokens_out`
    includes what the model thought. `reported` is a cost that the provider itself named.
    """

    tokens_in: int
    tokens_out: int
    cached: int = 0
    cache_written: int = 0
    reported: int | None = None


@frozen_dataclass
class Price:
    """A worker's price. `source` says in a few words where it comes from."""

    rates: Rates
    tiers: tuple[Tier, ...] = ()
    source: str = ""

    @property
    def is_free(self) -> bool:
        """Whether nothing is ever charged."""
        return not any(
            (rates.input, rates.output, rates.cache_read, rates.cache_write) != (0, 0, 0, 0)
            for rates in self._all
        )

    @property
    def _all(self) -> tuple[Rates, ...]:
        return (self.rates, *(tier.rates for tier in self.tiers))

    @property
    def dearest_input(self) -> int:
        """The highest rate at which a prompt's token can be charged."""
        return max(max(r.input, r.cache_read, r.cache_write) for r in self._all)

    @property
    def dearest_output(self) -> int:
        """The highest rate at which an answer's token can be charged."""
        return max(rates.output for rates in self._all)

    def max_cost(self, tokens_in: int, tokens_out: int) -> int:
        """Return what a call can cost at most: what is held for it."""
        return _amount_of(tokens_in * self.dearest_input + tokens_out * self.dearest_output)

    def affordable_tokens(self, amount: int, tokens_in: int) -> int | None:
        """Return how many tokens of answer an amount allows; None means any number."""
        if self.dearest_output == 0:
            return None if self.max_cost(tokens_in, 0) <= amount else 0
        left = amount * TOKENS_PER_RATE - tokens_in * self.dearest_input
        return max(0, left // self.dearest_output)

    def cost(self, used: BilledTokens) -> int:
        """Return what a finished call cost, or what the provider says if that is more.

        Counts that contradict each other are read so that they cost more, never less.
        """
        cached, written = max(0, used.cached), max(0, used.cache_written)
        tokens_in = max(used.tokens_in, cached + written)
        rates = self.rates
        for tier in sorted(self.tiers, key=lambda tier: tier.above):
            if tokens_in > tier.above:
                rates = tier.rates
        own = _amount_of(
            (tokens_in - cached - written) * rates.input
            + cached * rates.cache_read
            + written * rates.cache_write
            + max(0, used.tokens_out) * rates.output
        )
        return max(own, used.reported or 0)


FREE = Price(Rates(0, 0, 0, 0), source="costs nothing")


def _amount_of(amount: int) -> int:
    return -(-amount // TOKENS_PER_RATE)
