"""The designs that are compared: what each is taught to write is worth what its plan is worth."""

from __future__ import annotations

from itertools import islice

import pytest

pytest.importorskip("torch", reason="only scripts/train_conductor installs torch")
pytest.importorskip("gguf.constants", reason="only scripts/train_conductor installs gguf")

import ablation
import gym
import plan_reward

REQUESTS = list(islice(ablation.requests(3, held_out=True), 40))


def text_of(design: ablation.Lines, request: ablation.Request) -> str:
    return "\n".join("".join(piece for piece, _ in line) for line in design.plan(request))


@pytest.mark.parametrize("name", ["json", "soft"])
def test_another_way_to_write_a_plan_is_worth_the_same(name: str) -> None:
    lines, other = ablation.Lines(), ablation.DESIGNS[name]()
    for request in REQUESTS:
        expected = lines.worth(request, text_of(lines, request), [])
        assert expected > plan_reward.UNREADABLE
        assert other.worth(request, text_of(other, request), []) == expected


@pytest.mark.parametrize("name", ["table", "cards"])
def test_named_workers_are_those_of_the_best_plan(name: str) -> None:
    design = ablation.DESIGNS[name]()
    for request in REQUESTS:
        text = text_of(design, request)
        best = gym.reward(request.drawn.episode, gym.best_split(request.drawn.episode))
        assert design.worth(request, text, []) == pytest.approx(best, abs=0.1)
        assert design.prompt(request).endswith(ablation.Lines().prompt(request))


@pytest.mark.parametrize("text", ["", "{}", "[1]", "Z: x", '{"head": 1}', "nothing"])
@pytest.mark.parametrize("name", ablation.DESIGNS)
def test_what_is_not_a_plan_is_worth_less_than_none(name: str, text: str) -> None:
    worth = ablation.DESIGNS[name]().worth(REQUESTS[0], text, [])
    assert worth == plan_reward.UNREADABLE


def test_the_same_seed_draws_the_same_requests() -> None:
    assert list(islice(ablation.requests(3, held_out=True), 5)) == REQUESTS[:5]
