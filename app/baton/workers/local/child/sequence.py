"""A request that is being answered: what the model reads and writes for it, and what is sent."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from baton.core.stream_filters import StopFilter
from baton.ipc.messages import Message
from baton.workers.local.child.batch_plan import FINAL_TOKENS
from baton.workers.local.messages import (
    AnswerDone,
    AnswerSpeed,
    AnswerText,
    PromptProgress,
    PromptRead,
    ThoughtTokens,
)
from baton.workers.reasoning_filter import ThoughtFilter

if TYPE_CHECKING:
    from baton.workers.local.child.llama import Model
    from baton.workers.local.child.model_context import AppliedAdapter, Context, Slot
    from baton.workers.local.child.prompt import Prompt
    from baton.workers.local.child.sampler import Sampler


TEXT_SECONDS, MOST_TEXT_SECONDS = 0.06, 0.5
"""Text goes out at once at first, then this often, and less often the more answers are written side
by side: each message costs the parent about a millisecond of the processor that they all share."""

SPEED_SECONDS = 0.5


class Sequence:
    """A prompt and the answer to it, as one row of tokens that a slot of a context reads.

    What the slot hasn't read is pending: the prompt at first, then the word that was chosen last.
    So a slot that had to forget reads again, and nothing else notices. `send` takes the call's
    messages; `shows_lines` is whether they include how sure the model was of each line. With
    `only_reads` it is over once the prompt is read but for its last tokens. One that
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
        only_reads: bool = False,
        client: str = "",
        knows_nothing: bool = False,
    ) -> None:
        self.call = call
        self.only_reads = only_reads
        self.context = context
        self.adapter = adapter
        self.client = client
        self.knows_nothing = knows_nothing
        self.tokens = list(prompt.tokens[:-FINAL_TOKENS] if only_reads else prompt.tokens)
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

    def follows(self, ahead: Sequence | None) -> bool:
        """Whether another one read the same prompt for it; what that found known, counts."""
        if ahead is None or ahead.lane != self.lane or ahead.client != self.client:
            return False
        if ahead.tokens != self.tokens[:-FINAL_TOKENS]:
            return False
        self._known = ahead._known
        return True

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
        if self._text is None and self.slot is not None and not self.only_reads:
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
        piece = self._add(model, text, token, answers)
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
        if self.only_reads:
            return self._send(PromptRead(id=self.call))
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
            self._add(model, text, token)
        return True

    def _add(self, model: Model, text: TextStream, token: int, answers: int = 1) -> bytes:
        self.tokens.append(token)
        piece = model.piece(token, token in self._prompt.mark_tokens)
        text.add(piece, answers)
        return piece


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
