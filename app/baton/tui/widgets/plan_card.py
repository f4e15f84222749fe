"""The card before a plan is played: its steps, who does them, what they see and may cost."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.content import Content

from baton.core.hold_decision import at_least
from baton.core.plan.plan import Plan, Step
from baton.core.ports import Question
from baton.core.sanitiser import one_line
from baton.core.view import RunView
from baton.tui.answer_summary import Roster, name_of, place_of
from baton.tui.widgets.scrollable_question import QuotingView

_NOBODY = RunView()


class PlanView(QuotingView):
    """Shows a plan of which nothing was called yet."""

    SHARE = 2

    def __init__(self, question: Question, plan: Plan, roster: Roster) -> None:
        self._summary = told_places(plan, roster)
        super().__init__(question, told_plan(plan, roster, question.costs), hanging=4)

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


def told_plan(plan: Plan, roster: Roster, costs: Sequence[int | None]) -> str:
    """Write a plan's steps out, each with its worker, its instruction, and what it may cost."""
    lines = []
    for number, (step, cost) in enumerate(zip(plan.steps, costs, strict=True), start=1):
        name = one_line(name_of(step.worker, roster), 40) or "whoever suits"
        facts = [name, place_of(step.worker, _NOBODY, roster)] if step.worker else [name]
        facts += _cost(cost, "about " if step.inputs else "")
        facts.append(f"sees {_seen(step)}")
        facts += ["may be left out"] if step.optional else []
        if number in plan.answer:
            facts.append("its text is the answer" if len(plan.answer) == 1 else "in the answer")
        lines += [f"{number:>2}  {' '.join(step.subtask.split())}", f"    {' · '.join(facts)}"]
    return "\n".join(lines)


def _seen(step: Step) -> str:
    names = (one_line(name.removeprefix("file:"), 40) for name in step.access)
    return ", ".join(names) or "nothing but this"


def _cost(cost: int | None, about: str) -> list[str]:
    """Say what a step can cost at most; `about` that where it reads what isn't written yet."""
    if cost is None:
        return ["no price"]
    return [f"at most {about}{at_least(cost)}"] if cost else []
