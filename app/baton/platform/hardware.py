"""This machine: processor, memory, disk, battery, GPUs, terminal. No look fails or lasts long."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.machine import Gpu, Hardware
from baton.core.sanitiser import one_line
from baton.platform.machine_limits import (
    allowed_processors,
    file_reader,
    memory_allowance,
    physical_cores,
)
from baton.platform.secrets import plain_environ

_NAME_NOISE = re.compile(r"\((?:R|TM|C)\)|\bCPU\b|\bProcessor\b|\b\d+-Core\b|@.*$", re.IGNORECASE)


def inspect_machine(
    folder: Path | None = None,
    gpus: Sequence[Gpu] | None = None,
    *,
    root: Path = Path("/"),
) -> Hardware:
    """Look this machine up, within the limits of the container that Baton may be in.

    `folder` is where models are, or will be. `gpus` are those that the engine can use; None is
    that it wasn't asked, so nothing is known of GPUs.
    """
    total, available = _read_memory(root)
    cores, threads = _count_processors(root)
    battery, plugged = _read_battery()
    found = find_gpu_cards(root) if gpus is not None else []
    return Hardware(
        memory=total,
        available=available,
        cores=cores,
        threads=threads,
        processor=processor_name(root),
        gpus=with_drivers(gpus or (), found),
        disk=_free_bytes(folder) if folder is not None else 0,
        battery=battery,
        plugged=plugged,
        idle_gpus=idle_gpu_names(gpus or (), found),
    )


def processor_name(root: Path = Path("/")) -> str:
    """Return the processor's name, "" where it is unknown."""
    try:
        name = _read_processor_name(root)
    except (OSError, ValueError, subprocess.SubprocessError):
        name = ""
    return one_line(" ".join(_NAME_NOISE.sub(" ", name).split()), 80) or platform.machine()


def _read_processor_name(root: Path) -> str:
    if sys.platform == "win32":
        import winreg

        place = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0])
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        asked = subprocess.run(
            command, capture_output=True, text=True, timeout=1, check=True, env=plain_environ()
        )
        return asked.stdout
    text = (root / "proc/cpuinfo").read_text("utf-8", "replace")
    for key in ("model name", "cpu model", "Model", "Hardware"):
        if named := re.search(rf"(?m)^{key}\s*:\s*(\S.*)$", text):
            return named[1]
    return (root / "proc/device-tree/model").read_text("utf-8", "replace").rstrip("\0")


def _read_memory(root: Path) -> tuple[int, int]:
    import psutil

    found = psutil.virtual_memory()
    total, available = found.total, found.available
    if (allowed := memory_allowance(file_reader(root))) is not None:
        total, available = min(total, allowed.limit), min(available, allowed.room)
    return total, available


def _count_processors(root: Path) -> tuple[int, int]:
    """Return how many cores and threads this process may use."""
    import psutil

    threads = psutil.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        threads = min(threads, len(os.sched_getaffinity(0)))
    if (allowed := allowed_processors(file_reader(root))) is not None:
        threads = min(threads, allowed)
    return min(physical_cores(root), threads), threads


def _read_battery() -> tuple[float | None, bool]:
    import psutil

    try:
        found = psutil.sensors_battery()
        full = float(found.percent) / 100 if found is not None else -1.0
    except (AttributeError, NotImplementedError, OSError, TypeError, ValueError):
        return None, True
    if found is None or not 0 <= full <= 1.01:
        return None, True
    return min(1.0, full), found.power_plugged is not False


def _free_bytes(folder: Path) -> int:
    """Return the bytes that are free where a folder is, or would be."""
    for place in (folder, *folder.absolute().parents):
        try:
            return max(1, shutil.disk_usage(place).free)  # 0 would mean unknown
        except OSError:
            continue
    return 0


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


@frozen_dataclass
class GpuCard:
    """A GPU as the system knows it; "" is unknown."""

    vendor: str
    name: str
    driver: str = ""


def with_drivers(gpus: Sequence[Gpu], found: Sequence[GpuCard]) -> tuple[Gpu, ...]:
    """Return the engine's GPUs, with the drivers that the system names."""
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
    if sys.platform == "darwin":  # what Intel's Macs have is of no use to models
        is_useful = platform.machine() == "arm64"
        return [GpuCard("apple", "Apple GPU", f"macOS {platform.mac_ver()[0]}")] * is_useful
    named = list(_by_driver(root)) or list(_by_program())
    others = _by_bus(root)
    return [*named, *(card for card in others if card.vendor != "nvidia" or not named)]


def _by_driver(root: Path) -> Iterator[GpuCard]:
    """Yield NVIDIA's cards as their driver lists them."""
    driver = root / "proc/driver/nvidia"
    version = re.search(r"(?m)^NVRM version:.*?\s(\d+(?:\.\d+)+)\s", _read_text(driver / "version"))
    for file in sorted(driver.glob("gpus/*/information")):
        if named := re.search(r"(?m)^Model:\s*(\S.*)$", _read_text(file)):
            yield GpuCard("nvidia", one_line(named[1].strip(), 80), version[1] if version else "")


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
        fields = dict(
            line.split("=", 1)
            for line in _read_text(folder / "device/uevent").splitlines()
            if "=" in line
        )
        maker, _, model = fields.get("PCI_ID", "").upper().partition(":")
        vendor = _PCI_VENDORS.get(maker)
        if not folder.name[4:].isdecimal() or vendor is None:
            continue  # one of its sockets, or what draws a virtual machine's screen
        memory = _read_text(folder / "device/mem_info_vram_total").strip()
        small = vendor == "amd" and not (memory.isdecimal() and int(memory) >= _MIN_CARD_BYTES)
        if not small and fields.get("PCI_SLOT_NAME") != _INTEL_CHIP_SLOT:
            name = _pci_name(root, maker, model) or f"{_VENDOR_NAMES[vendor]} GPU {model.lower()}"
            yield GpuCard(vendor, name, _driver_name(root, fields.get("DRIVER", "")))


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


def _vendor(gpu: Gpu) -> str:
    name = f"{gpu.name} ".lower()
    return next(
        (v for v, words in _VENDOR_WORDS.items() if any(word in name for word in words)), ""
    )


def _read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except (OSError, ValueError):
        return ""


@frozen_dataclass
class TerminalInfo:
    """Where Baton is shown. `colours` is how many there are; `inside` names tmux, screen or SSH."""

    attached: bool
    columns: int
    lines: int
    colours: int
    term: str
    inside: tuple[str, ...]


def inspect_terminal() -> TerminalInfo:
    """Look this terminal up."""
    columns, lines = shutil.get_terminal_size()
    places = (("TMUX", "tmux"), ("STY", "screen"), ("SSH_CONNECTION", "SSH"))
    return TerminalInfo(
        attached=os.isatty(0) and os.isatty(1),
        columns=columns,
        lines=lines,
        colours=_count_colours(os.environ),
        term=os.environ.get("TERM", ""),
        inside=tuple(name for variable, name in places if os.environ.get(variable)),
    )


def _count_colours(environ: Mapping[str, str]) -> int:
    term = environ.get("TERM", "")
    if environ.get("NO_COLOR") or term in {"", "dumb"}:
        return 2
    if environ.get("COLORTERM", "").lower() in {"truecolor", "24bit"} or term.endswith("-direct"):
        return 2**24
    return 256 if "256" in term else 16
