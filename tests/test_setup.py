"""The commands set themselves up: once, from anywhere, or say in one sentence why they can't."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOCKS = ("requirements.lock", "tests/requirements.lock")
RECIPE = "scripts/llama-cpp.cmake"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Makes a second checkout, in a path with a space, whose set-up is done already."""
    checkout = tmp_path / "a baton"
    shutil.copytree(ROOT / "scripts", checkout / "scripts")
    (checkout / "tests").mkdir()
    (checkout / ".venv").symlink_to(ROOT / ".venv")
    for lock in LOCKS:
        shutil.copy(ROOT / ".venv" / "installed" / lock, checkout / lock)
    return checkout


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """Makes a folder for PATH with what any Unix has, and neither Python nor a compiler."""
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("sh", "readlink", "dirname", "cmp"):
        found = shutil.which(name)
        assert found
        (bare / name).symlink_to(found)
    return bare


def run(command: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [command, *arguments],
        env=os.environ | environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_runs_from_anywhere_through_links_without_setting_up_again(
    checkout: Path, bare: Path
) -> None:
    link = checkout.parent / "link"
    link.symlink_to(checkout / "scripts" / "test")
    second = checkout.parent / "second"
    second.symlink_to("link")
    ran = run(second, "--version", PATH=str(bare))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("pytest ")


@pytest.mark.parametrize("asked", [*LOCKS, RECIPE])
def test_a_changed_lock_or_recipe_is_noticed(checkout: Path, bare: Path, asked: str) -> None:
    with (checkout / asked).open("a") as file:
        file.write("# changed\n")
    ran = run(checkout / "scripts" / "test", "--version", PATH=str(bare))
    assert ran.returncode == 1
    assert ran.stdout == ""


def test_an_old_python_is_one_sentence(checkout: Path, bare: Path) -> None:
    (checkout / ".venv").unlink()
    (bare / "python3").write_text("#!/bin/sh\nexit 1\n")  # what the version test does in an old one
    (bare / "python3").chmod(0o755)
    ran = run(checkout / "scripts" / "baton", PATH=str(bare))
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert "install" in ran.stderr
    assert "Python 3.11" in ran.stderr


def test_a_missing_compiler_is_one_sentence_before_anything_is_installed(
    checkout: Path, bare: Path
) -> None:
    (checkout / ".venv").unlink()
    (bare / "python3").symlink_to((ROOT / ".venv/bin/python").resolve())
    ran = run(checkout / "scripts" / "baton", PATH=str(bare), CC="cc", CXX="c++")
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert "C++ compiler" in ran.stderr
    assert not (checkout / ".venv").exists()


def test_llama_cpp_is_recompiled_when_its_recipe_changes_and_not_taken_from_a_cache(
    checkout: Path,
) -> None:
    def compile_plan() -> list[str]:
        """What is to be compiled, and where pip may look for it."""
        asked = (
            "import sys; sys.path.insert(0, 'scripts'); import setup; here = setup.Environment();"
            "print(here.to_compile(open('requirements.lock').read()).split('==')[0]);"
            "print(*here.own_cache())"
        )
        command = [sys.executable, "-I", "-c", asked]
        ran = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
        return ran.stdout.splitlines()

    before = compile_plan()
    assert before[0] == ""
    assert before[1].startswith("--cache-dir=/")
    with (checkout / RECIPE).open("a") as file:
        file.write("# changed\n")
    after = compile_plan()
    assert after[0] == "llama-cpp-python"
    assert after[1].startswith("--cache-dir=/")
    assert after[1] != before[1]
