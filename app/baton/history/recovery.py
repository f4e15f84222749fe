"""Reads a history that isn't as this Baton makes it: damaged, of another Baton, short of a column.

What is missing is put in by temporary views over the tables, so that every query finds all that it
names. What can't be read is left out, turn by turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from baton.core.errors import BatonError
from baton.core.labels import Label, strictest
from baton.core.messages import Role, Turn, conversation_title
from baton.history import export, rows
from baton.history.schema import MIGRATIONS
from baton.platform.sqlite import (
    Connection,
    connect,
    open_in_memory,
    sqlite3,
    transaction,
)

_OF_CONVERSATION = "FROM main.turns WHERE conversation = own.id ORDER BY key"
_OWN_VALUES = {
    ("turns", "id"): "printf('%012x', key)",
    ("turns", "parent"): "lag(id) OVER (PARTITION BY conversation ORDER BY key)",
    ("turns", "role"): "CASE WHEN run IS NULL AND worker = '' THEN 'user' ELSE 'assistant' END",
    ("turns", "created"): "key / 1000.0",
    ("conversations", "id"): "(SELECT conversation FROM main.turns WHERE turns.id = own.head)",
    ("conversations", "title"): f"(SELECT substr(text, 1, 60) {_OF_CONVERSATION} LIMIT 1)",
    ("conversations", "head"): f"(SELECT id {_OF_CONVERSATION} DESC LIMIT 1)",
    ("conversations", "created"): f"(SELECT created {_OF_CONVERSATION} LIMIT 1)",
    ("conversations", "updated"): f"(SELECT created {_OF_CONVERSATION} DESC LIMIT 1)",
}
_USUAL_VALUES = {"label": f"'{Label.LOCAL}'", "status": "'done'", "TEXT": "''"}
"""What stands in for a column that is missing, by its name or type; the strictest of labels."""


def complete_schema(connection: Connection) -> None:
    """Let a connection to a database of any Baton find all tables and columns of this one."""
    with closing(open_in_memory(MIGRATIONS)) as newest:
        tables = newest.execute(
            "SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main'"
        )
        for (table,) in tables.fetchall():
            _complete_table(connection, newest, table)
        [calls] = newest.execute("SELECT sql FROM sqlite_schema WHERE name = 'calls'").fetchone()
    connection.execute(calls.replace("CREATE VIEW", "CREATE TEMP VIEW", 1))


def _complete_table(connection: Connection, newest: Connection, table: str) -> None:
    columns = "SELECT * FROM pragma_table_info(?)"
    there = {row["name"] for row in connection.execute(columns, [table])}
    wanted = newest.execute(columns, [table]).fetchall()
    kinds = ", ".join(f"'{kind}'" for kind in rows.EVENT_TYPES)
    condition = f"WHERE kind IN ({kinds})" if table == "events" else ""
    if {row["name"] for row in wanted} <= there and not condition:
        return
    values = []
    for row in wanted:
        name, usual = row["name"], row["dflt_value"] or ("0" if row["notnull"] else "NULL")
        for known in (row["type"] if row["notnull"] else "", name):
            usual = _USUAL_VALUES.get(known, usual)
        usual = _OWN_VALUES.get((table, name), usual) if there else "NULL"
        values.append(name if name in there else f"{usual} AS {name}")
    source = f"main.{table} AS own {condition}" if there else "(SELECT 1) WHERE 0"
    connection.execute(f"CREATE TEMP VIEW {table} AS SELECT {', '.join(values)} FROM {source}")


def recover_conversations(aside: Path, connection: Connection) -> str:
    """Copy what can be read of every conversation; return in words how many those were."""
    whole = parts = 0
    with suppress(BatonError, sqlite3.Error), closing(connect(aside, mode="ro")) as broken:
        # What is kept stays as it was found.
        complete_schema(broken)
        for id in _conversations(broken):
            # What was done with answers may be what can't be read; an older Baton kept none of it.
            if any(_copy(broken, connection, id, marked) for marked in (True, False)):
                whole += 1
            else:
                parts += _copy_turns(broken, connection, id)
    if not whole + parts:
        return "nothing in it could be read"
    count = "1 conversation was" if whole + parts == 1 else f"{whole + parts} conversations were"
    return f"{count} recovered" + (f", {parts} of them in part" if parts else "")


def _conversations(broken: Connection) -> list[str]:
    known = _readable(broken, "SELECT key, id FROM conversations WHERE hidden_at IS NULL")
    hidden = _readable(broken, "SELECT key, id FROM conversations WHERE hidden_at IS NOT NULL")
    said = _readable(broken, "SELECT min(key), conversation FROM turns GROUP BY conversation")
    found = dict.fromkeys([*known.values(), *said.values()])
    return [id for id in found if id not in hidden.values()]


def _readable(broken: Connection, query: str, *values: str) -> dict[int, str]:
    """Return the rows of a query, a key and a value, that stand before or after the damage."""
    found: dict[int, str] = {}
    for direction in ("ASC", "DESC"):
        with suppress(sqlite3.Error):
            for key, value in broken.execute(f"{query} ORDER BY 1 {direction}", values):
                found[key] = value
    return dict(sorted(found.items()))


def _copy(broken: Connection, connection: Connection, id: str, marked: bool) -> bool:
    """Copy a conversation; return whether it could be read as a whole."""
    try:
        with transaction(connection):
            document = export.export_conversations(broken, [id], marked=marked)
            return export.import_conversations(connection, document).conversations > 0
    except (BatonError, sqlite3.Error):
        return False


def _copy_turns(broken: Connection, connection: Connection, id: str) -> bool:
    """Copy those turns of a conversation that can be read; return whether there were any."""
    keys: dict[int, str] = {}
    for name in ("conversation", "+conversation"):  # by the index, then by the table
        keys |= _readable(broken, f"SELECT key, '' FROM turns WHERE {name} = ?", id)
    turns = [turn for key in sorted(keys) for turn in _read_turn(broken, key)]
    if not turns:
        return False
    try:
        with transaction(connection):
            export.import_conversations(connection, _document(broken, id, turns))
    except (BatonError, sqlite3.Error):
        return False
    return True


def _read_turn(broken: Connection, key: int) -> Iterable[Turn]:
    for with_files in (True, False):
        with suppress(BatonError, sqlite3.Error):
            return rows.turns(broken, "key = ?", key, with_files=with_files)
    return ()


def _document(broken: Connection, id: str, turns: Sequence[Turn]) -> object:
    """Return an export of a conversation with these turns, each after one that is there."""
    title = next((turn.text for turn in turns if turn.role is Role.USER), "")
    title, head = conversation_title(title), ""
    with suppress(BatonError, sqlite3.Error):
        for conversation in rows.conversations(broken, "WHERE c.id = ?", id):
            title, head = conversation.title, conversation.head or ""
    listed: list[export.TurnDocument] = []
    for turn in turns:
        known = {one.id for one in listed}
        document = export.turn_document(turn, {})
        document.run = None
        if document.parent not in known:
            document.parent = listed[-1].id if listed else None
        listed.append(document)
    head = head if head in {one.id for one in listed} else listed[-1].id
    conversation_document = export.ConversationDocument(
        id,
        title,
        strictest([turn.label for turn in turns]),
        None,
        turns[0].created,
        turns[-1].created,
        head,
        None,
        [],
        listed,
        [],
    )
    return msgspec.to_builtins(export.Document(1, [conversation_document]))
