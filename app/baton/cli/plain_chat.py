"""`baton --plain`: the chat line by line, for screen readers, slow lines and simple terminals.

Text is only ever added. Nothing is drawn again, no cursor moves, and no colour means anything.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from baton.cli import interrupts
from baton.cli.output import Output, can_ask, notify, unwritable_error
from baton.cli.plain_commands import COMMANDS, run_command
from baton.cli.plain_session import PROMPT_MARK, PlainSession
from baton.cli.prompt_run import drain_output, wait_until_written
from baton.compose import Baton
from baton.core.errors import BatonError
from baton.core.labels import Label
from baton.core.permissions import PromptLimits
from baton.core.sanitiser import one_line, sanitise
from baton.platform.processes import (
    ENDING_SIGNALS,
    add_signal_handler,
    is_ignored,
    remove_signal_handler,
)
from baton.tui.slash_commands import parse_command, unescape_prompt
from baton.workers import decode_text

try:
    import readline
except ImportError:  # the packaged binary leaves it out, for its licence
    readline = None  # type: ignore[assignment]
try:
    import termios
except ImportError:  # on Windows
    termios = None  # type: ignore[assignment]

BLOCK = '"""'
"""What a line consists of that begins, or ends, a prompt of several lines."""

_BLOCK_MARK = "More: "

BURST_SECONDS = 0.02
"""How soon after a line the next one comes where both are of one paste."""


async def run_plain_chat(
    baton: Baton,
    *,
    limits: PromptLimits,
    worker: str | None,
    conversation: str | None,
    greeting: str,
) -> int:
    """Chat line by line until the user leaves, and return the exit code; all is then closed.

    The arguments are those of `tui.app.run_app`. Raises ConfigError for an unknown worker.
    """
    if worker is not None or baton.orchestra.default not in baton.orchestra.absent:
        baton.orchestra.worker(worker)  # without any model it opens, to have one fetched
    limits = replace(limits, attended=can_ask())
    output = Output(plain=True)
    reader = PromptReader(output)
    session = PlainSession(baton, output, limits, worker=worker, remember=reader.remember)
    signals = [number for number in (signal.SIGINT, *ENDING_SIGNALS) if not is_ignored(number)]
    for number in signals:
        act = session.interrupt if number == signal.SIGINT else session.leave
        add_signal_handler(number, act)
    loop = asyncio.get_running_loop()
    output.closed.add_done_callback(lambda _: loop.call_soon_threadsafe(session.leave))
    try:
        interrupts.raise_if_interrupted()
        await _begin(session, reader, conversation, greeting)
        await _chat(session, reader)
    finally:
        reader.close()
        baton.end_models()
        await baton.aclose()
        for number in signals:  # from here on, one of them ends a wait for a paused terminal
            remove_signal_handler(number)
        await drain_output(output)
    if output.failure is not None and output.failure.errno != errno.EPIPE:
        raise unwritable_error(output.failure, "It is in your history.")
    if session.conversation is not None:
        command = "baton -c" if baton.settings.screen.plain else "baton --plain -c"
        notify(f"To continue \u201c{session.title}\u201d: {command}")
    return 0


async def _begin(
    session: PlainSession, reader: PromptReader, conversation: str | None, greeting: str
) -> None:
    """Say what this is, and begin what takes long before a first answer."""
    baton, orchestra = session.baton, session.orchestra
    who = session.answering_worker
    orchestra.services.router.warm()
    baton.report_later(session.output.warn)
    baton.warm_cloud()
    way = [
        one_line(who, 40) if who in session.roster else "none yet",
        "offline" if orchestra.terms.offline else "",
        "private" if session.label is Label.LOCAL else "",
    ]
    session.say(
        f"Baton, line by line. Worker: {', '.join(filter(None, way))}. "
        "/help lists the commands, /quit leaves."
    )
    try:
        orchestra.worker(who).warm()
    except BatonError as error:  # there is no model yet
        session.complain(error)
    if greeting:
        session.output.warn(greeting)
    for text in reversed(await session.store.runs.recent_prompts()):
        reader.remember(text)
    await session.open(conversation)


async def _chat(session: PlainSession, reader: PromptReader) -> None:
    """Take prompts and commands, one at a time, until the user leaves."""
    while not session.left.done():
        reading = asyncio.create_task(reader.read())
        either: set[asyncio.Future[Any]] = {reading, session.left}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            reading.cancel()
            return await session.keep_draft(reader.unfinished)
        try:
            text = reading.result()
        except EOFError:
            return
        if text.strip():
            await _take(session, text)


async def _take(session: PlainSession, text: str) -> None:
    try:
        text = decode_text(text.encode("utf-8", "surrogateescape"), "What you wrote")
        if (typed := parse_command(text, COMMANDS)) is not None:
            await run_command(session, typed)
        else:
            await session.answer(unescape_prompt(text, COMMANDS))
    except BatonError as error:
        session.complain(error)


class PromptReader:
    """Reads prompts from the user: with readline at a terminal, or as lines of a pipe.

    A thread waits for each line, so that what runs beside the chat continues. Nothing can end that
    thread but a line, so it doesn't keep the process.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._is_terminal = os.isatty(0)
        self._block: list[str] = []
        self._is_waiting = False
        sys.stdin.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
        self._modes = termios.tcgetattr(0) if termios is not None and self._is_terminal else None
        if readline is not None:
            readline.set_auto_history(False)  # a prompt of several lines is one entry

    def remember(self, text: str) -> bool:
        """Let the Up key bring a text back, before earlier ones; return whether it can."""
        if readline is None or not self._is_terminal:
            return False
        readline.add_history(sanitise(text))
        return True

    async def read(self) -> str:
        """Return the next prompt or command. Raises EOFError at the end."""
        await wait_until_written(self._output)
        text = await self._read_line(PROMPT_MARK)
        if text.strip() == BLOCK:
            text = await self._read_block()
        if text.strip():
            self.remember(text)
        if not self._is_terminal:
            self._output.write(f"{PROMPT_MARK}{text}\n")
        return text

    async def _read_block(self) -> str:
        with suppress(EOFError):
            while (line := await self._read_line(_BLOCK_MARK)).strip() != BLOCK:
                self._block.append(line)
        text, self._block = "\n".join(self._block), []
        return text

    async def _read_line(self, mark: str) -> str:
        line: Future[str] = Future()
        line.set_running_or_notify_cancel()  # who stops waiting for it must not cancel it
        ask = input if mark == _BLOCK_MARK else _read_pasted_lines
        read = partial(ask, mark) if self._is_terminal else _read_piped_line
        threading.Thread(target=_keep_result, args=(line, read), daemon=True).start()
        self._is_waiting = True
        text = await asyncio.wrap_future(line)
        self._is_waiting = False
        return text

    @property
    def unfinished(self) -> str:
        """What is being typed, and not sent yet."""
        line = readline.get_line_buffer() if readline is not None else ""
        return "\n".join([*self._block, line])

    def close(self) -> None:
        """Give the terminal back as it was, on a new line."""
        if self._is_terminal and self._is_waiting:
            self._output.write("\n")
        if self._modes is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._modes)


def _keep_result(result: Future[str], read: Callable[[], str]) -> None:
    """Read a line, and keep it or what went wrong."""
    try:
        result.set_result(read())
    except Exception as error:
        result.set_exception(error)


def _read_pasted_lines(mark: str) -> str:
    """Read a line, with those that come with it in one burst: they are one paste.

    What was typed before it was asked for is lines of their own, and commands are.
    """
    was_typed_before = _has_line(0)
    lines = [input(mark)]
    is_prompt = not (lines[0].startswith("/") or lines[0].strip() == BLOCK)
    while is_prompt and not was_typed_before and _has_line(BURST_SECONDS):
        with suppress(EOFError):
            lines.append(input())
    return "\n".join(lines)


def _has_line(seconds: float) -> bool:
    """Whether the terminal has more to read within this time; never on Windows, which can't say."""
    return termios is not None and bool(select.select([0], [], [], seconds)[0])


def _read_piped_line() -> str:
    if line := sys.stdin.readline():
        return line.removesuffix("\n").removesuffix("\r")
    raise EOFError
