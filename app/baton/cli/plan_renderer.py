"""How `baton plan` and `baton resume` show a plan: numbered, with what each step sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from baton.cli.output import Output, wrap_lines
from baton.core.events import Event
from baton.core.hold_decision import shown_rounded_up
from baton.core.messages import Card
from baton.core.money import show_usd
from baton.core.plan_types import Plan
from baton.core.sanitiser import one_line
from baton.core.view import RunView, activity_text
from baton.presentation.plans import (
    access_text,
    need_text,
    step_cost_text,
    step_numbers,
    subtask_text,
)

if TYPE_CHECKING:
    from baton.cli.prompt_run import TerminalAsker


class PlanRenderer:
    """The plan, for the user to read at the end of its run."""

    def __init__(self, roster: Sequence[Card], output: Output, asker: TerminalAsker) -> None:
        self._output = output
        self._asker = asker
        self._cards = {card.id: card for card in roster}

    def show_event(self, event: Event, view: RunView) -> None:
        """Show what is happening."""
        self._output.show_status(activity_text(view))

    def finish(self, view: RunView) -> None:
        """Show the plan, if there is one."""
        if view.plan is None or view.started is None:
            return
        most = [price.most for price in self._asker.prices]
        text = plan_text(view.plan, most, self._cards)
        why = "" if view.routed is None else "\n".join(wrap_lines(one_line(view.routed.why), ""))
        if view.cost:
            text += f"\nDrawing this plan cost {show_usd(view.cost)}."
        way = f"Run it: baton resume {view.started.run}"
        self._output.write(f"{why}\n\n{text}\n\n{way}\n".lstrip())


def plan_text(plan: Plan, most: Sequence[int | None], cards: dict[str, Card]) -> str:
    """Write a plan as a numbered list: who does what, seeing what, for how much at most."""
    lines: list[str] = []
    for number, (step, cost) in enumerate(zip(plan.steps, most, strict=True), start=1):
        card = cards.get(step.worker)
        where = f" ({card.place})" if card is not None else ""
        marks = ", optional" * step.optional + ", checks" * step.check
        head = f"{number:>2}. {one_line(step.worker)}{where}: {need_text(step.need)}{marks}"
        costs = step_cost_text(step, cost)
        sees = f"sees {access_text(step.access)}{f'; {costs}' if costs else ''}"
        lines += [head, *wrap_lines(subtask_text(step), "    "), *wrap_lines(sees, "    ")]
    known = sum(cost for cost in most if cost)
    total = f"at most about {shown_rounded_up(known)} in all" if known else "it costs nothing"
    writes = "writes" if len(plan.answer) == 1 else "write"
    answer = f"The answer is what {step_numbers(plan.answer)} {writes}; {total}."
    return "\n".join([*lines, "", *wrap_lines(answer, "")])
