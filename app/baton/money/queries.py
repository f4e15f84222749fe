"""What the ledger can tell: charges, usage, and everything that left."""

from __future__ import annotations

from typing import Literal

from baton.core.errors import ConfigError
from baton.core.ledger_types import Charge, Egress, UsageRow
from baton.money.rows import to_charge, to_egress, to_usage
from baton.platform.sqlite import Connection, clean

By = Literal["day", "worker", "purpose"]
_COLUMNS: dict[By, str] = {"day": "day", "worker": "worker", "purpose": "purpose"}

_EGRESS = """SELECT egress.*, run, worker, held, charged, status
    FROM egress JOIN calls ON calls.id = egress.call"""


def unconfirmed(connection: Connection) -> list[Charge]:
    """Return the calls that nobody knows the cost of, newest first."""
    rows = connection.execute("SELECT * FROM calls WHERE status = 'unconfirmed' ORDER BY key DESC")
    return [to_charge(row) for row in rows]


def charges(connection: Connection, run: str | None, limit: int) -> list[Charge]:
    """Return the newest calls, newest first; of the runs whose id begins so, if it is given."""
    rows = connection.execute(
        f"SELECT * FROM calls {_of_run(run)} ORDER BY key DESC LIMIT ?", [*_prefix(run), limit]
    )
    return [to_charge(row) for row in rows]


def usage(connection: Connection, by: By, since: float | None) -> list[UsageRow]:
    """Return what calls came to; days in their order, else the dearest first."""
    column = _COLUMNS[by]
    order = "name" if by == "day" else "charged DESC, name"
    rows = connection.execute(
        f"""SELECT {column} AS name, count(*), sum(tokens_in), sum(tokens_out),
            sum(charged) AS charged, sum((status = 'unconfirmed') * charged)
        FROM calls WHERE status <> 'void' AND at >= ? GROUP BY {column} ORDER BY {order}""",
        [since or 0],
    )
    return [to_usage(row) for row in rows]


def egress(connection: Connection, run: str | None, limit: int) -> list[Egress]:
    """Return what left last, newest first; of the runs whose id begins so, if it is given."""
    rows = connection.execute(
        f"{_EGRESS} {_of_run(run)} ORDER BY egress.key DESC LIMIT ?", [*_prefix(run), limit]
    )
    return [to_egress(row) for row in rows]


def egress_one(connection: Connection, key: int) -> Egress:
    """Return one request that left. Raises ConfigError."""
    row = connection.execute(f"{_EGRESS} WHERE egress.key = ?", [key]).fetchone()
    if row is None:
        raise ConfigError(
            f"There is no number {key} in the egress log.", "`baton egress ls` lists them."
        )
    return to_egress(row)


def egress_after(connection: Connection, key: int, limit: int) -> list[Egress]:
    """Return what left after the request with this key, oldest first."""
    rows = connection.execute(
        f"{_EGRESS} WHERE egress.key > ? ORDER BY egress.key LIMIT ?", [key, limit]
    )
    return [to_egress(row) for row in rows]


def _of_run(run: str | None) -> str:
    return "" if run is None else "WHERE run >= ? AND run < ?"


def _prefix(run: str | None) -> list[str]:
    return [] if run is None else [clean(run), clean(run) + "\U0010ffff"]
