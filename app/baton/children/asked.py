"""What a tool was asked: the few lines of a text in which its question may stand."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_CHARACTERS = 200_000
"""A longer text isn't looked at."""

_FENCE = re.compile(r"^(`{3,})[ \t]*([\w+#.-]*)[^\n]*\n(.*?)^\1`*[ \t]*$", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the fenced blocks: their language in lower case, and what stands in them."""
    return [(match[2].lower(), match[3]) for match in _FENCE.finditer(text)]


def questions(text: str) -> Iterator[str]:
    """Return what may be the question, likeliest first.

    A step's own text is the last paragraph, below what it was shown, which stands between fences.
    """
    text = text.strip()
    bare = _FENCE.sub("\n\n", text).strip()
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", bare) if part.strip()]
    seen = set()
    last = paragraphs[-1] if paragraphs else ""
    shown = [inside.strip() for language, inside in blocks(text) if not language]
    for candidate in (text, last, *last.splitlines(), *shown[:8]):
        if candidate and candidate not in seen:
            seen.add(candidate)
            yield candidate


def python_code(text: str) -> str:
    """Return the Python code in a text, or "": blocks that say so, else the last that doesn't.

    A worker's text stands between fences itself, with its blocks inside.
    """
    labelled, bare = _code(text[:MOST_CHARACTERS], 3)
    return "\n\n".join(labelled) if labelled else (bare[-1] if bare else "")


def _code(text: str, deep: int) -> tuple[list[str], list[str]]:
    labelled: list[str] = []
    bare: list[str] = []
    for language, inside in blocks(text):
        if language in ("python", "py", "python3"):
            labelled.append(inside)
        elif not language:
            inner = _code(inside, deep - 1) if deep else ([], [])
            labelled += inner[0]
            bare += inner[1] or [inside]
    return labelled, bare
