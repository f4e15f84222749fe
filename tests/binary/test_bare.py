"""The binary alone on a bare Debian, without Python, compiler, certificates, locale, network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from binary.roots import NEVER, SUITES, Bare
from binary.tmux import Tmux

pytestmark = pytest.mark.binary

QUESTION = "What is the capital of France?"
KINDS = {"single": "/opt/baton", "folder": "/opt/folder/baton/baton"}


@pytest.fixture(scope="module", params=SUITES)
def machine(
    request: pytest.FixtureRequest,
    bare: Callable[..., Bare],
    tmp_path_factory: pytest.TempPathFactory,
) -> Bare:
    """Give a machine for all tests of this file, whose home a first start has filled."""
    return bare(request.param, tmp_path_factory.mktemp("home") / "home")


@pytest.fixture(params=KINDS)
def baton(request: pytest.FixtureRequest) -> str:
    return KINDS[request.param]


def test_nothing_there_could_help(machine: Bare) -> None:
    told = machine.run("sh", "-c", "command -v python3 perl cc gcc locale; date +%A; ls /etc")
    assert told.stdout.splitlines()[0].endswith("day"), told.stdout + told.stderr
    assert not {"ssl", "resolv.conf", "localtime"} & set(told.stdout.split())
    left = [path for pattern in NEVER for path in machine.root.rglob(pattern)]
    assert left == []
    told = machine.run("cat", "/proc/net/dev")
    assert [line.split(":")[0].strip() for line in told.stdout.splitlines()[2:]] == ["lo"]


def test_it_starts_and_says_its_version(machine: Bare, baton: str) -> None:
    done = machine.run(baton, "--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("baton ")


def test_the_self_test_passes(machine: Bare, baton: str) -> None:
    done = machine.run(baton, "doctor", "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_self_test_says_so_in_json_too(machine: Bare, baton: str) -> None:
    done = machine.run(baton, "doctor", "--self-test", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)


def test_a_question_is_answered(machine: Bare, baton: str) -> None:
    done = machine.run(baton, "ask", "--temperature", "0", QUESTION)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout


def test_a_slim_one_starts_and_says_how_to_get_a_model(machine: Bare) -> None:
    assert machine.run("/opt/baton-slim", "--version").returncode == 0
    done = machine.run("/opt/baton-slim", "ask", QUESTION)
    assert done.returncode != 0
    assert "baton models" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_slim_one_passes_its_self_test(machine: Bare) -> None:
    done = machine.run("/opt/baton-slim", "doctor", "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_app_runs_in_tmux(machine: Bare, baton: str, tmp_path: Path) -> None:
    with Tmux(tmp_path / "tmux", machine.command(baton)) as window:
        window.wait_for("Ask anything")
        window.type(QUESTION)
        window.press("Enter")
        window.wait_for("Paris")
        window.wait_for("finished in")
        window.press("C-q")
        window.wait_for("ended with 0")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_printed(machine: Bare, baton: str, shell: str) -> None:
    done = machine.run(baton, "completion", shell)
    assert done.returncode == 0, done.stderr
    assert "baton" in done.stdout


def test_it_ran_from_one_folder_all_the_time(machine: Bare) -> None:
    """Each of the two single files was unpacked once."""
    for program in ("/opt/baton", "/opt/baton-slim"):
        assert machine.run(program, "--version").returncode == 0
    unpacked = [path for path in (machine.home / ".cache/baton/app").iterdir() if path.is_dir()]
    assert len(unpacked) <= 2, unpacked
