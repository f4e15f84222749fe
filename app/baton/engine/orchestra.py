"""The façade that every front end calls."""

from __future__ import annotations

from collections.abc import Mapping

from baton.domain.chat import Card, Prompt
from baton.domain.errors import ConfigError
from baton.engine.ports import NEW, Ask, Place, Store, Worker, take_default
from baton.engine.run import ANYTHING, Limits, Run


class Orchestra:
    """The workers there are, and the way a prompt goes through them."""

    def __init__(self, workers: Mapping[str, Worker], store: Store, default: str) -> None:
        self._workers = dict(workers)
        self._store = store
        self.default = default

    @property
    def roster(self) -> tuple[Card, ...]:
        """The cards of the workers available now."""
        return tuple(worker.card for worker in self._workers.values())

    def worker(self, name: str | None = None) -> Worker:
        """Return the worker with that id, or the default one. Raises ConfigError."""
        wanted = name or self.default
        if wanted not in self._workers:
            known = ", ".join(self._workers)
            hint = "" if name else " The setting `worker` names the one that answers."
            raise ConfigError(f"There is no worker {wanted!r}.", f"Known workers: {known}.{hint}")
        return self._workers[wanted]

    def play(
        self,
        prompt: Prompt,
        place: Place = NEW,
        limits: Limits = ANYTHING,
        ask: Ask = take_default,
        worker: str | None = None,
    ) -> Run:
        """Begin a run: enter it with `async with`, then iterate over its events.

        `ask` puts a question to the person. Raises ConfigError for an unknown worker.
        """
        return Run(self.worker(worker), self._store, prompt, place, limits, ask)

    async def aclose(self) -> None:
        """Let every worker go."""
        for worker in self._workers.values():
            await worker.aclose()
