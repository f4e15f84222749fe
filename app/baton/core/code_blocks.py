"""Fenced blocks in a text, found line by line: no hostile text takes longer than its length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

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
