"""The built-in requests: what is expected of a plan is what the product can play."""

from __future__ import annotations

from collections import Counter

import pytest

from baton.bench.conductor_score import Episode, PlanScore, read_episodes, score_plan
from baton.core.plan.plan import PROMPT, Plan, Step
from baton.core.plan.plan_lines import MAX_TEXT_CHARS, TOOL_HEADS
from baton.core.plan.request_words import may_have_parts
from baton.workers.tools.computation.plan_steps import Part, check_parts, compute_step

EPISODES = read_episodes()
HEADS = {tool: head for head, tool in TOOL_HEADS.items()}
RIGHT = PlanScore(1.0, True)


def checked_plan(episode: Episode) -> Plan:
    """Return the expected plan as the trained conductor's is played."""
    asked: list[Part] = [
        {"tool": HEADS.get(part.tool, ""), "text": part.text, "inputs": part.needs}
        for part in episode.parts
    ]
    found = check_parts(episode.request, asked)
    assert [part["problem"] for part in found] == [""] * len(found)
    steps = tuple(
        Step(
            part.tool or "small",
            one["text"],
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
def test_what_a_tool_shall_compute_can_be_computed(tool: str, text: str) -> None:
    assert compute_step(HEADS[tool], text)


def test_texts_are_short_enough_for_a_line_of_a_plan() -> None:
    assert max(len(part.text) for episode in EPISODES for part in episode.parts) <= MAX_TEXT_CHARS
