"""Which worker answers on the chat screen: the default, or the one that the person chose."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from baton.core.run.orchestra import Orchestra


class WorkerChoice:
    """The id of the chosen worker. `show` is called after each change.

    A chosen worker is warmed at once, unless the person waits for an answer.
    """

    def __init__(
        self,
        orchestra: Orchestra,
        worker: str | None,
        *,
        show: Callable[[], None],
        is_waited_for: Callable[[], bool],
    ) -> None:
        self.worker = worker or orchestra.default
        self._orchestra = orchestra
        self._show = show
        self._is_waited_for = is_waited_for

    @property
    def is_available(self) -> bool:
        """Whether the chosen worker can be asked; without any model no worker can."""
        return any(card.id == self.worker for card in self._orchestra.roster)

    def choose(self, worker: str) -> None:
        """Let this worker answer from now on."""
        self.worker = worker
        self._show()
        if self.is_available and not self._is_waited_for():
            self._orchestra.worker(worker).warm()

    def follow_default(self, before: str) -> None:
        """Change to the default worker if the chosen one is gone, or was the default `before`."""
        default = self._orchestra.default
        if not self.is_available or (self.worker == before != default):
            self.choose(default)
