"""The conversation on the screen: opened, kept as a draft, copied from, explained, exported."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from textual._styles_cache import StylesCache

from baton.core.errors import BatonError
from baton.core.history_types import Signal, rating
from baton.core.ledger_types import Status
from baton.core.messages import Role, Turn, TurnStatus
from baton.core.sanitiser import one_line
from baton.core.view import RunView
from baton.platform.durable_files import expand_home
from baton.presentation.answers import AnswerSummary, answer_parts, without_released_charges
from baton.presentation.run_story import record_view
from baton.presentation.words import count_text
from baton.tui import desktop
from baton.tui.chat.budget import BudgetController
from baton.tui.chat.context import NO_MODEL, ChatContext
from baton.tui.chat.onboarding import OnboardingController
from baton.tui.chat.questions import QuestionController
from baton.tui.prompt_queue import ConversationState, RunFollower, used_context_share
from baton.tui.widgets.turn_view import TurnView

if TYPE_CHECKING:
    from baton.presentation.chat_texts import RecentText


DELETED_SECONDS = 24 * 3600
"""For how long at least a deleted conversation is kept, since another Baton may bring it back."""


@dataclass(eq=False, repr=False)
class ConversationController:
    """Opens conversations, and acts on the one that is shown and on its turns."""

    context: ChatContext
    questions: QuestionController
    budget: BudgetController
    onboarding: OnboardingController
    feedback: FeedbackController

    def __post_init__(self) -> None:
        self._services = self.context.services
        self._transcript = self.context.transcript
        self._code = (-1, "")

    # Which conversation is shown

    async def begin(self) -> None:
        """Show what Baton was opened with, unless a prompt was quicker: its answer stays.

        A new conversation is on the screen already. It isn't replaced, since its first
        prompt may be sent at any moment, also while the history is read.
        """
        if self._services.conversation is not None:
            return await self.open(self._services.conversation)
        composer = self.context.composer
        try:
            draft = await self._services.store.draft("")
            if self.context.is_untouched and composer.is_empty:
                composer.put(draft)
            if self.context.is_untouched:
                await self.onboarding.greet(first=True)
            gc.freeze()
        except BatonError as error:
            await self.context.complain(error)
        self.budget.measure()

    async def open(self, conversation: str | None, at: str | None = None) -> None:
        """Show another conversation (None: a new one), with its draft."""
        composer, store = self.context.composer, self._services.store
        try:
            written = (composer.text, composer.pasted)
            is_fresh = self.context.chat.id is None and not self._transcript.turns
            if not is_fresh:
                await self.keep_draft()
            draft = await store.draft(conversation or "")
            await self.show(conversation, at)  # from here on a pause in typing keeps another one
            draft = draft.removeprefix(self._queued(conversation)).lstrip("\n")
            is_unchanged = (composer.text, composer.pasted) == written
            if is_unchanged and not (is_fresh and any(written)):
                composer.editing = None
                composer.put(draft)
            if conversation is None:
                await self.onboarding.greet()
            _spare_history()
        except BatonError as error:
            await self.context.complain(error)
        self._rejoin_run()
        self.budget.measure()

    async def open_new(self) -> None:
        """Begin a new conversation. The prompt has the focus at once, and is free to lose it."""
        self.context.screen.set_focus(self.context.composer.prompt)
        await self.open(None)

    async def continue_recent(self, recent: RecentText) -> None:
        """Open a conversation that the home offers; where something is open, at that answer."""
        await self.open(recent.conversation, recent.at)
        (self.context.composer.prompt if recent.at is None else self._transcript).focus()

    async def find(self, words: str = "") -> None:
        """Find an earlier conversation, and open it. To be run in a worker."""
        from baton.tui.screens.conversations_screen import ConversationsScreen

        store, context = self._services.store, self.context
        screen = ConversationsScreen(store, context.roster, self.save_export, words)
        chosen = await context.screen.app.push_screen_wait(screen)
        if chosen is not None:
            await self.open(chosen.conversation, chosen.turn)
        elif context.chat.id is not None:
            # It may have been renamed or deleted there.
            try:
                context.chat.title = (await store.conversation(context.chat.id)).title
            except BatonError:
                await self.open(None)
            else:
                self.describe()
        elif context.is_untouched:
            await self.onboarding.show_home()  # something may have been renamed or deleted there

    async def show(self, conversation: str | None, at: str | None = None) -> None:
        """Show the turns of a conversation (None: a new one), at its end or at one of them."""
        store, context = self._services.store, self.context
        if conversation is None:
            context.enter(ConversationState(label=self._services.limits.label))
            await self._transcript.show([])
        else:
            turns = await store.thread(conversation)
            if at is not None and all(turn.id != at for turn in turns):
                await store.select(at)
                turns = await store.thread(conversation)
            stored = await store.conversation(conversation)
            chat = ConversationState(stored.id, stored.title, stored.label)
            context.enter(chat)
            await self._transcript.show(turns, stored.sent_from, at)
        run = await store.runs.last(context.chat.id) if context.chat.id else None
        context.header.context = used_context_share(record_view(run)) if run else None
        self.describe()

    def describe(self) -> None:
        """Show which conversation this is, and whether the open question is from it."""
        self.context.show_header()
        self.questions.show()

    # Drafts

    async def keep_draft(self) -> None:
        """Store the prompts that wait and the one being written, for when this is opened again."""
        chat = self.context.chat
        text = "\n\n".join(filter(None, (self._queued(chat.id), self.context.composer.draft)))
        await self._services.store.save_draft(chat.id or "", text)

    async def forget_first_draft(self) -> None:
        """Drop the draft of the conversation to come: its first prompt was sent."""
        await self._services.store.save_draft("", "")
        await self.keep_draft()

    def _queued(self, conversation: str | None) -> str:
        """Return the conversation's prompts that wait, which no run has recorded yet."""
        waiting = self.context.queue.waiting
        return "\n\n".join(p.prompt.text for p in waiting if p.chat.id == conversation)

    async def close(self) -> None:
        """Keep the draft, and forget what was deleted long ago."""
        store = self._services.store
        try:
            await self.keep_draft()
            if runs := await store.runs.of_hidden(older_than_seconds=DELETED_SECONDS):
                # First, since runs that are deleted can't be found any more.
                await self._services.ledger.forget(runs)
            await store.purge_hidden(older_than_seconds=DELETED_SECONDS)
        except BatonError:
            pass  # the history can't be written, which was shown when it happened

    # Runs on the screen

    def view_of(self, follower: RunFollower) -> TurnView | None:
        """Return what shows the answer of a run, if it is on the screen."""
        started = follower.view.started
        return self._transcript.view_of(started.answer) if started else None

    def draw_run(self, follower: RunFollower) -> None:
        """Let a run's answer be drawn as it grows, if it is on the screen."""
        view, roster = self.view_of(follower), self.context.roster
        if view is None:
            follower.draw = None
            return

        def draw(run: RunView) -> None:
            view.show_run(run, roster)
            view.draw(answer_parts(run, roster))

        follower.draw = draw

    def _rejoin_run(self) -> None:
        """Draw the current run if its conversation is on the screen again."""
        follower, chat = self.context.queue.current, self.context.chat
        if follower is not None and follower.pending.chat.id == chat.id is not None:
            follower.pending.chat = chat
            self.draw_run(follower)

    async def load_summaries(self) -> None:
        """Load how the answers on the screen were made, and which have other versions."""
        store, views = self._services.store, self._transcript.views
        shown = [view.turn.id for view in views]
        signals, siblings = await store.feedback.signals(shown), await store.runs.versions(shown)
        for view in reversed(views):
            turn = view.turn
            view.rate(rating(signals.get(turn.id, ())) or "")
            versions = siblings[turn.id]
            run = None
            if turn.role is Role.ASSISTANT and turn.run:
                run = await self._stored_run(turn.run)
            if run is not None and view.is_attached and turn.status is not TurnStatus.STREAMING:
                view.show_run(run, self.context.roster)
            unknown = AnswerSummary(author=self.context.name_of(turn.worker))
            summary = self.context.summarise(run) if run else unknown
            summary = summary.with_version(versions.index(turn.id) + 1, len(versions))
            if summary != view.summary and view.is_attached:
                view.show_summary(summary)
        self.context.screen.refresh_bindings()  # an answer may be one to continue

    async def run_of(self, view: TurnView) -> Callable[[], RunView]:
        """Return what shows the run of an answer as it is now, or as it was stored."""
        current = self.context.queue.current
        if current is not None and self.view_of(current) is view:
            return lambda: current.view
        stored = await self._stored_run(view.turn.run) if view.turn.run else RunView()
        return lambda: stored

    async def _stored_run(self, run: str) -> RunView:
        """Return a stored run, without the charges that were released since."""
        view = record_view(await self._services.store.runs.get(run))
        if all(call.confirmed for call in view.calls):
            return view
        charges = await self._services.ledger.charges(run)
        released = {charge.call for charge in charges if charge.status is Status.RELEASED}
        return without_released_charges(view, released)

    # The selected turn

    def selected_prompt(self) -> Turn | None:
        """Return the selected prompt, or the one that the selected answer belongs to."""
        if (view := self._transcript.selected) is None:
            return None
        if view.turn.role is Role.USER:
            return view.turn
        turns = self._transcript.turns
        return next((turn for turn in turns if turn.id == view.turn.parent), None)

    def copy(self) -> None:
        """Copy the source of the selected message."""
        if (view := self._transcript.selected) is not None:
            self._copy(view, view.source)

    def copy_code(self) -> None:
        """Copy the next code block of the selected message."""
        from baton.tui.answer_markdown import code_blocks

        if (view := self._transcript.selected) is None:
            return
        blocks = code_blocks(view.source)
        if not blocks:
            self.context.footer.say("no code in this message")
            return
        last, turn = self._code
        index = (last + 1) % len(blocks) if turn == view.turn.id else 0
        self._code = (index, view.turn.id)
        self._copy(view, blocks[index], f", block {index + 1} of {len(blocks)}")

    def _copy(self, view: TurnView, text: str, which: str = "") -> None:
        self.context.start(partial(self.copy_text, text, which), "copy")
        self.feedback.record(view.turn, Signal.COPIED)

    async def copy_text(self, text: str, which: str = "") -> None:
        """Copy a text, and say what is known of it; `which` says what of a message it is."""
        lines = count_text(text.rstrip("\n").count("\n") + 1, "line")
        send = self.context.screen.app.copy_to_clipboard
        self.context.footer.say(await desktop.copy(text, f"{lines}{which}", send))

    async def show_workflow(self) -> None:
        """Show how the selected answer was made."""
        from baton.tui.screens.workflow_screen import WorkflowScreen

        view, context = self._transcript.selected, self.context
        if view is None or view.turn.role is not Role.ASSISTANT:
            context.footer.say("choose an answer first")
            return
        run = await self.run_of(view)
        screen = WorkflowScreen(run, context.roster, self._services.ledger, view.source)
        context.screen.app.push_screen(screen)

    def toggle_timeline(self) -> None:
        """Show when each step of the selected answer was at work, or one line again."""
        view = self._transcript.selected
        if view is not None and view.has_timeline:
            view.toggle_timeline()
        else:
            self.context.footer.say("this message has no steps")

    async def show_version(self, step: int) -> None:
        """Show another version of the selected message, or else of its prompt, and what follows."""
        view, conversation = self._transcript.selected, self.context.chat.id
        if view is None or conversation is None:
            return
        shown, store = view.turn.id, self._services.store
        versions = await store.siblings(shown)
        if len(versions) < 2 and view.turn.role is Role.ASSISTANT and view.turn.parent:
            shown = view.turn.parent
            versions = await store.siblings(shown)
        index = versions.index(shown) + step
        if 0 <= index < len(versions):
            await store.select(versions[index])
            await self.show(conversation, versions[index])
        else:
            where = "before" if step < 0 else "after"
            self.context.footer.say(f"there is no version {where} this one")

    # The whole conversation

    async def describe_context(self) -> None:
        """Say how much of the worker's context the conversation takes."""
        context = self.context
        card, used = context.roster.get(context.worker), context.header.context
        room = f"{card.context:,} tokens" if card is not None and card.context else "unknown"
        name = card.name if card is not None else NO_MODEL
        share = "none of it yet" if used is None else f"{used * 100:.0f} % of it"
        await self._transcript.note(
            f"Context of {name}: {room}. This conversation takes {share}; /new begins an empty one."
        )

    async def rename(self, title: str = "") -> None:
        """Give the conversation another title. To be run in a worker."""
        from baton.tui.screens.overlay import RenameScreen

        chat, app = self.context.chat, self.context.screen.app
        if chat.id is None:
            self.context.footer.say("there is nothing to rename yet")
            return
        new: str | None = one_line(title)
        if not new:
            new = await app.push_screen_wait(RenameScreen(chat.title))
        if new:
            await self._services.store.rename(chat.id, new)
            chat.title = new
            self.describe()

    async def export(self, path: str = "") -> None:
        """Save the conversation as Markdown, and say where."""
        if self.context.chat.id is None:
            self.context.footer.say("there is nothing to export yet")
            return
        await self._transcript.note(await self.save_export(self.context.chat.id, path))

    async def save_export(self, conversation: str, path: str = "") -> str:
        """Save a conversation as Markdown, and return the sentence that says where it is."""
        from baton.core.markdown import to_markdown

        store = self._services.store
        stored = await store.conversation(conversation)
        text = to_markdown(stored, await store.thread(conversation))
        target = desktop.export_path(path, self._services.exports, stored.title)
        await asyncio.to_thread(desktop.save_export, target, text)
        home = expand_home("~")
        is_below = target.is_relative_to(home)
        return f"Saved as {f'~/{target.relative_to(home)}' if is_below else target}."


def _spare_history() -> None:
    """Keep the garbage collector from the history, or typing waits 0.1 s for each collection.

    What the conversation before left behind goes first: what is frozen is never freed. Textual
    caches two colors by widget, and with them the lines of up to 1,024 widgets that are gone.
    """
    StylesCache.get_inner_outer.cache_clear()
    gc.unfreeze()
    gc.collect()
    gc.freeze()


# Ratings of answers


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
