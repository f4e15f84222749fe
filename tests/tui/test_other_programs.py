"""`/serve` in the app: other programs are answered by its workers, and shown as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx

from baton.core.run.orchestra import Orchestra
from baton.platform.settings import find_paths
from baton.server import OpenEndpoint, serving
from baton.tui.screens.serve_screen import ServeScreen
from support.app_session import open_app


def served(endpoints: list[OpenEndpoint]) -> Any:
    """Return what lets the app serve at a free port, and notes where."""

    def equip(orchestra: Orchestra) -> Mapping[str, Any]:
        @asynccontextmanager
        async def serve(port: int | None) -> AsyncIterator[OpenEndpoint]:
            parts: Any = SimpleNamespace(
                orchestra=orchestra, store=orchestra.services.store, paths=find_paths()
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
        await session.send("/serve off")
        await session.wait_for_text("not served any more")
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
