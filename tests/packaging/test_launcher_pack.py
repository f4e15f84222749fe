"""What makes the single file: the same bytes of the same folder, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.single_file import ROOT, SingleFile, pack


@pytest.fixture
def folder(build: Path, tmp_path: Path) -> Path:
    """A folder build of this test's own."""
    return Path(shutil.copytree(build, tmp_path / "folder", symlinks=True))


def test_the_same_folder_becomes_the_same_bytes(
    single: SingleFile, folder: Path, launcher: Path, tmp_path: Path
) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    (folder / "_internal" / "nothing").chmod(0o660)
    (folder / "_internal" / "deep").chmod(0o700)
    (folder / "MANIFEST").write_bytes(pack.manifest(folder))
    packed = pack.pack(folder, tmp_path / "again", launcher, level=1)
    data = single.file.read_bytes()
    assert (tmp_path / "again").read_bytes() == data
    assert (packed.sha256, packed.size) == (hashlib.sha256(data).hexdigest(), len(data))
    assert packed.payload == single.payload == pack.check(single.file)


def test_what_was_packed_can_be_read_again(single: SingleFile, build: Path, tmp_path: Path) -> None:
    contents = pack.contents(single.file)
    files = {str(path.relative_to(build)): path for path in build.rglob("*") if not path.is_dir()}
    assert contents.keys() == files.keys()
    assert contents["_internal/libone.so"].kind == "l"
    assert contents["baton"].mode == contents["_internal/deep/run"].mode == 0o755
    assert contents["_internal/with a space é"].mode == 0o644
    for name, entry in contents.items():
        link = files[name].is_symlink()
        data = os.fsencode(files[name].readlink()) if link else files[name].read_bytes()
        assert (entry.size, entry.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    pack.unpack(single.file, tmp_path / "unpacked")
    assert pack.entries(pack.manifest(tmp_path / "unpacked")) == contents
    assert pack.read(single.file).entries == len(contents)


def _program(folder: Path) -> None:
    (folder / "baton").chmod(0o644)


def _outside(folder: Path) -> None:
    (folder / "link").symlink_to("../secret")
    (folder.parent / "secret").touch()


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no program": (_program, "no executable baton"),
    "a link outside": (_outside, "isn't in the folder"),
    "an absolute link": (lambda folder: (folder / "l").symlink_to(folder / "baton"), "isn't in"),
    "a link to nothing": (lambda folder: (folder / "l").symlink_to("nothing"), "isn't in"),
    "a newline": (lambda folder: (folder / "a\nb").touch(), "newline"),
    "a pipe": (lambda folder: os.mkfifo(folder / "pipe"), "neither"),
    "a long name": (lambda folder: (folder / ("n" * 101)).touch(), "can't be packed"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_packed_leaves_all_as_it_was(
    folder: Path, launcher: Path, tmp_path: Path, wrong: str
) -> None:
    spoil, words = WRONG[wrong]
    spoil(folder)
    target = tmp_path / "dist" / "baton"
    target.parent.mkdir()
    target.write_text("old")
    with pytest.raises(pack.PackError, match=words):
        pack.pack(folder, target, launcher, level=1)
    assert [path.read_text() for path in target.parent.iterdir()] == ["old"]


def test_what_is_not_a_single_file_is_reported(launcher: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for file in (launcher, tmp_path / "empty", Path(sys.executable)):
        with pytest.raises(pack.PackError, match="a packed Baton"):
            pack.read(file)


def test_it_can_be_run(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "packaging" / "launcher" / "pack.py")]
    target = str(tmp_path / "baton")
    made = subprocess.run([*command, str(folder), target], capture_output=True, timeout=60)
    digest = hashlib.sha256(Path(target).read_bytes()).hexdigest()
    assert made.stdout.decode().endswith(f"sha256 {digest}\n")
    seen = subprocess.run([*command, "--check", target], capture_output=True, timeout=60)
    assert pack.read(Path(target)).sha256 in seen.stdout.decode()
    wrong = subprocess.run([*command, "--check", command[1]], capture_output=True, timeout=60)
    assert (wrong.returncode, wrong.stdout) == (1, b"")
    assert wrong.stderr.count(b"\n") == 1


def test_the_launcher_is_compiled_once(launcher: Path) -> None:
    compiled = launcher.stat()
    assert pack.build_launcher(ROOT / "build") == launcher
    assert launcher.stat() == compiled


def test_the_launcher_needs_nothing_and_holds_nothing_of_who_built_it(launcher: Path) -> None:
    program = launcher.read_bytes()
    assert os.fsencode(ROOT) not in program
    if sys.platform == "linux":
        headers, size, count = struct.unpack_from("<Q14xHH", program, 32)
        kinds = [struct.unpack_from("<I", program, headers + n * size)[0] for n in range(count)]
        load, interpreter = 1, 3
        assert load in kinds
        assert interpreter not in kinds


def test_a_compiler_that_is_missing_is_reported() -> None:
    with pytest.raises(pack.BuildError, match=r"no-such-cc can't be started"):
        pack.build_launcher(ROOT / "build", cc=["no-such-cc"])


@pytest.mark.usefixtures("launcher")
def test_a_compiler_that_fails_is_quoted(tmp_path: Path) -> None:
    cc = tmp_path / "cc"
    cc.write_text('#!/bin/sh\n[ "$1" = --version ] || { echo "no room" >&2; exit 1; }\n')
    cc.chmod(0o755)
    with pytest.raises(pack.BuildError, match="no room"):
        pack.build_launcher(ROOT / "build", cc=[str(cc)])
