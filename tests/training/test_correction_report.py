"""A correction in the gym: another worker does again what a check found wrong, if it pays."""

from __future__ import annotations

import random
import statistics

import correction_report as report
import gym
import pytest

from baton.core.plan_types import KINDS


def worker(name: str, skill: float, price: float = 0.0) -> gym.Worker:
    return gym.Worker(name, "cloud" if price else "local", price, 0, dict.fromkeys(KINDS, skill))


WEAK, GOOD, DEAR = worker("weak", 0.0), worker("good", 4.0), worker("dear", 4.5, 4000.0)
TASKS = (gym.Task("code", 3), gym.Task("writing", 1))


def episode(*workers: gym.Worker) -> gym.Episode:
    return gym.Episode(TASKS, workers)


def plan(name: str) -> list[gym.Step]:
    return [gym.Step(name, (1,)), gym.Step(name, (2,))]


def correction_results(workers: tuple[gym.Worker, ...], by: str) -> list[report.CorrectionResult]:
    rng = random.Random(1)
    return [report.correct(episode(*workers), plan(by), rng) for _ in range(2000)]


def test_it_gains_where_a_better_worker_is_there() -> None:
    found = [one for one in correction_results((WEAK, GOOD), "weak") if not one.was_right]
    assert statistics.fmean(one.after - one.before for one in found) > 0.1
    assert all(one.after == one.before for one in found if not one.was_changed)


def test_no_worker_is_asked_again_or_for_more_than_it_is_worth() -> None:
    assert not any(one.was_changed for one in correction_results((WEAK, DEAR), "weak"))
    assert not any(one.was_changed for one in correction_results((WEAK,), "weak"))


def test_what_is_right_mostly_stays() -> None:
    right = [
        one for one in correction_results((GOOD, worker("peer", 4.0)), "good") if one.was_right
    ]
    changed = statistics.fmean(one.was_changed for one in right)
    assert changed == pytest.approx(report.FALSE_ALARM, abs=0.015)  # one part of two can be checked


def test_a_part_is_right_only_with_what_it_needs() -> None:
    linked = gym.Episode((TASKS[0], gym.Task("writing", 1, (1,))), (GOOD,))
    assert report.worth(linked, {1: False, 2: True}) == 0
    assert report.worth(linked, {1: True, 2: True}) == 1
    assert report.worth(linked, {}) == 0
