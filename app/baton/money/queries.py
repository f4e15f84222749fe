"""Reads the ledger: charges, usage, and everything that left; rows to the types of `core`."""

from __future__ import annotations

import json
from typing import Literal, get_args

from baton.core.errors import ConfigError
from baton.core.ledger_types import Charge, DayCharge, Egress, Status, UsageRow
from baton.core.messages import Purpose
from baton.core.money import Price, Rates, Tier
from baton.platform.sqlite import Connection, Row, clean_text

UsageGrouping = Literal["day", "worker", "purpose"]
_EGRESS_QUERY = """SELECT egress.*, run, worker, held, charged, status,
    EXISTS (SELECT 1 FROM unsent_requests WHERE unsent_requests.egress = egress.key) AS unsent
    FROM egress JOIN calls ON calls.id = egress.call"""


def unconfirmed(connection: Connection) -> list[Charge]:
    """Return the calls whose cost is unconfirmed, newest first."""
    rows = connection.execute("SELECT * FROM calls WHERE status = 'unconfirmed' ORDER BY key DESC")
    return [to_charge(row) for row in rows]


def charges(connection: Connection, run: str | None, limit: int) -> list[Charge]:
    """Return the newest calls, newest first; of the runs whose id begins so, if it is given."""
    rows = connection.execute(
        f"SELECT * FROM calls {_run_condition(run)} ORDER BY key DESC LIMIT ?",
        [*_run_range(run), limit],
    )
    return [to_charge(row) for row in rows]


def usage(connection: Connection, by: UsageGrouping, since: float | None) -> list[UsageRow]:
    """Return what calls cost in sum; days in their order, else the dearest first."""
    assert by in get_args(UsageGrouping), "it is a column's name"
    order = "name" if by == "day" else "charged DESC, name"
    rows = connection.execute(
        f"""SELECT {by} AS name, count(*), sum(tokens_in), sum(tokens_out),
            sum(charged) AS charged, sum((status = 'unconfirmed') * charged)
        FROM calls WHERE status <> 'void' AND at >= ? GROUP BY {by} ORDER BY {order}""",
        [since or 0],
    )
    return [UsageRow(*row) for row in rows]


def day_charges(connection: Connection, since: float) -> list[DayCharge]:
    """Return what each worker was charged on each day, the days in their order."""
    rows = connection.execute(
        """SELECT day, worker, sum(charged) FROM calls
        WHERE status <> 'void' AND at >= ? GROUP BY day, worker ORDER BY day, worker""",
        [since],
    )
    return [DayCharge(*row) for row in rows]


def egress(connection: Connection, run: str | None, limit: int) -> list[Egress]:
    """Return what left last, newest first; of the runs whose id begins so, if it is given."""
    rows = connection.execute(
        f"{_EGRESS_QUERY} {_run_condition(run)} ORDER BY egress.key DESC LIMIT ?",
        [*_run_range(run), limit],
    )
    return [to_egress(row) for row in rows]


def find_egress(connection: Connection, key: int) -> Egress:
    """Return one request that left. Raises ConfigError."""
    row = connection.execute(f"{_EGRESS_QUERY} WHERE egress.key = ?", [key]).fetchone()
    if row is None:
        raise ConfigError(
            f"There is no number {key} in the egress log.", "`baton egress ls` lists them."
        )
    return to_egress(row)


def egress_after(connection: Connection, key: int, limit: int) -> list[Egress]:
    """Return what left after the request with this key, oldest first."""
    rows = connection.execute(
        f"{_EGRESS_QUERY} WHERE egress.key > ? ORDER BY egress.key LIMIT ?", [key, limit]
    )
    return [to_egress(row) for row in rows]


def _run_condition(run: str | None) -> str:
    return "" if run is None else "WHERE run >= ? AND run < ?"


def _run_range(run: str | None) -> list[str]:
    return [] if run is None else [clean_text(run), clean_text(run) + "\U0010ffff"]


def encode_price(price: Price) -> str:
    """Write a price as JSON: what a call was held and settled at stays known."""
    tiers = [[tier.above, _rates_list(tier.rates)] for tier in price.tiers]
    return json.dumps([_rates_list(price.rates), tiers, price.source])


def decode_price(text: str) -> Price:
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
        model=row["model"],
        purpose=Purpose(row["purpose"]),
        status=Status(row["status"]),
        held=row["held"],
        charged=row["charged"],
        tokens_in=row["tokens_in"],
        tokens_out=row["tokens_out"],
        source=decode_price(row["price"]).source,
    )


def to_egress(row: Row) -> Egress:
    """Read a row of `egress` with that of its call."""
    kept = {name: row[name] for name in _EGRESS_COLUMNS}
    return Egress(**kept, status=Status(row["status"]), left=not row["unsent"])


_EGRESS_COLUMNS = (
    *("key", "at", "call", "run", "worker", "destination"),
    *("size", "sha256", "held", "charged", "body"),
)
