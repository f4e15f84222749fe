"""Histories in which it is known how good the answers were, of any size."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from baton.history import Store
from baton.platform.paths import find_paths

NOW = 1_790_000_000.0

_IDS = count(1)


@dataclass(frozen=True)
class RatedPrompt:
    """A prompt and its answer, and what was done with that."""

    prompt: str
    answer: str = "So it is."
    signals: dict[str, float] = field(default_factory=dict)
    worker: str = "small"
    kind: str = "chat"
    at: float = NOW


def remember(items: Iterable[RatedPrompt], together: int = 200) -> None:
    """Put answers into the history, so many of them in each conversation."""
    listed = list(items)
    starts = range(0, len(listed), together)
    conversations = [_conversation(listed[start : start + together]) for start in starts]

    async def put() -> None:
        store = Store(find_paths().database)
        await store.archive.import_({"baton_export": 1, "conversations": conversations})
        await store.aclose()

    asyncio.run(put())


def _conversation(items: Iterable[RatedPrompt]) -> dict[str, Any]:
    turns: list[dict[str, Any]] = []
    runs = []
    for item in items:
        prompt, answer, run = (f"{next(_IDS):012x}" for _ in range(3))
        parent = turns[-1]["id"] if turns else None
        turns.append(_turn(prompt, parent, "user", item.prompt, item.at))
        ended = _turn(answer, prompt, "assistant", item.answer, item.at)
        turns.append(ended | {"worker": item.worker, "run": run, "signals": item.signals})
        runs.append(_run(run, prompt, answer, item))
    return {
        "id": f"{next(_IDS):012x}",
        "title": "So it was",
        "label": "cloud",
        "system": None,
        "created": turns[0]["created"],
        "updated": turns[-1]["created"],
        "head": turns[-1]["id"],
        "sent_from": None,
        "label_changes": [],
        "turns": turns,
        "runs": runs,
    }


def _turn(id: str, parent: str | None, role: str, text: str, at: float) -> dict[str, Any]:
    return {
        "id": id,
        "parent": parent,
        "role": role,
        "text": text,
        "status": "done",
        "label": "cloud",
        "created": at,
        "worker": "",
        "run": None,
        "files": [],
    }


def _run(run: str, prompt: str, answer: str, item: RatedPrompt) -> dict[str, Any]:
    step = {
        "worker": item.worker,
        "subtask": "Answer the prompt.",
        "access": ["prompt", "history"],
        "need": {"kind": item.kind, "difficulty": 2},
    }
    plan = {"steps": [step], "answer": [1]}
    return {
        "id": run,
        "prompt": prompt,
        "answer": answer,
        "status": "finished",
        "created": item.at,
        "events": [
            {"kind": "Planned", "data": {"at": 0.1, "plan": plan}},
            {"kind": "StepStarted", "data": {"at": 0.1, "step": 1, "worker": item.worker}},
            {"kind": "StepFinished", "data": {"at": 0.2, "step": 1, "finish": "stop"}},
            {"kind": "Finished", "data": {"at": 0.3}},
        ],
    }
