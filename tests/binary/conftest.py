"""What the packaged binary's tests need. They fail where it is missing: skipping would say nothing.

scripts/test -m binary tests/binary       with what scripts/build has left in dist/
BATON_DIST=FOLDER                         with another folder's binaries
BATON_ROOTS=FOLDER                        where the bare Debians are kept (build/roots)
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from binary.roots import Bare, bare_root

ROOT = Path(__file__).parents[2]
SOURCES = Path(os.environ.get("BATON_DIST") or ROOT / "dist").absolute()
CACHE = Path(os.environ.get("BATON_ROOTS") or ROOT / "build" / "roots").absolute()
"""Read before any test takes what begins with BATON_ out of the environment."""

EXECUTABLE = ".exe" if sys.platform == "win32" else ""


@pytest.fixture(scope="session")
def dist() -> Path:
    """Return the folder of the binaries."""
    return SOURCES


def _there(path: Path) -> Path:
    assert path.is_file(), f"{path} is missing: scripts/build makes it, or name another BATON_DIST"
    return path


@pytest.fixture(scope="session")
def single(dist: Path) -> Path:
    """Return the single file, with the starter model inside."""
    return _there(dist / f"baton{EXECUTABLE}")


@pytest.fixture(scope="session")
def slim(dist: Path) -> Path:
    """Return the single file without a model."""
    return _there(dist / f"baton-slim{EXECUTABLE}")


@pytest.fixture(scope="session")
def folder(dist: Path) -> Path:
    """Return the folder build's executable, with the starter model inside."""
    return _there(dist / "folder" / "baton" / f"baton{EXECUTABLE}")


@pytest.fixture(scope="session")
def bare(dist: Path) -> Callable[..., Bare]:
    """Return what makes a bare machine of a Debian, a home's folder and options of `Bare`."""
    assert os.geteuid() == 0, "bare root file systems need root"
    for needed in ("unshare", "chroot", "mount"):
        assert shutil.which(needed), f"needs {needed}"

    def make(suite: str, home: Path, **options: object) -> Bare:
        return Bare(bare_root(suite, CACHE), home, dist, **options)  # type: ignore[arg-type]

    return make
