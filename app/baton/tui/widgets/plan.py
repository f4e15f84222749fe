"""The card before a plan is played: its steps, who does them, what they see and may cost."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.content import Content

from baton.domain.chat import Turn, input_bound
from baton.domain.plan import Material, Plan, Step
from baton.domain.prices import FREE
from baton.domain.sanitise import one_line
from baton.domain.spending import at_least
from baton.domain.view import RunView
from baton.engine.ports import Question
from baton.tui.facts import Roster, name_of, place_of
from baton.tui.widgets.quoting import QuotingView

_NOBODY = RunView()


class PlanView(QuotingView):
    """Shows a plan of which nothing was called yet. `turns` end with the prompt it is for."""

    SHARE = 2

    def __init__(
        self, question: Question, plan: Plan, roster: Roster, turns: Sequence[Turn] = ()
    ) -> None:
        self._summary = told_places(plan, roster)
        super().__init__(question, told_plan(plan, roster, turns), hanging=4)

    def heading(self) -> Content:
        """Return the question with how many steps there are, and where."""
        text = one_line(self.question.text)
        return Content.assemble((text, "bold"), "   ", (self._summary, "$accent"))

    def body(self) -> ComposeResult:
        """Lay out the steps under the question."""
        yield self._title
        yield self._text


def told_places(plan: Plan, roster: Roster) -> str:
    """Say how many steps there are, and how many of them are done elsewhere."""
    places = [place_of(step.worker, _NOBODY, roster) for step in plan.steps]
    away = ", ".join(
        f"{places.count(place)} {place}"
        for place in ("local", "network", "cloud")
        if place in places
    )
    return f"{len(places)} {'step' if len(places) == 1 else 'steps'} · {away}"


def told_plan(plan: Plan, roster: Roster, turns: Sequence[Turn] = ()) -> str:
    """Write a plan's steps out, each with its worker, its instruction, and what it may cost."""
    lines = []
    for number, step in enumerate(plan.steps, start=1):
        name = one_line(name_of(step.worker, roster), 40) or "whoever suits"
        facts = [name, place_of(step.worker, _NOBODY, roster)] if step.worker else [name]
        facts += _cost(number, plan, roster, turns)
        facts.append(f"sees {_seen(step)}")
        facts += ["may be left out"] if step.optional else []
        if number in plan.answer:
            facts.append("its text is the answer" if len(plan.answer) == 1 else "in the answer")
        lines += [f"{number:>2}  {' '.join(step.subtask.split())}", f"    {' · '.join(facts)}"]
    return "\n".join(lines)


def _seen(step: Step) -> str:
    names = (one_line(name.removeprefix("file:"), 40) for name in step.access)
    return ", ".join(names) or "nothing but this"


def _cost(number: int, plan: Plan, roster: Roster, turns: Sequence[Turn]) -> list[str]:
    """Say what a step can cost at most, where that is known: what earlier steps write isn't."""
    step = plan.steps[number - 1]
    card = roster.get(step.worker)
    if card is None or card.price is None or (card.price or FREE).is_free:
        return []
    if step.inputs or not turns:
        return ["price not known yet"]
    messages = plan.messages(number, Material(tuple(turns)), {}, card.system)
    return [f"at most {at_least(card.price.most(input_bound(messages), card.max_output))}"]
