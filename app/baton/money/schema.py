"""The schema of the ledger, as a sequence of named migrations.

A call's row says how it stands now. Triggers write everything else that follows from it, in the
same transaction: an entry for each thing that happened to it, and the sums of its scopes.
What happened is never changed: of a row in `entries`, `ceilings`, `freezes` and `egress` nothing
but a body can go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from baton.platform.sqlite import Migration

_SCOPES = ("run", "session", "day", "month")
_STATUS = "CHECK (status IN ('held', 'settled', 'unconfirmed', 'released', 'void'))"


_SUMS = {"settled": "charged", "held": "held", "unconfirmed": "charged"}
"""For each status that counts, the column with the amount."""


def _amounts(row: str) -> list[str]:
    return [f"({row}.status = '{name}') * {row}.{column}" for name, column in _SUMS.items()]


def _add_up(
    amounts: Iterable[str], run: str = "new.run", scopes: Mapping[str, str] | None = None
) -> str:
    """Return what adds a call's amounts to the sums of its scopes; each has its name's column."""
    amount = ", ".join(amounts)
    names = scopes or {scope: run if scope == "run" else f"new.{scope}" for scope in _SCOPES}
    rows = ", ".join(f"('{scope}', {name}, {amount})" for scope, name in names.items())
    sums = ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)
    return f"INSERT INTO totals VALUES {rows} ON CONFLICT (scope, name) DO UPDATE SET {sums};"


_CHANGES = [" - ".join(both) for both in zip(_amounts("new"), _amounts("old"), strict=True)]

_ROOT = "coalesce({0}root, {0}run)"
"""The run that a call counts for: the first one of those that continued it."""

_ENTRY = """INSERT INTO entries (call, at, status, held, charged, tokens_in, tokens_out)
    VALUES (new.id, new.changed, new.status, new.held, new.charged, new.tokens_in, new.tokens_out);
"""


def _keep(table: str, when: str = "") -> tuple[str, ...]:
    return tuple(
        f"""CREATE TRIGGER {table}_stay_{what.lower()} BEFORE {what} ON {table}
        {when if what == "UPDATE" else ""} BEGIN
            SELECT RAISE(ABORT, 'what happened is never changed');
        END"""
        for what in ("UPDATE", "DELETE")
    )


_FIRST = Migration(
    "0001_money",
    (
        "CREATE TABLE migrations (name TEXT PRIMARY KEY, applied REAL NOT NULL) STRICT",
        # `price` is the whole price as JSON; `owner` is the process on whose way the call is (NULL
        # once another Baton found it gone), `started` when that process began; `keep` is whether
        # what is sent may be kept. `day` and `month` are the user's own at the hold.
        f"""CREATE TABLE calls (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            at REAL NOT NULL,
            changed REAL NOT NULL,
            day TEXT NOT NULL,
            month TEXT NOT NULL,
            run TEXT NOT NULL,
            session TEXT NOT NULL,
            worker TEXT NOT NULL,
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            purpose TEXT NOT NULL,
            status TEXT NOT NULL {_STATUS},
            held INTEGER NOT NULL CHECK (held >= 0),
            charged INTEGER NOT NULL DEFAULT 0 CHECK (charged >= 0),
            tokens_in INTEGER NOT NULL DEFAULT 0 CHECK (tokens_in >= 0),
            tokens_out INTEGER NOT NULL DEFAULT 0 CHECK (tokens_out >= 0),
            price TEXT NOT NULL,
            keep INTEGER NOT NULL,
            owner INTEGER,
            started REAL NOT NULL
        ) STRICT""",
        "CREATE INDEX calls_by_run ON calls (run)",
        "CREATE INDEX calls_by_time ON calls (at)",
        "CREATE INDEX calls_on_their_way ON calls (owner, started) WHERE status = 'held'",
        "CREATE INDEX calls_unconfirmed ON calls (key) WHERE status = 'unconfirmed'",
        """CREATE TABLE entries (
            key INTEGER PRIMARY KEY,
            call TEXT NOT NULL REFERENCES calls (id),
            at REAL NOT NULL,
            status TEXT NOT NULL,
            held INTEGER NOT NULL,
            charged INTEGER NOT NULL,
            tokens_in INTEGER NOT NULL,
            tokens_out INTEGER NOT NULL
        ) STRICT""",
        """CREATE TABLE totals (
            scope TEXT NOT NULL,
            name TEXT NOT NULL,
            settled INTEGER NOT NULL,
            held INTEGER NOT NULL,
            unconfirmed INTEGER NOT NULL,
            PRIMARY KEY (scope, name)
        ) STRICT, WITHOUT ROWID""",
        # `amount` NULL: no ceiling.
        """CREATE TABLE ceilings (
            key INTEGER PRIMARY KEY,
            at REAL NOT NULL,
            scope TEXT NOT NULL CHECK (scope IN ('session', 'day', 'month')),
            amount INTEGER CHECK (amount >= 0)
        ) STRICT""",
        # `reason` '' is a thaw. `worker` is one that charged and was meant to be free, or ''.
        """CREATE TABLE freezes (
            key INTEGER PRIMARY KEY,
            at REAL NOT NULL,
            reason TEXT NOT NULL,
            worker TEXT NOT NULL
        ) STRICT""",
        """CREATE TABLE egress (
            key INTEGER PRIMARY KEY,
            call TEXT NOT NULL REFERENCES calls (id),
            at REAL NOT NULL,
            destination TEXT NOT NULL,
            size INTEGER NOT NULL,
            sha256 TEXT NOT NULL,
            body BLOB
        ) STRICT""",
        "CREATE INDEX egress_by_call ON egress (call)",
        f"""CREATE TRIGGER calls_held AFTER INSERT ON calls BEGIN
            {_ENTRY}
            {_add_up(_amounts("new"))}
        END""",
        f"""CREATE TRIGGER calls_moved AFTER UPDATE OF status, charged ON calls BEGIN
            {_ENTRY}
            {_add_up(_CHANGES)}
        END""",
        """CREATE TRIGGER calls_stay BEFORE DELETE ON calls BEGIN
            SELECT RAISE(ABORT, 'what happened is never changed');
        END""",
        *_keep("entries"),
        *_keep("ceilings"),
        *_keep("freezes"),
        *_keep(
            "egress",
            """WHEN new.body IS NOT NULL
                OR (new.key, new.call, new.at, new.destination, new.size, new.sha256)
                IS NOT (old.key, old.call, old.at, old.destination, old.size, old.sha256)""",
        ),
    ),
)

_PROGRESS = Migration(
    "0002_progress",
    (
        # Which ledger this is: records outside of it name it and say how far it had come.
        "CREATE TABLE identity (id TEXT NOT NULL) STRICT",
        "INSERT INTO identity VALUES (hex(randomblob(8)))",
        *_keep("identity"),
        "CREATE INDEX calls_by_day ON calls (day, at)",
        "CREATE INDEX calls_by_month ON calls (month, at)",
        # `root` is the run that this call's run continues, whose ceiling it shares; NULL: none.
        "ALTER TABLE calls ADD COLUMN root TEXT",
        "DROP TRIGGER calls_held",
        "DROP TRIGGER calls_moved",
        f"""CREATE TRIGGER calls_held AFTER INSERT ON calls BEGIN
            {_ENTRY}
            {_add_up(_amounts("new"), _ROOT.format("new."))}
        END""",
        f"""CREATE TRIGGER calls_moved AFTER UPDATE OF status, charged ON calls BEGIN
            {_ENTRY}
            {_add_up(_CHANGES, _ROOT.format("new."))}
        END""",
    ),
)

_QUEUE = Migration(
    "0003_queue",
    (
        # Calls that wait for money that other runs hold, in order of arrival; `name` is that of the
        # `scope` (a day, for example) whose money it is. `until` is when it stops waiting.
        """CREATE TABLE queue (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            scope TEXT NOT NULL,
            name TEXT NOT NULL,
            until REAL NOT NULL,
            owner INTEGER NOT NULL,
            started REAL NOT NULL
        ) STRICT""",
        "CREATE INDEX calls_by_worker ON calls (worker, key) WHERE status = 'settled'",
    ),
)

_UNSENT = Migration(
    "0004_unsent",
    (
        # Calls whose request is in `egress`, as it was recorded first, but never left.
        """CREATE TABLE unsent (
            call TEXT PRIMARY KEY REFERENCES calls (id),
            at REAL NOT NULL
        ) STRICT, WITHOUT ROWID""",
        *_keep("unsent"),
    ),
)

_UNSENT_REQUESTS = Migration(
    "0005_unsent_requests",
    (
        # Requests in `egress` that never left: a call may have several, each to another address.
        """CREATE TABLE unsent_requests (
            egress INTEGER PRIMARY KEY REFERENCES egress (key),
            at REAL NOT NULL
        ) STRICT""",
        """INSERT INTO unsent_requests (egress, at)
            SELECT egress.key, unsent.at FROM unsent JOIN egress ON egress.call = unsent.call""",
        "DROP TABLE unsent",
        *_keep("unsent_requests"),
    ),
)

_TOKENS = Migration(
    "0006_tokens",
    (
        # `token` is the id of the access token of the endpoint whose ceiling the call counts for,
        # in all Batons that serve; '' is the user's own call.
        "ALTER TABLE calls ADD COLUMN token TEXT NOT NULL DEFAULT ''",
        *(
            f"""CREATE TRIGGER {trigger}_for_token AFTER {change} ON calls
            WHEN new.token <> '' BEGIN {_add_up(amounts, scopes={"token": "new.token"})} END"""
            for trigger, change, amounts in (
                ("calls_held", "INSERT", _amounts("new")),
                ("calls_moved", "UPDATE OF status, charged", _CHANGES),
            )
        ),
    ),
)

MIGRATIONS: tuple[Migration, ...] = (
    _FIRST,
    _PROGRESS,
    _QUEUE,
    _UNSENT,
    _UNSENT_REQUESTS,
    _TOKENS,
)

SUMS = ", ".join(f"sum({amount})" for amount in _amounts("calls"))
"""Sums of calls: settled, held, unconfirmed."""

_SUMS_OF_CALLS = " UNION ALL ".join(
    f"SELECT '{scope}', {name}, {SUMS} FROM calls GROUP BY {name}"
    for scope, name in {**dict(zip(_SCOPES, _SCOPES, strict=True)), "run": _ROOT.format("")}.items()
)
_SUMS_OF_CALLS += (
    f" UNION ALL SELECT 'token', token, {SUMS} FROM calls WHERE token <> '' GROUP BY token"
)

WRONG_SUMS = (
    f"SELECT * FROM (SELECT * FROM totals EXCEPT SELECT * FROM ({_SUMS_OF_CALLS})) UNION ALL "
    + (f"SELECT * FROM (SELECT * FROM ({_SUMS_OF_CALLS}) EXCEPT SELECT * FROM totals)")
)
"""Finds the sums that differ from those of the calls, and calls that aren't in any."""
