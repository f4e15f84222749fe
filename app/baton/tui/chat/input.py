"""The prompt under the conversation: sent, answered in a mode, run as a command or in the shell."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from textual import events

from baton.core.errors import BatonError, ConfigError
from baton.core.history_types import Signal
from baton.core.machine import show_size
from baton.core.messages import MENTION_SIGNS, Attachment, Prompt, Role
from baton.core.ports import Choice, Question
from baton.core.sanitiser import one_line, remove_terminal_codes, sanitise
from baton.presentation.chat_texts import find_mode, find_strategy, mode_text, strategy_text
from baton.presentation.words import count_text
from baton.tui import slash_commands
from baton.tui.chat.budget import BudgetController
from baton.tui.chat.context import ChatContext
from baton.tui.chat.conversation import ConversationController, FeedbackController
from baton.tui.chat.questions import QuestionController
from baton.tui.chat.runs import RunController
from baton.tui.prompt_queue import QueuedPrompt

NO_MESSAGE = "there is no message here yet"


@dataclass(eq=False, repr=False)
class InputController:
    """Takes prompts and commands from the composer."""

    context: ChatContext
    budget: BudgetController
    feedback: FeedbackController
    conversation: ConversationController
    runs: RunController
    shell: ShellController

    def __post_init__(self) -> None:
        self._composer = self.context.composer
        self._incomplete = ""
        """A prompt that was held back, as a file that it names isn't there."""

    async def send(self, text: str) -> None:
        """Have a prompt answered, run a command, or send what waits if nothing is written."""
        composer, pasted = self._composer, self._composer.pasted
        if not text.strip() and not pasted:
            self.runs.send_waiting()
            return
        if text.startswith(SHELL_SIGN) and text[1:].strip():
            if not self.shell.run(text[1:]):
                composer.put_before(Prompt(text))
            return
        try:
            if (typed := slash_commands.parse_command(text)) is not None:
                command = slash_commands.find_command(typed.name)
                await self.run_command(command, typed.argument)
                return
            files, missing = await asyncio.to_thread(read_mentions, text)
            if missing and text != self._incomplete:
                self._incomplete = text
                hint = "Enter sends your prompt without it."
                raise ConfigError(" ".join(missing), hint)  # once: the file may be meant otherwise
        except BatonError as error:
            composer.put_before(Prompt(text))
            await self.context.complain(error)
            return
        edited, worker = composer.editing, composer.worker or None
        if edited is not None and worker is None:  # else it was changed before it was sent away
            self.feedback.record(self.feedback.answer_to(edited), Signal.EDITED)
        composer.clear_sent()
        self._incomplete = ""
        read = {part for file in files for part in (file.name, file.text)}
        # An edited prompt, or one that came back, has the files that it names already.
        pasted = tuple(file for file in pasted if not {file.name, file.text} & read)
        after = None if edited is None else edited.parent or ""
        prompt = Prompt(slash_commands.unescape_prompt(text), (*pasted, *files))
        self.runs.send(prompt, after=after, worker=worker)

    async def run_command(self, command: slash_commands.SlashCommand, argument: str = "") -> None:
        """Run a command."""
        arguments = repr(argument) if command.argument and argument else ""
        await self.run_action(f"{command.action}({arguments})")

    async def run_action(self, action: str) -> None:
        """Do what a command or the menu asks for; some of it needs a message."""
        screen, name = self.context.screen, action.partition("(")[0]
        if not screen.check_action(name, ()):
            has_messages = bool(self.context.transcript.turns)
            why = "there is nothing to do that with" if has_messages else NO_MESSAGE
            self.context.footer.say(why)
            return
        await screen.run_action(action if "(" in action else f"{name}()")

    async def keep_draft(self) -> None:
        """Store what is being written; a failure is shown in passing."""
        try:
            await self.conversation.keep_draft()
        except BatonError as error:
            self.context.footer.say(str(error))

    async def recall(self) -> None:
        """Load earlier prompts, to be gone through with the arrow keys."""
        self._composer.prompt.remember(await self.context.services.store.runs.recent_prompts())

    def press(self, key: events.Key) -> None:
        """Go to the prompt, and press a key there."""
        self._composer.prompt.focus()
        self._composer.prompt.post_message(events.Key(key.key, key.character))

    def switch_focus(self) -> None:
        """Go from the prompt to the messages, and back."""
        prompt = self._composer.prompt
        (self.context.transcript if prompt.has_focus else prompt).focus()

    def edit(self) -> None:
        """Change an earlier prompt: sent again it becomes another version, nothing is lost."""
        if (turn := self.conversation.selected_prompt()) is not None:
            self._composer.edit(turn)
            self._composer.prompt.focus()

    async def open_editor(self) -> None:
        """Write the prompt in the user's own editor, which would hold up an answer's saving."""
        if self.context.queue.is_busy:
            self.context.footer.say("the editor opens when the answer is finished")
            return
        text = await self.context.edit_text(self._composer.text)
        if text is not None:
            self._composer.put(text, self._composer.pasted)
        self._composer.prompt.focus()

    # How prompts are answered

    async def set_mode(self, name: str) -> None:
        """Choose the mode from now on."""
        mode = find_mode(name)
        self.context.services.orchestra.change_terms(mode=mode)
        if mode == "local":
            self.budget.keep_local()
        self.context.choose_strategy("")
        await self.context.transcript.note(mode_text(mode))

    async def set_strategy(self, name: str) -> None:
        """Choose the strategy from now on."""
        from baton.core.strategies import STRATEGIES

        templates = self.context.services.orchestra.services.templates
        workflows = await asyncio.to_thread(lambda: sorted(templates()))
        strategy = find_strategy(name, [*STRATEGIES, *workflows])
        self.context.choose_strategy(strategy)
        await self.context.transcript.note(strategy_text(strategy))

    async def explain_route(self) -> None:
        """Say why the selected answer, or the newest, was made as it was."""
        from baton.presentation.run_story import run_story

        transcript = self.context.transcript
        view = transcript.selected
        if view is None or view.turn.role is not Role.ASSISTANT:
            answers = [v for v in transcript.views if v.turn.role is Role.ASSISTANT]
            view = answers[-1] if answers else None
        if view is None:
            await transcript.note("There is no answer here yet.")
        else:
            run = await self.conversation.run_of(view)
            story = run_story(run(), "", self.context.roster)
            await transcript.note("\n".join(line.text for line in story))

    async def preview(self, text: str = "") -> None:
        """Show the plan of `text`, or of the next prompt, before anything is done."""
        context = self.context
        if text.strip():
            files, missing = await asyncio.to_thread(read_mentions, text)
            prompt = Prompt(text, (*context.composer.pasted, *files))
            context.composer.clear_sent()
            context.set_previewing(False)
            self.runs.send(prompt, preview=True)
            if missing:
                context.footer.say(missing[0].rstrip("."), 12)
            return
        context.set_previewing(not context.is_previewing)
        context.footer.say(
            "the next prompt's plan is shown first"
            if context.is_previewing
            else "the next prompt is answered at once"
        )

    async def resume(self) -> None:
        """Continue the selected answer, or the newest, after the steps that were done."""
        context, view = self.context, self.context.transcript.selected
        if view is None or view.turn.run is None or not view.can_continue:
            context.footer.say("this answer was not interrupted")
            return
        if view.summary.interruption:
            record = await self.context.services.store.runs.get(view.turn.run)
            pending = QueuedPrompt(context.chat, Prompt(""), again=record.prompt, record=record)
        elif view.turn.text.strip():  # it was cut at its cap, or lost
            pending = QueuedPrompt(context.chat, Prompt("Go on."), after=view.turn.id)
        else:
            asked = self.conversation.selected_prompt()
            assert asked is not None
            again = Prompt(asked.text, asked.files)
            pending = QueuedPrompt(context.chat, again, again=asked.id)
        context.queue.send(pending, first=True)


def read_mentions(text: str) -> tuple[tuple[Attachment, ...], tuple[str, ...]]:
    """Read the files that a prompt names; return a sentence for each that isn't there.

    Raises ConfigError.
    """
    if not any(sign in text for sign in MENTION_SIGNS):
        return (), ()
    from baton.workers import find_mentions, read_attachment

    mentions = find_mentions(text)
    return tuple(map(read_attachment, mentions.files)), mentions.missing


SHELL_SIGN = "!"

MAX_BYTES = 400_000
"""How much of a command's output is kept, from its beginning on."""

MAX_SHOWN_LINES = 12
ATTACH = "attach"


class ShellController:
    """Runs one command at a time; it reads nothing, and Esc ends it."""

    def __init__(self, context: ChatContext, questions: QuestionController) -> None:
        self._context = context
        self._questions = questions
        self._process: Process | None = None
        self._is_busy = False

    @property
    def is_running(self) -> bool:
        """Whether a command runs."""
        return self._process is not None

    def run(self, command: str) -> bool:
        """Begin to run a command; return whether none ran already."""
        if self._is_busy:
            self._context.footer.say("one command at a time; Esc ends the one that runs")
            return False
        self._is_busy = True
        self._context.start(partial(self._run, command), "shell")
        return True

    def stop(self) -> None:
        """End the command that runs, with all that it started."""
        if self._process is not None:
            _kill(self._process)

    async def _run(self, command: str) -> None:
        context, what = self._context, one_line(command, 60)
        context.footer.beside = f"running {what}"
        try:
            process = self._process = await asyncio.create_subprocess_shell(
                command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True
            )
            context.screen.refresh_bindings()
            output, is_cut = await _read(process)
            code = await process.wait()
        except OSError as error:
            await context.transcript.note(f"{what} can't be run: {error}", error=True)
            return
        finally:
            self.stop()
            self._process, self._is_busy, context.footer.beside = None, False, ""
            context.screen.refresh_bindings()
        text = sanitise(remove_terminal_codes(output.decode(errors="replace")))
        await context.transcript.note(_report(command, text, code))
        if text.strip():
            await self._offer(Attachment(f"output of {what}", text, len(output)), is_cut=is_cut)

    async def _offer(self, output: Attachment, *, is_cut: bool) -> None:
        size = f"{count_text(len(output.text.splitlines()), 'line')}, {show_size(output.size)}"
        cut = ", its beginning only" if is_cut else ""
        question = Question(
            f"Attach the {output.name} to your prompt? {size}{cut}.",
            (Choice("no", "Leave it"), Choice(ATTACH, "Attach it")),
            "no",
        )
        if await self._questions.ask(question, self._context.chat) == ATTACH:
            self._context.composer.attach(output)
            self._context.composer.prompt.focus()


async def _read(process: Process) -> tuple[bytes, bool]:
    """Read the output to its end, and return its beginning and whether that isn't all."""
    assert process.stdout is not None
    kept, is_cut = bytearray(), False
    while block := await process.stdout.read(65_536):
        room = MAX_BYTES - len(kept)
        kept += block[:room]
        is_cut = is_cut or len(block) > room
    return bytes(kept), is_cut


def _kill(process: Process) -> None:
    if process.returncode is not None:
        return
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _report(command: str, text: str, code: int) -> str:
    """Say what a command wrote, its last lines where it is long, and how it ended."""
    lines = text.rstrip().splitlines()
    hidden = len(lines) - MAX_SHOWN_LINES
    shown = lines[-MAX_SHOWN_LINES:]
    ended = "" if not code else "stopped" if code < 0 else f"exit code {code}"
    more = [f"({count_text(hidden, 'line')} before)"] if hidden > 0 else []
    state = ended or ("" if lines else "no output")
    return "\n".join([f"! {command.strip()}", *more, *shown, *([f"({state})"] if state else [])])
