"""What the tests of the app begin with: a real store in memory and a scripted worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.app import App, ScreenStackError
from textual.pilot import Pilot

from baton.compose import NOTHING_HERE
from baton.core.labels import Label
from baton.core.ledger_types import Scope
from baton.core.machine import Hardware
from baton.core.messages import Card, Chunk, Finish, Prompt, Request, RequestSent, Text, Usage
from baton.core.money import NANO, Price, Rates
from baton.core.permissions import RunTerms
from baton.core.plan_types import Plan
from baton.core.ports import Redactor
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.download import HubSource
from baton.history import Store
from baton.models import FolderModelStore, Library
from baton.money import Ledger
from baton.tui import prompt_queue
from baton.tui.app import BatonApp
from baton.tui.chat.context import AppServices
from baton.tui.chat.onboarding import remember_put_off
from baton.tui.prompt_queue import QueuedPrompt
from baton.workers.scripted_worker import Script, ScriptedWorker

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

GPT = Card(
    "gpt",
    "cloud",
    "gpt-5-mini",
    privacy=Label.CLOUD,
    context=400_000,
    price=Price(Rates(NANO // 4, 2 * NANO, NANO // 40, NANO // 4), source="the snapshot"),
    provider="openai",
    model="openai/gpt-5-mini",
    remote=True,
)
SORRY = "I'm sorry, but I can't help with that."


def until(condition: Callable[[], object]) -> Iterable[float]:
    """Let a script continue no sooner than something is so."""
    while not condition():
        yield 0.02


def sorry(request: Request) -> Iterable[Chunk]:
    """Be a local worker that needs help."""
    yield Text(SORRY)


def saying(text: str) -> Script:
    """Return the script of a worker that answers with a text."""

    def script(request: Request) -> Iterable[Chunk]:
        yield Text(text)

    return script


def slow(request: Request) -> Iterable[Chunk | float]:
    """Write for half a minute, never the same, which would be taken for a loop."""
    for number in range(3000):
        yield Text(f"word{number} ")
        yield 0.01


def remote_script(*texts: str, tokens: int = 800) -> Script:
    """Return the script of a cloud worker."""

    def script(request: Request) -> Iterable[Chunk | BaseException | float]:
        yield RequestSent("api.openai.com", 1834)
        for text in texts or ("From **far** away.",):
            yield Text(text)
        yield Usage(400, tokens, Finish.STOP)

    return script


async def settled(
    pilot: Pilot[Any], condition: Callable[[], object] = lambda: True, seconds: float = 30
) -> None:
    """Wait until something is so, no worker of the screen is at work, and nothing moves on it.

    It is looked at twice, a frame apart: what is done by then may start what isn't.
    """
    app, end, looks = pilot.app, time.monotonic() + seconds, 0
    while looks < 2:
        if condition() and not _is_at_work(app):
            looks += 1
            await app.animator.wait_until_complete()
            await pilot.pause(prompt_queue.FRAME_SECONDS)
            continue
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s; the screen shows:\n{screen_text(app)}")
        looks = 0
        await pilot.pause(0.02)


def _is_at_work(app: App[Any]) -> bool:
    """Whether a worker of the screen in front does something; at a question it may only wait."""
    waiting = ("default", "shell") if getattr(app.screen, "question", None) else ()
    own = [worker for worker in app.workers if worker.node.screen is app.screen]
    return any(not worker.is_finished and worker.group not in waiting for worker in own)


def screen_text(app: App[Any]) -> str:
    """Return what is on the screen, line by line."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


class AppSession:
    """A running app: `type`, `press` and `see` are what a user does.

    `asked` is every request that the cloud worker was given.
    """

    def __init__(
        self, app: BatonApp, pilot: Pilot[None], services: AppServices, asked: Sequence[Request]
    ) -> None:
        self.app = app
        self.pilot = pilot
        self.services = services
        self.asked = asked
        self.chat = app.chat

    async def press(self, *keys: str) -> None:
        """Press keys, and let the app do what they ask."""
        await self.pilot.press(*keys)
        await self._pause()

    async def send(self, text: str) -> None:
        """Write a prompt and send it."""
        self.chat.composer.prompt.insert(text)
        await self.press("enter")

    async def wait_until(self, condition: Callable[[], object], seconds: float = 30) -> None:
        """Wait until something is so; long, since machines are busy at times."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(
                    f"not within {seconds} s; the screen shows:\n{self.screen_text()}"
                )
            await self._pause(0.02)
        await self._pause()  # what comes with it is there, too

    async def settled(self) -> None:
        """Wait until no worker is at work, and nothing moves: see `settled`."""
        await settled(self.pilot)

    @property
    def screen_name(self) -> str:
        """The class of the screen in front."""
        return type(self.app.screen).__name__

    async def _pause(self, seconds: float | None = None) -> None:
        if self.app.is_running:
            with suppress(ScreenStackError):  # it was left meanwhile
                await self.pilot.pause(seconds)
        else:
            await asyncio.sleep(seconds or 0)

    async def wait_for_text(self, *texts: str) -> None:
        """Wait until all of these are on the screen, however their lines are broken."""
        await self.wait_until(
            lambda: all(text in self.screen_text() or text in self.screen_line() for text in texts)
        )

    async def wait_for_answer(self) -> None:
        """Wait until nothing is being written any more, and all that comes after it is done."""
        await self.wait_until(lambda: self.chat.queue._task is None)
        await self.pilot.pause()

    async def ask(self, text: str) -> None:
        """Send a prompt and wait for its answer."""
        await self.send(text)
        await self.wait_until(lambda: self.chat.queue.is_busy or self.chat.transcript.turns)
        await self.wait_for_answer()

    def screen_text(self) -> str:
        """Return what is on the screen, line by line."""
        return screen_text(self.app)

    def screen_line(self) -> str:
        """Return what is on the screen as one line."""
        return " ".join(self.screen_text().split())


async def execute(
    session: AppSession, plan: Plan, text: str = "Plan it", *, wait: bool = True
) -> None:
    """Have a plan run, as after it was edited."""
    session.chat.queue.send(QueuedPrompt(session.chat.context.chat, Prompt(text), plan=plan))
    await session.wait_until(lambda: session.chat.queue.is_busy or session.chat.transcript.turns)
    if wait:
        await session.wait_for_answer()


def no_models(folder: Path) -> dict[str, Any]:
    """Return what of `AppServices` gives no model, and offers none unasked."""

    async def look() -> Hardware:
        return Hardware(16 * 2**30, 12 * 2**30, 8, 16, "A processor")

    store, state = FolderModelStore(folder / "models", {}), folder / "decided"
    remember_put_off(state)
    return {"library": Library(store, HubSource(environ={}), tuple, look), "state": state}


@asynccontextmanager
async def open_app(
    folder: Path,
    *scripts: Script,
    store: Store | None = None,
    cloud: Script | None = None,
    card: Card = GPT,
    ceilings: Mapping[Scope, int] | None = None,
    bounds: Mapping[Scope, tuple[int, str]] = {},
    redactor: Redactor | None = None,
    terms: Mapping[str, Any] | None = None,
    size: tuple[int, int] = (80, 24),
    keymap: dict[str, str] | None = None,
    theme: str = "dark",
    equip: Callable[[Orchestra], Mapping[str, Any]] = lambda _: {},
    settle: bool = True,
    no_worker: bool = False,
    **services: Any,
) -> AsyncIterator[AppSession]:
    """Open the app with one worker per script (`small`, then `large`).

    With a `cloud` script there is a cloud worker too, and $2 a day unless `ceilings` differ;
    `bounds` are those of the environment.
    `equip` returns more of `AppServices`. Without `settle` the app is still starting.
    With `no_worker` there is no worker here.
    """
    cards = (CARD, STRONG)
    workers = {
        card.id: ScriptedWorker(script, card) for card, script in zip(cards, scripts, strict=False)
    }
    if not workers and not no_worker:
        workers = {"small": ScriptedWorker(card=CARD)}
    if cloud is not None:
        workers[card.id] = ScriptedWorker(cloud, card)
        ceilings = {Scope.DAY: 2 * NANO} if ceilings is None else ceilings
    kept, ledger = store or Store(None), Ledger(None, bounds=bounds)
    orchestra = Orchestra(
        Services(workers, kept, ledger=ledger, redactor=redactor),
        "small",
        RunTerms(ceilings or {}, **(terms or {})),
        absent={"small": NOTHING_HERE} if no_worker else {},
    )
    config, exports, logs = (folder / name for name in ("config.toml", "exports", "logs"))
    more = {**no_models(folder), **equip(orchestra), **services}
    table = AppServices(orchestra, kept, ledger, config, exports, logs, **more)
    app = BatonApp(table, theme, keymap or {})
    async with app.run_test(size=size) as pilot:
        session = AppSession(
            app, pilot, table, workers[card.id].requests if cloud is not None else []
        )
        await pilot.pause()
        if settle:
            await settled(pilot)
        yield session
        await app.chat.close()
    await ledger.aclose()
    if store is None:
        await kept.aclose()
