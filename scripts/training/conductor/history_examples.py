"""Reads the user's own runs that they marked good, as examples for the conductor.

The history is opened read-only, and none of it is written anywhere: what remains of the texts is
what training makes of them in the adapter's weights. An adapter that was trained so is as private
as the history is, and keeps what it learned when a conversation is removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from plan_format import format_lines
from request_generator import OWN, Example, is_sound

from baton.core.errors import ConfigError
from baton.core.history_types import PastRun, Signal, rating
from baton.core.messages import Purpose
from baton.core.plan_types import Plan, Step
from baton.core.planning.plan_lines import TOOL_HEADS, WHOLE_REQUEST, PlanPart
from baton.core.planning.request_parts import DOUBTFUL_NEED
from baton.core.view import RunView, fold_events
from baton.history.queries import past_runs
from baton.platform.sqlite import connect, explain_errors, transaction
from baton.workers.tools.computation.marked_text import mark

MAX_RUNS = 20_000
"""How many of the newest runs are looked at."""
MAX_PROMPT_CHARS = 700
"""As in `real_texts`; longer prompts are too long for a training batch."""

_WHERE = " where "
"""What stands between a tool's expression and the earlier results that it takes."""


def read_examples(file: Path) -> list[Example]:
    """Return one example for each prompt whose newest mark is good and whose plan can be learned.

    Raises ConfigError where there is no history or no such run, StoreError where it can't be read.
    """
    if not file.is_file():
        raise ConfigError(
            f"There is no history at {file}.", "Leave --from-history out, or name the file."
        )
    with (
        explain_errors(file),
        closing(connect(file, mode="ro")) as connection,
        transaction(connection, "DEFERRED"),
    ):
        runs = past_runs(connection, 0.0, MAX_RUNS)
    good = marked_good(runs)
    if not good:
        raise ConfigError(
            f"No answer in the history at {file} is marked good.",
            "Mark answers with + in the app or `baton history rate good`.",
        )
    examples = [example for run in good if (example := example_of(run)) is not None]
    if not examples:
        raise ConfigError(
            f"Answers marked good: {len(good)}, but none has a plan to learn from.",
            "Mark answers to requests of one step, and of those that the conductor split.",
        )
    return examples


def marked_good(runs: Iterable[PastRun]) -> list[PastRun]:
    """Return for each prompt its newest marked run (`runs` are oldest first), if it is good."""
    newest = {run.asked: (run, given) for run in runs if (given := rating(run.signals))}
    return [run for run, given in newest.values() if given is Signal.GOOD]


def example_of(run: PastRun) -> Example | None:
    """Return what a run teaches: its marked prompt and its plan lines. None where it can't."""
    view = fold_events(run.record.events)
    if view.plan is None or not run.asked.strip() or len(run.asked) > MAX_PROMPT_CHARS:
        return None
    marked = mark(run.asked)
    parts = _parts(view, view.plan, marked.language)
    if not parts:
        return None
    lines = tuple(format_lines(parts).split("\n"))
    example = Example(OWN, marked.language, marked.text, lines)
    return example if is_sound(example) else None


def _parts(view: RunView, plan: Plan, language: str) -> tuple[PlanPart, ...]:
    """Return a plan's parts, () where the request neither stayed whole nor was split soundly.

    Drafts, checks and plans that were replaced on the way say nothing of a request's parts: the
    answer has to be all steps. An expression in doubt isn't a line to learn.
    """
    if all(step.is_direct for step in plan.steps):
        return (PlanPart(WHOLE_REQUEST, need=plan.steps[0].need),)
    is_conducted = any(call.purpose is Purpose.PLAN for call in view.calls)
    is_split = plan.answer == tuple(range(1, len(plan.steps) + 1))
    are_usual = not any(step.check or step.need == DOUBTFUL_NEED for step in plan.steps)
    if not (is_split and are_usual and (is_conducted or len(plan.steps) == 1)):
        return ()
    return tuple(_part(step, language) for step in plan.steps)


def _part(step: Step, language: str) -> PlanPart:
    if step.worker in TOOL_HEADS.values():
        return PlanPart(step.subtask.partition(_WHERE)[0], step.worker, step.need, step.inputs)
    text = " ".join(mark(step.subtask, language).text.split())
    return PlanPart(text, "", step.need, step.inputs)
