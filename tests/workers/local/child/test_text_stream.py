"""How an answer's text is put into messages."""

from __future__ import annotations

import itertools
import time

import pytest

from baton.ipc.messages import Message
from baton.workers.local.child.reasoning_filter import ThoughtFilter
from baton.workers.local.child.text_stream import TextStream
from baton.workers.local.messages import AnswerText


@pytest.mark.parametrize(("answers", "at_most"), [(1, 17), (4, 6), (16, 4)])
def test_many_answers_at_once_have_fewer_messages_each(
    monkeypatch: pytest.MonkeyPatch, answers: int, at_most: int
) -> None:
    """A word takes 40 ms; what comes is the same, whatever it is put into."""
    clock = itertools.count(100.0, 0.04)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    sent: list[Message] = []
    text = TextStream(sent.append, ThoughtFilter())
    words = [f"word{number} " for number in range(32)]
    for word in words:
        text.add(word.encode(), answers)
    text.finish()
    pieces = [message for message in sent if isinstance(message, AnswerText)]
    assert "".join(piece.text for piece in pieces) == "".join(words)
    assert sum(piece.tokens for piece in pieces) == len(words)
    assert pieces[0].text == words[0], "the first word doesn't wait"
    assert at_most - 1 <= len(pieces) <= at_most + 1
