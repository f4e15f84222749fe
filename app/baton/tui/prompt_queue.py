"""Running prompts one after the other, and following each run: no widget is needed for that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from baton.core.errors import BatonError
from baton.core.events import Started
from baton.core.history_types import RunRecord
from baton.core.labels import Label
from baton.core.messages import Prompt
from baton.core.plan_types import Plan
from baton.core.view import RunView

if TYPE_CHECKING:
    from baton.core.run.run import Run

FRAME_SECONDS = 0.1
"""How often a running answer is drawn."""

TYPING_FRAME_SECONDS = 0.5
"""How often it is drawn while the user types, so that keys seldom have to wait for it."""


@dataclass(slots=True, eq=False)
class ConversationState:
    """A conversation as the screen knows it. It has no id before its first prompt is stored."""

    id: str | None = None
    title: str = ""
    label: Label = Label.CLOUD


@dataclass(slots=True, eq=False)
class QueuedPrompt:
    """A prompt to be answered: `after` and `again` as in ConversationPosition.

    `worker` None is the chosen one. With `preview` its plan is shown first; `plan` was shown, and
    edited; `record` is an interrupted run to be resumed.
    """

    chat: ConversationState
    prompt: Prompt
    after: str | None = None
    again: str | None = None
    worker: str | None = None
    preview: bool = False
    plan: Plan | None = None
    record: RunRecord | None = None


Draw = Callable[[RunView], None]
"""Draws an answer as far as it is."""


class RunObserver(Protocol):
    """Receives the progress of the runs."""

    def begin(self, pending: QueuedPrompt) -> Run:
        """Make the run for a prompt. Raises BatonError."""

    async def began(self, follower: RunFollower, *, is_first: bool) -> None:
        """The prompt is stored; now is the time to say how its answer is drawn.

        The `is_first` prompt made its conversation.
        """

    def is_typing(self) -> bool:
        """Whether the user is typing just now."""

    def changed(self, follower: RunFollower | None) -> None:
        """Something else is happening now (None: nothing), or other prompts wait."""

    async def ended(self, follower: RunFollower) -> None:
        """The run is over."""

    async def refused(self, pending: QueuedPrompt, error: BatonError) -> None:
        """This prompt could not be run, or not shown."""

    def broke(self, error: BaseException) -> None:
        """A bug ended the run."""


@dataclass(slots=True, eq=False)
class RunFollower:
    """Follows one run: folds its events and draws its answer, a frame at a time."""

    pending: QueuedPrompt
    run: Run
    observer: RunObserver
    view: RunView = field(default_factory=RunView)
    draw: Draw | None = None

    async def follow(self) -> None:
        """Run the run to its end."""
        drawing = asyncio.create_task(self._draw())
        try:
            async with self.run as run:
                async for event in run:
                    self.view = self.view.apply(event)
                    if isinstance(event, Started):
                        is_first = self.pending.chat.id is None
                        self.pending.chat.id = event.conversation
                        await self.observer.began(self, is_first=is_first)
        finally:
            drawing.cancel()
            with suppress(asyncio.CancelledError):
                await drawing

    async def _draw(self) -> None:
        seen, last = self.view, 0.0
        while True:
            await asyncio.sleep(FRAME_SECONDS)
            waited = time.monotonic() - last
            if self.observer.is_typing() and waited < TYPING_FRAME_SECONDS:
                continue
            if self.view is not seen:
                seen, last = self.view, time.monotonic()
                self.observer.changed(self)
                if self.draw is not None:
                    self.draw(self.view)


class PromptQueue:
    """Runs prompts in the order they were sent, one at a time."""

    _observer: RunObserver

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self.is_held = False
        self.waiting: list[QueuedPrompt] = []
        self.current: RunFollower | None = None

    def report_to(self, observer: RunObserver) -> None:
        """Report to `observer`, which makes the runs, too; called before the first prompt."""
        self._observer = observer

    @property
    def is_busy(self) -> bool:
        """Whether an answer is being written."""
        return self.current is not None

    def send(self, pending: QueuedPrompt, *, first: bool = False) -> None:
        """Run this prompt, after those that were sent before, or `first`."""
        self.waiting.insert(0 if first else len(self.waiting), pending)
        self.resume()

    def resume(self) -> None:
        """Run what waits, also after a stop."""
        self.is_held = False
        if self._task is None:
            self._task = asyncio.create_task(self._run_next())
            self._task.add_done_callback(self._done)
        else:
            self._observer.changed(self.current)

    def take_back(self, pending: QueuedPrompt | None = None) -> QueuedPrompt | None:
        """Take a prompt that waits out of the queue (None: the one sent last), if it still does."""
        taken = pending or (self.waiting[-1] if self.waiting else None)
        if taken not in self.waiting:
            return None
        self.waiting.remove(taken)
        self._observer.changed(self.current)
        return taken

    def stop(self, *, hold: bool = False) -> None:
        """Stop the answer that is being written; what there is of it is kept.

        With `hold` what waits stays in `waiting` until `send` or `resume`.
        """
        self.is_held = hold
        if self.current is not None:
            self.current.run.cancel()

    async def close(self) -> None:
        """Stop, and wait until all is on disk; what waits stays in `waiting`."""
        self._closing = True
        self.stop()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=5)

    async def _run_next(self) -> None:
        try:
            while self.waiting and not (self._closing or self.is_held):
                pending = self.waiting.pop(0)
                try:
                    await self._answer(pending)
                except BatonError as error:
                    self.current = None
                    await self._observer.refused(pending, error)
                self._observer.changed(None)
        finally:  # nothing is awaited after the last look: what is sent now begins a new task
            self._task = self.current = None

    async def _answer(self, pending: QueuedPrompt) -> None:
        self.current = RunFollower(pending, self._observer.begin(pending), self._observer)
        self._observer.changed(self.current)
        await self.current.follow()
        ended, self.current = self.current, None
        await self._observer.ended(ended)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._observer.broke(error)


def used_context_share(run: RunView) -> float | None:
    """Return the part of the worker's context that a conversation takes after this run."""
    for call in reversed(run.calls):
        if call.context:
            return (call.tokens_in + call.tokens_out) / call.context
    return None
