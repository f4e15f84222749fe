"""The app in a process of its own; a scripted worker that never ends writes four steps at once.

Run as a program in a pseudo-terminal: `python streaming_app.py FOLDER`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

from baton.core.messages import Card, Chunk, Prompt, Request, Text
from baton.core.plan_types import Plan, Step
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.history import Store
from baton.money import Ledger
from baton.tui.app import BatonApp
from baton.tui.chat.context import AppServices
from baton.tui.prompt_queue import QueuedPrompt
from baton.workers.scripted_worker import ScriptedWorker

sys.path.append(str(Path(__file__).parents[1]))

from support.app_session import no_models

CARD = Card("small", "local", "Small", context=100_000, slots=8)
STEPS = tuple(Step("small", f"Write part {n}.", ("prompt",)) for n in range(1, 5))
PLAN = Plan((*STEPS, Step("small", "Join them.", ("1", "2", "3", "4"))), (5,))
TOKEN_SECONDS = 0.03
"""A step writes about 30 tokens a second, as a small model on a laptop does."""


def write_for_ever(request: Request) -> Iterable[Chunk | float]:
    number = 0
    while True:
        yield Text(f"word{number} " if number % 12 else "\n")
        yield TOKEN_SECONDS
        number += 1


async def main(folder: Path) -> None:
    store = Store(folder / "baton.db")
    ledger = Ledger(folder / "ledger.db")
    worker = ScriptedWorker(write_for_ever, CARD)
    orchestra = Orchestra(Services({"small": worker}, store, ledger=ledger), "small")
    config, exports, logs = (folder / name for name in ("config.toml", "exports", "logs"))

    def begin() -> None:
        app.chat.queue.send(QueuedPrompt(app.chat.context.chat, Prompt("Write it"), plan=PLAN))

    more = no_models(folder)
    services = AppServices(orchestra, store, ledger, config, exports, logs, started=begin, **more)
    app = BatonApp(services)
    await app.run_async()
    await app.chat.close()
    await store.aclose()
    await ledger.aclose()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
