"""What the tools' process does for plans: marking, checking, computing steps."""

from __future__ import annotations

import pytest

from baton.core.messages import fenced
from baton.workers.tools.computation import CannotCompute
from baton.workers.tools.computation.plan_steps import Part, check_parts, compute_step, mark_request


def part(tool: str, text: str, *inputs: int) -> Part:
    return {"tool": tool, "text": text, "inputs": inputs}


def asked(prompt: str, expression: str, **results: str) -> str:
    """Return a message as a tool's step is shown it."""
    shown = [f"Result {n.removeprefix('r')}:\n{fenced(text)}" for n, text in results.items()]
    return "\n\n".join([f"What was asked:\n{fenced(prompt)}", *shown, expression])


def test_a_request_is_marked_in_its_language() -> None:
    found = mark_request("Wie viel sind zwölf Prozent von 1.250,50 Euro?")
    assert found["language"] == "de"
    assert "12%" in found["text"]
    assert "1250.50" in found["text"]


def test_parts_become_subtasks_in_the_persons_words() -> None:
    request = "Translate 'ten past four' to German, what's twelve times 7, and a poem on 3 May 2027"
    parts = [
        part("", "translate 'ten past four' to German"),
        part("calc", "12 * 7"),
        part("", "a poem on 2027-05-03"),
    ]
    checked = check_parts(request, parts)
    assert [c["problem"] for c in checked] == ["", "", ""]
    assert [c["text"] for c in checked] == [
        "Translate 'ten past four' to German",
        "12 * 7",
        "a poem on 3 May 2027",
    ]
    assert checked[1]["words"] == "what's twelve times 7"


def test_a_question_that_no_part_is_about_comes_behind_them() -> None:
    request = "What is a third of 1.5 km in metres? And who was the 1st to swim that?"
    checked = check_parts(request, [part("units", "1.5 km / 3 -> m")])
    assert [c["text"] for c in checked] == [
        "1.5 km / 3 -> m",
        "who was the 1st to swim that?",
    ]
    assert checked[0]["words"] == "What is a third of 1.5 km in metres?"


def test_what_an_expression_leaves_out_puts_only_that_part_in_doubt() -> None:
    request = "What is 17 times 23 times 2, and what is 5 plus 6?"
    first, second = check_parts(request, [part("calc", "17 * 23"), part("calc", "5 + 6")])
    assert first["problem"] == "The plan leaves 2 out."
    assert second["problem"] == ""


@pytest.mark.parametrize(
    ("request_text", "wrong", "why"),
    [
        ("what is 17*23", part("calc", "17 * 23 + 29"), "29 isn't in the request."),
        ("what is 17*23", part("calc", "17"), "The plan leaves 23 out."),
        ("what is 17*23", part("calc", "17 * (23"), "This is not an expression"),
        ("Christmas or New Year?", part("clock", "days(today, easter)"), "easter isn't in"),
        ("what time is it in Lima", part("clock", "now(Tokyo)"), "Tokyo isn't in"),
        ("is 2027-05-03 a Monday", part("clock", "next(fri)"), "fri isn't in"),
        ("what is 17 -3", part("calc", "17 - 3"), ""),
        ("what is -10 C in °F", part("units", "10 C -> F"), "-10"),
        ("how far is 42 km", part("units", "42 km -> mi"), "mi isn't in the request."),
        ("write about rain", part("", "write of hail and snow"), "hail isn't in the request."),
    ],
)
def test_what_the_request_does_not_hold_is_found(request_text: str, wrong: Part, why: str) -> None:
    (checked,) = check_parts(request_text, [wrong])
    assert why in checked["problem"]


def test_a_word_may_be_bent_but_not_another() -> None:
    def why(text: str) -> str:
        return check_parts("Schreib etwas über den Herbst im Garten", [part("", text)])[0][
            "problem"
        ]

    assert why("schreibe ein Gedicht über den Herbst") == "gedicht isn't in the request."
    assert why("schreibe etwas über die Gärten im Herbst") == ""


def test_nothing_is_built_on_an_expression_in_doubt() -> None:
    request = "What is 17 times 23 times 9, and halve it?"
    checked = check_parts(request, [part("calc", "17 * 23"), part("calc", "#1 / 2", 1)])
    assert all(c["problem"] for c in checked)
    assert checked[1]["words"] == "halve it?"


def test_a_part_about_a_result_has_to_use_it_and_no_other_parts_numbers() -> None:
    request = "What is 29 times 47? Add 10 to the result."
    first = part("calc", "29 * 47")
    for wrong in (part("calc", "10 + 10"), part("calc", "#1 * 47", 1)):
        checked = check_parts(request, [first, wrong])
        assert [bool(one["problem"]) for one in checked] == [False, True]
    assert not any(
        one["problem"] for one in check_parts(request, [first, part("calc", "#1 + 10", 1)])
    )


def test_a_text_without_words_of_its_own_is_never_an_empty_task() -> None:
    request = "How does a starter differ from ordinary yeast, in plain words?"
    first = part("", "how does a starter differ from ordinary yeast, in plain words")
    assert all(one["text"] for one in check_parts(request, [first, part("", "yeast")]))


def test_no_parts_leave_all_of_a_request() -> None:
    (left,) = check_parts("How old is the oldest oak?", [])
    assert (left["text"], left["problem"]) == ("How old is the oldest oak?", "")


def test_how_many_things_are_asked_for_is_no_number_of_theirs() -> None:
    request = "Two things: what is 68 °F in Celsius, and who was Bach?"
    checked = check_parts(request, [part("units", "68 F -> C"), part("", "who was Bach?")])
    assert not any(one["problem"] for one in checked)


@pytest.mark.parametrize(
    ("words", "refers"),
    [
        ("write a card with that number", True),
        ("then rewrite this line with it: so far.", True),
        ("escribe que ese día caduca mi pasaporte", True),
        ("schreib ein Gedicht mit der Zahl", True),
        ("write a card with its number", False),
        ("write it with italics", False),
    ],
)
def test_words_that_speak_of_a_result_say_so(words: str, refers: bool) -> None:
    checked = check_parts(f"17 * 23, {words}", [part("calc", "17 * 23"), part("", words)])
    assert [one["refers"] for one in checked] == [False, refers]


def test_background_that_the_plan_omits_is_a_problem() -> None:
    request = "My sister turns 30 this week. What is 15% of 80?"
    assert check_parts(request, [part("calc", "15% * 80")])[1]["problem"]


def test_a_sum_that_goes_on_holds_the_sum_before() -> None:
    request = "What is 480 - 15%, halve it, then add 7"
    parts = [part("calc", "480 - 15%"), part("calc", "#1 / 2", 1), part("calc", "#2 + 7", 2)]
    checked = check_parts(request, parts)
    assert [c["problem"] for c in checked] == ["", "", ""]
    assert checked[2]["text"] == "((480 - 15%) / 2) + 7"
    assert compute_step("calc", checked[2]["text"]).endswith("= 211")


def test_a_step_that_needs_another_tool_says_so() -> None:
    request = "how many miles are 42 km, and twice that?"
    parts = [part("units", "42 km -> mi"), part("calc", "#1 * 2", 1)]
    subtask = check_parts(request, parts)[1]["text"]
    assert subtask == "#1 * 2 where #1 = units: 42 km -> mi"
    message = asked(request, subtask, r1="42 km are 26.1 miles.")
    assert compute_step("calc", message) == "26.1 miles \u00d7 2 ≈ 52.2 miles"


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
    assert compute_step("calc", expression) == said


def test_a_number_in_an_earlier_text_can_be_computed_with() -> None:
    message = asked("letters in 'cat', squared", "#1^2", r1="There are 3 letters.")
    assert compute_step("calc", message) == "3^2 = 9"
    for text in ("There are many.", "Between 3 and 4."):
        with pytest.raises(CannotCompute):
            compute_step("calc", asked("letters in 'cat', squared", "#1^2", r1=text))


@pytest.mark.parametrize(
    ("prompt", "tool", "expression", "answer"),
    [
        ("how many miles are 42 km?", "units", "42 km -> mi", "42 km are 26.1 miles."),
        ("Combien font 42 km en miles ?", "units", "42 km -> mi", "42 km font 26,1 miles."),
        ("Wie viel sind 15% von 250?", "calc", "15% * 250", "15% \u00d7 250 = 37,5"),
    ],
)
def test_the_answer_is_in_the_language_of_the_request(
    prompt: str, tool: str, expression: str, answer: str
) -> None:
    assert compute_step(tool, asked(prompt, expression)) == answer


@pytest.mark.parametrize("text", ["", "Tell me a story about 7 dwarfs.", "#1 * 2", "1 where 2"])
def test_what_is_no_expression_is_not_computed(text: str) -> None:
    with pytest.raises(CannotCompute):
        compute_step("calc", text)
