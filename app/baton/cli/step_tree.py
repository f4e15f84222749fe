"""A run's steps as a tree: each under the last of those that it builds on."""

from __future__ import annotations

from baton.cli.step_text import access_text, need_text, step_place, subtask_text, wrap_lines
from baton.core.hold_decision import shown_rounded_up
from baton.core.messages import Finish
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView

_MAX_DEPTH = 6
"""Steps below this depth are not indented further: a terminal has 80 columns."""


def step_tree(view: RunView) -> list[str]:
    """Return the lines of the tree."""
    lines = []
    planning = [call for call in view.calls if call.step == 0]
    for call in planning:
        cost = f", {show_usd(call.cost)}" if call.cost else ""
        lines.append(f"planned by {one_line(call.worker)} in {call.seconds:.1f} s{cost}")
    children: dict[int, list[StepView]] = {}
    for step in view.steps:
        children.setdefault(max(step.step.inputs, default=0), []).append(step)
    return lines + _branches(0, "", 0, children, view)


def _branches(
    parent: int, prefix: str, depth: int, children: dict[int, list[StepView]], view: RunView
) -> list[str]:
    lines: list[str] = []
    below = children.get(parent, [])
    for step in below:
        is_last = step is below[-1]
        lines.append(f"{prefix}{'└─' if is_last else '├─'} {_step_head(step, view)}")
        inner = prefix if depth >= _MAX_DEPTH else prefix + ("   " if is_last else "│  ")
        bar = "│  " if step.number in children and depth < _MAX_DEPTH else "   "
        lines += [line for fact in _step_facts(step) for line in wrap_lines(fact, inner + bar)]
        lines += _branches(step.number, inner, depth + 1, children, view)
    return lines


def _step_head(step: StepView, view: RunView) -> str:
    worker = one_line(step.worker or step.step.worker)
    answers = ", answers" if view.plan is not None and step.number in view.plan.answer else ""
    place = "" if step.began is None else f" {step_place(step, view)},"
    head = f"{step.number} {worker},{place} {_step_status(step)}{answers}"
    calls = [call for call in view.calls if call.step == step.number]
    if not calls:
        return head
    read, wrote = sum(c.tokens_in for c in calls), sum(c.tokens_out for c in calls)
    cost = sum(call.cost for call in calls)
    price = f", {show_usd(cost)}" if cost else ""
    return f"{head}: {read:,} tokens read, {wrote:,} written{price}"


FINISH_WORDS = {
    Finish.LENGTH: "cut at its cap",
    Finish.FILTER: "ended by a content filter",
    Finish.TOOL: "ended in the call of a tool",
    Finish.EMPTY: "empty",
}


def _step_status(step: StepView) -> str:
    status = FINISH_WORDS.get(step.finish, step.status) if step.status == "done" else step.status
    if step.status == "done" and step.began is None:
        return f"{status} before"
    if step.began is None or step.ended is None:
        return status
    return f"{status} in {step.ended - step.began:.1f} s"


def _step_facts(step: StepView) -> list[str]:
    marks = ", optional" * step.step.optional + ", checks" * step.step.check
    planned = step.step.worker
    if planned and step.worker != planned:
        marks += f", in place of {one_line(planned)}"
    need = f"{need_text(step.step.need)}{marks}"
    facts = [subtask_text(step.step), f"{need}; sees {access_text(step.step.access)}"]
    if step.why:
        most = f" (at most {shown_rounded_up(step.most)})" if step.most else ""
        facts.append(one_line(step.why) + most)
    for found in step.checks:
        note = f" ({one_line(found.note)})" if found.note else ""
        facts.append(f"checked, {one_line(found.what)}: {found.verdict}{note}")
    return facts


def step_texts(view: RunView, answer: str) -> str:
    """Return what every step wrote, each under its own heading."""
    parts = []
    for step in view.steps:
        text = step.text or (answer if len(view.steps) == 1 else "")
        if text:
            worker = one_line(step.worker or step.step.worker)
            parts.append(f"--- step {step.number}, {worker} ---\n{text.rstrip()}")
    return "\n\n".join(parts) or "No step wrote anything."
