"""Feedback on answers: marks, what the user does with an answer, and learning from both."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from baton.core.errors import BatonError
from baton.core.feedback import Signal, rating
from baton.core.messages import Role, Turn, TurnStatus
from baton.tui.chat.context import ChatContext

_COMPLETE = (TurnStatus.DONE, TurnStatus.CUT)
"""Only what is done with a complete answer says something about it."""

LEARN_HINT_ANSWERS = 20
"""After how many answers with something new to learn from /learn is mentioned."""


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
        footer.say(await self._describe_mark(now))

    async def _describe_mark(self, mark: Signal | None) -> str:
        if mark is None:
            return "the mark is taken back"
        tutor = self._services.tutor
        news = await tutor().count_new_answers() if tutor is not None else 0
        if news and news % LEARN_HINT_ANSWERS == 0:
            return f"marked as {mark} · {news} new: /learn learns from them"
        return f"marked as {mark}"

    async def learn(self, what: str = "") -> None:
        """Let the router learn from what was done with answers, or take that back."""
        command, transcript, footer = what.strip().lower(), self._transcript, self._context.footer
        if self._services.tutor is None or command not in ("", "undo", "forget"):
            line = f"/learn {command} is not understood." if command else "Nothing can learn here."
            await transcript.note(f"{line} There are /learn, /learn undo and /learn forget.")
            return
        from baton.routing import result_lines

        tutor = self._services.tutor()
        if command:
            line = tutor.undo() if command == "undo" else tutor.forget()
            self._warm_router()
            await transcript.note(line)
            return
        footer.say("learning from your answers", 60)
        try:
            lesson = await tutor.learn()
        finally:
            footer.said = ""
        self._warm_router()
        undo = ["/learn undo takes that back."] if lesson.is_kept else []
        await transcript.note("\n".join([*result_lines(lesson), *undo]))

    def _warm_router(self) -> None:
        """Let the router load what it learned now, so that no prompt waits for that."""
        self._services.orchestra.services.router.warm()
