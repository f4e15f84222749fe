"""One cause has one exit code, whichever command meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from baton.cli.exit_codes import exit_code
from baton.core.errors import ERROR_CLASSES, BatonError, MoneyHeld, stored_name
from baton.workers.local.model_memory import NotEnoughMemory
from support.command_line import Call, write_settings

CLOUD = """
[budget]
day = "1"
[[workers]]
id = "gpt"
kind = "cloud"
model = "openai/gpt-5-mini"
[[workers]]
id = "unpriced"
kind = "cloud"
model = "openai/gpt-99"
"""


def expect(call: Call, code: int, reason: str, *args: str) -> None:
    done = call(*args)
    assert (done.code, reason in done.err) == (code, True), (args, done.err)


def test_offline_is_2_everywhere(call: Call, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings(CLOUD)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "test" * 8)
    for args in (
        ("ask", "-m", "gpt", "Hello", "--offline", "--budget", "0.1"),
        ("ask", "-m", "gpt", "Hello", "--private", "--budget", "0.1"),
        ("ask", "-m", "gpt", "Hello", "--mode", "local", "--budget", "0.1"),
    ):
        done = call(*args, "--json")
        assert (done.code, json.loads(done.out)["error"]["type"]) == (2, "ConfigError"), args
    expect(call, 2, "Baton is offline", "models", "pull", "qwen3.5-4b", "--offline")
    expect(call, 2, "Baton is offline", "workers", "detect", "--offline")
    monkeypatch.setenv("BATON_OFFLINE", "1")
    expect(call, 2, "Baton is offline", "workers", "test", "gpt", "-y")
    expect(call, 2, "Baton is offline", "keys", "test", "openai", "-y")


def test_an_unknown_price_is_4_everywhere(
    call: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(CLOUD)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "test" * 8)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "sk-" + "test" * 8)
    expect(call, 4, "not known", "ask", "-m", "unpriced", "Hello", "--budget", "0.1")
    expect(call, 4, "not known", "workers", "test", "unpriced", "-y")
    expect(call, 4, "No price is known", "keys", "test", "azure", "-y")


def test_too_little_memory_is_5_everywhere(
    call: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_LOCAL__MEMORY_GB", "0.01")
    done = call("ask", "-m", "small", "Tell me a story.", "--json")
    assert (done.code, json.loads(done.out)["error"]["type"]) == (5, "ModelFileError")
    assert "are allowed" in done.err
    expect(call, 5, "Not even a small model fits", "models", "pull", "qwen3.5-4b")


def test_every_error_is_stored_as_one_with_the_same_code() -> None:
    errors = [NotEnoughMemory("m", ""), MoneyHeld("m", "", "day"), BatonError("m")]
    for error in errors:
        assert exit_code(ERROR_CLASSES[stored_name(error)]) == exit_code(type(error))


@pytest.mark.parametrize(
    "command",
    [
        *("--help", "--version", "ask --help", "models ls", "models ls --json", "completion bash"),
        *("workers ls", "config path", "budget show", "keys ls --json", "doctor", "ask -q 2+3"),
    ],
)
def test_a_full_disk_at_stdout_is_one_sentence_everywhere(home: Path, command: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "baton", *command.split()],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    kept = b" It is in your history." if command.startswith("ask -q") else b""
    assert (done.returncode, done.stderr) == (
        1,
        b"baton: The output can't be written: No space left on device." + kept + b"\n",
    )
