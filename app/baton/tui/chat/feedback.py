"""Feedback on answers: marks, and what the user does with an answer."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from baton.core.errors import BatonError
from baton.core.history_types import Signal, rating
from baton.core.messages import Role, Turn, TurnStatus
from baton.tui.chat.context import ChatContext

_COMPLETE = (TurnStatus.DONE, TurnStatus.CUT)
"""Only what is done with a complete answer says something about it."""


class FeedbackController:
    """Marks answers and records what is done with them; none of it leaves this machine."""

    def __init__(self, context: ChatContext) -> None:
        self._context = context
        self._transcript = context.transcript
        self._services = context.services

    def selected_answer(self) -> Turn | None:
        """Return the selected answer, or the one to the selected prompt."""
        if (view := self._transcript.selected) is None:
            return None
        return view.turn if view.turn.role is Role.ASSISTANT else self.answer_to(view.turn)

    def answer_to(self, prompt: Turn) -> Turn | None:
        """Return the answer to a prompt on the branch that is shown."""
        return next((turn for turn in self._transcript.turns if turn.parent == prompt.id), None)

    def record(self, answer: Turn | None, signal: Signal) -> None:
        """Record what was done with an answer, in the background."""
        if answer is not None and answer.role is Role.ASSISTANT and answer.status in _COMPLETE:
            self._context.start(partial(self._store, answer.id, signal), "signals")

    async def _store(self, answer: str, signal: Signal) -> None:
        with suppress(BatonError):  # the user did not ask for it, so a failure is not shown
            await self._services.store.feedback.add_signal(answer, signal)

    async def mark(self, mark: Signal) -> None:
        """Mark the selected answer as good or bad, or take that back."""
        answer, footer = self.selected_answer(), self._context.footer
        if answer is not None and answer.status is TurnStatus.STREAMING:
            footer.say("the answer is still being written")
            return
        if answer is None or not answer.text.strip():
            footer.say("there is no answer here to mark")
            return
        store = self._services.store
        before = rating((await store.feedback.signals([answer.id])).get(answer.id, ()))
        now = None if before is mark else mark
        await store.feedback.rate(answer.id, now)
        if (view := self._transcript.view_of(answer.id)) is not None:
            view.rate(now or "")
        footer.say(f"marked as {now}" if now else "the mark is taken back")
