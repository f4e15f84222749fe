"""Draws the README's picture: the real app, answering with the real model, as an SVG."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from baton.compose import compose
from baton.platform.paths import find_paths
from baton.platform.settings import Settings
from baton.tui.app import BatonApp
from baton.tui.chat.context import AppServices
from baton.tui.chat.onboarding import remember_put_off

PICTURE = Path(__file__).resolve().parent.parent / "packaging" / "app.svg"
PROMPTS = ("What is the capital of France?", "Write a Python function that adds two numbers.")


async def draw(theme: str, size: tuple[int, int]) -> str:
    """Ask the prompts, one after the other, and return the screen as SVG."""
    with tempfile.TemporaryDirectory() as home:
        paths = find_paths({"BATON_HOME": home})
        baton = compose(Settings(), paths)
        remember_put_off(paths.state)
        services = AppServices(
            baton.orchestra,
            baton.store,
            baton.ledger,
            paths.config_file,
            exports=Path(home),
            logs=paths.logs,
            state=paths.state,
            library=baton.library,
        )
        app = BatonApp(services, theme)
        async with app.run_test(size=size) as pilot:
            for prompt in PROMPTS:
                app.chat.composer.prompt.insert(prompt)
                await pilot.press("enter")
                await pilot.pause(0.5)
                while app.chat.queue.is_busy:  # noqa: ASYNC110 - a picture has time
                    await asyncio.sleep(0.1)
            await pilot.pause(0.5)
            picture = app.export_screenshot(title="baton")
        await baton.aclose()
    return picture


if __name__ == "__main__":
    os.environ["COLORTERM"] = "truecolor"
    theme = sys.argv[1] if len(sys.argv) > 1 else "dark"
    PICTURE.write_text(asyncio.run(draw(theme, (100, 30))), "utf-8")
    print(PICTURE)
