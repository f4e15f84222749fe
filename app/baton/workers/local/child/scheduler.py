"""Answers several requests at once: turn by turn, each a batch of what they read and write next."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from baton.ipc.messages import Stopped
from baton.ipc.parent_channel import Failure, ParentChannel
from baton.workers.local.child.batch_plan import batch_shares, next_lane
from baton.workers.local.child.llama_loader import LlamaError
from baton.workers.local.child.model_context import Reading, Share, places
from baton.workers.local.child.sampler import BrokenModel, GrammarRefused
from baton.workers.local.child.sequence import Sequence

if TYPE_CHECKING:
    from baton.workers.local.child.llama import Model
    from baton.workers.local.child.model_context import AppliedAdapter, Context

PATIENCE_SECONDS = 0.5
"""How long a batch with others' tokens may run on after one of its requests was cancelled: what it
has computed by then would be lost to all."""


class Scheduler:
    """Has requests answered side by side, in the order in which they came where room is short.

    In a turn one batch is computed: each sequence of one lane has its share in it, and all whose
    pending tokens it holds get their next word from it. Lanes take turns, so that neither another
    adapter nor the planning context waits for an answer's end.
    """

    def __init__(self, parent: ParentChannel, model: Model, limit: int) -> None:
        self._parent = parent
        self._model = model
        self._limit = limit
        self._waiting: deque[Sequence] = deque()
        self._active: list[Sequence] = []
        self._lane: tuple[Context, AppliedAdapter] | None = None
        self._batch: list[Sequence] = []
        self._ahead: Sequence | None = None
        self._cancelled_at: float | None = None

    @property
    def is_busy(self) -> bool:
        """Whether there is a request to be answered."""
        return bool(self._waiting or self._active)

    def add(self, sequence: Sequence) -> None:
        """Take a request, which is answered when there is room beside those before it."""
        self._waiting.append(sequence)

    def run_turn(self) -> None:
        """End what was cancelled, let in what there is room for, and compute a batch."""
        self._stop_cancelled()
        self._let_in()
        lanes: list[tuple[Context, AppliedAdapter]] = []
        for sequence in self._active:
            if sequence.lane not in lanes:
                lanes.append(sequence.lane)
        self._lane = next_lane(lanes, self._lane)
        if self._lane is not None:
            self._compute([one for one in self._active if one.lane == self._lane])

    def should_stop(self) -> bool:
        """Whether the batch that is being computed is of no use any more.

        llama.cpp asks that some hundred times a batch.
        """
        if not self._parent.has_cancelled:
            self._cancelled_at = None
            return False
        cancelled = sum(self._is_cancelled(one) for one in self._batch)
        if not cancelled or cancelled == len(self._batch):
            self._cancelled_at = None
            return bool(cancelled)
        now = time.monotonic()
        self._cancelled_at = self._cancelled_at or now
        return now - self._cancelled_at > PATIENCE_SECONDS

    def _is_cancelled(self, sequence: Sequence) -> bool:
        return self._parent.is_cancelled(sequence.call)

    def _stop_cancelled(self) -> None:
        for sequence in (*self._waiting, *self._active):
            if self._is_cancelled(sequence):
                self._end(sequence)
                self._parent.send(Stopped(id=sequence.call))

    def _let_in(self) -> None:
        """Give slots to those who wait; for each context in order, so that none is passed by."""
        full: list[Context] = []
        for sequence in tuple(self._waiting):
            if sequence.context in full or self._is_being_read(sequence):
                continue
            try:
                slot = sequence.context.take(
                    sequence.tokens,
                    sequence.adapter,
                    sequence.client,
                    knows_nothing=sequence.knows_nothing,
                )
            except LlamaError as error:
                self._fail(sequence, error)
                continue
            if slot is None:
                full.append(sequence.context)
            else:
                self._waiting.remove(sequence)
                self._active.append(sequence)
                sequence.place(slot)

    def _is_being_read(self, sequence: Sequence) -> bool:
        """Whether a prompt is just being read for this very request, which then continues it."""
        if sequence.only_reads:
            self._ahead = sequence
            return False
        return sequence.follows(self._ahead) and self._ahead in self._active

    def _compute(self, sequences: list[Sequence]) -> None:
        """Have the next batch of a lane computed, and words chosen by it."""
        shares = self._shares(sequences)
        self._batch = [one for one, _ in shares]
        self._cancelled_at = None
        context = sequences[0].context
        try:
            reading = context.decode([share for _, share in shares])
        except LlamaError as error:
            for one in self._batch:
                self._fail(one, error)
            return
        if reading is Reading.DONE:
            ends = places([share for _, share in shares])
            for (one, share), place in zip(shares, ends, strict=True):
                one.report_progress()
                if not share.is_sampled or self._is_cancelled(one):
                    continue
                try:
                    if one.only_reads or not one.write(self._model, place, len(self._batch)):
                        one.finish(self._limit)
                        self._end(one)
                except LlamaError as error:
                    self._fail(one, error)
        elif reading is Reading.FULL:
            self._put_back([one for one in self._active if one.context is context])

    def _shares(self, sequences: list[Sequence]) -> list[tuple[Sequence, Share]]:
        pending = [one.pending for one in sequences]
        counts = batch_shares([len(tokens) for tokens in pending], self._model.batch)
        return [
            (one, Share(one.slot, tokens[:count], count == len(tokens)))
            for one, tokens, count in zip(sequences, pending, counts, strict=True)
            if count and one.slot is not None
        ]

    def _put_back(self, held: list[Sequence]) -> None:
        """Have the latest of several wait again: its answer continues when there is room for it."""
        if len(held) < 2:
            return self._fail(held[0], LlamaError("its context is full"))
        latest = held[-1]
        latest.release()
        self._active.remove(latest)
        self._waiting.appendleft(latest)

    def _fail(self, sequence: Sequence, error: LlamaError) -> None:
        self._end(sequence)
        self._parent.send(failure_of(error).reply(sequence.call))

    def _end(self, sequence: Sequence) -> None:
        for sequences in (self._waiting, self._active):
            if sequence in sequences:
                sequences.remove(sequence)
        sequence.close()


def failure_of(error: LlamaError) -> Failure:
    """Return what the parent is to raise: a form that can't be kept to is the request's fault."""
    if isinstance(error, GrammarRefused):
        what = f"This worker can't keep to the form that the answer must have: {error}."
        return Failure("ConfigError", what, "Ask for a simpler form, or choose another worker.")
    if isinstance(error, BrokenModel):
        hint = "Download it again, or choose another model."
        return Failure("ModelFileError", f"The model's file is broken: {error}.", hint)
    return Failure("WorkerError", f"The model failed: {error}.", "Try again.")
