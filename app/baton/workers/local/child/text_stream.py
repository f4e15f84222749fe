"""An answer on its way out: bytes become text, thoughts stay out of it, both go in messages."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable

from baton.core.stop_sequences import StopFilter
from baton.ipc.messages import Message
from baton.workers.local.messages import AnswerSpeed, AnswerText, ThoughtTokens
from baton.workers.reasoning_filter import ThoughtFilter

TEXT_SECONDS, MOST_TEXT_SECONDS = 0.06, 0.5
"""Text goes out at once at first, then this often, and less often the more answers are written side
by side: each message costs the parent about a millisecond of the processor that they all share."""

SPEED_SECONDS = 0.5


class TextStream:
    """Gathers an answer's bytes into whole characters, and characters into messages.

    `written` counts its tokens, `thought` those of them that are no part of the answer. Of the text
    only what comes before the first of `stop` is sent.
    """

    def __init__(
        self,
        send: Callable[[Message], None],
        thoughts: ThoughtFilter,
        stop: tuple[str, ...] = (),
    ) -> None:
        self.written = 0
        self.thought = 0
        self._send_message = send
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
            self._send_message(AnswerSpeed(self._speed(now)))

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
            self._send_message(ThoughtTokens(self._thinking, self._speed(now)))
            self._thinking, self._thinking_sent = 0, now

    def _speed(self, now: float) -> float:
        return self.written / max(now - self._began, 1e-6)

    def _send(self, now: float) -> None:
        self._send_message(AnswerText(self._pending, self._tokens))
        self._pending, self._tokens, self._sent = "", 0, now
