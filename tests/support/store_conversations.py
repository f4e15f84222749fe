"""Conversations for the store's tests, and the processes that are killed while having them."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path

from baton.core.events import Finished, Started
from baton.core.labels import Label
from baton.core.messages import Attachment, Prompt, TurnStatus
from baton.core.ports import ConversationPosition, RecordedRun
from baton.history import Store

NEW = ConversationPosition()


async def ask(
    store: Store,
    text: str = "What is the capital of France?",
    answer: str = "Paris.",
    place: ConversationPosition = NEW,
    label: Label = Label.CLOUD,
    files: tuple[Attachment, ...] = (),
) -> RecordedRun:
    """Record a prompt and its whole answer, as a run does."""
    begun = await store.begin(Prompt(text, files), place, label)
    ids = (begun.run, begun.conversation, begun.prompt, begun.answer)
    await store.append(begun.run, Started(*ids))
    await store.write(begun.answer, answer, TurnStatus.DONE, "small")
    await store.append(begun.run, Finished(at=1.0))
    return begun


async def marked_lines(store: Store, query: str) -> list[str]:
    """Return the lines of all hits, with the matches in square brackets."""
    found = []
    for hit in await store.search(query):
        text = hit.snippet
        for start, end in reversed(hit.spans):
            text = f"{text[:start]}[{text[start:end]}]{text[end:]}"
        found.append(text)
    return found


def chat(path: Path, name: str, turns: int) -> None:
    """Ask one thing after the other, and print each number once its answer is on disk."""

    async def main() -> None:
        store = Store(path)
        place = ConversationPosition()
        for number in range(turns):
            begun = await store.begin(Prompt(f"{name} asks {number}"), place, Label.CLOUD)
            await store.write(begun.answer, f"{name} half {number}", TurnStatus.STREAMING)
            await store.write(begun.answer, f"{name} answers {number}", TurnStatus.DONE)
            await store.append(begun.run, Finished(at=1.0))
            place = ConversationPosition(begun.conversation if number % 10 else None)
            print(number, flush=True)
        await store.aclose()

    asyncio.run(main())


def write_slowly(path: Path, seed: int) -> None:
    """Write answers piece by piece; note each text beside the file once it is on disk."""
    dice = random.Random(seed)

    async def main() -> None:
        store = Store(path)
        with path.with_name("acknowledged").open("a") as notes:
            while True:
                begun = await store.begin(Prompt("piece by piece"), NEW, Label.CLOUD)
                text = ""
                for step in range(dice.randint(5, 40)):
                    text = f"draft {step}" if dice.random() < 0.1 else text + f" piece {step}"
                    await store.save_progress({begun.answer: text})
                    notes.write(f"{begun.answer} {text}\n")
                    notes.flush()
                    print(step, flush=True)
                await store.write(begun.answer, text, TurnStatus.DONE)
                await store.append(begun.run, Finished(at=1.0))

    asyncio.run(main())


def is_next(text: str, later: str) -> bool:
    """Whether a text of `write_slowly` may come right after another."""
    return re.fullmatch(rf"(?:{re.escape(text)} piece|draft) \d+", later) is not None


def run_plans(path: Path) -> None:
    """Run plans of three steps, and print each event that is published, but for the texts."""
    from baton.core.events import TRANSIENT
    from baton.core.messages import Text
    from baton.core.plan_types import Plan, Step
    from baton.core.run.orchestra import Orchestra
    from baton.core.run.run_context import Services
    from baton.workers.scripted_worker import ScriptedWorker

    async def main() -> None:
        worker = ScriptedWorker(lambda _: [Text("word")])
        orchestra = Orchestra(Services({worker.card.id: worker}, Store(path)), worker.card.id)
        access = (("prompt",), ("prompt",), ("1", "2"))
        plan = Plan(tuple(Step(worker.card.id, "Do it.", seen) for seen in access), (3,))
        while True:
            async with orchestra.run(Prompt("Do it."), plan=plan) as run:
                name = ""
                async for event in run:
                    name = event.run if isinstance(event, Started) else name
                    if not isinstance(event, TRANSIENT):
                        print(name, type(event).__name__, flush=True)

    asyncio.run(main())
