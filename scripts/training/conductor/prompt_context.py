"""A context of llama.cpp that one prompt has for itself: for measurements and tests."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from baton.workers.local.child import llama
from baton.workers.local.child.batch_plan import share_for
from baton.workers.local.child.model_context import (
    NO_ADAPTER,
    AppliedAdapter,
    Context,
    Reading,
    Share,
)
from baton.workers.local.child.sampler import Sampler


class PromptContext(Context):
    """Reads a prompt and writes the answer to it, one after the other."""

    def __init__(
        self,
        model: llama.Model,
        limit: int,
        threads: int,
        cancelled: Callable[[], bool],
        quantised: bool = False,
    ) -> None:
        super().__init__(model, limit, threads, cancelled, quantised)
        self._own_model = model
        self._is_cancelled = cancelled
        self._wanted = NO_ADAPTER

    def set_adapter(self, adapter: Any, scale: float) -> None:
        """Compute with an adapter from now on, None: with none."""
        self._wanted = AppliedAdapter(adapter, scale) if adapter else NO_ADAPTER

    def read(self, prompt: Sequence[int], progress: Callable[[int, int], None]) -> int:
        """Read a prompt; return how many of its tokens were known.

        `progress` gets how many tokens have been read, of how many that have to be.
        """
        for held in self.slots:
            self.release(held)
        slot = self.take(prompt, self._wanted)
        assert slot is not None, "a prompt alone has room"
        known = len(slot.tokens)
        while len(slot.tokens) < len(prompt):
            progress(len(slot.tokens) - known, len(prompt) - known)
            at = len(slot.tokens)
            batch = prompt[at : at + share_for(len(prompt) - at, self._own_model.batch)]
            share = Share(slot, batch, at + len(batch) == len(prompt))
            if self.decode([share]) is not Reading.DONE and self._is_cancelled():
                return known
        progress(len(prompt) - known, len(prompt) - known)
        return known

    def write(self, sampler: Sampler) -> Generator[int]:
        """Yield the tokens that follow what was read, until the model ends or it is cancelled."""
        slot = next(slot for slot in self.slots if not slot.is_free)
        while not self._is_cancelled():
            token = sampler.next(self.native, -1)
            if self._own_model.is_end(token):
                return
            yield token
            if self.decode([Share(slot, [token], is_sampled=True)]) is not Reading.DONE:
                return
