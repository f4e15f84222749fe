"""`!COMMAND`: runs a command in the person's shell, and attaches what it wrote after a yes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from contextlib import suppress
from functools import partial

from baton.core.byte_format import show_size
from baton.core.messages import Attachment
from baton.core.ports import Choice, Question
from baton.core.sanitiser import one_line, remove_terminal_codes, sanitise
from baton.presentation.words import count_text
from baton.tui.chat.context import ChatContext
from baton.tui.chat.questions import QuestionController

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
    said = ended or ("" if lines else "no output")
    return "\n".join([f"! {command.strip()}", *more, *shown, *([f"({said})"] if said else [])])
