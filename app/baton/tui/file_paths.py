"""The files that a prompt can name: how they are written, and which there are."""

from __future__ import annotations

import os
import re
import time
import unicodedata
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.sanitiser import sanitise
from baton.platform.durable_files import expand_home

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_MENTION = re.compile(r"""(?:^|[\s(\["'`*:„“«—])@(?:"([^"]*)|([^\s"]*))$""")

MAX_ENTRIES = 2_000
"""How many entries of one folder are looked at."""

MAX_PATHS = 10_000
"""How many files and folders of the working folder are looked at."""

MAX_SECONDS = 1.0
"""For how long at most they are looked for."""

MAX_IGNORE_BYTES = 64 * 1024
"""How large a .gitignore may be that is read."""


def path_at_end(before: str) -> str | None:
    """Return the `@path` that is being typed at the end of this text, without the `@`."""
    found = _MENTION.search(before)
    return None if found is None else found[1] if found[1] is not None else found[2]


def mention_of(path: str) -> str:
    """Write a path as it is named in a prompt."""
    quote = "'" if '"' in path else '"'
    is_quoted = (" " in path or '"' in path) and not path.endswith("/")
    return f"@{quote}{path}{quote}" if is_quoted else f"@{path}"


def is_outside(typed: str) -> bool:
    """Whether a typed path leads out of the working folder."""
    return typed.startswith(("/", "~", "..", "./"))


def folder_paths(typed: str, limit: int = MAX_ENTRIES) -> list[str]:
    """Return what is in the folder of a typed path and begins like it; folders end in a slash."""
    folder, _, start = typed.rpartition("/")
    where = expand_home(f"{folder}/" if "/" in typed else ".")
    try:
        with os.scandir(where) as entries:
            found = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in islice(entries, MAX_ENTRIES)
                if _fold(entry.name).startswith(_fold(start))
                and (start.startswith(".") or not entry.name.startswith("."))
                and _can_be_named(entry.name)
            ]
    except OSError:
        return []
    prefix = f"{folder}/" if "/" in typed else ""
    return [prefix + name for name in sorted(found, key=str.lower)[:limit]]


def _fold(name: str) -> str:
    """Return a name in small letters, each composed as a keyboard writes it."""
    return unicodedata.normalize("NFC", name).lower()


def tree_paths(root: Path, limit: int = MAX_PATHS, seconds: float = MAX_SECONDS) -> list[str]:
    """Return the files and folders under a folder, the nearest first; folders end in a slash.

    Left out are `.git` and what .gitignore files say. Links to folders aren't followed. It ends
    after so many paths or seconds, with what it has.
    """
    end = time.monotonic() + seconds
    return list(islice(_walk(root, end), limit))


def _walk(root: Path, end: float) -> Iterator[str]:
    """Yield what is under a folder, one level after the other."""
    level: list[tuple[str, tuple[_Ignored, ...]]] = [("", ())]
    while level:
        deeper: list[tuple[str, tuple[_Ignored, ...]]] = []
        for folder, outer in level:
            if time.monotonic() > end:
                return
            ignored = (*outer, *_read_ignored(root, folder))
            for name, is_folder in _entries(root / folder):
                path = f"{folder}{name}/" if is_folder else f"{folder}{name}"
                if _is_ignored(ignored, path):
                    continue
                yield path
                if is_folder:
                    deeper.append((path, ignored))
        level = deeper


def _entries(folder: Path) -> list[tuple[str, bool]]:
    """Return the names in a folder that a prompt can hold, and which are folders."""
    try:
        with os.scandir(folder) as entries:
            found = [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in islice(entries, MAX_ENTRIES)
                if entry.name != ".git" and _can_be_named(entry.name)
            ]
    except OSError:
        return []
    return sorted(found, key=lambda entry: (entry[1], entry[0].lower()))


def _can_be_named(name: str) -> bool:
    """Whether a prompt can hold it as it is, so that no file's name writes to the terminal."""
    return name == sanitise(name) and not {'"', "'"} <= set(name) and "\n" not in name


_Ignored = tuple[str, "GitIgnoreSpec"]
"""The folder of a .gitignore file, from the root on, and what it says."""


def _read_ignored(root: Path, folder: str) -> list[_Ignored]:
    from pathspec import GitIgnoreSpec

    path = root / folder / ".gitignore"
    try:
        if not path.is_file():  # a pipe would never end
            return []
        with path.open("rb") as file:
            text = file.read(MAX_IGNORE_BYTES).decode("utf-8", "replace")
        return [(folder, GitIgnoreSpec.from_lines(text.splitlines()))]
    except (OSError, ValueError):
        return []


def _is_ignored(ignored: tuple[_Ignored, ...], path: str) -> bool:
    """Whether a path is ignored: the innermost .gitignore that says anything of it decides."""
    for folder, spec in reversed(ignored):
        if (decided := spec.check_file(path.removeprefix(folder)).include) is not None:
            return decided
    return False
