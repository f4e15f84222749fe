"""What can happen to a call's money; each function is run inside one transaction."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta

from baton.core.errors import BudgetExceeded, ConfigError, MoneyHeld, StoreError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.hold_decision import MAX_AMOUNT_NANOS, decide_hold, overcharge_error, without_holds
from baton.core.ledger_types import Hold, HoldRequest, Scope, ScopeBalance, Standing, Status
from baton.core.money import BilledTokens
from baton.money.queries import decode_price, encode_price
from baton.money.schema import SUMS
from baton.platform.processes import Owner
from baton.platform.sqlite import Connection, Row, clean_text

_DAY = timedelta(days=1)

_MIN_THINKING_CALLS, _MAX_THINKING_CALLS = 50, 500
"""So many settled calls of a worker say how long it thinks; the latest count."""

_FIRST_YEAR, _LAST_YEAR = 1900, 9998
"""Before 1000 a year has fewer than four digits in a date, and after 9999 there is no date."""

_MAX_LATENESS_SECONDS = 5
"""So much later than it said a call may still wait, on a busy machine."""


@frozen_dataclass
class LedgerContext:
    """This moment in this process: ceilings with a key above `since` are newer than its own.

    `reread_ceilings` are the settings' ceilings as they were once the ledger was open: a ceiling
    that was lowered while this process started counts too. `bounds` are those of this process's
    environment, with the names of their variables: none of these ceilings is ever higher.
    """

    now: float
    owner: Owner
    since: int
    reread_ceilings: Mapping[Scope, int]
    bounds: Mapping[Scope, tuple[int, str]]


def hold(connection: Connection, bill: HoldRequest, here: LedgerContext) -> Hold:
    """Set money aside for a call. Raises BudgetExceeded."""
    granted = _decide_hold(connection, bill, _rooms_of_bill(connection, bill, here))
    granted = replace(granted, call=os.urandom(6).hex())
    day, month = _day_and_month(here.now)
    values = {
        "id": granted.call,
        "at": here.now,
        "changed": here.now,
        "day": day,
        "month": month,
        "run": clean_text(bill.run),
        "root": clean_text(bill.root) or None,
        "session": clean_text(bill.session),
        "token": clean_text(bill.client),
        "worker": clean_text(bill.worker),
        "provider": clean_text(bill.provider),
        "model": clean_text(bill.model),
        "purpose": bill.purpose.value,
        "status": Status.HELD.value,
        "held": granted.amount,
        "price": encode_price(bill.price),
        "keep": bill.keep,
        "owner": here.owner.pid,
        "started": here.owner.started,
    }
    columns, marks = ", ".join(values), ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO calls ({columns}) VALUES ({marks})", [*values.values()])
    return granted


def quote_hold(connection: Connection, bill: HoldRequest, here: LedgerContext) -> Hold:
    """Return what would be held, once it may wait for it. Raises BudgetExceeded."""
    try:
        return _decide_hold(connection, bill, _rooms_of_bill(connection, bill, here))
    except MoneyHeld:
        rooms = without_holds(_rooms_of_bill(connection, bill, here))
        return _decide_hold(connection, bill, rooms)


def _decide_hold(connection: Connection, bill: HoldRequest, rooms: Sequence[ScopeBalance]) -> Hold:
    reason, workers = _freezes(connection)
    if bill.price.is_free and clean_text(bill.worker) not in workers:
        reason = ""  # it can't spend, whatever was overcharged by others
    return decide_hold(_with_measured_thinking(connection, bill), rooms, reason)


def _rooms_of_bill(
    connection: Connection, bill: HoldRequest, here: LedgerContext
) -> list[ScopeBalance]:
    return _rooms(connection, bill.ceilings, _names_of_bill(bill), here)


def _names_of_bill(bill: HoldRequest) -> dict[Scope, str]:
    token = {Scope.TOKEN: clean_text(bill.client)} if bill.client else {}
    run, session = clean_text(bill.root or bill.run), clean_text(bill.session)
    return {Scope.RUN: run, Scope.SESSION: session, **token}


def hold_in_turn(
    connection: Connection, bill: HoldRequest, here: LedgerContext, ticket: int
) -> Hold | int:
    """Set money aside, or return the ticket (0: none yet) with which the call waits for it.

    In order of arrival; but a run that holds money never waits. Raises BudgetExceeded.
    """
    ahead = _call_ahead(connection, bill, here, ticket)
    if ahead is None:
        try:
            held = hold(connection, bill, here)
        except MoneyHeld as busy:
            scope = Scope(busy.scope)
            ahead = (scope.value, _scope_names(bill, here)[scope])
        else:
            leave_queue(connection, ticket)
            return held
    if ticket:
        return ticket
    values = [*ahead, here.now + bill.patience, here.owner.pid, here.owner.started]
    added = connection.execute(
        "INSERT INTO queue (scope, name, until, owner, started) VALUES (?, ?, ?, ?, ?)", values
    )
    return int(added.lastrowid or 0)


def is_turn_reached(
    connection: Connection, bill: HoldRequest, here: LedgerContext, ticket: int
) -> bool:
    """Whether a waiting call's turn has come: it gets its money, or is refused."""
    if _call_ahead(connection, bill, here, ticket) is not None:
        return False
    try:
        _decide_hold(connection, bill, _rooms_of_bill(connection, bill, here))
    except BudgetExceeded as error:
        return not isinstance(error, MoneyHeld)
    return True


def leave_queue(connection: Connection, ticket: int) -> None:
    connection.execute("DELETE FROM queue WHERE key = ?", [ticket])


def _call_ahead(
    connection: Connection, bill: HoldRequest, here: LedgerContext, ticket: int
) -> tuple[str, str] | None:
    """Return the scope and its name of a call that came before and waits for the same money."""
    rooms = _rooms_of_bill(connection, bill, here)
    if bill.price.is_free or any(room.held for room in rooms if room.scope is Scope.RUN):
        return None
    limited = {room.scope for room in rooms if room.ceiling is not None}
    rows = connection.execute(
        "SELECT scope, name FROM queue WHERE (key < ? OR ? = 0) AND until >= ? ORDER BY key",
        [ticket, ticket, here.now - _MAX_LATENESS_SECONDS],
    ).fetchall()
    names = {(s.value, n) for s, n in _scope_names(bill, here).items() if s in limited}
    return next((pair for row in rows if (pair := (row[0], row[1])) in names), None)


def _scope_names(bill: HoldRequest, here: LedgerContext) -> dict[Scope, str]:
    day, month = _day_and_month(here.now)
    return {**_names_of_bill(bill), Scope.DAY: day, Scope.MONTH: month}


def _with_measured_thinking(connection: Connection, bill: HoldRequest) -> HoldRequest:
    """Return the bill with the 99th percentile of what its worker's calls really cost.

    Thoughts count as text in `tokens_out`, so that is never too little for them.
    """
    if not bill.thinking:
        return bill
    rows = connection.execute(
        "SELECT tokens_out FROM calls WHERE worker = ? AND model = ? AND status = 'settled' "
        "ORDER BY key DESC LIMIT ?",
        [clean_text(bill.worker), clean_text(bill.model), _MAX_THINKING_CALLS],
    ).fetchall()
    if len(rows) < _MIN_THINKING_CALLS:
        return bill
    counts = sorted(row["tokens_out"] for row in rows)
    return replace(bill, thinking=max(1, counts[-(-99 * len(counts) // 100) - 1]))


def read_standing(
    connection: Connection,
    ceilings: Mapping[Scope, int],
    asked: Mapping[Scope, str | None],
    here: LedgerContext,
) -> Standing:
    names = {scope: clean_text(name) for scope, name in asked.items() if name is not None}
    rooms = _rooms(connection, ceilings, names, here)
    return Standing(tuple(rooms), freeze_reason(connection), names.get(Scope.TOKEN, ""))


def _day_and_month(now: float) -> tuple[str, str]:
    today = _today(now)
    return str(today), f"{today:%Y-%m}"


def _today(now: float) -> date:
    """Return the day it is here. Raises StoreError for a clock that is centuries off."""
    with suppress(ValueError, OverflowError, OSError):
        today = date.fromtimestamp(now)
        if _FIRST_YEAR <= today.year <= _LAST_YEAR:
            return today
    raise StoreError(
        f"This machine's clock is not between the years {_FIRST_YEAR} and {_LAST_YEAR}, so Baton "
        "can't say what was spent today; nothing was sent.",
        "Set the clock.",
    )


def _rooms(
    connection: Connection,
    ceilings: Mapping[Scope, int],
    names: Mapping[Scope, str],
    here: LedgerContext,
) -> list[ScopeBalance]:
    day, month = _day_and_month(here.now)
    names = {**names, Scope.DAY: day, Scope.MONTH: month}
    lowest = {s: min(ceilings.get(s, amount), amount) for s, amount in here.reread_ceilings.items()}
    rules = {**ceilings, **lowest, **_newer_ceilings(connection, here.since)}
    rooms = []
    for scope, name in names.items():
        row = connection.execute(
            "SELECT settled, held, unconfirmed FROM totals WHERE scope = ? AND name = ?",
            [scope.value, name],
        ).fetchone()
        amounts = zip(row or (0, 0, 0), _redated_sums(connection, scope, here.now), strict=True)
        ceiling, variable = _apply_bound(rules.get(scope), here.bounds.get(scope))
        settled, held, unconfirmed = map(sum, amounts)
        rooms.append(ScopeBalance(scope, ceiling, settled, held, unconfirmed, variable))
    return rooms


def _apply_bound(ceiling: int | None, bound: tuple[int, str] | None) -> tuple[int | None, str]:
    """Return the lower of a ceiling and the environment's, and the variable if that one rules."""
    if bound is None or (ceiling is not None and ceiling < bound[0]):
        return ceiling, ""
    return bound


def _redated_sums(connection: Connection, scope: Scope, now: float) -> Sequence[int]:
    """Return the sums of calls of this day or month that have another date.

    Another time zone gave it to them, or a clock that was up to a day ahead: neither is another
    day's money.
    """
    if scope not in (Scope.DAY, Scope.MONTH):
        return (0, 0, 0)
    today = _today(now)
    if scope is Scope.DAY:
        begin, end = today, today + _DAY
        # Two zones are at most 26 hours apart.
        names = [str(today + days * _DAY) for days in (-2, -1, 1, 2, 3)]
    else:
        begin = today.replace(day=1)
        end = (begin + 31 * _DAY).replace(day=1)
        names = [f"{day:%Y-%m}" for day in (begin - _DAY, end)]
    row: Row = connection.execute(
        f"SELECT {SUMS} FROM calls WHERE {scope.value} IN ({', '.join('?' * len(names))}) "
        "AND at >= ? AND at < ?",
        [*names, _midnight(begin), _midnight(end + _DAY)],
    ).fetchone()
    return [amount or 0 for amount in row]


def _midnight(day: date) -> float:
    return datetime.combine(day, datetime.min.time()).timestamp()


def _newer_ceilings(connection: Connection, since: int) -> dict[Scope, int | None]:
    """Return the ceilings that were set since this process read its own."""
    rows = connection.execute(
        "SELECT scope, amount FROM ceilings WHERE key > ? ORDER BY key", [since]
    )
    return {Scope(row["scope"]): row["amount"] for row in rows}


def freeze_reason(connection: Connection) -> str:
    """Return why the cloud is frozen, or ""."""
    return _freezes(connection)[0]


def _freezes(connection: Connection) -> tuple[str, set[str]]:
    """Return why the cloud is frozen, or "", and the workers that were meant to be free."""
    rows = connection.execute(
        """SELECT reason, worker FROM freezes
        WHERE key > coalesce((SELECT max(key) FROM freezes WHERE reason = ''), 0) ORDER BY key"""
    ).fetchall()
    return (rows[-1]["reason"] if rows else "", {row["worker"] for row in rows})


def settle_call(connection: Connection, call: str, used: BilledTokens, now: float) -> int:
    """Charge what the provider counted; freeze the cloud if that is more than was held.

    A count is charged however late it comes: after the call was taken for lost, or released.
    """
    row = _get_call(connection, call)
    status = Status(row["status"])
    is_open = status in (Status.HELD, Status.UNCONFIRMED, Status.RELEASED)
    if not is_open and not _was_taken_over(row, Status.VOID):
        raise _not_held_error(row)
    price = decode_price(row["price"])
    cost = min(price.cost(used), MAX_AMOUNT_NANOS)
    if cost > row["held"]:
        free = row["worker"] if price.is_free else ""
        why = overcharge_error(row["worker"], cost, row["held"]).message
        freeze(connection, why, now, free)
    settled = Status.SETTLED
    if status is Status.UNCONFIRMED:  # it was taken for lost: nothing is lowered now
        cost, settled = max(cost, row["charged"]), status
    tokens = (_bounded_count(used.tokens_in), _bounded_count(used.tokens_out))
    _update_call(connection, call, settled, cost, now, tokens)
    return cost


def charge_unconfirmed(
    connection: Connection, call: str, now: float, most: BilledTokens | None = None
) -> int:
    """Charge what the call costs at most, or all that was held; unconfirmed.

    More than was held freezes the cloud: the answer passed its cap. Nothing is charged if the call
    was taken for lost unsent.
    """
    row = _get_call(connection, call)
    status, cost, tokens = Status(row["status"]), int(row["held"]), (0, 0)
    if _was_taken_over(row, Status.VOID):
        return 0
    if status is not Status.HELD and not _was_taken_over(row, Status.RELEASED, Status.UNCONFIRMED):
        raise _not_held_error(row)
    if most is not None:
        tokens = (_bounded_count(most.tokens_in), _bounded_count(most.tokens_out))
        cost = min(decode_price(row["price"]).max_cost(*tokens), MAX_AMOUNT_NANOS)
    if cost > row["held"]:
        freeze(connection, overcharge_error(row["worker"], cost, row["held"]).message, now)
    if status is Status.UNCONFIRMED:  # it was taken for lost: nothing is lowered now
        cost = max(cost, row["charged"])
    _update_call(connection, call, Status.UNCONFIRMED, cost, now, tokens)
    return cost


def void_call(connection: Connection, call: str, now: float) -> None:
    row = _get_call(connection, call)
    if _was_taken_over(row, Status.VOID, Status.RELEASED):
        return
    if row["status"] != Status.HELD and not _was_taken_over(row, Status.UNCONFIRMED):
        raise _not_held_error(row)
    _update_call(connection, call, Status.VOID, 0, now)


def release_call(connection: Connection, call: str, now: float) -> int:
    """Take an unconfirmed charge back, at the user's word; return it. Raises ConfigError."""
    typed = clean_text(call.strip().lower())
    rows = connection.execute(
        "SELECT * FROM calls WHERE id >= ? AND id < ? LIMIT 2", [typed, typed + "\U0010ffff"]
    ).fetchall()
    if not typed or not rows:
        raise ConfigError(f"There is no call {call!r} in the ledger.", _LIST_HINT)
    if len(rows) > 1:
        raise ConfigError(f"More than one call begins with {typed!r}.", "Type more of it.")
    [row] = rows
    if row["status"] != Status.UNCONFIRMED:
        raise ConfigError(f"Call {row['id']} is {row['status']}, not unconfirmed.", _LIST_HINT)
    _update_call(connection, row["id"], Status.RELEASED, 0, now)
    charged: int = row["charged"]
    return charged


def release_all_calls(connection: Connection, now: float) -> int:
    """Take all unconfirmed charges back, at the user's word; return their sum."""
    rows = connection.execute("SELECT id FROM calls WHERE status = 'unconfirmed'").fetchall()
    return sum(release_call(connection, row["id"], now) for row in rows)


_LIST_HINT = "`baton budget release` lists the unconfirmed ones."


def record_sent(
    connection: Connection, call: str, destination: str, body: bytes, now: float
) -> None:
    """Record what is about to be sent: a hold is for one request that can cost anything.

    Another one may follow where those before it did not leave, or where nothing is ever charged.
    Raises StoreError if its money is no longer held.
    """
    row = _get_call(connection, call)
    if row["status"] != Status.HELD:
        if row["owner"] is not None:
            raise _not_held_error(row)
        raise StoreError(
            "Another Baton took this call for lost and gave its money back; nothing was sent.",
            "Try again.",
        )
    if not decode_price(row["price"]).is_free and connection.execute(_LEFT, [call]).fetchone():
        raise LookupError(f"call {call} was sent before; another request needs a hold of its own")
    import hashlib

    digest, kept = hashlib.sha256(body).hexdigest(), body if row["keep"] else None
    connection.execute(
        "INSERT INTO egress (call, at, destination, size, sha256, body) VALUES (?, ?, ?, ?, ?, ?)",
        [call, now, clean_text(destination), len(body), digest, kept],
    )


def record_unsent(connection: Connection, call: str, now: float) -> None:
    """Record that what `record_sent` announced last did not leave: no connection came about."""
    connection.execute(
        """INSERT INTO unsent_requests (egress, at)
            SELECT key, ? FROM egress WHERE call = ? ORDER BY key DESC LIMIT 1""",
        [now, call],
    )


_LEFT = """SELECT 1 FROM egress WHERE call = ?
    AND NOT EXISTS (SELECT 1 FROM unsent_requests WHERE egress = key)"""


def set_ceiling(connection: Connection, scope: Scope, amount: int | None, now: float) -> None:
    """Set a ceiling for every Baton that runs, or take it away."""
    connection.execute(
        "INSERT INTO ceilings (at, scope, amount) VALUES (?, ?, ?)", [now, scope.value, amount]
    )


def freeze(connection: Connection, reason: str, now: float, worker: str = "") -> None:
    """Refuse all that costs money, and the worker that was meant to be free, until a thaw."""
    connection.execute(
        "INSERT INTO freezes (at, reason, worker) VALUES (?, ?, ?)",
        [now, clean_text(reason), worker],
    )


def thaw(connection: Connection, now: float) -> bool:
    """Lift a freeze; return whether there was one."""
    frozen = bool(freeze_reason(connection))
    if frozen:
        freeze(connection, "", now)
    return frozen


def forget_bodies(connection: Connection, runs: list[str]) -> None:
    """Remove what these runs sent; its size and hash stay."""
    connection.executemany(
        "UPDATE egress SET body = NULL WHERE body IS NOT NULL "
        "AND call IN (SELECT id FROM calls WHERE run = ?)",
        [[clean_text(run)] for run in runs],
    )


def call_owners(connection: Connection) -> list[Owner]:
    """Return the processes that have calls on their way, or waiting."""
    rows = connection.execute(
        """SELECT owner, started FROM calls WHERE status = 'held'
        UNION SELECT owner, started FROM queue"""
    )
    return [Owner(*row) for row in rows]


def take_over_calls(connection: Connection, owner: Owner, now: float) -> None:
    """End the calls of a process that is gone: unconfirmed if anything was sent, else void."""
    connection.execute(
        """UPDATE calls SET owner = NULL, changed = ?,
            status = CASE WHEN id IN (SELECT call FROM egress) THEN 'unconfirmed' ELSE 'void' END,
            charged = (id IN (SELECT call FROM egress)) * held
        WHERE status = 'held' AND owner = ? AND started = ?""",
        [now, owner.pid, owner.started],
    )
    connection.execute(
        "DELETE FROM queue WHERE owner = ? AND started = ?", [owner.pid, owner.started]
    )


def _get_call(connection: Connection, call: str) -> Row:
    row: Row | None = connection.execute("SELECT * FROM calls WHERE id = ?", [call]).fetchone()
    if row is None:
        raise LookupError(f"the ledger has no call {call!r}")
    return row


def _was_taken_over(row: Row, *statuses: Status) -> bool:
    """Whether another Baton took the call for lost, and it now has one of these statuses."""
    return row["owner"] is None and row["status"] in statuses


def _not_held_error(row: Row) -> LookupError:
    return LookupError(f"call {row['id']} isn't held any more, it is {row['status']}")


def _update_call(
    connection: Connection,
    call: str,
    status: Status,
    charged: int,
    now: float,
    tokens: tuple[int, int] = (0, 0),
) -> None:
    connection.execute(
        "UPDATE calls SET status = ?, charged = ?, changed = ?, tokens_in = ?, tokens_out = ? "
        "WHERE id = ?",
        [status.value, charged, now, *tokens, call],
    )


def _bounded_count(tokens: int) -> int:
    """Return a provider's count within what a column can hold."""
    return max(0, min(tokens, MAX_AMOUNT_NANOS))
