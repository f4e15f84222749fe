"""The installation on the disk: killed at every step of a switch, it is the old or the new one."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.core.errors import BatonError
from baton.download.releases import Build, KeptBuild, Switch
from baton.install.installation import Installation, probe_version
from support.sample_releases import PLATFORM, program
from support.update_processes import NEW, OLD, World, memory, switch_here, switch_in_processes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there it is a folder build")

OLDER = "0.0.9"


def build(version: str) -> Build:
    return Build(version, "full", PLATFORM)


def to(version: str, leaving: str = OLD) -> Switch:
    content = program(version)
    action = "rollback" if version == OLDER else "update"
    size, sha256 = len(content), hashlib.sha256(content).hexdigest()
    return Switch(action, build(version), build(leaving), size, sha256, "https://example.org/b")


def world(root: Path) -> World:
    root.mkdir(parents=True)
    return World(root, "").install(previous=OLDER)


def of(machine: World) -> Installation:
    return Installation(machine.target, machine.home / "state", machine.home / "cache")


@pytest.fixture
def quick() -> Iterator[Path]:
    with memory() as folder:
        yield folder


@pytest.mark.parametrize("coming", [NEW, OLDER])
def test_killed_at_any_step_it_is_the_old_or_the_new_version(quick: Path, coming: str) -> None:
    [steps] = switch_in_processes([(world(quick / "unharmed"), to(coming), 0)])
    assert steps is not None
    done = {step.partition(" ")[2].strip() for step in steps if step.startswith("os.rename")}
    assert "/share/baton/.switch.json.new /share/baton/switch.json" in done
    assert "/share/baton/outgoing /share/baton/previous" in done
    assert any(step.endswith(" /bin/baton") for step in done)
    numbers = range(1, len(steps) + 1)
    machines = [world(quick / str(number)) for number in numbers]
    jobs = [
        (machine, to(coming), number) for machine, number in zip(machines, numbers, strict=True)
    ]
    assert switch_in_processes(jobs) == [None] * len(steps), "it is killed at each step"
    seen = [machine.version() for machine in machines]
    assert seen == sorted(seen, key=lambda version: version == coming), "there is one moment"
    assert set(seen) == {OLD, coming}
    for machine, here in zip(machines, seen, strict=True):
        _check_recovery(machine, coming, here)


def _check_recovery(machine: World, coming: str, here: str) -> None:
    """What is started stays what it is, the other one is kept, and nothing else is left."""
    installation = of(machine)
    with installation.hold_lock():
        finished = installation.finish_switch()
    assert machine.version() == here
    assert finished is None or (finished.coming.version, here) == (coming, coming)
    kept = {OLD: OLDER, coming: OLD}[here]
    assert machine.version(machine.share / "previous") == kept
    assert machine.receipt()["version"] == here
    assert machine.receipt()["files"] == [str(machine.target)]
    names = {path.name for path in machine.share.iterdir()}
    assert names <= {"install.json", "previous", "previous.json", ".switch.json.new"}
    if here != NEW:  # and it can be changed again
        switch_here(machine, to(NEW, here))
        assert machine.version() == NEW


def test_what_is_noted_of_an_installation_follows_it(tmp_path: Path) -> None:
    machine = world(tmp_path / "m")
    switch_here(machine, to(NEW))
    receipt = machine.receipt()
    assert receipt == {
        "schema": 1,
        "version": NEW,
        "flavour": "full",
        "platform": PLATFORM,
        "gpu": "",
        "source": "https://example.org/b",
        "files": [str(machine.target)],
        "folders": [str(machine.target.parent)],
    }
    sha256 = hashlib.sha256(program(OLD)).hexdigest()
    assert of(machine).previous_build == KeptBuild(OLD, "full", PLATFORM, sha256=sha256)
    assert machine.target.stat().st_mode & 0o777 == 0o755
    assert (machine.share / "install.json").stat().st_mode & 0o777 == 0o644
    assert not machine.staging.exists()


def test_a_stick_does_not_become_the_source_in_place_of_an_address(tmp_path: Path) -> None:
    machine = world(tmp_path / "m")
    switch_here(machine, to(NEW))
    other = to("0.3.0", NEW)
    switch_here(
        machine, Switch("update", other.coming, other.leaving, other.size, other.sha256, "/s")
    )
    assert machine.version() == "0.3.0"
    assert machine.receipt()["source"] == "https://example.org/b"


@pytest.mark.parametrize("damage", ["", "not json", "[1]", '{"schema": 1, "files": 3}'])
def test_a_receipt_that_a_power_cut_broke_is_rewritten(tmp_path: Path, damage: str) -> None:
    machine = world(tmp_path / "m")
    (machine.share / "install.json").write_text(damage)
    switch_here(machine, to(NEW))
    assert machine.receipt()["version"] == NEW
    assert machine.version(machine.share / "previous") == OLD


def test_a_binary_without_a_receipt_is_changed_where_it_is(tmp_path: Path) -> None:
    machine = World(tmp_path / "m", "").install(loose=True)
    other = machine.target.with_name("holiday.jpg")
    other.write_bytes(b"mine")
    switch_here(machine, to(NEW))
    assert machine.version() == NEW
    assert sorted(path.name for path in machine.target.parent.iterdir()) == ["baton", other.name]
    installation = of(machine)
    assert installation.place.home.is_relative_to(machine.home / "state" / "self")
    assert installation.previous is not None
    assert machine.version(installation.previous) == OLD
    assert installation.receipt.files == (str(machine.target),)


def test_a_receipt_of_another_binary_is_not_believed(tmp_path: Path) -> None:
    machine = world(tmp_path / "m")
    copy = machine.prefix / "tools" / "baton"
    copy.parent.mkdir()
    shutil.copy(machine.target, copy)
    place = Installation(copy, machine.home / "state", machine.home / "cache").place
    assert place.home.is_relative_to(machine.home)
    link = tmp_path / "link"
    link.symlink_to(machine.target)
    assert (
        Installation(link, machine.home / "state", machine.home / "cache").place.home
        == machine.share
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another person, which needs root")
@pytest.mark.parametrize("planted", ["folder", "receipt", "open to all"])
def test_a_receipt_that_another_user_planted_is_not_believed(tmp_path: Path, planted: str) -> None:
    """It would say what is deleted, and what a rollback starts."""
    machine = world(tmp_path / "m")
    shutil.copy(machine.target, machine.share / "previous")
    if planted == "open to all":
        machine.share.chmod(0o777)
    else:
        path = machine.share if planted == "folder" else machine.share / "install.json"
        os.chown(path, 65534, 65534)
    installation = Installation(machine.target, machine.home / "state", machine.home / "cache")
    assert installation.place.home.is_relative_to(machine.home)
    assert (installation.previous, installation.receipt.files) == (None, ())


def test_where_no_second_name_can_be_given_a_copy_is_kept(tmp_path: Path) -> None:
    shared_memory = Path("/dev/shm")
    if not shared_memory.is_dir() or shared_memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    folder = shared_memory / f"baton-test-{os.getpid()}"
    folder.mkdir()
    try:
        machine = World(tmp_path / "m", "").install(loose=True)
        machine.home.mkdir()
        (machine.home / "state").symlink_to(folder)
        switch_here(machine, to(NEW))
        installation = of(machine)
        assert installation.previous is not None
        assert machine.version(installation.previous) == OLD
        with installation.hold_lock():
            staged = installation.stage_previous()
            back = to(OLD, NEW)
            installation.switch(staged, back)
        assert machine.version() == OLD
        assert machine.version(installation.previous) == NEW
    finally:
        shutil.rmtree(folder)


def test_only_one_process_changes_it(tmp_path: Path) -> None:
    machine = world(tmp_path / "m")
    busy = pytest.raises(BatonError, match="Another Baton is just changing")
    with of(machine).hold_lock(), busy, of(machine).hold_lock():
        raise AssertionError("it was locked")
    with of(machine).hold_lock():
        pass
    assert not (machine.share / "update.lock").exists()


def test_staging_never_follows_a_link(tmp_path: Path) -> None:
    machine, mine = world(tmp_path / "m"), tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis").write_text("years")
    machine.staging.symlink_to(mine)
    with pytest.raises(BatonError, match="isn't a folder of yours"):
        of(machine).stage_file("baton-0.2.0-linux-x86_64", "a" * 64)
    of(machine).clear_staging()
    assert (mine / "thesis").read_text() == "years"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
def test_what_others_could_change_after_it_was_checked_is_not_used(tmp_path: Path) -> None:
    machine = world(tmp_path / "m")
    machine.staging.mkdir(mode=0o777)
    os.chown(machine.staging, 12345, 12345)
    with pytest.raises(BatonError, match="isn't a folder of yours"):
        of(machine).stage_file("new", "a" * 64)
    os.chown(machine.staging, 0, 0)
    of(machine).stage_file("new", "a" * 64)
    assert machine.staging.stat().st_mode & 0o777 == 0o700


def test_what_came_of_this_update_stays_staged_and_other_things_go(tmp_path: Path) -> None:
    machine = world(tmp_path / "m")
    installation = of(machine)
    for name in ("a" * 64 + ".partial", "b" * 64 + ".partial", "baton-0.1.5-linux-x86_64"):
        installation.stage_file("", "a").with_name(name).parent.mkdir(exist_ok=True)
        (machine.staging / name).write_text("x")
    installation.stage_file("new", "a" * 64)
    assert [path.name for path in machine.staging.iterdir()] == ["a" * 64 + ".partial"]


async def test_a_binary_is_known_by_starting_it(tmp_path: Path) -> None:
    def made(text: str) -> Path:
        file = tmp_path / "try"
        file.unlink(missing_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file

    assert await probe_version(made("#!/bin/sh\necho baton 0.2.0\n")) == "0.2.0"
    for text, why in {
        "#!/bin/sh\necho 'No room here.' >&2; exit 1\n": "No room here",
        "#!/bin/sh\nexit 3\n": "it ended with 3",
        "#!/bin/sh\necho hello\n": "hello",
        "#!/bin/sh\nkill -SEGV $$\n": "signal 11 ended it",
        "no program": "xec format",
        "#!/no/such/shell\n": "No such file",
    }.items():
        with pytest.raises(BatonError, match=f"doesn't start here: .*{why}"):
            await probe_version(made(text))
    slow = made("#!/bin/sh\nsleep 60 & wait\n")
    with pytest.raises(BatonError, match="not done after"):
        await probe_version(slow, patience=0.3)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    machine = world(tmp_path / "m")
    machine.staging.write_text("a file in the way")
    with pytest.raises(BatonError, match=r"\.baton-update can't be changed: .*nothing was changed"):
        of(machine).stage_file("new", "a" * 64)
    assert machine.version() == OLD


def test_the_receipt_reads_as_the_installer_expects(tmp_path: Path) -> None:
    machine = world(tmp_path / "m")
    switch_here(machine, to(NEW))
    asked = r's/.*"flavour": *"\([a-z]*\)".*/\1/p'  # as packaging/install.sh does
    done = subprocess.run(
        ["sed", "-n", asked, machine.share / "install.json"], capture_output=True, text=True
    )
    assert done.stdout == "full\n"
    assert json.loads((machine.share / "previous.json").read_text())["version"] == OLD


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_each_step_is_on_the_disk_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut loses what no one has brought to the disk: its order is what counts."""
    machine = world(tmp_path / "m")
    done: list[str] = []
    sync, rename, link = os.fsync, os.replace, os.link

    def name(path: object) -> str:
        return str(path).removeprefix(str(machine.prefix))

    def synced(handle: int) -> None:
        sync(handle)
        done.append(f"sync {name(Path(f'/proc/self/fd/{handle}').readlink())}")

    def renamed(old: Path, new: Path) -> None:
        rename(old, new)
        done.append(f"rename {name(old)} {name(new)}")

    def linked(old: Path, new: Path, **options: bool) -> None:
        link(old, new, **options)
        done.append(f"link {name(old)} {name(new)}")

    importlib.import_module("filelock")  # which tries out what links can do
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(os, "link", linked)
    switch_here(machine, to(NEW))

    share, staged = "/share/baton", "/bin/.baton-update/new"
    wanted = [
        f"sync {staged}",
        "sync /bin/.baton-update",
        f"sync {share}/.switch.json.new",
        f"rename {share}/.switch.json.new {share}/switch.json",
        f"sync {share}",
        f"link /bin/baton {share}/outgoing",
        f"sync {share}",
        f"rename {staged} /bin/baton",
        "sync /bin",
        f"rename {share}/outgoing {share}/previous",
        f"sync {share}",
        f"sync {share}/.previous.json.new",
        f"rename {share}/.previous.json.new {share}/previous.json",
        f"sync {share}",
        f"sync {share}/.install.json.new",
        f"rename {share}/.install.json.new {share}/install.json",
        f"sync {share}",
    ]
    assert done[: len(wanted)] == wanted
