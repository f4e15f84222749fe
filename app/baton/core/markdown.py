"""Markdown: the code blocks in a text, and a conversation as a document."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from baton.core.history_types import Conversation
from baton.core.labels import Label
from baton.core.messages import Attachment, Role, Turn, TurnStatus
from baton.core.sanitiser import one_line

_OPENING = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`]*$")
_CLOSING = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*$")

LINE_BREAK = re.compile(r"\r\n|\r|\n")
"""Where a line of code ends; `str.splitlines` cuts at U+2028 and form feeds within texts, too."""


class CodeBlock(NamedTuple):
    """A fenced block: its language in lower case (or ""), and its text."""

    language: str
    text: str


def text_and_blocks(text: str) -> Iterator[str | CodeBlock]:
    """Return the text between blocks and the blocks, in their order; one left open is a block."""
    text_lines: list[str] = []
    inside: list[str] = []
    fence = language = ""
    lines = LINE_BREAK.split(text)
    for line in lines if lines[-1] else lines[:-1]:
        if fence:
            closing = _CLOSING.match(line)
            if closing and closing[1].startswith(fence):
                yield CodeBlock(language, "\n".join(inside))
                fence, inside = "", []
            else:
                inside.append(line)
        elif opening := _OPENING.match(line):
            if text_lines:
                yield "\n".join(text_lines)
                text_lines = []
            fence, language = opening[1], opening[2].lower()
        else:
            text_lines.append(line)
    if fence:
        yield CodeBlock(language, "\n".join(inside))
    elif text_lines:
        yield "\n".join(text_lines)


def blocks(text: str, deep: int = 3) -> list[CodeBlock]:
    """Return all blocks, those inside of blocks without a language too, and those in these.

    What a worker is shown of another's text stands between fences itself.
    """
    found: list[CodeBlock] = []
    for part in text_and_blocks(text):
        if isinstance(part, CodeBlock):
            inner = blocks(part.text, deep - 1) if deep and not part.language else []
            found += inner or [part]
    return found


def prose(text: str) -> str:
    """Return the text without its blocks."""
    return "\n\n".join(part for part in text_and_blocks(text) if isinstance(part, str))


# A conversation as Markdown


_STATUS_PHRASES = {
    TurnStatus.STREAMING: "still being written",
    TurnStatus.CUT: "cut at its length limit",
    TurnStatus.CANCELLED: "stopped",
    TurnStatus.FAILED: "failed",
    TurnStatus.LOST: "Baton was ended while this was being written",
}
_LABEL_PHRASES = {Label.LOCAL: "stays on this machine", Label.LAN: "stays on this network"}
_NO_WORKER = "Answer"
_TIME_FORMAT = "%Y-%m-%d %H:%M UTC"

_BREAKING_OUT = re.compile(
    r"[ \t]*(?:[#<>=]|```|~~~|(?:-[ \t]*)+$|\*\((?:stopped|failed|cut|still|Baton)|\*Attached: )"
)
"""How a line begins that could end a turn, reach beyond it, or look like Baton's own."""

_QUOTE = re.compile(r"(^|\r\n|\r|\n)> ?")
_FENCE = re.compile(r"(`{3,})[^`]*$")
_FACTS = re.compile(r"\*(\d{4}-\d\d-\d\d \d\d:\d\d UTC)(?:, (.*))?\*")
_FILE = re.compile(r"\*Attached: (.*) \(([\d,]+) bytes\)\*\n\n")
_ENDING = re.compile(r"(?:^|\n\n)\*\(([^\n]*)\)\*$")


def to_markdown(conversation: Conversation, turns: Sequence[Turn]) -> str:
    """Return one branch of a conversation as Markdown.

    Texts stand there as they were written, so what goes to a terminal needs the sanitiser.
    """
    details = [datetime.fromtimestamp(conversation.created, UTC).strftime(_TIME_FORMAT)]
    if reach := _LABEL_PHRASES.get(conversation.label):
        details.append(reach)
    blocks = [f"# {one_line(conversation.title)}", f"*{', '.join(details)}*"]
    for turn in turns:
        blocks += _turn_blocks(turn)
    return "\n\n".join(blocks) + "\n"


def from_markdown(text: str) -> list[dict[str, Any]]:
    """Return the conversations of a Markdown export as those of one in JSON.

    Of files only names and sizes are there. Raises ValueError for what `to_markdown` didn't write.
    """
    before, *parts = _parts(text.removesuffix("\n"), "# ")
    if before or not parts:
        raise ValueError("it doesn't begin with a title")
    return [_read_conversation(part) for part in parts]


def _turn_blocks(turn: Turn) -> list[str]:
    speaker = "You" if turn.role is Role.USER else one_line(turn.worker) or _NO_WORKER
    if turn.role is not Role.USER and re.search(r"^(You|Answer)$| \(worker\)$", turn.worker):
        speaker += " (worker)"
    blocks = [f"## {speaker}", *map(_file_line, turn.files)]
    if turn.text:
        blocks.append(turn.text if _stays_within(turn.text) else _quotation(turn.text))
    if ending := _STATUS_PHRASES.get(turn.status):
        blocks.append(f"*({ending})*")
    return blocks


def _file_line(file: Attachment) -> str:
    return f"*Attached: {one_line(file.name)} ({file.size:,} bytes)*"


def _stays_within(text: str) -> bool:
    """Whether a text can stand as it is: nothing in it reaches beyond its end."""
    fence = ""
    for line in text.split("\n"):
        after = _fence_after(line, fence)
        if fence and after and line.lstrip().startswith(fence):
            return False  # some take this for the end
        if not (fence or after) and _BREAKING_OUT.match(line):
            return False
        fence = after
    return not fence and "\r" not in text


def _fence_after(line: str, fence: str) -> str:
    """Return the fence that is open after a line, where `fence` was open before it; or ""."""
    if fence:
        return "" if re.fullmatch(f"{fence}`*[ \t]*", line) else fence
    opening = _FENCE.match(line)
    return opening[1] if opening is not None else ""


def _quotation(text: str) -> str:
    return "> " + LINE_BREAK.sub(lambda end: f"{end[0]}> ", text)


def _parts(text: str, mark: str) -> list[str]:
    """Return what stands before the first line with this mark, and the parts that begin so."""
    parts: list[list[str]] = [[]]
    fence = ""
    for line in text.split("\n"):
        if not fence and line.startswith(mark):
            parts.append([])
        parts[-1].append(line)
        fence = _fence_after(line, fence)
    return ["\n".join(lines).removesuffix("\n") for lines in parts]


def _read_conversation(text: str) -> dict[str, Any]:
    head, *turns = _parts(text, "## ")
    title, details = head.split("\n\n")
    match = _FACTS.fullmatch(details)
    if match is None:
        raise ValueError("no date stands under its title")
    labels = {phrase: label for label, phrase in _LABEL_PHRASES.items()}
    shared: dict[str, Any] = {
        "label": labels.get(match[2], Label.CLOUD).value,
        "created": datetime.strptime(f"{match[1]}+0000", f"{_TIME_FORMAT}%z").timestamp(),
    }
    ids = [hashlib.sha256(f"{n} {text}".encode()).hexdigest()[:12] for n in range(len(turns) + 1)]
    return shared | {
        "id": ids[0],
        "title": title.removeprefix("# "),
        "system": None,
        "updated": shared["created"],
        "head": ids[-1] if turns else None,
        "sent_from": None,
        "label_changes": [],
        "turns": [
            shared | {"id": id, "parent": parent} | _read_turn(turn, shared["label"])
            for parent, id, turn in zip([None, *ids[1:]], ids[1:], turns, strict=False)
        ],
        "runs": [],
    }


def _read_turn(text: str, label: str) -> dict[str, Any]:
    head, _, rest = text.partition("\n\n")
    speaker, rest, files = head.removeprefix("## "), f"{rest}\n\n", []
    while (file := _FILE.match(rest)) is not None:
        files.append({"name": file[1], "size": int(file[2].replace(",", "")), "text": ""})
        rest = rest[file.end() :]
    words, status = rest.removesuffix("\n\n"), TurnStatus.DONE
    phrases = {phrase: status for status, phrase in _STATUS_PHRASES.items()}
    if (ending := _ENDING.search(words)) is not None and ending[1] in phrases:
        words, status = words[: ending.start()], phrases[ending[1]]
    if words.startswith(">"):
        words = _QUOTE.sub(r"\1", words)
    worker = speaker.removesuffix(" (worker)")
    return {
        "role": (Role.USER if speaker == "You" else Role.ASSISTANT).value,
        "text": words,
        "status": status.value,
        "worker": "" if speaker in ("You", _NO_WORKER) else worker,
        "run": None,
        "files": [file | {"label": label} for file in files],
    }
