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
from baton.cli.steps import told_access, told_need, told_numbers, told_subtask, wrapped
from baton.domain.chat import Card, Prompt, Role, Turn, TurnStatus, input_bound
from baton.domain.events import Event
from baton.domain.labels import Label
from baton.domain.money import show_usd
from baton.domain.plan import Material, Plan
from baton.domain.sanitise import one_line
from baton.domain.spending import at_least
from baton.domain.view import RunView, doing

if TYPE_CHECKING:
    from baton.cli.forms import Form, Special

_BYTES = 4
"""About how many bytes a token of an answer has: the next step reads them."""


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


def drawing(prompt: Prompt, earlier: Sequence[Turn], roster: Sequence[Card]) -> Special:
    """Return what shows a drawn plan at the end of its run."""
    asked = Turn(
        "", "", None, Role.USER, prompt.text, TurnStatus.DONE, Label.LOCAL, 0.0, files=prompt.files
    )
    material = Material((*earlier, asked))

    def begin(output: Output) -> Form:
        return _AsPlan(output, material, roster)

    return begin


class _AsPlan:
    """The plan, for a person to read."""

    def __init__(self, output: Output, material: Material, roster: Sequence[Card]) -> None:
        self._output = output
        self._material = material
        self._cards = {card.id: card for card in roster}

    def take(self, event: Event, view: RunView) -> None:
        """Show what is happening."""
        self._output.status(doing(view))

    def end(self, view: RunView) -> None:
        """Show the plan, if there is one."""
        if view.plan is None or view.started is None:
            return
        text = plan_text(view.plan, most_of(view.plan, self._material, self._cards), self._cards)
        why = "" if view.routed is None else "\n".join(wrapped(one_line(view.routed.why), ""))
        if view.cost:
            text += f"\nTo draw this plan cost {show_usd(view.cost)}."
        way = f"Play it: baton resume {view.started.run}"
        self._output.data(f"{why}\n\n{text}\n\n{way}\n".lstrip())


def most_of(plan: Plan, material: Material, cards: dict[str, Card]) -> list[int | None]:
    """Return about the most that each step can cost, in nano-dollars (None: unknown).

    Its answer is taken to be as long as its worker may write, as are the results it sees.
    """
    longest = [cards[step.worker].max_output if step.worker in cards else 0 for step in plan.steps]
    found: list[int | None] = []
    for number, step in enumerate(plan.steps, start=1):
        card = cards.get(step.worker)
        if card is None or card.price is None:
            found.append(None)
            continue
        read = input_bound(plan.messages(number, material, {}, card.system))
        read += sum(_BYTES * longest[n - 1] for n in step.inputs)
        found.append(card.price.most(read, card.max_output))
    return found


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
