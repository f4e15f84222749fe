"""The front's end of a child that is there when it is needed, and of what is asked of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from baton.core.errors import WorkerUnavailable
from baton.ipc.process import Child


class Supervisor(ABC):
    """Has a child process: started when it is first needed, and again once it has ended.

    `closings` counts how often it was closed: what died with the child then isn't begun again.
    """

    def __init__(self) -> None:
        self.closings = 0
        self._child: Child | None = None

    @abstractmethod
    def _start(self) -> Child:
        """Start a child."""

    @property
    def pid(self) -> int | None:
        """The child's process, where it runs."""
        return None if self._child is None or self._child.ended else self._child.pid

    def running(self) -> Child:
        """Return the child, started if it doesn't run. Raises WorkerUnavailable."""
        if self._child is None or self._child.ended or self._child.killed:
            self._child = self._start()
        return self._child

    async def aclose(self) -> None:
        """End the child, and with it all that was asked; it may be used again."""
        self.closings += 1
        child, self._child = self._child, None
        if child is not None:
            await child.aclose()


def start(name: str, environ: Mapping[str, str], title: str) -> Child:
    """Start a child that has a title for people. Raises WorkerUnavailable."""
    try:
        return Child(name, environ)
    except OSError as error:
        raise WorkerUnavailable(
            f"{title} can't be started: {error.strerror}.", "Close other programs, then try again."
        ) from error
