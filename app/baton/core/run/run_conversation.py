"""What a run's workers are shown of the conversation, which may grow too long for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from baton.core.errors import ContextTooLong
from baton.core.events import Event, Trimmed
from baton.core.messages import Turn, count_turns_to_drop, estimated_tokens, text_with_files
from baton.core.plan.plan import Material
from baton.core.ports import Ask, Choice, Question, RecordedRun, Store


class RunConversation:
    """The turns that a run's workers are shown, fewer once the person lets it be trimmed."""

    def __init__(
        self,
        recorded: RecordedRun,
        store: Store,
        ask: Ask,
        emit: Callable[[Event], Awaitable[None]],
    ) -> None:
        self._id = recorded.conversation
        self._material = Material(recorded.turns)
        self._store = store
        self._ask = ask
        self._emit = emit
        self._lock = asyncio.Lock()

    @property
    def material(self) -> Material:
        """What workers are shown now."""
        return self._material

    async def trim(self, error: ContextTooLong, shown: Material) -> bool:
        """Leave the oldest turns out, if the person wants that; return whether it was done."""
        async with self._lock:
            if self._material is not shown:
                return True  # for another step, which was as long
            return await self._trim(error)

    async def _trim(self, error: ContextTooLong) -> bool:
        turns = self._material.turns
        first = count_turns_to_drop(turns, _room(error, turns))
        if first == 0:
            error.hint = "Shorten the prompt, or attach less."
            return False
        question = Question(
            f"{error.message} Leave out the {first} oldest turns? They stay in your history.",
            (Choice("trim", "Leave them out"), Choice("stop", "Stop here")),
            default="stop",
        )
        if await self._ask(question) != "trim":
            return False
        self._material = Material(turns[first:])
        await self._store.trim(self._id, turns[first].id)
        await self._emit(Trimmed(first))
        return True


def _room(error: ContextTooLong, turns: tuple[Turn, ...]) -> int:
    """Turn the worker's exact count into our estimate's scale, and leave half of it free."""
    estimate = sum(estimated_tokens(text_with_files(turn.text, turn.files)) for turn in turns)
    return estimate * error.limit // (2 * max(error.needed, 1))
