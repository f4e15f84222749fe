"""Money as integer nano-dollars: exact, and rounded up wherever rounding is needed."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, InvalidOperation

from baton.core.errors import ConfigError
from baton.core.sanitiser import one_line

NANO = 10**9
_MAX_DOLLARS = 1_000_000  # dollars; beyond this a ceiling is a typing mistake


def parse_usd(text: str) -> int:
    """Read a person's amount of US dollars ("0.50", "$2") as nano-dollars.

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
    """Write nano-dollars for a person without rounding: "$0.17793", "$0.20"."""
    whole = format_usd(nanos)
    return f"${whole}" if nanos % (NANO // 100) else f"${Decimal(nanos) / NANO:.2f}"


def show_usd(nanos: int) -> str:
    """Write nano-dollars for a person, with the digits that matter: "$0.004", "$1.20"."""
    if nanos and nanos < NANO // 100:
        cents = Decimal(nanos) / NANO
        return f"${cents:.1g}" if cents >= Decimal("0.0001") else "under $0.0001"
    return f"${Decimal(nanos) / NANO:.2f}"
