"""The outcome of a tool's step: its expression, the request's language, and earlier results."""

from __future__ import annotations

import pytest

from baton.core.messages import fenced
from baton.workers.tools.computation import CannotCompute
from baton.workers.tools.computation.marked_text import mark
from baton.workers.tools.computation.plan_steps import (
    compute_step,
    results_in_use,
    step_language,
)


def step_message(prompt: str, expression: str, **results: str) -> str:
    """Return a message as a tool's step is shown it."""
    shown = [f"Result {n.removeprefix('r')}:\n{fenced(text)}" for n, text in results.items()]
    return "\n\n".join([f"What was asked:\n{fenced(prompt)}", *shown, expression])


def computed_text(tool: str, message: str) -> str:
    """Return the result of a step, with the results that it uses marked."""
    used = results_in_use(message)
    language = step_language(message)
    return compute_step(tool, message, {n: mark(text, language) for n, text in used.items()})


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("3 * #1 where #1 = units: 2 kg -> g", "3 \u00d7 2,000 g = 6,000 g"),
        ("#1 / 4 where #1 = units: 2 kg -> g", "2,000 g \u00f7 4 = 500 g"),
        ("#1 - 10% where #1 = units: 2 kg -> g", "2,000 g \u2212 10% = 1,800 g"),
        ("#1 ^ 2 where #1 = units: 2 kg -> g", "2000 ^ 2 = 4,000,000"),
        ("#1 + 5 where #1 = units: 2 kg -> g", "2000 + 5 = 2,005"),
        ("6 / #1 where #1 = units: 2 kg -> g", "6 \u00f7 2000 = 0.003"),
        ("#1 * 2 where #1 = calc: 3 + 4", "7 \u00d7 2 = 14"),
    ],
)
def test_a_multiple_of_an_amount_keeps_its_unit(expression: str, said: str) -> None:
    assert computed_text("calc", expression) == said


def test_a_number_in_an_earlier_text_can_be_computed_with() -> None:
    message = step_message("letters in 'cat', squared", "#1^2", r1="There are 3 letters.")
    assert computed_text("calc", message) == "3^2 = 9"
    for text in ("There are many.", "Between 3 and 4."):
        with pytest.raises(CannotCompute):
            computed_text("calc", step_message("letters in 'cat', squared", "#1^2", r1=text))


@pytest.mark.parametrize(
    ("prompt", "tool", "expression", "answer"),
    [
        ("how many miles are 42 km?", "units", "42 km -> mi", "42 km are ≈ 26.1 miles."),
        ("Combien font 42 km en miles ?", "units", "42 km -> mi", "42 km font ≈ 26,1 miles."),
        ("Wie viel sind 15% von 250?", "calc", "15% * 250", "15% \u00d7 250 = 37,5"),
    ],
)
def test_the_answer_is_in_the_language_of_the_request(
    prompt: str, tool: str, expression: str, answer: str
) -> None:
    assert computed_text(tool, step_message(prompt, expression)) == answer


@pytest.mark.parametrize("text", ["", "Tell me a story about 7 dwarfs.", "#1 * 2", "1 where 2"])
def test_what_is_not_an_expression_is_not_computed(text: str) -> None:
    with pytest.raises(CannotCompute):
        computed_text("calc", text)
