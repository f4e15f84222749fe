"""Compiles PyInstaller's bootloader, the program that a folder build's executable begins with.

The one in its wheel wants the system's zlib before it knows the folder that has one, and fails
where there is none. Linux only: elsewhere it needs nothing that isn't there.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "launcher"))
import building


def install(build: Path) -> None:
    """Put it in the place of the one in this environment. `build` keeps it."""
    import PyInstaller

    place = Path(PyInstaller.__file__).parent / "bootloader" / PyInstaller.PLATFORM / "run"
    made = _compiled(build, PyInstaller.PLATFORM)
    if place.read_bytes() != made.read_bytes():
        shutil.copy2(made, place)


def _compiled(build: Path, platform: str) -> Path:
    """Return the bootloader, compiled once for each compiler. Raises building.BuildError."""
    pinned, name = building.lock_entry("pyinstaller")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    version = building.run([*compiler, "--version"])
    key = hashlib.sha256(repr((compiler, version, name)).encode()).hexdigest()[:16]
    bootloader = build / "bootloader" / key
    if not bootloader.exists():
        with building.making(bootloader) as made, tempfile.TemporaryDirectory() as temporary:
            archive = building.fetch_source(pinned, Path(temporary), backend="hatchling.build")
            with tarfile.open(archive) as opened:
                # Older Pythons have no filter; then the hash that was checked is enough.
                opened.extraction_filter = getattr(tarfile, "data_filter", None)
                opened.extractall(temporary)
            source = archive.with_name(archive.name.removesuffix(".tar.gz"))
            waf = [sys.executable, "waf", "configure", "build_release", "install_release"]
            building.run(waf, source / "bootloader", PYI_STATIC_ZLIB="1")
            shutil.copy2(source / "PyInstaller" / "bootloader" / platform / "run", made)
    return bootloader
