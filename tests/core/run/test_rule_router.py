"""The rule that routes: what goes to a tool, to one worker, to a plan; and that it is bounded."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from baton.core.labels import Label
from baton.core.messages import Attachment, Card, Role, Turn, TurnStatus
from baton.core.money import Price, Rates
from baton.core.plan_types import KINDS, Material, Need
from baton.core.planning.assignment import success_chance, success_difficulty
from baton.core.ports import Route
from baton.core.reading.bare_expressions import can_compute
from baton.core.routing_types import Estimate
from baton.core.run.rule_router import RuleRouter, routed
from baton.workers.tools.computation.plan_steps import compute

SMALL = Card("small", "local", "Small", context=8192, parameters=135_000_000)
GOOD = Card("good", "local", "Good", context=8192, parameters=30_000_000_000)
GPT = Card(
    "gpt",
    "cloud",
    "GPT",
    privacy=Label.CLOUD,
    context=128_000,
    price=Price(Rates(*[5 * 10**9] * 4)),
)
TOOLS = [Card(name, "tool", name) for name in ("calculator", "units", "clock", "python")]
TEMPLATES = {"", "draft-verify-revise", "split-merge", "plan-code-test", "read-long-document"}


def material(text: str, *files: Attachment) -> Material:
    turn = Turn("t", "c", None, Role.USER, text, TurnStatus.DONE, Label.CLOUD, 0.0, files=files)
    return Material((turn,))


async def route(text: str, *files: Attachment, roster: tuple[Card, ...] = (SMALL, GPT)) -> Route:
    return await RuleRouter().route(material(text, *files), [*roster, *TOOLS])


SUMS = [
    "What is 17 + 25?",
    "what's 12 * (3 + 4)",
    "17+25=",
    "3.5 * 2",
    "Calculate 2 ** 10.",
    "What is 15% of 80?",
    "compute 1,000 - 1",
    "Was ist 3 * 4?",
    "Combien font 12 + 30 ?",
    "¿Cuánto es 7 \u00d7 8?",
    "What is 144 \u00f7 12?",
    "How much is 5+6",
    "200 + 10%",
    "15% of 80",
    "5 \u00d7 6",
    "What is 9-5?",
    "What is 500-250?",
    "What is 10/4?",
    "Was ist 1.5 \u00b7 2?",
    "What is 1.125 + 2?",
    "what is √144 \u2212 5²?",
    "What is 5!?",
    "2^16",
]
CONVERSIONS = [
    "convert 5 km to miles",
    "what is 100 fahrenheit in celsius?",
    "60 mph to km/h",
    "-40 °C in °F",
    "42 km in Meilen",
    "1,000 m to feet",
    "3 cups in ml?",
    "90 minutes in hours",
    "3 GB to MB",
]
NOW = [
    "What time is it?",
    "what's today's date?",
    "What day is it today?",
    "Wie spät ist es?",
    "Quelle heure est-il ?",
    "¿Qué hora es?",
    "现在几点了\uff1f",
    "今天几号",
]
WORDED = [
    "Was ist 3 mal 4?",
    "How much is 5 plus 6?",
    "what is the square root of 144?",
    "how many feet make up 2 miles?",
    "Which day of the week was 2024-02-29?",
    "How many days are there between 2024-01-01 and 2024-12-25?",
    "How many days until Christmas?",
    "What time is it in Tokyo?",
]
NEITHER = [
    "5 pounds a day",
    "2 hours a day",
    "5 minutes to go",
    "+1-555-123-4567",
    "1920x1080",
    "1 + ...",
    "...+1",
    "What is 3/4/2027?",
    "__import__('os')",
    "24/7",
    "9-5",
    "2024-02-29",
    "555-1234",
    "+49 30 1234567",
    "192.168.0.1/24",
    "42",
    "What is 2?",
    "What is the 5th amendment?",
    "What is 1984 about?",
    "C++",
    "What is 7/11 famous for?",
    "Tom has 3 apples and buys 5 + 2 more. How many?",
    "What is 17 + 25? Explain it to a child.",
    "Why is 1 + 1 = 2?",
    "Write a story about 1 + 1.",
    "What is the time complexity of quicksort?",
    "What time is it in the story?",
    "What is the date of the French Revolution?",
    "What is the day today known for?",
    "How many days do I need for Lisbon?",
    "Solve 2x + 3 = 7",
    "1. Who was Kant?",
    "What is the meaning of 3 times a lady?",
    "2024-01-01 - 2023-01-01",
    "What is 9/11?",
    "what's 24/7",
    "What is 50/50?",
    "What is 4-4-2?",
    "What is 1914-1918?",
    "What is 1-800-273-8255?",
    "Was ist 1.000 + 1?",  # a thousand and one, where that is asked
    "Berechne 1.500 mal 2",
    "-",
    "1 + ",
    "(1 + 2",
    "",
]


@pytest.mark.parametrize("text", SUMS)
async def test_a_plain_sum_goes_to_the_calculator_which_can_do_it(text: str) -> None:
    found = await route(text)
    assert found.tool == "calculator"
    assert found.where == "local"
    assert compute("calculator", text)


@pytest.mark.parametrize("text", CONVERSIONS)
async def test_a_plain_conversion_goes_to_the_units_which_can_do_it(text: str) -> None:
    assert (await route(text)).tool == "units"
    assert compute("units", text)


@pytest.mark.parametrize("text", NOW)
async def test_the_question_for_the_time_or_date_goes_to_the_clock(text: str) -> None:
    assert (await route(text)).tool == "clock"
    assert compute("clock", text)


@pytest.mark.parametrize("text", WORDED)
async def test_what_is_asked_in_words_is_left_to_the_conductor(text: str) -> None:
    assert (await route(text)).tool == ""


@pytest.mark.parametrize("text", NEITHER)
async def test_more_than_a_sum_goes_to_no_tool(text: str) -> None:
    assert (await route(text)).tool == ""


async def test_no_tool_is_named_that_is_not_there_and_none_reads_files() -> None:
    alone = await RuleRouter().route(material("What is 17 + 25?"), [SMALL])
    assert alone.tool == ""
    assert (await route("What is 17 + 25?", Attachment("a.txt", "3", 1))).tool == ""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hello there", "chat"),
        ("Translate this to German: the cat sat on the mat.", "translation"),
        ("Übersetze das ins Englische: Der Hund schläft.", "translation"),
        ("Traduis cette phrase en anglais.", "translation"),
        ("Summarise the text below in three sentences.", "summary"),
        ("Fasse den Text zusammen.", "summary"),
        ("Extract all names from this letter.", "extraction"),
        ("Rewrite this paragraph in plain words.", "rewriting"),
        ("Write a Python function that reverses a list.", "code"),
        ("Why does this crash?\n```\nint main() { return *(int*)0; }\n```", "code"),
        ("Prove that the sum of two odd numbers is even.", "math"),
        ("A train covers 120 km in 2 hours. How many km does it cover in 5 hours?", "math"),
        ("Who wrote Faust?", "knowledge"),
        ("What is the capital of Portugal?", "knowledge"),
        ("Why did the Roman empire fall?", "reasoning"),
        ("Write a poem about rain.", "writing"),
        ("Schreib mir Gedichte über den Regen.", "writing"),
        ("Plan three days in Lisbon with two kids.", "planning"),
    ],
)
async def test_the_kind_of_a_task_is_known_by_its_words(text: str, kind: str) -> None:
    assert (await route(text)).need.kind == kind


async def test_harder_words_make_a_task_harder() -> None:
    easy = await route("Write a function that adds two numbers.")
    hard = await route("Write a concurrent lock-free algorithm with all edge cases for production.")
    assert easy.need.difficulty < hard.need.difficulty
    assert hard.template == "plan-code-test"
    assert hard.where == "plan"


async def test_what_the_first_worker_is_not_up_to_goes_to_a_remote_one_that_is() -> None:
    text = "Why did the Roman empire fall?"
    assert (await route(text)).where == "cloud"
    assert (await route(text, roster=(SMALL,))).where == "local"
    assert (await route(text, roster=(GOOD, GPT))).where == "local"
    assert (await route("hello", roster=(SMALL, GPT))).where == "local"


async def test_files_that_are_more_than_the_worker_can_hold_are_read_in_pieces() -> None:
    long = Attachment("long.txt", "word " * 10_000, 50_000)
    short = Attachment("short.txt", "word " * 100, 500)
    assert (await route("Sum it up.", long)).template == "read-long-document"
    assert (await route("Sum it up.", short)).template != "read-long-document"
    assert (await route("Sum it up.", long, roster=(GPT,))).template != "read-long-document"


@given(st.text(max_size=400))
@settings(max_examples=150, deadline=None)
async def test_any_prompt_gets_a_whole_route_with_a_plain_sentence(text: str) -> None:
    found = await route(text)
    assert found.where in ("local", "plan", "cloud")
    assert found.need.kind in KINDS
    assert 1 <= found.need.difficulty <= 5
    assert found.template in TEMPLATES
    assert found.why.endswith(".")
    assert len(found.why) < 120
    assert found.tool in ("", "calculator", "units", "clock")
    assert all(isinstance(score, float) for score in found.scores.values())


@pytest.mark.parametrize(
    "text",
    [
        "1 +" + " " * 190,
        "(" * 200,
        "1" + "+ - " * 49,
        "what is " * 25,
        "- " * 100,
        "1,111" * 40,
        "a" * 1_000_000,
        "1. x\n" * 200_000,
        "? " * 500_000,
        "$" * 100_000,
        "fass " * 200_000,
        " \n" * 500_000,
    ],
    ids=lambda text: text[:8].strip(),
)
async def test_no_prompt_keeps_the_rule_busy(text: str) -> None:
    # An expression that backtracks would take for ever here.
    assert (await route(text)).tool == ""


@pytest.mark.parametrize("sum_text", ["1'000 + 1", "1\u2019000 + 1", "1,000 + 1"])
def test_thousands_are_marked_in_several_ways(sum_text: str) -> None:
    assert can_compute("calculator", sum_text)
    assert compute("calculator", sum_text).endswith("= 1,001")
    assert not can_compute("calculator", "1'00 + 1")


def test_random_sums_are_understood_by_both() -> None:
    rng = random.Random(7)
    for _ in range(100):
        text = str(rng.randint(1, 99))
        for _ in range(rng.randint(1, 4)):
            text += f" {rng.choice('+-*')} {rng.randint(1, 99)}"
        assert can_compute("calculator", text)
        assert can_compute("calculator", f"What is {text}?")
        said = compute("calculator", text).replace(",", "").replace("\u2212", "-")
        assert said.endswith(f"= {eval(text)}")


# With an estimate


def estimate(small: float, far: float, kind: str = "math", novelty: float = 0.0) -> Estimate:
    return Estimate(
        {kind: 0.8, "chat": 0.2},
        {"small": small, "gpt": far},
        {"small": 0.0, "gpt": far - small},
        {},
        120,
        novelty,
    )


ROSTER = (SMALL, GPT, *TOOLS)
FRANCE = "What is the capital of France?"


def test_what_is_expected_decides_where_a_prompt_goes() -> None:
    plain = routed(material("Where is Ulm?"), ROSTER, estimate(0.3, 0.7, "knowledge"))
    assert plain.where == "cloud"
    assert "gets about 3 in 10 of those right" in plain.why
    good = routed(material("Why did the Roman empire fall?"), ROSTER, estimate(0.9, 0.95, "chat"))
    assert good.where == "local"
    assert good.scores["quality"] == 0.9
    assert good.scores["gain"] == pytest.approx(0.05)
    assert (good.scores["novelty"], good.scores["tokens"]) == (0.0, 120.0)


def test_who_is_not_in_the_roster_is_not_a_reason_to_leave() -> None:
    expected = estimate(0.1, 0.9)
    assert routed(material(FRANCE), (SMALL, *TOOLS), expected).where != "cloud"


def test_a_kind_that_is_sure_counts_and_one_that_is_not_leaves_it_to_the_words() -> None:
    assert routed(material(FRANCE), ROSTER, estimate(0.9, 0.9, "writing")).need.kind == "writing"
    torn = replace(estimate(0.9, 0.9), kinds={"writing": 0.4, "math": 0.35, "chat": 0.25})
    assert routed(material(FRANCE), ROSTER, torn).need.kind == "knowledge"


def test_the_difficulty_is_what_workers_of_that_skill_would_find() -> None:
    grades = [
        routed(material(FRANCE), ROSTER, estimate(q, q, "knowledge")).need.difficulty
        for q in (0.97, 0.7, 0.3, 0.05)
    ]
    assert grades == sorted(grades)
    assert grades[0] < grades[-1]


def test_a_prompt_like_none_before_is_left_to_the_rule() -> None:
    text = "Why did the Roman empire fall?"
    ruled = routed(material(text), ROSTER)
    found = routed(material(text), ROSTER, estimate(0.99, 0.99, "reasoning", novelty=0.9))
    assert (found.where, found.why, found.need) == (ruled.where, ruled.why, ruled.need)
    assert found.estimate is not None
    assert found.scores["novelty"] == 0.9
    assert found.scores["chance"] == ruled.scores["chance"]


@pytest.mark.parametrize("text", ["Hi", "Thank you very much!", "Hello, how are you?", "Ciao!"])
def test_no_worker_is_asked_for_help_with_a_greeting(text: str) -> None:
    strange = estimate(0.1, 0.9, "chat", novelty=1.0)
    assert routed(material(text), ROSTER, strange).estimate is None
    assert routed(material("What is a fjord?"), ROSTER, strange).estimate is strange
    known = estimate(0.1, 0.9, "chat", novelty=0.1)
    assert routed(material(text), ROSTER, known).estimate is known


def test_what_it_is_about_is_known_of_new_prompts_too() -> None:
    found = routed(material("And now?"), ROSTER, estimate(0.9, 0.9, "planning", novelty=1.0))
    assert found.need.kind == "planning"


SHARE = st.floats(0, 1)


@given(
    st.text(max_size=60),
    st.dictionaries(st.sampled_from(KINDS), SHARE),
    st.dictionaries(st.sampled_from(["small", "gpt", "gone"]), SHARE),
    st.dictionaries(st.sampled_from(["small", "gpt", "gone"]), st.floats(-1, 1)),
    SHARE,
)
@settings(max_examples=150, deadline=None)
def test_any_estimate_gives_a_whole_route(
    text: str,
    kinds: dict[str, float],
    quality: dict[str, float],
    gain: dict[str, float],
    novelty: float,
) -> None:
    found = routed(material(text), ROSTER, Estimate(kinds, quality, gain, {}, 7, novelty))
    assert found.where in ("local", "plan", "cloud")
    assert found.need.kind in KINDS
    assert 1 <= found.need.difficulty <= 5
    assert found.why.endswith(".")
    assert all(isinstance(score, float) for score in found.scores.values())


def test_skill_and_chance_are_read_into_each_other() -> None:
    for kind in ("math", "chat"):
        for difficulty in range(1, 5):
            likely = success_chance(GOOD, Need(kind, difficulty))
            if 0.02 < likely < 0.98:
                assert success_difficulty(GOOD, kind, likely) == pytest.approx(difficulty)
