"""Keys are nowhere but in the gateway's memory, and nothing planted in a folder is believed."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from baton.platform.secrets import PROVIDERS
from support.canary import shows
from support.fake_cloud import BASES, Cloud, CloudBehaviour, Fault
from support.metered_calls import KEYS, MODELS, PRICES, asked_fault

TESTS = Path(__file__).parent.parent
PATH = os.pathsep.join([str(TESTS), str(TESTS.parent / "app")])
SECRET = "7f3a9c2e5b8d"
"""What all canary keys have in common."""

FAILURES = [fault for fault in Fault if fault is not Fault.ENDLESS]
LEVELS = 20


def variable_of(kind: str) -> str:
    if kind == "server":
        return "LAB_API_KEY"
    return PROVIDERS["openai" if kind == "responses" else kind].variable


def configure(home: Path, cloud: Cloud) -> None:
    """Write a configuration with a worker for each way of being answered."""
    lines = ["[budget]", 'day = "900"', 'policy = "budget"']
    for kind, model in MODELS.items():
        lines += ["[[workers]]", f'id = "{kind}"', f'model = "{model}"']
        lines += [f'kind = "{"server" if kind == "server" else "cloud"}"']
        lines += [f'base_url = "{cloud.base("openai" if kind == "responses" else kind)}"']
        lines += ['price = { input = "1", output = "4" }']
        lines += [f'api_key_env = "{variable_of(kind)}"']
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(lines))


def environment(keys: Mapping[str, str] = KEYS) -> dict[str, str]:
    return {**os.environ, **keys, "PYTHONPATH": PATH}


@dataclass
class ProgramOutput:
    """What a Baton said, and what could be seen of it and its children while it ran."""

    stdout: str = ""
    stderr: str = ""
    frames: str = ""
    children: dict[str, str] = field(default_factory=dict)


def talk(
    folder: Path, calls: Sequence[tuple[str, str | None]], keys: Mapping[str, str] = KEYS
) -> ProgramOutput:
    """Let a Baton in that folder run these prompts."""
    frames = folder / "frames.log"
    command = [sys.executable, "-P", "-m", "support.baton_process", "--calls", json.dumps(calls)]
    errors = folder / "stderr.log"
    seen = ProgramOutput()
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [*command, "--frames", str(frames)],
            cwd=folder,
            env=environment(keys),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            seen.stdout += line
            if line == "done\n":
                break
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                seen.children[" ".join(child.cmdline())] = repr(child.environ())
        rest, _ = process.communicate("\n")
        seen.stdout += rest
    seen.stderr, seen.frames = errors.read_text(), frames.read_text()
    errors.unlink()
    frames.unlink()
    assert process.returncode == 0, seen.stderr
    return seen


def with_secret(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        if file.is_file() and shows(SECRET, file.read_bytes().decode("latin-1")):
            yield file


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(len(MODELS)))
def test_keys_are_found_nowhere(tmp_path: Path, home: Path, first: int) -> None:
    """Each fault by one provider; which one meets which fault depends on the first."""
    kinds = itertools.islice(itertools.cycle(MODELS), first, None)
    calls = [(next(kinds), fault.name) for fault in FAILURES]
    calls.sort(key=lambda call: call[1] == Fault.ABOVE_CAP.name)  # freezes what comes after it
    cloud = Cloud(prices=PRICES, choose=asked_fault, manner=CloudBehaviour(pause=0.1))
    with cloud:
        configure(home, cloud)
        seen = talk(tmp_path, calls)
        cloud.quiet()
        assert cloud.posts >= len(calls) - 1
        assert {SECRET in received.key for received in cloud.calls} == {True}
        # Both faults that put the key into the provider's own words were met, and reported.
        assert seen.stdout.count("SecretMissing") >= 1
        assert seen.stdout.count("Overloaded in mid-stream") >= 1
    assert not shows(SECRET, seen.stdout)
    assert not shows(SECRET, seen.stderr)
    assert not shows(SECRET, seen.frames)
    assert f"question {len(calls) - 1} for" in seen.frames.lower()
    runners = [environ for line, environ in seen.children.items() if "runner" in line]
    assert runners
    for line, environ in seen.children.items():
        assert not shows(SECRET, line)
        assert not shows(SECRET, environ) or line.endswith("--child gateway")
    assert (home / "data" / "ledger.db").exists()
    assert list(with_secret(tmp_path)) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "command",
    [
        ["ask", "-m", "server", "--budget", "1", "--json", "fault=ECHO_KEY."],
        ["ask", "-m", "server", "--budget", "1", "--events", "fault=ECHO_IN_STREAM."],
        ["keys", "ls", "--json"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_commands_show_no_key(home: Path, tmp_path: Path, command: list[str]) -> None:
    with Cloud(prices=PRICES, choose=asked_fault) as cloud:
        configure(home, cloud)
        done = subprocess.run(
            [sys.executable, "-P", "-m", "baton", *command],
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert cloud.posts == (command[0] == "ask")
    assert done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not shows(SECRET, done.stdout + done.stderr)
    assert list(with_secret(tmp_path)) == []


def plant(folder: Path, trap: Cloud) -> None:
    """Put a .env there that would lead everything, keys included, to the trap."""
    lines = [f"{name}_API_KEY=sk-planted" for name in map(str.upper, BASES)]
    for provider in BASES:
        for end in ("API_BASE", "BASE_URL", "API_BASE_URL"):
            lines.append(f"{provider.upper()}_{end}={trap.base(provider)}")
    lines += [f"{name}={trap.url}" for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")]
    lines += [f"{name.lower()}={trap.url}" for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")]
    lines += ["LITELLM_MODE=DEV", f"BATON_CLOUD__PROXY={trap.url}", "BATON_BUDGET__DAY=900"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".env").write_text("\n".join(lines))


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    "planted",
    [
        range(LEVELS),
        *(pytest.param([level], marks=pytest.mark.long) for level in range(LEVELS)),
    ],
    ids=lambda levels: f"{len(levels)} from {levels[0]}",
)
def test_nothing_planted_in_a_folder_or_above_it_is_believed(
    tmp_path: Path, home: Path, planted: Sequence[int]
) -> None:
    folders = [tmp_path / "top"]
    while len(folders) < LEVELS:
        folders.append(folders[-1] / f"level{len(folders)}")
    folders[-1].mkdir(parents=True)
    # One key is missing: one from a planted file must not be taken for it.
    keys = {name: key for name, key in KEYS.items() if name != "MISTRAL_API_KEY"}
    with Cloud(prices=PRICES) as cloud, Cloud(prices=PRICES) as trap:
        for level in planted:
            plant(folders[level], trap)
        configure(home, cloud)
        seen = talk(folders[-1], [(kind, None) for kind in MODELS], keys)
        assert trap.received == []
        assert trap.trapped == []
        asked = [kind for kind in MODELS if kind != "mistral"]
        assert [received.key for received in cloud.calls] == [KEYS[variable_of(k)] for k in asked]
    assert seen.stdout.count("\nFinished(") == len(asked)
    assert seen.stdout.count("\nFailed(") == 1
    assert "There is no key for" in seen.stdout
    assert "sk-planted" not in seen.stdout + seen.stderr + seen.frames
