"""The history's façade, and opening its file in any state.

A sound file is opened in a few milliseconds. A damaged one is kept aside, never deleted, and what
can still be read of it is copied into a new one. A run whose process is gone is marked lost.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from baton.core.errors import StoreError
from baton.core.events import Event
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.history_types import (
    Conversation,
    GradedAnswer,
    OwnAnswer,
    OwnRun,
    PastRun,
    RecentConversation,
    RunRecord,
    SearchHit,
    Signal,
    Weighing,
    graded_answers,
)
from baton.core.labels import Label
from baton.core.ledger_types import Policy, UsageRow
from baton.core.machine import show_size
from baton.core.messages import Prompt, Turn, TurnStatus
from baton.core.ports import ConversationPosition, RecordedRun
from baton.core.text_match import SaidTexts, Saying
from baton.history import changes, client_records, export, feedback_store, queries, search
from baton.history.export import ImportResult
from baton.history.recovery import complete_schema, recover_conversations
from baton.history.schema import MIGRATIONS
from baton.platform.database_thread import DatabaseThread
from baton.platform.processes import Owner, is_alive
from baton.platform.sqlite import (
    CHECK_ALWAYS_BYTES,
    HISTORY,
    Connection,
    DatabaseDamaged,
    DatabaseTooNew,
    Row,
    connect,
    create_database_file,
    enable_vacuum,
    explain_errors,
    had_database,
    has_lost_log,
    is_empty,
    open_database,
    open_in_memory,
    set_aside,
    transaction,
    version_warning,
)

_MAX_PAST_RUNS = 2_000


class Store:
    """History in one SQLite file. Every method returns only when its change is on disk.

    Methods raise StoreError when the disk won't have it, and ConfigError for ids that don't exist.
    Work is done in the order of the calls; the event loop never waits for the disk.
    """

    def __init__(self, path: Path | None) -> None:
        """Begin to open the history at this path (None: in memory, forgotten at the end).

        Returns at once. What goes wrong is raised by the first call.
        """
        self._database = DatabaseThread(path, HISTORY, partial(open_history, path))
        self._read = self._database.read
        self._write = self._database.write
        self.runs = RunHistory(self._database)
        self.clients = ClientHistory(self._database)
        self.feedback = FeedbackHistory(self._database)
        self.archive = Archive(self._database)

    @property
    def warning(self) -> str:
        """What the user must know about the opening, in a sentence, or "". Waits for it."""
        return self._database.opened.warning

    def require_writable(self) -> None:
        """Raise StoreError where a newer Baton wrote the history. Waits for the opening."""
        if (error := self._database.opened.too_new) is not None:
            raise StoreError(error.message, error.hint)

    # What a run needs (core.ports.Store)

    async def begin(
        self, prompt: Prompt, place: ConversationPosition, label: Label, client: str = ""
    ) -> RecordedRun:
        """Record a prompt, its run and its empty answer; the conversation too, if it is new.

        `client` is the id of the access token that it came with, or "".
        """
        return await self._write(changes.begin_run, prompt, place, label, client)

    async def append(self, run: str, *events: Event) -> None:
        """Record events of a run; a terminal one ends the run's row as well."""
        await self._write(changes.append_events, run, events)

    async def write(self, turn: str, text: str, status: TurnStatus, worker: str = "") -> None:
        """Record an answer's text as far as it is."""
        await self._write(changes.write_answer, turn, text, status, worker)

    async def save_progress(self, texts: Mapping[str, str]) -> None:
        """Record the texts so far of answers that are being written, but for those gone by now."""
        await self._write(changes.save_progress, texts)

    async def add_draft(self, answer: str, text: str, worker: str) -> None:
        """Record the draft that an answer replaced, as the version before it."""
        await self._write(changes.add_draft, answer, text, worker)

    async def trim(self, conversation: str, first: str) -> None:
        """From now on send only the turns from `first` on; the earlier ones stay in history."""
        await self._write(changes.trim_conversation, conversation, first)

    async def allow(self, conversation: str, policy: Policy | None) -> None:
        """Record when a conversation may spend from now on (None: as the settings say)."""
        await self._write(changes.set_policy, conversation, policy)

    # What front ends show

    async def conversations(
        self, limit: int = 200, *, of_programs: bool | None = None
    ) -> list[Conversation]:
        """Return the conversations that aren't deleted, the latest first.

        All of them, or with `of_programs` only those of other programs (True) or of the user.
        """
        return await self._read(queries.conversations, limit, of_programs)

    async def search(self, query: str, limit: int = 50) -> list[SearchHit]:
        """Return the newest turns with all these words, then those with them in other words."""
        while await self._read(search.has_pending):
            await self._write(search.index_pending)
        return await self._read(search.search, query, limit)

    async def conversation(self, id_or_prefix: str) -> Conversation:
        """Return the conversation whose id begins so. Raises ConfigError if it isn't just one."""
        return await self._read(queries.conversation, id_or_prefix)

    async def find(self, named: str) -> Conversation:
        """Return a conversation by its number, its title, or its id. Raises ConfigError.

        Numbers count the user's own, the latest first, from 1.

        Of a title or an id, a part is enough that only one has.
        """
        return (await self.archive.find([named]))[0]

    async def latest(self) -> str | None:
        """Return the id of the user's own conversation that was used last."""
        found = await self.conversations(1, of_programs=False)
        return found[0].id if found else None

    async def thread(self, conversation: str, leaf: str | None = None) -> tuple[Turn, ...]:
        """Return a branch from its beginning to `leaf` (None: the one last looked at)."""
        return await self._read(queries.thread, conversation, leaf)

    async def siblings(self, turn: str) -> tuple[str, ...]:
        """Return the turns that stand in the same place, this one among them, oldest first."""
        return await self._read(queries.siblings, turn)

    async def draft(self, conversation: str) -> str:
        """Return what was typed in a conversation ("": a new one) and not sent."""
        return await self._read(queries.draft, conversation)

    # What the user changes

    async def select(self, turn: str) -> None:
        """Make the newest branch through this turn the current one."""
        await self._write(changes.select, turn)

    async def rename(self, conversation: str, title: str) -> None:
        """Give a conversation another title."""
        await self._write(changes.rename, conversation, title)

    async def relabel(self, conversation: str, label: Label) -> None:
        """Let everything in a conversation travel exactly so far from now on, and record that."""
        await self._write(changes.relabel, conversation, label)

    async def hide(self, conversation: str, *, undo: bool = False) -> None:
        """Delete a conversation so that `undo` can bring it back."""
        await self._write(changes.hide, conversation, undo)

    async def purge(self, *conversations: str) -> None:
        """Remove conversations so that none of their text remains in the file."""
        await self._write(changes.purge, conversations)
        await self._database.wipe_copies()

    async def purge_hidden(self, older_than_seconds: float = 0) -> int:
        """Purge what was deleted so long ago; return how many conversations that were."""
        purged = await self._write(changes.purge_hidden, older_than_seconds)
        if purged:
            await self._database.wipe_copies()
        return purged

    async def save_draft(self, conversation: str, text: str) -> None:
        """Keep what was typed in a conversation ("": a new one) and not sent."""
        await self._write(changes.save_draft, conversation, text)

    async def aclose(self) -> None:
        """Close the file. Nothing may be called afterwards."""
        await self._database.aclose()


class RunHistory:
    """Runs with their turns and events, and what they say of workers and of weighing help."""

    def __init__(self, database: DatabaseThread[OpenedHistory]) -> None:
        self._database = database

    async def get(self, id_or_prefix: str) -> RunRecord:
        """Return the run whose id begins so. Raises ConfigError if it isn't just one."""
        return await self._database.read(queries.run, id_or_prefix)

    async def last(self, conversation: str | None = None) -> RunRecord | None:
        """Return the newest run, of one conversation or of all."""
        return await self._database.read(queries.last_run, conversation)

    async def newest(self, limit: int = 50) -> list[RunRecord]:
        """Return the newest runs, newest first, without their events."""
        return await self._database.read(queries.runs, limit)

    async def turns(self, ids: Sequence[str]) -> tuple[Turn, ...]:
        """Return the turns with these ids that are there, parents before children."""
        return await self._database.read(queries.turns, ids)

    async def versions(self, turns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the siblings of each of these turns."""
        return await self._database.read(queries.versions, turns)

    async def of(self, conversations: Sequence[str]) -> list[str]:
        """Return the ids of the runs of these conversations."""
        return await self._database.read(queries.runs_of, conversations)

    async def recent_conversations(self, limit: int) -> list[RecentConversation]:
        """Return the user's conversations used last, the latest first, with how each ended."""
        return await self._database.read(queries.recent_conversations, limit)

    async def recent_prompts(self, limit: int = 200) -> list[str]:
        """Return what the user asked last, each text once, the newest last."""
        return await self._database.read(queries.recent_prompts, limit)

    async def finished(self, since: float) -> list[PastRun]:
        """Return the newest finished runs since then with their events, oldest first."""
        return await self._database.read(queries.past_runs, since, _MAX_PAST_RUNS)

    async def of_hidden(self, older_than_seconds: float = 0) -> list[str]:
        """Return the runs of the conversations that `purge_hidden` would remove."""
        return await self._database.read(queries.hidden_runs, older_than_seconds)

    async def weighings(self) -> list[Weighing]:
        """Return when help was weighed in the last month, the newest times, oldest first."""
        return await self._database.read(queries.recent_weighings)

    async def local_usage(self, by: str, since: float | None = None) -> list[UsageRow]:
        """Return the sums of calls that cost nothing, by day, worker or purpose, in this order."""
        return await self._database.read(queries.local_usage, by, since)

    async def worker_usage(self) -> dict[str, tuple[float | None, float]]:
        """Return by worker how many tokens/s it wrote lately (None: unknown), and its last use.

        In seconds since the epoch. Those without a call in the newest runs are not there.
        """
        return await self._database.read(queries.worker_usage)


class ClientHistory:
    """What the endpoint must know of what access tokens, and others, said before."""

    def __init__(self, database: DatabaseThread[OpenedHistory]) -> None:
        self._database = database

    async def run(self, id: str, client: str) -> OwnRun | None:
        """Return the run of an access token with exactly that id, None for any other."""
        return await self._database.read(client_records.own_run, id, client)

    async def answers(self, said: str, client: str) -> list[OwnAnswer]:
        """Return what an access token was answered to the same messages, the latest first.

        `said` stands for them, as in `ConversationPosition`.
        """
        return await self._database.read(client_records.own_answers, said, client)

    async def sayings(self, said: SaidTexts) -> list[Saying]:
        """Return who said before, and how privately, what a request brings back."""
        openings = await self._database.read(client_records.private_openings)
        places = await asyncio.to_thread(said.find, openings)
        texts = await self._database.read(client_records.private_texts, sorted(places))
        long = await asyncio.to_thread(said.matches, texts, places)
        return await self._database.read(client_records.sayings, said, long)

    async def keep_private_marks(
        self, said: Sequence[tuple[str, str]], client: str, label: Label
    ) -> None:
        """Have prompts and their answers recognised as private although they aren't kept.

        An answer is "" where there is none yet.
        """
        await self._database.write(client_records.keep_private_marks, said, client, label)

    async def withdraw(self, run: str) -> None:
        """Remove a run that was refused, with all that was added for it, from the log too."""
        await self._database.write(changes.withdraw_run, run)
        await self._database.empty_log()


class FeedbackHistory:
    """What persons did with answers, and how good the answers were by that."""

    def __init__(self, database: DatabaseThread[OpenedHistory]) -> None:
        self._database = database

    async def add_signal(self, turn: str, signal: Signal) -> None:
        """Record what the user did with an answer just now. Raises ConfigError."""
        await self._database.write(feedback_store.add_signal, turn, signal)

    async def rate(self, turn: str, rating: Signal | None) -> None:
        """Record that an answer is good or bad, or take that back (None). Raises ConfigError."""
        await self._database.write(feedback_store.set_rating, turn, rating)

    async def signals(self, turns: Sequence[str]) -> dict[str, dict[Signal, float]]:
        """Return what was done with these answers, and when; without those that nothing was."""
        return await self._database.read(feedback_store.signals_of_turns, turns)

    async def outcomes(self, limit: int = 5_000) -> list[GradedAnswer]:
        """Return how workers did at kinds of tasks, by this user's own answers, newest first.

        Each has `worker`, `kind` (of the twelve), `good` (0 to 1), `weight` (a thumb 1 on the day
        it was given, a copy .4, half as much after half a year) and `at`. Workers that are no
        longer here are among them. Several signals of one answer make one of these. Only answers
        that may leave this machine count: a remote conductor is sent their averages.
        """
        known = await self._database.read(feedback_store.answers_with_feedback, limit)
        return graded_answers(known, time.time())


class Archive:
    """Whole conversations: those that are named, out to an export and in from one."""

    def __init__(self, database: DatabaseThread[OpenedHistory]) -> None:
        self._database = database

    @property
    def disk_bytes(self) -> int:
        """How much room the history takes on the disk."""
        path = self._database.path
        files = () if path is None else (path, path.with_name(f"{path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    async def find(self, names: Sequence[str]) -> list[Conversation]:
        """Return several conversations, each as `Store.find` does. Raises ConfigError."""
        return await self._database.read(queries.find_conversations, names)

    async def export(self, ids: Sequence[str] | None = None) -> dict[str, Any]:
        """Return these conversations (None: all) with everything in them, ready for JSON."""
        return await self._database.read(export.export_conversations, ids)

    async def import_(self, data: object) -> ImportResult:
        """Add the conversations of an export that aren't there yet; overwrites nothing."""
        return await self._database.write(export.import_conversations, data)


@frozen_dataclass
class OpenedHistory:
    """An open database; `warning` is a sentence for the user, or empty.

    `too_new` is why it is open for reading only, if it is.
    """

    connection: Connection
    warning: str = ""
    too_new: DatabaseTooNew | None = None


def open_history(path: Path | None) -> OpenedHistory:
    """Open the history at this path (None: in memory), created or repaired as needed.

    Raises StoreError where that is impossible; the file is then as it was.
    """
    with explain_errors(path):
        if path is None:
            return OpenedHistory(open_in_memory(MIGRATIONS))
        if version_warning():
            raise StoreError(version_warning(), "Run scripts/baton, which installs it.")
        lost = had_database(path) and is_empty(path)
        log = set_aside(path) if has_lost_log(path) else None
        create_database_file(path)
        before = path.stat()
        try:
            opened = _open(path)
            warning = _loss_warning(path, log) if lost else _convert(opened, path, before)
            return OpenedHistory(opened, warning)
        except DatabaseTooNew as error:
            return _open_newer(path, error)
        except DatabaseDamaged:
            return _replace_damaged(path, before)


def _convert(connection: Connection, path: Path, before: os.stat_result) -> str:
    """Have an older history give room back, and say so where that took a moment."""
    if not enable_vacuum(connection) or before.st_size < CHECK_ALWAYS_BYTES:
        return ""
    sizes = f"{show_size(path.stat().st_size)} now, {show_size(before.st_size)} before"
    return f"The history was rewritten, once, to give back the room of what is removed: {sizes}."


def _loss_warning(path: Path, log: Path | None) -> str:
    kept = f"what was left of it is kept as {log}" if log is not None else "none of it is left"
    return (
        f"The history file was emptied or removed, so a new one was begun; {kept}, and the ledger "
        f"is as it was. A backup can take the place of {path} while no Baton runs."
    )


def _open(path: Path) -> Connection:
    with ExitStack() as opened:
        connection = opened.enter_context(closing(open_database(path, MIGRATIONS)))
        with explain_errors(path):
            mark_lost_runs(connection)
            if connection.execute(client_records.UNKNOWN_TEXTS).fetchone() is not None:
                with transaction(connection):
                    client_records.mark_unknown_texts(connection)
        opened.pop_all()
    return connection


def _open_newer(path: Path, error: DatabaseTooNew) -> OpenedHistory:
    """Open the history of a newer Baton for reading: what it knows besides stays as it is."""
    with ExitStack() as opened:
        connection = opened.enter_context(closing(connect(path, mode="ro")))
        complete_schema(connection)
        connection.execute("PRAGMA query_only = ON")
        opened.pop_all()
    warning = f"{error} Until then it can be read and exported."
    return OpenedHistory(connection, warning, error)


def _replace_damaged(path: Path, before: os.stat_result) -> OpenedHistory:
    """Keep the damaged file aside, begin a new one and carry over what can be read."""
    if path.stat().st_ino != before.st_ino:
        return OpenedHistory(_open(path))  # another Baton did all this a moment ago
    aside = set_aside(path)
    create_database_file(path)
    connection = _open(path)
    recovered = recover_conversations(aside, connection)
    return OpenedHistory(
        connection, f"The history file was damaged: {recovered}, and the file is kept as {aside}."
    )


def mark_lost_runs(connection: Connection) -> None:
    """End the runs whose process is gone, and keep what they had written."""
    running = connection.execute(
        "SELECT id, owner, started, created FROM runs WHERE status = 'running'"
    ).fetchall()
    lost = [row["id"] for row in running if not _is_owner_alive(row)]
    if not lost:
        return
    with transaction(connection):
        for run in lost:
            changes.mark_lost(connection, run)


def _is_owner_alive(run: Row) -> bool:
    if run["owner"] is None:
        return False
    started = run["created"] if run["started"] is None else run["started"]
    return is_alive(Owner(run["owner"], started))
