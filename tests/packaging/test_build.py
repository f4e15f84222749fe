"""scripts/build refuses in a sentence what it can't build, before it begins, and mixes nothing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.sample_builds import build as made_small, commit_folder, library, program

ROOT = Path(__file__).parent.parent.parent


def build(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts" / "build", *arguments],
        env={"PATH": os.environ["PATH"]},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def module() -> ModuleType:
    """Return scripts/build.py as a module."""
    spec = importlib.util.spec_from_file_location("build", ROOT / "scripts" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["build"] = made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_help_needs_nothing_but_python() -> None:
    ran = build("--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "--portable" in ran.stdout


def test_what_differs_from_its_commit_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.py").write_text("1\n")
    (tmp_path / ".gitignore").write_text("dist/\n")
    commit, building = commit_folder(tmp_path), module()
    monkeypatch.setattr(building, "ROOT", tmp_path)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "baton").touch()
    assert building._commit() == commit
    (tmp_path / "another.py").touch()
    assert building._commit() == f"{commit}+changes"
    (tmp_path / "another.py").unlink()
    (tmp_path / "one.py").write_text("2\n")
    assert building._commit() == f"{commit}+changes"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"\xff\xfe", "it isn't text"),
        (b"", "64 hex digits"),
        (b"g" * 64, "64 hex digits"),
        (b"-----BEGIN PRIVATE KEY-----\n", "64 hex digits"),
    ],
)
def test_a_wrong_key_is_one_sentence(tmp_path: Path, content: bytes | None, said: str) -> None:
    key = tmp_path / "key.pub"
    if content is not None:
        key.write_bytes(content)
    ran = build("--key", key)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1
    assert str(key) in ran.stderr
    assert said in ran.stderr


def test_a_gpu_without_a_build_is_refused() -> None:
    ran = build("--gpu", "abacus")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "'cuda', 'vulkan'" in ran.stderr


def test_all_options_reach_the_portable_build(tmp_path: Path) -> None:
    (tmp_path / "packaging").mkdir()
    (tmp_path / "scripts").mkdir()
    for name in ("build", "build.py", "environment.sh", "setup.py"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    inner = tmp_path / "packaging" / "linux" / "build"
    inner.parent.mkdir()
    inner.write_text('#!/bin/sh\necho "$# $*; $BATON_UPDATE_KEY"\n')
    inner.chmod(0o755)
    (tmp_path / "key.pub").write_text("ab" * 32)
    for options, passed in (
        ([], "0 "),
        (["--check-reproducible"], "1 --check-reproducible"),
        (["--quick", "--gpu", "cuda"], "2 --gpu=cuda --quick"),
    ):
        command = [str(tmp_path / "scripts" / "build"), "--portable"]
        command += ["--key", str(tmp_path / "key.pub"), *options]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (ran.stdout, ran.returncode) == (f"{passed}; {'ab' * 32}\n", 0), ran.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--help"], 0, "--check-reproducible"),
        (["-h"], 0, "debootstrap"),
        (["--quick", "--gpu=vulkan", "--help"], 0, "debootstrap"),
        (["--key", "x"], 2, "knows no --key"),
        (["--gpu", "vulkan"], 2, "knows no --gpu;"),
        (["--gpu=abacus"], 2, "knows no --gpu=abacus"),
        (["--portable"], 2, "knows no --portable"),
        (["--quick", ""], 2, "scripts/build --portable can do more"),
    ],
)
def test_the_portable_build_answers_before_it_makes_anything(
    tmp_path: Path, options: list[str], code: int, said: str
) -> None:
    inner = tmp_path / "packaging" / "linux" / "build"
    inner.parent.mkdir(parents=True)
    shutil.copy(ROOT / "packaging" / "linux" / "build", inner)
    ran = subprocess.run([inner, *options], capture_output=True, text=True, timeout=60)
    assert ran.returncode == code
    assert said in (ran.stderr if code else ran.stdout)
    assert (ran.stdout if code else ran.stderr) == ""
    assert [path.name for path in tmp_path.iterdir()] == ["packaging"]


NAMES = ("folder/baton/baton", "folder/baton/lib/one", "baton", "baton.cdx.json", "sizes.md")


def fill_folder(folder: Path, text: str) -> None:
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def texts(folder: Path) -> dict[str, str]:
    """Return what is in a folder, leaving out what a build that was killed had aside."""
    files = (path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path.read_text() for path in files}
    return {name: text for name, text in names.items() if not name.startswith("new-")}


def test_what_was_built_takes_its_place_and_the_rest_stays(tmp_path: Path) -> None:
    fill_folder(tmp_path, "old")
    for other in ("baton-vulkan", "folder/baton-vulkan/baton", "release/baton-0.1.0-linux-x86_64"):
        (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / other).write_text("other")
    fill_folder(tmp_path / "new-killed", "old")
    (tmp_path / "folder" / "baton" / "lib" / "stale").write_text("old")
    with module().open_staging_folder(tmp_path) as new:
        fill_folder(new, "new")
        assert set(texts(tmp_path).values()) == {"old", "other"}
    made = texts(tmp_path)
    assert {made[name] for name in NAMES} == {"new"}
    assert len(made) == len(NAMES) + 3
    assert not list(tmp_path.glob("new-*"))


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, SystemExit])
def test_a_build_that_fails_leaves_all_as_it_was(
    tmp_path: Path, error: type[BaseException]
) -> None:
    fill_folder(tmp_path, "old")
    before = texts(tmp_path)

    def fails() -> None:
        with module().open_staging_folder(tmp_path) as new:
            (new / "baton").write_text("new")
            raise error

    with pytest.raises(error):
        fails()
    assert texts(tmp_path) == before
    assert not list(tmp_path.glob("new-*"))


def test_a_build_that_is_killed_at_any_moment_mixes_nothing(tmp_path: Path) -> None:
    build = module()

    def killed_at(number: int) -> bool:
        dist = tmp_path / str(number)
        fill_folder(dist, "old")
        if not (child := os.fork()):
            sys.addaudithook(Killer(number))
            with build.open_staging_folder(dist) as new:
                fill_folder(new, "new")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        found = set(texts(dist).values())
        assert found in ({"old"}, {"new"}, set()), number
        assert status or set(texts(dist)) == set(NAMES)
        return bool(status)

    killed = 0
    while killed_at(killed + 1):
        killed += 1
    assert killed > len(NAMES)


class Killer:
    """Kills this process before it takes away or renames for the so-many-th time."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, event: str, _: tuple[object, ...]) -> None:
        """Take an event of the interpreter."""
        if event in ("os.remove", "os.rename", "os.rmdir"):
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="packaging/linux")
def test_only_the_portable_root_demands_what_is_portable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build = module()
    folder = tmp_path / "baton"
    folder.mkdir()
    (folder / "baton").write_bytes(program("linux-x86_64"))
    (folder / "libone.so").write_bytes(library(tmp_path / "one", "-Wl,-rpath,/opt"))
    build._check_portable(folder)
    monkeypatch.setattr("sys.base_prefix", str(tmp_path))
    (tmp_path / "sources").write_text("openssl 3.0.20-1~deb12u2\n")
    with pytest.raises(SystemExit, match=r"libone\.so: looks for libraries in /opt"):
        build._check_portable(folder)
    (folder / "libone.so").write_bytes(library(tmp_path / "one", "-Wl,-rpath,$ORIGIN"))
    build._check_portable(folder)
    assert "baton needs glibc 2" in capsys.readouterr().err


def builds(build: ModuleType, *, inside: bytes = b"1", behind: str = "none") -> None:
    """Have builds differ, the second from the first: in a file inside, or in what is there."""

    def made(_: object, place: Path) -> None:
        again = place.name != "first"
        files = {"lib/one": inside if again else b"1"}
        made_small(place, "baton", {}, files=files)
        if again and (place / behind).exists():
            with (place / behind).open("ab") as file:
                file.write(b"!")

    build.build = made  # type: ignore[attr-defined]


def test_what_is_the_same_twice_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = module()
    build.BUILD = tmp_path  # type: ignore[attr-defined]
    builds(build)
    build._check_reproducible(None)
    assert "The same twice" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("differs", "said"),
    [
        ({"inside": b"2"}, r"baton isn't the same twice: lib/one$"),
        ({"behind": "baton"}, r"baton isn't the same twice, though all files in it are\."),
        ({"behind": "baton.cdx.json"}, r"json isn't the same twice: compare .*/first/.* and .*"),
    ],
)
def test_what_is_not_the_same_twice_is_named(
    tmp_path: Path, differs: dict[str, Any], said: str
) -> None:
    build = module()
    build.BUILD = tmp_path  # type: ignore[attr-defined]
    builds(build, **differs)
    with pytest.raises(build.BuildError, match=said):
        build._check_reproducible(None)
