"""What the words of a request say, in six languages, within microseconds.

Whether it may have parts, or something that can be computed: only such a request is shown to the
trained conductor; a plain question is answered at once. And whether a part of it asks something, or
is hardly more than one operation.

The words are in `lexicon/`, a TOML file for each kind of them, which is read when needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from baton.core.lazy_loading import lazy_pattern


@cache
def lexicon(name: str) -> Mapping[str, Any]:
    """Return a file of the lexicon by its name."""
    import tomllib

    path = Path(__file__).parent / "lexicon" / f"{name}.toml"
    return tomllib.loads(path.read_text("utf-8"))


def alternatives(entry: str | Mapping[str, str]) -> str:
    """Return a regular expression of all lines of an entry, or of its languages' entries."""
    texts = [entry] if isinstance(entry, str) else entry.values()
    return "|".join(line for text in texts for line in text.splitlines() if line)


MAX_REQUEST_CHARS = 1500
"""The conductor was trained on requests of up to about 500 tokens."""

MAX_OWN_CHARS = 600
"""What the user asks for is short; the rest of a request is quoted."""

_QUOTED = lazy_pattern(r"```.*?(?:```|\Z)|\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»", re.DOTALL)

_CHOICES = lazy_pattern(r"^\s{0,9}\(?[A-D][).:]\s", re.MULTILINE)
"""A question with answers to choose from is one thing."""


def _words(*entries: str) -> str:
    """Return what matches a whole word of some entries."""
    words = "|".join(alternatives(lexicon("requests")[entry]) for entry in entries)
    return rf"(?<!\w)(?:{words})(?!\w)"


_CUE = lazy_pattern(
    lambda: (
        r"\d|(?-i:\b[MDCLXVI]{2,}\b)|"
        + _words("joining", "numbers", "compound_numbers", "times", "amounts")
        + r"|[?.!;:]\s+\S|\n\s*\S|\S,\s"
    ),
    re.IGNORECASE,
)


_OPENING = lazy_pattern(
    lambda: rf"^\W*(?:{alternatives(lexicon('requests')['joining'])})(?!\w)", re.IGNORECASE
)
"""A joint that a request begins with joins it to what was said before."""


_REASONING_WORDS = lazy_pattern(lambda: _words("reasoning"), re.IGNORECASE)
"""Numbers in such a request must not be computed."""


_FORMULA = lazy_pattern(r"\\[a-zA-Z]{3,}|\$(?=\S)[^$\n]{0,200}\S\$(?!\d)")
"""LaTeX: a request with it is a textbook's problem, and not marked."""


def wants_reasoning(request: str) -> bool:
    """Whether a request is for a proof, a riddle or a textbook's problem.

    A computed number doesn't answer it.
    """
    own = _QUOTED.sub(" ", request)
    return any(pattern.search(own) for pattern in (_REASONING_WORDS, _FORMULA))


def may_have_parts(request: str) -> bool:
    """Whether the trained conductor should look at a request."""
    request = request.strip()
    if not request or len(request) > MAX_REQUEST_CHARS:
        return False
    own = _QUOTED.sub(" ", request)
    if len(own) > MAX_OWN_CHARS or len(_CHOICES.findall(own)) > 1:
        return False
    return _CUE.search(_OPENING.sub("", own)) is not None


_ASKING = lazy_pattern(lambda: r"\?|=|^\W*\d|" + _words("asking"), re.IGNORECASE)


def asks(text: str) -> bool:
    """Whether a part of a request asks for something, and doesn't only say how things are."""
    return _ASKING.search(text) is not None


_OPERATION = lazy_pattern(r"(?<=[\w)%])\s*(?:->|[-+*/^])|[a-z]+(?=\()")


def is_simple(request: str, expression: str) -> bool:
    """Whether a request is short and its expression hardly more than one operation."""
    return len(request.split()) <= MAX_SIMPLE_WORDS and len(_OPERATION.findall(expression)) <= 2


MAX_SIMPLE_WORDS = 14
