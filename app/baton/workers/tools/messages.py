"""Messages between the tool process and its parent."""

from __future__ import annotations

from baton.ipc.messages import FinalReply, Message


class RunTool(Message, tag="call"):
    """Run a tool on a text for at most so many seconds.

    `tool` is calculator, units, clock or python; also `mark` and `check`, which read a request for
    the conductor: the text is the request, or JSON of it and its parts.
    """

    tool: str
    text: str
    seconds: float


class ToolReply(FinalReply, tag="done"):
    """What a tool made of its text."""

    text: str


REQUESTS = RunTool
REPLIES = ToolReply
