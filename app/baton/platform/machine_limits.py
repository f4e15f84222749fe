"""What this process may use of the machine: a container's memory, its processors, and cores.

Both versions of Linux' control groups are read, a process's own group and all around it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from baton.core.frozen_dataclass import frozen_dataclass

Read = Callable[[str], str]


def file_reader(root: Path) -> Read:
    """Return what reads the system's files, below another root in tests."""
    return lambda path: (root / path.lstrip("/")).read_text("utf-8")


_NO_LIMIT = 1 << 60
"""Limits above that are none: version 1 writes "unlimited" as a number."""


@frozen_dataclass
class MemoryAllowance:
    """How many bytes may be used in all, and how many of them aren't yet."""

    limit: int
    room: int


def memory_allowance(read: Read) -> MemoryAllowance | None:
    """Return what memory is allowed, or None where nothing limits it.

    What the kernel frees when memory is short counts as room, as in its own MemAvailable: cached
    files, also those that were read twice ("active"), and its caches of names.
    """
    found = []
    for folder, second in _group_folders(read, "memory"):
        limit_names = ("memory.max", "memory.high") if second else ("memory.limit_in_bytes",)
        limits = [_number(read, f"{folder}/{name}") for name in limit_names]
        limit = min((one for one in limits if one is not None and one >= 0), default=_NO_LIMIT)
        if limit >= _NO_LIMIT:
            continue
        prefix = "" if second else "total_"
        names = {f"{prefix}{x}" for x in ("active_file", "inactive_file", "slab_reclaimable")}
        used_name = "memory.current" if second else "memory.usage_in_bytes"
        used = _number(read, f"{folder}/{used_name}") or 0
        cached = _sum_statistics(read, f"{folder}/memory.stat", names)
        found.append(MemoryAllowance(limit, max(0, limit - max(0, used - cached))))
    if not found:
        return None
    return MemoryAllowance(min(one.limit for one in found), min(one.room for one in found))


def allowed_processors(read: Read) -> int | None:
    """Return how many processors may be used, or None where nothing limits that.

    Of 1.5 processors one is used: two threads that wait for each other at every layer would lose
    a quarter of each period.
    """
    quotas = []
    for folder, second in _group_folders(read, "cpu"):
        try:
            if second:
                quota, period = read(f"{folder}/cpu.max").split()
            else:
                quota, period = (read(f"{folder}/cpu.cfs_{x}_us") for x in ("quota", "period"))
            if int(quota) > 0:
                quotas.append(max(1, int(quota) // int(period)))
        except (OSError, ValueError, ZeroDivisionError):
            continue  # no such file, or "max"
    return min(quotas, default=None)


def physical_cores(root: Path = Path("/")) -> int:
    """Return the physical cores this process may use: more threads than that slow a model down."""
    processors = os.cpu_count() or 1
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(processors)
    if not (cores := _linux_cores(root, allowed)):
        import psutil  # worth its 15 ms only where nothing lists them

        cores = psutil.cpu_count(logical=False) or processors
    return max(1, min(cores, len(allowed), allowed_processors(file_reader(root)) or cores))


def _linux_cores(root: Path, allowed: Collection[int]) -> int:
    """Return the cores of these processors that Linux lists; 0 on other systems."""
    cores = set()
    for number in allowed:
        with suppress(OSError, ValueError):
            folder = root / f"sys/devices/system/cpu/cpu{number}"
            cores.add((folder / "topology/thread_siblings_list").read_text("ascii"))
    return len(cores)


def _group_folders(read: Read, controller: str) -> Iterator[tuple[str, bool]]:
    """Yield the folders of a controller's groups, from this process's own up to all."""
    try:
        own = read("/proc/self/cgroup")
    except (OSError, ValueError):
        return
    mounts = list(_mounts(read))
    for line in own.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        second = line.startswith("0::")
        if not second and controller not in names.split(","):
            continue
        for kind, root, place, options in mounts:
            if kind == ("cgroup2" if second else "cgroup") and (second or controller in options):
                for group in _group_and_parents(path, root):
                    yield f"{place}{group}", second


def _group_and_parents(path: str, root: str) -> Iterator[str]:
    """Yield a group's path below where its tree is mounted, then those around it, "" last.

    A container may see a part of the tree only, and its own path as it is outside of it.
    """
    if root != "/" and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
    pure = PurePosixPath("/", path.lstrip("/"))
    if ".." in pure.parts:  # it is outside of what can be seen
        pure = PurePosixPath("/")
    for group in (pure, *pure.parents):
        yield "" if group == PurePosixPath("/") else str(group)


def _mounts(read: Read) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield where control groups are mounted: kind, root, place, and their controllers."""
    try:
        lines = read("/proc/self/mountinfo").splitlines()
    except (OSError, ValueError):
        lines = []
    seen = False
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        seen = True
        yield kind[0], _unescape(fields[3]), _unescape(fields[4]), kind[2].split(",")
    if not seen:
        yield "cgroup2", "/", "/sys/fs/cgroup", []
        for name in ("memory", "cpu"):
            yield "cgroup", "/", f"/sys/fs/cgroup/{name}", [name]


def _unescape(path: str) -> str:
    """Return a path of the list of mounts as it really is."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), path)


def _number(read: Read, path: str) -> int | None:
    try:
        return int(read(path))
    except (OSError, ValueError):
        return None  # no such file, or "max"


def _sum_statistics(read: Read, path: str, names: Collection[str]) -> int:
    try:
        pairs = (line.split() for line in read(path).splitlines())
        return sum(int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] in names)
    except (OSError, ValueError):
        return 0
