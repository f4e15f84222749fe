"""The words of requests in six languages: the TOML files in `lexicon/`, each read when needed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


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
