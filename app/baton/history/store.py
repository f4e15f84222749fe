"""The store: an asyncio façade over one connection on one background thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from baton.core.events import Event
from baton.core.feedback import AnswerSignals, GradedAnswer, Signal, graded_answers
from baton.core.history_types import Conversation, PastRun, RunRecord, SearchHit, Weighing
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import Prompt, Turn, TurnStatus
from baton.core.ports import ConversationPosition, RecordedRun
from baton.history import edits, queries, run_writer
from baton.history import export as transfer
from baton.history import feedback_store as signals
from baton.history import past_runs as past
from baton.history.export import ImportResult
from baton.history.search import search
from baton.history.store_file import open_history
from baton.platform.sqlite import (
    Connection,
    DatabaseDamaged,
    explain_errors,
    check_stamp,
    transaction,
)

P = ParamSpec("P")
T = TypeVar("T")


class Store:
    """History in one SQLite file. Every method returns only when its change is on disk.

    Methods raise StoreError when the disk won't have it, and ConfigError for ids that don't exist.
    Work is done in the order of the calls; the event loop never waits for the disk.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "baton-store")
        self._opened = self._thread.submit(open_history, path)

    @classmethod
    def open(cls, path: Path | None) -> Store:
        """Begin to open the history at this path (None: in memory, forgotten at the end).

        Returns at once. What goes wrong is raised by whatever is called first.
        """
        return cls(path)

    @property
    def warning(self) -> str:
        """What the person must know about the opening, in a sentence, or "". Waits for it."""
        return self._opened.result().warning

    async def _do(self, work: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._explain, work)

    def _explain(self, work: Callable[[Connection], T]) -> T:
        connection = self._opened.result().connection
        try:
            with explain_errors(self._path):
                return work(connection)
        except DatabaseDamaged:
            if self._path is not None:
                check_stamp(self._path).unlink(missing_ok=True)  # the next start looks closely
            raise

    async def _read(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def reads(connection: Connection) -> T:
            with transaction(connection, "DEFERRED"):
                return work(connection, *args, **kwargs)

        return await self._do(reads)

    async def _write(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def writes(connection: Connection) -> T:
            with transaction(connection):
                return work(connection, *args, **kwargs)

        return await self._do(writes)

    # What a run needs (core.ports.Store)

    async def begin(self, prompt: Prompt, place: ConversationPosition, label: Label) -> RecordedRun:
        """Record a prompt, its run and its empty answer; the conversation too, if it is new."""
        return await self._write(run_writer.begin_run, prompt, place, label)

    async def append(self, run: str, event: Event) -> None:
        """Record one event of a run; a terminal one ends the run's row as well."""
        await self._write(run_writer.append_event, run, event)

    async def write(self, turn: str, text: str, status: TurnStatus, worker: str = "") -> None:
        """Record an answer's text as far as it is."""
        await self._write(run_writer.write_answer, turn, text, status, worker)

    async def trim(self, conversation: str, first: str) -> None:
        """From now on send only the turns from `first` on; the earlier ones stay in history."""
        await self._write(run_writer.trim_conversation, conversation, first)

    async def allow(self, conversation: str, policy: Policy | None) -> None:
        """Record when a conversation may spend from now on (None: as the settings say)."""
        await self._write(edits.set_policy, conversation, policy)

    # What front ends show

    async def conversations(self, limit: int = 200) -> list[Conversation]:
        """Return the conversations that aren't deleted, the latest first."""
        return await self._read(queries.conversations, limit)

    async def search(self, query: str, limit: int = 50) -> list[SearchHit]:
        """Return the newest turns with all these words, the last of which may be unfinished."""
        return await self._read(search, query, limit)

    async def conversation(self, id_or_prefix: str) -> Conversation:
        """Return the conversation whose id begins so. Raises ConfigError if it isn't just one."""
        return await self._read(queries.conversation, id_or_prefix)

    async def latest(self) -> str | None:
        """Return the id of the conversation that was used last."""
        found = await self.conversations(1)
        return found[0].id if found else None

    async def thread(self, conversation: str, leaf: str | None = None) -> tuple[Turn, ...]:
        """Return a branch from its beginning to `leaf` (None: the one last looked at)."""
        return await self._read(queries.thread, conversation, leaf)

    async def siblings(self, turn: str) -> tuple[str, ...]:
        """Return the turns that stand in the same place, this one among them, oldest first."""
        return await self._read(queries.siblings, turn)

    async def run(self, id_or_prefix: str) -> RunRecord:
        """Return the run whose id begins so. Raises ConfigError if it isn't just one."""
        return await self._read(queries.run, id_or_prefix)

    async def recent_weighings(self) -> list[Weighing]:
        """Return when help was weighed in the last month, the newest times, oldest first."""
        return await self._read(queries.recent_weighings)

    async def worker_usage(self) -> dict[str, tuple[float | None, float]]:
        """Return by worker how many tokens/s it wrote lately (None: unknown), and its last use.

        In seconds since the epoch. Those without a call in the newest runs are not there.
        """
        return await self._read(queries.worker_usage)

    async def last_run(self, conversation: str | None = None) -> RunRecord | None:
        """Return the newest run, of one conversation or of all."""
        return await self._read(queries.last_run, conversation)

    async def runs(self, limit: int = 50) -> list[RunRecord]:
        """Return the newest runs, newest first, without their events."""
        return await self._read(queries.runs, limit)

    async def past_runs(self, since: float, limit: int = 2_000) -> list[PastRun]:
        """Return the newest finished runs since then with their events, oldest first."""
        return await self._read(past.past_runs, since, limit)

    async def hidden_runs(self, older_than_seconds: float = 0) -> list[str]:
        """Return the runs of the conversations that `purge_hidden` would remove."""
        return await self._read(queries.hidden_runs, older_than_seconds)

    async def recent_prompts(self, limit: int = 200) -> list[str]:
        """Return what was asked last, each text once, the newest last."""
        return await self._read(queries.recent_prompts, limit)

    async def draft(self, conversation: str) -> str:
        """Return what was typed in a conversation ("": a new one) and not sent."""
        return await self._read(queries.draft, conversation)

    # What a person changes

    async def select(self, turn: str) -> None:
        """Make the newest branch through this turn the current one."""
        await self._write(edits.select, turn)

    async def rename(self, conversation: str, title: str) -> None:
        """Give a conversation another title."""
        await self._write(edits.rename, conversation, title)

    async def relabel(self, conversation: str, label: Label) -> None:
        """Let everything in a conversation travel exactly so far from now on, and record that."""
        await self._write(edits.relabel, conversation, label)

    async def hide(self, conversation: str) -> None:
        """Delete a conversation so that `restore` can bring it back."""
        await self._write(edits.hide, conversation)

    async def restore(self, conversation: str) -> None:
        """Bring a deleted conversation back."""
        await self._write(edits.restore, conversation)

    async def purge(self, conversation: str) -> None:
        """Remove a conversation so that nothing of it remains in the file."""
        await self._write(edits.purge, conversation)
        await self._do(self._wipe)

    async def purge_hidden(self, older_than_seconds: float = 0) -> int:
        """Purge what was deleted so long ago; return how many conversations that were."""
        purged = await self._write(edits.purge_hidden, older_than_seconds)
        if purged:
            await self._do(self._wipe)
        return purged

    def _wipe(self, connection: Connection) -> None:
        """Let go of the copies that the log and backups from before a migration hold."""
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if self._path is not None:
            for backup in self._path.parent.glob(f"{self._path.name}.before-*"):
                backup.unlink(missing_ok=True)

    async def save_draft(self, conversation: str, text: str) -> None:
        """Keep what was typed in a conversation ("": a new one) and not sent."""
        await self._write(edits.save_draft, conversation, text)

    # What tells how good answers were

    async def add_signal(self, turn: str, signal: Signal) -> None:
        """Record what a person did with an answer just now. Raises ConfigError."""
        await self._write(signals.add_signal, turn, signal)

    async def rate(self, turn: str, rating: Signal | None) -> None:
        """Record that an answer is good or bad, or take that back (None). Raises ConfigError."""
        await self._write(signals.set_rating, turn, rating)

    async def signals(self, turns: Sequence[str]) -> dict[str, dict[Signal, float]]:
        """Return what was done with these answers, and when; without those that nothing was."""
        return await self._read(signals.signals_of_turns, turns)

    async def signals_since(self, at: float) -> int:
        """Return with how many answers something was done after that time."""
        return await self._read(signals.count_signals_since, at)

    async def answered(self, limit: int = 5_000) -> list[AnswerSignals]:
        """Return the newest answers of which it is known how good they were, newest first."""
        return await self._read(signals.answers_with_feedback, limit)

    async def outcomes(self, limit: int = 5_000) -> list[GradedAnswer]:
        """Return how workers did at kinds of tasks, by this person's own answers, newest first.

        Each has `worker`, `kind` (of the twelve), `good` (0 to 1), `weight` (a thumb 1 on the day
        it was given, a copy .4, half as much after half a year) and `at`. Workers that are no
        longer here are among them. Several signals of one answer make one of these. Only answers
        that may leave this machine count: a conductor elsewhere is told what they come to.
        """
        known = await self._read(signals.answers_with_feedback, limit, (Label.CLOUD,))
        return graded_answers(known, time.time())

    # Export and import

    async def export(self, ids: Sequence[str] | None = None) -> dict[str, Any]:
        """Return these conversations (None: all) with everything in them, ready for JSON."""
        return await self._read(transfer.export_conversations, ids)

    async def import_(self, data: object) -> ImportResult:
        """Add the conversations of an export that aren't there yet; overwrites nothing."""
        return await self._write(transfer.import_conversations, data)

    async def aclose(self) -> None:
        """Close the file. Nothing may be called afterwards."""
        self._thread.submit(self._close)
        await asyncio.to_thread(self._thread.shutdown)

    def _close(self) -> None:
        if self._opened.exception() is None:
            self._opened.result().connection.close()
