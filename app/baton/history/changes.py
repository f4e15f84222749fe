"""Writes to the history: what a run records, and what the user changes. Only `purge` deletes."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from baton.core.errors import ConfigError, StoreError
from baton.core.events import TERMINAL, Cancelled, Event, Failed, Finished
from baton.core.history_types import Conversation
from baton.core.labels import Label, strictest
from baton.core.ledger_types import Policy
from baton.core.messages import Message, Prompt, Role, Turn, TurnStatus, conversation_title
from baton.core.ports import ConversationPosition, RecordedRun
from baton.core.prompt_wrapping import spoken_words
from baton.history import rows, search
from baton.history.client_records import (
    NO_MARKS,
    mark_removed_texts,
    mark_unknown_texts,
    text_marks,
)
from baton.history.queries import turn_position
from baton.platform.processes import current_process
from baton.platform.sqlite import Connection, Row, clean_text

_MAX_KEY_DRIFT_MS = 1 << 32
"""How many milliseconds, some weeks, a key may be off the time when that is taken."""

_RUN_STATUSES = {Finished: "finished", Failed: "failed", Cancelled: "cancelled"}


def new_id() -> str:
    """Return twelve random hexadecimal digits."""
    return os.urandom(6).hex()


def begin_run(
    connection: Connection,
    prompt: Prompt,
    place: ConversationPosition,
    label: Label,
    client: str = "",
) -> RecordedRun:
    """Record a prompt, its run and its empty answer; the conversation too, if it is new.

    `client` is the id of the access token that it came with, or "". Raises ConfigError for a place
    that doesn't exist.
    """
    now = time.time()
    files = tuple(
        replace(file, name=clean_text(file.name), text=clean_text(file.text))
        for file in prompt.files
    )
    prompt = Prompt(clean_text(prompt.text), files, prompt.system and clean_text(prompt.system))
    conversation = _get_or_create_conversation(connection, prompt, place, label, now)
    if client and rows.is_hidden(connection, conversation.id):  # only the user brings it back
        raise ConfigError("This conversation was deleted.", "Begin a new one.")
    if strictest([label, conversation.label]) is not conversation.label:
        set_label(connection, conversation.id, label)
        conversation = replace(conversation, label=label)
    strict, after = strictest([label, conversation.label]), place.after
    for message in place.earlier:
        after = _add_earlier(connection, conversation, message, after, strict, now, client)
    asked = place.again or _add_prompt(connection, conversation, prompt, after, label, now, client)
    sent = rows.turns(connection, rows.PATH_CONDITION, asked, conversation.sent_from)
    derived = strictest(
        [label, conversation.label]
        + [turn.label for turn in sent]
        + [file.label for turn in sent for file in turn.files]
    )
    run, owner = place.run or new_id(), current_process()
    answer = Turn(
        new_id(), conversation.id, asked, Role.ASSISTANT, "", TurnStatus.STREAMING, derived, now
    )
    add_turn(connection, replace(answer, run=run), client=client)
    connection.execute(
        "INSERT INTO runs (id, conversation, prompt, answer, status, created, owner, started) "
        "VALUES (?, ?, ?, ?, 'running', ?, ?, ?)",
        [run, conversation.id, asked, answer.id, now, owner.pid, owner.started],
    )
    if place.said:
        connection.execute("UPDATE turns SET said = ? WHERE id = ?", [place.said, asked])
    # The user's prompt brings a deleted conversation back, and makes a program's their own.
    connection.execute(
        "UPDATE conversations SET head = ?, updated = ?, hidden_at = NULL,"
        " program = CASE WHEN ? THEN program ELSE '' END WHERE id = ?",
        [answer.id, now, client != "", conversation.id],
    )
    return RecordedRun(
        run,
        conversation.id,
        asked,
        answer.id,
        derived,
        conversation.system,
        sent,
        conversation.policy,
        _warned(connection, conversation.id),
    )


def _warned(connection: Connection, conversation: str) -> dict[str, str]:
    """Return the hints that were last given in a conversation, by the kind of the warning."""
    found = connection.execute(
        """SELECT data ->> 'kind' AS kind, data ->> 'hint' AS hint
        FROM runs JOIN events INDEXED BY events_of_warnings ON id = run
        WHERE conversation = ? AND events.kind = 'Warned' ORDER BY created, seq""",
        [conversation],
    )
    return {row["kind"]: row["hint"] for row in found}


def _get_or_create_conversation(
    connection: Connection, prompt: Prompt, place: ConversationPosition, label: Label, now: float
) -> Conversation:
    """Return the place's conversation, made now if it is a new one."""
    name, turn = place.conversation, place.again or place.after
    if turn:
        row = connection.execute("SELECT conversation, role FROM turns WHERE id = ?", [turn])
        found = row.fetchone()
        if found is None or name not in (None, found["conversation"]):
            raise ConfigError(f"There is no message {turn!r} in this conversation.")
        if place.again and found["role"] != Role.USER:
            raise ConfigError(f"The message {turn!r} isn't a prompt: it can't be answered again.")
        name = found["conversation"]
    if name is None:
        name = new_id()
        connection.execute(
            "INSERT INTO conversations (id, title, label, system, created, updated, program) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [name, _title(prompt, place), label, prompt.system, now, now, place.program],
        )
    elif prompt.system is not None:
        connection.execute(
            "UPDATE conversations SET system = ? WHERE id = ?", [prompt.system, name]
        )
    for conversation in rows.conversations(connection, "WHERE c.id = ?", name):
        return conversation
    raise ConfigError(f"There is no conversation {name!r}.")


def _title(prompt: Prompt, place: ConversationPosition) -> str:
    """Name a conversation; one that a program begins, by the first words of the user in it."""
    if not place.program:
        return conversation_title(prompt.text)
    asked = [message.text for message in place.earlier if message.role is Role.USER]
    words = filter(None, map(spoken_words, (*asked, prompt.text)))
    return conversation_title(clean_text(next(words, "")))


def _add_prompt(
    connection: Connection,
    conversation: Conversation,
    prompt: Prompt,
    after: str | None,
    label: Label,
    now: float,
    client: str,
) -> str:
    parent = conversation.head if after is None else after or None
    labels = [label, conversation.label, *(file.label for file in prompt.files)]
    turn = Turn(
        new_id(),
        conversation.id,
        parent,
        Role.USER,
        prompt.text,
        TurnStatus.DONE,
        strictest(labels),
        now,
        files=prompt.files,
    )
    add_turn(connection, turn, client=client)
    return turn.id


def _add_earlier(
    connection: Connection,
    conversation: Conversation,
    message: Message,
    after: str | None,
    label: Label,
    now: float,
    client: str,
) -> str:
    """Record a turn that another program kept, after the one before it; return its id."""
    text = clean_text(message.text)
    if message.role is Role.USER:
        return _add_prompt(connection, conversation, Prompt(text), after, label, now, client)
    turn = Turn(new_id(), conversation.id, after, message.role, text, TurnStatus.DONE, label, now)
    add_turn(connection, turn, client=client)
    return turn.id


def add_turn(
    connection: Connection, turn: Turn, key: int | None = None, *, client: str = ""
) -> None:
    """Insert a turn and its files, with a key after all others of its conversation, or with this.

    Before an answer there is room for its draft.
    """
    gap = 2 if turn.role is Role.ASSISTANT else 1
    is_known = turn.status is not TurnStatus.STREAMING
    connection.execute(
        "INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?)",
        [
            _free_key(connection, turn.conversation, turn.created, gap) if key is None else key,
            turn.id,
            turn.conversation,
            turn.parent,
            turn.role,
            turn.text,
            turn.status,
            turn.label,
            turn.created,
            turn.worker,
            turn.run,
            client,
            *(text_marks(turn.text, turn.role) if is_known else NO_MARKS),
        ],
    )
    connection.executemany(
        "INSERT INTO files (turn, name, text, size, label) VALUES (?, ?, ?, ?, ?)",
        [(turn.id, file.name, file.text, file.size, file.label) for file in turn.files],
    )


def _free_key(connection: Connection, conversation: str, created: float, gap: int) -> int:
    newest = connection.execute(
        "SELECT max(key) FROM turns WHERE conversation = ?", [conversation]
    ).fetchone()[0]
    key = first = max(int(created * 1000), (newest or 0) + gap)
    room = 1
    while connection.execute("SELECT 1 FROM turns WHERE key = ?", [key]).fetchone():
        # Any number of conversations may bear the same time: don't try every key after it.
        room = min(room * 2, _MAX_KEY_DRIFT_MS)
        key = first + random.randrange(room)
    return key


def append_events(connection: Connection, run: str, events: Sequence[Event]) -> None:
    """Record events of a run; a terminal one ends the run's row as well."""
    for event in events:
        added = connection.execute(
            """INSERT INTO events
            SELECT id, (SELECT coalesce(max(seq), 0) + 1 FROM events WHERE run = runs.id), ?, ?
            FROM runs WHERE id = ?""",
            [type(event).__name__, rows.encode_json(event), run],
        )
        _require_changed(added.rowcount)
        if isinstance(event, TERMINAL):
            status = _RUN_STATUSES[type(event)]
            connection.execute("UPDATE runs SET status = ? WHERE id = ?", [status, run])


def write_answer(
    connection: Connection, turn: str, text: str, status: TurnStatus, worker: str
) -> None:
    """Record an answer's text as far as it is; a worker once named stays."""
    _require_changed(_set_answer(connection, turn, text, status, worker))
    if status is not TurnStatus.STREAMING:
        connection.execute(
            "UPDATE conversations SET updated = ? "
            "WHERE id = (SELECT conversation FROM turns WHERE id = ?)",
            [time.time(), turn],
        )


def _set_answer(
    connection: Connection, turn: str, text: str, status: TurnStatus, worker: str = ""
) -> int:
    """Record all of an answer's text in place of its pieces; return how many turns that were."""
    is_known = status is not TurnStatus.STREAMING
    connection.execute(
        "DELETE FROM answer_pieces WHERE turn = (SELECT key FROM turns WHERE id = ?)", [turn]
    )
    changed = connection.execute(
        "UPDATE turns SET text = ?, status = ?, worker = coalesce(nullif(?, ''), worker), "
        "fingerprint = ?, opening = ?, length = ?, whole = ? WHERE id = ?",
        [
            clean_text(text),
            status,
            clean_text(worker),
            *(text_marks(text, Role.ASSISTANT) if is_known else NO_MARKS),
            turn,
        ],
    )
    return changed.rowcount


def save_progress(connection: Connection, texts: Mapping[str, str]) -> None:
    """Record the texts so far of answers that are being written, but for those gone by now."""
    for turn, text in texts.items():
        found = connection.execute(
            f"SELECT key, status, whole, {rows.ANSWER_TEXT} AS saved FROM turns WHERE id = ?",
            [turn],
        ).fetchone()
        if found is not None:
            _save_growth(connection, turn, clean_text(text), found)


def _save_growth(connection: Connection, turn: str, text: str, found: Row) -> None:
    """Record what an answer has grown by; all of it where another draft took its place."""
    saved, is_known = found["saved"], found["whole"] is not None
    if found["status"] != TurnStatus.STREAMING or not text.startswith(saved):
        _set_answer(connection, turn, "", TurnStatus.STREAMING)
        saved, is_known = "", False
    if len(text) > len(saved):
        connection.execute(
            "INSERT INTO answer_pieces VALUES (?, ?, ?)",
            [found["key"], len(saved), text[len(saved) :]],
        )
    if not is_known:  # what its beginning is recognised by recognises all of it
        connection.execute(
            "UPDATE turns SET fingerprint = ?, opening = ?, length = ?, whole = ? WHERE id = ?",
            [*text_marks(text, Role.ASSISTANT), turn],
        )


def mark_lost(connection: Connection, run: str) -> None:
    """End a run whose process is gone, and keep what it had written."""
    ended = connection.execute(
        "UPDATE runs SET status = 'lost' WHERE id = ? AND status = 'running'", [run]
    )
    answer = connection.execute(
        f"SELECT turns.id, {rows.ANSWER_TEXT} AS text FROM turns JOIN runs ON turns.id = answer "
        "WHERE runs.id = ? AND turns.status = 'streaming'",
        [run],
    ).fetchone()
    if ended.rowcount and answer is not None:
        _set_answer(connection, answer["id"], answer["text"], TurnStatus.LOST)


_MAX_KEY_TRIES = 64
"""How many keys before an answer's are tried for its draft."""


def add_draft(connection: Connection, answer: str, text: str, worker: str) -> None:
    """Record the draft that an answer replaced, as the version before it."""
    found = connection.execute(
        "SELECT key, parent, conversation, label, created, client FROM turns WHERE id = ?",
        [answer],
    ).fetchone()
    _require_changed(int(found is not None))
    least = connection.execute(
        "SELECT max(key) FROM turns WHERE id = ?", [found["parent"]]
    ).fetchone()[0]
    taken = "SELECT 1 FROM turns WHERE key = ?"
    first = max(found["key"] - _MAX_KEY_TRIES, (least or 0) + 1)
    before = range(found["key"] - 1, first - 1, -1)
    key = next((k for k in before if not connection.execute(taken, [k]).fetchone()), None)
    draft = Turn(
        new_id(),
        found["conversation"],
        found["parent"],
        Role.ASSISTANT,
        clean_text(text),
        TurnStatus.DONE,
        Label(found["label"]),
        found["created"],
        clean_text(worker),
    )
    add_turn(connection, draft, key, client=found["client"])


def trim_conversation(connection: Connection, conversation: str, first: str) -> None:
    """From now on send only the turns from `first` on."""
    changed = connection.execute(
        "UPDATE conversations SET sent_from = ? WHERE id = ?", [first, conversation]
    )
    _require_changed(changed.rowcount)


def withdraw_run(connection: Connection, run: str) -> None:
    """Remove a run that was refused, with what it added; its conversation if it began with it."""
    found = connection.execute("SELECT * FROM runs WHERE id = ?", [run]).fetchone()
    _require_changed(int(found is not None))
    conversation, turn = found["conversation"], found["prompt"]
    others = "SELECT 1 FROM runs WHERE conversation = ? AND id <> ?"
    if connection.execute(others, [conversation, run]).fetchone() is None:
        purge(connection, [conversation])
        return
    connection.execute("DELETE FROM runs WHERE id = ?", [run])
    connection.execute("DELETE FROM turns WHERE id = ?", [found["answer"]])
    added = """SELECT parent FROM turns WHERE id = ? AND run IS NULL
        AND NOT EXISTS (SELECT 1 FROM turns AS child WHERE child.parent = turns.id)"""
    last = turn
    while turn and (gone := connection.execute(added, [turn]).fetchone()) is not None:
        mark_removed_texts(connection, "turns.id = ?", turn)
        search.remove(connection, "SELECT key FROM turns WHERE id = ?", turn)
        connection.execute("DELETE FROM turns WHERE id = ?", [turn])
        last = turn = gone["parent"]
    connection.execute(
        "UPDATE conversations SET head = ? WHERE id = ? AND head = ?",
        [last, conversation, found["answer"]],
    )


def _require_changed(rows_changed: int) -> None:
    if rows_changed == 0:
        raise StoreError(
            "This conversation was deleted while its answer was being written.",
            "Nothing else was lost; ask again in a new conversation.",
        )


def select(connection: Connection, turn: str) -> None:
    """Make the newest branch through this turn the current one."""
    place = turn_position(connection, turn)
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
    _update_conversation(connection, conversation, "title = ?", clean_text(title))


def relabel(connection: Connection, conversation: str, label: Label) -> None:
    """Let everything in a conversation travel exactly so far from now on, and record that."""
    set_label(connection, conversation, label)
    connection.execute(
        "UPDATE files SET label = ? WHERE turn IN (SELECT id FROM turns WHERE conversation = ?)",
        [label, conversation],
    )
    connection.execute("UPDATE turns SET label = ? WHERE conversation = ?", [label, conversation])
    mark_unknown_texts(connection)


def set_label(connection: Connection, conversation: str, label: Label) -> None:
    """Restrict how far anything added to a conversation may travel, and record that."""
    connection.execute(
        "INSERT INTO label_changes (conversation, at, old, label) "
        "SELECT id, ?, label, ? FROM conversations WHERE id = ?",
        [time.time(), label, conversation],
    )
    _update_conversation(connection, conversation, "label = ?", label)


def set_policy(connection: Connection, conversation: str, policy: Policy | None) -> None:
    """Record when a conversation may spend (None: as the settings say)."""
    _update_conversation(connection, conversation, "policy = ?", policy)


def hide(connection: Connection, conversation: str, undo: bool) -> None:
    """Delete a conversation so that it can be brought back, or do that."""
    _update_conversation(connection, conversation, "hidden_at = ?", None if undo else time.time())


def _update_conversation(
    connection: Connection, conversation: str, change: str, *values: object
) -> None:
    changed = connection.execute(
        f"UPDATE conversations SET {change} WHERE id = ?", [*values, conversation]
    )
    if changed.rowcount == 0:
        raise ConfigError(f"There is no conversation {conversation!r}.")


def purge(connection: Connection, conversations: Sequence[str]) -> None:
    """Remove conversations and all that belongs to them: turns, files, runs, events, index.

    What was private stays recognisable by its fingerprints: a program may bring it back.
    """
    named = rows.encode_json(list(conversations))
    chosen = "IN (SELECT value FROM json_each(?))"
    mark_removed_texts(connection, f"turns.conversation {chosen}", named)
    search.remove_conversations(connection, named)
    removed = connection.execute(f"DELETE FROM conversations WHERE id {chosen}", [named])
    if removed.rowcount < len(set(conversations)):
        raise ConfigError(f"There is no conversation {', '.join(map(repr, conversations))}.")
    connection.execute(f"DELETE FROM drafts WHERE conversation {chosen}", [named])


def purge_hidden(connection: Connection, older_than_seconds: float) -> int:
    """Remove what was deleted so long ago; return how many conversations that were."""
    hidden = connection.execute(
        "SELECT id FROM conversations WHERE hidden_at <= ?", [time.time() - older_than_seconds]
    ).fetchall()
    purge(connection, [row["id"] for row in hidden])
    return len(hidden)


def save_draft(connection: Connection, conversation: str, text: str) -> None:
    """Keep what was typed and not sent; nothing at all removes it."""
    if text:
        connection.execute(
            "INSERT OR REPLACE INTO drafts VALUES (?, ?)", [conversation, clean_text(text)]
        )
    else:
        connection.execute("DELETE FROM drafts WHERE conversation = ?", [conversation])
