"""What this program was built as, when it is a packaged binary and not a checkout or a wheel."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = "build.json"
"""The build writes it beside the package's own files."""

VARIABLE = "BATON_BINARY"
"""How the launcher tells the program that it unpacked which single file it is."""


@dataclass(frozen=True, slots=True)
class Built:
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
def built() -> Built | None:
    """Return what this binary is, or None when it isn't one."""
    if not getattr(sys, "frozen", False):
        return None
    return Built(**json.loads(Path(__file__).with_name(FILE).read_text(encoding="utf-8")))


def binary() -> Path | None:
    """Return the file that the person starts: the single file, or the folder's executable."""
    if built() is None:
        return None
    return Path(os.environ.get(VARIABLE) or sys.executable)
