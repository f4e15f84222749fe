"""What CI draws of the tests depends on the tree alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

ROOT = Path(__file__).parent.parent
AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
SEED = "BATON_TEST_SAMPLE"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Makes a tree with CI's script, whose tests only print the seed that they are given."""
    for name, text in {
        "scripts/check": "#!/bin/sh\n",
        "scripts/test": f"#!/bin/sh\necho tests: ${SEED}\n",
        "app/code.py": "answer = 42\n",
        "tests/test_code.py": "",
    }.items():
        file = tmp_path / "tree" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        file.chmod(0o755)
    shutil.copytree(ROOT / ".ci", tmp_path / "tree" / ".ci")
    return tmp_path / "tree"


def git(tree: Path, *arguments: str) -> None:
    subprocess.run(["git", *AUTHOR, *arguments], cwd=tree, check=True, capture_output=True)


def drawn_by(tree: Path, **variables: str) -> str:
    """Return the seed that CI prints, after a look that its tests are given the same."""
    ran = subprocess.run(
        [tree / ".ci" / "run"],
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    seed = ran.stdout.partition("\n")[0].removeprefix(f"{SEED}=")
    assert ran.stdout == f"{SEED}={seed}\ntests: {seed}\n"
    return seed


def commit(tree: Path) -> None:
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--allow-empty", "--message=Change")


def test_the_same_tree_draws_the_same(tree: Path) -> None:
    git(tree, "init", "--quiet")
    commit(tree)
    first = drawn_by(tree)
    commit(tree)
    assert drawn_by(tree) == first
    (tree / "app" / "code.py").write_text("answer = 43\n", "utf-8")
    commit(tree)
    assert drawn_by(tree) != first


def test_without_git_the_code_stands_for_the_tree(tree: Path) -> None:
    first = drawn_by(tree)
    assert first
    assert drawn_by(tree) == first
    (tree / "app" / "code.py").write_text("answer = 43\n", "utf-8")
    assert drawn_by(tree) != first


def test_a_seed_that_is_given_stays(tree: Path) -> None:
    assert drawn_by(tree, **{SEED: "mine"}) == "mine"
