"""`/serve` in the app: other programs are answered by its workers, and shown as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
from textual.pilot import Pilot

from baton.core.events import Called
from baton.core.messages import Purpose
from baton.core.run.orchestra import Orchestra
from baton.core.view import RunView
from baton.platform.paths import find_paths
from baton.platform.settings import Settings
from baton.server import OpenEndpoint, serving
from baton.tui.screens.traffic_screens import ServeScreen
from baton.tui.widgets.status_lines import Footer
from baton.workers.scripted_worker import ScriptedWorker
from support.app_session import CARD, open_app, settled
from support.screen_looks import (
    LARGE,
    NOW,
    SMALL,
    Execution,
    Look,
    app_of,
    each_look,
    look,
)

__all__ = ["look"]


def served(endpoints: list[OpenEndpoint]) -> Any:
    """Return what lets the app serve at a free port, and notes where."""

    def equip(orchestra: Orchestra) -> Mapping[str, Any]:
        @asynccontextmanager
        async def serve(port: int | None) -> AsyncIterator[OpenEndpoint]:
            parts: Any = SimpleNamespace(
                orchestra=orchestra,
                store=orchestra.services.store,
                paths=find_paths(),
                settings=Settings(),
            )
            async with serving(parts, port or 0) as endpoint:
                endpoints.append(endpoint)
                yield endpoint

        return {"serve": serve}

    return equip


async def test_programs_are_answered_while_the_app_serves(tmp_path: Path) -> None:
    endpoints: list[OpenEndpoint] = []
    async with open_app(tmp_path, equip=served(endpoints)) as session:
        await session.send("/serve")
        await session.wait_for_text("no request yet", "baton/ultra")
        (endpoint,) = endpoints
        headers = {"authorization": f"Bearer {endpoint.token}"}
        body = {"model": "baton/auto", "messages": [{"role": "user", "content": "Hello [b]you"}]}
        async with httpx.AsyncClient(headers=headers, timeout=30) as client:
            answer = await client.post(f"{endpoint.url}/chat/completions", json=body)
            assert answer.json()["choices"][0]["message"]["content"].startswith("Hello")
            await session.wait_for_text("Hello [b]you", "1 request, 0 running", "small")
            await session.pilot.press("x")
            await session.wait_for_text("Other programs are not served any more.")
            try:
                await client.get(f"{endpoint.url}/models")
            except httpx.HTTPError:
                return
    raise AssertionError("it still answers")


async def test_the_screen_comes_back_to_what_is_served(tmp_path: Path) -> None:
    endpoints: list[OpenEndpoint] = []
    async with open_app(tmp_path, equip=served(endpoints)) as session:
        await session.send("/serve")
        await session.wait_for_text("no request yet")
        await session.pilot.press("escape")
        await session.wait_until(lambda: not isinstance(session.app.screen, ServeScreen))
        await session.send("/serve")
        await session.wait_for_text("no request yet")
        assert len(endpoints) == 1
        await session.pilot.press("escape")
        await session.wait_until(lambda: not isinstance(session.app.screen, ServeScreen))
        await session.ask("And you?")
        assert "serving" in dict(session.chat.context.header.policy)
        await session.send("/serve off")
        await session.wait_for_text("not served any more")
        assert "serving" not in dict(session.chat.context.header.policy)
        await session.send("/serve maybe")
        await session.wait_for_text("is not understood")


async def test_leaving_the_app_ends_what_is_served(tmp_path: Path) -> None:
    endpoints: list[OpenEndpoint] = []
    async with open_app(tmp_path, equip=served(endpoints)) as session:
        await session.send("/serve")
        await session.wait_for_text("no request yet")
    reader = asyncio.open_connection("127.0.0.1", endpoints[0].port)
    try:
        await reader
    except ConnectionError:
        return
    raise AssertionError("it still listens")


def seen(number: int, **fields: Any) -> SimpleNamespace:
    """Return a request as the screen gets it."""
    view = RunView(status="finished", seconds=1.3 * number)
    made = {"model": "baton/auto", "prompt": PROMPTS[number], "began": NOW - 60 * number}
    made |= {"program": PROGRAMS[number], "address": "", "status": 200}
    return SimpleNamespace(**{**made, "view": view, "failure": "", "is_over": True, **fields})


PROGRAMS = ("Claude Code", "opencode", "OpenAI SDK for Python", "curl")
PROMPTS = (
    "Complete the function `days` so that its tests pass.",
    "Rename the variable in these three files.",
    "Summarise the changes since the last release for people who don't read code.",
    "What is the capital of France?",
)


@asynccontextmanager
async def pictured(port: int | None) -> AsyncIterator[Any]:
    called = Called(
        step=1,
        worker="small",
        purpose=Purpose.ANSWER,
        tokens_in=20,
        tokens_out=148,
        cached=0,
        context=0,
        cost=2_000_000,
        confirmed=True,
        seconds=1.0,
        first_token=0.1,
        loading=0.0,
        finish=None,
    )
    running = RunView(status="running")
    requests = [
        seen(3, status=503, failure="The model is gone. Fetch it."),
        seen(2, view=RunView(status="cancelled", seconds=2.0)),
        seen(1, model="baton/ultra", view=RunView("finished", calls=(called,), seconds=4.2)),
        seen(0, view=running, is_over=False),
    ]
    yield SimpleNamespace(url="http://127.0.0.1:8765/v1", token="t", requests=requests)


async def programs(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    app.chat.composer.prompt.insert("/serve")
    await pilot.press("enter")
    await settled(pilot, lambda: isinstance(app.screen, ServeScreen) and app.screen.is_open)
    await settled(pilot, lambda: "running" in app.screen.query_one(Footer).status)


@each_look([(programs, SMALL, "dark"), (programs, LARGE, "light")])
def test_look_of_other_programs(
    look: Look, act: Execution, size: tuple[int, int], theme: str
) -> None:
    workers = {"small": ScriptedWorker(card=CARD)}
    assert look.is_unchanged(workers, act, size, theme, equip=lambda _: {"serve": pictured})
