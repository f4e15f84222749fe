"""The shipped skill table puts models on one scale though they were asked other questions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from baton.core.plan_types import KINDS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from routing_skills import skill_table

ROOT = Path(__file__).resolve().parents[2]


def draw_answers(chances: dict[str, float], count: int = 400) -> dict[str, np.ndarray]:
    """Answers that are good as often as that, spread evenly."""
    places = np.linspace(0.5 / count, 1 - 0.5 / count, count)
    return {worker: (places < chance).astype(float) for worker, chance in chances.items()}


def test_who_was_asked_harder_questions_does_not_look_worse() -> None:
    math = np.full(400, KINDS.index("math"))
    easy = draw_answers({"qwen2.5-7b": 0.9, "llama-3.1-8b": 0.85, "gemma-2-2b": 0.6, "yi-6b": 0.5})
    hard = draw_answers({"qwen2.5-7b": 0.5, "llama-3.1-8b": 0.4, "mixtral-8x22b": 0.6})
    table = skill_table(["easy", "hard"], [math, math], [easy, hard])
    means = {model: kinds["math"][0] for model, kinds in table.items()}
    stronger = means[next(model for model in means if "mixtral" in model)]
    assert stronger > means["qwen-2.5-7b"] > means["llama-3.1-8b"] > means["gemma-2-2b"]
    assert table["qwen-2.5-7b"]["math"][1] == 800


def test_questions_of_no_kind_and_unknown_outcomes_do_not_count() -> None:
    kinds = np.array([KINDS.index("code"), -1, KINDS.index("chat")])
    quality = {"gemma-2-9b": np.array([1.0, 0.0, np.nan])}
    table = skill_table(["one"], [kinds], [quality])
    assert set(table["gemma-2-9b"]) == {"code"}
    assert table["gemma-2-9b"]["code"][1] == 1


def test_the_shipped_table_is_sound() -> None:
    table = json.loads((ROOT / "models" / "router" / "skills.json").read_text("utf-8"))
    assert len(table) >= 20
    for kinds in table.values():
        assert set(kinds) <= set(KINDS)
        assert all(0 < mean < 1 and count > 0 for mean, count in kinds.values())
