"""What workers are good at: as measured, by size, and by what a user did with their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from baton.core.errors import StoreError
from baton.core.history_types import GradedAnswer
from baton.core.labels import Label
from baton.core.messages import Card, Prompt
from baton.core.plan_types import KINDS, Material, Need
from baton.core.planning.assignment import success_chance
from baton.core.planning.skill_estimates import chance_at, level_at, skill
from baton.core.planning.skill_table import (
    CONFIGURED,
    GUESS,
    MEASURED,
    SkillTable,
    masteries,
    measured_scores,
    skill_levels,
    skill_summary,
)
from baton.core.ports import Route
from baton.core.reading.task_kind import ordinary_difficulty
from baton.core.run.orchestra import Orchestra
from baton.core.run.rule_router import RuleRouter
from baton.core.run.run_context import Services
from baton.history import Store
from baton.routing import read_scores
from baton.workers.scripted_worker import ScriptedWorker

SCORES = {
    "llama-3.1-8b": {"math": (0.58, 4000), "knowledge": (0.7, 6000)},
    "gemma-2-2b": {"math": (0.21, 1400)},
    "qwen-2.5-72b": {"math": (0.82, 500), "knowledge": (0.8, 5000)},
    "mistral-7b": {"math": (0.32, 1800), "knowledge": (0.54, 5000)},
}
LLAMA = Card("here", "local", "Llama", model="Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf")
STRANGER = Card("new", "local", "Nobody knows it", model="zorp-3b")

kinds = st.sampled_from(KINDS)
weights = st.floats(0.01, 1)


@st.composite
def histories(draw: st.DrawFn, worker: str = "here") -> list[GradedAnswer]:
    one = st.builds(GradedAnswer, st.just(worker), kinds, st.floats(0, 1), weights, st.just(0.0))
    return draw(st.lists(one, max_size=30))


cards = st.sampled_from((LLAMA, replace(STRANGER, id="here"), replace(LLAMA, skills={"code": 2.5})))


def grades(kind: str, good: float, count: int = 1, worker: str = "here") -> list[GradedAnswer]:
    return [GradedAnswer(worker, kind, good, 1.0, 0.0)] * count


@given(st.floats(1, 5), st.floats(1, 5))
def test_chance_and_level_are_each_other_read_backwards(level: float, difficulty: float) -> None:
    assert level_at(chance_at(level, difficulty), difficulty) == pytest.approx(level, abs=1e-3)


@given(cards, histories(), kinds, weights)
def test_a_good_answer_never_lowers_and_a_bad_one_never_raises_anything(
    card: Card, own: list[GradedAnswer], kind: str, weight: float
) -> None:
    before = masteries(card, SCORES, own)
    praised = masteries(card, SCORES, [*own, GradedAnswer("here", kind, 1.0, weight, 0.0)])
    blamed = masteries(card, SCORES, [*own, GradedAnswer("here", kind, 0.0, weight, 0.0)])
    for name in KINDS:
        assert blamed[name].level <= before[name].level + 1e-9
        assert praised[name].level >= before[name].level - 1e-9


@given(cards, histories())
def test_everything_stays_within_bounds(card: Card, own: list[GradedAnswer]) -> None:
    first = masteries(card, SCORES, [])
    for kind, found in masteries(card, SCORES, own).items():
        assert 1 <= found.level <= 5
        assert 0 < found.chance < 1
        assert abs(found.level - first[kind].level) <= 1.5 + 1e-9
        assert found.chance == pytest.approx(chance_at(found.level, ordinary_difficulty(kind)))


@pytest.mark.parametrize("good", [0.0, 1.0])
def test_ten_thousand_of_the_same_end_in_neither_never_nor_always(good: float) -> None:
    own = [one for kind in KINDS for one in grades(kind, good, 10_000)]
    card = replace(LLAMA, skills=skill_levels(LLAMA, SCORES, own))
    for kind in KINDS:
        assert success_chance(card, Need(kind, 1)) >= 0.8, "what is easy is still tried"
        assert success_chance(card, Need(kind, 5)) < 0.81, "what is hard is still looked at twice"
    assert masteries(LLAMA, SCORES, own)["math"].answers == 10_000


@given(cards, st.integers(1, 12), kinds)
def test_the_order_of_answers_does_not_matter(card: Card, count: int, kind: str) -> None:
    own = [*grades(kind, 1.0, count), *grades("chat", 0.0, 3), *grades("math", 0.0)]
    assert skill_levels(card, SCORES, own) == skill_levels(card, SCORES, own[::-1])


def test_a_kind_learns_most_itself_some_from_its_like_and_little_from_others() -> None:
    first, then = masteries(LLAMA, SCORES, []), masteries(LLAMA, SCORES, grades("rewriting", 0, 20))
    fell = {kind: first[kind].level - then[kind].level for kind in KINDS}
    assert fell["rewriting"] > 3 * fell["summary"] > 3 * fell["code"] > 0
    assert fell["code"] < 0.15
    assert then["summary"].answers == 0


def test_the_more_answers_the_less_the_prior_counts() -> None:
    chances = [masteries(LLAMA, SCORES, grades("code", 0, n))["code"].chance for n in (0, 1, 5, 20)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] - chances[1] < 0.15, "one click is not the world"
    assert chances[3] < 0.35


def test_measured_models_are_found_by_any_name_and_guesses_are_distinguished() -> None:
    found = masteries(LLAMA, SCORES, [])
    assert (found["math"].basis, found["code"].basis) == (MEASURED, GUESS)
    assert all(one.basis == GUESS for one in masteries(STRANGER, SCORES, []).values())
    assert measured_scores(replace(LLAMA, model="", name="Llama 3.1 8B Instruct"), SCORES)
    assert measured_scores(replace(LLAMA, model="openai/zorp", name="zorp"), SCORES) == {}


def test_who_was_measured_better_is_better_and_more_so_than_others_of_its_size() -> None:
    by_name = {name: masteries(replace(LLAMA, model=name), SCORES, []) for name in SCORES}
    maths = [
        by_name[name]["math"].level for name in sorted(SCORES, key=lambda n: SCORES[n]["math"])
    ]
    assert maths == sorted(maths)
    above = masteries(LLAMA, {**SCORES, "llama-3.1-8b": {"math": (0.9, 4000)}}, [])
    assert above["code"].level > by_name["llama-3.1-8b"]["code"].level, "and likely in others"


def test_what_the_user_typed_wins_over_everything() -> None:
    card = replace(LLAMA, skills={"math": 1.5, "code": 4.5})
    found = masteries(card, SCORES, [*grades("math", 1.0, 50), *grades("code", 0.0, 50)])
    assert (found["math"].level, found["code"].level) == (1.5, 4.5)
    assert found["math"].basis == CONFIGURED


def test_of_a_worker_of_which_nothing_is_known_its_size_decides_as_before() -> None:
    assert skill_levels(STRANGER, SCORES, grades("code", 0.0)) == {}, "that was another worker"
    found = masteries(STRANGER, SCORES, [])
    assert all(found[kind].level == skill(STRANGER, kind) for kind in KINDS)


def test_the_best_and_the_worst_are_named_only_where_they_differ() -> None:
    table = masteries(LLAMA, SCORES, [])
    assert skill_summary(LLAMA, table).startswith("best at ")
    same = {kind: replace(one, chance=0.9) for kind, one in table.items()}
    assert skill_summary(LLAMA, same).startswith("equally good at everything, 9/10 (")


def test_tools_have_no_table() -> None:
    assert masteries(Card("calculator", "tool", "Calculator"), SCORES, grades("code", 1.0)) == {}


async def test_a_roster_gets_its_skills_and_its_history_is_read_once_in_a_while() -> None:
    reads = []

    async def outcomes() -> Sequence[GradedAnswer]:
        reads.append(1)
        return grades("code", 0.0, 20)

    table = SkillTable(lambda: SCORES, outcomes)
    tool = Card("python", "tool", "Python", skills={"code": 5.0})
    cloud = Card("gpt", "cloud", "GPT", privacy=Label.CLOUD)
    for _ in range(3):
        here, same, other = await table.cards_with_skills((LLAMA, tool, cloud))
    assert same is tool or (same == tool and same.skills == tool.skills)
    assert skill(here, "code") < skill(LLAMA, "code") - 0.5
    assert other.skills == {}
    assert len(reads) == 1
    assert (await table.masteries_of(LLAMA))["code"].answers == 20


async def test_the_planner_of_a_run_sees_what_workers_are_good_at(tmp_path: Path) -> None:
    seen: list[Card] = []

    class RecordingRouter(RuleRouter):
        async def route(self, material: Material, roster: Sequence[Card]) -> Route:
            seen.extend(roster)
            return await super().route(material, roster)

    async def outcomes() -> Sequence[GradedAnswer]:
        return grades("code", 0.0, 20)

    store = Store(tmp_path / "baton.db")
    orchestra = Orchestra(Services({"here": ScriptedWorker(card=LLAMA)}, store), "here")
    orchestra.configure(router=RecordingRouter())
    orchestra.configure(skills=SkillTable(lambda: SCORES, outcomes))
    async with orchestra.run(Prompt("Write a function.")) as run:
        assert [event async for event in run]
    await store.aclose()
    assert [card.id for card in seen] == ["here"]
    assert seen[0].skills == skill_levels(LLAMA, SCORES, grades("code", 0.0, 20))


async def test_a_history_that_cannot_be_read_costs_only_its_grades() -> None:
    async def outcomes() -> Sequence[GradedAnswer]:
        raise StoreError("The disk is gone.")

    [card] = await SkillTable(lambda: SCORES, outcomes).cards_with_skills((LLAMA,))
    assert skill(card, "math") == pytest.approx(
        masteries(LLAMA, SCORES, [])["math"].level, abs=0.01
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"m": 1}',
        '{"m": {"code": [0.5]}}',
        '{"m": {"code": [2, 5], "juggling": [0.5, 5], "chat": [NaN, 5], "math": [0.5, 0]}}',
        "[" * 100_000,
    ],
)
def test_a_broken_file_yields_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "skills.json").write_text(text)
    assert read_scores(tmp_path) == {}
    assert read_scores(tmp_path / "nowhere") == {}


def test_of_a_file_what_is_sound_is_read(tmp_path: Path) -> None:
    (tmp_path / "skills.json").write_text('{"m": {"code": [0.5, 7], "chat": ["x", 1]}, "n": 3}')
    assert read_scores(tmp_path) == {"m": {"code": (0.5, 7)}}
