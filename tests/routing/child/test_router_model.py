"""The shipped router as the scorer asks it."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from baton.core.plan_types import KINDS
from baton.core.planning.token_estimates import TOKENS_P99
from baton.core.routing_types import Candidate, Draft, Estimate
from baton.routing.child.router_model import RouterFileError, RouterModel, SeenTexts
from baton.routing.child.text_features import WIDTH

SHIPPED = Path(__file__).resolve().parents[3] / "models" / "router"
FILES = (
    "encoder.onnx", "tokenizer.json", "heads.json", "heads.npz", "kinds.npz", "lengths.npz",
    "agreement.json",
)  # fmt: skip

LOCAL = Candidate("local", "Llama-3.1-8B-Instruct-Q4_K_M.gguf", 8.0)
CLOUD = Candidate("cloud", "gpt-4o-2024-08-06", outside=True, dollars=10.0)
UNKNOWN = Candidate("unknown")
EVERYONE = (LOCAL, CLOUD, UNKNOWN)


@pytest.fixture(scope="module")
def model() -> RouterModel:
    return RouterModel.load(SHIPPED)


def check(found: Estimate) -> None:
    """Assert what holds of any estimate."""
    assert set(found.kinds) == set(KINDS)
    assert sum(found.kinds.values()) == pytest.approx(1.0)
    for chances in (found.kinds, found.quality, found.nearby):
        assert all(0.0 <= chance <= 1.0 for chance in chances.values())
    assert set(found.quality) == set(found.gain) == {one.id for one in EVERYONE}
    assert all(-1.0 <= gain <= 1.0 for gain in found.gain.values())
    assert found.gain[LOCAL.id] == 0.0
    assert 0.0 <= found.novelty <= 1.0
    assert found.tokens >= 1
    assert 16 <= found.tokens_p99 <= 8192


@given(st.text(st.characters(codec=None), max_size=400))
@settings(max_examples=30, deadline=None)
def test_any_text_has_an_estimate(model: RouterModel, text: str) -> None:
    check(model.estimate(text, EVERYONE))


@pytest.mark.parametrize("text", ["", "?", "\0", "\ud800", "a" * 1_000_000, "字。" * 500_000])
def test_extreme_texts(model: RouterModel, text: str) -> None:
    check(model.estimate(text, EVERYONE))


def test_an_estimate_twice_is_the_same(model: RouterModel) -> None:
    text = "How many primes are there below 100?"
    assert model.estimate(text, EVERYONE) == RouterModel.load(SHIPPED).estimate(text, EVERYONE)


def test_texts_are_estimated_together_as_one_by_one(model: RouterModel) -> None:
    texts = ["Translate 'good morning' into Welsh.", "What is 3 + 4?", ""]
    single = [model.estimate(text, EVERYONE).gain[CLOUD.id] for text in texts]
    together = [one.gain[CLOUD.id] for one in model.estimates(texts, EVERYONE)]
    np.testing.assert_allclose(together, single, atol=1e-5)


def test_gain_and_quality_point_the_same_way(model: RouterModel) -> None:
    """On questions of many kinds; each is predicted by itself, so they are not equal."""
    texts = [
        "Hello!",
        "Let G be a finite group of order 45. Show that it is abelian.",
        "Write a limerick about a lighthouse keeper.",
        "A farmer has 17 sheep and all but 9 die. How many are left?",
        "Which enzyme unwinds DNA?\nA. Ligase\nB. Helicase\nC. Primase\nD. Polymerase",
    ]
    for text in texts:
        found = model.estimate(text, EVERYONE)
        assert found.gain[CLOUD.id] == pytest.approx(
            found.quality[CLOUD.id] - found.quality[LOCAL.id], abs=0.25
        )
    mean = np.mean([model.estimate(text, EVERYONE).gain[CLOUD.id] for text in texts])
    assert mean > 0.0


def test_hard_arithmetic_gains_more_than_a_simple_one(model: RouterModel) -> None:
    easy = "Tom has 3 apples and buys 2 more. How many apples does he have?"
    hard = (
        "A tank is filled by two pipes in 12 and 15 hours and emptied by a third in 20 hours. The"
        " first two are opened at 8 o'clock, the third two hours later, and the second is closed"
        " for an hour at noon. After the tank was full, a fifth of it leaks each hour. At what time"
        " is it half full again, and how much would each pipe have brought in by then?"
    )
    pair = (Candidate("mixtral-8x7b"), Candidate("gpt-4-1106"))
    first, second = (one.gain["gpt-4-1106"] for one in model.estimates([easy, hard], pair))
    assert second > first


def test_the_longest_answer_is_estimated_for_measured_workers_and_usual_for_the_rest(
    model: RouterModel,
) -> None:
    def expected(text: str) -> int:
        return model.estimate(text, []).tokens_p99

    choice = "Which enzyme unwinds DNA?\nA. Ligase\nB. Helicase\nC. Primase\nD. Polymerase"
    assert expected(choice) < 1000 < expected("Explain how DNA is copied in a cell.")
    simple = "Tom has 3 apples and buys 2 more. How many apples does he have?"
    hard = "Find all positive integers $n$ such that $n^4 + 4^n$ is prime. Prove your answer."
    assert expected(simple) < 1000 < expected(hard)
    essay = "Write an essay about the causes and the consequences of the French Revolution."
    assert expected(essay) > 2500


def test_the_fitted_length_counts_as_far_as_a_text_is_known(model: RouterModel) -> None:
    seen = model.read_texts(["Which enzyme unwinds DNA?\nA. Ligase\nB. Helicase\nC. Primase"])
    reading = model._read(seen)
    fitted = float(model._lengths.p99(model._design(seen))[0])
    usual = float(seen.kinds[0] @ np.array([TOKENS_P99[kind] for kind in KINDS]))

    def expected(novelty: float, row: SeenTexts = seen) -> float:
        shares = np.zeros_like(reading.shares)
        shares[:, -1] = novelty
        return float(model._tokens_p99(row, replace(reading, shares=shares))[0])

    assert expected(0.0) == pytest.approx(fitted)
    assert expected(1.0) == pytest.approx(usual)
    assert fitted < expected(0.5) < usual
    free = model.read_texts(["Which enzyme unwinds DNA, and how does it do so?"])
    sure = free.kinds[0][KINDS.index("math")]
    assert sure < 0.2
    assert expected(0.0, free) > 0.8 * TOKENS_P99["knowledge"], "no such answer was measured"


def test_no_candidates(model: RouterModel) -> None:
    found = model.estimate("Hello", [])
    assert found.quality == {}
    assert found.gain == {}


def test_likeness_and_vectors(model: RouterModel) -> None:
    table = model.likeness(["The cat sat down.", "A cat was sitting.", "Tax law of 1986"])
    assert [row[place] for place, row in enumerate(table)] == pytest.approx([1.0] * 3, abs=1e-4)
    assert table[0][1] > table[0][2]
    assert model.vectors(["a", "b"]).shape == (2, WIDTH)
    assert model.likeness([]) == []


def test_drafts_are_judged(model: RouterModel) -> None:
    drafts = [Draft("local", "It is 12.", "12", 9), Draft("unknown", "So, 12.", "12", 8)]
    judged = model.judge("What is 3 * 4?", EVERYONE, drafts, None)
    assert len(judged.quality) == 2
    assert judged.agreement == 1.0
    assert all(math.isfinite(gain) for gain in judged.gain.values())


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_folder_with_a_broken_file_is_refused(tmp_path: Path, name: str, damage: str) -> None:
    for own in FILES:
        if own != name:
            (tmp_path / own).symlink_to(SHIPPED / own)
    if damage == "cut":
        shutil.copyfile(SHIPPED / name, tmp_path / name)
        with (tmp_path / name).open("r+b") as file:
            file.truncate((SHIPPED / name).stat().st_size // 2)
    elif damage == "other":
        (tmp_path / name).write_bytes(b"\x00\xff{}")
    with pytest.raises(RouterFileError):
        RouterModel.load(tmp_path)


def test_no_question_of_the_mathematics_set_is_shipped(model: RouterModel) -> None:
    names = [block.name for block in model.first_stage.sets]
    shown = {names[place] for place in model.first_stage.points.origin}
    assert "zeroeval_mathl5" in names
    assert shown == set(names) - {"zeroeval_mathl5"}
    assert sum((SHIPPED / name).stat().st_size for name in FILES[2:]) < 3_500_000
