"""Several answers to the same prompt, of which one is chosen by what the others say."""

from __future__ import annotations

from baton.core.plan.plan import Outcome
from baton.core.plan.short_answer import answers_agree, majority_index
from baton.core.ports import Proposal
from baton.core.strategies._steps import keep_step, written_steps


class VoteStrategy:
    """Chooses among the steps of a plan once they are over, and says so once."""

    def __init__(self) -> None:
        self._said = False

    def vote_proposal(self, outcome: Outcome, best: int) -> Proposal | None:
        """Propose the first answer of the majority; without one the `best`, if it was written."""
        numbers = written_steps(outcome, range(1, len(outcome.plan.steps) + 1))
        if self._said or not numbers:
            return None
        self._said = True
        texts = [outcome.text(n) for n in numbers]
        index = majority_index(texts)
        if index is None:
            chosen = best if best in numbers else numbers[0]
            return keep_step(outcome, chosen, _no_majority_reason(len(numbers)))
        votes = sum(answers_agree(texts[index], text) for text in texts)
        return keep_step(outcome, numbers[index], f"{votes} of {len(texts)} answers agree.")


def _no_majority_reason(count: int) -> str:
    if count == 1:
        return "Only one answer was written."
    return "No two answers agree more than others do, so the one that is likeliest right counts."
