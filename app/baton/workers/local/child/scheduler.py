"""Answers several requests at once: turn by turn, each a batch of what they read and write next.

`Scheduler` is the loop, `Sequence` a request on its way, `TextStream` what is sent of its answer.
"""

from __future__ import annotations

import codecs
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from baton.core.stream_filters import StopFilter
from baton.ipc.messages import Message, Stopped
from baton.ipc.parent_channel import Failure, ParentChannel
from baton.workers.local.child.batch_plan import batch_shares, next_lane
from baton.workers.local.child.llama_loader import LlamaError
from baton.workers.local.child.model_context import Reading, Share, places
from baton.workers.local.child.sampler import BrokenModel, GrammarRefused
from baton.workers.local.messages import (
    AnswerDone,
    AnswerSpeed,
    AnswerText,
    PromptProgress,
    ThoughtTokens,
)
from baton.workers.reasoning_filter import ThoughtFilter

if TYPE_CHECKING:
    from baton.workers.local.child.llama import Model
    from baton.workers.local.child.model_context import AppliedAdapter, Context, Slot
    from baton.workers.local.child.prompt import Prompt
    from baton.workers.local.child.sampler import Sampler

PATIENCE_SECONDS = 0.5
"""How long a batch with others' tokens may run on after one of its requests was cancelled: what it
has computed by then would be lost to all."""

TEXT_SECONDS, MOST_TEXT_SECONDS = 0.06, 0.5
"""Text goes out at once at first, then this often, and less often the more answers are written side
by side: each message costs the parent about a millisecond of the processor that they all share."""

SPEED_SECONDS = 0.5


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
        self._is_reading = False
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
            if sequence.context in full:
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
                    if not one.write(self._model, place, len(self._batch)):
                        one.finish(self._limit)
                        self._end(one)
                except LlamaError as error:
                    self._fail(one, error)
        elif reading is Reading.FULL:
            self._put_back([one for one in self._active if one.context is context])

    def _shares(self, sequences: list[Sequence]) -> list[tuple[Sequence, Share]]:
        # Rooms of their own are computed together only where their numbers follow each other.
        sequences.sort(key=lambda one: one.slot.number if one.slot else 0)
        pending = [one.pending for one in sequences]
        is_split = sequences[0].context.layout.is_split
        counts = batch_shares(
            [len(tokens) for tokens in pending], self._model.batch, is_split=is_split
        )
        if is_split and {len(tokens) > 1 for tokens in pending} == {True, False}:
            # It would take them apart, each token of those who write beside one that is read.
            self._is_reading = not self._is_reading
            counts = [
                count if (len(tokens) > 1) is self._is_reading else 0
                for count, tokens in zip(counts, pending, strict=True)
            ]
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


class Sequence:
    """A prompt and the answer to it, as one row of tokens that a slot of a context reads.

    What the slot hasn't read is pending: the prompt at first, then the word that was chosen last.
    So a slot that had to forget reads again, and nothing else notices. `send` takes the call's
    messages; `shows_lines` is whether they include how sure the model was of each line. One that
    `knows_nothing` reads all of its prompt, as its answer is to be repeatable.
    """

    def __init__(
        self,
        call: int,
        prompt: Prompt,
        sampler: Sampler,
        send: Callable[[Message], None],
        *,
        context: Context,
        adapter: AppliedAdapter,
        shows_lines: bool = False,
        client: str = "",
        knows_nothing: bool = False,
    ) -> None:
        self.call = call
        self.context = context
        self.adapter = adapter
        self.client = client
        self.knows_nothing = knows_nothing
        self.tokens = list(prompt.tokens)
        self.slot: Slot | None = None
        self._prompt = prompt
        self._sampler = sampler
        self._send = send
        self._shows_lines = shows_lines
        self._known = -1
        self._text: TextStream | None = None

    @property
    def lane(self) -> tuple[Context, AppliedAdapter]:
        """What it computes with: only sequences that are alike in this share a batch."""
        return self.context, self.adapter

    @property
    def pending(self) -> list[int]:
        """The tokens that its slot hasn't read yet."""
        return self.tokens if self.slot is None else self.tokens[len(self.slot.tokens) :]

    def place(self, slot: Slot) -> None:
        """Let a slot read it."""
        self.slot = slot
        if self._known < 0:
            self._known = len(slot.tokens)
        self.report_progress()

    def release(self) -> None:
        """Let its slot go."""
        if self.slot is not None:
            self.context.release(self.slot)
            self.slot = None

    def close(self) -> None:
        """Let its slot and its memory go."""
        self.release()
        self._sampler.close()

    def report_progress(self) -> None:
        """Send how much of the prompt was read, until the answer begins."""
        if self._text is None and self.slot is not None:
            total = len(self._prompt.tokens) - self._known
            read = max(len(self.slot.tokens) - self._known, 0)
            self._send(PromptProgress(read, total, id=self.call))

    def write(self, model: Model, place: int, answers: int) -> bool:
        """Choose the next word by the figures at a place of the batch; return whether it continues.

        `answers` is how many are written with it. Thoughts that would leave no room for the answer
        are brought to an end, and so are those at which the model itself stops.
        """
        token = self._sampler.next(self.context.native, place)
        text = self._text = self._text or TextStream(
            self._send, self._prompt.thoughts, self._prompt.stop, self.call
        )
        cap, thoughts, confidence = (
            self._prompt.cap,
            self._prompt.thoughts,
            self._sampler.confidence,
        )
        if model.is_end(token):
            return self._close_thoughts(model, text)
        was_thinking = thoughts.is_thinking
        self.tokens.append(token)
        piece = model.piece(token, token in self._prompt.mark_tokens)
        text.add(piece, answers)
        if text.stop:
            return False
        if b"\n" in piece:
            confidence.end_line()
        if was_thinking and not thoughts.is_thinking:
            confidence.reset()  # it is of the answer, not of the way to it
        elif was_thinking and text.thought >= cap - cap // 4:
            return self._close_thoughts(model, text)
        return text.written < cap or self._close_thoughts(model, text)

    def finish(self, limit: int) -> None:
        """Send what is left of the answer, and its end; `limit` is the chat's context."""
        text, confidence = self._text, self._sampler.confidence
        assert text is not None, "a word was chosen"
        is_full = text.written >= self._prompt.cap
        text.finish(is_cut=is_full)
        is_full = is_full or self._prompt.thoughts.is_thinking
        is_cut = is_full and not text.stop
        self._send(
            AnswerDone(
                tokens_in=len(self._prompt.tokens),
                tokens_out=text.written,
                finish="length" if is_cut else "stop",
                cached=self._known,
                context=limit,
                confidence=confidence.mean,
                least=confidence.least,
                first=confidence.first,
                lines=confidence.lines if self._shows_lines else [],
                stop=text.stop,
                id=self.call,
            )
        )

    def _close_thoughts(self, model: Model, text: TextStream) -> bool:
        """Have the model read that its thoughts end; return whether it continues."""
        ending = model.tokenise(self._prompt.thoughts.closing_text, special=True)
        if not ending or len(ending) >= self._prompt.cap - text.written:
            return False
        for token in ending:
            self.tokens.append(token)
            text.add(model.piece(token, token in self._prompt.mark_tokens), 1)
        return True


class TextStream:
    """Gathers an answer's bytes into whole characters, and characters into messages.

    `written` counts its tokens, `thought` those of them that aren't part of the answer. Of the text
    only what comes before the first of `stop` is sent, as the answer to a `call`.
    """

    def __init__(
        self,
        send: Callable[[Message], None],
        thoughts: ThoughtFilter,
        stop: tuple[str, ...] = (),
        call: int = 0,
    ) -> None:
        self.written = 0
        self.thought = 0
        self._send_message = send
        self._call = call
        self._thoughts = thoughts
        self._stop = StopFilter(stop)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._tokens = 0
        self._thinking = 0
        self._sent = 0.0
        self._began = self._speed_sent = time.monotonic()
        self._thinking_sent = 0.0

    @property
    def stop(self) -> str:
        """That of the texts which came before which the answer ends, or ""."""
        return self._stop.found

    def add(self, piece: bytes, answers: int) -> None:
        """Take one token's bytes, while so many answers are written."""
        text = self._decoder.decode(piece)
        before = self._thoughts.is_thinking
        self._pending += self._stop.feed(self._thoughts.feed(text))
        self.written += 1
        now = time.monotonic()
        if before or self._thoughts.is_thinking:
            self._think(now)
            return
        self._tokens += 1
        pause = min(TEXT_SECONDS * answers, MOST_TEXT_SECONDS)
        if now - self._sent >= pause and self._pending:
            self._send(now)
        if now - self._speed_sent >= SPEED_SECONDS:
            self._speed_sent = now
            self._send_message(AnswerSpeed(self._speed(now), id=self._call))

    def finish(self, *, is_cut: bool = False) -> None:
        """Send what is left, without the bytes of a character that isn't whole."""
        rest = self._thoughts.flush(is_cut=is_cut)
        self._pending += self._stop.feed(rest) + self._stop.flush()
        now = time.monotonic()
        self._report_thinking(now)
        if self._tokens or self._pending:
            self._send(now)

    def _think(self, now: float) -> None:
        """Count a token of thoughts. What came before it was the beginning of their mark."""
        self.thought += 1
        self._thinking += 1 + self._tokens
        self._tokens = 0
        over = not self._thoughts.is_thinking
        if over or now - self._thinking_sent >= SPEED_SECONDS:
            self._report_thinking(now)
        if self._pending:
            self._send(now)

    def _report_thinking(self, now: float) -> None:
        if self._thinking:
            self._send_message(ThoughtTokens(self._thinking, self._speed(now), id=self._call))
            self._thinking, self._thinking_sent = 0, now

    def _speed(self, now: float) -> float:
        return self.written / max(now - self._began, 1e-6)

    def _send(self, now: float) -> None:
        self._send_message(AnswerText(self._pending, self._tokens, id=self._call))
        self._pending, self._tokens, self._sent = "", 0, now
