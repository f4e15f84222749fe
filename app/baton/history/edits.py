"""What a person changes in their history. Nothing vanishes before `purge`."""

from __future__ import annotations

import time

from baton.core.errors import ConfigError
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.history.queries import place_of
from baton.platform.sqlite import Connection, clean


def select(connection: Connection, turn: str) -> None:
    """Make the newest branch through this turn the current one."""
    place = place_of(connection, turn)
    # Children have higher keys than their parents, so the highest beneath is a leaf.
    connection.execute(
        """UPDATE conversations SET head = (
            WITH RECURSIVE beneath (id, key) AS (
                SELECT id, key FROM turns WHERE id = ?
                UNION SELECT turns.id, turns.key FROM turns JOIN beneath
                ON turns.parent = beneath.id
            ) SELECT id FROM beneath ORDER BY key DESC LIMIT 1
        ) WHERE id = ?""",
        [turn, place["conversation"]],
    )


def rename(connection: Connection, conversation: str, title: str) -> None:
    """Give a conversation another title."""
    _change(connection, conversation, "title = ?", clean(title))


def relabel(connection: Connection, conversation: str, label: Label) -> None:
    """Let everything in a conversation travel exactly so far from now on, and record that."""
    mark(connection, conversation, label)
    connection.execute(
        "UPDATE files SET label = ? WHERE turn IN (SELECT id FROM turns WHERE conversation = ?)",
        [label, conversation],
    )
    connection.execute("UPDATE turns SET label = ? WHERE conversation = ?", [label, conversation])


def mark(connection: Connection, conversation: str, label: Label) -> None:
    """Let whatever is added to a conversation travel no farther than so, and record that."""
    connection.execute(
        "INSERT INTO label_changes (conversation, at, old, label) "
        "SELECT id, ?, label, ? FROM conversations WHERE id = ?",
        [time.time(), label, conversation],
    )
    _change(connection, conversation, "label = ?", label)


def allow(connection: Connection, conversation: str, policy: Policy | None) -> None:
    """Record when a conversation may spend (None: as the settings say)."""
    _change(connection, conversation, "policy = ?", policy)


def hide(connection: Connection, conversation: str) -> None:
    """Delete a conversation so that `restore` can bring it back."""
    _change(connection, conversation, "hidden_at = ?", time.time())


def restore(connection: Connection, conversation: str) -> None:
    """Bring a deleted conversation back."""
    _change(connection, conversation, "hidden_at = NULL")


def _change(connection: Connection, conversation: str, change: str, *values: object) -> None:
    changed = connection.execute(
        f"UPDATE conversations SET {change} WHERE id = ?", [*values, conversation]
    )
    if changed.rowcount == 0:
        raise ConfigError(f"There is no conversation {conversation!r}.")


def purge(connection: Connection, conversation: str) -> None:
    """Remove a conversation and all that belongs to it: turns, files, runs, events, index."""
    removed = connection.execute("DELETE FROM conversations WHERE id = ?", [conversation])
    if removed.rowcount == 0:
        raise ConfigError(f"There is no conversation {conversation!r}.")
    connection.execute("DELETE FROM drafts WHERE conversation = ?", [conversation])


def purge_hidden(connection: Connection, older_than_seconds: float) -> int:
    """Remove what was deleted so long ago; return how many conversations that were."""
    hidden = connection.execute(
        "SELECT id FROM conversations WHERE hidden_at <= ?", [time.time() - older_than_seconds]
    ).fetchall()
    for row in hidden:
        purge(connection, row["id"])
    return len(hidden)


def save_draft(connection: Connection, conversation: str, text: str) -> None:
    """Keep what was typed and not sent; nothing at all removes it."""
    if text:
        connection.execute(
            "INSERT OR REPLACE INTO drafts VALUES (?, ?)", [conversation, clean(text)]
        )
    else:
        connection.execute("DELETE FROM drafts WHERE conversation = ?", [conversation])
