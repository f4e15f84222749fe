"""A conversation as it is written: prompts and their drafts, commands, earlier prompts."""

from __future__ import annotations

import asyncio

from textual import on, work

from baton.core.errors import BatonError
from baton.core.feedback import Signal
from baton.core.messages import Attachment
from baton.core.messages import Prompt as Asked
from baton.core.sanitiser import one_line
from baton.tui import slash_commands
from baton.tui.chat.answer_feedback import JudgingScreen
from baton.tui.services import AppServices
from baton.tui.widgets.composer import Composer, PromptArea
from baton.tui.widgets.transcript import Transcript


class WritingScreen(JudgingScreen):
    """Takes prompts and commands under the conversation; `play` has them answered."""

    def __init__(self, desk: AppServices) -> None:
        super().__init__(desk)
        self.composer = Composer()

    def play(
        self,
        prompt: Asked,
        *,
        after: str | None = None,
        worker: str | None = None,
        preview: bool = False,
    ) -> None:
        """Have a prompt answered, at the end of the conversation or `after` a turn as in Place.

        With `preview` its plan is shown first.
        """
        raise NotImplementedError

    def go_on(self) -> None:
        """Play what was left waiting by a stop."""
        raise NotImplementedError

    @on(PromptArea.Sent)
    async def _send(self, event: PromptArea.Sent) -> None:
        text, pasted = event.text, self.composer.pasted
        if not text.strip() and not pasted:
            self.go_on()
            return
        try:
            if (typed := slash_commands.parse_command(text)) is not None:
                if not await self._command(typed):
                    self.composer.put_before(Asked(text))
                return
            files = await asyncio.to_thread(read_mentions, text)
        except BatonError as error:
            self.composer.put_before(Asked(text))
            await self.complain(error)
            return
        edited, worker = self.composer.editing, self.composer.worker or None
        if edited is not None and worker is None:  # else it was changed before it was sent away
            self.note(self.answer_to(edited), Signal.EDITED)
        self.composer.clear_sent()
        after = None if edited is None else edited.parent or ""
        asked = Asked(slash_commands.unescape_prompt(text), (*pasted, *files))
        self.play(asked, after=after, worker=worker)

    async def _command(self, typed: slash_commands.TypedCommand) -> bool:
        """Do what was typed as a command; tell whether there is such a one."""
        found = slash_commands.matching_commands(typed.name)
        if len(found) != 1:
            what = "could be several commands" if found else "is no command"
            self.footer.say(f"/{one_line(typed.name, 30)} {what}")
            hint = slash_commands.unknown_command_hint(typed.name)
            await self.transcript.note(f"/{typed.name} {what}{hint}", error=True)
            return False
        await self.perform(found[0], typed.argument)
        return True

    async def perform(self, command: slash_commands.SlashCommand, argument: str = "") -> None:
        """Do what a command says; some need a message."""
        if not self.check_action(command.action, ()):
            self.footer.say("there is no message here yet")
            return
        arguments = repr(argument) if command.argument and argument else ""
        await self.run_action(f"{command.action}({arguments})")

    async def keep_draft(self) -> None:
        """Store what waits and what is being written, for the next time this is opened."""
        text = "\n\n".join(filter(None, (self.queued(self.chat.id), self.composer.draft)))
        await self.desk.store.save_draft(self.chat.id or "", text)

    def queued(self, conversation: str | None) -> str:
        """Return the conversation's prompts that wait their turn, which no run has recorded yet."""
        raise NotImplementedError

    @on(Composer.Paused)
    async def _pause(self) -> None:
        try:
            await self.keep_draft()
        except BatonError as error:
            self.footer.say(str(error))

    @on(PromptArea.Recalling)
    @work(exclusive=True, group="recall")
    async def _recall(self) -> None:
        self.composer.prompt.remember(await self.desk.store.recent_prompts())

    @on(Transcript.Typed)
    def _type(self, event: Transcript.Typed) -> None:
        prompt = self.composer.prompt
        prompt.focus()
        prompt.insert(event.text)

    def action_switch(self) -> None:
        """Go from the prompt to the messages, and back."""
        (self.transcript if self.composer.prompt.has_focus else self.composer.prompt).focus()

    def action_edit(self) -> None:
        """Change an earlier prompt: sent again it becomes another version, nothing is lost."""
        if (turn := self.selected_prompt()) is not None:
            self.composer.edit(turn)
            self.composer.prompt.focus()

    def action_leave_edit(self) -> None:
        """Leave an edited message as it was, and go back to what was being written."""
        self.composer.leave_edit()

    async def action_editor(self) -> None:
        """Write the prompt in the person's own editor."""
        text = await self.edited(self.composer.text)
        if text is not None:
            self.composer.put(text, self.composer.pasted)
        self.composer.prompt.focus()

    async def edited(self, text: str, name: str = "prompt.md") -> str | None:
        """Return a text changed in the person's own editor, or None where it stays as it was."""
        from textual.app import SuspendNotSupported

        from baton.tui import desktop

        try:
            with self.app.suspend():
                changed = desktop.edit_text(text, name)
        except SuspendNotSupported:
            self.footer.say("this terminal can't be handed to an editor")
        except BatonError as error:
            await self.complain(error)
        else:
            if changed is None:
                self.footer.say("nothing was changed in the editor")
            return changed
        return None


def read_mentions(text: str) -> tuple[Attachment, ...]:
    """Read the files that a prompt names. Raises ConfigError."""
    if "@" not in text:
        return ()
    from baton.workers.attachments import mentioned_files, read_attachment

    return tuple(read_attachment(path) for path in mentioned_files(text))
