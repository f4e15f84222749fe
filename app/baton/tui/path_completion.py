"""Completing `@path` in a prompt."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path

from baton.core.sanitiser import sanitise

_MENTION = re.compile(r"""(?:^|[\s(\["'])@(?:"([^"]*)|([^\s"]*))$""")
_MAX_ENTRIES = 2_000
"""How many entries of a folder are looked at."""


def path_at_end(before: str) -> str | None:
    """Return the `@path` that is being typed at the end of this text, without the `@`."""
    found = _MENTION.search(before)
    return None if found is None else found[1] if found[1] is not None else found[2]


def path_candidates(typed: str, limit: int = 6) -> list[str]:
    """Return the paths that the typed one may become; folders end in a slash. Reads one folder."""
    folder, _, start = typed.rpartition("/")
    where = Path(f"{folder}/" if "/" in typed else ".").expanduser()
    try:
        with os.scandir(where) as entries:
            found = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in islice(entries, _MAX_ENTRIES)
                if entry.name.lower().startswith(start.lower())
                and (start.startswith(".") or not entry.name.startswith("."))
                and entry.name == sanitise(entry.name)
                and '"' not in entry.name
                and "\n" not in entry.name
            ]
    except OSError:
        return []
    prefix = f"{folder}/" if "/" in typed else ""
    return [prefix + name for name in sorted(found, key=str.lower)[:limit]]


def mention_of(path: str) -> str:
    """Write a path as it is named in a prompt."""
    return f'@"{path}"' if " " in path and not path.endswith("/") else f"@{path}"
