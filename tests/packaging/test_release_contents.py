"""scripts/release looks into what it releases: a file's name, and where it is, prove nothing."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.sample_builds import build, commit_folder, library
from support.sample_releases import keys, script
from support.single_file import ROOT

LINUX = "baton-0.2.0-linux-x86_64"
ARM = "baton-0.2.0-linux-aarch64"
MAC = "baton-slim-0.2.0-macos-arm64"
WINDOWS = "baton-0.2.0-windows-x86_64.zip"
ON_MAC = {"platform": "macos-arm64", "flavour": "slim"}
ON_WINDOWS = {"platform": "windows-x86_64"}


@pytest.fixture
def key(tmp_path: Path) -> tuple[Any, str]:
    return keys(tmp_path / "keys")


def why_not(dist: Path, key: tuple[Any, str]) -> str:
    """Say why this isn't released: one line, and nothing was made."""
    with pytest.raises(script().ReleaseError) as refused:
        script().make(dist, dist.with_name("release"), key[0], "2026-11-21", "")
    assert not dist.with_name("release").exists()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_what_is_right_is_released_for_every_system(tmp_path: Path, key: tuple[Any, str]) -> None:
    dist, mine = tmp_path / "dist", {"update_key": key[1]}
    for name, expected in (
        ("baton-vulkan", {"gpu": "vulkan"}),
        (LINUX, {}),
        (ARM, {"platform": "linux-aarch64"}),
        (MAC, ON_MAC),
        (WINDOWS, ON_WINDOWS),
    ):
        build(dist, name, expected | mine)
    with (dist / MAC).open("ab") as file:
        file.write(b"a signature of Apple's kind")
    script().make(dist, tmp_path / "release", key[0], "2026-11-21", "")
    assert script().check(tmp_path / "release", key[1]) == []
    made = {path.name for path in (tmp_path / "release").iterdir()}
    assert {LINUX, f"{LINUX}-vulkan", ARM, MAC, WINDOWS} <= made


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (LINUX, {"flavour": "slim"}),
        (LINUX, {"gpu": "cuda"}),
        (LINUX, {"platform": "linux-aarch64"}),
        (LINUX, {"version": "0.1.0"}),
        ("baton", {"flavour": "slim"}),
        ("baton", {"gpu": "cuda"}),
        ("baton", {"version": "next"}),
        ("baton", {"flavour": "sweet"}),
        ("baton-slim", {}),
    ],
)
def test_a_build_under_another_name_is_not_released(
    tmp_path: Path, key: tuple[Any, str], name: str, expected: dict[str, str]
) -> None:
    build(tmp_path / "dist", name, expected | {"update_key": key[1]})
    assert "isn't what it is called: it says that it is baton-" in why_not(tmp_path / "dist", key)


@pytest.mark.parametrize(
    ("name", "expected"), [(LINUX, {}), ("baton", {}), (MAC, ON_MAC), (WINDOWS, ON_WINDOWS)]
)
def test_a_build_with_another_key_is_not_released(
    tmp_path: Path, key: tuple[Any, str], name: str, expected: dict[str, str]
) -> None:
    build(tmp_path / "dist", name, expected | {"update_key": "ab" * 32})
    assert "could never be updated" in why_not(tmp_path / "dist", key)
    build(tmp_path / "dist", name, expected)
    assert "with the key (none)" in why_not(tmp_path / "dist", key)


def test_builds_of_two_commits_are_not_released(tmp_path: Path, key: tuple[Any, str]) -> None:
    build(tmp_path / "dist", "baton", {"update_key": key[1], "commit": "a" * 40})
    build(tmp_path / "dist", WINDOWS, ON_WINDOWS | {"update_key": key[1], "commit": "b" * 40})
    said = why_not(tmp_path / "dist", key)
    assert "of one commit" in said
    assert f"baton of {'a' * 40}, {WINDOWS} of {'b' * 40}" in said


def test_the_day_is_the_commit_s(tmp_path: Path, key: tuple[Any, str]) -> None:
    asked = ["git", "-C", str(Path(__file__).parent), "log", "-1", "--format=%H %cs"]
    commit, day = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    build(tmp_path / "dist", "baton", {"update_key": key[1], "commit": commit})
    script().make(tmp_path / "dist", tmp_path / "release", key[0], "", "")
    assert script().read_signed_release(tmp_path / "release", key[1]).released == day
    for commit, why in (("c" * 40, "doesn't know the commit cccc"), ("", "No commit is named")):
        build(tmp_path / "dist", "baton", {"update_key": key[1], "commit": commit})
        with pytest.raises(script().ReleaseError, match=f"{why}.*--released"):
            script().make(tmp_path / "dist", tmp_path / "other", key[0], "", "")
    with pytest.raises(script().ReleaseError, match="'tomorrow' isn't a day"):
        script().make(tmp_path / "dist", tmp_path / "other", key[0], "tomorrow", "")


def test_a_build_of_changed_files_is_not_released(tmp_path: Path, key: tuple[Any, str]) -> None:
    build(tmp_path / "dist", "baton", {"update_key": key[1], "commit": "a" * 40 + "+changes"})
    assert "files that differ from its commit" in why_not(tmp_path / "dist", key)


def test_the_installers_are_those_of_the_commit(
    tmp_path: Path, key: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "checkout"
    (root / "packaging").mkdir(parents=True)
    for name in script().INSTALLERS:
        shutil.copy(ROOT / "packaging" / name, root / "packaging" / name)
    commit = commit_folder(root)
    for name in script().INSTALLERS:
        (root / "packaging" / name).write_text("echo changed afterwards\n")
    monkeypatch.setattr(script(), "ROOT", root)
    build(tmp_path / "dist", "baton", {"update_key": key[1], "commit": commit})
    script().make(tmp_path / "dist", tmp_path / "release", key[0], "", "")
    for name in script().INSTALLERS:
        there = (tmp_path / "release" / name).read_bytes()
        assert there == (ROOT / "packaging" / name).read_bytes()


@pytest.mark.parametrize("name", [LINUX, "baton"])
def test_what_is_not_a_whole_single_file_is_not_released(
    tmp_path: Path, key: tuple[Any, str], name: str
) -> None:
    file = build(tmp_path / "dist", name, {"update_key": key[1]})
    data = file.read_bytes()
    half = len(data) // 2
    for spoiled, why in (
        (data[:-1], "isn't a packed Baton, or the end of it is missing"),
        (data[:half], "isn't a packed Baton"),
        (b"#!/bin/sh\nexit 0\n", "isn't a packed Baton"),
        (b"", "isn't a packed Baton"),
        (data[:-1000] + bytes([data[-1000] ^ 1]) + data[-999:], "isn't as it was packed"),
    ):
        file.write_bytes(spoiled)
        said = why_not(tmp_path / "dist", key)
        assert why in said
        assert str(file) in said


@pytest.mark.parametrize("note", [b"", b"{}", b"[]", b'{"version": 1}', b"\xff"])
def test_what_does_not_say_what_it_is_is_not_released(
    tmp_path: Path, key: tuple[Any, str], note: bytes
) -> None:
    for name, expected in ((LINUX, {}), (WINDOWS, ON_WINDOWS)):
        shutil.rmtree(tmp_path / "dist", ignore_errors=True)
        build(tmp_path / "dist", name, expected, files={"lib/baton/build.json": note})
        assert "doesn't say what it is" in why_not(tmp_path / "dist", key)


@pytest.mark.parametrize("name", [LINUX, "baton"])
@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("-Wl,-rpath,/usr/local/lib", "lib/libone.so: looks for libraries in /usr/local/lib"),
        ("-Wl,-rpath,$ORIGIN/../..", "looks for libraries in $ORIGIN/../.."),
        ("-Wl,-z,execstack", "lib/libone.so: its stack is executable"),
        ("-Wl,--no-as-needed,-lz", "needs libz.so.1, which it doesn't find in the folder"),
    ],
)
def test_what_is_not_portable_is_not_released(
    tmp_path: Path, key: tuple[Any, str], name: str, option: str, why: str
) -> None:
    files = {"lib/libone.so": library(tmp_path / "one", option)}
    build(tmp_path / "dist", name, {"update_key": key[1]}, files=files)
    said = why_not(tmp_path / "dist", key)
    assert why in said
    assert said.endswith("Build it with scripts/build --portable.")


def test_what_wants_a_newer_system_is_not_released(
    tmp_path: Path, key: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    libc = library(tmp_path / "one", "-Wl,--no-as-needed,-lc", "-Wl,--undefined=puts")
    for name in ("libone.so", "libtwo.so"):
        build(tmp_path / "dist", "baton", {"update_key": key[1]}, files={f"lib/{name}": libc})
        script().find(tmp_path / "dist", key[1])
    build(
        tmp_path / "dist",
        "baton",
        {"update_key": key[1]},
        files={"lib/a.so": libc, "lib/b.so": libc},
    )
    monkeypatch.setattr(script().inside.check, "GLIBC", "2.1")
    said = why_not(tmp_path / "dist", key)
    assert "lib/a.so: needs GLIBC_2." in said
    assert "and 1 more like that" in said


@pytest.mark.parametrize(
    ("name", "expected", "head"),
    [
        (MAC, ON_MAC, "linux-x86_64"),
        (MAC, ON_MAC, "windows-x86_64"),
        (WINDOWS, ON_WINDOWS, "macos-arm64"),
    ],
)
def test_what_is_for_another_system_than_it_says_is_not_released(
    tmp_path: Path, key: tuple[Any, str], name: str, expected: dict[str, str], head: str
) -> None:
    build(tmp_path / "dist", name, expected | {"update_key": key[1]}, head=head)
    assert f"says that it is for {expected['platform']}, and isn't" in why_not(
        tmp_path / "dist", key
    )


def test_what_is_for_another_processor_than_it_says_is_not_released(
    tmp_path: Path, key: tuple[Any, str]
) -> None:
    build(tmp_path / "dist", LINUX, {"update_key": key[1]}, head="linux-aarch64")
    assert "is for AArch64" in why_not(tmp_path / "dist", key)


def line(name: str, data: bytes | None) -> bytes:
    """Return MANIFEST's line of a file in an archive."""
    digest = hashlib.sha256(data or b"").hexdigest()
    return f"f 0644 {len(data or b'')} {digest} {name.removeprefix('baton/')}\n".encode()


def test_an_archive_that_is_not_as_it_was_packed_is_not_released(
    tmp_path: Path, key: tuple[Any, str]
) -> None:
    def rewritten(changed: Mapping[str, bytes | None], *, listed: bool = False) -> None:
        build(
            tmp_path / "dist", WINDOWS, ON_WINDOWS | {"update_key": key[1]}, files={"lib/one": b"1"}
        )
        with zipfile.ZipFile(file := tmp_path / "dist" / WINDOWS) as archive:
            held = {name: archive.read(name) for name in archive.namelist()}
        if listed:
            held["baton/MANIFEST"] += b"".join(line(name, data) for name, data in changed.items())
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in {**held, **changed}.items():
                if data is not None:
                    archive.writestr(name, data)

    rewritten({})
    script().find(tmp_path / "dist", key[1])
    changes: list[dict[str, bytes | None]] = [
        {"baton/lib/one": b"2"},
        {"baton/lib/one": None},
        {"baton/lib/more": b"3"},
        {"../evil": b"3"},
        {"baton/../../evil": b"3"},
        {"other/baton.exe": b"MZ"},
        {"baton/baton.exe": None},
        {"baton/MANIFEST": None},
        {"baton/MANIFEST": b"invalid"},
    ]
    for change in changes:
        rewritten(change)
        assert f"{WINDOWS} isn't as it was packed" in why_not(tmp_path / "dist", key), change
    for name in ("baton/../../evil", "baton/a\\..\\..\\b", "baton/c:evil"):
        rewritten({name: b"3"}, listed=True)
        assert f"{WINDOWS} isn't as it was packed" in why_not(tmp_path / "dist", key), name
    rewritten({"baton/lib/plain": b"3"}, listed=True)
    script().find(tmp_path / "dist", key[1])
    file = tmp_path / "dist" / WINDOWS
    for data in (b"PK", b"", file.read_bytes()[:-30]):
        file.write_bytes(data)
        assert "isn't as it was packed" in why_not(tmp_path / "dist", key)


def test_what_is_to_be_released_is_never_cleared_away(tmp_path: Path, key: tuple[Any, str]) -> None:
    file = build(tmp_path / "dist", LINUX, {"update_key": key[1]})
    with pytest.raises(script().ReleaseError, match="name another folder"):
        script().make(tmp_path / "dist", tmp_path / "dist", key[0], "2026-11-21", "")
    assert file.exists()
