"""`baton config`: shown as it is in force, edited without loss."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from baton.cli.config import TEMPLATE, Setting, settings_toml
from baton.compose import compose
from baton.core.sanitiser import sanitise
from baton.platform.paths import find_paths
from baton.platform.settings import Settings, load_settings
from support.command_line import Call
from support.secret_search import parts_of
from support.terminal import Terminal


def test_the_path_is_where_settings_are_read(call: Call, home: Path) -> None:
    assert call("config", "path").out == f"{home / 'config' / 'config.toml'}\n"


@pytest.mark.parametrize("command", [["path"], ["path", "--all"], ["path", "--json"], ["show"]])
def test_nothing_that_a_terminal_obeys_goes_into_a_pipe(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    home = tmp_path / "a\x1b]0;title\x07\u202e"
    monkeypatch.setenv("BATON_HOME", str(home))
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text('cloud.words = ["\u202eheron"]', "utf-8")
    out = call("config", *command).out
    assert "title" in out or "heron" in out
    assert out == sanitise(out)


def test_the_folders_are_shown_when_asked_for(call: Call, home: Path) -> None:
    places = {name: str(home / name) for name in ("config", "data", "state", "cache")}
    places["config"] += "/config.toml"
    lines = call("config", "path", "--all").out.splitlines()
    assert dict(line.split("  ", 1) for line in lines) == places
    assert json.loads(call("config", "path", "--json").out) == {"schema": 1} | places


def test_a_wrong_value_names_only_where_something_was_said(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_MODE", "huge")
    done = call("ask", "x")
    assert done.code == 2
    assert "(in the environment)" in done.err


def test_show_lists_values_and_sources(
    call: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config").mkdir(parents=True)
    file = home / "config" / "config.toml"
    file.write_text(
        'worker = "mine"\n[budget]\nday = "2"\npolicy = "once"\n'
        '[cloud]\nwords = ["Heron", "a \\"b\\""]\n'
        '[[workers]]\nid = "mine"\nmodel = "/m\\"odel.gguf"\n'
        '[[workers]]\nid = "lab"\nkind = "server"\nmodel = "q"\nbase_url = "http://127.0.0.1/v1"\n'
        'privacy = "lan"\nprice = { input = "0", output = "0.5" }\n'
    )
    monkeypatch.setenv("BATON_LOCAL__THREADS", "3")
    rows = {
        row["setting"]: row for row in json.loads(call("config", "show", "--json").out)["settings"]
    }
    assert rows["worker"] == {"setting": "worker", "value": "mine", "source": "config.toml"}
    assert rows["local.threads"]["value"] == 3
    assert rows["local.threads"]["source"] == "BATON_LOCAL__THREADS"
    assert rows["mode"]["source"] == "default"
    assert rows["budget.policy"] == {
        "setting": "budget.policy",
        "value": "once",
        "source": "config.toml",
    }
    assert rows["cloud.words"]["value"] == ["Heron", 'a "b"']
    assert rows["budget.month"] == {"setting": "budget.month", "value": "", "source": "default"}
    shown = call("config", "show").out
    assert "threads = 3" in shown
    file.write_text(shown)
    assert load_settings(file, {}) == load_settings(file)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(codec="ascii")))
def test_what_is_shown_is_toml_that_says_the_same(worker: str, key: str) -> None:
    listed = [Setting(("worker",), worker, "default"), Setting(("keys", key), "x", "default")]
    assert tomllib.loads(settings_toml(listed)) == {"worker": worker, "keys": {key: "x"}}


def test_the_template_is_all_comments_and_its_values_are_the_defaults(tmp_path: Path) -> None:
    assert tomllib.loads(TEMPLATE) == {}
    lines = [line.removeprefix("# ") for line in TEMPLATE.splitlines()[2:]]
    file = tmp_path / "config.toml"
    file.write_text("\n".join(lines))
    assert [worker.id for worker in load_settings(file, {}).workers] == ["mine", "gpt", "lab"]
    listed = tomllib.loads(file.read_text())
    assert listed.pop("workers")
    defaults = json.loads(msgspec.json.encode(Settings()))
    for name, value in listed.items():
        expected = defaults[name]
        assert value == ({k: expected[k] for k in value} if isinstance(value, dict) else expected)


def test_edit_makes_the_file_and_checks_it(
    call: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / "config" / "config.toml"
    monkeypatch.setenv("EDITOR", 'sed -i \'s/^# mode = "auto"/mode = "mini"/\'')
    done = call("config", "edit")
    assert (done.code, done.err) == (0, "The settings are fine.\n")
    assert load_settings(file, {}).mode == "mini"


EDITOR = """
import signal, sys, time
def save(*_):
    with open(sys.argv[1], "a") as file:
        file.write(text)
    sys.exit()
text = chr(10) + sys.argv.pop(1)
signal.signal(signal.SIGINT, save)
print("in the editor", flush=True)
while True:
    time.sleep(1)
"""
"""An editor with a meaning of its own for Ctrl+C: it writes its argument, and ends."""


def test_ctrl_c_in_the_editor_is_the_editors(home: Path, tmp_path: Path) -> None:
    script = tmp_path / "editor.py"
    script.write_text(EDITOR)
    environ = {**os.environ, "EDITOR": f"'{sys.executable}' '{script}' 'mode = \"mini\"'"}
    screen = Terminal([sys.executable, "-I", "-m", "baton", "config", "edit"], environ)
    try:
        screen.wait_for("in the editor")
        screen.send("\x03")
        assert screen.wait_end() == 0
        assert "The settings are fine." in screen.text
    finally:
        screen.close()
    assert load_settings(home / "config" / "config.toml", {}).mode == "mini"


@pytest.mark.parametrize("broken", ["", "[[workers\n"])
def test_an_editor_knows_no_workers_key(
    call: Call, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Keys go to the gateway alone, under any name of their variables."""
    known = tmp_path / "known"
    (home / "config").mkdir(parents=True)
    lines = ['[[workers]]\nid = "lab"\nkind = "server"\nmodel = "m"\n']
    lines += ['base_url = "http://127.0.0.1:9/v1"\n', "api_key_env = 'LAB_SECRET'\n", broken]
    (home / "config" / "config.toml").write_text("".join(lines), "utf-8")
    monkeypatch.setenv("EDITOR", f"sh -c 'env > \"{known}\"'")
    monkeypatch.setenv("LAB_SECRET", "canary-0123456789")
    monkeypatch.setenv("ANOTHER", "is kept")
    call("config", "edit")
    assert "is kept" in known.read_text()
    assert not parts_of("canary-0123456789") & parts_of(known.read_text())


def test_an_editor_is_started_without_keys(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tmp_path / "known"
    monkeypatch.setenv("EDITOR", f"sh -c 'env > \"{known}\"'")
    for name in ("OPENAI_API_KEY", "SOME_API_KEY", "OTHER"):
        monkeypatch.setenv(name, "canary")
    assert call("config", "edit").code == 0
    assert [line for line in known.read_text().splitlines() if "canary" in line] == ["OTHER=canary"]


def test_edit_keeps_a_broken_text_and_says_so(
    call: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / "config" / "config.toml"
    monkeypatch.setenv("EDITOR", "sed -i '1s/.*/wroker = \"x\"/'")
    done = call("config", "edit")
    assert done.code == 2
    assert "Did you mean 'worker'?" in done.err
    assert "is kept in" in done.err
    assert file.read_text().startswith('wroker = "x"')


@pytest.mark.parametrize("editor", ["false", "no-such-editor-anywhere", 'vim "'])
def test_an_editor_that_fails_is_reported(
    call: Call, monkeypatch: pytest.MonkeyPatch, editor: str
) -> None:
    monkeypatch.setenv("EDITOR", editor)
    done = call("config", "edit")
    assert done.code == 2
    assert "editor" in done.err


@pytest.mark.parametrize("script", ["echo > $0; exit 1", "echo > $0; kill -9 $$", "> $0", "rm $0"])
def test_an_editor_that_ends_with_an_error_or_without_a_text_changes_nothing(
    call: Call, home: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    assert call("config", "edit").code == 0
    file = home / "config" / "config.toml"
    before = file.read_bytes()
    monkeypatch.setenv("EDITOR", f"sh -c '{script}'")
    done = call("config", "edit")
    assert done.code == 2
    assert "the settings are as they were" in done.err
    assert file.read_bytes() == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", ["exit 0", "exit 1"])
@pytest.mark.parametrize("save", ['sed -i s/4/5/ "$0"', "true"])
def test_what_another_command_changes_while_the_editor_is_open_stays(
    call: Call, home: Path, monkeypatch: pytest.MonkeyPatch, save: str, ending: str
) -> None:
    """An editor keeps the text that it opened, and writes it over everything."""
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[budget]\nday = "4"\nmonth = "40"\n', "utf-8")
    command = f'"{sys.executable}" -I -m baton budget set day 0'
    editor = f'text=$(cat "$0"); {command}; echo "$text" > "$0"; {save}; {ending}'
    monkeypatch.setenv("EDITOR", f"sh -c '{editor}'")
    done = call("config", "edit")
    assert load_settings(file, {}).budget.day == "0"
    kept = [path.read_text("utf-8") for path in file.parent.glob("edit-*/config.toml")]
    if save == "true" or ending == "exit 1":
        assert kept == []
    else:
        assert (done.code, "Your text is kept" in done.err) == (2, True)
        assert kept == ['[budget]\nday = "5"\nmonth = "50"\n']


def test_a_blank_editor_is_none(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "  ")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    done = call("config", "edit")
    assert (done.code, "No editor was found" in done.err) == (2, True)


@pytest.mark.parametrize("text", [b"mode = ", b"\xff", b'mode = "huge"', b"[locl]\n"])
def test_a_broken_file_is_one_sentence_everywhere(call: Call, home: Path, text: bytes) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_bytes(text)
    for command in (["config", "show", "--json"], ["ask", "x"], ["workers", "ls"]):
        done = call(*command)
        assert done.code == 2
        assert (done.out == "") is ("--json" not in command)
        assert done.err.count("\n") == 1
    done = call("config", "show")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert done.out.startswith("   1  ")
    assert call("config", "path").code == 0
    assert call("history", "ls").code == 0


def test_a_foreign_variable_is_named_and_stops_nothing(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_FOO", "1")
    done = call("config", "path")
    assert done.code == 0
    assert "BATON_FOO is set, and there is no such setting" in done.err
    assert "BATON_FOO" not in done.out


@pytest.mark.parametrize(
    "name", ["BATON_OFLINE", "BATON_BUGDET__DAY", "BATON_PRIVATE", "baton_offline"]
)
def test_a_misspelt_safety_switch_stops_every_command(
    call: Call, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    for command in (["ask", "x"], ["history", "ls"], ["config", "path"]):
        done = call(*command)
        assert (done.code, done.out) == (2, "")
        assert name in done.err


@pytest.mark.parametrize("said", ["enabled", "treu", "2", "banana"])
def test_an_unreadable_offline_switch_stops_what_could_connect(
    call: Call, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("BATON_OFFLINE", said)
    for command in (["ask", "x"], ["workers", "detect"], ["models", "pull", "smollm2-360m"]):
        done = call(*command)
        assert done.code == 2, command
        assert "neither on nor off" in done.err


def test_the_rule_in_place_of_a_conductor_is_not_an_error(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_CONDUCTOR", "rule")
    paths = find_paths()
    baton = compose(load_settings(paths.config_file), paths, history=False)
    baton.require_conductor()
    assert baton.orchestra.services.trained is None
    asyncio.run(baton.aclose())


def test_an_unknown_conductor_is_an_error(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_CONDUCTOR", "smal")
    done = call("ask", "x")
    assert done.code == 2
    assert "There is no worker 'smal' (the setting `conductor`). Did you mean 'small'?" in done.err
