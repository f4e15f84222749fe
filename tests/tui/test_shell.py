"""`!`: a command of the user's own, its output, and how it is ended."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from baton.core.messages import Chunk, Request, Text
from baton.tui.chat.input import MAX_BYTES
from support.app_session import AppSession, open_app

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its commands are a POSIX shell's")


def files_seen(session: AppSession) -> list[tuple[str, str]]:
    return [(file.name, file.text) for file in session.chat.composer.pasted]


async def run(session: AppSession, command: str) -> None:
    await session.send(command)
    await session.wait_until(lambda: not session.chat.shell.is_running)


async def test_output_is_attached_after_a_yes_only(tmp_path: Path) -> None:
    seen: list[Request] = []

    def read(request: Request) -> Iterable[Chunk]:
        seen.append(request)
        yield Text("Two lines.")

    async with open_app(tmp_path, read) as session:
        await run(session, "!printf 'one\\ntwo\\n'")
        await session.wait_for_text("one", "two", "Attach the output of", "2 lines, 8 B")
        assert session.chat.transcript.turns == [], "it is no prompt"
        await session.press("escape")
        await session.wait_until(lambda: not session.chat.question)
        assert files_seen(session) == []

        await run(session, "!printf 'one\\ntwo\\n'")
        await session.wait_until(lambda: session.chat.question)
        await session.press("tab", "right", "enter")
        await session.wait_until(lambda: files_seen(session))
        assert files_seen(session) == [("output of printf 'one\\ntwo\\n'", "one\ntwo\n")]
        await session.ask("How many lines?")
        assert "one\ntwo" in seen[0].messages[-1].text
        assert files_seen(session) == []


async def test_what_goes_wrong_is_said(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await run(session, "!printf broken >&2; exit 3")
        await session.wait_for_text("broken", "(exit code 3)")
        await session.press("escape")
        await run(session, "!true")
        await session.wait_for_text("! true", "(no output)")
        assert not session.chat.question


async def test_escape_ends_a_command_with_all_that_it_started(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.send(f"!echo $$ > {tmp_path}/pid; sleep 600 & sleep 600")
        await session.wait_for_text("running echo")
        await session.send("!echo two")
        await session.wait_for_text("one command at a time")
        assert session.chat.composer.text == "!echo two", "it is kept"
        await session.wait_until((tmp_path / "pid").exists)
        await session.press("escape")
        await session.wait_for_text("(stopped)")
        assert not session.chat.shell.is_running


async def test_output_is_sanitised_and_bounded(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await run(
            session, f"!printf '\\033[31mred\\033]0;title\\a\\n'; yes | head -c {2 * MAX_BYTES}"
        )
        await session.wait_until(lambda: session.chat.question)
        assert "its beginning only" in session.screen_line()
        await session.press("tab", "right", "enter")
        await session.wait_until(lambda: files_seen(session))
        ((_, text),) = files_seen(session)
        assert text.startswith("red\ny\n")
        assert len(text) <= MAX_BYTES


async def test_a_space_before_it_makes_it_a_prompt(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.ask(" !important")
        assert session.chat.transcript.turns[0].text.strip() == "!important"
