"""What a plan scores, and the episodes that conductors are compared on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from baton.bench.conductor_score import (
    Episode,
    ExpectedPart,
    PlanScore,
    bootstrap_interval,
    read_episodes,
    score_plan,
    value_text,
)
from baton.core.plan_types import DIRECT_SUBTASK, PROMPT, Plan, Step, single_step_plan
from baton.core.planning.plan_lines import MAX_TEXT_CHARS, TOOL_HEADS, PlanPart
from baton.core.reading.request_words import may_have_parts
from baton.workers.tools.computation.marked_text import mark
from baton.workers.tools.computation.plan_check import check_parts
from baton.workers.tools.computation.plan_steps import compute_step

SUM = ExpectedPart("17 * 23", ("17", "23"), tool="calculator")
WISH = ExpectedPart("write a wish for Dana", ("wish",), ("dana",))
POEM = ExpectedPart("write a poem about that number", ("poem",), needs=(1,))
TWO = Episode("two", "en", "What's 17 times 23, and write a wish for Dana?", (SUM, WISH))
CHAIN = Episode("chain", "en", "What's 17 times 23? Write a poem about it.", (SUM, POEM))
ONE = Episode("one", "en", "Write a wish for Dana and Tom.", (WISH,))
COMPUTED = Episode("sum", "en", "What's 17 times 23?", (SUM,))
RIGHT = PlanScore(1.0, True)


def plan(*steps: Step) -> Plan:
    return Plan(steps, tuple(range(1, len(steps) + 1)))


def calc(text: str = "17 * 23", *access: str) -> Step:
    return Step("calculator", text, (PROMPT, *access))


def model(text: str, *access: str) -> Step:
    return Step("small", text, access)


WISHES = model("write a wish for Dana")


def test_each_part_in_a_step_of_its_own_is_right() -> None:
    assert score_plan(plan(calc(), WISHES), TWO) == RIGHT
    assert score_plan(plan(WISHES, calc()), TWO) == RIGHT, "in any order"
    assert score_plan(plan(calc()), COMPUTED) == RIGHT


def test_one_task_is_to_stay_one_step() -> None:
    assert score_plan(None, ONE) == score_plan(single_step_plan("small"), ONE) == RIGHT
    assert score_plan(plan(WISHES), ONE) == RIGHT
    assert score_plan(plan(WISHES, model("write one for Tom")), ONE) == PlanScore(0.5, False)
    assert score_plan(plan(model("solve the problem", PROMPT)), ONE).points == 0.0


def test_a_request_with_parts_is_not_to_stay_whole() -> None:
    for episode in (TWO, CHAIN):
        assert score_plan(None, episode) == PlanScore(0.0, False)


def test_a_model_that_computes_in_words_has_half_the_credit() -> None:
    assert score_plan(None, COMPUTED) == PlanScore(0.5, True)
    words = model("Compute 17 times 23.")
    assert score_plan(plan(words), COMPUTED) == PlanScore(0.5, True)
    assert score_plan(plan(words, WISHES), TWO) == PlanScore(0.75, True)


def test_a_tool_is_no_worker_for_a_text() -> None:
    assert score_plan(plan(calc("wish")), ONE).points == 0.0
    assert score_plan(plan(Step("python", "17 * 23", ())), COMPUTED) == RIGHT


@pytest.mark.parametrize("text", ["17 * 123", "1.17 * 23", "17 * 23.5", "7 * 23", "17"])
def test_a_step_without_a_part_s_numbers_is_not_for_it(text: str) -> None:
    assert score_plan(plan(calc(text)), COMPUTED).points == 0.0


def test_expressions_are_compared_by_what_they_come_to() -> None:
    values = {("calculator", text): value for text, value in
              (("17 * 23", "391"), ("23 * 17", "391"), ("17 + 23", "40"))}  # fmt: skip
    assert score_plan(plan(calc("23 * 17")), COMPUTED, values) == RIGHT
    assert score_plan(plan(calc("17 + 23")), COMPUTED, values).points == 0.0
    assert score_plan(plan(calc("17 + 23")), COMPUTED).points == 1.0, "nothing else is known"


def test_a_part_may_be_put_in_other_words_and_its_data_be_shown() -> None:
    part = ExpectedPart("übersetze das Wort", ("übersetz|translat",), ("bahnhof",))
    episode = Episode("x", "de", "Übersetze Bahnhof", (part,))
    assert score_plan(plan(model("Translate it.", PROMPT)), episode) == RIGHT
    assert score_plan(plan(model("Translate it.")), episode).points == 0.0
    assert score_plan(plan(model("ÜBERSETZE Bahnhof")), episode) == RIGHT


def test_a_result_that_is_needed_must_be_seen() -> None:
    poem = model("write a poem about that number", "1")
    assert score_plan(plan(calc(), poem), CHAIN) == RIGHT
    assert score_plan(plan(calc(), replace(poem, access=())), CHAIN) == PlanScore(0.75, False)
    poem = model("take the result of 17 * 23 and write a poem", "1")
    assert score_plan(plan(calc(), poem), CHAIN) == RIGHT, "it may name what it builds on"


def test_a_tool_may_compute_what_it_builds_on_once_more() -> None:
    half = ExpectedPart("#1 / 2", ("/|half",), tool="calculator", needs=(1,))
    episode = Episode("x", "en", "What's 17 times 23, and half of that?", (SUM, half))
    assert score_plan(plan(calc(), calc("(17 * 23) / 2", "1")), episode) == RIGHT
    assert score_plan(plan(calc(), calc("(17 * 23) / 2")), episode) == RIGHT
    assert score_plan(plan(calc(), calc("391 / 2")), episode) == PlanScore(0.75, False)


def test_a_step_that_does_two_parts_is_no_step_of_its_own() -> None:
    both = model("compute 17 * 23 and write a wish for Dana")
    assert score_plan(plan(both), TWO).points == 0.0
    assert score_plan(plan(both, both), TWO).points == 0.0
    assert score_plan(plan(calc(), both), TWO) == PlanScore(0.5, False)
    whole = Step("small", DIRECT_SUBTASK)
    assert score_plan(plan(calc(), whole), TWO) == PlanScore(0.5, False)


def test_what_is_done_twice_or_besides_takes_away() -> None:
    assert score_plan(plan(calc(), calc(), WISHES), TWO) == PlanScore(2 / 3, False)
    merge = model("put the results together", "1", "2")
    assert score_plan(plan(calc(), WISHES, merge), TWO) == PlanScore(2 / 3, False)


STEPS = st.builds(
    Step,
    st.sampled_from(["small", "calculator"]),
    st.sampled_from(
        [
            "17 * 23",
            "write a wish for Dana",
            "write a poem",
            "17 * 23 and a wish",
            DIRECT_SUBTASK,
            "x",
        ]
    ),
    st.just((PROMPT,)) | st.just(()),
)
ANY_EPISODE = st.sampled_from([TWO, CHAIN, ONE, COMPUTED])


@given(st.lists(STEPS, min_size=1, max_size=5), ANY_EPISODE)
def test_any_plan_has_a_score_within_bounds(steps: list[Step], episode: Episode) -> None:
    score = score_plan(plan(*steps), episode)
    assert 0.0 <= score.points <= 1.0
    if score.points == 1.0:
        assert score.is_right
    if score.is_right:
        assert len(steps) == len(episode.parts)
        assert score.points >= 0.5


@given(st.lists(STEPS, min_size=1, max_size=4), ANY_EPISODE)
def test_a_step_more_never_makes_a_right_plan_better(steps: list[Step], episode: Episode) -> None:
    score = score_plan(plan(*steps), episode)
    more = score_plan(plan(*steps, model("and sing a song")), episode)
    assert more.points <= score.points
    assert not more.is_right


@given(st.permutations([calc(), WISHES, model("write a poem")]))
def test_the_order_of_independent_steps_does_not_matter(steps: list[Step]) -> None:
    poem = ExpectedPart("write a poem", ("poem",))
    episode = replace(TWO, parts=(*TWO.parts, poem))
    assert score_plan(plan(*steps), episode) == RIGHT


def test_a_tool_s_sentence_is_reduced_to_its_value() -> None:
    said = {
        "17 \u00d7 23 = 391": "391",
        "(2 + 3) ÷ 7 ≈ 0.7142857143": "0.7142857143",
        "75 %. (pct(45, 60))": "75 %.",
        "8 h 25 min (span(09:15, 17:40))": "8 h 25 min",
        "42 km are 26.1 miles.": "42 km are 26.1 miles.",
    }
    assert {text: value_text(text) for text in said} == said


@given(st.lists(st.floats(0, 1), max_size=60))
def test_the_interval_is_around_the_mean_and_always_the_same(points: list[float]) -> None:
    low, high = bootstrap_interval(points)
    assert (low, high) == bootstrap_interval(points)
    mean = sum(points) / max(1, len(points))
    assert 0.0 <= low <= mean + 1e-9
    assert mean - 1e-9 <= high <= 1.0 + 1e-9


def test_more_episodes_make_a_narrower_interval() -> None:
    low, high = bootstrap_interval([0.0, 1.0] * 4)
    narrow_low, narrow_high = bootstrap_interval([0.0, 1.0] * 30)
    assert narrow_high - narrow_low < high - low
    assert narrow_low < 0.5 < narrow_high


EPISODES = read_episodes()
HEADS = {tool: head for head, tool in TOOL_HEADS.items()}


def checked_plan(episode: Episode) -> Plan:
    """Return the expected plan as the trained conductor's is played."""
    asked = [PlanPart(part.text, part.tool, inputs=part.needs) for part in episode.parts]
    found = check_parts(mark(episode.request), asked)
    assert [part.problem for part in found] == [""] * len(found)
    steps = tuple(
        Step(
            part.tool or "small",
            one.text,
            (*((PROMPT,) if part.tool else ()), *map(str, part.needs)),
        )
        for part, one in zip(episode.parts, found, strict=True)
    )
    return Plan(steps, tuple(range(1, len(steps) + 1)))


def test_there_are_so_many_of_each_sort_and_language() -> None:
    languages = Counter(episode.language for episode in EPISODES)
    assert languages == {"en": 30, "de": 6, "fr": 6, "es": 6, "it": 6, "pt": 6}
    several = [episode for episode in EPISODES if len(episode.parts) > 1]
    assert len(several) == 24
    assert all(len(episode.parts) <= 4 for episode in several)
    assert sum(any(part.needs for part in episode.parts) for episode in several) >= 8
    assert sum(episode.is_whole for episode in EPISODES) == 18
    assert len({episode.id for episode in EPISODES}) == len(EPISODES) == 60
    assert len({episode.request for episode in EPISODES}) == 60


def test_the_first_ones_are_of_all_sorts() -> None:
    first = read_episodes(3)
    assert first == EPISODES[:3]
    assert {(len(one.parts) > 1, one.is_whole) for one in first} == {
        (True, False), (False, False), (False, True),
    }  # fmt: skip


@pytest.mark.sampled(12)
@pytest.mark.parametrize("episode", EPISODES, ids=lambda episode: episode.id)
def test_the_expected_plan_is_right_and_no_other_is(episode: Episode) -> None:
    if episode.is_whole:
        assert score_plan(None, episode) == RIGHT
        return
    assert may_have_parts(episode.request)
    expected = checked_plan(episode)
    assert score_plan(expected, episode) == RIGHT
    whole = score_plan(None, episode)
    assert whole.points == (0.5 if len(episode.parts) == 1 else 0.0)
    for number in range(len(expected.steps)):
        steps = [*expected.steps[:number], *expected.steps[number + 1 :]]
        if steps and not any(step.inputs for step in steps):
            less = Plan(tuple(steps), tuple(range(1, len(steps) + 1)))
            assert score_plan(less, episode).points <= 1 - 1 / len(expected.steps)


@pytest.mark.parametrize(
    ("tool", "text"),
    sorted({(p.tool, p.text) for e in EPISODES for p in e.parts if p.tool and "#" not in p.text}),
)
def test_what_a_tool_is_asked_to_compute_can_be_computed(tool: str, text: str) -> None:
    assert compute_step(HEADS[tool], text)


def test_texts_are_short_enough_for_a_line_of_a_plan() -> None:
    assert max(len(part.text) for episode in EPISODES for part in episode.parts) <= MAX_TEXT_CHARS
