"""The second look by a rule: agreement, endings and checks move the chances the right way."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings, strategies as st

from baton.core.judging.draft_scoring import judge_by_rule, word_likeness
from baton.core.labels import Label
from baton.core.messages import Card
from baton.core.plan_types import Need
from baton.core.ports import Route
from baton.core.routing_types import Draft, Estimate

A = Card("a", "local", "A", parameters=7_000_000_000)
B = Card("b", "local", "B", parameters=8_000_000_000)
C = Card("c", "local", "C", parameters=3_000_000_000)
FAR = Card("far", "cloud", "Far", privacy=Label.CLOUD)
CLOCK = Card("clock", "tool", "Clock")
ROSTER = (A, B, C, FAR, CLOCK)

MATH = Route("local", "", Need("math", 3))


def draft(worker: str, answer: str = "", text: str = "", cut: bool = False) -> Draft:
    text = text or f"The answer is {answer}."
    return Draft(worker, text, answer, len(text), cut=cut)


def quality(*drafts: Draft) -> tuple[float, ...]:
    return judge_by_rule(MATH, ROSTER, drafts).quality


def test_two_that_agree_are_worth_more_than_one_and_two_that_differ_less() -> None:
    (alone,) = quality(draft("a", "18"))
    agreed = quality(draft("a", "18"), draft("b", "18.0"))
    differ = quality(draft("a", "18"), draft("b", "17"))
    assert agreed[0] > alone > differ[0]
    assert agreed[0] == agreed[1]
    assert sum(differ) <= 1


def test_the_majority_is_shown_and_a_lone_stronger_one_is_not() -> None:
    found = judge_by_rule(MATH, ROSTER, [draft("b", "5"), draft("a", "7"), draft("c", "7")])
    assert found.best in (1, 2)
    assert found.agreement == pytest.approx(1 / 3)


def test_a_worker_that_agrees_with_itself_says_less_than_another_one() -> None:
    twice = quality(draft("a", "18"), draft("a", "18"))
    other = quality(draft("a", "18"), draft("b", "18"))
    assert twice[0] < other[0]


def test_what_agrees_needs_help_less() -> None:
    agreed = judge_by_rule(MATH, ROSTER, [draft("a", "1"), draft("b", "1")])
    differ = judge_by_rule(MATH, ROSTER, [draft("a", "1"), draft("b", "2")])
    assert agreed.gain["far"] < differ.gain["far"]
    assert agreed.gain.keys() == {"a", "b", "c", "far"}


def test_an_estimate_takes_the_place_of_the_skill() -> None:
    expected = Estimate({}, {"a": 0.11, "far": 0.77}, {})
    route = Route("local", "", Need("math", 3), estimate=expected)
    found = judge_by_rule(route, ROSTER, [draft("a", text="free text")])
    assert found.quality == pytest.approx((0.11,))
    assert found.gain["far"] == pytest.approx(0.66)


@pytest.mark.parametrize(
    "worse",
    [
        draft("a", "18", cut=True),
        Draft("a", "I can't.", "", 8, refused=True),
        Draft("a", "The answer is 18.", "18", 17, wrong=1),
        Draft("a"),
    ],
    ids=["cut", "refused", "wrong", "empty"],
)
def test_what_is_cut_refused_wrong_or_empty_is_worth_less(worse: Draft) -> None:
    plain = draft("a", "18")
    assert quality(worse)[0] < quality(plain)[0]
    assert judge_by_rule(MATH, ROSTER, [worse, plain]).best == 1


def test_a_check_that_was_passed_is_worth_more() -> None:
    passed = Draft("a", "x", "", 1, wrong=0)
    assert quality(passed)[0] > quality(Draft("a", "x", "", 1))[0]


def test_nothing_to_judge_is_not_a_judgement() -> None:
    found = judge_by_rule(MATH, ROSTER, [])
    assert (found.quality, found.best, found.agreement) == ((), 0, None)
    assert found.gain["far"] > 0


ENDS = st.builds(
    Draft,
    st.sampled_from(["a", "b", "c", "far", "stranger"]),
    st.text(max_size=40),
    st.sampled_from(["", "1", "2", "yes", "B", "\ud800"]),
    st.integers(0, 100),
    st.booleans(),
    st.booleans(),
    st.none() | st.floats(-50, 0),
    st.none() | st.integers(0, 5),
)


@given(st.lists(ENDS, max_size=6), st.integers(1, 5))
@settings(max_examples=40)
def test_any_drafts_get_chances(drafts: list[Draft], difficulty: int) -> None:
    found = judge_by_rule(Route("local", "", Need("chat", difficulty)), ROSTER, drafts)
    assert len(found.quality) == len(drafts)
    assert all(0 <= one <= 1 for one in found.quality)
    assert all(-1 <= one <= 1 for one in found.gain.values())
    assert not drafts or found.quality[found.best] == max(found.quality)
    assert found.agreement is None or 0 <= found.agreement <= 1


# Likeness


def test_texts_that_share_words_are_alike() -> None:
    table = word_likeness(["Paris is the capital", "the capital is Paris", "Add two eggs", ""])
    assert table[0][1] == 1.0
    assert table[0][2] == 0.0
    assert [table[n][n] for n in range(4)] == [1.0] * 4
    assert table[3][0] == 0.0


def test_words_that_are_not_set_apart_count_too() -> None:
    table = word_likeness(["法国的首都是巴黎", "巴黎是法国的首都", "加两个鸡蛋"])
    assert table[0][1] == 1.0
    assert table[0][2] < 0.2


def test_nothing_said_twice_is_the_same() -> None:
    assert word_likeness(["", ""]) == [[1.0, 1.0], [1.0, 1.0]]
    assert word_likeness(["?!", "..."])[0][1] == 0.0
    assert word_likeness([]) == []


HUGE = ["x" * 10**6, "x " * 500_000, "\ud800" * 10**6, "法" * 10**6, "\0\n" * 500_000]


def test_no_text_keeps_it_busy() -> None:
    table = word_likeness(HUGE)
    for a, b in product(range(len(HUGE)), repeat=2):
        assert 0 <= table[a][b] == table[b][a] <= 1
