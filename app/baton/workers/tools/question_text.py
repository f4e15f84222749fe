"""What a tool was asked: the few lines of a text in which its question may stand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from baton.core.code_blocks import blocks, prose

MAX_TEXT_CHARS = 200_000
"""A longer text isn't looked at."""

PYTHON_NAMES = ("python", "py", "python3")
TESTS_LANGUAGE = "python-tests"
"""The language of a block of tests for the code in the other blocks; only these decide then."""


def question_candidates(text: str) -> Iterator[str]:
    """Return what may be the question, likeliest first.

    A step's own text is the last paragraph, below what it was shown, which stands between fences.
    """
    text = text[:MAX_TEXT_CHARS].strip()
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", prose(text)) if part.strip()]
    last = paragraphs[-1] if paragraphs else ""
    shown = [block.text.strip() for block in blocks(text)[:8] if not block.language]
    for candidate in dict.fromkeys((text, last, *last.splitlines()[:8], *shown)):
        if candidate:
            yield candidate


def python_code(text: str, language: str = "") -> str:
    """Return the Python code in a text, or "": blocks that say so, else the last that doesn't.

    With a language, such as TESTS_LANGUAGE, it is the blocks of that one.
    """
    found = blocks(text)
    wanted = (language,) if language else PYTHON_NAMES
    labelled = [block.text for block in found if block.language in wanted]
    bare = [block.text for block in found if not block.language and not language]
    return "\n\n".join(labelled or bare[-1:])
