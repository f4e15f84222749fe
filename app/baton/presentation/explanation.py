"""How a run's answer came about, in a few sentences that hold for what happened, not for the plan.

Each sentence is made from events: who was asked, what left and what didn't, who stood in for whom,
what was declined or refused, and what was found wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.events import Called, Checked, Decision, Offered, Verdict
from baton.core.history_types import RunRecord
from baton.core.messages import Purpose
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView, other_model_text
from baton.presentation.answers import warning_text, weighed_text
from baton.presentation.plans import (
    check_text,
    has_left,
    record_view,
    resume_hint,
    step_numbers,
    step_place,
)

_UNFINISHED_TEXTS = {
    "cancelled": "It was stopped before it was done.",
    "lost": "Baton was ended before it was done.",
    "running": "It is still running.",
}

_LATE_ROUTER = "The router was not ready in time, so a rule of length and kind of task decided."


def run_reasons(record: RunRecord) -> list[str]:
    """Say in a few sentences, one a line, how a run's answer came about."""
    view = record_view(record)
    lines = [_route_text(view)]
    if view.routed is not None and view.routed.decided_by == "late":
        lines.append(_LATE_ROUTER)
    lines += _planner_lines(view)
    lines += [weighed_text(weighed, weighed.worker) for weighed in view.weighed]
    lines += _worker_lines(view)
    lines += [_offer_text(offer) for offer in view.offers if not _is_covered(offer, view)]
    lines += [f"Then: {one_line(revision)}" for revision in view.revisions]
    lines += [
        f"Step {found.step} was checked, {check_text(found)}."
        for step in view.steps
        for found in step.checks
        if _is_conclusive(found)
    ]
    lines += dict.fromkeys(filter(None, map(other_model_text, view.calls)))
    lines += [f"Said beside it: {warning_text(warned)}" for warned in view.warnings]
    if view.failure is not None:
        lines.append(f"It failed: {one_line(view.failure.message)}")
    elif record.status in _UNFINISHED_TEXTS:
        lines.append(resume_hint(record.id, view) or _UNFINISHED_TEXTS[record.status])
    return lines


def _route_text(view: RunView) -> str:
    """Say where the prompt went, which need not be where it was to go."""
    if view.routed is None:
        return "Nothing was decided yet."
    strategy = f" (strategy {one_line(view.routed.strategy)})" if view.routed.strategy else ""
    reason = one_line(view.routed.why)
    text = (
        f"{_where_text(view)}{strategy}: {reason}" if reason else f"{_where_text(view)}{strategy}."
    )
    was_meant_to_leave = view.routed.where == "cloud" and view.status != "running"
    return f"{text} Nothing left it." if was_meant_to_leave and not has_left(view) else text


def _where_text(view: RunView) -> str:
    assert view.routed is not None
    if not has_left(view):
        if view.routed.where == "cloud":
            return "It was to leave this machine"
        return "It went by a plan" if view.routed.where == "plan" else "It stayed on this machine"
    if view.routed.where == "plan":
        return "It went by a plan, parts of which left this machine"
    return "It left this machine" if view.routed.where == "cloud" else "It began on this machine"


def _planner_lines(view: RunView) -> list[str]:
    """Say who was asked for the plan, or to judge what came of it, and for how much."""
    calls: dict[str, list[Called]] = {}
    for call in view.calls:
        if call.step == 0 and call.purpose is Purpose.PLAN:
            calls.setdefault(call.worker, []).append(call)
    lines = []
    for worker, asked in calls.items():
        cost = sum(call.cost for call in asked)
        price = f", for {show_usd(cost)}" if cost else ""
        has_written = any(call.finish is not None or call.tokens_out for call in asked)
        verb = "planned" if has_written else "was asked for a plan, without success"
        lines.append(f"{one_line(worker)} {verb}{price}.")
    return lines


def _worker_lines(view: RunView) -> list[str]:
    """Say who did which steps, where, and for how much; and who could not."""
    by_worker: dict[tuple[str, str], list[int]] = {}
    for step in view.steps:
        if step.began is None or step.status in ("failed", "skipped"):
            continue
        by_worker.setdefault((step.worker, step_place(step, view)), []).append(step.number)
    lines = []
    for (worker, place), numbers in by_worker.items():
        calls = [c for c in view.calls if c.step in numbers and c.worker == worker]
        cost = sum(call.cost for call in calls)
        price = f", for {show_usd(cost)}" if cost else ""
        verb = "did" if len(view.steps) > 1 else "answered"
        is_broken_off = view.status not in ("finished", "running")
        if is_broken_off and any(view.steps[n - 1].status != "done" for n in numbers):
            verb = "began"
        elif len(view.steps) == 1 and view.is_all_thoughts:
            verb = "used its whole length cap for thoughts, and wrote no answer"
        what = f" {step_numbers(numbers)}" if len(view.steps) > 1 else ""
        expected = _expected_text(len(numbers), calls)
        lines.append(f"{one_line(worker)} ({place}) {verb}{what}{price}.{expected}")
    kept = [step.number for step in view.steps if step.status == "done" and step.began is None]
    if kept:
        lines.append(f"What {step_numbers(kept)} wrote was there already, from an earlier run.")
    lines += [text for step in view.steps for text in _replaced_texts(step, view)]
    return lines + [text for step in view.steps if (text := _missing_step_text(step, view))]


def _expected_text(count: int, calls: Sequence[Called]) -> str:
    """Say how long the texts of some steps were expected to get, where money was held."""
    most = max((call.expected_tokens for call in calls if call.held), default=0)
    whose = "Each of its texts" if count > 1 else "Its text"
    return f" {whose} was expected to have at most {most:,} tokens." if most else ""


def _replaced_texts(step: StepView, view: RunView) -> list[str]:
    """Say which workers failed at a step before the one that did it, and why."""
    whose = f" step {step.number}" if len(view.steps) > 1 else ""
    return [
        f"{one_line(worker)} failed{f' at{whose}' if whose else ''}: {one_line(reason)}"
        for worker, reason in step.failures
        if worker != step.worker or step.status == "done"
    ]


def _missing_step_text(step: StepView, view: RunView) -> str:
    if step.status == "skipped":
        return f"Step {step.number} was left out: {one_line(step.why)}"
    if step.status == "failed" and len(view.steps) > 1:
        return f"Step {step.number}, given to {one_line(step.worker)}, failed: {one_line(step.why)}"
    return ""


def _is_covered(offer: Offered, view: RunView) -> bool:
    """Whether a call already says that the offer was taken, or a step that it wasn't."""
    if offer.decision is Decision.SENT:
        return any(call.worker == offer.worker for call in view.calls)
    return any(_missing_step_text(step, view) for step in view.steps if step.worker == offer.worker)


_DECISIONS = {
    Decision.SENT: "{worker} was to be asked.",
    Decision.KEPT: "{worker} was not asked, as you decided.",
    Decision.EDIT: "{worker} was not asked, as you wanted to change the prompt first.",
    Decision.CEILING: "{worker} was not asked, for the ceiling.",
    Decision.NEVER: "{worker} was not asked.",
}


def _offer_text(offer: Offered) -> str:
    """Say what became of an offer to ask a worker, and why it was made."""
    said = _DECISIONS[offer.decision].format(worker=one_line(offer.worker))
    if not offer.step:
        said = f"{said[:-1]} (to plan)."
    message = f" {one_line(offer.message)}" if offer.message else ""
    return f"{said}{message} The reason to ask it: {one_line(offer.why)}"


def _is_conclusive(found: Checked) -> bool:
    return found.verdict is not Verdict.UNCHECKED
