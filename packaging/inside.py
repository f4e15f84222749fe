"""Looks into a release: what a build says of itself, and whether it runs on other machines.

A single file is unpacked for that, an archive is read; none of it is started.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

import msgspec
import pack
from linux import check

from baton.platform.build_info import BUILD_FILE, BuildInfo

NOTE = f"lib/baton/{BUILD_FILE}"
MACHINES = {"linux-x86_64": "Advanced Micro Devices X86-64", "linux-aarch64": "AArch64"}
"""What readelf calls the processors."""
HEADS = {
    "macos-arm64": bytes.fromhex("cffaedfe 0c000001"),
    "macos-x86_64": bytes.fromhex("cffaedfe 07000001"),
    "windows-x86_64": b"MZ",
}
"""With which bytes a program begins there."""


class Unfit(Exception):
    """A file that can't be released; the text says why, in one sentence, and what to do."""


def look(file: Path) -> BuildInfo:
    """Return what a build says of itself, if it is whole and runs on other machines.

    Raises Unfit.
    """
    return _archive(file) if file.suffix == ".zip" else _single_file(file)


def _single_file(file: Path) -> BuildInfo:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "unpacked")
        try:
            pack.unpack(file, folder)
        except pack.PackError as error:
            raise Unfit(str(error)) from error
        note = folder / NOTE
        built = _parse_note(file, note.read_bytes() if note.is_file() else b"")
        if built.platform.startswith("linux-"):
            _check_portable(file, folder, built.platform)
        else:
            with file.open("rb") as program:
                _check_head(file, program.read(8), built.platform)
    return built


def _archive(file: Path) -> BuildInfo:
    """Look into a folder build that was packed by packaging/windows/make.py."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            (program,) = (name for name in names if PurePosixPath(name).name == "baton.exe")
            root = program.removesuffix("baton.exe")
            packed = pack.entries(archive.read(root + pack.MANIFEST))
            sums = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names}
            del sums[root + pack.MANIFEST]
            whole = sums == {f"{root}{path}": entry.sha256 for path, entry in packed.items()}
            whole &= len(sums) + 1 == len(names) and all(map(_is_plain, names))
            built = _parse_note(file, archive.read(root + NOTE) if root + NOTE in sums else b"")
            head = archive.read(program)[:8]
    except (zipfile.BadZipFile, zlib.error, EOFError, LookupError, ValueError, RuntimeError):
        whole = False
    if not whole:
        raise Unfit(f"{file} isn't as it was packed: copy it here again, or build it again.")
    _check_head(file, head, built.platform)
    return built


def _is_plain(name: str) -> bool:
    """Say whether an archive's path leads into a folder of its own, also on Windows."""
    return re.fullmatch(r"[^/\\:]+(/[^/\\:]+)+", name) is not None and "/../" not in f"/{name}/"


def _parse_note(file: Path, note: bytes) -> BuildInfo:
    try:
        return msgspec.json.decode(note, type=BuildInfo, strict=True)
    except msgspec.MsgspecError:
        raise Unfit(f"{file} doesn't say what it is: build it again.") from None


def _check_head(file: Path, head: bytes, platform: str) -> None:
    if platform not in HEADS or not head.startswith(HEADS[platform]):
        raise Unfit(f"{file} says that it is for {platform}, and isn't: build it again.")


def _check_portable(file: Path, folder: Path, platform: str) -> None:
    """Refuse what packaging/linux/build would refuse, and what is for another processor."""
    if shutil.which("readelf") is None:
        raise Unfit(f"{file} can't be looked at without readelf: install binutils.")
    try:
        programs = [check.read(file), *check.look(folder)]
    except subprocess.CalledProcessError:
        raise Unfit(f"{file} holds a program that readelf can't read: build it again.") from None
    wrong = [
        f"{elf.path}: is for {elf.machine}."
        for elf in programs
        if elf.machine != MACHINES.get(platform)
    ]
    wrong += sorted(check.faults(programs, check.GLIBC))
    if wrong:
        first = wrong[0].removesuffix(".")
        more = f", and {len(wrong) - 1} more like that" if wrong[1:] else ""
        raise Unfit(
            f"{file} wouldn't run on every Linux from Debian 11 on: {first}{more}."
            " Build it with scripts/build --portable."
        )
