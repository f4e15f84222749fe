"""Keeps a child process: starts it when it is needed, and leaves it alone when it keeps dying."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import suppress

from baton.core.errors import WorkerUnavailable
from baton.ipc.process import Child, ChildDied

BACKOFF_SECONDS = (1.0, 2.0, 4.0)
"""How long after each recent death a child isn't started."""

MAX_DEATHS = 3
DEATHS_WINDOW_SECONDS = 600.0
"""A child that died so often in that time is in quarantine: it isn't started for now."""


class Supervisor(ABC):
    """Has one child process, with a title for people.

    Deaths count by their cause ("": the child itself) until they are forgiven. `closings` counts
    how often it was closed: a request that died with the child then isn't repeated.
    """

    def __init__(self, title: str) -> None:
        self.closings = 0
        self._title = title
        self._child: Child | None = None
        self._deaths: dict[str, list[float]] = {}
        self._last_death = ""

    @abstractmethod
    def _start(self) -> Child:
        """Start a child. Raises WorkerUnavailable."""

    @property
    def pid(self) -> int | None:
        """The child's process, None where it doesn't run."""
        return None if self._child is None or self._child.ended else self._child.pid

    def living(self, *causes: str) -> Child | None:
        """Return the child if it lives; a death not counted yet counts for each of the causes."""
        child = self._child
        if child is not None and (child.ended or child.killed):
            self._child = None
            if child.has_failed:
                for cause in set(causes) or {""}:
                    self._deaths.setdefault(cause, []).append(time.monotonic())
                for cause in tuple(self._deaths):
                    self.recent_deaths(cause)  # which forgets the others
                self._last_death = child.why()
        return self._child

    def running(self) -> Child:
        """Return the child, started if it doesn't run. Raises WorkerUnavailable."""
        if (child := self.living()) is None:
            child = self._child = self._start()
        return child

    def start_early(self) -> None:
        """Start the child if it may be, before it is needed; returns at once."""
        if self.living() is not None or self.backoff_left():
            return
        with suppress(WorkerUnavailable):  # the first request meets it again, and reports it
            self.refuse_in_quarantine(self._title)
            self.running()

    async def ready(self, cause: str = "") -> Child:
        """Return the child, started once it may be, for what may have been a cause of deaths.

        Raises WorkerUnavailable in quarantine, ChildDied if it is closed meanwhile.
        """
        import asyncio

        closings = self.closings
        while self.living() is None:
            self.refuse_in_quarantine(self._title)
            self.refuse_in_quarantine(self._title, cause)
            if not (seconds := max(self.backoff_left(), self.backoff_left(cause))):
                break
            await asyncio.sleep(seconds)
            if self.closings != closings:
                raise ChildDied("It was stopped.")
        return self.running()

    def recent_deaths(self, cause: str = "") -> list[float]:
        """Return when the child died of a cause of late."""
        since = time.monotonic() - DEATHS_WINDOW_SECONDS
        deaths = [death for death in self._deaths.pop(cause, ()) if death > since]
        if deaths:
            self._deaths[cause] = deaths
        return deaths

    def backoff_left(self, cause: str = "") -> float:
        """Return how many seconds the child isn't started for yet."""
        deaths = self.recent_deaths(cause)
        if not deaths:
            return 0.0
        backoff = BACKOFF_SECONDS[min(len(deaths), len(BACKOFF_SECONDS)) - 1]
        return max(0.0, deaths[-1] + backoff - time.monotonic())

    def refuse_in_quarantine(
        self, title: str, cause: str = "", advice: str = "Run `baton doctor`"
    ) -> None:
        """Raise WorkerUnavailable where a cause has had too many deaths."""
        deaths = self.recent_deaths(cause)
        if len(deaths) >= MAX_DEATHS:
            left = deaths[-MAX_DEATHS] + DEATHS_WINDOW_SECONDS - time.monotonic()
            raise WorkerUnavailable(
                f"{title} failed {len(deaths)} times within ten minutes and is not started"
                " for now.",
                f"{advice}, or try again in {max(1, round(left / 60))} minutes.",
            )

    def forgive(self, *causes: str) -> None:
        """Forget the child's deaths, and those of further causes."""
        for cause in ("", *causes):
            self._deaths.pop(cause, None)

    def release(self) -> Child | None:
        """Give the child away, if it can outlive this process; it isn't ended then."""
        child = self.living()
        if child is None or not child.can_be_handed_over:
            return None
        self._child = None
        return child

    def end(self) -> None:
        """End the child at once, without waiting until it is gone."""
        self.closings += 1
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    async def aclose(self) -> None:
        """End the child and all its calls, and forget all deaths; it may be used again."""
        self.closings += 1
        self._deaths.clear()
        child, self._child = self._child, None
        if child is not None:
            await child.aclose()
