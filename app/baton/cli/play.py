"""One prompt played for the command line: events in, the answer out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from baton.cli import interrupts
from baton.cli.failures import complain, unwritable
from baton.cli.output import Output
from baton.cli.result import as_object, event_object, is_drawn
from baton.cli.resume import way_on
from baton.domain.chat import Prompt
from baton.domain.errors import BY_NAME, BatonError
from baton.domain.events import (
    Decision,
    Event,
    Planned,
    StepFailed,
    StepFinished,
    StepRetried,
    StepSkipped,
    StepText,
)
from baton.domain.ledger import Scope
from baton.domain.plan import Plan
from baton.domain.spending import at_least, at_most
from baton.domain.view import RunView, doing
from baton.engine.orchestra import Orchestra
from baton.engine.policy import Limits
from baton.engine.ports import Ask, Offer, Place, Question
from baton.engine.run import Run

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


class Form(Protocol):
    """Turns events into what stdout gets."""

    def take(self, event: Event, view: RunView) -> None:
        """Show one event; `view` is the run with it applied."""
        ...

    def end(self, view: RunView) -> None:
        """Show what is only known at the end."""
        ...


Special = Callable[[Output], Form]
"""Makes a form that is not one of Manner's."""


class AsText:
    """The answer and nothing else, as it is written (or `whole`, at the end).

    A pipe gets what no second look can change; a terminal is shown drafts as well. A long answer is
    never copied as a whole for each of its pieces.
    """

    def __init__(self, output: Output, whole: bool = False) -> None:
        self._output = output
        self._whole = whole
        self._shown = 0
        self._answer: tuple[int, ...] = ()
        self._is_broken = False

    def take(self, event: Event, view: RunView) -> None:
        """Show the next piece, and in between what is happening."""
        if not self._whole and view.plan is not None:
            self._show(event, view)
        if not (self._shown and self._output.shares_terminal and not self._is_between(view)):
            self._output.status(doing(view))

    def _show(self, event: Event, view: RunView) -> None:
        if isinstance(event, Planned):
            self._change(event.plan)
        if view.draft and not self._output.to_terminal:
            return
        if isinstance(event, StepText) and event.text:
            self._add(event, view)
        elif isinstance(event, StepRetried) and event.step in self._answer and self._shown:
            self._begin_again("That was a draft; it is written anew.")
        elif isinstance(event, Planned | StepFinished | StepFailed | StepSkipped):
            self._catch_up(_settled(view))

    def _change(self, plan: Plan) -> None:
        """Take note of what the answer is from now on; say so where another one stands there."""
        if self._shown and plan.answer[: len(self._answer)] != self._answer:
            worker = plan.steps[plan.answer[-1] - 1].worker
            self._begin_again(f"That was a draft; {worker} answers.")
        self._answer = plan.answer

    def _begin_again(self, told: str) -> None:
        self._output.end_line()
        self._output.warn(f"baton: {told}")
        self._shown, self._is_broken = 0, False

    def _add(self, event: StepText, view: RunView) -> None:
        """Show a piece of the first part of the answer that isn't over; the others wait."""
        if event.step == self._next(view):
            is_first = len(view.steps[event.step - 1].text) == len(event.text)
            self._put("\n\n" * (is_first and self._shown > 0) + event.text)

    def _next(self, view: RunView) -> int:
        """Return the first part of the answer that isn't over, or 0."""
        return next((n for n in self._answer if not view.steps[n - 1].is_over), 0)

    def _catch_up(self, text: str) -> None:
        self._put(text[self._shown :])

    def _put(self, text: str) -> None:
        self._shown += len(text)
        if self._is_broken and text:
            text, self._is_broken = text.removeprefix("\n"), False
        self._output.data(text)

    def _is_between(self, view: RunView) -> bool:
        """Tell whether what stands there is whole, while more is being done behind it."""
        if view.current is None and not view.planning:
            return False
        if (number := self._next(view)) and view.steps[number - 1].text:
            return False
        self._is_broken = self._output.end_line() or self._is_broken
        return True

    def end(self, view: RunView) -> None:
        """Show the rest, and end the line."""
        self._catch_up(view.answer)
        self._output.end_line()


def _settled(view: RunView) -> str:
    """Return the answer up to the first part that isn't over, be it a draft or not."""
    return replace(view, draft=False).final


class AsJson:
    """One object at the end."""

    def __init__(self, output: Output, preview: bool = False) -> None:
        self._output = output
        self._preview = preview

    def take(self, event: Event, view: RunView) -> None:
        """Show what is happening."""
        self._output.status(doing(view))

    def end(self, view: RunView) -> None:
        """Show the object."""
        self._output.data(
            json.dumps(as_object(view, preview=self._preview), ensure_ascii=False) + "\n"
        )


class AsEvents:
    """One line of JSON for each event, as it happens."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def take(self, event: Event, view: RunView) -> None:
        """Show the event."""
        self._output.data(json.dumps(event_object(event), ensure_ascii=False) + "\n")

    def end(self, view: RunView) -> None:
        """All was shown."""


async def play(
    orchestra: Orchestra,
    prompt: Prompt,
    place: Place,
    limits: Limits,
    worker: str | None,
    manner: Manner,
    special: Special | None = None,
) -> int:
    """Play one prompt, show it (in a `special` form), and return the exit code."""

    def begin(ask: Ask) -> Run:
        return orchestra.play(prompt, place, limits, ask, worker)

    return await show(begin, manner, special)


async def show(begin: Callable[[Ask], Run], manner: Manner, special: Special | None = None) -> int:
    """Begin a run, show it (in a `special` form), and return the exit code."""
    output = Output(manner.quiet)
    run = begin(Asker(output, manner.drop_oldest))
    form = special(output) if special is not None else _form(manner, output)
    view = RunView()
    async with _leaving(output, run.cancel) as left:
        try:
            async with run:
                async for event in run:
                    view = view.apply(event)
                    form.take(event, view)
            form.end(view)
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
    if view.cut and not manner.quiet:
        output.warn("baton: The answer was cut at its length cap; --max-tokens raises it.")


def _exit_code(view: RunView, output: Output, manner: Manner, left: list[int]) -> int:
    if left:
        return 128 + left[0]
    if output.failure is not None and output.failure.errno != errno.EPIPE:
        kept = manner.kept and view.started is not None
        return complain(unwritable(output.failure, "It is in your history." if kept else ""))
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
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    left: list[int] = []

    def leave(number: int) -> None:
        if not left:
            left.append(number)
            cancel()
            # Later, as one wish to leave often comes twice: to this process and to its group.
            loop.call_later(_PATIENCE, insist)

    def insist() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in signals:
        loop.add_signal_handler(number, leave, number)
    output.on_closed = partial(loop.call_soon_threadsafe, cancel)
    try:
        interrupts.check()
        yield left
    finally:
        if not left:  # else the same wish may come once more while the rest is tidied up
            for number in signals:
                loop.remove_signal_handler(number)


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


class Asker:
    """Puts the engine's questions to the person at the terminal; else takes the safe choice."""

    def __init__(self, output: Output, drop_oldest: bool) -> None:
        self._output = output
        self._drop_oldest = drop_oldest
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, question: Question) -> str:
        """Return the id of the choice."""
        if question.plan is not None:
            return question.default  # it is shown once the run is over, and played later
        # An offer's text can't be edited here; it can be asked again.
        choices = {choice.id: choice.label for choice in question.choices if choice.id != "edit"}
        if self._drop_oldest and "trim" in choices:
            return "trim"
        if not (os.isatty(0) and os.isatty(2)):
            return question.default
        async with self._one_at_a_time:
            return await self._put(question, choices)

    async def _put(self, question: Question, choices: Mapping[str, str]) -> str:
        listed = [f"  {n}  {label}" for n, label in enumerate(choices.values(), start=1)]
        default = list(choices).index(question.default) + 1
        text = question.text if question.offer is None else told(question.offer)
        if self._output.shares_terminal:
            self._output.end_line()  # a draft may stand there
        self._output.warn("\n".join([text, *listed, f"Number, then Enter ({default}):"]))
        try:
            await self._shown()
            typed = (await _typed_line()).strip()
        finally:
            self._output.let_go()
        if typed.isdecimal() and 1 <= int(typed) <= len(choices):
            return list(choices)[int(typed) - 1]
        return question.default

    async def _shown(self) -> None:
        """Wait until the question stands there: a terminal may be paused (Ctrl+S)."""
        loop, shown = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the person left, and the loop is closed
                loop.call_soon_threadsafe(shown.set)

        self._output.when_written(tell)
        self._output.hold()  # steps beside the one that asks go on writing
        await shown.wait()


def told(offer: Offer) -> str:
    """Write out for a person what would leave this machine, and what it can cost."""
    left = "" if offer.left is None else f" · {at_most(offer.left)} left {Scope(offer.scope).told}"
    hidden = f" ({offer.hidden} hidden)" if offer.hidden else ""
    shown = "\n".join(f"    {line}" for line in offer.text.splitlines())
    # The price stands where the question is, however long the text before it.
    return (
        f"This would leave this machine{hidden}:\n{shown}\n"
        f"Ask {offer.card.name}?   at most {at_least(offer.most)}{left}\n"
        f"  Why: {offer.why}"
    )


async def _typed_line() -> str:
    """Wait for a line at the terminal, in a way that can be cancelled.

    What was typed before the question was there is no answer to it.
    """
    import termios

    with contextlib.suppress(termios.error):
        termios.tcflush(0, termios.TCIFLUSH)
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(0, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(0)
    return os.read(0, 4096).decode("utf-8", "replace")
