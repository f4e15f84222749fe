"""What a run that ended early leaves to one that goes on with it."""

from __future__ import annotations

from dataclasses import replace

from baton.core.errors import ConfigError
from baton.core.events import Routed
from baton.core.history_types import RunRecord
from baton.core.plan.plan import Outcome
from baton.core.run.policy import PromptLimits, RunTerms
from baton.core.view import fold_events


def routed_as(record: RunRecord) -> Routed:
    """Return how a run was routed, within which bounds."""
    return next((e for e in record.events if isinstance(e, Routed)), Routed("", ""))


def stricter(
    routed: Routed, limits: PromptLimits, terms: RunTerms
) -> tuple[PromptLimits, RunTerms]:
    """Return what both a run and the one that goes on with it are allowed."""
    budget = min((b for b in (limits.budget, routed.budget) if b is not None), default=None)
    mode = "local" if routed.mode == "local" else terms.mode
    return (
        replace(limits, alone=limits.alone or routed.alone, budget=budget),
        replace(terms, mode=mode, offline=terms.offline or routed.offline),
    )


def kept_outcome(record: RunRecord) -> Outcome:
    """Return the plan of a run that ended early, and the texts of its steps that were finished.

    Raises ConfigError where there is no plan, or nothing of it left to do.
    """
    view = fold_events(record.events)
    if view.plan is None or record.status == "running":
        what = "is still going on" if record.status == "running" else "never had a plan"
        raise ConfigError(f"The run {record.id} {what}.", "Ask again instead.")
    done = [step for step in view.steps if step.status == "done"]
    if record.status == "finished":
        raise ConfigError(f"The run {record.id} is finished.", "`baton trace` shows it.")
    texts = {step.number: step.text for step in done if step.text}
    return Outcome(view.plan, texts, {step.number for step in done if step.is_cut})
