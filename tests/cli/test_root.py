"""`baton` itself: help, version, and what it says to mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from baton import __version__
from baton.cli.root import COMMANDS, baton, run
from baton.core import events as ev
from baton.core.strategies import STRATEGIES
from baton.platform.paths import find_paths
from support.command_line import Call, CallResult, Process
from support.stored_runs import store_run


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


@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_about_a_command_is_cut(call: Call, name: str) -> None:
    lines = call(name, "--help").out.partition("Commands:\n")[2].splitlines()
    assert [line for line in lines if line.endswith("...")] == []


@pytest.mark.parametrize(
    ("group", "verb"),
    [("models", "ls"), ("history", "ls"), ("budget", "show"), ("config", "show"), ("keys", "ls")],
)
def test_a_group_alone_lists_or_shows_and_names_its_help(call: Call, group: str, verb: str) -> None:
    done, meant = call(group), call(group, verb)
    assert (done.code, done.out) == (0, meant.out)
    assert done.err == f"`baton {group} --help` lists what else there is.\n{meant.err}"


def test_a_word_too_many_is_reported_in_sentences(call: Call) -> None:
    message = "Got unexpected extra argument (x). `baton models ls --help` shows how to use it."
    assert message in call("models", "ls", "x").err


@pytest.mark.parametrize("name", ["ask", "plan"])
def test_a_stranger_finds_the_strategies_and_the_templates(
    call: Call, home: Path, name: str
) -> None:
    folder = home / "config" / "templates"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(
        'about = "What I do on Mondays."\n[[steps]]\ntask = "Greet."\nsees = ["prompt"]\n'
    )
    help_text = call(name, "--help").out
    for strategy in STRATEGIES:
        assert f"\n  {strategy} " in help_text
    assert "draft-verify-revise" in help_text
    assert "What I do on Mondays. (a template)" in " ".join(help_text.split())
    # One that is broken doesn't hide the help, nor from the others.
    (folder / "broken.toml").write_text("steps = 3")
    help_text = call(name, "--help").out
    assert "\n  single " in help_text
    assert "draft-verify-revise" in help_text
    assert "What I do on Mondays. (a template)" in " ".join(help_text.split())
    refused = call(name, "x", "--strategy", "broken")
    assert refused.code == 2
    assert "broken.toml" in refused.err


def test_the_version(call: Call) -> None:
    assert call("--version") == CallResult(0, f"baton {__version__}\n", "")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["hisotry"], "Did you mean `baton history`?"),
        (["foo"], "There is no command 'foo'. `baton --help` lists them."),
        (["models", "foo"], "There is no command 'foo'. `baton models --help` lists them."),
        (["models", "shows"], "There is no command 'shows'. Did you mean `baton models show`?"),
        (["pull"], "Did you mean `baton models pull`?"),
        (["get"], "Did you mean `baton models pull`?"),
        (["list"], "Did you mean `baton models ls`, `baton history ls` or `baton workers ls`?"),
        (["remove"], "Did you mean `baton models rm`, `baton history rm` or `baton keys rm`?"),
        (["run"], "Did you mean `baton ask`?"),
        (["chat"], "Did you mean `baton` or `baton ask`?"),
        (["search"], "Did you mean `baton history search`?"),
        (["prices"], "Did you mean `baton budget prices`?"),
        (["models", "install"], "Did you mean `baton models pull`?"),
        (["models", "search"], "Did you mean `baton models ls --all`?"),
        (["history", "delete"], "Did you mean `baton history rm`?"),
        (["workers", "pull"], "Did you mean `baton models pull`?"),
        (["config", "list"], "Did you mean `baton config show`?"),
        (["models", "ask"], "Did you mean `baton ask`?"),
        (["What is this?"], "`baton ask 'What is this?'`"),
        (["--bogus"], "No such option '--bogus'"),
        (["ask", "-x + 1 = 2"], "No such option '-x'; a prompt that begins so goes after --."),
        (["ask", "-m", "\udcff", "x"], "There is no worker '\ufffd'."),
        (["\udcff"], "There is no command '\ufffd'."),
        (["budget", "set", "day", "\udcff"], "'\ufffd' is not an amount of US dollars."),
        (["ask", "x", "--sede", "3"], "No such option '--sede'. Did you mean --seed? `baton ask"),
        (["ask", "x", "--mode", "huge"], "'huge' is not one of"),
        (["ask", "x", "--strategy", "majorty"], "Did you mean 'majority'?"),
        (["ask", "x", "--strategy", "Vote"], "Did you mean 'vote'?"),
        (["ask", "x", "--strategy", "zzz"], "Known: single, hybrid,"),
        (["plan", "x", "--seed", "3"], "No such option"),
        (["resume", "--json", "--events"], "exclude each other"),
        (["trace", "--texts", "--otel"], "exclude each other"),
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
    call: Call, args: list[str], message: str
) -> None:
    done = call(*args)
    assert done.code == 2
    assert not done.out or ("--json" in args and "--" not in args)
    assert done.err.startswith("baton: ")
    assert done.err.count("\n") == 1
    assert message in done.err


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


def test_a_missing_choice_is_reported_on_one_line(call: Call) -> None:
    done = call("completion")
    assert done.code == 2
    assert done.err.splitlines() == [
        "baton: Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish."
        " `baton completion --help` shows how to use it."
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(call: Call, shell: str) -> None:
    done = call("completion", shell)
    assert done.code == 0
    assert f"_BATON_COMPLETE={shell}_complete" in done.out


def press_tab(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Set what Bash passes when the Tab key is pressed after some words."""
    monkeypatch.setenv("_BATON_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))


def test_the_tab_key_knows_commands_and_workers(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, expected in (
        ("baton wor", "workers"),
        ("baton ask -m s", "small"),
        ("baton pl", "plan"),
        ("baton res", "resume"),
        ("baton wh", "why"),
        ("baton ask --strategy maj", "majority"),
        ("baton plan --strategy dra", "draft-verify-revise"),
    ):
        press_tab(monkeypatch, words)
        with pytest.raises(SystemExit):
            run([])
        assert expected in capfd.readouterr().out


def test_the_tab_key_knows_runs(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    stored_run = store_run(ev.Finished(at=0.1))
    for verb in ("trace", "why", "resume"):
        press_tab(monkeypatch, f"baton {verb} {stored_run[:2]}")
        assert stored_run.encode() in process().stdout
