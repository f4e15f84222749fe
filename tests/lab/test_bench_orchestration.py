"""The end-to-end bench: its tasks can be graded, and its simulated cloud runs by its rules."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import bench_orchestration as bench

TASKS = bench.read_tasks()
TASK = bench.Task(
    "t",
    "Who wrote Faust? What is 6 times 7? Double that.",
    (
        {"text": "Who wrote Faust?", "kind": "knowledge", "difficulty": 1, "tool": "", "needs": [],
         "pattern": "Goethe", "right": "Goethe.", "wrong": "Schiller."},
        {"text": "What is 6 times 7?", "kind": "calculation", "difficulty": 1, "tool": "calc",
         "needs": [], "pattern": r"\b42\b", "right": "42", "wrong": "48"},
        {"text": "Double that", "kind": "calculation", "difficulty": 1, "tool": "calc",
         "needs": [2], "pattern": r"\b84\b", "right": "84", "wrong": "96"},
    ),
)  # fmt: skip


def row(*steps: tuple[str, str, list[str], str], answer: str = "") -> dict[str, object]:
    names = ("worker", "subtask", "access", "text")
    found = [dict(zip(names, step, strict=True)) for step in steps]
    right = [bool(re.search(part["pattern"], answer)) for part in TASK.parts]
    return {"id": "t", "steps": found, "right": right, "cost": 0, "calls": []}


def test_what_an_accuracy_costs_is_between_two_ceilings() -> None:
    points = [(0.5, 0.0), (0.9, 0.2), (0.6, 0.05), (0.92, 0.4)]
    assert bench.cost_at(points, 0.4) == 0
    assert bench.cost_at(points, 0.75) == pytest.approx(0.125)
    assert bench.cost_at(points, 0.92) == pytest.approx(0.4)
    assert bench.cost_at(points, 0.95) == math.inf
    assert bench.cost_at([(0.8, 0.3)], 0.4) == pytest.approx(0.15)


def test_every_part_of_a_task_is_recognised_by_its_pattern_alone() -> None:
    assert len(TASKS) == len({task.id for task in TASKS}) == 200
    for task in TASKS:
        for number, part in enumerate(task.parts, start=1):
            others = [part["wrong"], task.prompt]
            for other in task.parts:
                others += [other["right"], other["wrong"]] if other is not part else []
            assert re.search(part["pattern"], part["right"]), (task.id, number)
            assert not any(re.search(part["pattern"], text) for text in others), (task.id, number)
            assert part["text"] in task.prompt
            assert all(needed < number for needed in part["needs"])


def test_the_cloud_worker_answers_what_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "chance", lambda part: 1.0)
    assert bench.reply_to(TASK, TASK.prompt) == "Goethe.\n\n42\n\n84"
    assert bench.reply_to(TASK, "who wrote faust") == "Goethe."
    asked = "What was asked:\n```\nWho wrote Faust?\n```\n\nResult 2:\n```\n{}\n```\n\ndouble that"
    assert bench.reply_to(TASK, asked.format("6 x 7 = 42")) == "84"
    assert bench.reply_to(TASK, asked.format("6 x 7 = 48")) == "96"
    merging = f"What was asked:\n```\n{TASK.prompt}\n```\n\nPut these answers together."
    assert bench.reply_to(TASK, merging) == "Goethe.\n\n42\n\n84"
    assert bench.reply_to(TASK, "Something else.") == "I can't tell."


def test_its_luck_is_the_same_each_time_and_as_its_skill_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert TASK.rights == TASK.rights
    monkeypatch.setattr(bench, "chance", lambda part: 0.0)
    assert bench.reply_to(TASK, TASK.prompt) == "Schiller.\n\n48\n\n96"
    monkeypatch.undo()
    parts = [(task, n) for task in TASKS for n in range(len(task.parts))]
    expected = sum(bench.chance(task.parts[n]) for task, n in parts)
    drawn = sum(task.rights[n] for task, n in parts)
    assert drawn == pytest.approx(expected, abs=4 * len(parts) ** 0.5 / 2)


def test_the_parts_of_a_plan_are_counted() -> None:
    good = row(
        ("small", "Who wrote Faust?", [], "Goethe."),
        ("calculator", "6 * 7", ["prompt"], "6 x 7 = 42"),
        ("calculator", "(6 * 7) * 2", ["prompt", "2"], "42 x 2 = 84"),
    )
    assert set(bench.parts_report([good], [TASK]).values()) == {"1 of 1"}
    whole = row(("small", TASK.prompt, [], "Goethe."))
    counted = bench.parts_report([whole], [TASK])
    assert counted["covered"] == counted["no step is the whole"] == "0 of 1"
    blind = row(
        ("small", "Who wrote Faust?", [], "Goethe."),
        ("calculator", "6 * 7", ["prompt"], "6 x 7 = 42"),
        ("small", "Double that", [], "84"),
    )
    counted = bench.parts_report([blind], [TASK])
    assert (counted["covered"], counted["dependences"]) == ("1 of 1", "0 of 1")


def test_the_table_compares_in_pairs() -> None:
    rows = []
    for way, answer in (("hybrid, trained conductor", "Goethe 42"), ("hybrid, rule", "42")):
        rows.append(row(answer=answer) | {"way": way, "ceiling": "0"})
    lines = list(bench.report(rows, [TASK]))
    assert "66.7%" in lines[2]
    assert "+33.3% [+33.3%, +33.3%]" in lines[2]
    assert "33.3%" in lines[3]
