"""Whether this program is whole: its files, its parts, and what it brings along."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from baton.cli.doctor.check import CheckFailed
from baton.core.machine import show_size
from baton.platform.build_info import build_info
from baton_self_test.context import SelfTest, SelfTestContext
from baton_self_test.part_process import use_part

MANIFEST = "MANIFEST"
"""The list of the packaged binary's files; packaging/launcher/pack.py says how it is written."""

_MAX_NAMED = 3
"""How many files that are wrong are named."""


async def check_contents(_: SelfTestContext) -> str:
    """Compare every file of the packaged binary with the list that was made with it."""
    if build_info() is None:
        return "not a packaged binary, so there is no list to compare it with"
    return await asyncio.to_thread(
        lambda: compare_with_manifest(Path(sys.executable).resolve().parent)
    )


def compare_with_manifest(folder: Path) -> str:
    """Say whether a folder holds exactly what its list says."""
    try:
        listed = _read_manifest(folder / MANIFEST)
    except (OSError, ValueError) as error:
        why = f"The list of this program's files ({MANIFEST}) can't be read: {error}."
        raise CheckFailed(why) from error
    wrong = list(_wrong_files(folder, listed))
    if wrong:
        more = f", and {len(wrong) - _MAX_NAMED} more" if len(wrong) > _MAX_NAMED else ""
        why = f"Not as they were built: {', '.join(wrong[:_MAX_NAMED])}{more}."
        raise CheckFailed(why)
    size = show_size(sum(entry.size for entry in listed.values()))
    return f"all {len(listed)} files are as they were built, {size}"


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


MIN_TEMPLATES = 4
MIN_MODELS = 10
"""Fewer than these, and something of what Baton brings along isn't here."""

_ROUTER_FILES = (
    "encoder.onnx", "tokenizer.json", "heads.npz", "heads.json", "kinds.npz", "lengths.npz",
)  # fmt: skip

_PRIVATE_TEXT = "Call +49 30 901820 or pay DE89 3704 0044 0532 0130 00, card 4111 1111 1111 1111."
_PRIVATE_KINDS = {"phone number", "IBAN", "card number"}

_PDF = (
    b"%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n"
    b"<</Type/Pages/Kids[3 0 R]/Count 1>>\nendobj\n3 0 obj\n"
    b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R"
    b"/Resources<</Font<</F 5 0 R>>>>>>\n"
    b"endobj\n4 0 obj\n<</Length 44>>\nstream\n"
    b"BT /F 12 Tf 20 100 Td (Lift the baton) Tj ET\nendstream\nendobj\n5 0 obj\n"
    b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>\nendobj\nxref\n0 6\n"
    b"0000000000 65535 f \n0000000009 00000 n \n0000000054 00000 n \n0000000105 00000 n \n"
    b"0000000216 00000 n \n0000000308 00000 n \ntrailer\n<</Root 1 0 R/Size 6>>\n"
    b"startxref\n371\n%%EOF\n"
)


def part_check(name: str) -> SelfTest:
    """Return the check of one part, which is used in a child process of its own."""

    async def check(context: SelfTestContext) -> str:
        return (await use_part(name, context.environ)).text

    return check


async def check_templates(_: SelfTestContext) -> str:
    """Read every workflow that Baton brings along."""
    from baton.workers import read_templates

    found = read_templates()
    read = [workflow.name for workflow in found.values()]
    return _compare_count(len(read), MIN_TEMPLATES, ", ".join(read))


async def check_catalogue(_: SelfTestContext) -> str:
    """Read the catalogue of models."""
    from baton.models.catalogue import read_catalogue

    found = read_catalogue()
    return _compare_count(len(found), MIN_MODELS, f"{len(found)} models")


def _compare_count(count: int, least: int, text: str) -> str:
    if count >= least:
        return text
    raise CheckFailed(f"Of at least {least} there {'is' if count == 1 else 'are'} {count}.")


async def check_router_files(_: SelfTestContext) -> str:
    """Look for every file that the router and the skill table read, and name their digests."""
    from baton.routing import read_scores, shipped_folder
    from baton.routing.scorer_process import missing_part

    folder = shipped_folder()
    files = []
    for name in _ROUTER_FILES:
        file = folder / name
        if not file.is_file():
            raise CheckFailed(f"{name} isn't there.")
        digest = await asyncio.to_thread(lambda path: hashlib.sha256(path.read_bytes()), file)
        files.append(f"{name} {digest.hexdigest()[:8]}")
    why, hint = missing_part(folder)
    if why or not read_scores(folder):
        why = why or "The table of what models are good at (skills.json) isn't there, or is broken."
        raise CheckFailed(why, hint)
    return ", ".join(files)


async def check_hiding(_: SelfTestContext) -> str:
    """Hide what mustn't leave this machine, with the libraries that know numbers."""
    from baton.workers.cloud import Redaction

    found = (await asyncio.to_thread(Redaction().redact, [_PRIVATE_TEXT])).hidden
    if missed := _PRIVATE_KINDS - {thing.kind for thing in found}:
        raise CheckFailed(f"It misses a {sorted(missed)[0]}.")
    return "phone numbers, IBANs and card numbers are found"


async def check_documents(context: SelfTestContext) -> str:
    """Read a PDF."""
    from baton.workers import read_attachment

    file = context.folder / "paper.pdf"
    file.write_bytes(_PDF)
    text = read_attachment(file).text
    if text != "Lift the baton":
        raise CheckFailed("A PDF is read wrongly.")
    return "a PDF is read"
