"""The single file, killed and interrupted at any point, started by many at once, cleaning up."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pty
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.single_file import Make, SingleFile, report

SOME_MEGABYTES, PARTS = 4_000_000, 20


@pytest.fixture
def heavy(make: Make) -> SingleFile:
    """A single file whose unpacking takes a while: much of it can't be compressed."""
    data = os.urandom(SOME_MEGABYTES)
    return make({f"_internal/part {n}": data[n::PARTS] for n in range(PARTS)})


@contextmanager
def hold_lock(single: SingleFile, name: str = "lock") -> Iterator[None]:
    """Hold a lock of the cache, as another start does that is at work there."""
    single.app.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (single.app / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_fifty_at_once_unpack_once(heavy: SingleFile) -> None:
    running = [heavy.open() for _ in range(50)]
    ended = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [7] * 50
    assert {error for _, error in ended} == {b""}
    assert len({report(output)["program"] for output, _ in ended}) == 1
    heavy.is_whole()


@pytest.mark.parametrize("times", [10, pytest.param(200, marks=pytest.mark.long)])
def test_killed_at_any_point_the_next_start_repairs(heavy: SingleFile, times: int) -> None:
    dice = random.Random(times)
    half_done = 0
    for _ in range(times):
        shutil.rmtree(heavy.home, ignore_errors=True)
        process, parts = heavy.open(), dice.randint(0, PARTS)
        while len([*heavy.app.glob("*.part.*/_internal/part *")]) < parts:
            if process.poll() is not None:
                break
        time.sleep(dice.random() ** 4 * 0.3)
        process.kill()
        process.communicate(timeout=60)
        half_done += bool(heavy.leftovers())
        heavy.works()
    assert half_done > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_while_unpacking_nothing_is_left(
    heavy: SingleFile, number: signal.Signals
) -> None:
    while True:  # until it was still unpacking
        process = heavy.open()
        while not heavy.leftovers() and process.poll() is None:
            pass
        process.send_signal(number)
        output, error = process.communicate(timeout=60)
        if process.returncode != 7:
            break
        shutil.rmtree(heavy.home)
    assert (output, error, process.returncode) == (b"", b"", 128 + number)
    assert not [path for path in heavy.app.iterdir() if path.is_dir()]
    heavy.works()


def test_interrupted_while_another_unpacks(single: SingleFile) -> None:
    with hold_lock(single):
        process = single.open()
        while not (single.app / f"{single.payload.key}.lock").exists():
            time.sleep(0.01)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == (b"", b"")
        assert process.returncode == 128 + signal.SIGINT
    single.works()


def test_what_ignores_an_interrupt_is_not_interrupted(single: SingleFile) -> None:
    """So starts what a shell runs in the background."""
    with hold_lock(single):
        process = single.open(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        while not (single.app / f"{single.payload.key}.lock").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert report(process.communicate(timeout=60)[0])["signals"] == f"ignored:{signal.SIGINT:d}"
    assert process.returncode == 7


def test_a_wait_is_shown_on_a_terminal_only(single: SingleFile) -> None:
    terminal, end = pty.openpty()
    with hold_lock(single):
        quiet = single.open()
        process = single.open(stderr=end)
        os.close(end)
        said = b""
        while b"unpacks itself" not in said:
            said += os.read(terminal, 1000)
    output, _ = process.communicate(timeout=60)
    with suppress(OSError):  # no process has it open any more
        while more := os.read(terminal, 1000):
            said += more
    os.close(terminal)
    nothing, *lines, gone, rest = said.split(b"\r")
    assert {line.rstrip(b"0123456789 %.:") for line in lines} == {b"Baton unpacks itself, once"}
    assert len(gone) >= max(map(len, lines))
    assert (nothing, gone.strip(b" "), rest) == (b"", b"", b"")
    assert report(output)["binary"] == str(single.file)
    assert quiet.communicate(timeout=60)[1] == b""


def test_the_tree_is_held_as_long_as_the_program_runs(single: SingleFile) -> None:
    lock = single.app / f"{single.payload.key}.lock"
    with single.open("wait") as process:
        assert process.stdout
        process.stdout.readline()
        with lock.open() as opened, pytest.raises(BlockingIOError):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open() as opened:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_lock_that_was_removed_meanwhile_is_taken_again(single: SingleFile) -> None:
    """Who removes an outdated tree removes its lock, for which another process may wait already."""
    name = f"{single.payload.key}.lock"
    with hold_lock(single, name):
        process = single.open("wait")
        time.sleep(0.1)
        (single.app / name).unlink()
    assert process.stdout
    process.stdout.readline()
    with (single.app / name).open() as opened, pytest.raises(BlockingIOError):
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    process.communicate(timeout=60)


def test_the_last_tree_stays_and_those_before_it_go(make: Make) -> None:
    versions = [make({"version": str(n).encode()}, f"baton {n}") for n in range(4)]
    for version in versions:
        version.works()
    trees = {path.name for path in versions[0].app.iterdir()}
    kept = [version.payload.key for version in versions[2:]]
    assert trees == {"lock", *kept, *(f"{key}.lock" for key in kept)}
    versions[0].works()
    assert not versions[2].tree.exists()
    assert versions[3].tree.exists()


def test_no_tree_in_use_is_removed(make: Make) -> None:
    versions = [make({"version": str(n).encode()}, f"baton {n}") for n in range(4)]
    with versions[0].open("wait") as running:
        assert running.stdout
        running.stdout.readline()
        for version in versions[1:]:
            version.works()
        assert not versions[1].tree.exists()
        versions[0].is_whole()
        running.communicate(timeout=60)
    make({"version": b"last"}, "last").works()
    assert not versions[0].tree.exists()


def test_leftovers_go_and_what_is_not_ours_stays(make: Make, tmp_path: Path) -> None:
    single, key = make(), "0123456789abcdef"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").touch()
    for name in (f"{key}.part.abcdef", "mine", f"{key}.mine", "0123456789ABCDEF", f"{key[:-1]}"):
        (single.app / name / "deep").mkdir(mode=0o700, parents=True)
        (single.app / name / "link").symlink_to(tmp_path / "other")
    single.app.chmod(0o700)
    single.works()
    left = {path.name for path in single.app.iterdir()} - {"lock", single.payload.key}
    assert left == {
        f"{single.payload.key}.lock",
        "mine",
        f"{key}.mine",
        "0123456789ABCDEF",
        key[:-1],
    }
    assert (tmp_path / "other" / "mine").exists()


@pytest.mark.parametrize("rounds", [10, pytest.param(200, marks=pytest.mark.long)])
def test_versions_that_come_and_go_side_by_side(make: Make, rounds: int) -> None:
    """Each start of each works, though the others remove, damage or kill meanwhile."""
    versions = [make({"v": str(n).encode() * 500_000}, f"baton {n}") for n in range(4)]
    failures: list[bytes] = []

    def start_often(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(rounds):
            version = dice.choice(versions)
            process = version.open()
            if dice.random() < 0.2:
                time.sleep(dice.random() * 0.05)
                process.kill()
            _, error = process.communicate(timeout=60)
            if error or process.returncode not in (7, -signal.SIGKILL):
                failures.append(error)

    threads = [threading.Thread(target=start_often, args=[n]) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    make({"v": b"last"}, "last").works()


def test_an_update_comes_while_it_starts(single: SingleFile, make: Make) -> None:
    """It unpacks what it is, and says where it was: there the new one is."""
    other = make({"version": b"2"}, "other")
    script = """if True:
        import os, sys
        old = os.open(sys.argv[1], os.O_RDONLY)
        os.replace(sys.argv[2], sys.argv[1])
        os.execve(old, ["baton"], os.environ)
    """
    command = [sys.executable, "-c", script, str(single.file), str(other.file)]
    ran = subprocess.run(command, env=single.environ(), capture_output=True, timeout=60)
    assert ran.stderr == b""
    assert report(ran.stdout)["binary"] == str(single.file)
    assert single.tree.exists()
    assert not other.tree.exists()


@pytest.mark.parametrize("place", ["beside", "state"])
def test_a_damaged_file_names_the_version_before(
    single: SingleFile, make: Make, place: str
) -> None:
    """Nothing of Baton starts any more then: only the launcher can say where the good one is."""
    before = make({"v": b"before"}, "before").file
    key = hashlib.sha256(os.fsencode(single.file)).hexdigest()[:16]
    share = single.file.parent.parent / "share" / "baton"
    home = share if place == "beside" else single.home / "state" / "self" / key
    home.mkdir(parents=True)
    previous = home / "previous"
    shutil.copy(before, previous)
    data = bytearray(single.file.read_bytes())
    data[-2000:-1900] = bytes(100)
    single.file.write_bytes(data)
    ran = single.start()
    assert ran.returncode == 1
    command = f"mv -f '{previous}' '{single.file}'"
    assert ran.stderr.decode().strip().endswith(f"which is whole: {command}")
    previous.write_bytes(previous.read_bytes()[:-5000] + bytes(5000))
    assert b"Download it again.\n" in single.start().stderr, "a damaged one is no way back"
    shutil.copy(before, previous)
    subprocess.run(command, shell=True, check=True)
    assert single.start().returncode == 7
