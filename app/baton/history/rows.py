"""Between rows and the domain's types, and between events and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, get_args

import msgspec

from baton.core.errors import ConfigError, PlanError
from baton.core.events import Event
from baton.core.history_types import Conversation, RunRecord
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import Attachment, Role, Turn, TurnStatus
from baton.platform.sqlite import Connection, DatabaseDamaged, Row, clean_text

# A conversation may have thousands of turns, and a dictionary is ten times as quick as Role().
_ROLES = {role.value: role for role in Role}
_STATUSES = {status.value: status for status in TurnStatus}
_LABELS = {label.value: label for label in Label}

PATH_CONDITION = """id IN (
    WITH RECURSIVE path (id, parent) AS (
        SELECT id, parent FROM turns WHERE id = ?
        UNION SELECT turns.id, turns.parent FROM turns JOIN path ON turns.id = path.parent
        WHERE path.id IS NOT ?
    ) SELECT id FROM path)"""
"""The condition that picks a turn and everything before it, back to another one (NULL: to all)."""

EVENT_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


@contextmanager
def reject_bad_values() -> Iterator[None]:
    """Raise DatabaseDamaged for a value that no Baton ever wrote: SQLite can't notice each bit."""
    try:
        yield
    except (ValueError, LookupError, TypeError, PlanError) as error:
        raise DatabaseDamaged(str(error)) from error


def encode_json(value: object) -> str:
    """Return an event's fields (or any plain data) as JSON that SQLite can keep."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean_value(msgspec.to_builtins(value))).decode()


def decode_event(kind: str, data: str) -> Event:
    """Return an event from its class name and the JSON of its fields. Raises ValueError."""
    event: Event = _event_decoder(kind).decode(data)
    return event


@cache
def _event_decoder(kind: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(EVENT_TYPES[kind])


def _clean_value(value: Any) -> Any:
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {_clean_value(key): _clean_value(item) for key, item in value.items()}
        case list() | tuple():
            return [_clean_value(item) for item in value]
        case _:
            return value


_CONVERSATION = """
    SELECT c.id, c.title, c.label, c.created, c.updated,
        (SELECT count(*) FROM turns WHERE turns.conversation = c.id) AS turns,
        c.head, c.sent_from, c.system, c.policy, c.program
    FROM conversations AS c
"""


def conversations(connection: Connection, rest: str, *values: object) -> list[Conversation]:
    """Return the conversations (as `c`) that the rest of the query picks."""
    with reject_bad_values():
        return [
            Conversation(**{**dict(row), "label": Label(row["label"]), "policy": _policy(row)})
            for row in connection.execute(_CONVERSATION + rest, values)
        ]


def _policy(row: Row) -> Policy | None:
    return Policy(row["policy"]) if row["policy"] else None


def is_hidden(connection: Connection, conversation: str) -> bool:
    """Whether a conversation was deleted, and can still be brought back."""
    query = "SELECT 1 FROM conversations WHERE id = ? AND hidden_at IS NOT NULL"
    return connection.execute(query, [conversation]).fetchone() is not None


ANSWER_TEXT = """turns.text || CASE turns.status WHEN 'streaming' THEN coalesce((
    SELECT group_concat(piece.text, '' ORDER BY piece.start) FROM answer_pieces AS piece
    WHERE piece.turn = turns.key), '') ELSE '' END"""
"""The text of a turn, also of an answer that is being written."""

_TURNS = f"""SELECT id, conversation, parent, role, {ANSWER_TEXT}, status, label, created, worker,
    run FROM turns"""


def turns(
    connection: Connection, condition: str, *values: object, with_files: bool = True
) -> tuple[Turn, ...]:
    """Return the turns that fulfil an SQL condition, parents before children."""
    rows = connection.execute(f"{_TURNS} WHERE {condition} ORDER BY key", values).fetchall()
    with reject_bad_values():
        asked = [row["id"] for row in rows if row["role"] == "user" and with_files]
        files = _files(connection, asked)
        return tuple(_turn(row, files.get(row["id"], ())) for row in rows)


def _turn(row: Row, files: Iterable[Attachment]) -> Turn:
    id, conversation, parent, role, text, status, label, created, worker, run = row
    role, status, label = _ROLES[role], _STATUSES[status], _LABELS[label]
    files = tuple(files)
    return Turn(id, conversation, parent, role, text, status, label, created, worker, run, files)


def _files(connection: Connection, turns: list[str]) -> dict[str, list[Attachment]]:
    found: dict[str, list[Attachment]] = {}
    query = "SELECT * FROM files WHERE turn IN (SELECT value FROM json_each(?)) ORDER BY key"
    for row in connection.execute(query, [msgspec.json.encode(turns).decode()]):
        file = Attachment(row["name"], row["text"], row["size"], Label(row["label"]))
        found.setdefault(row["turn"], []).append(file)
    return found


_RUN_COLUMNS = "runs.id, runs.conversation, runs.prompt, runs.answer, runs.status, runs.created"


def runs(connection: Connection, rest: str, *values: object) -> list[RunRecord]:
    """Return the runs that the rest of the query picks, without their events."""
    with reject_bad_values():
        return [
            RunRecord(**dict(row), events=())
            for row in connection.execute(f"SELECT {_RUN_COLUMNS} FROM runs {rest}", values)
        ]


def events(connection: Connection, run: str) -> tuple[Event, ...]:
    """Return what a run left behind, in order."""
    query = "SELECT kind, data FROM events WHERE run = ? ORDER BY seq"
    with reject_bad_values():
        return tuple(
            decode_event(row["kind"], row["data"]) for row in connection.execute(query, [run])
        )


def find_id(connection: Connection, table: str, prefix: str, what: str) -> str:
    """Return the one id in a table that is, or begins with, what was typed.

    Deleted conversations and their runs aren't found. Raises ConfigError.
    """
    typed = prefix.strip().lower()
    column = "id" if table == "conversations" else "conversation"
    rows = connection.execute(
        f"""SELECT id FROM {table} WHERE id >= ? AND id < ? AND EXISTS (
            SELECT 1 FROM conversations AS c WHERE c.id = {table}.{column} AND c.hidden_at IS NULL
        ) ORDER BY id LIMIT 2""",
        [clean_text(typed), clean_text(typed) + "\U0010ffff"],
    ).fetchall()
    found = [row["id"] for row in rows]
    if not typed or not found:
        raise ConfigError(f"There is no {what} {prefix!r}.")
    if len(found) > 1 and found[0] != typed:
        raise ConfigError(f"More than one {what} begins with {typed!r}.", "Type more of it.")
    match: str = found[0]
    return match
