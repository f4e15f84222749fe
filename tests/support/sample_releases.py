"""Tiny releases of a Baton that says which it is and does no more, made by scripts/release."""

from __future__ import annotations

import functools
import importlib.util
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from baton.download.releases import release_file_name
from baton.platform.build_info import BuildInfo

PLATFORM = "linux-x86_64"
SIZE = 60_000


def script() -> ModuleType:
    """Return scripts/release.py as a module."""
    name = "scripts_release"
    if name not in sys.modules:
        file = Path(__file__).parents[2] / "scripts" / "release.py"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


@functools.cache
def program(version: str, *, size: int = SIZE, says: str | None = None, seed: int = 0) -> bytes:
    """Return a Baton that knows --version, and is as large as one likes."""
    said = f"baton {version}" if says is None else says
    head = f'#!/bin/sh\n[ "$1" = --version ] && echo "{said}"\nexit 0\n'.encode()
    filling = random.Random(f"{version} {seed}").randbytes(max(0, size - len(head)))
    return head + filling


def keys(folder: Path) -> tuple[Any, str]:
    """Return a private key and its public half in hex, made by scripts/release."""
    file = folder / "key"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        script().keygen(file)
    return script().private_key(file), file.with_name("key.pub").read_text().strip()


def publish(
    folder: Path,
    key: Any,
    version: str,
    programs: Mapping[tuple[str, str], bytes] | None = None,
    *,
    released: str = "2026-11-21",
) -> Path:
    """Make a release of these programs, by flavour and gpu, and return its folder.

    They aren't builds, so they aren't looked into as `scripts/release make` does.
    """
    dist = folder.with_name(f"{folder.name} dist")
    dist.mkdir(parents=True)
    found = []
    for (flavour, gpu), content in (programs or {("full", ""): program(version)}).items():
        file = dist / release_file_name(version, PLATFORM, flavour, gpu)
        file.write_bytes(content)
        found.append(script().BuiltFile(file, BuildInfo(version, flavour, PLATFORM, gpu)))
    script().write(found, folder, key, released, "")
    return folder
