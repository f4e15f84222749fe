"""Whether this program is whole: its build, its files, its parts, and what it computes with."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from baton import __version__
from baton.cli.doctor.check import Check, CheckContext, CheckFailed, CheckWarning
from baton.core.byte_format import show_size
from baton.core.errors import BatonError
from baton.core.machine import Gpu
from baton.core.sanitiser import one_line
from baton.doctor import processor_text, use_part_in_child
from baton.platform import hardware
from baton.platform.build_info import build_info

if TYPE_CHECKING:
    from baton.workers.local import LlamaInfo

MANIFEST = "MANIFEST"
"""The list of the packaged binary's files; packaging/launcher/pack.py says how it is written."""

_MAX_NAMED = 3
"""How many files that are wrong are named."""


async def check_build(_: CheckContext) -> str:
    """Say what this is, and on what it runs."""
    where = f"{platform.system()} {platform.release()}, {platform.machine()}"
    facts = build_info()
    if facts is None:
        return f"baton {__version__}, not packaged, Python {platform.python_version()} on {where}"
    build = " ".join(filter(None, (facts.flavour, facts.platform, facts.gpu)))
    text = (
        f"baton {facts.version} ({build}), built of {facts.commit or 'unknown sources'}, on {where}"
    )
    if facts.version != __version__:
        raise CheckFailed(f"{text}, but its code is {__version__}.")
    return text


async def check_contents(_: CheckContext) -> str:
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
MIN_PRICES = 100
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


def part_check(name: str) -> Check:
    """Return the check of one part, which is used in a child process of its own."""

    async def check(context: CheckContext) -> str:
        return (await use_part_in_child(name, context.environ)).text

    return check


async def check_llama(context: CheckContext) -> str:
    """Load llama.cpp, and report what it was built for and which of its variants runs."""
    from baton.workers.local import probe_library

    try:
        found = await probe_library("llama", context.environ)
    except BatonError as error:
        if "SIGILL" not in error.message:
            raise
        why = f"It was built for another processor than this one, {processor_text()}."
        raise CheckFailed(f"{error.message} {why}") from error
    abilities = ", ".join(re.findall(r"(\w+) = 1", found.system))
    if not abilities:  # then it isn't there, and no model can be loaded
        raise CheckFailed("What llama.cpp computes with on a processor isn't there.")
    built_for = f"built for {found.processor}, " if found.processor else ""
    gpu, missing = gpu_text(found)
    text = f"build {found.version}, {built_for}{gpu}; {abilities}"
    if missing:
        return CheckWarning(f"{text}. {missing}")
    known = [Gpu(gpu.description, gpu.free, gpu.total) for gpu in found.devices]
    idle = () if context.folder is not None else hardware.inspect_machine(gpus=known).idle_gpus
    return CheckWarning(f"{text}. {idle_gpu_text(idle, found.gpu)}") if idle else text


async def check_templates(_: CheckContext) -> str:
    """Read every workflow that Baton brings along."""
    from baton.workers import read_templates

    found = read_templates()
    read = [workflow.name for workflow in found.values()]
    return _compare_count(len(read), MIN_TEMPLATES, ", ".join(read))


async def check_prices(_: CheckContext) -> str:
    """Read the price list."""
    from baton.workers.cloud import snapshot

    listed = snapshot()
    text = f"{len(listed.models)} models of {listed.date}"
    return _compare_count(len(listed.models), MIN_PRICES, text)


async def check_catalogue(_: CheckContext) -> str:
    """Read the catalogue of models."""
    from baton.models import read_catalogue

    found = read_catalogue()
    return _compare_count(len(found), MIN_MODELS, f"{len(found)} models")


def _compare_count(count: int, least: int, text: str) -> str:
    if count >= least:
        return text
    raise CheckFailed(f"Of at least {least} there {'is' if count == 1 else 'are'} {count}.")


async def check_router_files(_: CheckContext) -> str:
    """Look for every file that the router and the skill table read, and name their digests."""
    from baton.routing import missing_part, read_scores, shipped_folder

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


async def check_hiding(_: CheckContext) -> str:
    """Hide what mustn't leave this machine, with the libraries that know numbers."""
    from baton.workers.cloud import Redaction

    found = (await asyncio.to_thread(Redaction().redact, [_PRIVATE_TEXT])).hidden
    if missed := _PRIVATE_KINDS - {thing.kind for thing in found}:
        raise CheckFailed(f"It misses a {sorted(missed)[0]}.")
    return "phone numbers, IBANs and card numbers are found"


async def check_documents(context: CheckContext) -> str:
    """Read a PDF."""
    from baton.workers import read_attachment

    file = context.scratch_file("paper.pdf")
    file.write_bytes(_PDF)
    text = read_attachment(file).text
    if text != "Lift the baton":
        raise CheckFailed("A PDF is read wrongly.")
    return "a PDF is read"


_GPU_KINDS = {"cuda": "CUDA", "hip": "HIP", "metal": "Metal", "sycl": "SYCL", "vulkan": "Vulkan"}


def gpu_text(found: LlamaInfo) -> tuple[str, str]:
    """Return which GPUs can be used, and why those can't that this build is made for."""
    devices = [f"{gpu.description} ({show_size(gpu.free)} free)" for gpu in found.devices]
    kinds = found.gpu_kinds
    if devices:
        return f"can use {', '.join(devices)}", ""
    if kinds:
        missing = " ".join(_unusable_text(kind, why) for kind, why in kinds.items())
        return "CPU only", f"{missing} Models run on the processor."
    return "can use a GPU, but found none" if found.gpu else "CPU only", ""


def _unusable_text(kind: str, why: str) -> str:
    """Say what a build for a kind of GPUs misses."""
    if kind == "vulkan" and "libvulkan.so" in why:
        return (
            "This build is for Vulkan, which isn't here (Debian, Ubuntu: apt install libvulkan1 and"
            " the driver of your GPU; Fedora: dnf install vulkan-loader)."
        )
    if kind == "cuda" and "libcuda.so" in why:
        return "This build is for NVIDIA's GPUs, and their driver isn't here."
    found = one_line(why, 160) or "no GPU was found that it can use"
    return f"This build is for {_GPU_KINDS.get(kind, kind)}, but {found}."


def idle_gpu_text(idle: Sequence[str], can: bool) -> str:
    """Say which GPUs are there for nothing, and what to do."""
    cards = ", ".join(one_line(name, 80) for name in idle)
    if can:
        return f"It can't use {cards}: is the driver there, and new enough for this build?"
    what = (
        "Baton's build for CUDA or Vulkan" if build_info() else "a build of llama-cpp-python for it"
    )
    return f"{cards} would be faster: install {what}."
