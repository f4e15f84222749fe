"""Which C++ library a build for GPUs computes with: its own, or the system's if that is newer.

A GPU's driver is loaded into the same process, where there can be only one, and drivers are made
for the system's. The packaged binary brings one of 2020, with which newer drivers can't be loaded;
what the binary itself is made of runs with any that is newer.
"""

from __future__ import annotations

import ctypes
import platform
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from baton.platform.build_info import build_info

LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6")
"""What belongs together, in the order in which they need each other."""

FOLDERS = (
    f"/usr/lib/{platform.machine()}-linux-gnu",
    f"/lib/{platform.machine()}-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
)

_VERSION = re.compile(rb"GLIBCXX_3\.4\.(\d+)\0")


def prefer_newer() -> None:
    """Load the system's C++ library if that is better. To be called before llama.cpp is loaded."""
    build = build_info()
    if sys.platform != "linux" or build is None or not build.gpu:
        return
    folder = newer_than(Path(sys.executable).parent / "lib", map(Path, FOLDERS))
    for name in LIBRARIES if folder else ():
        try:
            ctypes.CDLL(f"{folder}/{name}")
        except OSError:
            return  # then its own serves, as it does without any GPU


def newer_than(own: Path, folders: Iterable[Path]) -> Path | None:
    """Return the first of the folders that has both libraries, if they are newer than one's own."""
    for folder in folders:
        if all((folder / name).exists() for name in LIBRARIES):
            return folder if _version(folder) > _version(own) else None
    return None


def _version(folder: Path) -> int:
    """Return the newest version that a folder's C++ library knows; without one, any other does."""
    try:
        told = _VERSION.findall((folder / LIBRARIES[-1]).read_bytes())
    except OSError:
        return 1 << 30
    return max(map(int, told), default=0)
