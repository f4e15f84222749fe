"""Export and import of whole conversations as JSON, without loss.

A document holds every branch, label, file, run and event; calls are the `Called` events among them.
Whether something is deleted, drafts, and the leave to spend stay behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from baton.core.errors import ConfigError
from baton.core.events import Started
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.history_types import RATINGS, Signal
from baton.core.labels import Label
from baton.core.messages import Attachment, Role, Turn, TurnStatus
from baton.history import feedback_store as signals, rows
from baton.history.changes import add_turn, new_id
from baton.platform.sqlite import Connection, clean_text

Id = Annotated[str, Meta(pattern="^[0-9a-f]{12}$")]
Time = Annotated[float, Meta(ge=0, lt=1e11)]
SignalKind = Literal["good", "bad", "stronger", "again", "edited", "copied"]
RunStatus = Literal["running", "finished", "failed", "cancelled", "lost"]


class FileDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A file that went along with a prompt."""

    name: str
    text: str
    size: Annotated[int, Meta(ge=0, le=1 << 62)]
    label: Label


class TurnDocument(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A turn; its parent stands before it. `signals` are what the user did with an answer."""

    id: Id
    parent: Id | None
    role: Role
    text: str
    status: TurnStatus
    label: Label
    created: Time
    worker: str
    run: Id | None
    files: list[FileDocument]
    signals: dict[SignalKind, Time] = {}  # none in the exports of older Batons


class EventDocument(msgspec.Struct, forbid_unknown_fields=True):
    """An event: the name of its type, and its fields."""

    kind: str
    data: dict[str, Any]


class RunDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A run and what it left behind."""

    id: Id
    prompt: Id
    answer: Id
    status: RunStatus
    created: Time
    events: list[EventDocument]


class LabelChange(msgspec.Struct, forbid_unknown_fields=True):
    """A label that the user changed."""

    at: Time
    old: Label
    label: Label


class ConversationDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A conversation with all its branches."""

    id: Id
    title: str
    label: Label
    system: str | None
    created: Time
    updated: Time
    head: Id | None
    sent_from: Id | None
    label_changes: list[LabelChange]
    turns: list[TurnDocument]
    runs: list[RunDocument]
    program: str = ""  # none in the exports of older Batons


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """An export."""

    baton_export: Literal[1]
    conversations: list[ConversationDocument]


@frozen_dataclass
class ImportResult:
    """How much an import added, and how many conversations were there already."""

    conversations: int
    turns: int
    skipped: int


def export_conversations(
    connection: Connection, ids: Sequence[str] | None, *, marked: bool = True
) -> dict[str, Any]:
    """Return these conversations (None: all that aren't deleted) as plain data for JSON.

    Unless `marked`, without what the user did with the answers.
    """
    if ids is None:
        found = connection.execute(
            "SELECT id FROM conversations WHERE hidden_at IS NULL ORDER BY created, id"
        )
        ids = [row["id"] for row in found]
    document = Document(1, [_conversation_document(connection, id, marked) for id in ids])
    return msgspec.to_builtins(document)  # type: ignore[no-any-return]


def _conversation_document(
    connection: Connection, id: str, marked: bool = True
) -> ConversationDocument:
    found = rows.conversations(connection, "WHERE c.id = ?", id)
    if not found:
        raise ConfigError(f"There is no conversation {id!r}.")
    [conversation] = found
    changes = connection.execute(
        "SELECT at, old, label FROM label_changes WHERE conversation = ? ORDER BY key", [id]
    )
    turns = rows.turns(connection, "conversation = ?", id)
    done = signals.signals_of_turns(connection, [turn.id for turn in turns]) if marked else {}
    with rows.reject_bad_values():
        return ConversationDocument(
            id,
            conversation.title,
            conversation.label,
            conversation.system,
            conversation.created,
            conversation.updated,
            conversation.head,
            conversation.sent_from,
            [LabelChange(row["at"], Label(row["old"]), Label(row["label"])) for row in changes],
            [turn_document(turn, done.get(turn.id, {})) for turn in turns],
            _run_documents(connection, id),
            conversation.program,
        )


def turn_document(turn: Turn, done: Mapping[Signal, float]) -> TurnDocument:
    """Return a turn as it stands in an export, with what the user did with it."""
    files = [FileDocument(file.name, file.text, file.size, file.label) for file in turn.files]
    return TurnDocument(
        turn.id,
        turn.parent,
        turn.role,
        turn.text,
        turn.status,
        turn.label,
        turn.created,
        turn.worker,
        turn.run,
        files,
        {signal.value: at for signal, at in done.items()},  # type: ignore[misc]
    )


def _run_documents(connection: Connection, conversation: str) -> list[RunDocument]:
    return [
        RunDocument(
            run.id,
            run.prompt,
            run.answer,
            run.status,  # type: ignore[arg-type]
            run.created,
            [
                EventDocument(type(event).__name__, msgspec.json.decode(rows.encode_json(event)))
                for event in rows.events(connection, run.id)
            ],
        )
        for run in rows.runs(connection, "WHERE conversation = ? ORDER BY key", conversation)
    ]


def import_conversations(connection: Connection, data: object) -> ImportResult:
    """Add the conversations of an export that aren't there yet; nothing is ever overwritten.

    A conversation whose turns and runs are all there already is skipped (and undeleted); one that
    shares ids with something else comes in under new ids. Raises ConfigError, having added nothing.
    """
    try:
        document = msgspec.convert(data, Document)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half a character in a text
        message = f"This isn't an export from Baton: {error}."
        raise ConfigError(message, "Nothing was imported.") from error
    added = turns = skipped = 0
    for conversation in document.conversations:
        _require_sound(conversation)
        if _is_known(connection, conversation):
            restored = connection.execute(
                "UPDATE conversations SET hidden_at = NULL WHERE id = ? AND hidden_at > 0",
                [conversation.id],
            )
            skipped += 1 - restored.rowcount
            added += restored.rowcount
            continue
        if _has_colliding_ids(connection, conversation):
            conversation = _with_new_ids(conversation)
        _insert(connection, conversation)
        added += 1
        turns += len(conversation.turns)
    return ImportResult(added, turns, skipped)


def _require_sound(conversation: ConversationDocument) -> None:
    """Refuse a conversation that doesn't hang together."""
    turns: dict[str, TurnDocument] = {}
    for turn in conversation.turns:
        if turn.id in turns or (turn.parent is not None and turn.parent not in turns):
            raise _broken_export(conversation, f"the turn {turn.id} is out of place")
        if turn.role is Role.SYSTEM:
            raise _broken_export(conversation, f"the turn {turn.id} has no author")
        if turn.signals and turn.role is not Role.ASSISTANT:
            raise _broken_export(conversation, f"the turn {turn.id} isn't an answer")
        if set(RATINGS) <= turn.signals.keys():
            raise _broken_export(conversation, f"the turn {turn.id} is both good and bad")
        turns[turn.id] = turn
    runs = {run.id for run in conversation.runs}
    named = [conversation.head, conversation.sent_from]
    named += [turn for run in conversation.runs for turn in (run.prompt, run.answer)]
    if any(turn not in turns for turn in named if turn is not None):
        raise _broken_export(conversation, "it names a turn that it doesn't hold")
    if len(runs) < len(conversation.runs):
        raise _broken_export(conversation, "a run stands there twice")
    if any(turn.run not in runs for turn in conversation.turns if turn.run is not None):
        raise _broken_export(conversation, "it names a run that it doesn't hold")


def _broken_export(conversation: ConversationDocument, what: str) -> ConfigError:
    return ConfigError(
        f"This export is broken in the conversation {conversation.id}: {what}.",
        "Nothing was imported.",
    )


def _is_known(connection: Connection, new: ConversationDocument) -> bool:
    """Whether the store holds every turn and run of it already, word for word.

    What the user did with the answers since doesn't change that.
    """
    if not connection.execute("SELECT 1 FROM conversations WHERE id = ?", [new.id]).fetchone():
        return False
    old = _conversation_document(connection, new.id)
    turns = {turn.id: _without_signals(turn) for turn in old.turns}
    runs = {run.id: run for run in old.runs}
    return all(turns.get(turn.id) == _without_signals(turn) for turn in new.turns) and all(
        runs.get(run.id) == run for run in new.runs
    )


def _without_signals(turn: TurnDocument) -> TurnDocument:
    """Return a turn without what was done with it."""
    return msgspec.structs.replace(turn, signals={})


def _has_colliding_ids(connection: Connection, new: ConversationDocument) -> bool:
    ids = [new.id, *(turn.id for turn in new.turns), *(run.id for run in new.runs)]
    query = """SELECT 1 FROM json_each(?) WHERE value IN (SELECT id FROM conversations)
        OR value IN (SELECT id FROM turns) OR value IN (SELECT id FROM runs) LIMIT 1"""
    return connection.execute(query, [msgspec.json.encode(ids).decode()]).fetchone() is not None


def _with_new_ids(old: ConversationDocument) -> ConversationDocument:
    """Return the conversation with new ids throughout."""
    used = [old.id, *(turn.id for turn in old.turns), *(run.id for run in old.runs)]
    new: dict[str | None, str | None] = {None: None} | {id: new_id() for id in used}
    replaced = msgspec.to_builtins(old)
    replaced |= {key: new[replaced[key]] for key in ("id", "head", "sent_from")}
    for turn in replaced["turns"]:
        turn |= {key: new[turn[key]] for key in ("id", "parent", "run")}
    for run in replaced["runs"]:
        run |= {key: new[run[key]] for key in ("id", "prompt", "answer")}
        for event in run["events"]:
            if event["kind"] == Started.__name__:
                data = event["data"]
                ids = ("run", "conversation", "prompt", "answer")
                data |= {key: new.get(data[key], data[key]) for key in ids if key in data}
    return msgspec.convert(replaced, ConversationDocument)


def _insert(connection: Connection, new: ConversationDocument) -> None:
    connection.execute(
        "INSERT INTO conversations (id, title, label, system, created, updated, head, sent_from,"
        " program) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            new.id,
            clean_text(new.title),
            new.label,
            new.system and clean_text(new.system),
            new.created,
            new.updated,
            new.head,
            new.sent_from,
            clean_text(new.program),
        ],
    )
    connection.executemany(
        "INSERT INTO label_changes (conversation, at, old, label) VALUES (?, ?, ?, ?)",
        [(new.id, change.at, change.old, change.label) for change in new.label_changes],
    )
    for turn in new.turns:
        add_turn(connection, _turn_from_document(turn, new.id))
        connection.executemany(
            "INSERT INTO signals VALUES (?, ?, ?)",
            [(turn.id, kind, at) for kind, at in turn.signals.items()],
        )
    for run in new.runs:
        # No process here continues a run that was in progress there.
        status = "lost" if run.status == "running" else run.status
        connection.execute(
            "INSERT INTO runs (id, conversation, prompt, answer, status, created) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [run.id, new.id, run.prompt, run.answer, status, run.created],
        )
        for seq, event in enumerate(run.events, start=1):
            connection.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?)",
                [run.id, seq, event.kind, _event_json(new, event)],
            )


def _turn_from_document(turn: TurnDocument, conversation: str) -> Turn:
    streaming = turn.status is TurnStatus.STREAMING
    return Turn(
        turn.id,
        conversation,
        turn.parent,
        turn.role,
        clean_text(turn.text),
        TurnStatus.LOST if streaming else turn.status,
        turn.label,
        turn.created,
        clean_text(turn.worker),
        turn.run,
        tuple(
            Attachment(clean_text(file.name), clean_text(file.text), file.size, file.label)
            for file in turn.files
        ),
    )


def _event_json(conversation: ConversationDocument, event: EventDocument) -> str:
    try:
        if "at" not in event.data:  # an event that is emitted has none yet, one that is kept must
            raise KeyError("at")
        return rows.encode_json(rows.decode_event(event.kind, rows.encode_json(event.data)))
    except (KeyError, msgspec.ValidationError) as error:
        raise _broken_export(
            conversation, f"{event.kind!r} isn't an event that Baton knows"
        ) from error
