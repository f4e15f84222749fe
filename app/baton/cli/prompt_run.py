"""One prompt run for the command line: events in, the answer out."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Protocol

from baton.cli import interrupts
from baton.cli.error_report import report_error
from baton.cli.exit_codes import exit_code
from baton.cli.json_output import event_object, is_only_planned, run_object
from baton.cli.output import Output, to_json, unwritable_error
from baton.core.errors import ERROR_CLASSES, BatonError, BudgetExceeded
from baton.core.events import (
    Decision,
    Event,
    Phase,
    Planned,
    Progress,
    StepFailed,
    StepFinished,
    StepRetried,
    StepSkipped,
    StepText,
)
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.ports import Ask, CallOffer, Question, StepPrice
from baton.core.run.run import Run
from baton.core.view import RunView, activity_text
from baton.platform.processes import (
    ENDING_SIGNALS,
    add_signal_handler,
    is_ignored,
    remove_signal_handler,
)
from baton.presentation.answers import (
    destination_text,
    incomplete_hint,
    instructions_text,
    overcharge_warnings,
)
from baton.presentation.run_story import resume_hint, warning_text
from baton.presentation.words import call_price_text

_READER_WAIT_SECONDS = 0.5
"""Once the user wants to leave: how many seconds a reader that has paused is waited for."""


@frozen_dataclass
class OutputOptions:
    """How an answer is shown: `format` is text, whole (text at the end), json or events.

    `is_kept` says whether the answer is in the history as well; a preview only draws the plan.
    `has_warnings` is whether doubts about an answer are written beside it. `lacks` are the warnings
    about what was named or piped in and isn't part of the prompt.
    """

    format: str = "text"
    quiet: bool = False
    drop_oldest: bool = False
    is_kept: bool = True
    is_preview: bool = False
    has_warnings: bool = True
    lacks: tuple[dict[str, str], ...] = ()


async def show_run(
    begin: Callable[[Ask], Run], options: OutputOptions, special: RendererFactory | None = None
) -> int:
    """Begin a run, show it (with a `special` renderer), and return the exit code."""
    output = Output(options.quiet)
    asker = TerminalAsker(output, options.drop_oldest)
    run = begin(asker)
    renderer = special(output, asker) if special is not None else _make_renderer(options, output)
    view, waited = RunView(), False
    async with _stop_on_signal(output, run.cancel) as left:
        try:
            async with run:
                async for event in run:
                    view = view.apply(event)
                    renderer.show_event(event, view)
                    if not waited and isinstance(event, Progress) and event.phase is Phase.QUEUED:
                        waited = True
                        output.notify_without_status(f"baton: {activity_text(view).capitalize()}.")
            renderer.finish(view)
            for warning in overcharge_warnings(view):
                output.warn(f"baton: {warning['message']} {warning['hint']}")
            _report_ending(view, output, options, left)
        finally:
            await drain_output(output, left)
    return _exit_code(view, output, options, left)


def _make_renderer(options: OutputOptions, output: Output) -> RunRenderer:
    if options.format == "json":
        return JsonRenderer(output, options.is_preview, options.lacks)
    if options.format == "events":
        return EventRenderer(output)
    return TextRenderer(output, whole=options.format == "whole")


def _report_ending(view: RunView, output: Output, options: OutputOptions, left: list[int]) -> None:
    """Say on stderr what the answer alone doesn't."""
    way = ""
    if options.is_kept and view.started is not None:
        way = resume_hint(view.started.run, view)
    if view.failure is not None:
        hint = view.failure.hint
        if view.failure.error == "ContextTooLong" and not options.drop_oldest:
            hint = hint.replace("Drop the oldest turns", "Drop the oldest turns (--drop-oldest)")
        output.warn(f"baton: {view.failure.message} {hint}".rstrip())
        if way:
            output.notify(f"baton: {way}")
    elif options.is_preview and is_only_planned(view):
        pass  # that it goes no further is as it should be
    elif view.status == "cancelled" and left:
        kept = "the text so far is kept." if view.answer else "your prompt is kept."
        output.notify(f"baton: {way}" if way else f"baton: Stopped; {kept}")
    elif _was_withdrawn(view):
        output.notify("baton: Nothing was sent; your prompt is kept.")
    if view.status != "failed":
        _report_notices(view, output)
    for line in _doubts(view, options):
        output.warn(f"baton: {line}")


def _doubts(view: RunView, options: OutputOptions) -> list[str]:
    """Say what is wrong with an answer, or likely is."""
    if options.quiet:
        return []
    lack = _incomplete_text(view, options)
    is_text = options.format in ("text", "whole")  # the others have them
    doubts = map(warning_text, view.warnings if options.has_warnings and is_text else ())
    return [*filter(None, [lack]), *doubts]


def _report_notices(view: RunView, output: Output) -> None:
    """Say who answered instead of whom, in a script as well; and the last notice."""
    for substitution in view.substitutions:
        output.warn(f"baton: {substitution}")
    if view.notice and view.notice not in view.substitutions:
        output.notify(f"baton: {view.notice}")


def _incomplete_text(view: RunView, options: OutputOptions) -> str:
    """Say why an answer isn't whole, and what helps, or return ""."""
    if view.is_cut:
        return f"The answer was cut at its length cap; {_continue_hint(view, options)}."
    return f"{view.incomplete_reason} {incomplete_hint(view)}" if view.incomplete_reason else ""


def _continue_hint(view: RunView, options: OutputOptions) -> str:
    """Say how the user gets the rest of an answer that was cut."""
    if options.is_kept and view.started is not None:
        return f'`baton ask --continue={view.started.conversation} "Go on."` continues it'
    return "ask for a shorter one, or without --no-history, so that it can be continued"


def _exit_code(view: RunView, output: Output, options: OutputOptions, left: list[int]) -> int:
    if left:
        return 128 + left[0]
    if output.failure is not None and output.failure.errno != errno.EPIPE:
        kept = options.is_kept and view.started is not None
        return report_error(
            unwritable_error(output.failure, "It is in your history." if kept else "")
        )
    if view.overcharged_calls:
        return exit_code(BudgetExceeded)
    if view.failure is not None:
        return exit_code(ERROR_CLASSES.get(view.failure.error, BatonError))
    if options.is_preview and is_only_planned(view):
        return 0
    return 1 if _was_withdrawn(view) else 0


def _was_withdrawn(view: RunView) -> bool:
    """Whether the user decided not to send the prompt, so that there is no answer."""
    return view.status == "cancelled" and any(o.decision is Decision.KEPT for o in view.offers)


@asynccontextmanager
async def _stop_on_signal(output: Output, cancel: Callable[[], None]) -> AsyncIterator[list[int]]:
    """Let the first signal stop the run in good order, and a later one end this process.

    Yields a list that will hold the signal. A closed stdout stops the run, too.
    """
    loop = asyncio.get_running_loop()
    signals = [number for number in (signal.SIGINT, *ENDING_SIGNALS) if not is_ignored(number)]
    left: list[int] = []

    def leave(number: int) -> None:
        if not left:
            left.append(number)
            cancel()
            # Later, as one wish to leave often comes twice: to this process and to its group.
            loop.call_later(_READER_WAIT_SECONDS, insist)

    def insist() -> None:
        for number in signals:
            remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    def stop(_: object) -> None:
        with suppress(RuntimeError):  # the run is over already, and its loop closed
            loop.call_soon_threadsafe(cancel)

    for number in signals:
        add_signal_handler(number, leave, number)
    output.closed.add_done_callback(stop)
    try:
        interrupts.raise_if_interrupted()
        yield left
    finally:
        if not left:  # else the same wish may come once more while the rest is tidied up
            for number in signals:
                remove_signal_handler(number)


async def drain_output(output: Output, left: Sequence[int] = ()) -> None:
    """Wait until all is written, unless the reader has paused and the user wants to leave."""
    output.close()
    drained = asyncio.wrap_future(output.drained)
    while not left and not drained.done():
        await asyncio.wait({drained}, timeout=_READER_WAIT_SECONDS)
    await asyncio.wait({drained}, timeout=_READER_WAIT_SECONDS)
    drained.cancel()


class RunRenderer(Protocol):
    """Turns events into what stdout gets."""

    def show_event(self, event: Event, view: RunView) -> None:
        """Show one event; `view` is the run with it applied."""

    def finish(self, view: RunView) -> None:
        """Show what is only known at the end."""


class TextRenderer:
    """The answer and nothing else, as it is written (or `whole`, at the end).

    A pipe gets what no second look can change; a terminal is shown drafts as well. A long answer is
    never copied as a whole for each of its pieces. `opening` stands before its first word.
    """

    def __init__(self, output: Output, whole: bool = False, opening: str = "") -> None:
        self._output = output
        self._whole = whole
        self._opening = opening
        self._answer: tuple[int, ...] = ()
        self._shown_parts: tuple[int, ...] = ()
        self._shown = 0
        self._is_broken = False

    def show_event(self, event: Event, view: RunView) -> None:
        """Show what an event adds to the answer, of its parts the first that isn't over; and what
        is happening in between.
        """
        if isinstance(event, Planned):
            self._answer = event.plan.answer
        may_show = not self._whole and (self._output.to_terminal or not view.draft)
        match event:
            case _ if not may_show or view.plan is None:
                pass
            case StepText(text=""):
                pass
            case StepText(step=step, text=text) if not self._is_replaced:
                if step == self._next_part(view):
                    is_first = len(view.steps[step - 1].text) == len(text)
                    self._write("\n\n" * (is_first and self._shown > 0) + text)
            case StepRetried(reason=reason):
                if not self._is_replaced:
                    what = "a part of it is written again" if reason else "the answer follows"
                    self._restart_part(_settled_answer(view), what)
            case StepText() | Planned() | StepFinished() | StepFailed() | StepSkipped():
                self._catch_up(_settled_answer(view), view)
        if not (self._shown and self._output.is_terminal_shared and not self._finish_part(view)):
            self._output.show_status(activity_text(view))

    @property
    def _is_replaced(self) -> bool:
        """Whether what stands there isn't a part of the answer any more."""
        return self._shown > 0 and self._answer[: len(self._shown_parts)] != self._shown_parts

    def _restart(self, reason: str) -> None:
        self._output.end_line()
        self._output.warn(f"baton: That was a draft; {reason}.")
        self._shown, self._is_broken = 0, False

    def _restart_part(self, rest: str, what: str) -> None:
        """Show what is left of the answer again, if some of what stands there was taken back."""
        if self._shown > len(rest):
            self._restart(what)
            self._write(rest)

    def _next_part(self, view: RunView) -> int:
        """Return the first part of the answer that isn't over, or 0."""
        return next((n for n in self._answer if not view.steps[n - 1].is_over), 0)

    def _catch_up(self, text: str, view: RunView) -> None:
        """Show the rest of a text; a draft gives way once what replaces it has a word."""
        if self._is_replaced and text:
            self._restart(self._replacement_text(view))
        if not self._is_replaced:
            self._write(text[self._shown :])

    def _replacement_text(self, view: RunView) -> str:
        """Say who answers now, or does a part of the answer again."""
        new = [n for n in self._answer if n not in self._shown_parts] or self._answer[-1:]
        names = list(dict.fromkeys(view.steps[n - 1].worker for n in new))
        if len(self._answer) == 1:
            return f"{names[0]} answers"
        return f"{' and '.join(names)} {'do' if len(names) > 1 else 'does'} a part of it again"

    def _write(self, text: str) -> None:
        if text and not self._shown:
            self._output.write(self._opening)
        self._shown += len(text)
        self._shown_parts = self._answer
        if self._is_broken and text:
            text, self._is_broken = text.removeprefix("\n"), False
        self._output.write(text)

    def _finish_part(self, view: RunView) -> bool:
        """Whether what stands there is whole, while more is being done behind it."""
        if view.current_step is None and not view.planning:
            return False
        if (number := self._next_part(view)) and view.steps[number - 1].text:
            return False
        self._is_broken = self._output.end_line() or self._is_broken
        return True

    def finish(self, view: RunView) -> None:
        """Show the rest, and end the line."""
        if view.plan is not None:
            self._answer = view.plan.answer
        self._catch_up(view.answer, view)
        self._output.end_line()


def _settled_answer(view: RunView) -> str:
    """Return the answer up to the first part that isn't over, be it a draft or not."""
    return replace(view, draft=False).stable_answer


class JsonRenderer:
    """One object at the end."""

    def __init__(
        self, output: Output, preview: bool = False, lacks: tuple[dict[str, str], ...] = ()
    ) -> None:
        self._output = output
        self._preview = preview
        self._lacks = lacks

    def show_event(self, event: Event, view: RunView) -> None:
        """Show what is happening."""
        self._output.show_status(activity_text(view))

    def finish(self, view: RunView) -> None:
        """Show the object."""
        shown = run_object(view, preview=self._preview)
        shown["warnings"] = [*self._lacks, *shown["warnings"]]
        self._output.write(to_json(shown) + "\n")


class EventRenderer:
    """One line of JSON for each event, as it happens."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def show_event(self, event: Event, view: RunView) -> None:
        """Show the event."""
        self._output.write(to_json(event_object(event)) + "\n")

    def finish(self, view: RunView) -> None:
        """All was shown."""


SHOW = "show"
"""The choice that shows all of an offer, and asks again."""


class TerminalAsker:
    """Puts the engine's questions to the user at the terminal; else takes the safe choice.

    A plan is asked about if `plan_question` writes it out; else it only is remembered.
    """

    def __init__(
        self,
        output: Output,
        drop_oldest: bool = False,
        plan_question: Callable[[Question], str] | None = None,
    ) -> None:
        self._output = output
        self._drop_oldest = drop_oldest
        self._plan_question = plan_question
        self._lock = asyncio.Lock()
        self.prices: tuple[StepPrice, ...] = ()
        """The prices of the steps of the plan that was to be confirmed."""

    async def __call__(self, question: Question) -> str:
        """Return the id of the choice."""
        if question.plan is not None and self._plan_question is None:
            self.prices = question.prices
            return question.default  # it is shown once the run is over, and run later
        # Neither an offer's text nor a plan can be edited here; it can be asked again.
        choices = {choice.id: choice.label for choice in question.choices if choice.id != "edit"}
        if self._drop_oldest and "trim" in choices:
            return "trim"
        if not (os.isatty(0) and os.isatty(2)):
            return question.default
        async with self._lock:
            offer = question.offer
            if offer is not None and offer.instructions:
                choices[SHOW] = "Show Baton's own instructions"
            while (choice := await self._ask(question, choices)) == SHOW and offer is not None:
                self._output.warn(_indented(offer.instructions))
                del choices[SHOW]
            return choice

    async def _ask(self, question: Question, choices: Mapping[str, str]) -> str:
        default = list(choices).index(question.default) + 1
        listed = [
            f"  {n}  {label}{' (default)' * (n == default)}"
            for n, label in enumerate(choices.values(), start=1)
        ]
        if self._output.is_terminal_shared:
            self._output.end_line()  # a draft may stand there
        self._output.warn(
            "\n".join([self._text(question), *listed, f"Number, then Enter ({default}):"])
        )
        try:
            self._output.hold_output()  # steps beside the one that asks continue writing
            await wait_until_written(self._output)  # a terminal may be paused (Ctrl+S)
            typed = (await read_line()).strip()
        finally:
            self._output.release_output()
        if typed.isdecimal() and 1 <= int(typed) <= len(choices):
            return list(choices)[int(typed) - 1]
        return question.default

    def _text(self, question: Question) -> str:
        if question.plan is not None and self._plan_question is not None:
            return self._plan_question(question)
        return question.text if question.offer is None else offer_text(question.offer)


async def wait_until_written(output: Output) -> None:
    """Wait until all that was written so far stands there."""
    loop, written = asyncio.get_running_loop(), asyncio.Event()

    def report_written() -> None:
        with suppress(RuntimeError):  # the user left, and the loop is closed
            loop.call_soon_threadsafe(written.set)

    output.call_when_written(report_written)
    await written.wait()


def offer_text(offer: CallOffer) -> str:
    """Write out for the user what would leave this machine, and what it can cost."""
    own = f"{instructions_text(offer)}\n" if offer.instructions else ""
    # The price stands where the question is, however long the text before it.
    return (
        f"{destination_text(offer)}\n{_indented(offer.text)}\n{own}"
        f"Ask {offer.card.name}?   {call_price_text(offer)}\n"
        f"  Why: {offer.why}"
    )


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


async def read_line() -> str:
    """Wait for a line at the terminal, in a way that can be cancelled.

    What was typed before the question was there isn't an answer to it.
    """
    if sys.platform == "win32":  # no loop there waits for a console
        return await asyncio.to_thread(sys.stdin.readline)
    import termios

    with suppress(termios.error):
        termios.tcflush(0, termios.TCIFLUSH)
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(0, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(0)
    return os.read(0, 4096).decode("utf-8", "replace")


RendererFactory = Callable[[Output, TerminalAsker], RunRenderer]
"""Makes a renderer for a format that OutputOptions doesn't have."""
