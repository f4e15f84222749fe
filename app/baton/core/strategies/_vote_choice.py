"""Several answers to the same prompt, of which one is chosen by what the others say."""

from __future__ import annotations

from baton.core.plan.plan import Outcome
from baton.core.plan.short_answer import agree, majority
from baton.core.ports import Proposal
from baton.core.strategies._steps import settled, written


class Polled:
    """Chooses among the steps of a plan once they are over, and says so once."""

    def __init__(self) -> None:
        self._said = False

    def decided(self, outcome: Outcome, best: int) -> Proposal | None:
        """Propose the first answer of the majority; without one the `best`, if it was written."""
        numbers = written(outcome, range(1, len(outcome.plan.steps) + 1))
        if self._said or not numbers:
            return None
        self._said = True
        texts = [outcome.text(n) for n in numbers]
        index = majority(texts)
        if index is None:
            chosen = best if best in numbers else numbers[0]
            return settled(outcome, chosen, _alone(len(numbers)))
        votes = sum(agree(texts[index], text) for text in texts)
        return settled(outcome, numbers[index], f"{votes} of {len(texts)} answers agree.")


def _alone(count: int) -> str:
    if count == 1:
        return "Only one answer was written."
    return "No two answers agree more than others do, so the one that is likeliest right counts."
