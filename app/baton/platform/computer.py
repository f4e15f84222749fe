"""What this machine has: processor, memory, disk, battery, GPUs. Looking never fails, nor lasts."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from baton.core.machine import Gpu, Hardware
from baton.core.sanitiser import one_line
from baton.platform import cgroups
from baton.platform.gpus import find_gpu_cards, idle_gpu_names, with_drivers
from baton.platform.secrets import plain_environ

_NAME_NOISE = re.compile(r"\((?:R|TM|C)\)|\bCPU\b|\bProcessor\b|\b\d+-Core\b|@.*$", re.IGNORECASE)


def inspect_machine(
    folder: Path | None = None,
    gpus: Sequence[Gpu] | None = None,
    *,
    root: Path = Path("/"),
) -> Hardware:
    """Look this machine up, within the limits of the container that Baton may be in.

    `folder` is where models lie, or will. `gpus` are those that the engine says it can use; None is
    that nobody has asked it, so nothing is known of GPUs.
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
    """Return the processor's name, "" where nothing tells it."""
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
    if (allowed := cgroups.memory_allowance(_file_reader(root))) is not None:
        total, available = min(total, allowed.limit), min(available, allowed.room)
    return total, available


def _count_processors(root: Path) -> tuple[int, int]:
    """Return how many cores and threads this process may use."""
    import psutil

    threads = psutil.cpu_count() or 1
    cores = psutil.cpu_count(logical=False) or threads
    if hasattr(os, "sched_getaffinity"):
        threads = min(threads, len(os.sched_getaffinity(0)))
    if (allowed := cgroups.allowed_processors(_file_reader(root))) is not None:
        threads = min(threads, allowed)
    return min(cores, threads), threads


def _file_reader(root: Path) -> cgroups.Read:
    return lambda path: (root / path.lstrip("/")).read_text("utf-8")


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
            return max(1, shutil.disk_usage(place).free)  # 0 is that nobody knows
        except OSError:
            continue
    return 0
