"""What front ends look at: conversations, threads of turns, runs, earlier prompts."""

from __future__ import annotations

import time
from dataclasses import replace

from baton.core.errors import ConfigError
from baton.core.history_types import Conversation, RunRecord, Weighing
from baton.core.messages import Turn
from baton.history import rows
from baton.platform.sqlite import Connection, Row

_VISIBLE = "JOIN conversations AS c ON c.id = runs.conversation AND c.hidden_at IS NULL"


def conversations(connection: Connection, limit: int) -> list[Conversation]:
    """Return the conversations that aren't deleted, the latest first."""
    rest = "WHERE c.hidden_at IS NULL ORDER BY c.updated DESC, c.key DESC LIMIT ?"
    return rows.conversations(connection, rest, limit)


def conversation(connection: Connection, typed: str) -> Conversation:
    """Return the conversation with that id, or whose id begins so. Raises ConfigError."""
    found = rows.find(connection, "conversations", typed, "conversation")
    return rows.conversations(connection, "WHERE c.id = ?", found)[0]


def thread(connection: Connection, conversation: str, leaf: str | None) -> tuple[Turn, ...]:
    """Return the branch that ends in `leaf` (None: the one last looked at), oldest first."""
    row = connection.execute(
        "SELECT head FROM conversations WHERE id = ?", [conversation]
    ).fetchone()
    if row is None:
        raise ConfigError(f"There is no conversation {conversation!r}.")
    turns = rows.turns(connection, rows.PATH, leaf or row["head"], None)
    if leaf and (not turns or turns[-1].conversation != conversation):
        raise ConfigError(f"There is no message {leaf!r} in this conversation.")
    return turns


def place_of(connection: Connection, turn: str) -> Row:
    """Return a turn's conversation and parent. Raises ConfigError."""
    row: Row | None = connection.execute(
        "SELECT conversation, parent FROM turns WHERE id = ?", [turn]
    ).fetchone()
    if row is None:
        raise ConfigError(f"There is no message {turn!r}.")
    return row


def siblings(connection: Connection, turn: str) -> tuple[str, ...]:
    """Return the turns that stand in the same place, the given one among them, oldest first."""
    found = connection.execute(
        "SELECT id FROM turns WHERE conversation = ? AND parent IS ? ORDER BY key",
        [*place_of(connection, turn)],
    )
    return tuple(row["id"] for row in found)


def run(connection: Connection, typed: str) -> RunRecord:
    """Return the run with that id, or whose id begins so, and its events. Raises ConfigError."""
    found = rows.find(connection, "runs", typed, "run")
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


_WEIGHED = 1000
_DAY = 86400
_MONTH = 31 * _DAY


def weighed(connection: Connection) -> list[Weighing]:
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
        [now - _MONTH, now + _DAY, _MONTH, _WEIGHED],
    )
    with rows.genuine():
        newest = [
            Weighing(float(at), where, float(gain), int(cost), bool(ok))
            for at, where, gain, cost, ok in found
        ]
    return newest[::-1]


_RECENT = 500
_MEASURED = 20
_TELLING = range(8, 1_000_000)


def use_of_workers(connection: Connection) -> dict[str, tuple[float | None, float]]:
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
        [_RECENT],
    )
    last: dict[str, float] = {}
    wrote: dict[str, list[tuple[int, float]]] = {}
    with rows.genuine():
        for worker, created, at, tokens, took in found:
            after = at if 0 <= at <= _MONTH else 0  # an import may say anything
            last[worker] = max(last.get(worker, 0.0), min(created + after, now))
            calls = wrote.setdefault(worker, [])
            if tokens in _TELLING and took is not None and took > 0 and len(calls) < _MEASURED:
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
    """Return what was asked last, each text once, the newest last."""
    found: dict[str, None] = {}
    newest = connection.execute(
        """SELECT turns.text FROM turns
        JOIN conversations AS c ON c.id = turns.conversation AND c.hidden_at IS NULL
        WHERE role = 'user' ORDER BY turns.key DESC LIMIT ?""",
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
