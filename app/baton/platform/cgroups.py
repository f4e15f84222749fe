"""What a Linux container or service may use: the tightest limit on the way to its control group.

Both versions are known, side by side too, and groups within groups. Files are read by whoever asks:
`read` returns a file's text by its whole path, and may raise OSError or ValueError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

Read = Callable[[str], str]

_NO_LIMIT = 1 << 60
"""Limits above that are none: version 1 writes "unlimited" as a number."""


@dataclass(frozen=True, slots=True)
class MemoryAllowance:
    """How many bytes may be used in all, and how many of them aren't yet."""

    limit: int
    room: int


def memory_allowance(read: Read) -> MemoryAllowance | None:
    """Return what memory is allowed, or None where nothing limits it.

    What a group keeps of files that nobody looked at lately can be let go, so it counts as room.
    """
    found = []
    for folder, second in _group_folders(read, "memory"):
        names = ("memory.max", "memory.current", "inactive_file")
        if not second:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        limit = _number(read, f"{folder}/{names[0]}")
        if limit is None or not 0 <= limit < _NO_LIMIT:
            continue
        used = _number(read, f"{folder}/{names[1]}") or 0
        idle = _statistic(read, f"{folder}/memory.stat", names[2])
        found.append(MemoryAllowance(limit, max(0, limit - max(0, used - idle))))
    if not found:
        return None
    return MemoryAllowance(min(one.limit for one in found), min(one.room for one in found))


def allowed_processors(read: Read) -> int | None:
    """Return how many processors may be used, or None where nothing limits that."""
    quotas = []
    for folder, second in _group_folders(read, "cpu"):
        try:
            if second:
                quota, period = read(f"{folder}/cpu.max").split()
            else:
                quota, period = (read(f"{folder}/cpu.cfs_{x}_us") for x in ("quota", "period"))
            if int(quota) > 0:
                quotas.append(max(1, math.ceil(int(quota) / int(period))))
        except (OSError, ValueError, ZeroDivisionError):
            continue  # no such file, or "max"
    return min(quotas, default=None)


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
    if ".." in pure.parts:  # it lies outside of what can be seen
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


def _statistic(read: Read, path: str, name: str) -> int:
    try:
        pairs = (line.split() for line in read(path).splitlines())
        return next((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] == name), 0)
    except (OSError, ValueError):
        return 0
