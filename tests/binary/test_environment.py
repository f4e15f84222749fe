"""Where the binary finds less than it wants, it works, or says in a sentence why it can't."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from binary.bare_systems import BareMachine

pytestmark = pytest.mark.binary

QUESTION = "What is the capital of France?"
STARTS = 50
MIB = 1 << 20

Make = Callable[..., BareMachine]


@pytest.fixture
def make(bare: Callable[..., BareMachine], tmp_path: Path) -> Make:
    return lambda **options: bare("trixie", tmp_path / "machine's home", **options)


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Check that it ended with one sentence for a user, and return that."""
    assert done.returncode not in (0, 139, -11), done.stdout
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("tmp_as", ["ro", "noexec", "size=4k"])
def test_without_a_folder_for_what_is_temporary(make: Make, tmp_as: str) -> None:
    machine = make(tmp_as=tmp_as)
    done = machine.run("/opt/baton", "ask", "--temperature", "0", QUESTION)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    done = machine.run("/opt/baton", "doctor", "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_home_that_cannot_be_written(make: Make) -> None:
    said = sentence(make(home_as="ro").run("/opt/baton", "--version"))
    assert "BATON_HOME" in said
    assert "Read-only file system" in said


def test_a_home_of_another_user(make: Make) -> None:
    machine = make()
    os.chown(machine.home, 0, 0)
    machine.home.chmod(0o755)
    said = sentence(machine.run("/opt/baton", "--version"))
    assert "BATON_HOME" in said
    assert "Permission denied" in said


def test_a_home_that_cannot_be_written_and_another_folder_named(make: Make) -> None:
    machine = make(home_as="ro", environ={"BATON_HOME": "/tmp/baton"})
    done = machine.run("/opt/baton", "ask", "--temperature", "0", QUESTION)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout


def test_a_home_where_no_program_may_run(make: Make) -> None:
    assert "BATON_HOME" in sentence(make(home_as="noexec").run("/opt/baton", "--version"))


def test_no_home_at_all(make: Make) -> None:
    said = sentence(make().run("env", "-u", "HOME", "/opt/baton", "--version"))
    assert "HOME isn't set" in said
    assert "BATON_HOME" in said


def test_a_machine_that_cannot_even_talk_with_itself(make: Make) -> None:
    """There no cloud worker can be reached, which is all."""
    machine = make(loopback=False)
    done = machine.run("/opt/baton", "doctor", "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nwarn    cloud        This machine can't talk with itself" in done.stdout
    assert "broken" not in done.stdout
    done = machine.run("/opt/baton", "ask", "--temperature", "0", QUESTION)
    assert (done.returncode, "Paris" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("program", ["baton", "baton-slim"])
def test_64_mb_free_are_too_few_to_unpack_and_nothing_is_left(make: Make, program: str) -> None:
    machine = make(home_as="size=64m")
    said = sentence(machine.run(f"/opt/{program}", "--version"))
    assert "MB are free. Make room" in said
    assert "BATON_HOME" in said
    script = f"/opt/{program} --version 2>/dev/null; df -k /home | tail -n 1"
    used = int(machine.run("sh", "-c", script).stdout.split()[2])
    assert used < 1024, f"{used} KiB were left behind"


def test_64_mb_free_are_enough_for_the_folder_build(make: Make) -> None:
    machine = make(home_as="size=64m")
    done = machine.run("/opt/folder/baton/baton", "ask", "--temperature", "0", QUESTION)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout


def test_a_full_disk_after_unpacking(make: Make) -> None:
    """It starts, and says in a sentence that it can't keep what it was asked."""
    machine = make(home_as="size=900m")
    script = f"""
    /opt/baton --version >/tmp/version || exit 99
    cat /dev/zero >/home/rest 2>/tmp/full
    /opt/baton ask {QUESTION!r}
    """
    assert "disk is full" in sentence(machine.run("sh", "-c", script))


def test_a_folder_build_in_a_place_with_an_odd_name(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "it's é; $(id)"
    place.mkdir()
    (place / "baton").symlink_to(folder.parent)
    command = [str(place / "baton" / folder.name), "ask", "--temperature", "0", QUESTION]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout


def test_many_starts_on_a_cold_cache_unpack_once(single: Path, home: Path, tmp_path: Path) -> None:
    """The process that unpacks writes what the file holds; the others write next to nothing."""
    outputs = [tmp_path / f"output {number}" for number in range(STARTS)]
    started = []
    waiting, go = os.pipe()
    for output in outputs:
        with output.open("wb") as file:
            command = ["sh", "-c", 'read all_are_there; exec "$0" --version', str(single)]
            started.append(subprocess.Popen(command, stdin=waiting, stdout=file, stderr=file))
    os.close(go)  # now, all of them at once
    os.close(waiting)
    written = []
    for process in started:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        written.append(used.ru_oublock * 512)
    assert [process.returncode for process in started] == [0] * STARTS
    assert {output.read_text() for output in outputs} == {outputs[0].read_text()}
    assert outputs[0].read_text().startswith("baton ")
    apps = home / "cache" / "app"
    assert len([path for path in apps.iterdir() if path.is_dir()]) == 1
    wrote = sorted(written)
    # A memory file system counts nothing; this machine's must, or the test can't see.
    assert wrote[-1] > 50 * MIB, wrote[-3:]
    assert wrote[-2] < 5 * MIB, wrote[-3:]
