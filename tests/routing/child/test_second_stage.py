"""What drafts say of each other."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from fit_draft_signals import fit_draft_signals
from fit_second_stage import fit_second_stage
from head_files import save_second_stage, second_stage_numbers
from hypothesis import given, settings, strategies as st

from baton.core.routing_types import Candidate, Draft, Estimate
from baton.routing.child import RouterFileError, second_stage
from baton.routing.child.second_stage import SecondStage

SMALL, MATE, THIRD, BIG = (Candidate(name) for name in ("small", "mate", "third", "big"))
WORKERS = (SMALL, MATE, THIRD, BIG)
EXPECTED = Estimate({}, {"small": 0.6, "mate": 0.6, "third": 0.6, "big": 0.8}, {"big": 0.2})


def unlike(texts: Sequence[str]) -> list[list[float]]:
    """Say that no two texts mean the same."""
    return [[float(a == b) for b in range(len(texts))] for a in range(len(texts))]


def drafts(*answers: str) -> list[Draft]:
    names = ("small", "mate", "third", "fourth")
    return [
        Draft(name, f"So it is {answer}.", answer, 300)
        for name, answer in zip(names, answers, strict=False)
    ]


@dataclass(frozen=True)
class QuestionSet:
    """A made-up set of questions, each with a difficulty that all workers feel."""

    name: str
    quality: dict[str, np.ndarray]
    answers: dict[str, tuple[str, ...]]
    lengths: dict[str, np.ndarray]


def made_up(name: str, count: int = 1500, seed: int = 0, level: float = 0.0) -> QuestionSet:
    dice = np.random.default_rng(seed)
    hard = dice.normal(level, 2.0, count)
    quality, answers, lengths = {}, {}, {}
    for place, ability in enumerate((-0.5, 0.0, 0.0, 0.5, 1.0, 2.0, 3.0)):
        worker = f"w{place}"
        right = dice.random(count) < 1 / (1 + np.exp(hard - ability))
        wrong = dice.integers(1, 9, count)
        quality[worker] = right.astype(float)
        answers[worker] = tuple("0" if r else str(w) for r, w in zip(right, wrong, strict=True))
        lengths[worker] = np.round(200 * np.exp(0.3 * hard + dice.normal(0, 0.3, count)))
    return QuestionSet(name, quality, answers, lengths)


SETS = [made_up("one"), made_up("two", seed=1, level=1.5)]


@cache
def fitted_stage() -> SecondStage:
    return fit_second_stage(SETS)


@pytest.fixture(params=[SecondStage.unfitted, fitted_stage], ids=["plain", "fitted"])
def heads(request: pytest.FixtureRequest) -> SecondStage:
    stage: SecondStage = request.param()
    return stage


# Which answers agree


@pytest.mark.parametrize(
    ("a", "b", "alike"),
    [
        ("18", "18.0", True),
        ("1,000", "1000", True),
        ("$5", "5", True),
        ("1/2", "0.5", True),
        ("\\frac{3}{4}", "0.75", True),
        ("18", "19", False),
        ("33.3333", "33.33333", True),
        ("1000000", "1000000.5", True),
        ("1000000", "1000002", False),
        ("0", "0.0", True),
        ("[1, 2]", "[1,2]", True),
        ("[1, 2]", "[3, 2]", False),
        ("['a', 'b']", '["a", "b"]', True),
        ("'hello'", "hello", True),
        ("(1, 2)", "[1, 2]", False),
        ("Paris", "paris", True),
        ("True", "true", True),
        ("aB", "ab", False),
        ("A", "B", False),
        ("A", "A", True),
        ("x + 1", "x+1", True),
        ("", "", False),
        ("-", "-", False),
        ("", "18", False),
        ("1e400", "1e400", True),
        ("9" * 500, "9" * 500, True),
    ],
)
def test_answers_agree_by_what_they_say(a: str, b: str, alike: bool) -> None:
    first, second = second_stage.group_answers([a, b])
    assert (first == second != 0) is alike


def test_an_answer_that_is_none_is_in_no_group() -> None:
    assert second_stage.group_answers(["", "3", "-", "3.0", "4"]) == [0, 2, 0, 2, 5]
    assert second_stage.comparison_key("0.50") == Fraction(1, 2)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=5))
def test_any_answers_can_be_compared(answers: list[str]) -> None:
    groups = second_stage.group_answers(answers)
    assert len(groups) == len(answers)
    assert second_stage.group_answers(answers) == groups
    for answer in answers:
        second_stage.answer_kind(answer)


# Who is right


def test_the_posterior_is_that_of_a_sum_over_every_case() -> None:
    prior, asked, alike = np.array([0.3, -0.4, 1.0]), 1.2, np.array([0.3, 0.3, 0.3])
    groups = np.array([[1, 1, 3]])
    points, shares = np.polynomial.hermite_e.hermegauss(21)
    cases = np.zeros(3)  # the answer of the first two, of the third, neither
    other = 0.0
    for point, share in zip(points, shares / shares.sum(), strict=True):
        odds = math.sqrt(1 + math.pi * 1.5**2 / 8) * np.append(prior, asked) - 1.5 * point
        p = 1 / (1 + np.exp(-odds))
        each = share * np.array([
            p[0] * p[1] * (1 - p[2]),
            (1 - p[0]) * (1 - p[1]) * 0.3 * p[2],
            (1 - p[0]) * (1 - p[1]) * 0.3 * (1 - p[2]) * 0.7,
        ])  # fmt: skip
        cases += each
        other += each.sum() * p[3]
    right, who, none = second_stage.posterior(groups, prior[None], np.array([asked]), alike[None])
    assert right[0] == pytest.approx(np.array([cases[0], cases[0], cases[1]]) / cases.sum())
    assert none[0] == pytest.approx(cases[2] / cases.sum())
    assert who[0] == pytest.approx(other / cases.sum())


def test_those_who_agree_are_likely_right(heads: SecondStage) -> None:
    def quality(*answers: str) -> tuple[float, ...]:
        return heads.judge(WORKERS, drafts(*answers), EXPECTED, unlike).quality

    assert quality("7", "7", "7")[0] > quality("7", "7", "8")[0] > quality("7", "9", "8")[0]
    assert quality("7", "9", "8")[0] > quality("7", "8", "8")[0]
    assert quality("7", "7", "8")[0] > quality("7", "7", "8")[2]
    assert quality("", "8", "8")[0] <= 0.3
    judged = heads.judge(WORKERS, drafts("7", "7", "7"), EXPECTED, unlike)
    assert judged.agreement == 1.0
    apart = heads.judge(WORKERS, drafts("7", "8", "9"), EXPECTED, unlike)
    assert apart.agreement == 0.0
    assert judged.gain["big"] < 0.1 < apart.gain["big"]


def test_the_likelier_answer_is_shown_only_if_it_is_by_much(heads: SecondStage) -> None:
    assert heads.judge(WORKERS, drafts("7", "8", "8"), EXPECTED, unlike).best == 1
    assert heads.judge(WORKERS, drafts("7", "8", "9"), EXPECTED, unlike).best == 0
    assert heads.judge(WORKERS, drafts("7", "7", "8"), EXPECTED, unlike).best == 0
    judged = heads.judge(WORKERS, drafts("7", "8", "8"), EXPECTED, unlike)
    assert judged.gain["mate"] == 0.0
    assert judged.gain["small"] < 0


def test_a_single_draft_is_judged_too(heads: SecondStage) -> None:
    judged = heads.judge(WORKERS, drafts("7"), EXPECTED, unlike)
    assert judged.best == 0
    assert judged.agreement is None
    assert 0.2 < judged.quality[0] < 0.95
    assert set(judged.gain) == {"small", "mate", "third", "big"}
    assert heads.judge(WORKERS, [], EXPECTED, unlike).quality == ()


def test_agreeing_with_oneself_says_less(heads: SecondStage) -> None:
    twice = [replace(draft, worker="small") for draft in drafts("7", "7")]
    alone = heads.judge(WORKERS, drafts("7", "7"), EXPECTED, unlike).quality[0]
    assert heads.judge(WORKERS, twice, EXPECTED, unlike).quality[0] < alone


def test_where_no_letter_is_asked_for_workers_are_distinguished_by_their_abilities() -> None:
    able = {"small": -1.0, "mate": 1.0, "third": 0.0, "big": 2.0}

    def quality(expected: Estimate, *answers: str) -> tuple[float, ...]:
        judged = fitted_stage().judge(
            WORKERS, drafts(*answers), expected, unlike, lambda candidate: able[candidate.id]
        )
        return judged.quality

    swapped = replace(EXPECTED, quality={**EXPECTED.quality, "small": 0.8, "mate": 0.4})
    for expected in (EXPECTED, swapped):
        first, second = quality(expected, "7", "8")
        assert second > first + 0.2
    first, second = quality(swapped, "A", "B")
    assert first > second + 0.2
    hard = replace(EXPECTED, quality=dict.fromkeys(EXPECTED.quality, 0.1))
    assert quality(hard, "7", "8")[1] < quality(EXPECTED, "7", "8")[1]


def test_free_text_is_judged_by_what_is_known_of_it() -> None:
    plain = Draft("small", "A poem.", "", 300)

    def quality(draft: Draft, like: float = 0.7) -> float:
        pair = [draft, Draft("mate", "Another poem.", "", 300)]
        judged = fitted_stage().judge(
            WORKERS, pair, EXPECTED, lambda texts: [[1.0, like], [like, 1.0]]
        )
        assert judged.agreement == like
        return judged.quality[0]

    assert quality(plain) == pytest.approx(0.6, abs=0.01)
    assert quality(plain, 0.95) > quality(plain) > quality(plain, 0.2)
    for worse in (
        replace(plain, refused=True), replace(plain, cut=True), replace(plain, wrong=1),
        replace(plain, confidence=-2.0), replace(plain, text="", length=0),
    ):  # fmt: skip
        assert quality(worse) < quality(plain) - 0.05
    assert quality(replace(plain, wrong=0)) > quality(plain)
    assert quality(replace(plain, confidence=math.nan)) == quality(plain)


def test_a_failed_check_outweighs_a_vote() -> None:
    good = drafts("7", "7")
    bad = [replace(draft, wrong=2) for draft in good]
    assert (
        fitted_stage().judge(WORKERS, bad, EXPECTED, unlike).quality[0]
        < fitted_stage().judge(WORKERS, good, EXPECTED, unlike).quality[0] - 0.1
    )


ODD = st.builds(
    Draft,
    st.sampled_from(["small", "mate", "nobody", ""]),
    st.text(max_size=20),
    st.one_of(st.text(max_size=20), st.sampled_from(["7", "A", "yes", ""])),
    st.integers(-5, 10**12),
    st.booleans(),
    st.booleans(),
    st.one_of(st.none(), st.floats()),
    st.one_of(st.none(), st.integers(-3, 10**6)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(ODD, max_size=12), st.sampled_from([SecondStage.unfitted, fitted_stage]))
def test_any_drafts_are_judged_within_bounds(
    given_: list[Draft], stage: Callable[[], SecondStage]
) -> None:
    judged = stage().judge(WORKERS, given_, EXPECTED, unlike)
    assert len(judged.quality) == len(given_)
    assert all(0 <= chance <= 1 for chance in judged.quality)
    assert all(-1 <= gain <= 1 for gain in judged.gain.values())
    assert judged.best < max(1, len(given_))


# Fitting


def test_what_was_fitted_is_better_than_a_guess_on_another_set() -> None:
    other = made_up("three", 2000, seed=9, level=-1.0)
    names = ("w1", "w2", "w3")
    strong = other.quality["w6"]
    scores = []
    for row in range(500):
        said = [
            Draft(name, "", other.answers[name][row], int(other.lengths[name][row]))
            for name in names
        ]
        expected = Estimate({}, {"w1": 0.6, "w2": 0.6, "w3": 0.7, "w6": 0.9}, {})
        judged = fitted_stage().judge([Candidate("w6")], said, expected, unlike)
        scores.append(judged.gain["w6"] + judged.quality[judged.best] - judged.quality[0])
    gain = strong[:500] - other.quality["w1"][:500]
    sent = np.argsort(scores)[-150:]
    assert gain[sent].mean() > 2 * gain.mean()


def test_the_same_data_and_seed_make_the_same_weights() -> None:
    sets = [made_up("one", 300), made_up("two", 300, seed=1)]
    first, again = fit_second_stage(sets, seed=3), fit_second_stage(sets[::-1], seed=3)
    other = fit_second_stage(sets, seed=4)
    assert second_stage_numbers(first) == second_stage_numbers(again)
    assert second_stage_numbers(first) != second_stage_numbers(other)


def test_where_there_is_nothing_to_fit_on_the_votes_stand() -> None:
    one = made_up("one", 50)
    bare = QuestionSet("bare", one.quality, {}, {})
    unfitted = replace(SecondStage.unfitted(), signals=fit_draft_signals())
    plain = second_stage_numbers(unfitted)
    assert second_stage_numbers(fit_second_stage([bare])) == plain
    assert second_stage_numbers(fit_second_stage([])) == plain
    gaps = QuestionSet("gaps", {w: np.where(q > 0, np.nan, q) for w, q in one.quality.items()},
               one.answers, {})  # fmt: skip
    assert np.isfinite(fit_second_stage([gaps, one]).right).all()


def test_it_is_kept_in_a_file(tmp_path: Path) -> None:
    save_second_stage(fitted_stage(), tmp_path)
    again = SecondStage.load(tmp_path)
    judged = again.judge(WORKERS, drafts("7", "7", "8"), EXPECTED, unlike)
    was = fitted_stage().judge(WORKERS, drafts("7", "7", "8"), EXPECTED, unlike)
    assert judged.quality == pytest.approx(was.quality, abs=1e-3)


@pytest.mark.parametrize("harm", [{"scale": [1.0]}, {"right": [math.nan] * 16}, {"asked": "x"}])
def test_a_broken_file_is_distinguished(harm: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(RouterFileError):
        SecondStage.load(tmp_path)
    (tmp_path / "agreement.json").write_text(
        json.dumps(second_stage_numbers(fitted_stage()) | harm)
    )
    with pytest.raises(RouterFileError):
        SecondStage.load(tmp_path)
