"""Answers that are being written, saved now and then before they are whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from baton.core.errors import StoreError
from baton.core.ports import Store

FLUSH_SECONDS = 0.15
"""How long streamed text may stay in memory alone; with the write itself it stays below 250 ms."""


class AnswerSaver:
    """Saves the answers of all runs that go on, those of one store in one transaction.

    A transaction costs about a millisecond of processor time however little is in it: with 16
    runs at once that each saved their own, they took as long as all else of `baton serve`.
    """

    def __init__(self) -> None:
        self._texts: dict[str, tuple[Store, Callable[[], str]]] = {}
        self._saved: dict[str, str] = {}
        self._saving: asyncio.Task[None] | None = None

    def add(self, store: Store, answer: str, text: Callable[[], str]) -> None:
        """Save what `text` returns, whenever it has changed, as the text of an answer."""
        self._texts[answer] = store, text
        self._saved[answer] = ""
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._keep_saving())

    def remove(self, answer: str) -> None:
        """Save an answer no more; what is written to the store from now on stands."""
        self._texts.pop(answer, None)
        self._saved.pop(answer, None)
        if not self._texts and self._saving is not None:
            self._saving.cancel()
            self._saving = None

    async def _keep_saving(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            for store, texts in self._changed_texts().items():
                # A disk that is full now may have room in a moment; the end says if it hasn't.
                with contextlib.suppress(StoreError):
                    await store.save_progress(texts)
                    self._saved |= {n: text for n, text in texts.items() if n in self._texts}

    def _changed_texts(self) -> dict[Store, dict[str, str]]:
        found: dict[Store, dict[str, str]] = {}
        for answer, (store, text) in self._texts.items():
            if (now := text()) != self._saved[answer]:
                found.setdefault(store, {})[answer] = now
        return found
