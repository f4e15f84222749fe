"""The last line shows the keys that are needed most; a click is as good as the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.app_session import AppSession, open_app, remote_script, slow


def footer_of(session: AppSession) -> str:
    return " ".join(session.screen_text().splitlines()[-1].split())


async def click(session: AppSession, text: str, line: int = -1) -> None:
    """Click into the middle of a text on a line of the screen."""
    lines = session.screen_text().splitlines()
    column = lines[line].index(text) + len(text) // 2
    await session.pilot.click(offset=(column, line % len(lines)))
    await session.settled()


@pytest.mark.parametrize(
    ("columns", "first", "writing"),
    [
        (40, "Enter send", "Esc stop"),
        (60, "Enter send Ctrl+P more", "Tab messages Esc stop"),
        (
            80,
            "Enter send Ctrl+J line Esc select Ctrl+P more",
            "Enter send Tab messages Esc stop Ctrl+P more",
        ),
    ],
)
async def test_the_most_needed_keys_stay_in_a_narrow_conversation(
    tmp_path: Path, columns: int, first: str, writing: str
) -> None:
    async with open_app(tmp_path, slow, size=(columns, 20)) as session:
        assert footer_of(session) == f"SmolLM2 135M {first}"
        await session.send("go on")
        await session.wait_until(lambda: "SmolLM2 135M · writing" in footer_of(session))
        assert footer_of(session) == f"SmolLM2 135M · writing {writing}"


@pytest.mark.parametrize(
    ("columns", "money", "conversations", "workflow"),
    [
        (40, "Esc back", "Esc back", "Esc back"),
        (60, "c ceiling w when Esc back", "Enter open Esc back", "Enter read it Esc back"),
        (
            80,
            "c ceiling w when p pace e sent Esc back",
            "Enter open Ctrl+R rename Ctrl+D delete Esc back",
            "Enter read it → page Esc back",
        ),
    ],
)
async def test_the_way_back_stays_on_every_narrow_screen(
    tmp_path: Path, columns: int, money: str, conversations: str, workflow: str
) -> None:
    async with open_app(tmp_path, size=(columns, 20), cloud=remote_script()) as session:
        await session.ask("hello")
        session.chat.context.start(session.chat.budget.run_command, "budget")
        await session.wait_until(lambda: "of $2.00" in footer_of(session))
        assert footer_of(session).endswith(money)
        await session.press("escape", "ctrl+s")
        await session.wait_until(lambda: "1 conversation" in footer_of(session))
        assert footer_of(session).endswith(conversations)
        await session.press("escape", "tab", "w")
        await session.wait_until(lambda: session.screen_name == "WorkflowScreen")
        assert footer_of(session) == workflow


async def test_a_long_status_leaves_the_most_needed_key(tmp_path: Path) -> None:
    async with open_app(tmp_path, slow, size=(60, 20)) as session:
        await session.send("go on")
        await session.wait_until(lambda: "Esc stop" in footer_of(session))
        session.chat.footer.say("x" * 80)
        await session.settled()
        assert footer_of(session).endswith("x… Esc stop")


async def test_a_key_in_the_footer_can_be_clicked(tmp_path: Path) -> None:
    async with open_app(tmp_path, slow, size=(118, 20)) as session:
        session.chat.composer.prompt.insert("go on")
        await click(session, "Enter send")
        await session.wait_until(lambda: "word" in session.screen_text())
        assert session.chat.composer.prompt.has_focus
        await click(session, "SmolLM2 135M · writing")
        assert session.chat.queue.is_busy, "text beside the keys does nothing"
        await click(session, "Esc stop")
        await session.wait_for_answer()
        assert "Stopped here." in session.screen_text()
        await click(session, "Esc select")
        assert session.chat.transcript.has_focus
        await click(session, "? keys")
        await session.wait_until(lambda: session.screen_name == "HelpScreen")
        await click(session, "Esc back")
        await session.wait_until(lambda: session.screen_name == "ChatScreen")


async def test_a_key_of_an_overlay_can_be_clicked(tmp_path: Path) -> None:
    async with open_app(tmp_path, size=(120, 24), cloud=remote_script()) as session:
        session.chat.context.start(session.chat.budget.run_command, "budget")
        await session.wait_until(lambda: "e sent" in footer_of(session))
        await click(session, "e sent")
        await session.wait_until(lambda: session.screen_name == "EgressScreen")
        await click(session, "Esc back")
        await session.wait_until(lambda: session.screen_name == "MoneyScreen")


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("baton", "Everything"),
        ("hello", "RenameScreen"),
        ("context 5 %", "Context of SmolLM2 135M"),
        ("$0.00 of $2.00", "MoneyScreen"),
        ("offline", "> /offline"),
        ("vote", "─ Strategy ─"),
        ("plan first", "> /plan"),
    ],
)
async def test_the_header_can_be_clicked(tmp_path: Path, target: str, shown: str) -> None:
    async with open_app(tmp_path, size=(120, 20), cloud=remote_script()) as session:
        chat = session.chat.context
        await session.ask("hello")
        chat.choose_strategy("vote")
        chat.set_previewing(True)
        session.services.orchestra.go_offline(True)
        chat.show_header()
        chat.header.context = 0.05
        await session.wait_until(lambda: "$0.00 of" in session.screen_text())
        await click(session, target, 0)
        await session.wait_until(lambda: shown in session.screen_text() + session.screen_name)
        assert session.services.orchestra.terms.offline
        assert chat.is_previewing
        assert chat.strategy == "vote"


@pytest.mark.parametrize(("mode", "target"), [("auto", "local first"), ("ultra", "ultra")])
async def test_the_mode_opens_its_choice(tmp_path: Path, mode: str, target: str) -> None:
    async with open_app(tmp_path, size=(100, 20), terms={"mode": mode}) as session:
        await click(session, target, 0)
        await session.wait_until(lambda: f"> {mode}" in session.screen_text())
        assert session.services.orchestra.terms.mode == mode


async def test_what_is_beside_the_header_s_parts_does_nothing(tmp_path: Path) -> None:
    async with open_app(tmp_path, size=(100, 20)) as session:
        before = session.screen_text()
        await session.pilot.click(offset=(50, 0))
        assert session.screen_text() == before


async def test_what_can_be_clicked_looks_as_ever(tmp_path: Path) -> None:
    """It is neither underlined nor coloured, with the mouse over it or not."""
    async with open_app(tmp_path) as session:
        footer = session.chat.footer
        await session.pilot.hover(offset=(76, 23))
        styles = [segment.style for segment in footer.render_line(0) if segment.text.strip()]
        assert any("@click" in style.meta for style in styles if style)
        assert not any(style.underline for style in styles if style)
