"""Changes to a plan by hand, each of which leaves a plan that can be played."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from baton.core.errors import PlanError
from baton.core.plan_types import Plan, Step

_RESULT_NUMBER = re.compile(r"\b(results?|steps?) (\d+)\b", re.IGNORECASE)


def with_worker(plan: Plan, number: int, worker: str) -> Plan:
    """Give a step to another worker."""
    return _with_step(plan, number, replace(plan.steps[number - 1], worker=worker))


def with_subtask(plan: Plan, number: int, text: str) -> Plan:
    """Give a step another instruction. Raises PlanError for an empty one."""
    return _with_step(plan, number, replace(plan.steps[number - 1], subtask=text.strip()))


def without_step(plan: Plan, number: int) -> Plan:
    """Leave a step out: what saw it sees what it saw, and takes its place in the answer.

    The steps after it have other numbers then, also where instructions name them. Raises PlanError
    for the only step.
    """
    if len(plan.steps) == 1:
        raise PlanError("The only step of a plan can't be left out.")
    gone = plan.steps[number - 1]
    steps = [
        _renumbered(step, number, gone.access)
        for index, step in enumerate(plan.steps, start=1)
        if index != number
    ]
    answer = _unique(
        _moved(n, number)
        for seen in plan.answer
        for n in (gone.inputs if seen == number else (seen,))
    )
    return Plan(tuple(steps), answer or (len(steps),))


def _with_step(plan: Plan, number: int, step: Step) -> Plan:
    return replace(plan, steps=(*plan.steps[: number - 1], step, *plan.steps[number:]))


def _renumbered(step: Step, gone: int, instead: tuple[str, ...]) -> Step:
    access: list[str] = []
    for name in step.access:
        access += instead if name == str(gone) else (name,)
    access = [str(_moved(int(name), gone)) if name.isdecimal() else name for name in access]

    def renumber(match: re.Match[str]) -> str:
        return f"{match[1]} {_moved(int(match[2]), gone)}"

    return replace(
        step,
        access=tuple(dict.fromkeys(access)),
        subtask=_RESULT_NUMBER.sub(renumber, step.subtask),
    )


def _moved(number: int, gone: int) -> int:
    return number - 1 if number > gone else number


def _unique(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(numbers))
