"""The files that a prompt names: `@path`, in quotes of all kinds, escaped, or followed by signs.

Of the ways to read a name, the longest that is a file counts. Mail addresses, handles, decorators
and domains stay plain text.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from baton.core.sanitiser import one_line

MAX_NAME_CHARS = 1024
"""How long a name without spaces may be; what stands behind it in a text without any is none."""

MAX_SIGNS = 32
"""After how many signs at most a name without spaces may end."""

MAX_WORDS = 8
"""How many words a name without quotes may have."""

MAX_ENTRIES = 2_000
"""How many entries of a folder are compared with a name that is written in another way."""

_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_START = re.compile(
    rf"(?<![@\uff20][^\w\s.,;])(?:(?<![\w.@\uff20/\\%+=-])|(?<=_)|(?<=\s-)|(?<=[{_UNSPACED}]))[@\uff20]"
    r"(?=[^\w\s]{0,3}[\w.~/])"
)
_PAIRS = "\"\" '' `` () [] {} <> «» »« ‹› ›‹ 「」 『』 《》 〈〉 （） 【】 ［］ ＂＂ ＇＇"  # noqa: RUF001
_QUOTES = {
    **{pair[0]: pair[1] for pair in _PAIRS.split()},
    **dict.fromkeys("“„‟”", "“”"),
    **dict.fromkeys("‘‚‛’", "‘’"),  # noqa: RUF001
}
"""What may close each sign that opens a quoted name."""

_WORDS_END = re.compile(r"(?<=\S)(?=[^\w\s]*(?:\s|\Z))")
_BARE = re.compile(r"(?:\\.|\S)+")
_CUT = re.compile(
    rf"[^\w./\\~+%@-]|(?<=[\w.])(?<![{_UNSPACED}])(?=[{_UNSPACED}])"
    r"|-(?=[^\W\d_]+(?:[^\w./-]|\.?\Z))"  # @notes.md-style
)
_TRAILING = ".-_~\\"
_REST = re.compile(r"(?:['’]s)?[\W_]*(?:\Z|(?<=[@\uff20]))")  # noqa: RUF001
_FILE_NAME = re.compile(r"[/\\]|\A\.\w|[^.]\.\w{1,8}\Z")
_NO_FILE = re.compile(r"[^/\\]+\.(?:com|org|net|edu|gov|io|ai)\Z|v?[\d.]+\Z", re.IGNORECASE)
_DECORATED = re.compile(r"\(|\s*\n\s*(?:@|def\b|class\b|async\b)")
_ONE_QUOTE = str.maketrans("‘’ʼ“”", "'''\"\"")  # noqa: RUF001


class Mentions(NamedTuple):
    """What a prompt names: `files` once each, and a sentence for each that can't be attached."""

    files: tuple[Path, ...]
    missing: tuple[str, ...]


def find_mentions(text: str) -> Mentions:
    """Return the files that a prompt names.

    What isn't there is missing if it looks like a file: in quotes, with a slash or an ending. An
    @name alone may mean anything.
    """
    found: list[Path] = []
    missing: dict[str, None] = {}
    folders: _Folders = {}
    for match in _START.finditer(text):
        names = list(dict.fromkeys(_readings(text, match.start())))
        paths = [(path, name) for name in names if (path := _find_path(name, folders))]
        paths.sort(key=lambda item: not item[0].is_file())
        if paths and paths[0][0].is_file():
            found.append(paths[0][0])
        elif paths:
            missing[f"{one_line(paths[0][1], 60)} isn't a file, and wasn't attached."] = None
        elif name := _missing_name(text, match.end(), names):
            missing[f"There is no file {one_line(name, 60)}."] = None
    return Mentions(tuple(distinct_files(found)), tuple(missing))


def distinct_files(paths: Iterable[Path]) -> list[Path]:
    """Return paths without those of a file that is there already, by whatever way."""
    found: dict[object, Path] = {}
    for path in paths:
        try:
            status = path.stat()
            key: object = (status.st_dev, status.st_ino) if status.st_ino else path.resolve()
        except (OSError, ValueError):
            key = path
        found.setdefault(key, path)
    return list(found.values())


def _readings(text: str, at: int) -> Iterator[str]:
    """Yield what the name behind the `@` at this position may be, the longest first."""
    start = at + 1
    line = text[start : start + MAX_NAME_CHARS].partition("\n")[0]
    for opening, inner in ((line[0], line[1:]), (text[at - 1 : at], line)):
        ends = [inner.find(sign) for sign in _QUOTES.get(opening, "")]
        if end := min((end for end in ends if end > 0), default=0):
            yield inner[:end]
    for words in reversed(list(islice(_WORDS_END.finditer(line), MAX_WORDS))):
        name = line[: words.start()]
        if " " in name and os.path.isfile(name):  # noqa: PTH113  # which takes any text
            yield name
    for rest in dict.fromkeys((line, line.lstrip("".join(_QUOTES)))):
        token = bare[0] if (bare := _BARE.match(rest)) else ""
        cuts = [cut.start() for cut in islice(_CUT.finditer(token), MAX_SIGNS)]
        for end in (len(token), *reversed(cuts)):
            yield from _spellings(token[:end], token[end:])


def _spellings(name: str, rest: str) -> Iterator[str]:
    if _REST.match(rest) or _FILE_NAME.search(name.rstrip(_TRAILING)):
        for written in dict.fromkeys((name, name.rstrip(_TRAILING))):
            if any(map(str.isalnum, written)):
                yield from (written, re.sub(r"\\(.)", r"\1", written))


def _missing_name(text: str, at: int, names: Sequence[str]) -> str:
    """Return the name at this position by which a file was likely meant, or ""."""
    for name in names[:1] if text[at] in _QUOTES else sorted(names, key=len):
        if _FILE_NAME.search(name) and not _NO_FILE.match(name):
            is_code = _DECORATED.match(text, at + len(name)) and "/" not in name
            return "" if is_code else name.replace("\\ ", " ")
    return ""


_Folders = dict[Path, dict[str, list[str]]]
"""The names in each folder that was listed, by how they fold."""


def _find_path(name: str, folders: _Folders) -> Path | None:
    """Return the path of a name, however its characters are composed."""
    try:
        if not (path := Path(name)).exists():
            path = path.expanduser()
        if path.exists():
            return path
        found = Path(path.anchor)
        for part in path.parts[bool(path.anchor) :]:
            if not (found / part).exists():
                known = folders.get(found) or folders.setdefault(found, _folded_names(found))
                if len(alike := known.get(_fold(part), [])) != 1:
                    return None
                [part] = alike
            found /= part
        return found
    except (OSError, RuntimeError, ValueError):  # too long, a ~user that isn't there, a null byte
        return None


def _folded_names(folder: Path) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    with os.scandir(folder) as entries:
        for entry in islice(entries, MAX_ENTRIES):
            names.setdefault(_fold(entry.name), []).append(entry.name)
    return names


def _fold(name: str) -> str:
    """Return a name with composed characters, and common widths, spaces and quotes."""
    return unicodedata.normalize("NFKC", name).translate(_ONE_QUOTE)
