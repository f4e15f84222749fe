"""The binary alone on a bare Debian, without Python, compiler, certificates, locale, network."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from baton_self_test import CHECKS, TEST_KEY

from binary.bare_systems import NEVER, SUITES, BareMachine
from binary.tmux import Tmux

pytestmark = pytest.mark.binary

QUESTION = "What is the capital of France?"
KINDS = {"single": "/opt/baton", "folder": "/opt/folder/baton/baton"}


@pytest.fixture(scope="module", params=SUITES)
def machine(
    request: pytest.FixtureRequest,
    bare: Callable[..., BareMachine],
    tmp_path_factory: pytest.TempPathFactory,
) -> BareMachine:
    """Give a machine for all tests of this file, whose home a first start has filled."""
    return bare(request.param, tmp_path_factory.mktemp("home") / "home")


@pytest.fixture(params=KINDS)
def baton(request: pytest.FixtureRequest) -> str:
    return KINDS[request.param]


def test_nothing_there_could_help(machine: BareMachine) -> None:
    expected = machine.run("sh", "-c", "command -v python3 perl cc gcc locale; date +%A; ls /etc")
    assert expected.stdout.splitlines()[0].endswith("day"), expected.stdout + expected.stderr
    assert not {"ssl", "resolv.conf", "localtime"} & set(expected.stdout.split())
    left = [path for pattern in NEVER for path in machine.root.rglob(pattern)]
    assert left == []


def test_it_connects_only_to_itself(machine: BareMachine) -> None:
    expected = machine.run("cat", "/proc/net/dev")
    assert [line.split(":")[0].strip() for line in expected.stdout.splitlines()[2:]] == ["lo"]
    for address, answer in (("127.0.0.1", "refused"), ("192.0.2.1", "unreachable")):
        expected = machine.run("bash", "-c", f"echo >/dev/tcp/{address}/9")
        assert expected.stderr.strip().endswith(answer), expected.stderr


def test_it_starts_and_says_its_version(machine: BareMachine, baton: str) -> None:
    done = machine.run(baton, "--version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("baton ")


def test_the_self_test_passes(machine: BareMachine, baton: str) -> None:
    done = machine.run(baton, "doctor", "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "Nothing is broken.\n"


def test_the_self_test_leaves_nothing_untried(machine: BareMachine, baton: str) -> None:
    """But for a keyring, which isn't there."""
    assert_all_is_well(machine.run(baton, "doctor", "--self-test", "--json"))


def assert_all_is_well(done: subprocess.CompletedProcess[str]) -> None:
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    doubtful = [check for check in checks.values() if check["state"] != "ok"]
    assert [check["name"] for check in doubtful] == [TEST_KEY], doubtful
    assert tuple(checks) == tuple(CHECKS)
    assert "through the gateway" in checks["cloud"]["text"]


def test_a_question_is_answered(machine: BareMachine, baton: str) -> None:
    done = machine.run(baton, "ask", "--temperature", "0", QUESTION)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout


def test_a_slim_one_starts_and_says_how_to_get_a_model(machine: BareMachine) -> None:
    assert machine.run("/opt/baton-slim", "--version").returncode == 0
    done = machine.run("/opt/baton-slim", "ask", QUESTION)
    assert done.returncode != 0
    assert "baton models" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_slim_one_passes_its_self_test(machine: BareMachine) -> None:
    assert_all_is_well(machine.run("/opt/baton-slim", "doctor", "--self-test", "--json"))


def test_the_app_runs_in_tmux(
    machine: BareMachine, baton: str, tmux: type[Tmux], tmp_path: Path
) -> None:
    with tmux(tmp_path / "tmux", machine.command(baton)) as window:
        window.wait_for("Ask anything")
        window.type(QUESTION)
        window.press("Enter")
        window.wait_for("Paris")
        window.wait_for("finished in")
        window.press("C-q")
        window.wait_for("ended with 0")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_printed(machine: BareMachine, baton: str, shell: str) -> None:
    done = machine.run(baton, "completion", shell)
    assert done.returncode == 0, done.stderr
    assert "baton" in done.stdout


def test_each_single_file_is_unpacked_once(machine: BareMachine) -> None:
    """After any earlier start: the same folders, not ones like them."""
    cache = machine.home / ".cache/baton/app"

    def unpacked() -> dict[str, int]:
        for program in ("/opt/baton", "/opt/baton-slim"):
            assert machine.run(program, "--version").returncode == 0
        return {path.name: path.stat().st_ino for path in cache.iterdir() if path.is_dir()}

    before = unpacked()
    assert len(before) == 2
    assert unpacked() == before
