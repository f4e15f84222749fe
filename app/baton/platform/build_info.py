"""The build of this program, where it is a packaged binary and not a checkout or a wheel."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import baton
from baton.core.frozen_dataclass import frozen_dataclass

BUILD_FILE = "build.json"
"""The build writes it beside the package's own files."""

BINARY_VARIABLE = "BATON_BINARY"
"""The variable in which the launcher passes the path of the single file that it unpacked."""


@frozen_dataclass
class BuildInfo:
    """One build. `flavour` is full or slim; `gpu` is "", cuda or vulkan.

    `update_key` is the raw Ed25519 public key that signs its updates, in hex; "" means none.
    """

    version: str
    flavour: str
    platform: str
    gpu: str = ""
    commit: str = ""
    update_key: str = ""


@cache
def build_info() -> BuildInfo | None:
    """Return this binary's build, None where this isn't a binary."""
    if not getattr(sys, "frozen", False):
        return None
    import json

    file = Path(baton.__file__).with_name(BUILD_FILE)
    return BuildInfo(**json.loads(file.read_text(encoding="utf-8")))


def binary_path() -> Path | None:
    """Return the file that the user starts: the single file, or the folder's executable."""
    if build_info() is None:
        return None
    return Path(os.environ.get(BINARY_VARIABLE) or sys.executable)
