"""The real binary updates itself, goes back, and takes itself away; killed at 50 points meanwhile.

Of the binary in dist/ two are made that differ in what they say of their build, and that believe
the test's own key.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.packaged_machine import serve_release
from support.sample_releases import keys, publish
from support.single_file import pack

pytestmark = pytest.mark.binary

COMMITS = ("a" * 40, "b" * 40)


@dataclass(frozen=True)
class Versions:
    """The same program twice, the later one as a release."""

    old: Path
    new: Path
    release: Path


@pytest.fixture(scope="module")
def versions(dist: Path, slim: Path, tmp_path_factory: pytest.TempPathFactory) -> Versions:
    work = tmp_path_factory.mktemp("versions")
    key, public = keys(work / "keys")
    folder = work / "folder"
    shutil.copytree(dist / "folder" / "baton-slim", folder, symlinks=True)
    launcher = work / "launcher"
    launcher.write_bytes(slim.read_bytes()[: pack.read(slim).offset])
    [note] = folder.rglob("baton/build.json")
    what = json.loads(note.read_text())
    files = []
    for commit in COMMITS:
        note.write_text(json.dumps(what | {"commit": commit, "update_key": public}))
        (folder / pack.MANIFEST).write_bytes(pack.manifest(folder))
        files.append(work / commit[0])
        pack.pack(folder, files[-1], launcher, level=1)
        files[-1].chmod(0o755)
    contents = {("slim", what["gpu"]): files[1].read_bytes()}
    release = publish(work / "release", key, what["version"], contents)
    return Versions(files[0], files[1], release)


class Home:
    """A user's home, with the old version in it."""

    def __init__(self, folder: Path, versions: Versions) -> None:
        self.folder = folder
        self.target = folder / ".local" / "bin" / "baton"
        self.target.parent.mkdir(parents=True)
        shutil.copy(versions.old, self.target)
        self.environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

    def start(self, *args: str, by: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start it, perhaps by a program that watches it."""
        return subprocess.Popen(
            [*by, str(self.target), *args],
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def baton(self, *args: str, code: int = 0) -> str:
        """Run it to its end."""
        with self.start(*args) as process:
            out, err = process.communicate("", timeout=300)
        assert process.returncode == code, (args, out, err)
        return out + err

    @property
    def commit(self) -> str:
        """Which of the two it is: it starts, and says so."""
        return str(json.loads(self.baton("self", "show", "--json"))["commit"])

    def go_back(self) -> None:
        """Be the old version again after any interruption; both are whole."""
        if self.commit == COMMITS[1]:
            self.baton("self", "rollback")
        if self.commit == COMMITS[1]:  # what was interrupted had been complete but for a note
            self.baton("self", "rollback")
        assert self.commit == COMMITS[0]
        shutil.rmtree(self.target.parent / ".baton-update", ignore_errors=True)

    @property
    def left(self) -> list[str]:
        """What there is of files."""
        found = (path for path in self.folder.rglob("*") if not path.is_dir())
        return sorted(str(path.relative_to(self.folder)) for path in found)


@pytest.fixture
def home(tmp_path: Path, versions: Versions) -> Home:
    return Home(tmp_path / "home", versions)


def test_it_updates_goes_back_and_takes_itself_away(home: Home, versions: Versions) -> None:
    update = ("self", "update", "--force", "--from", str(versions.release))
    assert home.commit == COMMITS[0]
    with home.start("ask", "--worker", "nobody") as beside:  # it waits for its prompt
        assert "Updated to" in home.baton(*update)
        assert home.commit == COMMITS[1]
        _, expected = beside.communicate("hello", timeout=60)
        assert (beside.returncode, "nobody" in expected) == (2, True)
        assert "hit a bug" not in expected
    assert "already" in home.baton(*update)
    for commit in COMMITS:
        assert "Gone back to" in home.baton("self", "rollback")
        assert home.commit == commit
    expected = home.baton("self", "uninstall", "--yes", "--history", "remove", "--models", "remove")
    assert "Baton is gone" in expected
    assert home.left == []


def test_from_a_mirror_on_loopback(home: Home, versions: Versions) -> None:
    with serve_release(versions.release) as mirror:
        expected = home.baton("self", "update", "--check", "--from", mirror.address)
        assert "of the same version as this" in expected
        home.baton("self", "update", "--force", "--from", mirror.address)
    assert home.commit == COMMITS[1]


def test_what_was_not_signed_is_not_taken(home: Home, versions: Versions, tmp_path: Path) -> None:
    release = tmp_path / "release"
    shutil.copytree(versions.release, release)
    other, _ = keys(tmp_path / "others")
    content = (release / "manifest.json").read_bytes()
    (release / "manifest.json.sig").write_text(other.sign(content).hex())
    expected = home.baton("self", "update", "--force", "--from", str(release), code=2)
    assert "its signature is wrong" in expected
    assert home.commit == COMMITS[0]


POINTS = 25
CHANGES = (
    *("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "symlinkat"),
    *("mkdir", "mkdirat", "rmdir", "chmod", "fchmod", "fchmodat", "ftruncate", "fsync"),
)
"""The system calls that change which files there are, or bring them to the disk."""


def test_killed_at_a_change_of_a_file_it_is_the_old_or_the_new_one(
    home: Home, versions: Versions, strace: str, tmp_path: Path
) -> None:
    """The kernel kills it, where it is at such a system call; the last ones decide."""
    update = ("self", "update", "--force", "--from", str(versions.release))
    home.baton(*update)  # unpacks both, which isn't what is to be interrupted
    home.go_back()
    trace = tmp_path / "trace"
    watched = [strace, "-f", "-y", "-qq", "-o", str(trace), "-e", f"trace=?{',?'.join(CHANGES)}"]
    with home.start(*update, by=watched) as process:
        process.communicate("")
    assert home.commit == COMMITS[1]
    changes = changing_calls(trace, home)
    renames = [change for change in changes if change[0].startswith("rename")]
    assert len(changes) > POINTS
    assert len(renames) >= 3, "a file comes, the old one is kept, the new one takes its place"
    found, killed = [], 0
    spread = [changes[number * len(changes) // POINTS] for number in range(POINTS)]
    for name, number in dict.fromkeys([*renames, *spread]):
        home.go_back()
        fault = f"inject={name}:signal=KILL:when={number}"
        watched = [strace, "-f", "-qq", "-o", str(trace), "-e", f"trace={name}", "-e", fault]
        with home.start(*update, by=watched) as process:
            process.communicate("")
        killed += process.returncode == -signal.SIGKILL
        found.append(home.commit)
    assert killed > POINTS / 2, "where a child process was, the update ends by itself"
    assert set(found) == set(COMMITS)
    home.go_back()
    home.baton(*update)
    assert home.commit == COMMITS[1]


def changing_calls(trace: Path, home: Home) -> list[tuple[str, int]]:
    """Return the traced calls that changed the installation: each one's name, and how many of that
    name its thread had made with it.
    """
    counts: Counter[tuple[str, str]] = Counter()
    found = []
    for line in trace.read_text().splitlines():
        if expected := re.match(r"(\d+) +(\w+)\(", line):
            thread, name = expected.groups()
            counts[thread, name] += 1
            if f"{home.folder}/.local" in line:
                found.append((name, counts[thread, name]))
    return list(dict.fromkeys(found))


def test_killed_at_any_time_it_is_the_old_or_the_new_one(home: Home, versions: Versions) -> None:
    update = ("self", "update", "--force", "--from", str(versions.release))
    home.baton("--version")
    begun = time.monotonic()
    home.baton(*update)
    took = time.monotonic() - begun
    dice = random.Random(1)
    for _ in range(POINTS):
        home.go_back()
        process = home.start(*update)
        time.sleep(dice.uniform(0, took))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert home.commit in COMMITS
    home.go_back()
    home.baton(*update)
    assert home.commit == COMMITS[1]
