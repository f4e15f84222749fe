"""How many threads a model may use here."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path


def physical_cores() -> int:
    """Return the physical cores this process may use: more threads than that slow a model down."""
    cores = _linux_cores() or _counted_cores() or os.cpu_count() or 1
    return max(1, min(cores, _allowed(), _quota()))


def _linux_cores(root: Path = Path("/sys/devices/system/cpu")) -> int:
    """Return the cores that Linux lists, each with its processors; 0 on other systems."""
    cores = set()
    for processor in root.glob("cpu[0-9]*"):
        with suppress(OSError):
            cores.add((processor / "topology/thread_siblings_list").read_text("ascii"))
    return len(cores)


def _counted_cores() -> int | None:
    import psutil  # worth its 15 ms only where nothing lists them

    return psutil.cpu_count(logical=False)


def _allowed() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Return the processors a container or a service is limited to: the least on its path."""
    quotas: list[int] = []
    try:
        group = root / own.read_text("ascii").rpartition("0::/")[2].strip()
    except (OSError, UnicodeDecodeError):
        return 1 << 30
    for folder in (group, *group.parents):
        try:
            quota, period = (folder / "cpu.max").read_text("ascii").split()
            quotas.append(math.ceil(int(quota) / int(period)))
        except (OSError, ValueError):
            continue  # no such file, or "max"
    return min(quotas, default=1 << 30)
