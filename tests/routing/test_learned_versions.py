"""What was learned can be gone back to, whatever else happens in the folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from baton.core.errors import StoreError
from baton.routing.personalisation import MAX_EARLIER_VERSIONS, STALE_SECONDS, LearnedVersions
from support.root_privileges import held_to_file_modes


@pytest.fixture
def versions(tmp_path: Path) -> LearnedVersions:
    return LearnedVersions(tmp_path / "router" / "learned.npz")


def learn(versions: LearnedVersions, what: str) -> None:
    draft = versions.create_draft()
    draft.write_text(what)
    versions.keep(draft)
    versions.discard(draft)


def test_every_version_can_be_gone_back_to(versions: LearnedVersions) -> None:
    assert not versions.undo()
    for what in "abc":
        learn(versions, what)
    found = [versions.file.read_text()]
    while versions.undo():
        found.append(versions.file.read_text() if versions.learned_at is not None else "as it came")
    assert found == ["c", "b", "a", "as it came"]
    assert list(versions.file.parent.iterdir()) == []


def test_so_many_versions_are_kept_and_no_more(versions: LearnedVersions) -> None:
    for number in range(MAX_EARLIER_VERSIONS + 3):
        learn(versions, str(number))
    assert len(versions.earlier) == MAX_EARLIER_VERSIONS
    found = []
    while versions.learned_at is not None:
        found.append(versions.file.read_text())
        versions.undo()
    assert found == ["7", "6", "5", "4", "3", "2"]


def test_a_draft_begins_as_what_there_is_and_leaves_it_alone(versions: LearnedVersions) -> None:
    assert not versions.create_draft().exists(), (
        "so that the shipped heads are what it is compared with"
    )
    learn(versions, "a")
    os.utime(versions.file, (1.0, 1.0))
    draft = versions.create_draft()
    assert draft.read_text() == "a"
    assert not draft.stat().st_mode & 0o077
    draft.write_text("worse")
    versions.discard(draft)
    assert versions.file.read_text() == "a"
    learn(versions, "b")
    versions.undo()
    assert versions.learned_at == 1.0, "a router that runs sees by the time that it is another"


def test_forgetting_leaves_nothing(versions: LearnedVersions) -> None:
    assert versions.forget() == 0
    for what in "abc":
        learn(versions, what)
    versions.create_draft()
    assert versions.forget() == 3
    assert list(versions.file.parent.iterdir()) == []


def test_what_a_killed_baton_had_begun_is_removed_in_time(versions: LearnedVersions) -> None:
    learn(versions, "a")
    left, fresh = versions.create_draft(), versions.create_draft()
    os.utime(left, (left.stat().st_mtime - STALE_SECONDS - 60,) * 2)
    os.utime(fresh)
    versions.create_draft()
    assert not left.exists()
    assert fresh.exists()


def test_two_at_once_lose_nothing_but_the_earlier_ones_place(versions: LearnedVersions) -> None:
    learn(versions, "first")
    code = """
import sys
from pathlib import Path
from baton.routing.personalisation import Versions
versions = Versions(Path(sys.argv[1]))
for number in range(30):
    draft = versions.begin()
    draft.write_text(sys.argv[2] * 1000)
    versions.keep(draft)
    versions.drop(draft)
"""
    args = [sys.executable, "-c", code, str(versions.file)]
    both = [subprocess.Popen([*args, name]) for name in "xy"]
    assert [child.wait(60) for child in both] == [0, 0]
    for path in (versions.file, *versions.earlier):
        assert path.read_text() in ("x" * 1000, "y" * 1000)
    assert len(versions.earlier) == MAX_EARLIER_VERSIONS
    assert not list(versions.file.parent.glob("new-*"))


@held_to_file_modes()
def test_a_folder_that_takes_nothing_is_told_of(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="can't be kept"):
        LearnedVersions(tmp_path / "router" / "learned.npz").create_draft()


def test_a_file_in_the_folders_place_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "router").write_text("a file")
    with pytest.raises(StoreError, match="can't be kept"):
        LearnedVersions(tmp_path / "router" / "learned.npz").create_draft()
