"""How the bench compares a router with rules on sources that were left out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

import numpy as np

from baton.core.routing_types import Candidate, Estimate
from baton.routing.child.router_model import RouterModel

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import routing_rows as rr  # noqa: E402
from bench_router_domains import (  # noqa: E402
    Comparison,
    Reliability,
    calibration_error,
    everyday_lines,
    sources,
)
from routing_pairs import GEMINI, LLAMA, PRO  # noqa: E402


def outcomes(count: int = 800) -> tuple[rr.Floats, rr.Floats, rr.Floats]:
    """Return how hard questions are, and how good both workers."""
    dice = np.random.default_rng(0)
    hard = dice.random(count)
    return hard, (dice.random(count) > hard).astype(float), np.ones(count)


def test_a_score_is_compared_with_the_better_rule() -> None:
    hard, weak, strong = outcomes()
    rules = {"length": -hard, "random": np.zeros(len(hard))}
    good = Comparison.of("new", hard, rules, weak, strong)
    assert (good.rule, good.theirs, good.stage, good.verdict) == ("random", 0.5, "A", "holds")
    assert good.low > 0.1
    bad = Comparison.of("new", -hard, {"length": hard, "votes": hard / 2}, weak, strong)
    assert (bad.rule, bad.stage, bad.verdict) == ("length", "B", "worse")
    same = Comparison.of("new", hard, {"length": hard, "random": hard * 0}, weak, strong)
    assert (same.low, same.high, same.verdict) == (0.0, 0.0, "holds")
    assert Comparison.of("new", hard, rules, strong, strong - 0.01).verdict == "no gap"


def test_sound_chances_have_a_small_error_and_others_a_large_one() -> None:
    dice = np.random.default_rng(1)
    chances = dice.random(4000)
    happened = (dice.random(4000) < chances).astype(float)
    assert calibration_error(chances, happened) < 0.03
    assert calibration_error(chances * 0.5, happened) > 0.2
    held = Reliability()
    held.add(chances, np.where(chances > 0.9, np.nan, happened), ["math", "code"] * 2000)
    assert max(held.chances) <= 0.9
    first, *others = held.lines("here")
    assert first.startswith("| here | all | ")
    assert [line.split(" | ")[1] for line in others] == ["math", "code"]


def test_each_subject_is_a_source_of_its_own() -> None:
    rows = rr.from_columns(PRO, {
        "text": ["one", "two", "three"], "group": ["law", "math", "law"],
        f"m:{LLAMA}": ["1", "0", "0"], f"m:{GEMINI}": ["1", "1", "1"],
    })  # fmt: skip
    found = list(sources([rows]))
    assert [one.name for one in found] == [PRO, f"{PRO}: law", f"{PRO}: math"]
    for one, left in zip(found, (0, 1, 2), strict=True):
        visible, hidden = rr.split([rows], "", one.holdout)
        assert sum(map(len, visible)) == left
        assert {pair.rows(hidden) is not None for pair in one.pairs} == {True}


class FixedModel:
    """Expects one half of every prompt."""

    def estimates(self, texts: list[str], workers: list[Candidate]) -> list[Estimate]:
        return [Estimate({}, {worker.id: 0.5 for worker in workers}, {}) for _ in texts]


def test_everyday_answers_are_counted_by_kind_and_only_the_starters(tmp_path: Path) -> None:
    model = cast("RouterModel", FixedModel())
    assert list(everyday_lines(model, tmp_path)) == []
    prompts = [{"id": str(n), "prompt": f"Prompt {n}"} for n in range(6)]
    outcomes = [
        {"id": str(n), "kind": "chat" if n < 4 else "code", "right": n % 2 == 0,
         "workers": ["small"] if n != 5 else ["calculator"]}
        for n in range(6)
    ]  # fmt: skip
    for name, rows in (("everyday", prompts), ("everyday_outcomes", outcomes)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, _, every, *kinds = everyday_lines(model, tmp_path)
    assert every == "| all | 5 | 60 % | 50 % | 0.100 | 1.00 |"
    assert [line[:22] for line in kinds] == ["| code | 1 | 100 % | 5", "| chat | 4 | 50 % | 50"]
