"""What goes wrong around the app is said, and the app continues."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from baton.core.errors import StoreError
from baton.core.messages import Chunk, Request, Text
from baton.money import Ledger
from baton.platform.settings import load_settings
from baton.tui import crash_report
from baton.tui.app import BatonApp, crash_message
from support.app_session import AppSession, open_app, remote_script, sorry


def break_store(session: AppSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything fail that the store is asked for."""

    async def fail(*_: object, **__: object) -> None:
        raise StoreError("The disk is gone.", "Bring it back.")

    store = session.services.store
    for part in (store, store.runs, store.feedback, store.archive):
        for name, method in vars(type(part)).items():
            if inspect.iscoroutinefunction(method) and name != "aclose":
                monkeypatch.setattr(part, name, fail)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "keys",
    [
        ("up",),
        ("tab", "w"),
        ("tab", "["),
        ("tab", "r"),
        ("ctrl+n",),
        ("ctrl+s",),
        ("ctrl+r", "x", "enter"),
        (*"/export", "enter"),
        (*"/private", "enter"),
        (*"hello", "enter"),
    ],
    ids="-".join,
)
async def test_a_store_that_fails_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    async with open_app(tmp_path) as session:
        await session.ask("hello")
        break_store(session, monkeypatch)
        await session.press(*keys)
        await session.wait_until(lambda: "The disk is gone." in session.screen_text())
        monkeypatch.undo()
        session.chat.composer.put("")
        await session.press("escape")
        session.chat.composer.prompt.focus()
        await session.press("o", "k")
        assert session.app.is_running
        assert session.app.report is None


@pytest.mark.sampled
@pytest.mark.parametrize("keys", [("ctrl+d",), ("ctrl+r", "x", "enter"), ("ctrl+e",), ("ctrl+z",)])
async def test_a_store_that_fails_in_the_list_is_reported_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    async with open_app(tmp_path) as session:
        await session.ask("one")
        await session.press("ctrl+n")
        await session.ask("two")
        await session.press("ctrl+s")
        await session.wait_until(lambda: "2 conversations" in session.screen_text())
        if keys == ("ctrl+z",):
            await session.press("ctrl+d")
            await session.wait_until(lambda: "deleted" in session.screen_text())
        break_store(session, monkeypatch)
        await session.press(*keys)
        await session.wait_until(lambda: "The disk is gone." in session.screen_text())
        monkeypatch.undo()
        await session.press("escape")
        await session.wait_until(lambda: session.app.screen is session.chat)


async def test_an_answer_that_cannot_be_shown_is_written_and_the_next_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreError("The disk is gone.")

    def script(request: Request) -> Iterable[Chunk | float]:
        yield 0.2
        yield Text("written")

    async with open_app(tmp_path, script) as session:
        with monkeypatch.context() as broken:
            broken.setattr(session.services.store.runs, "turns", fail)
            await session.send("one")
            await session.wait_until(lambda: "The disk is gone." in session.screen_text())
            await session.send("two")
            await session.wait_for_answer()
        (kept,) = await session.services.store.conversations()
        texts = [turn.text for turn in await session.services.store.thread(kept.id)]
        assert texts == ["one", "written", "two", "written"]


async def test_a_refused_prompt_comes_back_before_what_was_typed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(tmp_path) as session:

        async def begin(*_: object) -> None:
            session.chat.composer.prompt.insert("and more")
            raise StoreError("The disk is full.")

        monkeypatch.setattr(session.services.store, "begin", begin)
        await session.send("precious")
        await session.wait_until(lambda: session.chat.composer.text == "precious\n\nand more")


async def test_a_bug_whose_report_cannot_be_written_is_reported_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    async def explode(_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(crash_report, "write_report", refuse)
    monkeypatch.setattr("baton.tui.chat.conversation.ConversationController.open_new", explode)
    app: BatonApp | None = None

    async def crashing() -> None:
        nonlocal app
        async with open_app(tmp_path) as session:
            app = session.app
            await session.press("ctrl+n")
            await session.wait_until(lambda: not session.app.is_running)

    with pytest.raises(ValueError, match="a bug"):
        await crashing()
    assert app is not None
    assert app.return_code == 1
    assert "No report" in crash_message(app.report, tmp_path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "keys", ["/budget", "/budget day 2", "/egress", "/budget release", "hello"]
)
async def test_a_ledger_that_fails_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise StoreError("The ledger is gone.", "Bring it back.")

    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        for name in vars(Ledger):
            if not name.startswith("_") and name not in ("aclose", "open", "warning"):
                monkeypatch.setattr(session.services.ledger, name, fail)
        await session.send(keys)
        await session.wait_until(lambda: "The ledger is gone." in session.screen_text())
        assert load_settings(session.services.config, {}).budget.ceilings == {}
        monkeypatch.undo()
        await session.press("escape")
        await session.wait_for_answer()
        assert session.app.is_running
        assert session.app.report is None


async def test_what_turns_out_later_of_the_router_is_said_once_it_is_known(tmp_path: Path) -> None:
    heard: list[Callable[[str], object]] = []
    async with open_app(tmp_path, report_later=heard.append) as session:
        (report,) = heard
        report("A rule decides where prompts go.")
        await session.wait_until(
            lambda: "A rule decides where prompts go." in session.screen_text()
        )
        await session.ask("Hello")
        assert "Hello" in session.screen_text()


@pytest.mark.sampled
@pytest.mark.parametrize("key", ["", "ctrl+s", "ctrl+l", "ctrl+p", "f1"])
async def test_a_window_too_small_for_anything_does_no_harm(tmp_path: Path, key: str) -> None:
    """As a pane that a tiling window manager or tmux made a few columns wide."""
    async with open_app(tmp_path, lambda _: [Text("Parx.")], size=(2, 1)) as session:
        await session.ask("Where?")
        if key:
            await session.press(key)
        for size in ((1, 1), (3, 200), (5, 24), (8, 1), (300, 1), (7, 24)):
            await session.pilot.resize_terminal(*size)
            await session.wait_until(lambda: session.app.screen.size == session.app.size)
            await session.settled()
        await session.pilot.resize_terminal(80, 24)
        if key:
            await session.press("escape")
        await session.wait_until(lambda: "Parx." in session.screen_text())
