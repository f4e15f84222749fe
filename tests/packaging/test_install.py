"""The installer, run by every shell that is here, with small programs in the place of Baton."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from support.installer_machine import (
    COMPLETIONS,
    INSTALL,
    PLATFORM,
    SHELLS,
    Machine,
    program,
    refusal,
    release,
    well,
    write_sums,
)
from support.single_file import pack

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a script for Unix shells")

# From a folder


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shell", SHELLS)
def test_from_a_folder_with_nothing_but_what_any_unix_has(
    machine: Machine, folder: Path, shell: str
) -> None:
    machine.shell = SHELLS[shell]
    said = well(machine.install("--from", folder))
    assert f"Baton 0.1.0 is installed: {machine.baton}" in said
    assert machine.baton.read_bytes() == program("0.1.0")
    assert os.access(machine.baton, os.X_OK)
    receipt = machine.receipt
    files, folders = receipt.pop("files"), receipt.pop("folders")
    assert receipt == {
        "schema": 1,
        "version": "0.1.0",
        "flavour": "full",
        "platform": PLATFORM,
        "gpu": "",
        "source": str(folder),
    }
    assert isinstance(files, list)
    assert files[0] == str(machine.baton)
    there = {str(machine.home / name) for name in machine.files()}
    assert {*files, str(machine.prefix / "share/baton/install.json")} == there
    assert isinstance(folders, list)
    later = {".config", ".config/baton", ".local/state", ".local/state/baton"}
    later |= {".cache", ".cache/baton", ".cache/baton/app"}
    assert set(folders) == {str(machine.home / name) for name in machine.folders() | later}
    again = machine.receipt
    well(machine.install("--from", folder))
    assert machine.receipt == again


def test_a_script_in_a_release_takes_that_release(machine: Machine, folder: Path) -> None:
    well(machine.install(script=folder / "install.sh"))
    assert machine.receipt["source"] == str(folder)
    assert machine.baton.exists()


def test_a_release_knows_the_address_that_it_came_from(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone.sh"
    text = INSTALL.read_text()
    assert text.count('\norigin=""\n') == 1
    alone.write_text(text.replace('\norigin=""\n', f'\norigin="{folder}"\n'))
    well(machine.install(script=alone))
    assert machine.baton.exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["--flavour", "slim"], f"baton-slim-0.1.0-{PLATFORM}"),
        (["--flavour=slim", "--gpu=none"], f"baton-slim-0.1.0-{PLATFORM}"),
        (["--gpu", "cuda"], f"baton-0.1.0-{PLATFORM}-cuda"),
    ],
)
def test_a_flavour_is_chosen_and_stays_chosen(
    machine: Machine, folder: Path, args: list[str], name: str
) -> None:
    assert f"Bringing {name} " in well(machine.install("--from", folder, *args))
    receipt = machine.receipt
    assert f"Bringing {name} " in well(machine.install("--from", folder))
    assert machine.receipt == receipt
    assert "Bringing baton-0.1.0-linux-x86_64 " in well(
        machine.install("--from", folder, "--flavour", "full", "--gpu", "none")
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("system", "machine_name", "platform"),
    [
        ("Linux", "amd64", "linux-x86_64"),
        ("Linux", "aarch64", "linux-aarch64"),
        ("Darwin", "arm64", "macos-arm64"),
    ],
)
def test_the_platform_is_found(
    machine: Machine, tmp_path: Path, system: str, machine_name: str, platform: str
) -> None:
    machine.gives("uname", f'#!/bin/sh\n[ "$1" = -s ] && echo {system} || echo {machine_name}\n')
    well(machine.install("--from", release(tmp_path / "r", platform=platform)))
    assert machine.receipt["platform"] == platform


def test_an_intel_shell_on_an_apple_processor_gets_the_apple_build(
    machine: Machine, tmp_path: Path
) -> None:
    machine.gives("uname", '#!/bin/sh\n[ "$1" = -s ] && echo Darwin || echo x86_64\n')
    machine.gives("sysctl", "#!/bin/sh\necho 1\n")
    well(machine.install("--from", release(tmp_path / "r", platform="macos-arm64")))
    assert machine.receipt["platform"] == "macos-arm64"


@pytest.mark.parametrize("tool", ["shasum", "openssl"])
def test_other_tools_check_the_sum_as_well(machine: Machine, folder: Path, tool: str) -> None:
    machine.lacks("sha256sum")
    machine.has(tool)
    if tool == "shasum":
        machine.has("env", "perl")
    well(machine.install("--from", folder))
    (folder / f"baton-0.1.0-{PLATFORM}").write_bytes(b"#!/bin/sh\necho baton 0.1.0 # worse\n")
    assert "damaged" in refusal(machine.install("--from", folder))


def test_without_any_such_tool_nothing_is_installed(machine: Machine, folder: Path) -> None:
    machine.lacks("sha256sum")
    assert "sha256sum, shasum or openssl" in refusal(machine.install("--from", folder))
    assert machine.files() == {}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shell", SHELLS)
def test_any_path_will_do(machine: Machine, folder: Path, shell: str) -> None:
    machine.shell = SHELLS[shell]
    odd = machine.root / 'it\'s é "quoted" $HOME `id` %f \\n'
    prefix, data = odd / "prefix", odd / "data"
    said = well(machine.install("--from", folder, "--prefix", prefix, XDG_DATA_HOME=str(data)))
    target = prefix / "bin" / "baton"
    receipt = json.loads((prefix / "share/baton/install.json").read_text(encoding="utf-8"))
    assert receipt["files"][0] == str(target)
    assert all(Path(file).is_file() for file in receipt["files"])
    assert started_by((data / "applications/baton.desktop").read_text()) == str(target)
    # What it says to type is what a shell understands.
    typed = re.search(r"In this one: (.*)\n", said)
    assert typed
    ran = subprocess.run(["sh", "-c", f"{typed[1]} --version"], capture_output=True, text=True)
    assert ran.stdout == "baton 0.1.0\n"


def started_by(entry: str) -> str:
    """Read the program of a desktop entry as the specification says."""
    line = re.search(r"^Exec=(.*)$", entry, re.MULTILINE)
    assert line
    value = line[1].replace("\\\\", "\0").replace("\0", "\\")
    quoted = re.fullmatch(r'"((?:[^"`$\\]|\\["`$\\])*)"', value)
    assert quoted, value
    return re.sub(r"\\(.)", r"\1", quoted[1]).replace("%%", "%")


def test_what_baton_keeps_of_its_person_is_theirs_alone(machine: Machine, folder: Path) -> None:
    well(machine.install("--from", folder))
    assert (machine.prefix / "share" / "baton").stat().st_mode & 0o777 == 0o700
    shared = machine.root / "shared"
    well(machine.install("--from", folder, "--prefix", shared))
    assert (shared / "share" / "baton").stat().st_mode & 0o777 == 0o755


def test_a_relative_prefix_and_one_with_a_tilde(machine: Machine, folder: Path) -> None:
    well(machine.install("--from", "../the release", "--prefix=sub/folder"))
    assert (machine.root / "sub/folder/bin/baton").exists()
    well(machine.install("--from", folder, "--prefix=~/other"))
    assert (machine.home / "other/bin/baton").exists()


def test_without_a_home_a_prefix_is_enough_and_nothing_else_is_touched(
    machine: Machine, folder: Path
) -> None:
    assert "--prefix" in refusal(machine.install("--from", folder, HOME=""), 2)
    well(machine.install("--from", folder, "--prefix", machine.root / "p", HOME=""))
    assert {path.name for path in (machine.root / "p").rglob("*") if path.is_file()} == {
        "baton",
        "install.json",
    }


# With the launcher in front


def make_release(folder: Path, launcher: Path, version: str = "0.1.0") -> Path:
    """Make a release of a single file such as the real one, which unpacks a small program."""
    inside = folder.with_name(f"{folder.name} inside")
    (inside / "lib").mkdir(parents=True)
    (inside / "lib" / "data").write_text(version)
    (inside / "baton").write_bytes(program(version))
    (inside / "baton").chmod(0o755)
    folder.mkdir()
    pack.pack(inside, folder / f"baton-{version}-{PLATFORM}", launcher, level=1)
    write_sums(folder)
    return folder


def test_a_real_single_file_is_unpacked_once_and_starts(
    machine: Machine, tmp_path: Path, launcher: Path
) -> None:
    machine.has("bash")
    well(machine.install("--from", make_release(tmp_path / "old", launcher)))
    assert machine.files()[COMPLETIONS["bash"]] == b"# how bash completes 0.1.0\n"
    apps = machine.home / ".cache" / "baton" / "app"
    assert len([path for path in apps.iterdir() if path.is_dir()]) == 1
    well(machine.install("--from", make_release(tmp_path / "new", launcher, "0.2.0")))
    environ = {"HOME": str(machine.home), "PATH": os.environ["PATH"]}
    for file, version in ((machine.baton, "0.2.0"), (machine.previous, "0.1.0")):
        ran = subprocess.run([file, "--version"], env=environ, capture_output=True, text=True)
        assert ran.stdout == f"baton {version}\n"


def test_what_the_launcher_says_is_shown(machine: Machine, tmp_path: Path, launcher: Path) -> None:
    (machine.home / ".cache").write_text("in the way")
    said = refusal(machine.install("--from", make_release(tmp_path / "old", launcher)))
    assert "doesn't start here. Baton can't make the folder" in said
    assert "BATON_HOME=/a/folder baton (and the same before `sh install.sh`)." in said
    assert str(machine.home / ".cache") in said
    assert "older system" not in said
    assert not machine.baton.exists()
    assert machine.folders() == set()


@pytest.mark.parametrize("used", [False, True], ids=["never used", "used before"])
def test_what_was_unpacked_for_nothing_goes_again(
    machine: Machine, tmp_path: Path, launcher: Path, used: bool
) -> None:
    machine.has("od", "tail", "tr")
    if used:
        well(machine.install("--from", make_release(tmp_path / "old", launcher)))
    files, folders = machine.files(), machine.folders()
    wrong = make_release(tmp_path / "wrong", launcher, "0.2.0")
    (wrong / f"baton-0.2.0-{PLATFORM}").rename(wrong / f"baton-0.3.0-{PLATFORM}")
    write_sums(wrong)
    assert "says that it is baton 0.2.0" in refusal(machine.install("--from", wrong))
    assert machine.files() == files
    assert machine.folders() == folders


# What is wrong with what came


def test_a_damaged_file_is_not_installed(machine: Machine, folder: Path) -> None:
    file = folder / f"baton-0.1.0-{PLATFORM}"
    damaged = bytearray(file.read_bytes())
    damaged[5000] ^= 1
    file.write_bytes(damaged)
    said = refusal(machine.install("--from", folder))
    assert hashlib.sha256(damaged).hexdigest() in said
    assert machine.files() == {}


def test_a_wrong_sum_is_not_believed(machine: Machine, folder: Path) -> None:
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  baton-0.1.0-{PLATFORM}\n")
    assert "0" * 64 in refusal(machine.install("--from", folder))
    assert machine.files() == {}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sums", "expected"),
    [
        (None, "no SHA256SUMS"),
        ("<html>Please log in</html>\n", "not a list of checksums"),
        ("", "not a list of checksums"),
        (f"{'a' * 64}  baton-0.1.0-linux-riscv64\n", "only: baton-0.1.0-linux-riscv64"),
        (f"{'a' * 64}  baton-9/../../x-{PLATFORM}\n", "strange version"),
        (f"{'a' * 64}  baton-0.1.0-{PLATFORM}\n{'b' * 64}  baton-0.2.0-{PLATFORM}\n", "several"),
        (f"{'a' * 64}  baton-0.9.0-{PLATFORM}\n", "not there"),
        (f"{'a' * 64}  \033]0;x\007baton-1-{PLATFORM}\n", "not a list of checksums"),
        (f"{'a' * 64}  baton-9\033[2J-{PLATFORM}\n", "not a list of checksums"),
    ],
)
def test_a_release_that_is_none(
    machine: Machine, folder: Path, sums: str | None, expected: str
) -> None:
    if sums is None:
        (folder / "SHA256SUMS").unlink()
    else:
        (folder / "SHA256SUMS").write_text(sums)
    assert expected in refusal(machine.install("--from", folder))
    assert machine.files() == {}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("#!/bin/sh\necho 'GLIBC_2.99 not found' >&2\nexit 1\n", "GLIBC_2.99 not found"),
        ("#!/bin/sh\necho baton 0.0.9\n", "baton 0.0.9"),
        ("#!/nowhere/interpreter\n", "doesn't start here"),
    ],
)
def test_what_does_not_start_here_does_not_replace_what_does(
    machine: Machine, folder: Path, tmp_path: Path, script: str, expected: str
) -> None:
    well(machine.install("--from", folder))
    before = machine.files()
    newer = release(tmp_path / "newer", "0.2.0")
    (newer / f"baton-0.2.0-{PLATFORM}").write_text(script)
    write_sums(newer)
    done = machine.install("--from", newer)
    assert done.returncode == 1
    assert expected in done.stderr
    assert machine.files() == before


# What is wrong with what was asked


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--from"], "--from needs a value"),
        (["--from", ""], "--from needs a value"),
        (["--from="], "--from needs a value"),
        (["--form", "x"], "--form is not an option"),
        (["folder"], "folder is not an option"),
        (["--from", "nowhere"], "no folder nowhere"),
        (["--from", "http://example.org/baton"], "https"),
        (["--from", "ftp://example.org"], "ftp://example.org"),
        (["--flavour", "huge"], "full or slim, not huge"),
        (["--gpu", "metal"], "none, cuda or vulkan, not metal"),
        (["--prefix", "a\nb"], "can't be printed"),
        ([], "--from FOLDER"),
    ],
)
@pytest.mark.parametrize("shell", SHELLS)
def test_bad_input_is_one_sentence(
    machine: Machine, shell: str, args: list[str], expected: str
) -> None:
    machine.shell = SHELLS[shell]
    assert expected in refusal(machine.install(*args), 2)
    assert machine.files() == {}


def test_no_path_is_used_that_would_be_two_in_the_receipt(machine: Machine, folder: Path) -> None:
    odd, home = replace(machine, root=machine.root / "a\nb"), str(machine.home)
    said = refusal(odd.install("--from", folder, "--prefix", "p", HOME=home), 2)
    assert "can't be printed" in said
    shutil.copytree(folder, odd.root / "release")
    assert "can't be printed" in refusal(odd.install("--from", "release", HOME=home), 2)
    assert machine.files() == {}


def test_no_other_user_may_write_to_what_is_installed(machine: Machine, folder: Path) -> None:
    machine.shell = ["sh", "-c", 'umask 0; . "$0"']
    well(machine.install("--from", folder))
    for path in machine.prefix.rglob("*"):
        assert not path.lstat().st_mode & 0o022, path


def test_a_folder_where_a_completion_should_be_stays_as_it_is(
    machine: Machine, folder: Path
) -> None:
    machine.has("bash")
    there = machine.home / ".local/share/bash-completion/completions/baton"
    there.mkdir(parents=True)
    done = machine.install("--from", folder)
    assert done.returncode == 0
    assert f"{there} could not be written" in done.stderr
    assert not list(there.iterdir())
    assert str(there) not in machine.receipt["files"]  # type: ignore[operator]


def test_help_names_every_option(machine: Machine) -> None:
    said = well(machine.install("--help"))
    for option in ("--from", "--flavour", "--gpu", "--prefix", "--no-completions"):
        assert option in said
    assert machine.files() == {}


def test_an_unknown_machine(machine: Machine, folder: Path) -> None:
    machine.gives("uname", '#!/bin/sh\n[ "$1" = -s ] && echo Plan9 || echo mips\n')
    assert "Plan9 on mips" in refusal(machine.install("--from", folder))


def test_windows_is_sent_to_its_own_script(machine: Machine, folder: Path) -> None:
    machine.gives("uname", "#!/bin/sh\necho MINGW64_NT-10.0\n")
    assert "install.ps1" in refusal(machine.install("--from", folder))


def test_a_prefix_that_cannot_be_written(machine: Machine, folder: Path) -> None:
    file = machine.root / "a file"
    file.write_text("")
    for prefix in (file / "x", Path("/proc/baton")):
        said = refusal(machine.install("--from", folder, "--prefix", prefix))
        assert f"{prefix} can't be written" in said
        assert "--prefix" in said


def test_a_folder_in_the_way(machine: Machine, folder: Path) -> None:
    machine.baton.mkdir(parents=True)
    assert "is a folder" in refusal(machine.install("--from", folder))


# Again


def test_a_second_run_upgrades_and_keeps_the_one_before(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    well(machine.install("--from", folder))
    well(machine.install("--from", release(tmp_path / "newer", "0.2.0")))
    assert machine.baton.read_bytes() == program("0.2.0")
    assert machine.previous.read_bytes() == program("0.1.0")
    assert machine.receipt["version"] == "0.2.0"
    assert sorted(machine.prefix.joinpath("bin").iterdir()) == [machine.baton]


def test_what_the_one_before_was_is_noted_for_a_rollback(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    note = machine.previous.with_name("previous.json")
    well(machine.install("--from", folder, "--flavour", "slim"))
    well(machine.install("--from", release(tmp_path / "newer", "0.2.0"), "--flavour", "full"))
    assert json.loads(note.read_text()) == {
        "schema": 1,
        "sha256": hashlib.sha256(machine.previous.read_bytes()).hexdigest(),
        "version": "0.1.0",
        "flavour": "slim",
        "platform": PLATFORM,
        "gpu": "",
    }
    # A binary that isn't the one of the receipt: nothing is known of it.
    machine.baton.write_bytes(program("0.1.5"))
    well(machine.install("--from", release(tmp_path / "newest", "0.3.0")))
    assert machine.previous.read_bytes() == program("0.1.5")
    assert not note.exists()


def test_the_same_again_keeps_what_was_before_it(
    machine: Machine, folder: Path, tmp_path: Path
) -> None:
    newer = release(tmp_path / "newer", "0.2.0")
    well(machine.install("--from", folder))
    well(machine.install("--from", newer))
    before = machine.files()
    assert "is that one already" in well(machine.install("--from", newer))
    assert machine.files() == before


def test_a_damaged_installation_is_repaired_and_the_damage_not_kept(
    machine: Machine, folder: Path
) -> None:
    well(machine.install("--from", folder))
    machine.baton.write_bytes(b"#!/bin/sh\nexit 1\n")
    machine.baton.chmod(0o644)
    (machine.home / ".local/share/applications/baton.desktop").unlink()
    assert "not kept" in well(machine.install("--from", folder))
    assert machine.baton.read_bytes() == program("0.1.0")
    assert os.access(machine.baton, os.X_OK)
    assert (machine.home / ".local/share/applications/baton.desktop").exists()
    assert not machine.previous.exists()


def test_what_another_user_put_there_is_kept(machine: Machine, folder: Path) -> None:
    checkout = machine.root / "checkout"
    checkout.write_text("#!/bin/sh\nexit 7\n")
    checkout.chmod(0o755)
    machine.baton.parent.mkdir(parents=True)
    machine.baton.symlink_to(checkout)
    said = well(machine.install("--from", folder))
    assert f"kept as {machine.previous}" in said
    assert machine.previous.readlink() == checkout
    assert not machine.baton.is_symlink()
    assert checkout.read_text() == "#!/bin/sh\nexit 7\n"


def test_two_at_once_don_t_meet(machine: Machine, folder: Path) -> None:
    other = machine.prefix / "bin" / f".baton-install.{os.getpid()}"
    other.mkdir(parents=True)
    assert f"process {os.getpid()}" in refusal(machine.install("--from", folder))
    assert other.exists()
    gone = subprocess.Popen(["true"])
    gone.wait()
    other.rename(other.with_name(f".baton-install.{gone.pid}"))
    well(machine.install("--from", folder))
    assert sorted(machine.prefix.joinpath("bin").iterdir()) == [machine.baton]
