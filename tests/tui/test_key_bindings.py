"""Every key that the help shows does what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from textual import events
from textual.binding import Binding

from baton.core.errors import ConfigError
from baton.core.messages import Chunk, Request, Text
from baton.tui import key_bindings, slash_commands
from baton.tui.desktop import edit_text
from support.app_session import Stage, staged

CODE = "Two blocks:\n\n```python\nprint('one')\n```\n\nand\n\n```\ntwo\n```\n"


def code(request: Request) -> Iterable[Chunk]:
    yield Text(CODE)


class Copied:
    """Stands in for the clipboards."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        monkeypatch.delenv("DISPLAY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setattr(stage.app, "copy_to_clipboard", self.texts.append)


def screen_of(stage: Stage) -> str:
    return type(stage.app.screen).__name__


@pytest.mark.parametrize(
    ("key", "screen"),
    [
        ("ctrl+p", "Palette"),
        ("f1", "HelpScreen"),
        ("ctrl+s", "ConversationsScreen"),
        ("ctrl+l", "ModelsScreen"),
        ("ctrl+r", "RenameScreen"),
    ],
)
async def test_keys_that_open_a_screen(tmp_path: Path, key: str, screen: str) -> None:
    async with staged(tmp_path, code) as stage:
        await stage.ask("code")
        await stage.press(key)
        await stage.until(lambda: screen_of(stage) == screen)
        await stage.press("escape")
        await stage.until(lambda: screen_of(stage) == "ChatScreen")


async def test_keys_on_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(tmp_path, code) as stage:
        copied = Copied(stage, monkeypatch)
        await stage.ask("code")
        await stage.press("tab", "y")
        await stage.until(lambda: copied.texts == [CODE])
        await stage.shows("copied 11 lines")
        await stage.press("u")
        await stage.until(lambda: copied.texts[1:] == ["print('one')\n"])
        await stage.shows("block 1 of 2")
        await stage.press("u")
        await stage.until(lambda: copied.texts[2:] == ["two\n"])
        await stage.press("k", "y")
        await stage.until(lambda: copied.texts[3:] == ["code"])
        await stage.press("j", "w")
        await stage.until(lambda: screen_of(stage) == "WorkflowScreen")
        assert "small" in stage.see()
        await stage.press("w")
        await stage.until(lambda: screen_of(stage) == "ChatScreen")
        await stage.press("?")
        await stage.until(lambda: screen_of(stage) == "HelpScreen")
        await stage.press("escape")
        stage.chat.transcript.focus()
        await stage.press("z")
        assert stage.chat.composer.text == "z", "any other letter goes into the prompt"
        assert stage.chat.composer.prompt.has_focus


async def test_s_asks_a_stronger_worker(tmp_path: Path) -> None:
    def strong(request: Request) -> Iterable[Chunk]:
        yield Text("from the strong one")

    async with staged(tmp_path, code, strong) as stage:
        await stage.ask("code")
        await stage.press("escape", "s")
        await stage.until(lambda: "from the strong one" in stage.see())
        await stage.answered()
        assert "large" in stage.see()


def slow(request: Request) -> Iterable[Chunk | float]:
    """Write for five seconds."""
    for _ in range(500):
        yield Text("word ")
        yield 0.01


async def test_x_takes_back_what_waits(tmp_path: Path) -> None:
    async with staged(tmp_path, slow) as stage:
        await stage.send("first")
        await stage.until(lambda: "word" in stage.see())
        await stage.send("second")
        stage.chat.transcript.focus()
        await stage.press("x")
        assert stage.chat.composer.text == "second"


async def test_lines_are_broken_by_ctrl_j(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.press("a", "ctrl+j", "b", "shift+enter", "c")
        assert stage.chat.composer.text == "a\nb\nc"
        assert stage.chat.composer.prompt.size.height == 3


async def test_keys_in_a_burst_act_in_their_order(tmp_path: Path) -> None:
    """As after a pause of the machine, when all that was typed meanwhile comes at once."""
    async with staged(tmp_path, code) as stage:
        for key in ("a", "b", "c", "backspace", "backspace", "x", "left", "left", "y"):
            stage.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await stage.until(lambda: len(stage.chat.composer.text) == 3)
        assert stage.chat.composer.text == "yax"


async def test_a_prompt_in_the_same_burst_as_ctrl_n_goes_to_the_new_conversation(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path, code) as stage:
        await stage.ask("code")
        for key in ("ctrl+n", "h", "i", "enter"):
            stage.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await stage.until(lambda: [turn.text for turn in stage.chat.transcript.turns[:1]] == ["hi"])
        await stage.answered()
        assert len(await stage.services.store.conversations()) == 2


async def test_a_burst_that_begins_above_the_prompt_ends_in_it(tmp_path: Path) -> None:
    async with staged(tmp_path, code) as stage:
        await stage.ask("code")
        await stage.press("escape")
        assert stage.chat.transcript.has_focus
        for letter in "/budget":
            stage.app.post_message(events.Key("slash" if letter == "/" else letter, letter))
        await stage.until(lambda: len(stage.chat.composer.text) == len("/budget"))
        assert stage.chat.composer.text == "/budget", "u, e and g are letters here"
        await stage.press("escape")
        stage.app.post_message(events.Key("j", "j"))
        await stage.press("escape")
        assert stage.chat.composer.text == "/budget", "alone they are keys again"


async def test_the_prompt_grows_to_a_third_of_the_screen(tmp_path: Path) -> None:
    async with staged(tmp_path, size=(80, 30)) as stage:
        stage.chat.composer.prompt.insert("\n" * 40)
        await stage.pilot.pause()
        assert stage.chat.composer.prompt.outer_size.height == 10


async def test_the_editor_opens_on_ctrl_o(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext

    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nprintf " and more\\033[2J" >> "$1"\n', "utf-8")
    script.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(script))
    monkeypatch.delenv("VISUAL", raising=False)
    async with staged(tmp_path) as stage:
        monkeypatch.setattr(stage.app, "suspend", nullcontext)
        stage.chat.composer.prompt.insert("text")
        await stage.press("ctrl+o")
        assert stage.chat.composer.text == "text and more�[2J"
        monkeypatch.setenv("EDITOR", "sh -c 'echo > \"$0\"'")
        await stage.press("ctrl+o")
        assert stage.chat.composer.text == "text and more�[2J", "an empty file changes nothing"
        assert "nothing was changed" in stage.see()
        monkeypatch.setenv("EDITOR", str(tmp_path / "none"))
        await stage.press("ctrl+o")
        assert "can't be started" in stage.see()


async def test_keys_can_be_rebound(tmp_path: Path) -> None:
    keymap = {"prompt.send": "f5", "prompt.line": "enter"}
    async with staged(tmp_path, code, keymap=keymap) as stage:
        await stage.press("a", "enter", "b")
        assert stage.chat.composer.text == "a\nb"
        assert "F5 send" in stage.see()
        await stage.press("f5")
        await stage.until(lambda: stage.chat.transcript.turns)
        await stage.answered()
        await stage.press("f1")
        await stage.until(lambda: screen_of(stage) == "HelpScreen")


def test_an_unknown_key_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        key_bindings.check_keymap({"prompt.sent": "f5"})
    assert "'prompt.send'" in caught.value.hint


async def test_the_help_shows_every_key_and_command(tmp_path: Path) -> None:
    async with staged(tmp_path, size=(100, 120)) as stage:
        await stage.press("f1")
        await stage.until(lambda: screen_of(stage) == "HelpScreen")
        seen = stage.see()
        for group in key_bindings.GROUPS.values():
            for binding in group:
                assert isinstance(binding, Binding)
                assert key_bindings.binding_keys(binding, {}) in seen
                assert binding.tooltip in seen
        assert "/regenerate" in seen


async def test_each_binding_leads_to_an_action(tmp_path: Path) -> None:
    """Every key that is shown has an action."""
    from baton.tui.screens.conversations_screen import ConversationsScreen
    from baton.tui.screens.dialogs import RenameScreen
    from baton.tui.screens.ledger_screens import EgressScreen, MoneyScreen
    from baton.tui.screens.models_screen import ModelsScreen
    from baton.tui.screens.workflow_screen import StepScreen, WorkflowScreen
    from baton.tui.widgets.question_view import ChoiceView

    async with staged(tmp_path) as stage:
        owners = {
            "Everywhere": type(stage.app),
            "Conversation": stage.chat,
            "Writing a prompt": type(stage.chat.composer.prompt),
            "A question": ChoiceView,
            "Messages (Tab or Esc from the prompt)": type(stage.chat.transcript),
            "Conversations": ConversationsScreen,
            "Its title": RenameScreen,
            "Models": ModelsScreen,
            "Why this way": WorkflowScreen,
            "A step's text": StepScreen,
            "Money": MoneyScreen,
            "What left this machine": EgressScreen,
        }
        assert list(owners) == list(key_bindings.GROUPS)
        for name, group in key_bindings.GROUPS.items():
            for binding in group:
                assert isinstance(binding, Binding)
                scope, _, action = binding.action.partition("(")[0].rpartition(".")
                owner = {"screen": stage.chat, "app": stage.app}.get(scope, owners[name])
                assert hasattr(owner, f"action_{action}"), binding
        for command in slash_commands.COMMANDS:
            scope, _, action = command.action.rpartition(".")
            owner = stage.app if scope == "app" else stage.chat
            assert hasattr(owner, f"action_{action}"), command


async def test_a_title_is_given_with_a_key_that_is_shown(tmp_path: Path) -> None:
    async with staged(tmp_path, code) as stage:
        await stage.ask("code")
        await stage.press("ctrl+r")
        await stage.until(lambda: screen_of(stage) == "RenameScreen")
        assert "Enter rename" in stage.see().splitlines()[-1]
        await stage.press("end", "x", "enter")
        await stage.until(lambda: "codex" in stage.see().splitlines()[0])


async def test_where_nothing_left_nothing_can_be_shown(tmp_path: Path) -> None:
    async with staged(tmp_path, code) as stage:
        await stage.send("/egress")
        await stage.until(lambda: "nothing left yet" in stage.see())
        assert "Enter" not in stage.see().splitlines()[-1]
        await stage.press("enter")
        assert screen_of(stage) == "EgressScreen"


@pytest.mark.sampled(0.5)
async def test_no_line_of_the_help_is_broken_on_a_small_screen(tmp_path: Path) -> None:
    async with staged(tmp_path, size=(80, 24)) as stage:
        await stage.press("f1")
        seen: list[str] = []
        while stage.see() not in seen:
            seen.append(stage.see())
            await stage.press("pagedown")
        text = "\n".join(seen)
        for binding in [binding for group in key_bindings.GROUPS.values() for binding in group]:
            assert isinstance(binding, Binding)
            assert f"{key_bindings.binding_keys(binding, {})}  " in text
            assert f"  {binding.tooltip}  {binding.id}" in text


async def test_commands(tmp_path: Path) -> None:
    async with staged(tmp_path, code) as stage:
        await stage.ask("code")
        await stage.send("/rename Another title")
        await stage.until(lambda: "Another title" in stage.see())
        await stage.send("/exp")
        await stage.until(lambda: "Saved as" in stage.see())
        (saved,) = (tmp_path / "exports").iterdir()
        assert saved.name == "another-title.md"
        assert saved.stat().st_mode & 0o777 == 0o600
        assert "print('one')" in saved.read_text("utf-8")
        await stage.send("/nonsense")
        assert "/nonsense is no command" in stage.see()
        assert stage.chat.composer.text == "/nonsense", "what was typed is kept"
        assert "/new, /search, /rename" in stage.see()
        stage.chat.composer.put("")
        await stage.send("/models")
        assert "/models is no command; did you mean /model?" in stage.see()
        stage.chat.composer.put("")
        await stage.send("/re")
        assert "/re could be several commands: /rename, /regenerate, /recommend." in stage.see()
        stage.chat.composer.put("")
        await stage.send("/model large")
        assert "There is no worker 'large'" in stage.see()
        await stage.send("/help")
        await stage.until(lambda: screen_of(stage) == "HelpScreen")


async def test_what_only_looks_like_a_command_is_sent(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        for text in ("// why?", "/etc/hosts", "/new\nline", "/"):
            await stage.ask(text)
            assert stage.chat.transcript.turns[-2].text == text


async def test_commands_and_paths_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long name.md").touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    async with staged(tmp_path) as stage:
        await stage.press("/", "r", "e", "g")
        assert "Answer the newest prompt again" in stage.see()
        await stage.press("tab")
        assert stage.chat.composer.text == "/regenerate"
        stage.chat.composer.put("see ")
        await stage.press("@", "l", "o")
        await stage.until(lambda: stage.chat.composer.prompt.completion)
        await stage.press("tab")
        assert stage.chat.composer.text == 'see @"long name.md"'
        stage.chat.composer.put("")
        await stage.press("@", "f", "o")
        await stage.until(lambda: stage.chat.composer.prompt.completion)
        await stage.press("tab")
        assert stage.chat.composer.text == "@folder/"


async def test_what_waits_is_kept_as_a_draft(tmp_path: Path) -> None:
    async with staged(tmp_path, slow) as stage:
        await stage.send("first")
        await stage.until(lambda: "word" in stage.see())
        await stage.send("second")
        conversation = stage.chat.context.chat.id or ""
        store = stage.chat.context.services.store
        for _ in range(100):
            if await store.draft(conversation) == "second":
                break
            await asyncio.sleep(0.02)
        assert await store.draft(conversation) == "second"
        await stage.chat.queue.close()
        await stage.chat.conversation.keep_draft()
        assert await store.draft(conversation) == "second"


async def test_words_after_a_command_that_takes_none_are_a_prompt(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.send("/quit smoking, how?")
        await stage.until(lambda: "/quit smoking, how?" in stage.see())
        await stage.send("//help")
        await stage.until(lambda: "/help" in stage.see().replace("//help", ""))


async def test_the_editor_waits_for_the_answer(tmp_path: Path) -> None:
    async with staged(tmp_path, slow) as stage:
        await stage.send("first")
        await stage.until(lambda: "word" in stage.see())
        await stage.press("ctrl+o")
        await stage.until(lambda: "the editor opens when" in stage.see())


@pytest.mark.parametrize("named", ["vim '", "/no/such/editor"])
def test_an_editor_that_is_none_is_a_sentence(named: str) -> None:
    with pytest.raises(ConfigError, match="editor"):
        edit_text("text", environ={"EDITOR": named})
