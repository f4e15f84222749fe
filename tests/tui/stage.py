"""What the tests of the app begin with: a real store in memory and a scripted worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from baton.adapters.scripted import Script, ScriptedWorker
from baton.adapters.store import Store
from baton.domain.chat import Card
from baton.engine.orchestra import Orchestra
from baton.tui.app import BatonApp
from baton.tui.desk import Desk

CARD = Card(
    "small",
    "local",
    "SmolLM2 135M",
    context=4096,
    size=98_000_000,
    parameters=135_000_000,
    licence="Apache-2.0",
    note="Tiny, good for a first try, often wrong.",
    hardware="CPU only",
)
STRONG = replace(CARD, id="large", name="Qwen 4B", size=2_700_000_000, parameters=4_000_000_000)


class Stage:
    """An app on its stage: `type`, `press` and `see` are what a person does."""

    def __init__(self, app: BatonApp, pilot: Pilot[None], desk: Desk) -> None:
        self.app = app
        self.pilot = pilot
        self.desk = desk
        self.chat = app.chat

    async def press(self, *keys: str) -> None:
        """Press keys, and let the app do what they ask."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def send(self, text: str) -> None:
        """Write a prompt and send it."""
        self.chat.composer.prompt.insert(text)
        await self.press("enter")

    async def until(self, condition: Callable[[], object], seconds: float = 10) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(seconds):
            while not condition():
                await self.pilot.pause(0.02)

    async def answered(self) -> None:
        """Wait until nothing is being written any more."""
        await self.until(lambda: not self.chat.player.busy and not self.chat.player.waiting)
        await self.pilot.pause()

    async def ask(self, text: str) -> None:
        """Send a prompt and wait for its answer."""
        await self.send(text)
        await self.until(lambda: self.chat.player.busy or self.chat.transcript.turns)
        await self.answered()

    def see(self) -> str:
        """Return what is on the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text for strip in strips)


@asynccontextmanager
async def staged(
    folder: Path,
    *scripts: Script,
    store: Store | None = None,
    size: tuple[int, int] = (80, 24),
    keymap: dict[str, str] | None = None,
    theme: str = "dark",
    **desk: Any,
) -> AsyncIterator[Stage]:
    """Open the app with one worker per script (`small`, then `large`)."""
    cards = (CARD, STRONG)
    workers = {
        card.id: ScriptedWorker(script, card) for card, script in zip(cards, scripts, strict=False)
    }
    if not workers:
        workers = {"small": ScriptedWorker(card=CARD)}
    kept = store or Store.open(None)
    table = Desk(
        Orchestra(workers, kept, "small"), kept, folder / "exports", folder / "logs", **desk
    )
    app = BatonApp(table, theme, keymap or {})
    async with app.run_test(size=size) as pilot:
        stage = Stage(app, pilot, table)
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        yield stage
        await app.chat.close()
    if store is None:
        await kept.aclose()
