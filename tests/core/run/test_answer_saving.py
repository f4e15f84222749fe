"""Answers that are saved while they are written: those of several runs together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from baton.core.labels import Label
from baton.core.messages import Prompt, TurnStatus
from baton.core.ports import NEW, RecordedRun
from baton.core.run.run_context import AnswerSaver
from baton.history import Store


class ObservedStore:
    """A store that notes what is saved at once; `is_saved` is set with each time."""

    def __init__(self, store: Store) -> None:
        self.saves: list[dict[str, str]] = []
        self.is_saved = asyncio.Event()
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def save_progress(self, texts: Mapping[str, str]) -> None:
        await self._store.save_progress(texts)
        self.saves.append(dict(texts))
        self.is_saved.set()

    async def next_save(self) -> dict[str, str]:
        self.is_saved.clear()
        await asyncio.wait_for(self.is_saved.wait(), 60)
        return self.saves[-1]


@pytest.fixture
async def store() -> AsyncIterator[ObservedStore]:
    opened = Store(None)
    yield ObservedStore(opened)
    await opened.aclose()


async def nothing_else() -> None:
    """Store nothing of a run but its answer."""


async def begin(store: ObservedStore) -> RecordedRun:
    return await store._store.begin(Prompt("Why?"), NEW, Label.CLOUD)


async def stored(store: ObservedStore, run: RecordedRun) -> tuple[str, TurnStatus]:
    *_, last = await store._store.thread(run.conversation)
    return last.text, last.status


async def test_answers_of_several_runs_are_saved_together(store: ObservedStore) -> None:
    saver, runs = AnswerSaver(), [await begin(store) for _ in range(3)]
    texts = {run.answer: f"so far {n}" for n, run in enumerate(runs)}
    for run in runs:
        saver.add(store, run.answer, lambda answer=run.answer: texts[answer], nothing_else)  # type: ignore
    assert await store.next_save() == texts
    for n, run in enumerate(runs):
        assert await stored(store, run) == (f"so far {n}", TurnStatus.STREAMING)
    changed = {runs[1].answer: "and further"}
    texts |= changed
    assert await store.next_save() == changed
    for run in runs:
        saver.remove(run.answer)


async def test_an_answer_that_is_removed_keeps_what_is_written_then(store: ObservedStore) -> None:
    saver, ended, other = AnswerSaver(), await begin(store), await begin(store)
    text = "half"
    for run in (ended, other):
        saver.add(store, run.answer, lambda: text, nothing_else)  # type: ignore[arg-type]
    await store.next_save()
    text = "more"
    saver.remove(ended.answer)
    await store._store.write(ended.answer, "whole", TurnStatus.DONE)
    assert await store.next_save() == {other.answer: "more"}
    assert await stored(store, ended) == ("whole", TurnStatus.DONE)
    saver.remove(other.answer)


async def test_a_deleted_answer_is_in_no_other_ones_way(store: ObservedStore) -> None:
    saver, deleted, other = AnswerSaver(), await begin(store), await begin(store)
    await store._store.purge(deleted.conversation)
    for run in (deleted, other):
        saver.add(store, run.answer, lambda: "text", nothing_else)  # type: ignore[arg-type]
    await store.next_save()
    assert await stored(store, other) == ("text", TurnStatus.STREAMING)
    for run in (deleted, other):
        saver.remove(run.answer)
