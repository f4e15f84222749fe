"""GPUs: those the engine can use, and those that are there besides, with their drivers."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from baton.core.machine import Gpu
from baton.core.sanitiser import one_line
from baton.platform.secrets import plain_environ

PROBE_SECONDS = 1.0
"""How long a program may take to name the cards."""

_VENDOR_WORDS = {
    "nvidia": ("nvidia", "geforce", "quadro", "tesla", "rtx", "gtx"),
    "amd": ("amd", "radeon", "gfx"),
    "intel": ("intel", "arc(tm)", "arc "),
    "apple": ("apple",),
}
_PCI_VENDORS = {"10DE": "nvidia", "1002": "amd", "8086": "intel"}
_VENDOR_NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}

_MIN_CARD_BYTES = 3_500_000_000
"""Bytes from which on a card of AMD's is taken for one of its own, not a part of the processor."""

_INTEL_CHIP_SLOT = "0000:00:02.0"
"""Where the GPU is that is a part of Intel's processors."""


@dataclass(frozen=True, slots=True)
class GpuCard:
    """A GPU as the system knows it; "" is unknown."""

    vendor: str
    name: str
    driver: str = ""


def with_drivers(gpus: Sequence[Gpu], found: Sequence[GpuCard]) -> tuple[Gpu, ...]:
    """Return what the engine can use, with the drivers that the system tells of."""
    drivers = {card.vendor: card.driver for card in reversed(found)}
    return tuple(replace(gpu, driver=gpu.driver or drivers.get(_vendor(gpu), "")) for gpu in gpus)


def idle_gpu_names(gpus: Sequence[Gpu], found: Sequence[GpuCard]) -> tuple[str, ...]:
    """Return the names of cards that the engine doesn't know: of each vendor, what is too many."""
    known = Counter(_vendor(gpu) for gpu in gpus)
    names = Counter(gpu.name for gpu in gpus)
    left = []
    for card in sorted(found, key=lambda card: card.name not in names):  # the known ones first
        if known[card.vendor]:
            known[card.vendor] -= 1
        else:
            left.append(card.name)
    return tuple(left)


def find_gpu_cards(root: Path = Path("/")) -> list[GpuCard]:
    """Return the GPUs of this machine on which models may gain something."""
    if sys.platform == "darwin":
        return _apple_gpus()
    named = list(_by_driver(root)) or list(_by_program())
    others = _by_bus(root)
    return [*named, *(card for card in others if card.vendor != "nvidia" or not named)]


def _by_driver(root: Path) -> Iterator[GpuCard]:
    """Yield NVIDIA's cards as their driver lists them."""
    driver = root / "proc/driver/nvidia"
    told = re.search(r"(?m)^NVRM version:.*?\s(\d+(?:\.\d+)+)\s", _read_text(driver / "version"))
    for file in sorted(driver.glob("gpus/*/information")):
        if named := re.search(r"(?m)^Model:\s*(\S.*)$", _read_text(file)):
            yield GpuCard("nvidia", one_line(named[1].strip(), 80), told[1] if told else "")


def _by_program() -> Iterator[GpuCard]:
    """Yield NVIDIA's cards as its own program does: on Windows, and in containers."""
    if (program := shutil.which("nvidia-smi")) is None:
        return
    command = [program, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        asked = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=True,
            env=plain_environ(),
        )
    except (OSError, subprocess.SubprocessError):
        return
    for line in asked.stdout.decode("utf-8", "replace").splitlines()[:64]:
        name, _, driver = line.rpartition(",")
        if name.strip():
            yield GpuCard("nvidia", one_line(name.strip(), 80), one_line(driver.strip(), 20))


def _by_bus(root: Path) -> Iterator[GpuCard]:
    """Yield the cards that Linux knows: of these three makers, and with memory of their own."""
    for folder in sorted((root / "sys/class/drm").glob("card*")):
        told = dict(
            line.split("=", 1)
            for line in _read_text(folder / "device/uevent").splitlines()
            if "=" in line
        )
        maker, _, model = told.get("PCI_ID", "").upper().partition(":")
        vendor = _PCI_VENDORS.get(maker)
        if not folder.name[4:].isdecimal() or vendor is None:
            continue  # one of its sockets, or what draws a virtual machine's screen
        memory = _read_text(folder / "device/mem_info_vram_total").strip()
        small = vendor == "amd" and not (memory.isdecimal() and int(memory) >= _MIN_CARD_BYTES)
        if not small and told.get("PCI_SLOT_NAME") != _INTEL_CHIP_SLOT:
            name = _pci_name(root, maker, model) or f"{_VENDOR_NAMES[vendor]} GPU {model.lower()}"
            yield GpuCard(vendor, name, _driver_name(root, told.get("DRIVER", "")))


def _driver_name(root: Path, name: str) -> str:
    """Return the driver's name, with the version of the system that it is a part of."""
    release = _read_text(root / "proc/sys/kernel/osrelease").strip()
    return one_line(f"{name} of Linux {release}" if name and release else name, 60)


def _pci_name(root: Path, maker: str, model: str) -> str:
    """Return a card's name out of the list of all that many systems have."""
    for place in ("hwdata", "misc"):
        text = _read_text(root / "usr/share" / place / "pci.ids")
        section = re.search(rf"(?m)^{maker.lower()}  .*\n((?:[\t#].*\n)*)", text)
        if section and (line := re.search(rf"(?m)^\t{model.lower()}  (\S.*)$", section[1])):
            inner = re.search(r"\[(.+)\]", line[1])
            return one_line(
                f"{_VENDOR_NAMES[_PCI_VENDORS[maker]]} {inner[1] if inner else line[1]}", 80
            )
    return ""


def _apple_gpus() -> list[GpuCard]:
    if platform.machine() != "arm64":
        return []  # what Intel's Macs have is of no use to models
    return [GpuCard("apple", "Apple GPU", f"macOS {platform.mac_ver()[0]}")]


def _vendor(gpu: Gpu) -> str:
    told = f"{gpu.name} ".lower()
    return next(
        (v for v, words in _VENDOR_WORDS.items() if any(word in told for word in words)), ""
    )


def _read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except (OSError, ValueError):
        return ""
