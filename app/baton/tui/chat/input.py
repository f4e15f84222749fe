"""The prompt under the conversation: sent, run as a command, recalled, edited."""

from __future__ import annotations

import asyncio

from textual import events

from baton.core.errors import BatonError, ConfigError
from baton.core.feedback import Signal
from baton.core.messages import MENTION_SIGNS, Attachment, Prompt
from baton.tui import slash_commands
from baton.tui.chat.context import ChatContext
from baton.tui.chat.conversation import ConversationController
from baton.tui.chat.feedback import FeedbackController
from baton.tui.chat.runs import RunController
from baton.tui.chat.shell import SHELL_SIGN, ShellController

NO_MESSAGE = "there is no message here yet"


class InputController:
    """Takes prompts and commands from the composer."""

    def __init__(
        self,
        context: ChatContext,
        *,
        feedback: FeedbackController,
        conversation: ConversationController,
        runs: RunController,
        shell: ShellController,
    ) -> None:
        self._context = context
        self._composer = context.composer
        self._feedback = feedback
        self._conversation = conversation
        self._runs = runs
        self._shell = shell
        self._incomplete = ""
        """A prompt that was held back, as a file that it names isn't there."""

    async def send(self, text: str) -> None:
        """Have a prompt answered, run a command, or play what waits if nothing is written."""
        composer, pasted = self._composer, self._composer.pasted
        if not text.strip() and not pasted:
            self._runs.play_waiting()
            return
        if text.startswith(SHELL_SIGN) and text[1:].strip():
            if not self._shell.run(text[1:]):
                composer.put_before(Prompt(text))
            return
        try:
            if (typed := slash_commands.parse_command(text)) is not None:
                found = slash_commands.find_command(typed.name)
                await self.run_command(found, typed.argument)
                return
            files, missing = await asyncio.to_thread(read_mentions, text)
            if missing and text != self._incomplete:
                self._incomplete = text
                hint = "Enter sends your prompt without it."
                raise ConfigError(" ".join(missing), hint)  # once: the file may be meant otherwise
        except BatonError as error:
            composer.put_before(Prompt(text))
            await self._context.complain(error)
            return
        edited, worker = composer.editing, composer.worker or None
        if edited is not None and worker is None:  # else it was changed before it was sent away
            self._feedback.record(self._feedback.answer_to(edited), Signal.EDITED)
        composer.clear_sent()
        self._incomplete = ""
        read = {part for file in files for part in (file.name, file.text)}
        # An edited prompt, or one that came back, has the files that it names already.
        pasted = tuple(file for file in pasted if not {file.name, file.text} & read)
        after = None if edited is None else edited.parent or ""
        prompt = Prompt(slash_commands.unescape_prompt(text), (*pasted, *files))
        self._runs.play(prompt, after=after, worker=worker)

    async def run_command(self, command: slash_commands.SlashCommand, argument: str = "") -> None:
        """Run a command."""
        arguments = repr(argument) if command.argument and argument else ""
        await self.run_action(f"{command.action}({arguments})")

    async def run_action(self, action: str) -> None:
        """Do what a command or the menu asks for; some of it needs a message."""
        screen, name = self._context.screen, action.partition("(")[0]
        if not screen.check_action(name, ()):
            has_messages = bool(self._context.transcript.turns)
            why = "there is nothing to do that with" if has_messages else NO_MESSAGE
            self._context.footer.say(why)
            return
        await screen.run_action(action if "(" in action else f"{name}()")

    async def keep_draft(self) -> None:
        """Store what is being written; a failure is shown in passing."""
        try:
            await self._conversation.keep_draft()
        except BatonError as error:
            self._context.footer.say(str(error))

    async def recall(self) -> None:
        """Load earlier prompts, to be gone through with the arrow keys."""
        self._composer.prompt.remember(await self._context.services.store.runs.recent_prompts())

    def press(self, key: events.Key) -> None:
        """Go to the prompt, and press a key there."""
        self._composer.prompt.focus()
        self._composer.prompt.post_message(events.Key(key.key, key.character))

    def switch_focus(self) -> None:
        """Go from the prompt to the messages, and back."""
        prompt = self._composer.prompt
        (self._context.transcript if prompt.has_focus else prompt).focus()

    def edit(self) -> None:
        """Change an earlier prompt: sent again it becomes another version, nothing is lost."""
        if (turn := self._conversation.selected_prompt()) is not None:
            self._composer.edit(turn)
            self._composer.prompt.focus()

    async def open_editor(self) -> None:
        """Write the prompt in the person's own editor, which would hold up an answer's saving."""
        if self._context.queue.is_busy:
            self._context.footer.say("the editor opens when the answer is finished")
            return
        text = await self._context.edit_text(self._composer.text)
        if text is not None:
            self._composer.put(text, self._composer.pasted)
        self._composer.prompt.focus()


def read_mentions(text: str) -> tuple[tuple[Attachment, ...], tuple[str, ...]]:
    """Read the files that a prompt names; return a sentence for each that isn't there.

    Raises ConfigError.
    """
    if not any(sign in text for sign in MENTION_SIGNS):
        return (), ()
    from baton.workers import find_mentions, read_attachment

    found = find_mentions(text)
    return tuple(map(read_attachment, found.files)), found.missing
