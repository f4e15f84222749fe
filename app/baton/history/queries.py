"""Reads the history: conversations, threads, runs, prompts, and the user's SQL."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from baton.core.errors import ConfigError
from baton.core.history_types import (
    Conversation,
    PastRun,
    RecentConversation,
    RunRecord,
    Weighing,
)
from baton.core.labels import Label
from baton.core.ledger_types import UsageRow
from baton.core.messages import Turn, TurnStatus
from baton.history import rows
from baton.history.feedback_store import signals_of_turns
from baton.platform.sqlite import (
    Connection,
    Row,
    connect,
    explain_errors,
    sqlite3,
    utils_database,
)

_MAX_PROMPT_CHARS = 20_000
"""How many characters of a prompt are read: the rest of a long one says no more of it."""

_VISIBLE = "JOIN conversations AS c ON c.id = runs.conversation AND c.hidden_at IS NULL"


def conversations(
    connection: Connection, limit: int, of_programs: bool | None = None
) -> list[Conversation]:
    """Return the conversations that aren't deleted, the latest first; see `Store`."""
    chosen = {None: "", True: "AND c.program <> ''", False: _OWN}[of_programs]
    rest = f"WHERE c.hidden_at IS NULL {chosen} ORDER BY c.updated DESC, c.key DESC LIMIT ?"
    return rows.conversations(connection, rest, limit)


_OWN = "AND c.program = ''"


def conversation(connection: Connection, typed: str) -> Conversation:
    """Return the conversation with that id, or whose id begins so. Raises ConfigError."""
    found = rows.find_id(connection, "conversations", typed, "conversation")
    return rows.conversations(connection, "WHERE c.id = ?", found)[0]


def find_conversations(connection: Connection, names: Sequence[str]) -> list[Conversation]:
    """Return the conversation of each number among the user's own (from 1), title, id, or part.

    In this order; parts are an id's beginning and words of a title. Raises ConfigError where none
    or several are meant.
    """
    known = conversations(connection, _ALL)
    own = [one for one in known if not one.program]
    exact: dict[str, Conversation] = {}
    for one in known:
        exact.setdefault(_plain_name(one.title), one)
        exact.setdefault(one.id, one)
    return [_find_conversation(named, known, own, exact) for named in names]


def _plain_name(name: str) -> str:
    return " ".join(name.split()).casefold()


def _find_conversation(
    named: str,
    known: Sequence[Conversation],
    own: Sequence[Conversation],
    exact: Mapping[str, Conversation],
) -> Conversation:
    typed = _plain_name(named)
    if typed.isdecimal() and len(typed) <= _MAX_NUMBER_DIGITS and 0 < int(typed) <= len(own):
        return own[int(typed) - 1]
    found = [exact[typed]] if typed in exact and typed else []
    if typed and not (typed.isdecimal() and len(typed) < _MIN_PART_DIGITS):
        found = found or [one for one in known if one.id.startswith(typed)]
        found = found or [one for one in known if typed in _plain_name(one.title)]
    if not found:
        raise ConfigError(f"There is no conversation {named!r}.", _LIST_HINT)
    if len(found) > 1:
        listed = ", ".join(one.id for one in found[:5])
        raise ConfigError(f"More than one conversation is {named!r}: {listed}.", _LIST_HINT)
    return found[0]


_ALL = 10**9
_MAX_NUMBER_DIGITS = 5
_MIN_PART_DIGITS = 4  # fewer are a number in the list, even one that it doesn't have
_LIST_HINT = "`baton history ls` lists them."


def thread(connection: Connection, conversation: str, leaf: str | None) -> tuple[Turn, ...]:
    """Return the branch that ends in `leaf` (None: the one last looked at), oldest first."""
    row = connection.execute(
        "SELECT head FROM conversations WHERE id = ?", [conversation]
    ).fetchone()
    if row is None:
        raise ConfigError(f"There is no conversation {conversation!r}.")
    turns = rows.turns(connection, rows.PATH_CONDITION, leaf or row["head"], None)
    if leaf and (not turns or turns[-1].conversation != conversation):
        raise ConfigError(f"There is no message {leaf!r} in this conversation.")
    return turns


def turns(connection: Connection, ids: Sequence[str]) -> tuple[Turn, ...]:
    """Return the turns with these ids that are there, parents before children."""
    return rows.turns(connection, _LISTED_IDS, rows.encode_json(list(ids)))


_LISTED_IDS = "id IN (SELECT value FROM json_each(?))"


def turn_position(connection: Connection, turn: str) -> Row:
    """Return a turn's conversation and parent. Raises ConfigError."""
    row: Row | None = connection.execute(
        "SELECT conversation, parent FROM turns WHERE id = ?", [turn]
    ).fetchone()
    if row is None:
        raise ConfigError(f"There is no message {turn!r}.")
    return row


def siblings(connection: Connection, turn: str) -> tuple[str, ...]:
    """Return the turns in the same place, itself among them, oldest first. Raises ConfigError."""
    turn_position(connection, turn)
    return versions(connection, [turn])[turn]


def versions(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return for each turn those that stand in the same place, itself among them, oldest first."""
    found: dict[str, list[str]] = {}
    for turn, other in connection.execute(
        """SELECT value, other.id FROM json_each(?) JOIN turns AS own ON own.id = value
        CROSS JOIN turns AS other ON other.parent IS own.parent
            AND other.conversation = own.conversation ORDER BY other.key""",
        [rows.encode_json(list(ids))],
    ):
        found.setdefault(turn, []).append(other)
    return {turn: tuple(found.get(turn, (turn,))) for turn in ids}


def run(connection: Connection, typed: str) -> RunRecord:
    """Return the run with that id, or whose id begins so, and its events. Raises ConfigError."""
    found = rows.find_id(connection, "runs", typed, "run")
    [record] = rows.runs(connection, "WHERE id = ?", found)
    return replace(record, events=rows.events(connection, found))


def last_run(connection: Connection, conversation: str | None) -> RunRecord | None:
    """Return the newest run (of one conversation) and its events."""
    rest, values = f"{_VISIBLE} ORDER BY runs.key DESC LIMIT 1", []
    if conversation is not None:
        rest, values = f"{_VISIBLE} AND c.id = ? ORDER BY runs.key DESC LIMIT 1", [conversation]
    for record in rows.runs(connection, rest, *values):
        return replace(record, events=rows.events(connection, record.id))
    return None


def runs(connection: Connection, limit: int) -> list[RunRecord]:
    """Return the newest runs, newest first, without their events."""
    return rows.runs(connection, f"{_VISIBLE} ORDER BY runs.key DESC LIMIT ?", limit)


def runs_of(connection: Connection, conversations: Sequence[str]) -> list[str]:
    """Return the ids of the runs of these conversations."""
    found = connection.execute(
        "SELECT id FROM runs WHERE conversation IN (SELECT value FROM json_each(?)) ORDER BY key",
        [rows.encode_json(list(conversations))],
    )
    return [row["id"] for row in found]


def recent_conversations(connection: Connection, limit: int) -> list[RecentConversation]:
    """Return the user's conversations that were used last, the latest first, with their ends."""
    found = connection.execute(
        f"""SELECT turns.run, c.id, c.title, c.updated, turns.id, turns.status, (
            SELECT coalesce(sum(cost), 0) FROM runs JOIN calls ON calls.run = runs.id
            WHERE runs.conversation = c.id
        )
        FROM conversations AS c JOIN turns ON turns.id = c.head
        WHERE c.hidden_at IS NULL {_OWN} ORDER BY c.updated DESC, c.key DESC LIMIT ?""",
        [limit],
    ).fetchall()
    with rows.reject_bad_values():
        recent = [
            RecentConversation(id, title, updated, turn, TurnStatus(status), int(cost))
            for _, id, title, updated, turn, status, cost in found
        ]
    return [
        one if one.status in _CALM_STATUSES else replace(one, run=_run_of(connection, row["run"]))
        for one, row in zip(recent, found, strict=True)
    ]


_CALM_STATUSES = (TurnStatus.DONE, TurnStatus.STREAMING)


def _run_of(connection: Connection, id: str | None) -> RunRecord | None:
    found = rows.runs(connection, "WHERE id = ?", id)
    return replace(found[0], events=rows.events(connection, found[0].id)) if found else None


_MAX_WEIGHINGS = 1000
_DAY_SECONDS = 86400
_MONTH_SECONDS = 31 * _DAY_SECONDS


def recent_weighings(connection: Connection) -> list[Weighing]:
    """Return when help was weighed in the last month, the newest times, oldest first.

    A prompt for which it was weighed twice counts once, as it was decided in the end. Those of
    conversations that are hidden count as well: their money was spent.
    """
    now = time.time()
    found = connection.execute(
        """SELECT runs.created + (data ->> 'at') AS at, runs.conversation, data ->> 'gain' AS gain,
            data ->> 'cost' AS cost, data ->> 'ok' AS ok
        FROM runs JOIN events ON events.run = runs.id AND events.kind = 'Weighed'
        WHERE runs.created BETWEEN ? AND ? AND data ->> 'cost' > 0
            AND data ->> 'at' BETWEEN 0 AND ? AND seq = (
                SELECT max(seq) FROM events AS last
                WHERE last.run = runs.id AND last.kind = 'Weighed' AND last.data ->> 'cost' > 0
            )
        ORDER BY runs.key DESC, seq DESC LIMIT ?""",
        [now - _MONTH_SECONDS, now + _DAY_SECONDS, _MONTH_SECONDS, _MAX_WEIGHINGS],
    )
    with rows.reject_bad_values():
        newest = [
            Weighing(float(at), where, float(gain), int(cost), bool(ok))
            for at, where, gain, cost, ok in found
        ]
    return newest[::-1]


_RECENT_RUNS = 500
_MAX_MEASURED_CALLS = 20
_MEASURABLE_TOKENS = range(8, 1_000_000)


_USAGE_COLUMNS = {
    "day": "date(created + at, 'unixepoch', 'localtime')",
    "worker": "data ->> 'worker'",
    "purpose": "data ->> 'purpose'",
}


def local_usage(connection: Connection, by: str, since: float | None) -> list[UsageRow]:
    """Return the sums of calls that no ledger holds, since they cost nothing; by name."""
    found = connection.execute(
        f"""SELECT {_USAGE_COLUMNS[by]} AS name, count(*), sum(data ->> 'tokens_in'),
            sum(data ->> 'tokens_out')
        FROM (
            SELECT runs.created, data, min(max(coalesce(data ->> 'at', 0), 0), ?) AS at
            FROM runs JOIN events ON events.run = runs.id
            WHERE events.kind = 'Called' AND coalesce(data ->> 'call', '') = ''
        ) WHERE created + at >= ? GROUP BY name ORDER BY name""",
        [_MONTH_SECONDS, since or 0],
    )
    with rows.reject_bad_values():
        return [UsageRow(str(name), int(n), int(i), int(o), 0, 0) for name, n, i, o in found]


def worker_usage(connection: Connection) -> dict[str, tuple[float | None, float]]:
    """Return how fast workers wrote in their newest calls, and when they were called last.

    In tokens/s (None: nothing long enough was written) and seconds since the epoch; those that had
    no call in the newest runs are not there.
    """
    now = time.time()
    found = connection.execute(
        """SELECT data ->> 'worker' AS worker, newest.created, data ->> 'at' AS at,
            data ->> 'tokens_out' AS tokens, (data ->> 'seconds') - (data ->> 'first_token') AS took
        FROM (SELECT key, id, created FROM runs ORDER BY key DESC LIMIT ?) AS newest
        JOIN events ON events.run = newest.id AND events.kind = 'Called'
        ORDER BY newest.key DESC, seq DESC""",
        [_RECENT_RUNS],
    )
    last: dict[str, float] = {}
    wrote: dict[str, list[tuple[int, float]]] = {}
    with rows.reject_bad_values():
        for worker, created, at, tokens, took in found:
            after = at if 0 <= at <= _MONTH_SECONDS else 0  # an import may say anything
            last[worker] = max(last.get(worker, 0.0), min(created + after, now))
            calls = wrote.setdefault(worker, [])
            if (
                tokens in _MEASURABLE_TOKENS
                and took is not None
                and took > 0
                and len(calls) < _MAX_MEASURED_CALLS
            ):
                calls.append((tokens, took))
    return {worker: (_speed(wrote[worker]), at) for worker, at in last.items()}


def _speed(calls: list[tuple[int, float]]) -> float | None:
    """Return tokens per second; the first token of a call came before its time began."""
    seconds = sum(took for _, took in calls)
    return sum(tokens - 1 for tokens, _ in calls) / seconds if seconds else None


def hidden_runs(connection: Connection, older_than_seconds: float) -> list[str]:
    """Return the ids of the runs of conversations that were deleted so long ago."""
    found = connection.execute(
        """SELECT runs.id FROM runs JOIN conversations AS c ON c.id = runs.conversation
        WHERE c.hidden_at <= ? ORDER BY runs.key""",
        [time.time() - older_than_seconds],
    )
    return [row["id"] for row in found]


def recent_prompts(connection: Connection, limit: int) -> list[str]:
    """Return what the user asked last, each text once, the newest last."""
    found: dict[str, None] = {}
    newest = connection.execute(
        """SELECT text FROM (
            SELECT turns.text, turns.created FROM turns
            JOIN conversations AS c ON c.id = turns.conversation AND c.hidden_at IS NULL
            WHERE role = 'user' AND client = '' ORDER BY turns.key DESC LIMIT ?
        ) ORDER BY created DESC""",  # keys of one millisecond are in any order
        [limit * 10],
    )
    for row in newest:
        found.setdefault(row["text"])
        if len(found) == limit:
            break
    return list(reversed(found))


def draft(connection: Connection, conversation: str) -> str:
    """Return what was typed there and not sent."""
    row = connection.execute(
        "SELECT text FROM drafts WHERE conversation = ?", [conversation]
    ).fetchone()
    return row["text"] if row else ""


def past_runs(connection: Connection, since: float, limit: int) -> list[PastRun]:
    """Return the newest finished runs since then, oldest first; none of deleted conversations."""
    prompts = {
        row["id"]: (row["asked"], row["label"])
        for row in connection.execute(
            """SELECT runs.id, substr(turns.text, 1, ?) AS asked, c.label FROM runs
            JOIN conversations AS c ON c.id = runs.conversation AND c.hidden_at IS NULL
            JOIN turns ON turns.id = runs.prompt
            WHERE runs.created >= ? AND runs.status = 'finished'
            ORDER BY runs.key DESC LIMIT ?""",
            [_MAX_PROMPT_CHARS, since, limit],
        )
    }
    wanted = f"WHERE {_LISTED_IDS} ORDER BY key"
    found = rows.runs(connection, wanted, rows.encode_json(list(prompts)))
    done = signals_of_turns(connection, [record.answer for record in found])
    with rows.reject_bad_values():
        return [
            PastRun(
                replace(record, events=rows.events(connection, record.id)),
                prompts[record.id][0],
                Label(prompts[record.id][1]),
                done.get(record.answer, {}),
            )
            for record in found
        ]


# What the user asks in SQL


def query_rows(path: Path, sql: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of an SQL query by column; the file is opened for reading only.

    Raises ConfigError for what isn't a query, or would change anything.
    """
    # Some of them write; as functions, they can be selected.
    if sql.lstrip()[:6].upper() == "PRAGMA":
        raise ConfigError("A PRAGMA is not run.", _READS_ONLY)
    with explain_errors(path), closing(connect(path, "ro")) as connection:
        connection.execute("PRAGMA query_only = ON")  # also for what the query attaches
        database = utils_database(connection)
        try:
            yield from database.query(sql)
        except (sqlite3.Error, sqlite3.Warning) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code == sqlite3.SQLITE_READONLY:
                raise ConfigError(
                    "This query would change the history, so it was not run.", _READS_ONLY
                ) from error
            if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH):
                raise ConfigError(f"This query can't be run: {error}.", _TABLES_HINT) from error
            raise
        except ValueError as error:
            raise ConfigError("This isn't a query: it returns no rows.", _READS_ONLY) from error


_READS_ONLY = "`baton history query` only reads: begin with SELECT."
_TABLES_HINT = '`baton history query "SELECT sql FROM sqlite_schema"` shows tables and columns.'
