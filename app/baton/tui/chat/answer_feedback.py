"""A conversation whose answers are judged: by what the person says of them, and does with them."""

from __future__ import annotations

from contextlib import suppress

from textual import work

from baton.core.errors import BatonError
from baton.core.feedback import Signal, rating
from baton.core.messages import Role, Turn, TurnStatus
from baton.tui.chat.conversation import ReadingScreen
from baton.tui.widgets.turn_view import TurnView

_WHOLE = (TurnStatus.DONE, TurnStatus.CUT)
"""Answers that were written to their end: what is done with others says nothing of them."""


NEWS = 20
"""After every so many answers with something new to learn from, that is said in passing."""


class JudgingScreen(ReadingScreen):
    """Marks answers, and keeps what is done with them; nothing of it leaves this machine."""

    def selected_answer(self) -> Turn | None:
        """Return the selected answer, or the one to the selected prompt."""
        if (view := self.transcript.selected) is None:
            return None
        return view.turn if view.turn.role is Role.ASSISTANT else self.answer_to(view.turn)

    def answer_to(self, prompt: Turn) -> Turn | None:
        """Return the answer to a prompt that stands in the conversation."""
        return next((turn for turn in self.transcript.turns if turn.parent == prompt.id), None)

    def note(self, answer: Turn | None, signal: Signal) -> None:
        """Keep what was done with an answer."""
        if answer is not None and answer.role is Role.ASSISTANT and answer.status in _WHOLE:
            self._keep(answer.id, signal)

    @work(group="signals")
    async def _keep(self, answer: str, signal: Signal) -> None:
        with suppress(BatonError):  # nobody asked for it, so nobody has to hear that it failed
            await self.desk.store.add_signal(answer, signal)

    # What the person says

    async def action_good(self) -> None:
        """Mark the selected answer as good, or take that back."""
        await self._rate(Signal.GOOD)

    async def action_bad(self) -> None:
        """Mark the selected answer as bad, or take that back."""
        await self._rate(Signal.BAD)

    async def _rate(self, wanted: Signal) -> None:
        answer = self.selected_answer()
        if answer is not None and answer.status is TurnStatus.STREAMING:
            self.footer.say("the answer is still being written")
            return
        if answer is None or not answer.text.strip():
            self.footer.say("there is no answer here to judge")
            return
        store = self.desk.store
        before = rating((await store.signals([answer.id])).get(answer.id, ()))
        now = None if before is wanted else wanted
        await store.rate(answer.id, now)
        if (view := self.transcript.view_of(answer.id)) is not None:
            view.rate(now or "")
        self.footer.say(await self._told(now))

    async def _told(self, now: Signal | None) -> str:
        """Say what a mark is now, and now and then what it is good for."""
        if now is None:
            return "the mark is taken back"
        news = await self.desk.tutor().count_new_answers() if self.desk.tutor is not None else 0
        if news and news % NEWS == 0:
            return f"marked as {now} · {news} new: /learn learns from them"
        return f"marked as {now}"

    @work(group="learn", exclusive=True)
    async def action_learn(self, what: str = "") -> None:
        """Have the router learn from what was done with answers, or take that back."""
        wanted = what.strip().lower()
        if self.desk.tutor is None or wanted not in ("", "undo", "forget"):
            said = f"/learn {wanted} is not understood." if wanted else "Nothing can learn here."
            await self.transcript.note(f"{said} There are /learn, /learn undo and /learn forget.")
            return
        from baton.routing.personalisation import result_lines

        tutor = self.desk.tutor()
        if wanted:
            said = tutor.undo() if wanted == "undo" else tutor.forget()
            self._warm_router()
            await self.transcript.note(said)
            return
        self.footer.say("learning from your answers", 60)
        try:
            lesson = await tutor.learn()
        finally:
            self.footer.said = ""
        self._warm_router()
        undo = ["/learn undo takes that back."] if lesson.is_kept else []
        await self.transcript.note("\n".join([*result_lines(lesson), *undo]))

    def _warm_router(self) -> None:
        """Have the router read what is learned now, so that no prompt waits for that."""
        self.desk.orchestra.services.router.warm()

    # What the person does

    def action_copy_text(self) -> None:
        """Copy what is selected with the mouse."""
        marked = {
            view
            for widget in self.selections
            for view in widget.ancestors_with_self
            if isinstance(view, TurnView)
        }
        super().action_copy_text()
        for view in marked:
            self.copied(view)

    def copied(self, view: TurnView) -> None:
        """Keep that all or a part of an answer was copied."""
        self.note(view.turn, Signal.COPIED)
