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
from baton.cli.error_report import report_error
from baton.cli.json_output import ASK_AGAIN_HINT, is_only_planned, overcharge_warnings
from baton.cli.output import Output, unwritable_error
from baton.cli.resume import resume_hint
from baton.cli.run_renderers import (
    EventRenderer,
    JsonRenderer,
    RendererFactory,
    RunRenderer,
    TextRenderer,
)
from baton.cli.terminal_questions import TerminalAsker
from baton.core.errors import ERROR_CLASSES, BatonError, BudgetExceeded
from baton.core.events import Decision, Phase, Progress
from baton.core.messages import Prompt
from baton.core.ports import Ask, ConversationPosition
from baton.core.run.orchestra import Orchestra
from baton.core.run.policy import PromptLimits
from baton.core.run.run import Run
from baton.core.view import RunView, activity_text
from baton.platform.os_signals import ENDING, hear, is_ignored, unhear

_READER_WAIT_SECONDS = 0.5
"""Once the person wants to leave: how many seconds a reader that has paused is waited for."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How an answer is shown: `form` is text, whole (text at the end), json or events.

    `kept` says whether the answer is in the history as well; a `preview` only draws the plan.
    """

    format: str = "text"
    quiet: bool = False
    drop_oldest: bool = False
    is_kept: bool = True
    is_preview: bool = False


async def run_prompt(
    orchestra: Orchestra,
    prompt: Prompt,
    place: ConversationPosition,
    limits: PromptLimits,
    worker: str | None,
    manner: OutputOptions,
    special: RendererFactory | None = None,
) -> int:
    """Play one prompt, show it (in a `special` form), and return the exit code."""

    def begin(ask: Ask) -> Run:
        return orchestra.play(prompt, place, limits, ask, worker)

    return await show_run(begin, manner, special)


async def show_run(
    begin: Callable[[Ask], Run], manner: OutputOptions, special: RendererFactory | None = None
) -> int:
    """Begin a run, show it (in a `special` form), and return the exit code."""
    output = Output(manner.quiet)
    asker = TerminalAsker(output, manner.drop_oldest)
    run = begin(asker)
    form = special(output, asker) if special is not None else _make_renderer(manner, output)
    view, waited = RunView(), False
    async with _stop_on_signal(output, run.cancel) as left:
        try:
            async with run:
                async for event in run:
                    view = view.apply(event)
                    form.show_event(event, view)
                    if not waited and isinstance(event, Progress) and event.phase is Phase.QUEUED:
                        waited = True
                        output.notify_without_status(f"baton: {activity_text(view).capitalize()}.")
            form.finish(view)
            for warning in overcharge_warnings(view):
                output.warn(f"baton: {warning['message']} {warning['hint']}")
            _report_ending(view, output, manner, left)
        finally:
            await _drain_output(output, left)
    return _exit_code(view, output, manner, left)


def _make_renderer(manner: OutputOptions, output: Output) -> RunRenderer:
    if manner.format == "json":
        return JsonRenderer(output, manner.is_preview)
    if manner.format == "events":
        return EventRenderer(output)
    return TextRenderer(output, whole=manner.format == "whole")


def _report_ending(view: RunView, output: Output, manner: OutputOptions, left: list[int]) -> None:
    """Say on stderr what the answer alone doesn't."""
    way = ""
    if manner.is_kept and view.started is not None:
        way = resume_hint(view.started.run, view, view.status)
    if view.failure is not None:
        hint = view.failure.hint
        if view.failure.error == "ContextTooLong" and not manner.drop_oldest:
            hint = hint.replace("Drop the oldest turns", "Drop the oldest turns (--drop-oldest)")
        output.warn(f"baton: {view.failure.message} {hint}".rstrip())
        if way:
            output.notify(f"baton: {way}")
    elif manner.is_preview and is_only_planned(view):
        pass  # that it goes no further is as it should be
    elif view.status == "cancelled" and left:
        kept = "the text so far is kept." if view.answer else "your prompt is kept."
        output.notify(f"baton: {way}" if way else f"baton: Stopped; {kept}")
    elif _was_withdrawn(view):
        output.notify("baton: Nothing was sent; your prompt is kept.")
    if view.notice and view.status != "failed":
        output.notify(f"baton: {view.notice}")
    if not manner.quiet and (lack := _incomplete_text(view, manner)):
        output.warn(f"baton: {lack}")


def _incomplete_text(view: RunView, manner: OutputOptions) -> str:
    """Say why an answer isn't whole, and what helps, or return ""."""
    if view.is_cut:
        return f"The answer was cut at its length cap; {_continue_hint(view, manner)}."
    return f"{view.incomplete_reason} {ASK_AGAIN_HINT}" if view.incomplete_reason else ""


def _continue_hint(view: RunView, manner: OutputOptions) -> str:
    """Say how a person gets the rest of an answer that was cut."""
    if manner.is_kept and view.started is not None:
        return f'`baton ask --continue={view.started.conversation} "Go on."` goes on with it'
    return "ask for a shorter one, or without --no-history, so that it can go on"


def _exit_code(view: RunView, output: Output, manner: OutputOptions, left: list[int]) -> int:
    if left:
        return 128 + left[0]
    if output.failure is not None and output.failure.errno != errno.EPIPE:
        kept = manner.is_kept and view.started is not None
        return report_error(
            unwritable_error(output.failure, "It is in your history." if kept else "")
        )
    if view.overcharged_calls:
        return BudgetExceeded.exit_code
    if view.failure is not None:
        return ERROR_CLASSES.get(view.failure.error, BatonError).exit_code
    if manner.is_preview and is_only_planned(view):
        return 0
    return 1 if _was_withdrawn(view) else 0


def _was_withdrawn(view: RunView) -> bool:
    """Tell whether the person decided not to send the prompt, so that there is no answer."""
    return view.status == "cancelled" and any(o.decision is Decision.KEPT for o in view.offers)


@asynccontextmanager
async def _stop_on_signal(output: Output, cancel: Callable[[], None]) -> AsyncIterator[list[int]]:
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
            loop.call_later(_READER_WAIT_SECONDS, insist)

    def insist() -> None:
        for number in signals:
            unhear(number)
            signal.signal(number, signal.SIG_DFL)

    for number in signals:
        hear(number, leave, number)
    output.on_closed = partial(loop.call_soon_threadsafe, cancel)
    try:
        interrupts.raise_if_interrupted()
        yield left
    finally:
        if not left:  # else the same wish may come once more while the rest is tidied up
            for number in signals:
                unhear(number)


async def _drain_output(output: Output, left: list[int]) -> None:
    """Wait until all is written, unless the reader has paused and the person wants to leave."""
    loop = asyncio.get_running_loop()
    drained = asyncio.Event()
    output.on_drained = partial(loop.call_soon_threadsafe, drained.set)
    output.close()
    waiting = asyncio.create_task(drained.wait())
    while not left and not waiting.done():
        await asyncio.wait({waiting}, timeout=_READER_WAIT_SECONDS)
    await asyncio.wait({waiting}, timeout=_READER_WAIT_SECONDS)
    waiting.cancel()
