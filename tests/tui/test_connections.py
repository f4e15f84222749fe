"""`/connect`: a provider is set up in the app, with its key and a ceiling, and can be asked."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from baton.compose import Baton, library
from baton.compose.local_workers import LocalWorkers
from baton.compose.remote_workers import RemoteWorkers
from baton.core.ledger_types import Scope
from baton.core.run.orchestra import Orchestra
from baton.history import Store
from baton.platform import secrets
from baton.platform.paths import find_paths
from baton.platform.settings import Settings
from baton.workers.scripted_worker import ScriptedWorker
from support.app_session import CARD, AppSession, open_app, settled, sorry
from support.fake_cloud import Cloud, Reply
from support.keyrings import LockedKeyring, MemoryKeyring, use
from support.screen_looks import LARGE, SMALL, Look, app_of, each_look, look

__all__ = ["look"]

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> MemoryKeyring:
    monkeypatch.setattr(secrets, "_stuck_thread", None)
    keyring = MemoryKeyring()
    use(monkeypatch, keyring)
    return keyring


def composed(folder: Path, made: list[Baton]) -> Callable[[Orchestra], Mapping[str, Any]]:
    """Return what gives the app the way to connect that `compose` gives it."""

    def equip(orchestra: Orchestra) -> Mapping[str, Any]:
        paths, settings, services = paths_of(folder), Settings(), orchestra.services
        stock = library(settings, paths)
        assert isinstance(services.store, Store)
        ledger: Any = services.ledger
        away = RemoteWorkers(settings, paths, ledger)
        local = LocalWorkers(settings, stock)
        made.append(Baton(orchestra, services.store, ledger, settings, paths, stock, local, away))
        return {"connect": made[-1].connect}

    return equip


def paths_of(folder: Path) -> Any:
    return find_paths({"BATON_HOME": str(folder / "home")})


@asynccontextmanager
async def connecting(folder: Path, command: str = "/connect") -> AsyncIterator[AppSession]:
    """Open the app, and the screen that connects."""
    made: list[Baton] = []
    async with open_app(folder, sorry, equip=composed(folder, made)) as session:
        await session.send(command)
        await session.wait_until(lambda: session.screen_name == "ConnectScreen")
        yield session
    await made[0].remote.aclose()


def worker_ids(session: AppSession) -> list[str]:
    return [card.id for card in session.services.orchestra.roster]


async def test_a_provider_its_key_and_a_ceiling(tmp_path: Path, keyring: MemoryKeyring) -> None:
    async with connecting(tmp_path) as session:
        await session.press(*"openai/gpt-5-mini", "enter", *KEY, "enter")
        assert KEY not in session.screen_text()
        await session.press("enter")
        await session.wait_for_text("gpt-5-mini is a worker from now on", "At most $0.50 for")
        assert KEY not in session.screen_text()
        assert worker_ids(session) == ["small", "gpt-5-mini"]
        terms = session.services.orchestra.terms
        assert terms.ceilings == {Scope.DAY: 500_000_000}
    assert keyring.kept == {("baton", "openai"): KEY}
    config = tomllib.loads(paths_of(tmp_path).config_file.read_text())
    assert config["workers"] == [
        {"id": "gpt-5-mini", "kind": "cloud", "model": "openai/gpt-5-mini"}
    ]
    assert KEY not in paths_of(tmp_path).config_file.read_text()


async def test_leaving_it_adds_nothing(tmp_path: Path, keyring: MemoryKeyring) -> None:
    async with connecting(tmp_path, "/connect openai/gpt-5-mini") as session:
        await session.press(*KEY, "escape")
        await session.wait_until(lambda: session.screen_name == "ChatScreen")
        assert worker_ids(session) == ["small"]
    assert not keyring.kept
    assert not paths_of(tmp_path).config_file.exists()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("nobody/gpt", "", "1"), "is neither an address nor a provider's model"),
        (("openai/gpt-5-mini", "two words", "1"), "not a key"),
        (("openai/gpt-5-mini", "", "many"), "many"),
        (("http://127.0.0.1:1/v1 gpt", KEY, "1"), "A key goes to a provider only"),
    ],
)
async def test_what_is_wrong_is_said_and_nothing_is_lost(
    tmp_path: Path, keyring: MemoryKeyring, typed: tuple[str, str, str], said: str
) -> None:
    model, key, ceiling = typed
    async with connecting(tmp_path) as session:
        await session.press(*model, "enter", *key, "enter", "ctrl+u", *ceiling, "enter")
        await session.wait_until(lambda: said in session.screen_line())
        assert model.split()[0] in session.screen_text()
        assert worker_ids(session) == ["small"]
    assert not keyring.kept


async def test_without_a_keyring_plain_text_needs_a_yes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "_stuck_thread", None)
    use(monkeypatch, LockedKeyring())
    async with connecting(tmp_path) as session:
        await session.press(*"openai/gpt-5-mini", "enter", *KEY, "enter", "enter")
        await session.wait_for_text("Keep the key as plain text?")
        assert not paths_of(tmp_path).config_file.exists()
        await session.press("enter")  # the cursor is on leaving it
        await session.wait_until(lambda: session.screen_name == "ConnectScreen")
        assert not paths_of(tmp_path).keys_file.exists()
        await session.press("enter")
        await session.wait_for_text("Keep the key as plain text?")
        await session.press("right", "enter")
        await session.wait_for_text("gpt-5-mini is a worker from now on")
    assert KEY in paths_of(tmp_path).keys_file.read_text()


async def test_what_was_connected_answers_within_the_ceiling(
    tmp_path: Path, keyring: MemoryKeyring
) -> None:
    with Cloud(reply=Reply(text="Far away it is known.")) as cloud:
        async with connecting(tmp_path, f"/connect {cloud.base('server')} gpt-5-mini") as session:
            await session.press("enter", "enter")
            await session.wait_for_text("costs isn't known", "What does it cost?")
            await session.press(*"0.25 2", "enter")
            await session.wait_for_text("gpt-5-mini is a worker from now on", "At most $0.50")
            await session.send("Who knows?")
            await session.wait_for_text("Ask gpt-5-mini?")
            assert cloud.posts == 0
            await session.press("tab", "right", "enter")
            await session.wait_for_text("Far away it is known.")
            await session.wait_for_answer()
            standing = await session.services.orchestra.standing()
            [day] = [room for room in standing.rooms if room.scope is Scope.DAY]
            assert 0 < day.used <= 500_000_000
        assert cloud.posts == 1


async def connect(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await settled(pilot, lambda: app.chat.context.can_answer)
    await pilot.press(*"/connect", "enter")
    await settled(pilot, lambda: type(app.screen).__name__ == "ConnectScreen")
    await pilot.press(*"openai/gpt-5-mini", "enter")
    await settled(pilot, lambda: True)


@each_look([(connect, SMALL, "dark"), (connect, LARGE, "light")])
def test_how_connecting_looks(look: Look, act: Any, size: tuple[int, int], theme: str) -> None:
    assert look.is_unchanged({"small": ScriptedWorker(card=CARD)}, act, size, theme)
