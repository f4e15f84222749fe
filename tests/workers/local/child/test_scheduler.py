"""How an answer's text is put into messages."""

from __future__ import annotations

import itertools
import time

import pytest

from baton.ipc.messages import Message
from baton.workers.local.child.scheduler import TextStream
from baton.workers.local.messages import AnswerText
from baton.workers.reasoning_filter import ThoughtFilter


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


def test_half_a_character_at_the_cap_is_left_out() -> None:
    sent: list[Message] = []
    text = TextStream(sent.append, ThoughtFilter())
    for piece in (b"flag ", "\U0001f3f3".encode(), "\U0001f308".encode()[:2]):
        text.add(piece, 1)
    text.finish()
    said = "".join(message.text for message in sent if isinstance(message, AnswerText))
    assert said == "flag \U0001f3f3"
