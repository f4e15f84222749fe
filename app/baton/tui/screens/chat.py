"""The conversation: what Baton is opened for."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import replace

from textual import on, work
from textual.app import ComposeResult

from baton.domain.chat import Attachment, Card, Role, Turn, TurnStatus
from baton.domain.chat import Prompt as Asked
from baton.domain.errors import BatonError
from baton.domain.labels import strictest
from baton.domain.sanitise import one_line
from baton.domain.view import RunView, doing
from baton.engine.ports import Choice, Place, Question
from baton.engine.run import Run
from baton.tui import commands, keys
from baton.tui.desk import Desk
from baton.tui.playing import Follower, Pending, Player, context_used
from baton.tui.screens.reading import ReadingScreen
from baton.tui.widgets.composer import Composer
from baton.tui.widgets.prompt import Prompt
from baton.tui.widgets.question import ChoiceView, QuestionView
from baton.tui.widgets.transcript import Transcript
from baton.tui.widgets.turn import TurnView, facts_of

WELCOME = "Baton answers on this machine. Nothing leaves it unless you say so."
TYPING_SECONDS = 0.3
"""For how long after a keystroke the next one is expected."""

TOO_LONG = Question(
    "The prompt doesn't fit into this conversation any more.",
    (Choice("leave", "Leave it"), Choice("new", "Ask it in a new conversation")),
    "leave",
)


class ChatScreen(ReadingScreen):
    """Where prompts are written, sent and answered."""

    BINDINGS = keys.CHAT
    AUTO_FOCUS = "Prompt"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.composer = Composer()
        self.player = Player(self)
        self.worker = desk.worker or desk.orchestra.default
        self._edited: Turn | None = None
        self._question: QuestionView | None = None
        self._left = False
        self._moment: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out the conversation between the header and the prompt."""
        yield self.header
        yield self.transcript
        yield self.composer
        yield self.footer

    def on_mount(self) -> None:
        """Do all that isn't needed for the first frame after it."""
        self.footer.status = one_line(self.worker, 40)
        self.describe()
        self.call_after_refresh(self._start)

    @work
    async def _start(self) -> None:
        self.desk.orchestra.worker(self.worker).warm()
        if self.desk.greeting:
            await self.transcript.note(self.desk.greeting)
        await self.open(self.desk.conversation)
        import baton.tui.widgets.answer  # noqa: F401 (so that the first answer needn't wait)

    async def open(self, conversation: str | None, at: str | None = None) -> None:
        """Show another conversation, with what was being written in it."""
        try:
            typed = self.composer.text
            fresh = self.chat.id is None and not self.transcript.turns
            if not fresh:
                await self._keep_draft()
            await self.show(conversation, at)
            draft = await self.desk.store.draft(conversation or "")
            if not (fresh and typed) and self.composer.text == typed:
                self._edit(None)
                self.composer.put(draft)
            if conversation is None:
                await self._welcome()
            gc.freeze()  # else collecting garbage looks at all of history, and typing waits 0.1 s
        except BatonError as error:
            await self.complain(error)
        current = self.player.current
        if current is not None and current.pending.chat.id == self.chat.id is not None:
            current.pending.chat = self.chat
            self._draw_on(current, len(current.view.answer))

    async def _welcome(self) -> None:
        if await self.desk.store.latest() is None:
            card = self.desk.orchestra.worker(self.worker).card
            note = f" ({card.note[0].lower()}{card.note[1:].rstrip('.')})" if card.note else ""
            await self.transcript.note(f"{WELCOME}\nReady now: {card.name}{note}.")

    async def _keep_draft(self) -> None:
        if self._edited is None:
            await self.desk.store.save_draft(self.chat.id or "", self.composer.text)

    async def close(self) -> None:
        """Stop what runs and keep everything, before the app is left."""
        self._left = True
        self.action_take_default()
        await self.player.close()
        try:
            await self._keep_draft()
            await self.desk.store.purge_hidden()
        except BatonError:
            pass  # the history can't be written, which was said when it happened

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what would do something now."""
        match action:
            case "take_default":
                return self._question is not None
            case "to_question":
                return self._question is not None and not isinstance(self.focused, ChoiceView)
            case "take_back":
                return bool(self.player.waiting)
            case "stop":
                return self.player.busy
            case "leave_edit":
                return self._edited is not None
            case "stronger":
                return self._stronger() is not None
            case _:
                return True

    # Writing and sending

    @on(Composer.Paused)
    async def _pause(self) -> None:
        try:
            await self._keep_draft()
        except BatonError as error:
            self.footer.say(str(error))

    @on(Prompt.Recalling)
    async def _recall(self) -> None:
        self.composer.prompt.remember(await self.desk.store.recent_prompts())

    @on(Transcript.Typed)
    def _type(self, event: Transcript.Typed) -> None:
        prompt = self.composer.prompt
        prompt.focus()
        prompt.insert(event.text)

    @on(Prompt.Sent)
    async def _send(self) -> None:
        text, pasted = self.composer.text, self.composer.pasted
        if not text.strip() and not pasted:
            return
        try:
            if (typed := commands.parse(text)) is not None:
                await self._command(typed)
                return
            files = await asyncio.to_thread(_read_mentions, text)
        except BatonError as error:
            await self.complain(error)
            return
        edited = self._edited
        self._edit(None)
        self.composer.put("")
        after = None if edited is None else edited.parent or ""
        self._play(Asked(text, (*pasted, *files)), after=after)

    async def _command(self, typed: commands.Typed) -> None:
        found = commands.matching(typed.name)
        if len(found) != 1:
            known = ", ".join(f"/{command.name}" for command in found or commands.COMMANDS)
            what = "could be several commands" if found else "is no command"
            self.footer.say(f"/{one_line(typed.name, 30)} {what}")
            await self.transcript.note(f"/{typed.name} {what}: {known}.", error=True)
            return
        self.composer.put("")
        await self.perform(found[0], typed.argument)

    async def perform(self, command: commands.Command, argument: str = "") -> None:
        """Do what a command says."""
        arguments = repr(argument) if command.takes and argument else ""
        await self.run_action(f"{command.action}({arguments})")

    def _play(self, prompt: Asked, **place: str | None) -> None:
        self.player.send(Pending(self.chat, prompt, **place))

    # How the runs go (playing.Stage)

    def begin(self, pending: Pending) -> Run:
        """Make the run for a prompt."""
        label = strictest([self.desk.limits.label, pending.chat.label])
        return self.desk.orchestra.play(
            pending.prompt,
            Place(pending.chat.id, pending.after, pending.again),
            replace(self.desk.limits, label=label),
            self.ask,
            pending.worker or self.worker,
        )

    async def began(self, follower: Follower) -> None:
        """Show the prompt and its answer to come."""
        pending, started = follower.pending, follower.view.started
        if pending.chat is not self.chat or started is None:
            return
        if pending.after is not None or pending.again is not None:
            await self.show(started.conversation)
            pending.chat = self.chat
        else:
            if not self.transcript.turns:
                await self.transcript.show([])
            for turn in await self.desk.store.thread(started.conversation, started.answer):
                if turn.id in (started.prompt, started.answer):
                    await self.transcript.add(turn)
            if not self.chat.title:
                self.chat.title = (await self.desk.store.conversation(started.conversation)).title
            self.describe()
        self._draw_on(follower, 0)

    def _draw_on(self, follower: Follower, drawn: int) -> None:
        follower.draw_on(self._canvas(follower), drawn)

    def _canvas(self, follower: Follower) -> TurnView | None:
        started = follower.view.started
        return self.transcript.view_of(started.answer) if started else None

    def is_typing(self) -> bool:
        """Tell whether the person is typing just now."""
        return time.monotonic() - self.composer.changed_at < TYPING_SECONDS

    def changed(self, follower: Follower | None) -> None:
        """Show what is happening now."""
        if not self.is_mounted:
            return
        if follower is not None:
            self.footer.status = self._status(follower.view, follower.pending.worker)
            if follower.pending.chat is self.chat:
                self.header.context = context_used(follower.view) or self.header.context
        moment = (self.player.busy, len(self.player.waiting))
        if moment != self._moment:
            self._moment = moment
            waiting = [pending.prompt.text for pending in self.player.waiting]
            self.composer.wait(waiting)
            self.refresh_bindings()

    def _status(self, run: RunView, worker: str | None = None) -> str:
        what = doing(run)
        return what if what.startswith("loading") else f"{worker or self.worker} · {what}"

    async def ended(self, follower: Follower) -> None:
        """Show the answer as it ended, or what went wrong."""
        self.changed(follower)
        pending, run = follower.pending, follower.view
        view = self._canvas(follower) if pending.chat is self.chat else None
        if view is not None:
            turn = replace(view.turn, text=run.answer, status=_status_of(run))
            turn = replace(turn, worker=run.calls[-1].worker if run.calls else turn.worker)
            self.transcript.replace(turn)
            view.settle(turn, facts_of(run).among(view.facts.version, view.facts.versions))
        if run.failure is not None:
            await self._mend(pending, run)

    async def _mend(self, pending: Pending, run: RunView) -> None:
        """Give back what couldn't be stored, and offer what helps."""
        assert run.failure is not None
        if run.started is None:
            await self.transcript.note(f"{run.failure.message} {run.failure.hint}", error=True)
            if pending.chat is self.chat and not self.composer.text:
                self.composer.put(pending.prompt.text, pending.prompt.files)
        elif run.failure.error == "ContextTooLong":
            alone = len(self.transcript.turns) <= 2
            if not alone and await self.ask(TOO_LONG) == "new":
                await self.open(None)
                self._play(pending.prompt)

    def broke(self, error: BaseException) -> None:
        """Hand a bug to the app, which writes it down."""
        assert isinstance(error, Exception)
        self.app._handle_exception(error)

    async def ask(self, question: Question) -> str:
        """Put a question to the person, in the conversation."""
        if self._left or not self.is_running:
            return question.default
        self._question = view = QuestionView(question)
        await self.transcript.insert(view)
        self.refresh_bindings()
        try:
            return await view.answer()
        finally:
            self._question = None
            if self.is_running and view.is_attached:
                if isinstance(self.focused, ChoiceView):
                    self.composer.prompt.focus()
                await view.remove()
                self.refresh_bindings()

    def run_of(self, view: TurnView) -> Callable[[], RunView] | None:
        """Return what tells how the run stands that is writing this answer, if one is."""
        current = self.player.current
        if current is None or self._canvas(current) is not view:
            return None
        return lambda: current.view

    # Keys and commands

    def action_to_question(self) -> None:
        """Go to the choices of the open question."""
        if self._question is not None:
            self._question.query(ChoiceView).first().focus()

    def action_take_default(self) -> None:
        """Leave the open question as it would be without an answer."""
        if self._question is not None:
            self._question.take_default()

    def action_take_back(self) -> None:
        """Take the waiting prompt back, to change it or to drop it."""
        if (pending := self.player.take_back()) is not None:
            text = "\n\n".join(filter(None, (pending.prompt.text, self.composer.text)))
            self.composer.put(text, (*pending.prompt.files, *self.composer.pasted))
            self.composer.prompt.focus()

    def action_stop(self) -> None:
        """Stop the answer that is being written."""
        self.player.stop()

    def action_leave_edit(self) -> None:
        """Leave an edited prompt as it was."""
        self._edit(None)
        self.composer.put("")

    def action_switch(self) -> None:
        """Go from the prompt to the messages, and back."""
        (self.transcript if self.composer.prompt.has_focus else self.composer.prompt).focus()

    async def action_new(self) -> None:
        """Begin a new conversation."""
        await self.open(None)
        self.composer.prompt.focus()

    @work(group="overlay", exclusive=True)
    async def action_conversations(self, words: str = "") -> None:
        """Find an earlier conversation, and open it."""
        from baton.tui.screens.conversations import ConversationsScreen

        chosen = await self.app.push_screen_wait(
            ConversationsScreen(self.desk.store, self.export, words)
        )
        if chosen is not None:
            await self.open(chosen.conversation, chosen.turn)
        elif self.chat.id is not None and not await self._exists(self.chat.id):
            await self.open(None)
        elif self.chat.id is not None:
            self.chat.title = (await self.desk.store.conversation(self.chat.id)).title
            self.describe()

    async def _exists(self, conversation: str) -> bool:
        try:
            await self.desk.store.conversation(conversation)
        except BatonError:
            return False
        return True

    @work(group="overlay", exclusive=True)
    async def action_models(self, worker: str = "") -> None:
        """Choose which worker answers from here on."""
        from baton.tui.screens.models import ModelsScreen

        roster = self.desk.orchestra.roster
        if not worker:
            chosen = await self.app.push_screen_wait(ModelsScreen(roster, self.worker))
            worker = chosen or ""
        elif all(card.id != worker for card in roster):
            known = ", ".join(card.id for card in roster)
            await self.transcript.note(f"There is no worker {worker!r}; there are: {known}.")
            return
        if worker:
            self.worker = worker
            self.footer.status = one_line(worker, 40)
            self.desk.orchestra.worker(worker).warm()

    async def action_editor(self) -> None:
        """Write the prompt in the person's own editor."""
        from textual.app import SuspendNotSupported

        from baton.tui import editor

        text = self.composer.text
        try:
            with self.app.suspend():
                text = editor.edit(text)
        except SuspendNotSupported:
            self.footer.say("this terminal can't be handed to an editor")
        except BatonError as error:
            await self.complain(error)
        self.composer.put(text, self.composer.pasted)
        self.composer.prompt.focus()

    def action_edit(self) -> None:
        """Change an earlier prompt: sent again it becomes another version, nothing is lost."""
        if (turn := self._prompt_of(self.transcript.selected)) is not None:
            self._edit(turn)
            self.composer.put(turn.text, turn.files)
            self.composer.prompt.focus()

    def action_regenerate(self) -> None:
        """Answer the selected prompt again; the answer there is stays as another version."""
        self._again(None)

    def action_stronger(self) -> None:
        """Answer the selected prompt again with a stronger worker."""
        if (card := self._stronger()) is not None:
            self._again(card.id)

    def _again(self, worker: str | None) -> None:
        turn = self._prompt_of(self.transcript.selected)
        if turn is not None:
            self._play(Asked(turn.text, turn.files), again=turn.id, worker=worker)

    def _prompt_of(self, view: TurnView | None) -> Turn | None:
        if view is None:
            return None
        if view.turn.role is Role.USER:
            return view.turn
        turns = self.transcript.turns
        return next((turn for turn in turns if turn.id == view.turn.parent), None)

    def _edit(self, turn: Turn | None) -> None:
        self._edited = turn
        self.composer.editing = turn is not None
        self.refresh_bindings()

    def _stronger(self) -> Card | None:
        """Return the strongest worker, if it is stronger than the one that answers."""
        roster = {card.id: card for card in self.desk.orchestra.roster}
        best = max(roster.values(), key=_strength)
        mine = roster.get(self.worker)
        return best if mine is not None and _strength(best) > _strength(mine) else None


def _strength(card: Card) -> tuple[int, int]:
    return card.parameters, card.size


def _status_of(run: RunView) -> TurnStatus:
    if run.status == "failed":
        return TurnStatus.FAILED
    if run.status == "cancelled":
        return TurnStatus.CANCELLED
    return TurnStatus.CUT if run.cut else TurnStatus.DONE


def _read_mentions(text: str) -> tuple[Attachment, ...]:
    """Read the files that a prompt names. Raises ConfigError."""
    if "@" not in text:
        return ()
    from baton.adapters.files import mentions, read_attachment

    return tuple(read_attachment(path) for path in mentions(text))
