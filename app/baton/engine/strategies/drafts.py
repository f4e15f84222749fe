"""Answers to the prompt itself: who may write them, and the steps in which they do."""

from __future__ import annotations

from dataclasses import replace

from baton.domain.chat import Finish
from baton.domain.plan import Outcome, Plan, Step, direct
from baton.engine.policy import help_wanted
from baton.engine.ports import Proposal, Situation


def answered_by(situation: Situation, worker: str, *, optional: bool = False) -> Step:
    """Return a step in which a worker answers the prompt, seeing all of the conversation."""
    step = direct(worker, situation.material.files, situation.route.need)
    return replace(step, optional=True) if optional else step


def alone(situation: Situation, why: str = "") -> Proposal:
    """Propose that the default worker answers, and nobody else."""
    card = situation.card(situation.worker)
    told = (
        f"{card.name} was asked for." if card.is_outside else f"{card.name} runs on this machine."
    )
    plan = Plan((answered_by(situation, card.id),), (1,))
    return Proposal(plan, "cloud" if card.remote else "local", why or told)


def wanting(situation: Situation, outcome: Outcome, step: int) -> str:
    """Say in a sentence why a step's text calls for a second look, or return ""."""
    finish = Finish.LENGTH if step in outcome.cut else Finish.STOP
    return help_wanted(outcome.text(step), finish, situation.limits)
