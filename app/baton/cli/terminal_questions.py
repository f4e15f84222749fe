"""The engine's questions, put to the person at the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping

from baton.cli.output import Output
from baton.core.hold_decision import shown_rounded_down, shown_rounded_up
from baton.core.ledger_types import Scope
from baton.core.ports import CallOffer, Question
from baton.core.sanitiser import one_line


class TerminalAsker:
    """Puts the engine's questions to the person at the terminal; else takes the safe choice."""

    def __init__(self, output: Output, drop_oldest: bool) -> None:
        self._output = output
        self._drop_oldest = drop_oldest
        self._lock = asyncio.Lock()
        self.costs: tuple[int | None, ...] = ()
        """What each step of the plan that was to be confirmed can cost at most."""

    async def __call__(self, question: Question) -> str:
        """Return the id of the choice."""
        if question.plan is not None:
            self.costs = question.costs
            return question.default  # it is shown once the run is over, and played later
        # An offer's text can't be edited here; it can be asked again.
        choices = {choice.id: choice.label for choice in question.choices if choice.id != "edit"}
        if self._drop_oldest and "trim" in choices:
            return "trim"
        if not (os.isatty(0) and os.isatty(2)):
            return question.default
        async with self._lock:
            return await self._ask(question, choices)

    async def _ask(self, question: Question, choices: Mapping[str, str]) -> str:
        listed = [f"  {n}  {label}" for n, label in enumerate(choices.values(), start=1)]
        default = list(choices).index(question.default) + 1
        text = question.text if question.offer is None else offer_text(question.offer)
        if self._output.is_terminal_shared:
            self._output.end_line()  # a draft may stand there
        self._output.warn("\n".join([text, *listed, f"Number, then Enter ({default}):"]))
        try:
            await self._wait_until_shown()
            typed = (await read_line()).strip()
        finally:
            self._output.release_output()
        if typed.isdecimal() and 1 <= int(typed) <= len(choices):
            return list(choices)[int(typed) - 1]
        return question.default

    async def _wait_until_shown(self) -> None:
        """Wait until the question stands there: a terminal may be paused (Ctrl+S)."""
        loop, shown = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the person left, and the loop is closed
                loop.call_soon_threadsafe(shown.set)

        self._output.call_when_written(tell)
        self._output.hold_output()  # steps beside the one that asks go on writing
        await shown.wait()


def offer_text(offer: CallOffer) -> str:
    """Write out for a person what would leave this machine, and what it can cost."""
    left = (
        ""
        if offer.left is None
        else f" · {shown_rounded_down(offer.left)} left {Scope(offer.scope).phrase}"
    )
    hidden = f" ({offer.hidden} hidden)" if offer.hidden else ""
    there = f" for {one_line(offer.card.address, 80)}" if offer.card.address else ""
    shown = "\n".join(f"    {line}" for line in offer.text.splitlines())
    # The price stands where the question is, however long the text before it.
    return (
        f"This would leave this machine{there}{hidden}:\n{shown}\n"
        f"Ask {offer.card.name}?   at most {shown_rounded_up(offer.most)}{left}\n"
        f"  Why: {offer.why}"
    )


async def read_line() -> str:
    """Wait for a line at the terminal, in a way that can be cancelled.

    What was typed before the question was there is no answer to it.
    """
    if sys.platform == "win32":  # no loop there waits for a console
        return await asyncio.to_thread(sys.stdin.readline)
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
