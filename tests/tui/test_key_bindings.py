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
from support.app_session import AppSession, open_app, slow

CODE = "Two blocks:\n\n```python\nprint('one')\n```\n\nand\n\n```\ntwo\n```\n"


def code(request: Request) -> Iterable[Chunk]:
    yield Text(CODE)


class StubClipboards:
    """Stands in for the clipboards."""

    def __init__(self, session: AppSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        monkeypatch.delenv("DISPLAY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setattr(session.app, "copy_to_clipboard", self.texts.append)


@pytest.mark.parametrize(
    ("key", "screen"),
    [
        ("f1", "HelpScreen"),
        ("ctrl+s", "ConversationsScreen"),
        ("ctrl+l", "ModelsScreen"),
        ("ctrl+r", "RenameScreen"),
    ],
)
async def test_keys_that_open_a_screen(tmp_path: Path, key: str, screen: str) -> None:
    async with open_app(tmp_path, code) as session:
        await session.ask("code")
        await session.press(key)
        await session.wait_until(lambda: session.screen_name == screen)
        await session.press("escape")
        await session.wait_until(lambda: session.screen_name == "ChatScreen")


async def test_keys_on_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_app(tmp_path, code) as session:
        copied = StubClipboards(session, monkeypatch)
        await session.ask("code")
        await session.press("tab", "y")
        await session.wait_until(lambda: copied.texts == [CODE])
        await session.wait_for_text("sent 11 lines to the terminal, which may copy it")
        await session.press("u")
        await session.wait_until(lambda: copied.texts[1:] == ["print('one')\n"])
        await session.wait_for_text("block 1 of 2")
        await session.press("u")
        await session.wait_until(lambda: copied.texts[2:] == ["two\n"])
        await session.press("k", "y")
        await session.wait_until(lambda: copied.texts[3:] == ["code"])
        await session.press("j", "w")
        await session.wait_until(lambda: session.screen_name == "WorkflowScreen")
        assert "SmolLM2 135M" in session.screen_text()
        await session.press("w")
        await session.wait_until(lambda: session.screen_name == "ChatScreen")
        await session.press("?")
        await session.wait_until(lambda: session.screen_name == "HelpScreen")
        await session.press("escape")
        session.chat.transcript.focus()
        await session.press("z")
        assert session.chat.composer.text == "z", "any other letter goes into the prompt"
        assert session.chat.composer.prompt.has_focus


async def test_s_asks_a_stronger_worker(tmp_path: Path) -> None:
    def strong(request: Request) -> Iterable[Chunk]:
        yield Text("from the strong one")

    async with open_app(tmp_path, code, strong) as session:
        await session.ask("code")
        await session.press("escape", "s")
        await session.wait_until(lambda: "from the strong one" in session.screen_text())
        await session.wait_for_answer()
        assert "Baton · Qwen 4B" in session.screen_text()


async def test_x_takes_back_what_waits(tmp_path: Path) -> None:
    async with open_app(tmp_path, slow) as session:
        await session.send("first")
        await session.wait_until(lambda: "word" in session.screen_text())
        await session.send("second")
        session.chat.transcript.focus()
        await session.press("x")
        assert session.chat.composer.text == "second"


async def test_lines_are_broken_by_ctrl_j(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.press("a", "ctrl+j", "b", "shift+enter", "c")
        assert session.chat.composer.text == "a\nb\nc"
        assert session.chat.composer.prompt.size.height == 3


async def test_keys_in_a_burst_act_in_their_order(tmp_path: Path) -> None:
    """As after a pause of the machine, when all that was typed meanwhile comes at once."""
    async with open_app(tmp_path, code) as session:
        for key in ("a", "b", "c", "backspace", "backspace", "x", "left", "left", "y"):
            session.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await session.wait_until(lambda: len(session.chat.composer.text) == 3)
        assert session.chat.composer.text == "yax"


async def test_a_prompt_in_the_same_burst_as_ctrl_n_goes_to_the_new_conversation(
    tmp_path: Path,
) -> None:
    async with open_app(tmp_path, code) as session:
        await session.ask("code")
        for key in ("ctrl+n", "h", "i", "enter"):
            session.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await session.wait_until(
            lambda: [turn.text for turn in session.chat.transcript.turns[:1]] == ["hi"]
        )
        await session.wait_for_answer()
        assert len(await session.services.store.conversations()) == 2


async def test_a_burst_that_begins_above_the_prompt_ends_in_it(tmp_path: Path) -> None:
    async with open_app(tmp_path, code) as session:
        await session.ask("code")
        await session.press("escape")
        assert session.chat.transcript.has_focus
        for letter in "/budget":
            session.app.post_message(events.Key("slash" if letter == "/" else letter, letter))
        await session.wait_until(lambda: len(session.chat.composer.text) == len("/budget"))
        assert session.chat.composer.text == "/budget", "u, e and g are letters here"
        await session.press("escape", "escape")  # the first one closes the menu
        session.app.post_message(events.Key("j", "j"))
        await session.press("escape")
        assert session.chat.composer.text == "/budget", "alone they are keys again"


async def test_the_prompt_grows_to_a_third_of_the_screen(tmp_path: Path) -> None:
    async with open_app(tmp_path, size=(80, 30)) as session:
        session.chat.composer.prompt.insert("\n" * 40)
        await session.settled()
        assert session.chat.composer.prompt.outer_size.height == 10


async def test_the_editor_opens_on_ctrl_o(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext

    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nprintf " and more\\033[2J" >> "$1"\n', "utf-8")
    script.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(script))
    monkeypatch.delenv("VISUAL", raising=False)
    async with open_app(tmp_path) as session:
        monkeypatch.setattr(session.app, "suspend", nullcontext)
        session.chat.composer.prompt.insert("text")
        await session.press("ctrl+o")
        assert session.chat.composer.text == "text and more"
        monkeypatch.setenv("EDITOR", "sh -c 'echo > \"$0\"'")
        await session.press("ctrl+o")
        assert session.chat.composer.text == "text and more", "an empty file changes nothing"
        assert "nothing was changed" in session.screen_text()
        monkeypatch.setenv("EDITOR", str(tmp_path / "none"))
        await session.press("ctrl+o")
        assert "can't be started" in session.screen_text()


async def test_keys_can_be_rebound(tmp_path: Path) -> None:
    keymap = {"prompt.send": "f5", "prompt.line": "enter"}
    async with open_app(tmp_path, code, keymap=keymap) as session:
        await session.press("a", "enter", "b")
        assert session.chat.composer.text == "a\nb"
        assert "F5 send" in session.screen_text()
        await session.press("f5")
        await session.wait_until(lambda: session.chat.transcript.turns)
        await session.wait_for_answer()
        await session.press("f1")
        await session.wait_until(lambda: session.screen_name == "HelpScreen")


def test_an_unknown_key_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        key_bindings.check_keymap({"prompt.sent": "f5"})
    assert "'prompt.send'" in caught.value.hint


@pytest.mark.parametrize("name", ["app.quit", "chat.new", "prompt.send"])
@pytest.mark.parametrize("keys", ["n", "f5,n", "space"])
def test_a_letter_is_refused_for_what_works_while_a_prompt_is_written(name: str, keys: str) -> None:
    with pytest.raises(ConfigError, match="no prompt could hold that letter"):
        key_bindings.check_keymap({name: keys})


@pytest.mark.parametrize("name", ["turn.copy", "workflow.up", "chat.models"])
def test_where_no_prompt_is_written_a_letter_may_be_a_key(name: str) -> None:
    key_bindings.check_keymap({name: "n"})


async def test_the_help_shows_every_key_and_command(tmp_path: Path) -> None:
    async with open_app(tmp_path, size=(100, 190)) as session:
        await session.press("f1")
        await session.wait_until(lambda: session.screen_name == "HelpScreen")
        seen = session.screen_text()
        for group in key_bindings.GROUPS.values():
            for binding in group:
                assert isinstance(binding, Binding)
                assert key_bindings.binding_keys(binding, {}) in seen
                assert binding.tooltip in seen
        assert "/regenerate" in seen


async def test_each_binding_leads_to_an_action(tmp_path: Path) -> None:
    """Every key that is shown has an action."""
    from baton.tui.chat.side_bar import WaitingList
    from baton.tui.screens.connect_screen import ConnectScreen
    from baton.tui.screens.conversations_screen import ConversationsScreen
    from baton.tui.screens.help_screen import HelpScreen
    from baton.tui.screens.models_screen import ModelsScreen
    from baton.tui.screens.money_screen import MoneyScreen
    from baton.tui.screens.overlay import CeilingScreen, RenameScreen
    from baton.tui.screens.traffic_screens import EgressScreen, ServeScreen
    from baton.tui.screens.workflow_screen import StepScreen, WorkflowScreen
    from baton.tui.widgets.plan_card import PlanCard, StepEditor, WorkerMenu
    from baton.tui.widgets.question_view import ChoiceView

    async with open_app(tmp_path) as session:
        owners = {
            "Everywhere": type(session.app),
            "Conversation": session.chat,
            "The side bar (Tab, Tab to what waits)": WaitingList,
            "The menu": session.chat,
            "Writing a prompt": type(session.chat.composer.prompt),
            "A question": ChoiceView,
            "A plan (Tab to its choices)": PlanCard,
            "A step's worker": WorkerMenu,
            "A step's instruction": StepEditor,
            "Messages (Tab or Esc from the prompt)": type(session.chat.transcript),
            "Conversations": ConversationsScreen,
            "Its title": RenameScreen,
            "Models": ModelsScreen,
            "Workflow": WorkflowScreen,
            "A step's text": StepScreen,
            "Money": MoneyScreen,
            "The ceiling for a day": CeilingScreen,
            "What left this machine": EgressScreen,
            "Other programs": ServeScreen,
            "A cloud provider": ConnectScreen,
            "This help": HelpScreen,
        }
        assert list(owners) == list(key_bindings.GROUPS)
        for name, group in key_bindings.GROUPS.items():
            for binding in group:
                assert isinstance(binding, Binding)
                scope, _, action = binding.action.partition("(")[0].rpartition(".")
                owner = {"screen": session.chat, "app": session.app}.get(scope, owners[name])
                assert hasattr(owner, f"action_{action}"), binding
        for command in slash_commands.COMMANDS:
            scope, _, action = command.action.rpartition(".")
            owner = session.app if scope == "app" else session.chat
            assert hasattr(owner, f"action_{action}"), command


async def test_a_title_is_given_with_a_key_that_is_shown(tmp_path: Path) -> None:
    async with open_app(tmp_path, code) as session:
        await session.ask("code")
        await session.press("ctrl+r")
        await session.wait_until(lambda: session.screen_name == "RenameScreen")
        assert "Enter rename" in session.screen_text().splitlines()[-1]
        await session.press("end", "x", "enter")
        await session.wait_until(lambda: "codex" in session.screen_text().splitlines()[0])


async def test_where_nothing_left_nothing_can_be_shown(tmp_path: Path) -> None:
    async with open_app(tmp_path, code) as session:
        await session.send("/egress")
        await session.wait_until(lambda: "nothing left yet" in session.screen_text())
        assert "Enter" not in session.screen_text().splitlines()[-1]
        await session.press("enter")
        assert session.screen_name == "EgressScreen"


@pytest.mark.sampled(0.5)
async def test_no_line_of_the_help_is_broken_on_a_small_screen(tmp_path: Path) -> None:
    async with open_app(tmp_path, size=(80, 24)) as session:
        await session.press("f1")
        seen: list[str] = []
        while session.screen_text() not in seen:
            seen.append(session.screen_text())
            await session.press("pagedown")
        text = "\n".join(seen)
        for binding in [binding for group in key_bindings.GROUPS.values() for binding in group]:
            assert isinstance(binding, Binding)
            assert f"{key_bindings.binding_keys(binding, {})}  " in text
            assert f"  {binding.tooltip}  {binding.id}" in text


async def test_commands(tmp_path: Path) -> None:
    async with open_app(tmp_path, code) as session:
        await session.ask("code")
        await session.send("/rename Another title")
        await session.wait_until(lambda: "Another title" in session.screen_text())
        await session.send("/exp")
        await session.wait_until(lambda: "Saved as" in session.screen_text())
        (saved,) = (tmp_path / "exports").iterdir()
        assert saved.name == "another-title.md"
        assert saved.stat().st_mode & 0o777 == 0o600
        assert "print('one')" in saved.read_text("utf-8")
        await session.send("/unknown")
        assert "/unknown isn't a command" in session.screen_text()
        assert session.chat.composer.text == "/unknown", "what was typed is kept"
        await session.wait_for_text("/new, /search, /find, /rename")
        session.chat.composer.put("")
        await session.send("/models")
        await session.wait_for_text("Who answers", "> small")
        await session.press("escape")
        await session.send("/model large")
        assert "There is no worker 'large'" in session.screen_text()
        await session.send("/help")
        await session.wait_until(lambda: session.screen_name == "HelpScreen")


async def test_what_only_looks_like_a_command_is_sent(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        for text in ("// why?", "/etc/hosts", "/new\nline"):
            await session.ask(text)
            assert session.chat.transcript.turns[-2].text == text


async def test_commands_and_paths_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long name.md").touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    async with open_app(tmp_path) as session:
        await session.press("/", "r", "e", "g")
        assert "Answer the prompt again" in session.screen_text()
        await session.press("tab")
        assert session.chat.composer.text == "/regenerate"
        session.chat.composer.put("see ")
        await session.press("@", "l", "o")
        await session.wait_until(lambda: "> long name.md" in session.screen_text())
        await session.press("tab")
        assert session.chat.composer.text == 'see @"long name.md" '
        session.chat.composer.put("")
        await session.press("@", "f", "o")
        await session.wait_until(lambda: "> folder/" in session.screen_text())
        await session.press("tab")
        assert session.chat.composer.text == "@folder/"


async def test_what_waits_is_kept_as_a_draft(tmp_path: Path) -> None:
    async with open_app(tmp_path, slow) as session:
        await session.send("first")
        await session.wait_until(lambda: "word" in session.screen_text())
        await session.send("second")
        conversation = session.chat.context.chat.id or ""
        store = session.chat.context.services.store
        for _ in range(1500):  # machines are busy at times
            if await store.draft(conversation) == "second":
                break
            await asyncio.sleep(0.02)
        assert await store.draft(conversation) == "second"
        await session.chat.queue.close()
        await session.chat.conversation.keep_draft()
        assert await store.draft(conversation) == "second"


async def test_words_after_a_command_that_takes_none_are_a_prompt(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.send("/quit smoking, how?")
        await session.wait_until(lambda: "/quit smoking, how?" in session.screen_text())
        await session.send("//help")
        await session.wait_until(lambda: "/help" in session.screen_text().replace("//help", ""))


async def test_the_editor_waits_for_the_answer(tmp_path: Path) -> None:
    async with open_app(tmp_path, slow) as session:
        await session.send("first")
        await session.wait_until(lambda: "word" in session.screen_text())
        await session.press("ctrl+o")
        await session.wait_until(lambda: "the editor opens when" in session.screen_text())


@pytest.mark.parametrize("named", ["vim '", "/no/such/editor"])
def test_an_editor_that_is_none_is_a_sentence(named: str) -> None:
    with pytest.raises(ConfigError, match="editor"):
        edit_text("text", environ={"EDITOR": named})
