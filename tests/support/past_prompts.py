"""A history as a user's days leave it: real runs by scripted workers, and what was thought of
their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from baton.core.events import Started
from baton.core.history_types import Signal
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope
from baton.core.messages import Card, Prompt
from baton.core.permissions import PromptLimits, RunTerms
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.history import Store
from baton.money import Ledger
from baton.platform.paths import find_paths
from baton.workers.scripted_worker import Script, ScriptedWorker, echo_script

SMALL = Card("small", "local", "SmolLM2 135M", context=8192, parameters=135_000_000)


@dataclass(frozen=True)
class PastPrompt:
    """A prompt, what was thought of its answer, and how it was to be run."""

    prompt: str
    signal: Signal | None = None
    strategy: str = ""
    worker: str | None = None
    label: Label = Label.CLOUD


async def live(
    days: Sequence[PastPrompt],
    cards: Sequence[Card] = (SMALL,),
    scripts: Mapping[str, Script] | None = None,
    day: int = 0,
) -> list[str]:
    """Run prompts into this test's own history, one conversation each; return the runs' ids."""
    paths = find_paths()
    store, ledger = Store(paths.database), Ledger(paths.ledger)
    workers = {
        card.id: ScriptedWorker((scripts or {}).get(card.id, echo_script), card) for card in cards
    }
    terms = RunTerms({Scope.DAY: day} if day else {}, Policy.BUDGET)
    orchestra = Orchestra(Services(workers, store, ledger=ledger), cards[0].id, terms)
    runs = []
    try:
        for said in days:
            limits = PromptLimits(said.label, attended=False, strategy=said.strategy)
            async with orchestra.run(Prompt(said.prompt), limits=limits, worker=said.worker) as run:
                [begun] = [event async for event in run if isinstance(event, Started)]
            runs.append(begun.run)
            if said.signal is not None:
                await store.feedback.add_signal(begun.answer, said.signal)
    finally:
        await orchestra.aclose()
        await ledger.aclose()
        await store.aclose()
    return runs
