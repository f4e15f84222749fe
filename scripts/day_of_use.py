"""A day with the app open, quickly: prompts, answers, screens, and conversations to and fro.

    python day_of_use.py PROMPTS

Part of scripts/bench_life. The real app runs without a terminal; a scripted worker streams the
answers. Every so often a new conversation is begun, and what the process holds is printed as JSON.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from baton.core.messages import Chunk, Request, Text  # noqa: E402
from baton.history import Store  # noqa: E402
from baton.workers.scripted_worker import ScriptedWorker  # noqa: E402
from support.app_idle import PERIODS  # noqa: E402
from support.app_session import AppSession, open_app  # noqa: E402

LOOK_EVERY = 25
"""After how many prompts it is looked at what there is."""

WORDS = ("walrus", "carpenter", "lighthouse", "metaclass", "ocean", "kettle", "cabbage", "king")
SCREENS = (
    ("f1", "escape"),
    ("ctrl+s", *"walrus", "escape"),
    ("ctrl+l", "escape"),
    ("ctrl+p", "escape"),
    ("tab", "w", "escape", "g", "G", "escape"),
)
OTHER_CONVERSATION = ("ctrl+s", "down", "down", "enter", "escape")


class Writer:
    """Writes answers of several blocks, now and then a long one, in pieces."""

    def __init__(self) -> None:
        self._dice = random.Random(1)

    def write(self, request: Request) -> Iterable[Chunk | float]:
        length = self._dice.choice((10, 20, 30, 200))
        for number in range(length):
            word = f"{self._dice.choice(WORDS)}{self._dice.randint(0, 999)} "
            yield Text(word if number % 12 else f"\n\n- a *point*: {word}")
            if number % 20 == 19:
                yield 0.005
        yield Text("\n\n```python\nprint(1)\n```\n")

    def prompt(self, number: int) -> str:
        return f"Tell me about a {self._dice.choice(WORDS)}, number {number}"


async def spend_day(prompts: int, folder: Path) -> None:
    """Use the app, and print what there is after each part of the day."""
    writer, store, process = Writer(), Store(folder / "baton.db"), psutil.Process()
    async with open_app(folder, writer.write, store=store, size=(120, 30)) as session:
        worker = session.services.orchestra.services.workers["small"]
        assert isinstance(worker, ScriptedWorker)
        before = time.process_time()
        for number in range(1, prompts + 1):
            await session.ask(writer.prompt(number))
            worker.requests.clear()  # it is the script that keeps them
            if number % 5 == 0:
                await press(session, *SCREENS[number // 5 % len(SCREENS)])
            if number % 20 == 0:
                await press(session, *OTHER_CONVERSATION)
            if number % 60 == 0:
                await press(session, "ctrl+n")
            if number % LOOK_EVERY == 0:
                await press(session, "ctrl+n")
                gc.collect()
                used = time.process_time() - before
                look = {
                    "prompts": number,
                    "megabytes": process.memory_info().rss / 1e6,
                    "objects": len(gc.get_objects()) + gc.get_freeze_count(),
                    "widgets": len(session.app.query("*")),
                    "tasks": len(asyncio.all_tasks()),
                    "threads": process.num_threads(),
                    "files": process.num_fds() if sys.platform != "win32" else 1,
                    "processor": used / LOOK_EVERY,
                }
                os.write(1, f"{json.dumps(look)}\n".encode())  # Textual holds back what is printed
                before = time.process_time()
    await store.aclose()


async def press(session: AppSession, *keys: str) -> None:
    """Press keys one after the other, and wait until nothing moves."""
    for key in keys:
        await session.press(key)
    await session.settled()


def main() -> None:
    """Let the app wait no longer than in tests, and spend the day."""
    for name, seconds in PERIODS.items():
        module, _, attribute = name.rpartition(".")
        setattr(importlib.import_module(f"baton.tui.{module}"), attribute, seconds)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(spend_day(int(sys.argv[1]), Path(folder)))


if __name__ == "__main__":
    main()
