"""How long answers get by task kind, where nothing better is known of a prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping

TOKENS_P99: Mapping[str, int] = {
    "math": 2100, "calculation": 512, "code": 4096, "knowledge": 2048, "reasoning": 3072,
    "writing": 4096, "rewriting": 2048, "summary": 1536, "extraction": 2048, "translation": 2048,
    "planning": 4096, "chat": 2048,
}  # fmt: skip
"""Tokens that 99 of 100 answers of a kind don't exceed.

That of `math` is measured on the router's visible rows (models/router/README.md). No outcomes with
lengths are known of the other kinds beyond multiple choice: theirs are chosen to cut rarely."""

COPIED_SHARE = {"rewriting": 1.5, "translation": 2.0, "extraction": 1.0}
"""Tokens of an answer for each token of the text that it reworks."""


def usual_tokens_p99(kind: str, read: int = 0) -> int:
    """Return how many tokens 99 of 100 answers of a kind don't exceed that rework so many."""
    return max(TOKENS_P99.get(kind, max(TOKENS_P99.values())), copied_tokens(kind, read))


def copied_tokens(kind: str, read: int) -> int:
    """Return how many tokens an answer has that only reworks a text of so many; 0 of some kinds."""
    return round(COPIED_SHARE.get(kind, 0.0) * max(0, read))


_WORD_COUNT = re.compile(
    r"(\d{1,3}(?:[., ]\d{3}){1,2}|\d{1,7})[ -]{0,2}(?:words?|wörter|mots|palabras|parole)\b",
    re.IGNORECASE,
)
_TOKENS_PER_WORD = 2
"""Tokens of a word, at most: English has 1.3 of them, German about 2."""


def requested_tokens(prompt: str) -> int:
    """Return how many tokens a prompt asks for that names a number of words; else 0."""
    found = (int(re.sub(r"\D", "", match[1])) for match in _WORD_COUNT.finditer(prompt))
    return _TOKENS_PER_WORD * max(found, default=0)
