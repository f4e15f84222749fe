"""Messages between the tool process and its parent."""

from __future__ import annotations

import re

from baton.core.frozen_dataclass import frozen_dataclass
from baton.ipc.messages import FinalReply, Message

MAX_TEXT_CHARS = 200_000
"""A longer text isn't looked at."""


class RunCode(Message, tag="code"):
    """Run the Python code in a text for at most so many seconds."""

    text: str
    seconds: float


class CodeReply(FinalReply, tag="ran"):
    """What a run of code showed."""

    text: str


class MarkText(Message, tag="mark"):
    """Mark the literals of a text; its language is guessed unless given."""

    text: str
    language: str = ""


class MarkReply(FinalReply, tag="marked"):
    """A text with its literals marked."""

    marked: MarkedText


@frozen_dataclass
class MarkedText:
    """A request with its literals marked."""

    text: str
    language: str
    literals: tuple[MarkedLiteral, ...] = ()

    def restored(self, text: str) -> str:
        """Return a part of the marked text with its literals as the user wrote them."""
        position = 0
        for literal in self.literals:
            if literal.written == literal.marked:
                continue
            pattern = re.compile(rf"(?<![\w.]){re.escape(literal.marked)}(?!\w|\.\d)")
            if match := pattern.search(text, position) or pattern.search(text):
                text = text[: match.start()] + literal.written + text[match.end() :]
                position = match.start() + len(literal.written)
        return text


@frozen_dataclass
class MarkedLiteral:
    """A literal as it was written, and as the plan language writes it."""

    written: str
    marked: str


REQUESTS = RunCode | MarkText
REPLIES = CodeReply | MarkReply
