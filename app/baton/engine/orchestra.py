"""The façade that every front end calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from baton.domain.chat import Card, Prompt
from baton.domain.errors import ConfigError
from baton.domain.labels import Label
from baton.domain.ledger import Standing
from baton.engine.meter import Purse
from baton.engine.policy import ANYTHING, NOTHING_SPENT, Limits, Terms, stronger
from baton.engine.ports import (
    NEW,
    NO_MONEY,
    Ask,
    Ledger,
    Place,
    Redactor,
    Store,
    Worker,
    take_default,
)
from baton.engine.run import Run, Task


class Orchestra:
    """The workers there are, and the way a prompt goes through them.

    `terms` are what the settings allow; whoever changes them changes what is played from then on.
    `on_offline` hears of `go_offline`: whatever connects must be told there.
    """

    def __init__(
        self,
        workers: Mapping[str, Worker],
        store: Store,
        default: str,
        *,
        ledger: Ledger = NO_MONEY,
        terms: Terms = NOTHING_SPENT,
        redactor: Redactor | None = None,
    ) -> None:
        self._workers = dict(workers)
        self._store = store
        self._ledger = ledger
        self._redactor = redactor
        self.default = default
        self.terms = terms
        self.on_offline: Callable[[bool], None] = _nobody

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

    def stronger(self, name: str | None = None, label: Label = Label.CLOUD) -> Card | None:
        """Return the worker to ask when that one's answer (or the default's) won't do, or None.

        `label` says how far the conversation may travel.
        """
        return stronger(self.worker(name).card, self.roster, label, self.terms)

    def go_offline(self, offline: bool) -> None:
        """Connect to nothing but this machine from now on, or lift that; tells `on_offline`."""
        self.terms = replace(self.terms, offline=offline)
        self.on_offline(offline)

    async def standing(self, session: str | None = None) -> Standing:
        """Return how money stands, in one conversation or apart from any."""
        return await self._ledger.standing(self.terms.ceilings, session)

    def play(
        self,
        prompt: Prompt,
        place: Place = NEW,
        limits: Limits = ANYTHING,
        ask: Ask = take_default,
        worker: str | None = None,
    ) -> Run:
        """Begin a run: enter it with `async with`, then iterate over its events.

        `ask` puts a question to the person. Where a local worker's answer won't do, a stronger one
        elsewhere is offered. Raises ConfigError for an unknown worker.
        """
        chosen = self.worker(worker)
        second = None if limits.alone else self.stronger(worker, limits.label)
        helper = self.worker(second.id) if second is not None and second.is_outside else None
        purse = Purse(self._ledger, self._redactor, self.terms, limits)
        return Run(Task(prompt, place, limits, chosen, helper), self._store, purse, ask)

    async def aclose(self) -> None:
        """Let every worker go."""
        for worker in self._workers.values():
            await worker.aclose()


def _nobody(_: bool) -> None:
    """Nothing here connects to anything."""
