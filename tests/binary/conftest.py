"""What the packaged binary's tests need, and what is said where it is missing.

scripts/test -m binary tests/binary       with what scripts/build has left in dist/
BATON_DIST=FOLDER                         with another folder's binaries
BATON_ROOTS=FOLDER                        where the bare Debians are kept (build/roots)

What can't be proved here is left out. The end of the run lists it with its reasons, and fails.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binary.bare_systems import ALONE, BareMachine, bare_root
from binary.tmux import Tmux

ROOT = Path(__file__).parents[2]
SOURCES = Path(os.environ.get("BATON_DIST") or ROOT / "dist").absolute()
CACHE = Path(os.environ.get("BATON_ROOTS") or ROOT / "build" / "roots").absolute()
"""Read before any test takes what begins with BATON_ out of the environment."""

EXECUTABLE = ".exe" if sys.platform == "win32" else ""

FILES = {
    "single": SOURCES / f"baton{EXECUTABLE}",
    "slim": SOURCES / f"baton-slim{EXECUTABLE}",
    "folder": SOURCES / "folder" / "baton" / f"baton{EXECUTABLE}",
    "dist": SOURCES / "folder" / "baton-slim",
}
PROGRAMS = {
    "bare": ("unshare", "chroot", "mount"),
    "isolated": ("unshare", "mount"),
    "strace": ("strace",),
    "compiler": ("cc",),
    "qemu": ("qemu-x86_64-static|qemu-x86_64",),
    "tmux": ("tmux",),
}
WITH_ROOT = {"bare": "bare root file systems are entered", "isolated": "networks are cut"}
"""What a test needs that asks for a fixture of that name."""

_unproved: Counter[str] = Counter()
_tried = 0


def _missing_needs(need: str) -> Iterator[str]:
    """Say why something that a test needs isn't there."""
    if need in FILES and not FILES[need].exists():
        yield f"{FILES[need]} is missing: scripts/build makes it, or name another BATON_DIST"
    if need in WITH_ROOT and (sys.platform != "linux" or os.geteuid() != 0):
        yield f"{WITH_ROOT[need]} as root on Linux only"
    for program in PROGRAMS.get(need, ()):
        if not any(map(shutil.which, program.split("|"))):
            yield f"{program.replace('|', ' or ')} is not installed"


def _needs(item: pytest.Item) -> list[str]:
    """Return the fixtures that a test asks for, also those that it names as parameters."""
    chosen = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return [*getattr(item, "fixturenames", ()), *(need for need in FILES if need in chosen)]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what can't be proved here."""
    global _tried
    ours = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    lacking = {
        item: {why for need in _needs(item) for why in _missing_needs(need)} for item in ours
    }
    _tried = len(ours)
    _unproved.update(why for whys in lacking.values() for why in whys)
    items[:] = [item for item in items if not lacking.get(item)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where something was left out."""
    if _unproved:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which build it was, and what was left out and why."""
    notes = sorted(SOURCES.glob("folder/baton/lib/baton/build.json")) if _tried else []
    for built in (json.loads(note.read_text()) for note in notes):
        expected = f"{built['version']} of {built['commit'] or 'unknown sources'}"
        terminalreporter.write_line(f"The binaries were {expected}, in {SOURCES}")
    for why, count in sorted(_unproved.items()):
        terminalreporter.write_line(f"NOT PROVED: {count} of {_tried} tests, because {why}")


@pytest.fixture(scope="session")
def dist() -> Path:
    """Return the folder of the binaries."""
    return SOURCES


@pytest.fixture(scope="session")
def single() -> Path:
    """Return the single file, with the starter model inside."""
    return FILES["single"]


@pytest.fixture(scope="session")
def slim() -> Path:
    """Return the single file without a model."""
    return FILES["slim"]


@pytest.fixture(scope="session")
def folder() -> Path:
    """Return the folder build's executable, with the starter model inside."""
    return FILES["folder"]


@pytest.fixture(scope="session")
def bare(dist: Path) -> Callable[..., BareMachine]:
    """Return what makes a bare machine: a Debian, a home's folder and options of `BareMachine`."""

    def make(suite: str, home: Path, **options: object) -> BareMachine:
        return BareMachine(bare_root(suite, CACHE), home, dist, **options)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def isolated() -> list[str]:
    """Return what starts a program on a machine that can only talk with itself."""
    return ALONE


@pytest.fixture(scope="session")
def strace() -> str:
    """Return the program that lists what the kernel was asked for."""
    return shutil.which("strace") or ""


@pytest.fixture(scope="session")
def compiler() -> str:
    """Return a C compiler."""
    return shutil.which("cc") or ""


@pytest.fixture(scope="session")
def qemu() -> str:
    """Return what imitates a processor."""
    return shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64") or ""


@pytest.fixture(scope="session")
def tmux() -> type[Tmux]:
    """Return what opens a program in a terminal."""
    return Tmux
