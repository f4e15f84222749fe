"""`baton` itself: help, version, and what it says to mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from baton import __version__
from baton.cli.root import COMMANDS, baton
from baton.settings import find_paths
from cli.calling import Call, Done, Process


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_names_every_command(call: Call, flag: str) -> None:
    done = call(flag)
    assert done.code == 0
    assert all(f"\n  {name} " in done.out for name in COMMANDS)
    assert "Exit codes" in done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_in_the_table_is_there_and_explains_itself(call: Call, name: str) -> None:
    command = baton.get_command(click.Context(baton), name)
    assert command is not None
    assert command.name == name
    done = call(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: baton {name}")


def test_the_version(call: Call) -> None:
    assert call("--version") == Done(0, f"baton {__version__}\n", "")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["hisotry"], "Did you mean `baton history`?"),
        (["What is this?"], "`baton ask 'What is this?'`"),
        (["--bogus"], "No such option '--bogus'"),
        (["ask", "x", "--mode", "huge"], "'huge' is not one of"),
        (["ask", "x", "--budget", "lots"], "'lots' is not an amount of US dollars"),
        (["ask", "x", "--json", "--events"], "exclude each other"),
        (["ask", "x", "--max-tokens", "0"], "--max-tokens"),
        (["ask", "x", "--no-history", "-c"], "Leave out one"),
        (["history", "rm"], "Missing argument"),
        ([], "The app needs a terminal."),
        (["-c"], "The app needs a terminal."),
        (["--offline", "ask", "x"], "--offline before `ask` would be the app's."),
        (["-m", "small", "history", "ls"], "`baton history --help`"),
        (["ask", "--budget", "lots", "--", "--json"], "'lots' is not an amount"),
    ],
)
def test_a_mistake_is_one_sentence_on_stderr_and_code_2(
    call: Call, args: list[str], told: str
) -> None:
    done = call(*args)
    assert done.code == 2
    assert not done.out or ("--json" in args and "--" not in args)
    assert done.err.startswith("baton: ")
    assert done.err.count("\n") == 1
    assert told in done.err


def test_a_mistake_with_json_is_an_object_too(call: Call) -> None:
    done = call("ask", "x", "--json", "--budget", "lots")
    assert done.code == 2
    assert json.loads(done.out)["error"]["type"] == "ConfigError"
    assert call("history", "show", "beef", "--json").out.startswith('{"schema": 1, "status"')


def test_outside_text_in_an_error_can_not_reach_the_terminal(call: Call) -> None:
    assert "\x1b" not in call("\x1b]0;x\x07").err


def test_a_bug_is_one_sentence_and_a_report_without_values(
    call: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(_: click.Context) -> None:
        secret = "sk-" + "canary"
        raise RuntimeError(f"{secret} went wrong")

    monkeypatch.setattr(baton, "invoke", stumble)
    done = call("trace")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    [report] = find_paths().logs.iterdir()
    assert str(report) in done.err
    text = report.read_text()
    assert "in stumble" in text
    assert "canary" not in text.replace('"canary"', "")


def test_a_bug_that_can_not_be_reported_is_still_one_sentence(
    call: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write_text("a file where the folder should be")
    monkeypatch.setattr(baton, "invoke", lambda _: 1 / 0)
    done = call("trace")
    assert done.code == 1
    assert "ZeroDivisionError" in done.err


def test_help_into_a_closed_pipe_is_quiet(process: Process) -> None:
    command = f"'{sys.executable}' -I -m baton --help | head -c1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"U", b"")


def test_closed_standard_streams_are_survived() -> None:
    command = f"'{sys.executable}' -I -m baton config path <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", command]).returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(call: Call, shell: str) -> None:
    done = call("completion", shell)
    assert done.code == 0
    assert f"_BATON_COMPLETE={shell}_complete" in done.out


def test_the_tab_key_knows_commands_and_workers(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_BATON_COMPLETE", "bash_complete")
    for words, expected in (("baton wor", b"workers"), ("baton ask -m s", b"small")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        assert expected in process().stdout
