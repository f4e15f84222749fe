"""`baton plan`: who would do what for a prompt, before anything of it is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from baton.cli.ask import Options, answer
from baton.cli.options import (
    WithStrategies,
    budget_option,
    continue_option,
    files_option,
    json_option,
    mode_option,
    offline_option,
    private_option,
    quiet_option,
    strategy_option,
    worker_option,
)
from baton.cli.output import Output
from baton.cli.step_text import told_access, told_need, told_numbers, told_subtask, wrapped
from baton.core.events import Event
from baton.core.hold_decision import at_least
from baton.core.messages import Card
from baton.core.money import show_usd
from baton.core.plan.plan import Plan
from baton.core.sanitiser import one_line
from baton.core.view import RunView, doing

if TYPE_CHECKING:
    from baton.cli.run_renderers import Form, Special
    from baton.cli.terminal_questions import Asker


@click.command(cls=WithStrategies)
@click.argument("text", nargs=-1)
@worker_option
@continue_option
@files_option
@mode_option
@strategy_option
@offline_option
@private_option
@budget_option
@json_option
@quiet_option
def plan(**typed: Any) -> int:
    """Draw the plan for a prompt, and play nothing of it.

    Only a conductor may be asked; if it isn't on this machine, you are asked first. `baton resume`
    plays the plan then.

    \b
      baton plan "Compare these two reports" -f a.md -f b.md
      baton plan --strategy moa "Name my boat"
    """
    return answer(Options(**typed, preview=True))


def drawing(roster: Sequence[Card]) -> Special:
    """Return what shows a drawn plan at the end of its run."""

    def begin(output: Output, asker: Asker) -> Form:
        return _AsPlan(output, asker, roster)

    return begin


class _AsPlan:
    """The plan, for a person to read."""

    def __init__(self, output: Output, asker: Asker, roster: Sequence[Card]) -> None:
        self._output = output
        self._asker = asker
        self._cards = {card.id: card for card in roster}

    def take(self, event: Event, view: RunView) -> None:
        """Show what is happening."""
        self._output.status(doing(view))

    def end(self, view: RunView) -> None:
        """Show the plan, if there is one."""
        if view.plan is None or view.started is None:
            return
        text = plan_text(view.plan, self._asker.costs, self._cards)
        why = "" if view.routed is None else "\n".join(wrapped(one_line(view.routed.why), ""))
        if view.cost:
            text += f"\nTo draw this plan cost {show_usd(view.cost)}."
        way = f"Play it: baton resume {view.started.run}"
        self._output.data(f"{why}\n\n{text}\n\n{way}\n".lstrip())


def plan_text(plan: Plan, most: Sequence[int | None], cards: dict[str, Card]) -> str:
    """Write a plan as a numbered list: who does what, seeing what, for how much at most."""
    lines: list[str] = []
    for number, (step, cost) in enumerate(zip(plan.steps, most, strict=True), start=1):
        card = cards.get(step.worker)
        where = f" ({card.privacy})" if card is not None else ""
        marks = ", optional" * step.optional + ", checks" * step.check
        head = f"{number:>2}. {one_line(step.worker)}{where}: {told_need(step.need)}{marks}"
        sees = f"sees {told_access(step.access)}"
        costs = "" if cost == 0 else f"; at most about {at_least(cost)}" if cost else "; no price"
        lines += [head, *wrapped(told_subtask(step), "    "), *wrapped(sees + costs, "    ")]
    known = sum(cost for cost in most if cost)
    total = f"at most about {at_least(known)} in all" if known else "it costs nothing"
    writes = "writes" if len(plan.answer) == 1 else "write"
    answer = f"The answer is what {told_numbers(plan.answer)} {writes}; {total}."
    return "\n".join([*lines, "", *wrapped(answer, "")])
