"""Messages between the self-test's child and its parent."""

from __future__ import annotations

from baton.ipc.messages import FinalReply, Message


class UsePart(Message, tag="try"):
    """Load one of `doctor.child.PARTS`, and use it."""

    part: str


class PartLoading(Message, tag="trying"):
    """The module that is loaded now, "" once all are."""

    module: str


class PartUsed(FinalReply, tag="tried"):
    """What the part says of itself; unless all is `well` it doesn't work as it could."""

    text: str
    well: bool


REQUESTS = UsePart
REPLIES = PartLoading | PartUsed
