"""What the installer puts down beside the program, and what it asks the user to do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from baton.install import InstalledFiles
from baton.install.installation import find_installation
from support.installer_machine import COMPLETIONS, INSTALL, Machine, release, well

pytestmark = [
    pytest.mark.sampled(0.5),
    pytest.mark.skipif(sys.platform == "win32", reason="a script for Unix shells"),
]


def put_shells(machine: Machine, *names: str) -> None:
    for name in names:
        machine.gives(name, "#!/bin/sh\n")


def test_each_shell_that_is_here_learns_to_complete(machine: Machine, folder: Path) -> None:
    put_shells(machine, "bash", "fish")
    well(machine.install("--from", folder))
    files = machine.files()
    assert files[COMPLETIONS["bash"]] == b"# how bash completes 0.1.0\n"
    assert files[COMPLETIONS["fish"]] == b"# how fish completes 0.1.0\n"
    assert COMPLETIONS["zsh"] not in files
    listed = machine.receipt["files"]
    assert isinstance(listed, list)
    assert {str(machine.home / COMPLETIONS[name]) for name in ("bash", "fish")} <= set(listed)


def test_zsh_gets_a_line_with_where_to_look(machine: Machine, folder: Path) -> None:
    put_shells(machine, "zsh")
    assert "completions" not in well(machine.install("--from", folder, SHELL="/bin/bash"))
    said = well(machine.install("--from", folder, SHELL="/usr/bin/zsh"))
    assert f"fpath=('{machine.prefix}/share/zsh/site-functions' $fpath)" in said


def test_the_folders_that_a_user_chose_are_used(machine: Machine, folder: Path) -> None:
    put_shells(machine, "bash", "fish")
    data, config = machine.root / "data", machine.root / "config"
    well(machine.install("--from", folder, XDG_DATA_HOME=str(data), XDG_CONFIG_HOME=str(config)))
    assert (data / "bash-completion/completions/baton").exists()
    assert (data / "applications/baton.desktop").exists()
    assert (config / "fish/completions/baton.fish").exists()


def test_no_completions_leaves_what_is_there_in_the_receipt(machine: Machine, folder: Path) -> None:
    put_shells(machine, "bash")
    well(machine.install("--from", folder, "--no-completions"))
    assert COMPLETIONS["bash"] not in machine.files()
    well(machine.install("--from", folder))
    well(machine.install("--from", folder, "--no-completions"))
    assert str(machine.home / COMPLETIONS["bash"]) in str(machine.receipt["files"])


@pytest.mark.parametrize("there", ["", ".local/share/applications", ".config/fish"])
def test_all_that_it_put_down_can_be_taken_away(
    machine: Machine, folder: Path, tmp_path: Path, there: str
) -> None:
    """An upgrade forgets none of it, and an empty folder that was there before stays."""
    put_shells(machine, "bash", "zsh", "fish")
    (machine.home / there).mkdir(parents=True, exist_ok=True)
    before = machine.folders()
    well(machine.install("--from", folder))
    well(machine.install("--from", release(tmp_path / "newer", "0.2.0"), "--no-completions"))
    names = (".config", ".local/share", ".local/state", ".cache")
    config, data, state, cache = (machine.home / name / "baton" for name in names)
    place = find_installation(machine.baton, state)
    belongings = InstalledFiles(place, config, data, state, cache)
    assert belongings.remove(belongings.program()) == []
    assert belongings.remove_empty_folders() == []
    assert (machine.files(), machine.folders()) == ({}, before)


def test_a_completion_that_cannot_be_written_stops_nothing(machine: Machine, folder: Path) -> None:
    put_shells(machine, "bash")
    (machine.home / ".local/share").mkdir(parents=True)
    (machine.home / ".local/share/bash-completion").write_text("in the way")
    done = machine.install("--from", folder)
    assert done.returncode == 0
    assert "could not be written; Baton works without it." in done.stderr
    assert "bash-completion" not in str(machine.receipt["files"])


@pytest.mark.parametrize(
    ("shell", "file"), [("/bin/bash", ".bashrc"), ("/bin/zsh", ".zshrc"), ("", ".profile")]
)
def test_path_is_reported_and_no_file_of_the_shell_changed(
    machine: Machine, folder: Path, shell: str, file: str
) -> None:
    (machine.home / file).write_text("# mine\n")
    said = well(machine.install("--from", folder, SHELL=shell))
    assert (machine.home / file).read_text() == "# mine\n"
    typed = re.search(r"^ +(echo .*) >> ~/", said, re.MULTILINE)
    assert typed
    assert f">> ~/{file}" in said
    line = subprocess.run(["sh", "-c", typed[1]], capture_output=True, text=True).stdout
    ran = subprocess.run(["sh", "-c", f"{line}\nbaton --version"], capture_output=True, text=True)
    assert ran.stdout == "baton 0.1.0\n"


def test_on_the_path_nothing_is_said_of_it(machine: Machine, folder: Path) -> None:
    said = well(machine.install("--from", folder, PATH=f"{machine.baton.parent}:{machine.tools}"))
    assert "Start it with: baton" in said
    assert "PATH" not in said


def test_another_baton_that_comes_first_is_reported(machine: Machine, folder: Path) -> None:
    machine.gives("baton", "#!/bin/sh\n")
    done = machine.install("--from", folder, PATH=f"{machine.tools}:{machine.baton.parent}")
    assert done.returncode == 0
    assert f"starts {machine.tools}/baton" in done.stderr


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="needs shellcheck")
def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run(["shellcheck", INSTALL], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
