"""The home: what an empty conversation shows, what it leads to, and that typing always wins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytest_asyncio
from textual.pilot import Pilot

from baton.core.events import Cancelled, Started
from baton.core.history_types import RecentConversation
from baton.core.labels import Label
from baton.core.ledger_types import Scope
from baton.core.messages import Chunk, Prompt, Request, Text, TurnStatus
from baton.core.money import NANO
from baton.core.permissions import RunTerms
from baton.core.ports import NEW, RecordedRun
from baton.history import Store
from baton.tui.widgets.home_view import RecentRow
from baton.workers.scripted_worker import ScriptedWorker
from support.app_session import (
    CARD,
    GPT,
    AppSession,
    open_app,
    remote_script,
    screen_text,
    settled,
    until,
)
from support.screen_looks import (
    LARGE,
    MIDDLE,
    NOW,
    SMALL,
    Execution,
    Look,
    app_of,
    each_look,
    look,
)
from support.store_conversations import ask
from support.stored_runs import BEGUN, call_event

__all__ = ["look"]


@pytest_asyncio.fixture
async def store() -> AsyncIterator[Store]:
    opened = Store(None)
    yield opened
    await opened.aclose()


async def interrupt(store: Store, title: str = "Lisbon with kids") -> RecordedRun:
    """Leave a run of four steps behind that was stopped after two."""
    begun = await store.begin(Prompt(title), NEW, Label.CLOUD)
    started = Started(begun.run, begun.conversation, begun.prompt, begun.answer)
    for event in (started, *BEGUN[1:], Cancelled(at=2.5)):
        await store.append(begun.run, event)
    await store.write(begun.answer, "Facts: one.", TurnStatus.CANCELLED, "small")
    return begun


def rows(session: AppSession) -> list[RecentRow]:
    return list(session.chat.query(RecentRow))


async def test_it_says_what_baton_does_and_how_things_stand(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.wait_for_text("never above your ceiling.", "Cloud off; /connect sets a")
        await session.wait_for_text("Models SmolLM2 135M: tiny, good for a first try, often wrong")
        assert "Continue" not in session.screen_text()
        assert session.chat.composer.prompt.has_focus


async def test_recent_conversations_are_offered_newest_first(tmp_path: Path, store: Store) -> None:
    for title in ("one", "two", "three"):
        await ask(store, title)
    await interrupt(store)
    async with open_app(tmp_path, store=store) as session:
        await session.wait_until(lambda: len(rows(session)) == 3)
        seen = [row.recent for row in rows(session)]
        assert [row.title for row in seen] == ["Lisbon with kids", "three", "two"]
        assert [row.state for row in seen] == ["interrupted at step 3", "", ""]
        await session.wait_for_text("Continue Lisbon with kids", "just now interrupted at step 3")


async def test_tab_and_enter_open_one_and_the_prompt_has_the_focus_again(
    tmp_path: Path, store: Store
) -> None:
    await ask(store, "one")
    await ask(store, "two")
    async with open_app(tmp_path, store=store) as session:
        await session.wait_until(lambda: rows(session))
        await session.press("tab", "tab", "enter")
        await session.wait_until(lambda: session.chat.transcript.turns)
        assert session.chat.transcript.turns[0].text == "one"
        assert session.chat.composer.prompt.has_focus
        assert not rows(session)


async def test_a_click_opens_an_interrupted_one_where_c_continues(
    tmp_path: Path, store: Store
) -> None:
    await interrupt(store)
    async with open_app(tmp_path, store=store) as session:
        await session.wait_until(lambda: rows(session))
        await session.pilot.click(RecentRow)
        await session.wait_for_text("Interrupted after step 2 of 4. c continues from there")
        await session.wait_until(lambda: "c continue" in session.screen_text().splitlines()[-1])
        await session.press("c")
        await session.wait_until(lambda: "kept from before" in session.screen_text())


async def test_the_first_prompt_takes_it_away_and_ctrl_n_brings_it_back(
    tmp_path: Path, store: Store
) -> None:
    await ask(store, "one")
    async with open_app(tmp_path, store=store) as session:
        await session.wait_until(lambda: rows(session))
        await session.ask("hello")
        assert not session.chat.query("HomeView")
        session.chat.composer.prompt.insert("half a thought")
        await session.press("ctrl+n")
        await session.wait_until(lambda: len(rows(session)) == 2)
        assert rows(session)[0].recent.title == "hello"
        assert session.chat.composer.prompt.has_focus
        assert session.chat.composer.text == ""


async def test_an_answer_that_is_written_elsewhere_is_shown_until_it_ends(tmp_path: Path) -> None:
    ends: list[int] = []

    def slow(request: Request) -> Iterable[Chunk | float]:
        yield Text("word ")
        yield from until(lambda: ends)

    async with open_app(tmp_path, slow) as session:
        await session.send("hello")
        await session.wait_for_text("word")
        await session.press("ctrl+n")
        await session.wait_for_text("Continue hello just now being answered")
        ends.append(1)
        await session.wait_until(lambda: [row.recent.state for row in rows(session)] == [""])
        assert session.chat.composer.prompt.has_focus


async def test_letters_on_a_row_go_to_the_prompt(tmp_path: Path, store: Store) -> None:
    await ask(store, "one")
    async with open_app(tmp_path, store=store) as session:
        await session.wait_until(lambda: rows(session))
        await session.press("tab", "h", "i", "enter")
        await session.wait_until(lambda: session.chat.transcript.turns)
        assert session.chat.transcript.turns[0].text == "hi"
        assert not rows(session)


async def test_a_prompt_that_is_quicker_keeps_it_away(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, asked, is_asked = store.runs.recent_conversations, asyncio.Event(), asyncio.Event()

    async def read_late(limit: int) -> list[RecentConversation]:
        asked.set()
        await is_asked.wait()
        return await read(limit)

    monkeypatch.setattr(store.runs, "recent_conversations", read_late)
    async with open_app(tmp_path, store=store, settle=False) as session:
        await session.wait_until(asked.is_set)
        await session.ask("hello")
        is_asked.set()
        await session.settled()
        assert not session.chat.query("HomeView")


async def test_a_conversation_that_is_opened_has_none(tmp_path: Path, store: Store) -> None:
    begun = await ask(store, "one")
    async with open_app(tmp_path, store=store, conversation=begun.conversation) as session:
        await session.wait_until(lambda: session.chat.transcript.turns)
        assert not session.chat.query("HomeView")


async def test_what_is_set_meanwhile_is_shown(tmp_path: Path) -> None:
    async with open_app(tmp_path, cloud=remote_script(), ceilings={}) as session:
        await session.wait_for_text("Cloud off: no ceiling is set; /budget day 2")
        await session.send("/budget day 2")
        await session.wait_for_text("Cloud ask each time · $0.00 of $2.00 today")
        await session.send("/offline on")
        await session.wait_for_text("Cloud off: Baton is offline")
        await session.send("/offline off")
        await session.wait_for_text("Cloud ask each time")
        await session.send("/budget policy never")
        await session.wait_for_text("Cloud off: never asked")
        await session.send("/private on")
        await session.wait_for_text("Cloud off: this conversation is private")


async def test_hostile_titles_are_harmless(tmp_path: Path, store: Store) -> None:
    begun = await ask(store, "one")
    await store.rename(begun.conversation, "\x1b[2J[bold]late\u202egnp\nnext " + "x" * 300)
    async with open_app(tmp_path, store=store) as session:
        await session.wait_until(lambda: rows(session))
        line = next(one for one in session.screen_text().splitlines() if "Continue" in one)
        assert "\x1b" not in line
        assert "\u202e" not in line
        assert "[bold]" in line
        assert "just now" in line, "a long title leaves room"


async def test_a_low_window_has_room_for_one(tmp_path: Path, store: Store) -> None:
    await ask(store, "one")
    await ask(store, "two")
    async with open_app(tmp_path, store=store, size=(60, 16)) as session:
        await session.wait_until(lambda: rows(session))
        assert [row.recent.title for row in rows(session)] == ["two"]


async def test_keys_follow_the_keymap(tmp_path: Path) -> None:
    async with open_app(tmp_path, no_worker=True, keymap={"chat.models": "f6"}) as session:
        await session.wait_for_text("Models none here yet; F6 shows what suits this machine")


async def test_what_was_deleted_is_not_offered_any_more(tmp_path: Path, store: Store) -> None:
    await ask(store, "one")
    await ask(store, "two")
    async with open_app(tmp_path, store=store) as session:
        await session.wait_until(lambda: len(rows(session)) == 2)
        await session.press("ctrl+s")
        await session.wait_for_text("2 conversations")
        await session.press("ctrl+d")
        await session.wait_for_text("deleted; Ctrl+Z brings it back")
        await session.settled()
        await session.press("escape")
        await session.wait_until(lambda: [r.recent.title for r in rows(session)] == ["one"])


# How it looks


async def home(pilot: Pilot[None]) -> None:
    app_of(pilot)
    await settled(pilot)
    await pilot.press("ctrl+n")
    await settled(
        pilot,
        lambda: len(pilot.app.screen.query(RecentRow)) == 3 and "Tab" in screen_text(pilot.app),
    )


async def row(pilot: Pilot[None]) -> None:
    await home(pilot)
    await pilot.press("tab", "tab")
    await settled(pilot)


LOOKS = [
    *((home, size, theme) for size in (SMALL, MIDDLE, LARGE)
      for theme in ("dark", "light", "high-contrast")),
    (row, SMALL, "dark"),
    (row, MIDDLE, "light"),
]  # fmt: skip


@each_look(LOOKS)
def test_look_of_the_home(
    look: Look, monkeypatch: pytest.MonkeyPatch, act: Execution, size: tuple[int, int], theme: str
) -> None:
    age = 0.0
    monkeypatch.setattr("baton.history.changes.time", SimpleNamespace(time=lambda: NOW - age))
    monkeypatch.setattr("baton.tui.chat.onboarding.time", SimpleNamespace(time=lambda: NOW))

    async def execute(pilot: Pilot[None]) -> None:
        nonlocal age
        age = 26 * 3600.0
        await ask(look.store, "Which verbs take the subjunctive in Portuguese, and why?")
        age = 3700.0
        asked = await ask(look.store, "Bell's inequality")
        await look.store.append(asked.run, call_event(1, "gpt", 1.0, 3_000_000, NANO // 100))
        age = 130.0
        await interrupt(look.store)
        await act(pilot)

    workers = {
        "small": ScriptedWorker(card=CARD),
        "gpt": ScriptedWorker(remote_script(), GPT),
    }
    assert look.is_unchanged(workers, execute, size, theme, terms=RunTerms({Scope.DAY: 2 * NANO}))
