"""The card before a plan is played: its steps, who does them, what they see and may cost."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.content import Content

from baton.core.hold_decision import shown_rounded_up
from baton.core.plan.plan import Plan, Step
from baton.core.ports import Question
from baton.core.sanitiser import one_line
from baton.core.view import RunView
from baton.tui.answer_summary import CardsById, worker_name, worker_place
from baton.tui.widgets.scrollable_question import ScrollableQuestion

_EMPTY_RUN = RunView()


class PlanCard(ScrollableQuestion):
    """Shows a plan of which nothing was called yet."""

    SHARE = 2

    def __init__(self, question: Question, plan: Plan, roster: CardsById) -> None:
        self._summary = places_text(plan, roster)
        super().__init__(question, plan_text(plan, roster, question.costs), hanging=4)

    def heading(self) -> Content:
        """Return the question with how many steps there are, and where."""
        text = one_line(self.question.text)
        return Content.assemble((text, "bold"), "   ", (self._summary, "$accent"))

    def body(self) -> ComposeResult:
        """Lay out the steps under the question."""
        yield self._title
        yield self._text


def places_text(plan: Plan, roster: CardsById) -> str:
    """Say how many steps there are, and how many of them are done elsewhere."""
    places = [worker_place(step.worker, _EMPTY_RUN, roster) for step in plan.steps]
    away = ", ".join(
        f"{places.count(place)} {place}"
        for place in ("local", "network", "cloud")
        if place in places
    )
    return f"{len(places)} {'step' if len(places) == 1 else 'steps'} · {away}"


def plan_text(plan: Plan, roster: CardsById, costs: Sequence[int | None]) -> str:
    """Write a plan's steps out, each with its worker, its instruction, and what it may cost."""
    lines = []
    for number, (step, cost) in enumerate(zip(plan.steps, costs, strict=True), start=1):
        name = one_line(worker_name(step.worker, roster), 40) or "whoever suits"
        facts = [name, worker_place(step.worker, _EMPTY_RUN, roster)] if step.worker else [name]
        facts += _cost_texts(cost, "about " if step.inputs else "")
        facts.append(f"sees {_access_text(step)}")
        facts += ["may be left out"] if step.optional else []
        if number in plan.answer:
            facts.append("its text is the answer" if len(plan.answer) == 1 else "in the answer")
        lines += [f"{number:>2}  {' '.join(step.subtask.split())}", f"    {' · '.join(facts)}"]
    return "\n".join(lines)


def _access_text(step: Step) -> str:
    names = (one_line(name.removeprefix("file:"), 40) for name in step.access)
    return ", ".join(names) or "nothing but this"


def _cost_texts(cost: int | None, about: str) -> list[str]:
    """Say what a step can cost at most; `about` that where it reads what isn't written yet."""
    if cost is None:
        return ["no price"]
    return [f"at most {about}{shown_rounded_up(cost)}"] if cost else []
