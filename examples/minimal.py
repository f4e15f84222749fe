"""An orchestra of two scripted workers: one prompt in, its events out.

PYTHONPATH=app python examples/minimal.py
"""

import asyncio

from baton import Card, Orchestra, Plan, Prompt, ScriptedWorker, Services, Step, Store


async def main() -> None:
    """Let one worker greet, and the other repeat it."""
    cards = [Card(name, "scripted", name.title()) for name in ("ann", "bob")]
    store = Store(None)  # in memory
    services = Services({card.id: ScriptedWorker(card=card) for card in cards}, store)
    orchestra = Orchestra(services, default="ann")
    steps = (Step("ann", "Say hello."), Step("bob", "Repeat it.", access=("1",)))
    async with orchestra.run(Prompt("Good morning."), plan=Plan(steps, answer=(2,))) as run:
        async for event in run:
            print(event)
    await orchestra.aclose()
    await store.aclose()


asyncio.run(main())
