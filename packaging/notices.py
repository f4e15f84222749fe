"""Writes what a folder build holds of others into it, with all licences: `notices.py FOLDER`.

Licences such as MIT's, BSD's and Apache's want their text to go along: `baton self licences`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path

import parts

FILE = Path("baton", "THIRD-PARTY.txt")
"""Where it is below the folder's contents."""

_HEAD = """\
Baton is licensed under the Apache License, Version 2.0, whose text is among those below. It holds
these works of others, each under its own licence. Behind each stands where its source is kept
(pkg:deb/ names a source package of Debian's). What is under the LGPL is in this build as Python
files or as a shared library, which anybody can replace, or is the GNU C library in the program that
a single file begins with, which anybody can link again from Baton's source (packaging/launcher).
"""


def notices(found: Iterable[parts.Part]) -> str:
    """Return the notice: a list of the parts, then every text once with those that it is about."""
    found = list(found)
    width = max(len(_title(part)) for part in found)
    lines = [_HEAD]
    lines += [f"{_title(part):{width}}  {part.licence}  {_source(part)}".rstrip() for part in found]
    texts: dict[str, tuple[str, list[str]]] = {}
    for part in found:
        for text in part.texts:
            _, about = texts.setdefault(" ".join(text.split()), (text, []))
            if _title(part) not in about:
                about.append(_title(part))
    for text, about in texts.values():
        lines += ["", "=" * 100, "\n".join(about), "=" * 100, "", text.strip("\n")]
    return "\n".join(lines) + "\n"


def _title(part: parts.Part) -> str:
    return f"{part.name} {part.version}".rstrip()


def _source(part: parts.Part) -> str:
    return part.purl if part.purl.startswith("pkg:deb/") else part.source


def main(folder: Path) -> None:
    """Write the notice of a folder build."""
    executable = next(path for path in (folder / "baton", folder / "baton.exe") if path.is_file())
    target = folder / parts.CONTENTS / FILE
    target.unlink(missing_ok=True)
    found = parts.parts(folder, parts.modules_of(executable), distributions())
    target.write_text(notices(found), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except parts.PartsError as error:
        sys.exit(str(error))
