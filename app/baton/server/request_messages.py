"""The messages of a request as workers read them: turns of text that alternate.

Nothing that can be placed or skipped fails a turn. A picture in an earlier turn, or in what a tool
gave, becomes a note; what isn't for models is left out; both are named in `warnings`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from baton.core.messages import Message, Role
from baton.server.api_errors import ApiError, bad_request

MAX_MESSAGES = 4_096
MAX_WARNINGS = 50

NOTHING = "…"
"""What stands for a prompt without a text, and before an answer that nothing was asked for."""

GO_ON = "Go on exactly where you stopped."
"""What is asked where a conversation ends with the beginning of an answer: too short a text to be
known again by itself (core.text_match), as programs that share nothing all say it."""

_TEXTS = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_text"})
_MEDIA = {
    "audio": "A recording",
    "document": "A document",
    "file": "A file",
    "image": "An image",
    "image_url": "An image",
    "input_audio": "A recording",
    "input_file": "A file",
    "input_image": "An image",
    "video_url": "A film",
}


class Spoken(NamedTuple):
    """A message; `media` is what of it can't be read, as it came from the user ("": nothing)."""

    role: Role
    text: str
    media: str = ""


def read_content(
    content: object, param: str, warnings: list[str], between: str = ""
) -> tuple[str, str]:
    """Return a content's text, and a kind of part that it holds and no worker can read, or "".

    It is a string, or parts with `between` between them; an object without a type is its JSON.
    """
    if content is None or isinstance(content, str):
        return content or "", ""
    if isinstance(content, Mapping):
        if "type" not in content:
            return json.dumps(content, ensure_ascii=False), ""
        content = [content]
    if not isinstance(content, list):
        raise bad_request("A message's content is text, or a list of parts.", param)
    texts, media = [], ""
    for part in content:
        kind = part.get("type", "text") if isinstance(part, Mapping) else "text"
        if not isinstance(kind, str):
            raise bad_request("A part of a message has no type.", param)
        text = _part_text(part, kind, param)
        if text is not None:
            texts.append(text)
        elif kind in _MEDIA:
            texts.append(f"[{_MEDIA[kind]} stands here, which this model can't read.]")
            media = kind
            warn(warnings, f"{_MEDIA[kind]} was replaced by a note: no worker reads them yet.")
        elif kind not in _THOUGHTS:
            warn(warnings, f"A part of type {kind[:40]!r} was left out.")
    return between.join(texts), media


def _part_text(part: object, kind: str, param: str) -> str | None:
    """Return the text of a part, None where it has none. Raises ApiError."""
    if not isinstance(part, Mapping):
        if isinstance(part, str):
            return part
        raise bad_request("A message's content is text, or a list of parts.", param)
    source = part.get("source")
    if isinstance(source, Mapping) and source.get("type") == "text":  # a document of text
        return str(source.get("data", ""))
    text = part.get("text", part.get("refusal"))
    if kind in _TEXTS and text is not None and not isinstance(text, str):
        raise bad_request("A part of a message has no text.", param)
    if kind in _TEXTS or (isinstance(text, str) and kind not in _THOUGHTS):
        return text or ""
    inner = part.get("content")
    return read_content(inner, param, [])[0] if kind == "search_result" else None


def read_role(role: object, warnings: list[str], param: str) -> Role:
    """Return who speaks; one that Baton doesn't know is taken for the user. Raises ApiError."""
    if not isinstance(role, str):
        raise bad_request("A message has no role.", f"{param}.role")
    match role.lower():
        case "system" | "developer":
            return Role.SYSTEM
        case "assistant" | "model" | "ai" | "bot":
            return Role.ASSISTANT
        case "user" | "human":
            return Role.USER
    warn(warnings, f"The role {role[:40]!r} was read as `user`.")
    return Role.USER


def split_conversation(
    spoken: Iterable[Spoken], param: str, *, may_be_empty: bool = False
) -> tuple[str, tuple[Message, ...], str | None, tuple[Message, ...]]:
    """Return the prompt, the turns before it, the system text, and all messages as they came.

    Turns alternate: what one side says twice is put together. Raises ApiError where the last
    message holds what can't be read, or where there are none or too many.
    """
    read = tuple(islice(spoken, MAX_MESSAGES + 1))
    if len(read) > MAX_MESSAGES:
        problem = f"There are more than {MAX_MESSAGES:,} messages, which are the most."
        raise ApiError(400, "too_many_messages", problem, "Leave the oldest ones out.", param)
    if not read and not may_be_empty:
        raise bad_request("There are no messages.", param)
    if read and read[-1].media:
        problem = f"Baton's workers read text, and the last message holds {read[-1].media!r}."
        raise ApiError(400, "unsupported_content", problem, param=param)
    messages = tuple(Message(one.role, one.text) for one in read)
    system, turns = _turns(messages)
    whole = "\n\n".join(system) if system else None
    if not turns:
        return whole or NOTHING, (), None, messages
    if turns[-1].role is Role.ASSISTANT:
        turns.append(Message(Role.USER, GO_ON))
    if turns[0].role is Role.ASSISTANT:
        turns.insert(0, Message(Role.USER, NOTHING))  # chat templates want the user to begin
    prompt = turns[-1].text
    return prompt if prompt.strip() else NOTHING, tuple(turns[:-1]), whole, messages


def _turns(messages: Iterable[Message]) -> tuple[list[str], list[Message]]:
    """Return the system's texts, and the turns of the two sides in turn."""
    system: list[str] = []
    sides: list[tuple[Role, list[str]]] = []
    for message in messages:
        if message.role is Role.SYSTEM:
            system.append(message.text)
        elif sides and sides[-1][0] is message.role:
            sides[-1][1].append(message.text)
        else:
            sides.append((message.role, [message.text]))
    turns = [Message(role, "\n\n".join(texts)) for role, texts in sides]
    if turns and turns[-1].role is Role.ASSISTANT and not turns[-1].text.strip():
        turns.pop()  # it is to be written
    return system, turns


def warn(warnings: list[str], warning: str) -> None:
    """Add a warning, once, and not without end."""
    if len(warnings) < MAX_WARNINGS and warning not in warnings:
        warnings.append(warning)


def note_unknown(names: Iterable[Any], warnings: list[str]) -> None:
    """Name fields that are ignored."""
    named = [*names]
    shown = [repr(str(name)[:40]) for name in named[:12]]
    if shown:
        more = f" and {len(named) - 12} more" if len(named) > 12 else ""
        verb = "has" if len(named) == 1 else "have"
        warn(warnings, f"{', '.join(shown)}{more} {verb} no effect here.")
