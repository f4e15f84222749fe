"""What a request says of its numbers shows in what is computed, or nothing is computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from baton.workers.tools.computation.marked_text import mark
from baton.workers.tools.computation.relation_check import find_lost_relation

HELD_OUT = Path(__file__).parents[4] / "scripts/training/conductor/held_out"

WRONG = [
    (
        "calc",
        "500 - 120 + 80",
        "I have 500 euros, spend 120 on books and 80 on food. What is left?",
    ),
    ("calc", "3200 - 1150 + 420", "I earn 3200, pay 1150 rent and 420 for food. What is left?"),
    ("calc", "500 - 120 + 80", "Ich habe 500 Euro, gebe 120 für Bücher und 80 für Essen aus."),
    ("calc", "500 - 120 + 80", "J'ai 500 euros, je dépense 120 et 80. Combien reste-t-il ?"),
    ("calc", "100 - 20 + 10", "100 - 20 and 10"),
    ("calc", "9 + 45", "9 am plus 45 minutes"),
    ("calc", "45 * 90%", "45 is 90% of what?"),
    ("calc", "50 - 20%", "20% of what is 50?"),
    ("calc", "3 * 2 / 2", "what is 2 1/2 times 3?"),
    ("calc", "10 + 6", "half of 10 plus 6"),
    ("calc", "2 + 2", "what is half of 2 + 2?"),
    ("calc", "12 + 8", "a quarter of 12 plus 8"),
    ("calc", "9 + 3", "what is a third of 9 + 3?"),
    ("calc", "7 * 5", "a dozen eggs at 7 each and 5 more"),
    ("calc", "30 + 4", "Das Doppelte von 30 plus 4"),
    ("calc", "dec(0b10000000000)", "10000000000!"),
    ("calc", "1010 + 110", "add 1010 and 110 in binary"),
    ("clock", "days(today, christmas)", "how many business days until christmas?"),
    ("clock", "days(today, christmas)", "wie viele Arbeitstage sind es bis Weihnachten?"),
    ("clock", "days(2026-12-01, 2026-12-31)", "how many sundays in December 2026"),
    ("clock", "months(today, 03-31)", "one month before 31 March"),
    ("clock", "2027-01-31 + 1 bd", "one month after 31 January 2027"),
    ("clock", "week(2027-03-03)", "a week after 3 March 2027"),
]
RIGHT = [
    (
        "calc",
        "500 - 120 - 80",
        "I have 500 euros, spend 120 on books and 80 on food. What is left?",
    ),
    ("calc", "20 - 5 + 8", "I have 20, lose 5 and find 8"),
    ("calc", "45 / 90%", "45 is 90% of what?"),
    ("calc", "(2 + 1/2) * 3", "what is 2 1/2 times 3?"),
    ("calc", "2.5 * 3", "what is 2 1/2 times 3?"),
    ("calc", "10 / 2 + 6", "half of 10 plus 6"),
    ("calc", "50% * 390", "cuánto es la mitad de 390"),
    ("calc", "12 * 7", "a dozen eggs at 7 each"),
    ("calc", "0b1010 + 0b110", "add 1010 and 110 in binary"),
    ("calc", "hex(255)", "255 in hex"),
    ("clock", "today + 10 bd", "payment due in 10 working days. what date is that"),
    ("clock", "months(today, christmas)", "how many months before Christmas"),
    ("clock", "weekday(christmas)", "What weekday is Christmas this year?"),
]


@pytest.mark.parametrize(("tool", "expression", "request_text"), WRONG)
def test_a_lost_relation_is_noticed(tool: str, expression: str, request_text: str) -> None:
    assert find_lost_relation(tool, expression, mark(request_text).text)


@pytest.mark.parametrize(("tool", "expression", "request_text"), RIGHT)
def test_a_right_expression_is_let_through(tool: str, expression: str, request_text: str) -> None:
    assert find_lost_relation(tool, expression, mark(request_text).text) == ""


def test_no_right_expression_of_the_held_out_requests_is_refused() -> None:
    refused = []
    for file in sorted(HELD_OUT.glob("computable.*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            tool, _, expression = row["expression"].partition(": ")
            if find_lost_relation(tool, expression, mark(row["prompt"], row["lang"]).text):
                refused.append(row["prompt"])
    assert refused == []
