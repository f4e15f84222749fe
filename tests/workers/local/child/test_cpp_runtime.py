"""Which C++ library a build for GPUs takes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from baton.workers.local.child.cpp_runtime import FOLDERS, LIBRARIES, newer_than, prefer_newer


def libraries(folder: Path, newest: int, *, only: tuple[str, ...] = LIBRARIES) -> Path:
    folder.mkdir()
    versions = [f"GLIBCXX_3.4.{number}" for number in range(newest + 1)]
    for name in only:
        (folder / name).write_bytes(b"\x7fELF\0" + "\0".join(versions).encode() + b"\0GLIBC_2.34\0")
    return folder


@pytest.mark.parametrize(("system", "taken"), [(30, True), (28, False), (9, False)])
def test_the_newer_one_is_taken(tmp_path: Path, system: int, taken: bool) -> None:
    own = libraries(tmp_path / "own", 28)
    theirs = libraries(tmp_path / "theirs", system)
    assert newer_than(own, [tmp_path / "none", theirs]) == (theirs if taken else None)


def test_only_a_pair_is_taken_and_nothing_where_a_build_brings_none(tmp_path: Path) -> None:
    own = libraries(tmp_path / "own", 28)
    half = libraries(tmp_path / "half", 33, only=LIBRARIES[1:])
    assert newer_than(own, [half]) is None
    assert newer_than(tmp_path / "empty", [libraries(tmp_path / "theirs", 33)]) is None
    assert newer_than(own, []) is None


@pytest.mark.skipif(sys.platform != "linux", reason="looks at this Linux")
def test_this_system_s_own_is_read(tmp_path: Path) -> None:
    old = libraries(tmp_path / "old", 3)
    folders = [Path(folder) for folder in FOLDERS if (Path(folder) / LIBRARIES[1]).exists()]
    if not folders:
        pytest.skip("no C++ library here")
    assert newer_than(old, folders) == folders[0]
    assert newer_than(libraries(tmp_path / "future", 99), folders) is None


def test_a_checkout_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", None)
    prefer_newer()
