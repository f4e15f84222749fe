"""The one menu above the prompt, in the real app: `/`, `@`, Ctrl+P and choices."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from baton.tui.menu_entries import MenuEntry
from baton.tui.widgets.menu_view import MAX_ROWS, MenuRows, MenuView
from support.app_session import AppSession, open_app, remote_script, saying

SAY = saying("Two blocks:\n\n```\none\n```\n")


def menu_of(session: AppSession) -> MenuView:
    return session.app.chat.context.menu


def names(session: AppSession) -> list[str]:
    rows = menu_of(session).query_one(MenuRows).rows
    return [row.name for row in rows if isinstance(row, MenuEntry)]


async def open_menu(session: AppSession, *keys: str) -> None:
    await session.press(*keys)
    await session.wait_until(lambda: menu_of(session).is_open)


def burst(session: AppSession, *keys: str) -> None:
    """Press keys faster than anything is drawn."""
    for key in keys:
        name = {"/": "slash", "@": "at", "?": "question_mark"}.get(key, key)
        session.app.post_message(events.Key(name, key if len(key) == 1 else None))


async def test_everything_is_found_by_its_synonyms_and_done(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await open_menu(session, "ctrl+p")
        await session.wait_for_text("Conversation", "Begin a new conversation", "Ctrl+N")
        await session.press(*"exit")
        assert names(session)[0] == "/quit"
        assert "Ctrl+Q" in session.screen_text()
        await session.press(*["backspace"] * 4, *"money", "enter")
        await session.wait_until(lambda: session.screen_name == "MoneyScreen")
        assert not menu_of(session).is_open
        await session.press("escape")
        assert session.chat.composer.prompt.has_focus
        await open_menu(session, "ctrl+p")
        assert names(session)[0] == "/budget", "what was used last comes first"
        assert "Recent" in session.screen_text()
        await session.press("ctrl+p")
        assert not menu_of(session).is_open


async def test_what_is_being_written_stays_while_the_menu_is_open(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.press(*"half a thought")
        await open_menu(session, "ctrl+p")
        await session.press(*"zzz")
        await session.wait_for_text("Nothing is called that")
        await session.press("enter")
        assert menu_of(session).is_open, "Enter chooses nothing where there is nothing"
        await session.press("escape", "!")
        assert session.chat.composer.text == "half a thought!"


async def test_actions_on_the_selected_message_are_in_the_menu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    async with open_app(tmp_path, SAY) as session:
        monkeypatch.setattr(session.app, "copy_to_clipboard", copied.append)
        await session.ask("first")
        await session.press("escape", "k")
        await open_menu(session, "ctrl+p")
        await session.press(*"/copy", "enter")
        await session.wait_until(lambda: copied == ["first"])
        assert session.chat.transcript.has_focus, "back to the messages"
        await open_menu(session, "ctrl+p")
        await session.press(*"edit", "enter")
        await session.wait_until(lambda: session.chat.composer.editing is not None)
        await session.press("escape")
        session.chat.composer.prompt.focus()
        await open_menu(session, "ctrl+p")
        await session.press(*"copy code", "enter")
        await session.wait_until(lambda: copied[1:] == ["one\n"])


async def test_a_command_is_chosen_with_the_arrows(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await open_menu(session, "/")
        assert len(menu_of(session).query_one(MenuRows).render().plain.splitlines()) == MAX_ROWS
        await session.press("down", "enter")
        await session.wait_until(lambda: session.screen_name == "ConversationsScreen")
        assert session.chat.composer.text == ""
        await session.press("escape")
        await open_menu(session, "/", "n", "up")
        await session.press("escape")
        assert not menu_of(session).is_open
        assert session.chat.composer.text == "/n"
        await session.press("e")
        assert not menu_of(session).is_open, "closed, it stays closed for this word"
        assert session.chat.composer.prompt.has_focus


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (60, 18)])
async def test_the_menu_is_never_cut_off(tmp_path: Path, size: tuple[int, int]) -> None:
    async with open_app(tmp_path, SAY, size=size) as session:
        session.chat.composer.prompt.insert("\n" * 12)
        for key in ("ctrl+p", "escape", "@"):
            await session.press(key)
            await session.settled()
            lines = session.screen_text().splitlines()
            assert lines[0].startswith(" baton")
            assert "Ctrl" in lines[-1] or "Enter" in lines[-1]
            if menu_of(session).is_open:
                rows = menu_of(session).query_one(MenuRows)
                assert rows.region.bottom < session.chat.composer.region.y
                assert menu_of(session).region.y > 1
                for _ in range(MAX_ROWS + 2):
                    await session.press("down")
                    assert "> " in session.screen_text(), "the cursor is always in sight"


async def test_a_click_chooses(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await open_menu(session, "/")
        await session.pilot.click(MenuRows, offset=(5, 1))
        await session.wait_until(lambda: session.screen_name == "ConversationsScreen")
        await session.press("escape")
        await open_menu(session, "ctrl+p")
        await session.pilot.click(session.chat.composer.prompt)
        assert not menu_of(session).is_open, "who clicks somewhere else has left it"
        assert session.chat.composer.prompt.has_focus


async def test_files_are_found_anywhere_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / "app" / "baton"
    deep.mkdir(parents=True)
    (deep / "orchestra.py").write_text("x")
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "orchestra.o").touch()
    (tmp_path / ".gitignore").write_text("built/\n")
    monkeypatch.chdir(tmp_path)
    async with open_app(tmp_path, SAY) as session:
        await session.press(*"see @orch")
        await session.wait_for_text("> app/baton/orchestra.py")
        assert "built" not in session.screen_text()
        await session.press("enter")
        assert session.chat.composer.text == "see @app/baton/orchestra.py "
        assert not session.chat.transcript.turns
        await session.wait_for_text("With orchestra.py")
        await session.press("enter")
        await session.wait_until(lambda: session.chat.transcript.turns)
        await session.wait_for_answer()


async def test_a_path_typed_to_its_end_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.md").write_text("x")
    monkeypatch.chdir(tmp_path)
    async with open_app(tmp_path, SAY) as session:
        await open_menu(session, *"@notes.md")
        await session.press("enter")
        await session.wait_until(lambda: session.chat.transcript.turns)
        assert session.chat.transcript.turns[0].text == "@notes.md"
        await session.wait_for_answer()


async def test_workers_modes_and_strategies_are_chosen_in_the_menu(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY, SAY, cloud=remote_script(), size=(100, 30)) as session:
        await session.send("/model")
        await session.wait_for_text("Who answers", "> small", "All models")
        await session.press("down", "enter")
        assert session.chat.context.worker == "large"
        await session.press(*"/mode ult")
        await session.wait_for_text("> ultra")
        await session.press("tab")
        assert session.chat.composer.text == "/mode ultra"
        await session.press("enter")
        await session.wait_until(lambda: session.services.orchestra.terms.mode == "ultra")
        await session.send("/strategy")
        await session.wait_for_text("Strategy", "> auto")
        await session.press("up", "down", "down", "enter")
        await session.wait_until(lambda: session.chat.context.strategy == "single")
        assert "There are" not in session.screen_text(), "no list in the conversation"


async def test_themes_are_seen_as_the_cursor_moves(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("code")
        await session.send("/theme")
        await session.wait_for_text("> dark")
        await session.press("down")
        await session.wait_until(lambda: session.app.theme == "light")
        await session.press(*"dracula")
        await session.wait_until(lambda: session.app.theme == "dracula")
        await session.press("escape")
        await session.wait_until(lambda: session.app.theme == "dark")
        assert not (tmp_path / "config.toml").exists()
        await session.send("/theme nord")
        await session.wait_until((tmp_path / "config.toml").exists)
        assert session.app.theme == "nord"
        await session.send("/theme nowhere")
        await session.wait_for_text("There is no theme 'nowhere'.")


SPENDING = {
    "stronger": ("ctrl+p", *"stronger"),
    "regenerate": ("/", *"regen"),
    "worker": ("ctrl+p", *"worker", "enter", *"gpt"),
    "mode": (*"/mode u",),
}


@pytest.mark.parametrize("typed", SPENDING.values(), ids=SPENDING)
async def test_text_typed_ahead_chooses_nothing_that_spends(
    tmp_path: Path, typed: tuple[str, ...]
) -> None:
    async with open_app(tmp_path, SAY, cloud=remote_script()) as session:
        await session.ask("hello")
        answer = session.chat.transcript.turns[1].id
        turns, terms = len(session.chat.transcript.turns), session.services.orchestra.terms
        burst(session, *typed, "enter", "enter", "space", "enter", "enter")
        await session.pilot.pause(0.3)
        await session.press("enter", "enter")
        await session.wait_for_answer()
        assert session.asked == []
        assert len(await session.services.store.siblings(answer)) == 1
        assert session.chat.context.worker == "small"
        assert session.services.orchestra.terms == terms
        spent = [turn for turn in session.chat.transcript.turns[turns:] if turn.text == "hello"]
        assert spent == []


async def test_a_second_enter_in_a_burst_sends_no_draft(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.press(*"a draft")
        burst(session, "ctrl+p", *"context", "enter", "enter", "enter")
        await session.wait_for_text("Context of SmolLM2 135M")
        await session.pilot.pause(0.2)
        assert session.chat.composer.text == "a draft"
        assert not session.chat.transcript.turns


async def test_what_spends_is_chosen_with_tab_and_enter(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY, cloud=remote_script()) as session:
        await session.press("ctrl+p", *"worker", "enter", *"gpt")
        await session.wait_for_text("> gpt", "Tab, then Enter does this")
        await session.press("enter")
        assert session.chat.context.worker == "small"
        await session.press("tab", "enter")
        await session.wait_until(lambda: session.chat.context.worker == "gpt")


async def test_without_a_cloud_enter_is_enough(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("hello")
        await session.press(*"/regen", "enter")
        await session.wait_until(lambda: "2 of 2" in session.screen_text())
        await session.wait_for_answer()


async def test_a_question_mark_shows_the_keys_that_work_here(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.press("?")
        await session.wait_until(lambda: session.screen_name == "HelpScreen")
        await session.wait_for_text("Keys that work here", "prompt.send")
        assert "turn.copy" not in session.screen_text()
        await session.press(*"copy")
        await session.wait_for_text("turn.copy", "/copy")
        assert "prompt.send" not in session.screen_text()
        await session.press("escape", "a", "?")
        assert session.chat.composer.text == "a?", "in a prompt it is a letter"
        await session.press("enter")
        await session.wait_for_answer()
        await session.press("escape", "?")
        await session.wait_for_text("turn.copy")
        assert "prompt.send" not in session.screen_text()
        await session.press("escape", "w")
        await session.wait_until(lambda: session.screen_name == "WorkflowScreen")
        await session.press("?")
        await session.wait_for_text("Keys that work here", "workflow.open")


async def test_what_a_cloud_worker_needs_and_how_full_the_context_is(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.press("ctrl+p", *"provider", "enter")
        await session.wait_until(lambda: session.screen_name == "ConnectScreen")
        await session.press("escape")
        await session.send("/context")
        await session.wait_for_text("Context of SmolLM2 135M", "none of it yet")
