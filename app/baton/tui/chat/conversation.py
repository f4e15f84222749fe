"""A conversation as it is read: opened, looked through, copied from, explained, kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from textual import on, work
from textual.screen import Screen

from baton.core.errors import BatonError
from baton.core.feedback import rating
from baton.core.labels import Label
from baton.core.ledger_types import Status
from baton.core.messages import Role, Turn
from baton.core.sanitiser import one_line
from baton.core.view import RunView
from baton.presentation.answers import (
    AnswerSummary,
    CardsById,
    summarise_answer,
    without_released_charges,
)
from baton.tui import desktop
from baton.tui.prompt_queue import ConversationState, record_view, used_context_share
from baton.tui.services import AppServices
from baton.tui.widgets.status_lines import Footer, Header
from baton.tui.widgets.transcript import Transcript
from baton.tui.widgets.turn_view import TurnView


class ReadingScreen(Screen[None]):
    """Shows one conversation and acts on its turns."""

    def __init__(self, desk: AppServices) -> None:
        super().__init__()
        self.desk = desk
        self.chat = ConversationState(label=desk.limits.label)
        self.header = Header()
        self.transcript = Transcript()
        self.footer = Footer()
        self._code = (-1, "")

    async def complain(self, error: BatonError) -> None:
        """Say in the conversation what went wrong and what to do."""
        await self.transcript.note(str(error), error=True)

    async def show(self, conversation: str | None, at: str | None = None) -> None:
        """Show a conversation (None: a new one), at its end or at one of its turns."""
        store = self.desk.store
        if conversation is None:
            self.chat = ConversationState(label=self.desk.limits.label)
            await self.transcript.show([])
        else:
            turns = await store.thread(conversation)
            if at is not None and all(turn.id != at for turn in turns):
                await store.select(at)
                turns = await store.thread(conversation)
            found = await store.conversation(conversation)
            self.chat = ConversationState(found.id, found.title, found.label, found.sent_from)
            await self.transcript.show(turns, found.sent_from, at)
        await self._show_context()
        self.describe()

    def describe(self) -> None:
        """Show in the header what conversation this is."""
        self.header.title = self.chat.title or "New conversation"
        private = Label.LOCAL in (self.chat.label, self.desk.limits.label)
        terms = self.desk.orchestra.terms
        first = "local only" if terms.mode == "local" else "local first"
        self.header.offline = terms.offline
        self.header.policy = "private" if private else "" if terms.offline else first

    @property
    def roster(self) -> CardsById:
        """The workers there are, by their ids."""
        return {card.id: card for card in self.desk.orchestra.roster}

    async def _show_context(self) -> None:
        run = await self.desk.store.last_run(self.chat.id) if self.chat.id else None
        self.header.context = used_context_share(record_view(run)) if run else None

    @on(Transcript.Changed)
    @work(exclusive=True, group="facts")
    async def _learn(self) -> None:
        """Find out how the answers on the screen came about, and which have other versions."""
        store = self.desk.store
        views = self.transcript.views
        done = await store.signals([view.turn.id for view in views])
        for view in reversed(views):
            turn = view.turn
            view.rate(rating(done.get(turn.id, ())) or "")
            versions = await store.siblings(turn.id)
            run = None
            if turn.role is Role.ASSISTANT and turn.run:
                run = await self._replayed(turn.run)
            facts = summarise_answer(run, self.roster) if run else AnswerSummary()
            facts = facts.with_version(versions.index(turn.id) + 1, len(versions))
            if facts != view.summary and view.is_attached:
                view.show_summary(facts)

    # What is done with one turn

    def selected_prompt(self) -> Turn | None:
        """Return the selected prompt, or the one that the selected answer belongs to."""
        if (view := self.transcript.selected) is None:
            return None
        if view.turn.role is Role.USER:
            return view.turn
        turns = self.transcript.turns
        return next((turn for turn in turns if turn.id == view.turn.parent), None)

    def action_copy(self) -> None:
        """Copy the selected message, from its source."""
        if (view := self.transcript.selected) is not None:
            self.copy_text(view.source)
            self.copied(view)

    def action_copy_code(self) -> None:
        """Copy the next code block of the selected message, from its source."""
        from baton.tui.widgets.answer import code_blocks

        if (view := self.transcript.selected) is None:
            return
        blocks = code_blocks(view.source)
        if not blocks:
            self.footer.say("no code in this message")
            return
        last, turn = self._code
        index = (last + 1) % len(blocks) if turn == view.turn.id else 0
        self._code = (index, view.turn.id)
        self.copy_text(blocks[index], f", block {index + 1} of {len(blocks)}")
        self.copied(view)

    def copied(self, view: TurnView) -> None:
        """Hear that all or a part of a message was copied."""

    @work(group="copy")
    async def copy_text(self, text: str, of: str = "") -> None:
        """Copy a text, and say how much that was."""
        from baton.tui import desktop

        lines = text.rstrip("\n").count("\n") + 1
        if not (desktop.has_system_clipboard() and await desktop.copy_to_system(text)):
            self.app.copy_to_clipboard(text)
        self.footer.say(f"copied {lines} {'line' if lines == 1 else 'lines'}{of}")

    @work(group="why")
    async def action_why(self) -> None:
        """Show how the selected answer came about."""
        from baton.tui.screens.workflow_screen import WorkflowScreen

        view = self.transcript.selected
        if view is None or view.turn.role is not Role.ASSISTANT:
            self.footer.say("choose an answer first")
            return
        run = await self.story_of(view)
        text = view.source
        self.app.push_screen(WorkflowScreen(run, self.roster, self.desk.ledger, text))

    async def story_of(self, view: TurnView) -> Callable[[], RunView]:
        """Return what tells how the run of an answer stands, or stood."""
        if (run := self.run_of(view)) is not None:
            return run
        stored = await self._replayed(view.turn.run) if view.turn.run else RunView()
        return lambda: stored

    async def _replayed(self, run: str) -> RunView:
        """Return a stored run; what was released since isn't charged."""
        view = record_view(await self.desk.store.run(run))
        if all(call.confirmed for call in view.calls):
            return view
        charges = await self.desk.ledger.charges(run)
        return without_released_charges(
            view, {c.call for c in charges if c.status is Status.RELEASED}
        )

    def run_of(self, view: TurnView) -> Callable[[], RunView] | None:
        """Return what tells how the run stands that is writing this answer, if one is."""
        return None

    async def action_branch(self, step: int) -> None:
        """Show another version of the selected message, and what follows it."""
        if (view := self.transcript.selected) is None or self.chat.id is None:
            return
        versions = await self.desk.store.siblings(view.turn.id)
        index = versions.index(view.turn.id) + step
        if 0 <= index < len(versions):
            await self.desk.store.select(versions[index])
            await self.show(self.chat.id, versions[index])

    # What is done with the conversation

    @work(group="rename")
    async def action_rename(self, title: str = "") -> None:
        """Give the conversation another title."""
        from baton.tui.screens.dialogs import RenameScreen

        if self.chat.id is None:
            self.footer.say("there is nothing to rename yet")
            return
        new: str | None = one_line(title)
        if not new:
            new = await self.app.push_screen_wait(RenameScreen(self.chat.title))
        if new:
            await self.desk.store.rename(self.chat.id, new)
            self.chat.title = new
            self.describe()

    async def action_export(self, path: str = "") -> None:
        """Save the conversation as Markdown, and say where."""
        if self.chat.id is None:
            self.footer.say("there is nothing to export yet")
            return
        await self.transcript.note(await self.export(self.chat.id, path))

    async def export(self, conversation: str, path: str = "") -> str:
        """Save a conversation and return the sentence that says where it is."""
        from baton.core.markdown_export import to_markdown

        found = await self.desk.store.conversation(conversation)
        text = to_markdown(found, await self.desk.store.thread(conversation))
        target = desktop.export_path(path, self.desk.exports, found.title)
        await asyncio.to_thread(desktop.save_export, target, text)
        return f"Saved as {_short(target)}."

    async def action_private(self, state: str = "on") -> None:
        """Keep the conversation on this machine, or lift that again."""
        private = state.strip().lower() not in ("off", "no")
        label = Label.LOCAL if private else Label.CLOUD
        if self.chat.id is not None:
            await self.desk.store.relabel(self.chat.id, label)
        self.chat.label = label
        self.describe()
        await self.transcript.note(
            "Nothing of this conversation leaves this machine from now on."
            if private
            else "This conversation may leave this machine again, if you let a cloud worker help."
        )


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
