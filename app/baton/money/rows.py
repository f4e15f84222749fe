"""Rows of the ledger to the words of `domain` and back."""

from __future__ import annotations

import json

from baton.core.ledger_types import Charge, Egress, Status, UsageRow
from baton.core.messages import Purpose
from baton.core.prices import Price, Rates, Tier
from baton.platform.sqlite import Row


def price_text(price: Price) -> str:
    """Write a price as JSON: what a call was held and settled at stays known."""
    tiers = [[tier.above, _rates_list(tier.rates)] for tier in price.tiers]
    return json.dumps([_rates_list(price.rates), tiers, price.source])


def price_of(text: str) -> Price:
    """Read a price."""
    rates, tiers, source = json.loads(text)
    return Price(Rates(*rates), tuple(Tier(above, Rates(*own)) for above, own in tiers), source)


def _rates_list(rates: Rates) -> list[int]:
    return [rates.input, rates.output, rates.cache_read, rates.cache_write]


def to_charge(row: Row) -> Charge:
    """Read a row of `calls`."""
    return Charge(
        call=row["id"],
        at=row["at"],
        run=row["run"],
        session=row["session"],
        worker=row["worker"],
        provider=row["provider"],
        model=row["model"],
        purpose=Purpose(row["purpose"]),
        status=Status(row["status"]),
        held=row["held"],
        charged=row["charged"],
        tokens_in=row["tokens_in"],
        tokens_out=row["tokens_out"],
        source=price_of(row["price"]).source,
    )


def to_egress(row: Row) -> Egress:
    """Read a row of `egress` with that of its call."""
    return Egress(
        key=row["key"],
        at=row["at"],
        call=row["call"],
        run=row["run"],
        worker=row["worker"],
        destination=row["destination"],
        size=row["size"],
        sha256=row["sha256"],
        held=row["held"],
        charged=row["charged"],
        status=Status(row["status"]),
        body=row["body"],
    )


def to_usage(row: Row) -> UsageRow:
    """Read what several calls came to."""
    return UsageRow(*row)
