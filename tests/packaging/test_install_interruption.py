"""The installer, stopped anywhere or out of room: it is the old version or the new one."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.installer_machine import (
    PLATFORM,
    SHELLS,
    TOOLS,
    Done,
    Machine,
    Server,
    program,
    refusal,
    release,
    well,
    write_sums,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a script for Unix shells")


TRAP = """#!{sh}
printf x >> "{count}"
read -r all < "{count}"
if [ ${{#all}} -eq {at} ]; then
    case $0 in *cat) {head} -c 5000 "$1" ;; esac
    kill -s {signal} 0
    {sleep} 1
fi
exec {real} "$@"
"""
"""Counts the programs in a file by itself: each it would start for that is one more."""


def interrupt(machine: Machine, at: int, kind: str) -> Path:
    """Have the installer, and all that it runs, stopped when it starts its so-manieth program."""
    count = machine.root / "count"
    count.write_text("")
    where = {name: shutil.which(name) for name in ("sh", "head", "sleep")}
    for name in (*TOOLS, "sha256sum"):
        real = shutil.which(name)
        machine.lacks(name)
        machine.gives(name, TRAP.format(**where, count=count, at=at, signal=kind, real=real))
    return count


def started_count(count: Path) -> int:
    """Return how many programs it has started."""
    return len(count.read_text())


def check_interrupted(machine: Machine, old: dict[str, bytes], kind: str) -> None:
    """Check what a run that was stopped has left behind."""
    if kind != "KILL":
        assert machine.files() == old | {
            name: content for name, content in machine.files().items() if "previous" in name
        }
    assert machine.baton.read_bytes() in (program("0.1.0"), program("0.2.0"))
    assert os.access(machine.baton, os.X_OK)
    assert machine.receipt["version"] in ("0.1.0", "0.2.0")
    for name, content in machine.files().items():
        if "baton-install" not in name and not name.endswith(".new"):
            assert content == old.get(name) or b"0.2.0" in content or "previous" in name


AS_IT_WAS = "Stopped: nothing was changed, Baton is as it was. Run it again when you like.\n"

CODES = {"KILL": -signal.SIGKILL, "TERM": 143, "INT": 130}


STEP = 25
"""Of the 75 programs that it starts (99 in the first one), each case stops it at one of them."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(1, STEP + 1))
@pytest.mark.parametrize("kind", CODES)
def test_stopped_anywhere_there_is_the_old_version_or_the_new(
    tmp_path: Path, folder: Path, kind: str, first: int
) -> None:
    newer = release(tmp_path / "newer", "0.2.0")
    machine = Machine(tmp_path / "machine", SHELLS.get("dash", ["sh"]))
    well(machine.install("--from", folder))
    installed, old = shutil.copytree(machine.prefix, tmp_path / "installed"), machine.files()
    for at in range(first, 1000, STEP):
        shutil.rmtree(machine.prefix)
        shutil.copytree(installed, machine.prefix)
        count = interrupt(machine, at, kind)
        done = machine.install("--from", newer)
        if done.returncode != 0:
            assert done.returncode in (CODES[kind], -signal.Signals[f"SIG{kind}"]), done.stderr
            check_interrupted(machine, old, kind)
            assert kind == "KILL" or done.stderr.endswith(AS_IT_WAS)
        elif started_count(count) < at:
            break
        (machine.root / "count").write_text("x" * 1000)
        well(machine.install("--from", newer))
        assert machine.baton.read_bytes() == program("0.2.0")
        assert machine.previous.read_bytes() == program("0.1.0")
        left = [n for n in machine.files() if "baton-install" in n or n.endswith(".new")]
        assert left == []
    assert at > first + STEP, "it was never stopped"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(1, STEP + 1))
@pytest.mark.parametrize("kind", ["TERM", "INT"])
def test_a_first_installation_that_is_stopped_leaves_nothing_or_is_complete(
    tmp_path: Path, folder: Path, kind: str, first: int
) -> None:
    machine = Machine(tmp_path / "machine")
    for at in range(first, 1000, STEP):
        shutil.rmtree(machine.home)
        machine.home.mkdir()
        count = interrupt(machine, at, kind)
        done = machine.install("--from", folder)
        if done.returncode == 0:
            assert machine.receipt["version"] == "0.1.0"
            assert machine.baton.read_bytes() == program("0.1.0")
            if started_count(count) < at:
                break
            continue
        assert done.returncode == CODES[kind]
        assert "Stopped: nothing was installed, nothing is left." in done.stderr
        assert (machine.files(), machine.folders()) == ({}, set())
    assert at > first + STEP, "it was never stopped"


HOW: dict[str, tuple[Callable[[int], None], int]] = {
    "Ctrl+C": (lambda shell: os.killpg(shell, signal.SIGINT), 130),
    "INT": (lambda shell: os.kill(shell, signal.SIGINT), 130),
    "TERM": (lambda shell: os.kill(shell, signal.SIGTERM), 143),
    "HUP": (lambda shell: os.kill(shell, signal.SIGHUP), 129),
}


def stop(machine: Machine, how: str, source: str | Path, ready: Callable[[], bool]) -> None:
    """Stop an installation as soon as something is so; it ends at once, and all that it runs."""
    send, code = HOW[how]
    with machine.start("--from", source) as running:
        while not ready():
            assert running.poll() is None, running.communicate()
            time.sleep(0.01)
        send(running.pid)
        _, err = running.communicate(timeout=60)
        with pytest.raises(ProcessLookupError):
            os.killpg(running.pid, 0)
    assert running.returncode == code
    assert err == b"Stopped: nothing was installed, nothing is left. Run it again when you like.\n"
    assert (machine.files(), machine.folders()) == ({}, set())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_signal_is_answered_while_something_comes(
    machine: Machine, server: Server, shell: str, how: str
) -> None:
    machine.shell = SHELLS[shell]
    machine.has("curl")
    server.stalled_file = "baton-0.1.0"
    stop(machine, how, server.address, server.is_stuck.is_set)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("downloader", ["curl", "wget"])
@pytest.mark.parametrize("shell", SHELLS)
def test_ctrl_c_at_a_terminal(
    machine: Machine, server: Server, shell: str, downloader: str
) -> None:
    machine.shell = SHELLS[shell]
    machine.has(downloader)
    server.stalled_file = "baton-0.1.0"
    screen = machine.at_a_terminal("--from", server.address)
    screen.wait(lambda shown: server.is_stuck.is_set())
    screen.send("\x03")
    assert screen.wait_end() == 130
    assert "\nStopped: nothing was installed, nothing is left." in screen.text
    assert (machine.files(), machine.folders()) == ({}, set())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["SHA256SUMS", "baton-0.1.0"])
def test_a_signal_is_answered_while_wget_waits(machine: Machine, server: Server, name: str) -> None:
    machine.has("wget")
    server.stalled_file = name
    stop(machine, "TERM", server.address, server.is_stuck.is_set)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_signal_is_answered_while_it_is_tried(
    machine: Machine, folder: Path, shell: str, how: str
) -> None:
    machine.shell = SHELLS[shell]
    tried = machine.root / "tried"
    script = f"#!/bin/sh\n: > '{tried}'\nexec {shutil.which('sleep')} 60\n"
    (folder / f"baton-0.1.0-{PLATFORM}").write_text(script)
    write_sums(folder)
    stop(machine, how, folder, tried.exists)


def test_the_one_before_may_be_kept_already(machine: Machine, folder: Path, tmp_path: Path) -> None:
    """Stopped just before the new version took its name."""
    well(machine.install("--from", folder))
    machine.previous.hardlink_to(machine.baton)
    well(machine.install("--from", release(tmp_path / "newer", "0.2.0")))
    assert machine.baton.read_bytes() == program("0.2.0")
    assert machine.previous.read_bytes() == program("0.1.0")


SMALL = """
mount -t tmpfs -o {options} none "$HOME" || exit 99
{before}
PATH=$TOOLS sh "$0" "$@"
code=$?
find "$HOME" -mindepth 1
exit $code
"""
"""The installer in a home of its own, and at last what it has left there."""


def on_a_disk(machine: Machine, options: str, *args: str | Path, before: str = "") -> Done:
    """Install where there is little room; what is left there comes last on stdout."""
    unshare = shutil.which("unshare") or pytest.skip("needs unshare")
    machine.shell = [
        unshare,
        "-rm",
        shutil.which("sh") or "sh",
        "-c",
        SMALL.format(options=options, before=before),
    ]
    machine.has("sh")
    done = machine.install(*args, PATH=os.environ["PATH"], TOOLS=str(machine.tools))
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip(f"no disk of its own: {done.stderr}")
    return done


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["folder", "curl", "wget"])
def test_a_full_disk_is_one_sentence_and_nothing_is_left(
    machine: Machine, server: Server, folder: Path, way: str
) -> None:
    if way != "folder":
        machine.has(way)
    done = on_a_disk(machine, "size=60k", "--from", folder if way == "folder" else server.address)
    assert "there is no room for it in " in refusal(done)
    assert "--prefix" in done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("/")] == []


@pytest.mark.parametrize(
    ("options", "before", "expected"),
    [
        ("noexec", "", "no program may be started in {bin}; choose another disk"),
        ("size=900k", 'mount -o remount,ro "$HOME"', "{prefix} can't be written (Read-only file"),
    ],
)
def test_a_disk_on_which_nothing_may_be_started_or_written(
    machine: Machine, folder: Path, options: str, before: str, expected: str
) -> None:
    done = on_a_disk(machine, options, "--from", folder, before=before)
    assert expected.format(bin=machine.baton.parent, prefix=machine.prefix) in refusal(done)
    assert "--prefix" in done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("/")] == []


def test_what_is_beside_the_program_may_lack_room(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    """The program is there, and it names what isn't."""
    script = '#!/bin/sh\necho baton 0.1.0\n(cat /dev/zero > "$HOME/filling") 2>/dev/null\nexit 0\n'
    (folder / f"baton-0.1.0-{PLATFORM}").write_text(script)
    write_sums(folder)
    done = on_a_disk(machine, "size=200k", "--from", folder)
    assert done.returncode == 0
    assert "install.json could not be written" in done.stderr
    assert "run this again when there is room" in done.stderr
    left = [line.partition("/a home/")[2] for line in done.stdout.splitlines()]
    assert ".local/bin/baton" in left
    assert ".local/share/applications" not in left


def test_a_file_that_cannot_be_read_is_reported(machine: Machine, folder: Path) -> None:
    """As of a stick that is damaged."""
    well(machine.install("--from", folder))
    before = machine.files()
    machine.lacks("cat")
    machine.gives(
        "cat",
        f'#!/bin/sh\ncase $1 in *SUMS) exec {shutil.which("cat")} "$1" ;; esac\n'
        "echo part; exit 1\n",
    )
    said = refusal(machine.install("--from", folder))
    assert "can't be read" in said
    assert "The one that is here is as it was." in said
    assert machine.files() == before
