"""What this program was built as, and whether all of its files are there as they were built."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from baton import __version__
from baton.cli.doctor.check_result import CheckResult, CheckState
from baton.cli.doctor.temporary_home import SelfTestHome, repair_hint
from baton.core.byte_format import show_size
from baton.platform.build_info import built

MANIFEST = "MANIFEST"
"""The list of the packaged binary's files; packaging/launcher/pack.py says how it is written."""

_MAX_NAMED = 3
"""How many files that are wrong are named."""


async def check_build(_: SelfTestHome) -> str | CheckResult:
    """Say what this is, and on what it runs."""
    where = f"{platform.system()} {platform.release()}, {platform.machine()}"
    facts = built()
    if facts is None:
        return f"baton {__version__}, not packaged, Python {platform.python_version()} on {where}"
    told = " ".join(filter(None, (facts.flavour, facts.platform, facts.gpu)))
    text = (
        f"baton {facts.version} ({told}), built of {facts.commit or 'unknown sources'}, on {where}"
    )
    if facts.version != __version__:
        return CheckResult(
            "build", CheckState.BROKEN, f"{text}, but its code is {__version__}. {repair_hint()}"
        )
    return text


async def check_contents(_: SelfTestHome) -> str | CheckResult:
    """Compare every file of the packaged binary with the list that was made with it."""
    if built() is None:
        return "not a packaged binary, so there is no list to compare it with"
    return await asyncio.to_thread(
        lambda: compare_with_manifest(Path(sys.executable).resolve().parent)
    )


def compare_with_manifest(folder: Path) -> CheckResult:
    """Say whether a folder holds exactly what its list says."""
    name = "contents"
    try:
        listed = _read_manifest(folder / MANIFEST)
    except (OSError, ValueError) as error:
        why = f"The list of this program's files ({MANIFEST}) can't be read: {error}."
        return CheckResult(name, CheckState.BROKEN, f"{why} {repair_hint()}")
    wrong = list(_wrong_files(folder, listed))
    if wrong:
        more = f", and {len(wrong) - _MAX_NAMED} more" if len(wrong) > _MAX_NAMED else ""
        why = f"Not as they were built: {', '.join(wrong[:_MAX_NAMED])}{more}."
        return CheckResult(name, CheckState.BROKEN, f"{why} {repair_hint()}")
    size = show_size(sum(entry.size for entry in listed.values()))
    return CheckResult(
        name, CheckState.OK, f"all {len(listed)} files are as they were built, {size}"
    )


class _ManifestEntry:
    """One line of the list."""

    __slots__ = ("kind", "mode", "sha256", "size")

    def __init__(self, kind: str, mode: str, size: str, sha256: str) -> None:
        self.kind, self.mode, self.size, self.sha256 = kind, int(mode, 8), int(size), sha256


def _read_manifest(file: Path) -> dict[str, _ManifestEntry]:
    """Read the list: KIND MODE SIZE SHA256 PATH in each line. Raises OSError or ValueError."""
    listed = {}
    for line in os.fsdecode(file.read_bytes()).split("\n")[:-1]:
        kind, mode, size, sha256, path = line.split(" ", 4)
        listed[path] = _ManifestEntry(kind, mode, size, sha256)
    if not listed:
        raise ValueError("it is empty")
    return listed


def _wrong_files(folder: Path, listed: dict[str, _ManifestEntry]) -> Iterator[str]:
    """Name what is missing, what was changed, and what doesn't belong there."""
    for path, entry in listed.items():
        if why := _file_fault(folder / path, entry):
            yield f"{path} ({why})"
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name).relative_to(folder).as_posix()
            if path not in listed and path != MANIFEST:
                yield f"{path} (doesn't belong there)"


def _file_fault(file: Path, entry: _ManifestEntry) -> str:
    if not os.path.lexists(file):
        return "is missing"
    if file.is_symlink() != (entry.kind == "l"):
        return "is something else"
    try:
        if entry.kind == "l":
            found = hashlib.sha256(os.fsencode(file.readlink())).hexdigest()
        else:
            with file.open("rb") as opened:
                found = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        return f"can't be read: {error.strerror}"
    if found != entry.sha256:
        return "was changed"
    runs = entry.kind == "l" or not entry.mode & 0o100 or os.access(file, os.X_OK)
    return "" if runs else "may not be executed"
