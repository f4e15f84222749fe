"""When the app has nothing left to do but to wait: so that a test looks at what is, not what was.

Textual's pilot guesses that from the processor time of the last 20 ms. Beside busy neighbours an
app that has much to do looks idle to it, and a test is let go too early. Here it is known: no
callback is ready, no thread is at work for the app, and nothing is to be drawn. What comes by the
clock or from another process is still to be waited for (`AppSession.wait_until`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
import textual.app
import textual.pilot
import textual.screen
from textual._context import active_app
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

LONGEST_SECONDS = 5.0
"""For how long at most: some tests have a thread or a task that never rests."""

CALM_ROUNDS = 3

FRAME_SECONDS = 0.1
"""How often a screen is drawn at the least; besides, it is drawn whenever the app has calmed."""

PERIODS = {
    "chat.downloads.REPORT_SECONDS": 0.05,
    "chat.onboarding.MEASURE_SECONDS": 0.05,
    "chat.side_bar.REFRESH_SECONDS": 0.1,
    "prompt_queue.FRAME_SECONDS": 0.02,
    "screens.conversations_screen.SEARCH_DELAY_SECONDS": 0.02,
    "screens.models_screen.TICK_SECONDS": 0.05,
    "screens.traffic_screens.REFRESH_SECONDS": 0.05,
    "screens.workflow_screen.REFRESH_SECONDS": 0.05,
    "widgets.composer.PAUSE_SECONDS": 0.02,
    "widgets.composer.TYPING_SECONDS": 0.05,
}
"""How long the app waits for more, or until it looks again: for people, not for tests."""

_at_work: set[asyncio.Future[Any]] = set()
_parsed: dict[tuple[object, ...], list[RuleSet]] = {}
"""The rules of each style sheet of this process, by its text, its place and the theme's values."""


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pilot wait for that, whenever it waits."""
    start = asyncio.BaseEventLoop.run_in_executor

    def run_in_executor(
        loop: asyncio.BaseEventLoop, executor: Any, work: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = start(loop, executor, work, *args)
        _at_work.add(future)
        future.add_done_callback(_at_work.discard)
        return future

    parse = Stylesheet._parse_rules

    def parse_once(sheet: Stylesheet, css: str, read_from: Any, *args: Any, **options: Any) -> Any:
        values = tuple(sheet._variables.items())
        key = (css, read_from, args, tuple(options.items()), values)
        if key not in _parsed:
            _parsed[key] = parse(sheet, css, read_from, *args, **options)
        return _parsed[key]

    monkeypatch.setattr(asyncio.BaseEventLoop, "run_in_executor", run_in_executor)
    monkeypatch.setattr(textual.pilot, "wait_for_idle", rest)
    monkeypatch.setattr(textual.pilot.Pilot, "_wait_for_screen", _rest_of_screen)
    monkeypatch.setattr(textual.app, "wait_for_idle", rest)
    monkeypatch.setattr(textual.screen, "UPDATE_PERIOD", FRAME_SECONDS)
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_once)
    for name, seconds in PERIODS.items():
        monkeypatch.setattr(f"baton.tui.{name}", seconds)
    monkeypatch.setattr("baton.workers.local.is_machine_busy", _is_never_busy)
    _at_work.clear()


async def _is_never_busy() -> bool:
    return False


async def _rest_of_screen(*_: object) -> bool:
    await rest()
    return True


async def rest(*_: float) -> None:
    """Wait until nothing moves; what would be drawn at the next tick is drawn at once."""
    loop: Any = asyncio.get_running_loop()
    app, end, calm = active_app.get(), time.monotonic() + LONGEST_SECONDS, 0
    while calm < CALM_ROUNDS and time.monotonic() < end:
        await asyncio.sleep(0.001 if _at_work else 0)
        calm = 0 if loop._ready or _at_work or _drew(app) else calm + 1


def _drew(app: App[Any]) -> bool:
    """Draw what is to be drawn; return whether there was anything."""
    if not app.is_running or not app.screen_stack or app._batch_count:
        return False
    drawn = [_drew_screen(screen) for screen in (*app._background_screens, app.screen)]
    return any(drawn)


def _drew_screen(screen: Screen[Any]) -> bool:
    """Draw a screen, be it one that is seen beside the one in front."""
    if not screen.is_running or not (
        screen._layout_required
        or screen._scroll_required
        or (screen._repaint_required and screen is screen.app.screen)  # those below always say so
        or screen._recompose_required
        or screen._dirty_widgets
        or screen._callbacks
    ):
        return False
    screen._on_timer_update()
    return True
