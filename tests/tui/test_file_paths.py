"""Which files of the working folder a prompt can name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from baton.tui.menu_entries import folder_paths, tree_paths


def plant(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def test_the_nearest_come_first_and_what_is_ignored_is_left_out(tmp_path: Path) -> None:
    plant(tmp_path, "b.md", "a/deep/c.py", "a/x.log", "a/keep.log", ".git/config", "out/d.o")
    plant(tmp_path, "a/out/e.py")
    (tmp_path / ".gitignore").write_text("*.log\n/out/\n# a comment\n")
    (tmp_path / "a" / ".gitignore").write_text("!keep.log\n")
    assert tree_paths(tmp_path) == [
        ".gitignore",
        "b.md",
        "a/",
        "a/.gitignore",
        "a/keep.log",
        "a/deep/",
        "a/out/",
        "a/deep/c.py",
        "a/out/e.py",
    ]


def test_a_large_tree_is_cut_in_number_and_in_time(tmp_path: Path) -> None:
    plant(tmp_path, *(f"{folder}/{number}" for folder in "abc" for number in range(40)))
    assert len(tree_paths(tmp_path, limit=50)) == 50
    assert tree_paths(tmp_path, seconds=-1) == []


@pytest.mark.skipif(sys.platform == "win32", reason="such names and files are POSIX's")
def test_links_pipes_and_names_that_write_to_the_terminal(tmp_path: Path) -> None:
    plant(tmp_path, "a/b", "bad\x1b[2Jname", "quo\"te's", "line\nbreak")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "a" / ".gitignore").write_bytes(b"\xff\xfe[\n")
    assert tree_paths(tmp_path) == [".gitignore", "a/", "a/.gitignore", "a/b", "a/loop"]
    assert tree_paths(tmp_path / "none") == []


def test_the_home_of_an_unknown_user_has_no_files() -> None:
    assert folder_paths("~unknown-user/a") == []
