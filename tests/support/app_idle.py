"""When the app has nothing left to do but to wait: so that a test looks at what is, not what was.

Textual's pilot guesses that from the processor time of the last 20 ms. Beside busy neighbours an
app that has much to do looks idle to it, and a test is let go too early. Here it is known: no
callback is ready, no thread is at work for the app, and nothing is to be drawn. What comes by the
clock or from another process is still to be waited for (`Stage.until`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
import textual.app
import textual.pilot
from textual._context import active_app
from textual.app import App

LONGEST_SECONDS = 5.0
"""For how long at most: some tests have a thread or a task that never rests."""

CALM_ROUNDS = 3

_at_work: set[asyncio.Future[Any]] = set()


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

    monkeypatch.setattr(asyncio.BaseEventLoop, "run_in_executor", run_in_executor)
    monkeypatch.setattr(textual.pilot, "wait_for_idle", rest)
    monkeypatch.setattr(textual.app, "wait_for_idle", rest)
    _at_work.clear()


async def rest(*_: float) -> None:
    """Wait until nothing moves; what would be drawn at the next tick is drawn at once."""
    loop: Any = asyncio.get_running_loop()
    app, end, calm = active_app.get(), time.monotonic() + LONGEST_SECONDS, 0
    while calm < CALM_ROUNDS and time.monotonic() < end:
        await asyncio.sleep(0.001 if _at_work else 0)
        calm = 0 if loop._ready or _at_work or _drew(app) else calm + 1


def _drew(app: App[Any]) -> bool:
    """Draw what is to be drawn; tell whether there was anything."""
    if not app.is_running or not app.screen_stack or app._batch_count:
        return False
    screen = app.screen
    if not screen.is_running or not (
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._recompose_required
        or screen._dirty_widgets
        or screen._callbacks
    ):
        return False
    screen._on_timer_update()
    return True
