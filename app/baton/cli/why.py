"""`baton why`: who answered, and what made it so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from baton.cli.completion import complete_run
from baton.cli.json_output import route_object
from baton.cli.output import emit, emit_json
from baton.cli.stores import find_run, with_store
from baton.core.events import Checked, Decision, Offered, Verdict, Weighed
from baton.core.history_types import RunRecord
from baton.core.messages import Purpose
from baton.core.money import format_usd, show_usd
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView
from baton.presentation.answers import weighed_text
from baton.presentation.plans import (
    check_text,
    record_view,
    resume_hint,
    step_destination,
    step_numbers,
    step_place,
)

_DECISIONS = {
    Decision.SENT: "was asked",
    Decision.KEPT: "was not asked, as you decided",
    Decision.EDIT: "was not asked, as you wanted to change the prompt first",
    Decision.CEILING: "was not asked, for the ceiling",
    Decision.NEVER: "was not asked",
}


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(run: str | None, as_json: bool) -> None:
    """Say who did what in RUN, and why: its id, the beginning of it, or without one the last run.

    `baton trace` shows all of it.
    """
    record = with_store(lambda store: find_run(store, run))
    emit_json(why_object(record)) if as_json else emit("\n".join(run_reasons(record)))


def why_object(record: RunRecord) -> dict[str, Any]:
    """Return a run's route as `why --json` prints it."""
    view = record_view(record)
    return {
        "schema": 1,
        "run_id": record.id,
        "status": record.status,
        "route": route_object(view.routed) if view.routed else None,
        "revisions": list(view.revisions),
        "weighed": [_weighed_object(weighed) for weighed in view.weighed],
        "steps": [_step_object(step, view) for step in view.steps],
        "reasons": run_reasons(record),
    }


def _step_object(step: StepView, view: RunView) -> dict[str, Any]:
    return {
        "step": step.number,
        "worker": step.worker,
        "destination": step_destination(step, view),
        "status": step.status,
    }


def run_reasons(record: RunRecord) -> list[str]:
    """Say in a few sentences, one a line, how a run's answer came about."""
    view = record_view(record)
    weighed = [weighed_text(weighed, weighed.worker) for weighed in view.weighed]
    lines = [_route_text(view), *_planner_lines(view), *weighed, *_worker_lines(view)]
    lines += [_offer_text(offer) for offer in view.offers if not _is_covered(offer, view)]
    lines += [f"Then: {one_line(revision)}" for revision in view.revisions]
    lines += [
        _check_text(found) for step in view.steps for found in step.checks if _is_conclusive(found)
    ]
    if view.failure is not None:
        lines.append(f"It failed: {one_line(view.failure.message)}")
    elif record.status in _UNFINISHED_TEXTS:
        lines.append(resume_hint(record.id, view) or _UNFINISHED_TEXTS[record.status])
    return lines


_UNFINISHED_TEXTS = {
    "cancelled": "It was stopped before it was done.",
    "lost": "Baton was ended before it was done.",
    "running": "It is still running.",
}


def _route_text(view: RunView) -> str:
    if view.routed is None:
        return "Nothing was decided yet."
    strategy = f" (strategy {one_line(view.routed.strategy)})" if view.routed.strategy else ""
    where = {"plan": "It went by a plan", "cloud": "It went to a remote worker"}
    went = where.get(view.routed.where, "It stayed on this machine")
    if (
        any(step for step in view.steps if step_destination(step, view))
        and view.routed.where == "local"
    ):
        went = "It began on this machine"
    reason = one_line(view.routed.why)
    return f"{went}{strategy}: {reason}" if reason else f"{went}{strategy}."


def _planner_lines(view: RunView) -> list[str]:
    """Say who was asked for the plan, or to judge what came of it, and for how much."""
    costs: dict[str, int] = {}
    for call in view.calls:
        if call.step == 0 and call.purpose is Purpose.PLAN:
            costs[call.worker] = costs.get(call.worker, 0) + call.cost
    return [
        f"{one_line(worker)} planned" + (f", for {show_usd(cost)}." if cost else ".")
        for worker, cost in costs.items()
    ]


def _worker_lines(view: RunView) -> list[str]:
    """Say who did which steps, where, and for how much."""
    by_worker: dict[tuple[str, str], list[int]] = {}
    for step in view.steps:
        if step.began is None or step.status in ("failed", "skipped"):
            continue
        by_worker.setdefault((step.worker, step_place(step, view)), []).append(step.number)
    lines = []
    for (worker, place), numbers in by_worker.items():
        cost = sum(call.cost for call in view.calls if call.step in numbers)
        price = f", for {show_usd(cost)}" if cost else ""
        verb = "did" if len(view.steps) > 1 else "answered"
        what = f" {step_numbers(numbers)}" if len(view.steps) > 1 else ""
        lines.append(
            f"{one_line(worker)} ({place}) {verb}{what}{price}.{_expected_text(numbers, view)}"
        )
    kept = [step.number for step in view.steps if step.status == "done" and step.began is None]
    if kept:
        lines.append(f"What {step_numbers(kept)} wrote was there already, from an earlier run.")
    return lines + [text for step in view.steps if (text := _missing_step_text(step, view))]


def _expected_text(numbers: Sequence[int], view: RunView) -> str:
    """Say how long the texts of some steps were expected to get, where money was held."""
    asked = [call for call in view.calls if call.step in numbers and call.held]
    most = max((call.expected_tokens for call in asked), default=0)
    whose = "Each of its texts" if len(numbers) > 1 else "Its text"
    return f" {whose} was expected to have at most {most:,} tokens." if most else ""


def _missing_step_text(step: StepView, view: RunView) -> str:
    if step.status == "skipped":
        return f"Step {step.number} was left out: {one_line(step.why)}"
    if step.status == "failed" and len(view.steps) > 1:
        return f"Step {step.number}, given to {one_line(step.worker)}, failed: {one_line(step.why)}"
    return ""


def _weighed_object(weighed: Weighed) -> dict[str, Any]:
    return {
        "worker": weighed.worker,
        "gain": weighed.gain,
        "bar": weighed.bar,
        "cost_usd": format_usd(weighed.cost),
        "ok": weighed.ok,
        "why": weighed.why,
    }


def _is_covered(offer: Offered, view: RunView) -> bool:
    """Whether a call already says that the offer was taken, or a step that it wasn't."""
    if offer.decision is Decision.SENT:
        return any(call.worker == offer.worker for call in view.calls)
    return any(_missing_step_text(step, view) for step in view.steps if step.worker == offer.worker)


def _offer_text(offer: Offered) -> str:
    message = f" {one_line(offer.message)}" if offer.message else ""
    return f"{one_line(offer.worker)} {_DECISIONS[offer.decision]}: {one_line(offer.why)}{message}"


def _is_conclusive(found: Checked) -> bool:
    return found.verdict is not Verdict.UNCHECKED


def _check_text(found: Checked) -> str:
    return f"Step {found.step} was checked, {check_text(found)}."
