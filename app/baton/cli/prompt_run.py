"""One prompt played for the command line: events in, the answer out."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from baton.cli import interrupts
from baton.cli.error_report import complain
from baton.cli.json_output import ASK_AGAIN, is_drawn, overcharges
from baton.cli.output import Output, unwritable
from baton.cli.resume import way_on
from baton.cli.run_renderers import AsEvents, AsJson, AsText, Form, Special
from baton.cli.terminal_questions import Asker
from baton.core.errors import BY_NAME, BatonError, BudgetExceeded
from baton.core.events import Decision, Phase, Progress
from baton.core.messages import Prompt
from baton.core.ports import Ask, ConversationPosition
from baton.core.run.orchestra import Orchestra
from baton.core.run.policy import PromptLimits
from baton.core.run.run import Run
from baton.core.view import RunView, doing
from baton.platform.os_signals import ENDING, hear, is_ignored, unhear

_PATIENCE = 0.5
"""Once the person wants to leave: how many seconds a reader that has paused is waited for."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How an answer is shown: `form` is text, whole (text at the end), json or events.

    `kept` says whether the answer is in the history as well; a `preview` only draws the plan.
    """

    form: str = "text"
    quiet: bool = False
    drop_oldest: bool = False
    kept: bool = True
    preview: bool = False


async def play(
    orchestra: Orchestra,
    prompt: Prompt,
    place: ConversationPosition,
    limits: PromptLimits,
    worker: str | None,
    manner: Manner,
    special: Special | None = None,
) -> int:
    """Play one prompt, show it (in a `special` form), and return the exit code."""

    def begin(ask: Ask) -> Run:
        return orchestra.play(prompt, place, limits, ask, worker=worker)

    return await show(begin, manner, special)


async def show(begin: Callable[[Ask], Run], manner: Manner, special: Special | None = None) -> int:
    """Begin a run, show it (in a `special` form), and return the exit code."""
    output = Output(manner.quiet)
    asker = Asker(output, manner.drop_oldest)
    run = begin(asker)
    form = special(output, asker) if special is not None else _form(manner, output)
    view, waited = RunView(), False
    async with _leaving(output, run.cancel) as left:
        try:
            async with run:
                async for event in run:
                    view = view.apply(event)
                    form.take(event, view)
                    if not waited and isinstance(event, Progress) and event.phase is Phase.QUEUED:
                        waited = True
                        output.instead_of_status(f"baton: {doing(view).capitalize()}.")
            form.end(view)
            for warning in overcharges(view):
                output.warn(f"baton: {warning['message']} {warning['hint']}")
            _tell(view, output, manner, left)
        finally:
            await _drain(output, left)
    return _exit_code(view, output, manner, left)


def _form(manner: Manner, output: Output) -> Form:
    if manner.form == "json":
        return AsJson(output, manner.preview)
    if manner.form == "events":
        return AsEvents(output)
    return AsText(output, whole=manner.form == "whole")


def _tell(view: RunView, output: Output, manner: Manner, left: list[int]) -> None:
    """Say on stderr what the answer alone doesn't."""
    way = ""
    if manner.kept and view.started is not None:
        way = way_on(view.started.run, view, view.status)
    if view.failure is not None:
        hint = view.failure.hint
        if view.failure.error == "ContextTooLong" and not manner.drop_oldest:
            hint = hint.replace("Drop the oldest turns", "Drop the oldest turns (--drop-oldest)")
        output.warn(f"baton: {view.failure.message} {hint}".rstrip())
        if way:
            output.talk(f"baton: {way}")
    elif manner.preview and is_drawn(view):
        pass  # that it goes no further is as it should be
    elif view.status == "cancelled" and left:
        kept = "the text so far is kept." if view.answer else "your prompt is kept."
        output.talk(f"baton: {way}" if way else f"baton: Stopped; {kept}")
    elif _was_withdrawn(view):
        output.talk("baton: Nothing was sent; your prompt is kept.")
    if view.notice and view.status != "failed":
        output.talk(f"baton: {view.notice}")
    if not manner.quiet and (lack := _lack(view, manner)):
        output.warn(f"baton: {lack}")


def _lack(view: RunView, manner: Manner) -> str:
    """Say why an answer isn't whole, and what helps, or return ""."""
    if view.cut:
        return f"The answer was cut at its length cap; {_more(view, manner)}."
    return f"{view.lack} {ASK_AGAIN}" if view.lack else ""


def _more(view: RunView, manner: Manner) -> str:
    """Say how a person gets the rest of an answer that was cut."""
    if manner.kept and view.started is not None:
        return f'`baton ask --continue={view.started.conversation} "Go on."` goes on with it'
    return "ask for a shorter one, or without --no-history, so that it can go on"


def _exit_code(view: RunView, output: Output, manner: Manner, left: list[int]) -> int:
    if left:
        return 128 + left[0]
    if output.failure is not None and output.failure.errno != errno.EPIPE:
        kept = manner.kept and view.started is not None
        return complain(unwritable(output.failure, "It is in your history." if kept else ""))
    if view.overcharged:
        return BudgetExceeded.exit_code
    if view.failure is not None:
        return BY_NAME.get(view.failure.error, BatonError).exit_code
    if manner.preview and is_drawn(view):
        return 0
    return 1 if _was_withdrawn(view) else 0


def _was_withdrawn(view: RunView) -> bool:
    """Tell whether the person decided not to send the prompt, so that there is no answer."""
    return view.status == "cancelled" and any(o.decision is Decision.KEPT for o in view.offers)


@asynccontextmanager
async def _leaving(output: Output, cancel: Callable[[], None]) -> AsyncIterator[list[int]]:
    """Let the first signal stop the run in good order, and a later one end this process.

    Yields a list that will hold the signal. A closed stdout stops the run, too.
    """
    loop = asyncio.get_running_loop()
    signals = [number for number in (signal.SIGINT, *ENDING) if not is_ignored(number)]
    left: list[int] = []

    def leave(number: int) -> None:
        if not left:
            left.append(number)
            cancel()
            # Later, as one wish to leave often comes twice: to this process and to its group.
            loop.call_later(_PATIENCE, insist)

    def insist() -> None:
        for number in signals:
            unhear(number)
            signal.signal(number, signal.SIG_DFL)

    for number in signals:
        hear(number, leave, number)
    output.on_closed = partial(loop.call_soon_threadsafe, cancel)
    try:
        interrupts.check()
        yield left
    finally:
        if not left:  # else the same wish may come once more while the rest is tidied up
            for number in signals:
                unhear(number)


async def _drain(output: Output, left: list[int]) -> None:
    """Wait until all is written, unless the reader has paused and the person wants to leave."""
    loop = asyncio.get_running_loop()
    drained = asyncio.Event()
    output.on_drained = partial(loop.call_soon_threadsafe, drained.set)
    output.close()
    waiting = asyncio.create_task(drained.wait())
    while not left and not waiting.done():
        await asyncio.wait({waiting}, timeout=_PATIENCE)
    await asyncio.wait({waiting}, timeout=_PATIENCE)
    waiting.cancel()
