"""A conversation as Markdown, for people to keep and to pass on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from baton.core.history_types import Conversation
from baton.core.labels import Label
from baton.core.messages import Attachment, Role, Turn, TurnStatus
from baton.core.sanitiser import one_line

_STATUS_PHRASES = {
    TurnStatus.STREAMING: "still being written",
    TurnStatus.CUT: "cut at its length limit",
    TurnStatus.CANCELLED: "stopped",
    TurnStatus.FAILED: "failed",
    TurnStatus.LOST: "Baton was ended while this was being written",
}
_LABEL_PHRASES = {Label.LOCAL: "stays on this machine", Label.LAN: "stays on this network"}


def to_markdown(conversation: Conversation, turns: Sequence[Turn]) -> str:
    """Return one branch of a conversation as Markdown.

    Texts stand there as they were written, so what goes to a terminal needs the sanitiser.
    """
    facts = [_date_text(conversation.created)]
    if reach := _LABEL_PHRASES.get(conversation.label):
        facts.append(reach)
    blocks = [f"# {one_line(conversation.title)}", f"*{', '.join(facts)}*"]
    for turn in turns:
        blocks += _turn_blocks(turn)
    return "\n\n".join(blocks) + "\n"


def _turn_blocks(turn: Turn) -> list[str]:
    speaker = "You" if turn.role is Role.USER else one_line(turn.worker) or "Answer"
    blocks = [f"## {speaker}", *map(_file_line, turn.files)]
    if turn.text.strip():
        blocks.append(turn.text.strip("\n"))
    if ending := _STATUS_PHRASES.get(turn.status):
        blocks.append(f"*({ending})*")
    return blocks


def _file_line(file: Attachment) -> str:
    return f"*Attached: {one_line(file.name)} ({file.size:,} bytes)*"


def _date_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
