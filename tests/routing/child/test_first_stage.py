"""The heads: what they make of questions, and of files that aren't theirs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import fit_first_stage
import numpy as np
import pytest
from fit_trees import fit_trees
from head_files import save_first_stage
from hypothesis import HealthCheck, given, settings, strategies as st

from baton.core.routing_types import Candidate
from baton.routing.child import RouterFileError
from baton.routing.child.first_stage import (
    ARRAYS_FILE,
    METADATA_FILE,
    STEM_COLUMN,
    FirstStage,
    Floats,
    TextReading,
)
from baton.routing.child.text_features import FEATURE_NAMES, WIDTH

WAYS = {"first": (0.3, 0.4, 0.5)}
"""As if that had been found: so few questions can't show it."""

WEAK, STRONG = Candidate("weak-7b", billions=7), Candidate("strong-70b", outside=True)


def sample(name: str, seed: int, count: int = 240) -> fit_first_stage.Sample:
    """Return questions of which the weak worker gets those wrong that point one way."""
    dice = np.random.default_rng(seed)
    middle = np.zeros(WIDTH)
    middle[seed] = 1.0
    vectors = middle + dice.normal(size=(count, WIDTH)) / 30
    vectors[:, 10] = dice.normal(size=count) / 3
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    figures = dice.normal(size=(count, len(FEATURE_NAMES))) + 2
    hard = vectors[:, 10] > 0
    quality = {
        WEAK.id: np.where(hard, 0.0, 1.0),
        STRONG.id: np.where(dice.random(count) < 0.9, 1.0, 0.0),
    }
    lengths = np.where(hard, 2000.0, 200.0)
    groups = ["one", "other"] * (count // 2)
    return fit_first_stage.Sample(
        name, vectors, figures, groups, quality, lengths, np.zeros(count, np.int64)
    )


@pytest.fixture(scope="module")
def heads() -> FirstStage:
    return fit_first_stage.fit([sample("first", 0), sample("second", 1)], 0, WAYS)


def design_of(heads: FirstStage, one: fit_first_stage.Sample) -> Floats:
    return heads.basis.design(one.vectors, one.figures)


def test_gain_is_estimated_on_questions_that_were_not_fitted_on(heads: FirstStage) -> None:
    other = replace(sample("first", 0, 400), name="new")
    reading = heads.read(design_of(heads, other)[240:])
    hard = (other.vectors[:, 10] > 0)[240:]
    gain = heads.gain(reading, WEAK, STRONG)
    assert gain[hard].mean() > 0.5
    assert gain[~hard].mean() < 0.3


def test_quality_and_gain_agree_where_both_workers_are_known(heads: FirstStage) -> None:
    reading = heads.read(design_of(heads, sample("first", 0)))
    difference = heads.quality(reading, STRONG) - heads.quality(reading, WEAK)
    gain = heads.gain(reading, WEAK, STRONG)
    assert np.abs(gain - difference).max() < 0.05
    assert np.abs(heads.gain(reading, STRONG, WEAK) + gain).max() < 1e-9
    assert not heads.gain(reading, WEAK, WEAK).any()


def test_what_is_new_is_left_to_length(heads: FirstStage) -> None:
    design = np.zeros((3, 1 + WIDTH + len(FEATURE_NAMES)))
    design[:, 0], design[:, 300] = 1.0, np.sqrt(WIDTH)
    design[:, STEM_COLUMN] = [-2.0, 0.0, 2.0]
    reading = heads.read(design)
    assert (reading.shares[:, -1] == 1.0).all()
    short, usual, long = heads.gain(reading, WEAK, STRONG)
    assert short < usual < long
    assert usual > 0
    like = replace(WEAK, id="like", outside=True)
    assert (np.diff(heads.gain(reading, WEAK, like)) > 0).all()
    assert (np.diff(heads.quality(reading, WEAK)) < 0).all()


@given(trust=st.lists(st.floats(0, 1), min_size=4, max_size=4))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_shrunk_estimates_are_between_the_heads_and_the_means(
    heads: FirstStage, trust: list[float]
) -> None:
    design = design_of(heads, sample("first", 0, 4))
    design[:, STEM_COLUMN] = 0.0  # length counts by itself
    reading = heads.read(design)
    sets = len(heads.sets)

    def read(values: list[float]) -> TextReading:
        return replace(reading, trust=np.repeat(np.array(values)[:, None], sets, axis=1))

    for figure in ("weak", "strong", "gain"):

        def found(values: list[float], figure: str = figure) -> Floats:
            one = read(values)
            if figure == "gain":
                return heads.gain(one, WEAK, STRONG)
            return heads.quality(one, WEAK if figure == "weak" else STRONG)

        learned, means, shrunk = (found(one) for one in ([1.0] * 4, [0.0] * 4, trust))
        assert (shrunk >= np.minimum(learned, means) - 1e-9).all()
        assert (shrunk <= np.maximum(learned, means) + 1e-9).all()


def test_novelty_grows_as_less_of_the_heads_counts(heads: FirstStage) -> None:
    design = design_of(heads, sample("first", 0, 40))
    known = replace(heads, trust=np.array([2.0, 4.0, 1.0]))
    near, far = known.read(design), known.read(-design)
    assert near.novelty.mean() < far.novelty.mean()
    assert ((near.novelty >= 0) & (far.novelty <= 1)).all()
    doubtful = replace(heads, trust=np.array([-2.0, 4.0, 1.0])).read(design)
    assert (doubtful.novelty > near.novelty).all()
    spread = [float(heads.gain(one, WEAK, STRONG).std()) for one in (near, doubtful)]
    assert spread[1] < spread[0]


def test_a_worker_below_all_that_were_measured_is_worse_than_they_are(heads: FirstStage) -> None:
    reading = heads.read(design_of(heads, sample("first", 0)))
    usual, tiny = (
        heads.quality(reading, Candidate(f"nobody-{size}b", billions=size)) for size in (8.0, 0.135)
    )
    assert ((tiny >= 0) & (usual <= 1)).all()
    assert (tiny <= usual).all()
    assert tiny.mean() < min(heads.quality(reading, one).mean() for one in (WEAK, STRONG)) / 2


def test_answers_to_hard_questions_are_longer(heads: FirstStage) -> None:
    one = sample("first", 0)
    tokens = heads.expected_tokens(design_of(heads, one))
    hard = one.vectors[:, 10] > 0
    assert tokens[hard].mean() > 1.5 * tokens[~hard].mean()


def test_one_text_is_read_as_among_others(heads: FirstStage) -> None:
    design = design_of(heads, sample("first", 0))
    alone, among = heads.read(design[7:8]), heads.read(design)
    for one in (WEAK, STRONG):
        np.testing.assert_allclose(
            heads.quality(alone, one)[0], heads.quality(among, one)[7], atol=1e-5
        )
        np.testing.assert_allclose(
            heads.nearby_quality(alone, one)[0], heads.nearby_quality(among, one)[7], atol=1e-5
        )


def test_a_file_holds_all_of_it(heads: FirstStage, tmp_path: Path) -> None:
    save_first_stage(heads, tmp_path)
    again = FirstStage.load(tmp_path)
    design = design_of(heads, sample("second", 1))
    before, after = heads.read(design), again.read(design)
    for one in (WEAK, STRONG, Candidate("nobody")):
        np.testing.assert_allclose(heads.quality(before, one), again.quality(after, one), atol=2e-3)


def test_the_same_questions_make_the_same_bytes(heads: FirstStage, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    save_first_stage(heads, tmp_path / "a")
    again = fit_first_stage.fit([sample("first", 0), sample("second", 1)], 0, WAYS)
    save_first_stage(again, tmp_path / "b")
    for name in (ARRAYS_FILE, METADATA_FILE):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_questions_that_may_not_be_shipped_are_not_in_the_files(tmp_path: Path) -> None:
    secret = replace(sample("secret", 1), shown=False)
    heads = fit_first_stage.fit([sample("first", 0), secret])
    assert set(heads.points.origin.tolist()) == {0}
    assert [block.name for block in heads.sets] == ["first", "secret"]


def test_unknown_outcomes_and_few_questions() -> None:
    one = sample("first", 0)
    gaps = {
        WEAK.id: np.where(np.arange(240) % 2, one.quality[WEAK.id], np.nan),
        STRONG.id: one.quality[STRONG.id],
        "never-asked": np.full(240, np.nan),
    }
    few = sample("few", 1).take(np.arange(240) < 9)
    heads = fit_first_stage.fit([replace(one, quality=gaps), few])
    assert heads.sets[0].workers == (WEAK.id, STRONG.id)
    reading = heads.read(design_of(heads, one))
    assert np.isfinite(heads.quality(reading, WEAK)).all()


@pytest.mark.parametrize("name", [ARRAYS_FILE, METADATA_FILE])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "other"])
def test_a_broken_file_is_refused(
    heads: FirstStage, tmp_path: Path, name: str, damage: str
) -> None:
    save_first_stage(heads, tmp_path)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    if damage != "missing":
        damaged = {"empty": b"", "cut": whole[: len(whole) // 2], "other": b"\x80" * 99}
        (tmp_path / name).write_bytes(damaged[damage])
    with pytest.raises(RouterFileError):
        FirstStage.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"format": 1}, {"figures": ["other"]}, {"blocks": []}, {"known": [0.5]}, {"abilities": {}}],
)
def test_files_that_do_not_fit_together_are_refused(
    heads: FirstStage, tmp_path: Path, change: dict[str, object]
) -> None:
    save_first_stage(heads, tmp_path)
    words = json.loads((tmp_path / METADATA_FILE).read_text("utf-8"))
    (tmp_path / METADATA_FILE).write_text(json.dumps(words | change), "utf-8")
    with pytest.raises(RouterFileError):
        FirstStage.load(tmp_path)


def test_numbers_that_are_none_are_refused(heads: FirstStage, tmp_path: Path) -> None:
    save_first_stage(heads, tmp_path)
    with np.load(tmp_path / ARRAYS_FILE) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["member"] = np.full_like(arrays["member"], np.nan)
    np.savez(tmp_path / ARRAYS_FILE, **arrays)
    with pytest.raises(RouterFileError, match="missing"):
        FirstStage.load(tmp_path)


@pytest.mark.sampled(0.5)
def test_the_most_informative_feature_weighs_most() -> None:
    one = sample("first", 0, 1300)
    one.quality[WEAK.id][:] = np.abs(one.figures[:, 5] - 2) < 1
    ways = fit_first_stage.fit([one]).ways["first"]
    assert ways[2] > 0.3
    assert ways[2] > 2 * max(ways[:2])
    assert fit_first_stage.fit([sample("first", 0)]).ways == {"first": (1.0, 0.0, 0.0)}


def test_trees_find_a_threshold_that_no_line_does() -> None:
    dice = np.random.default_rng(0)
    inputs = dice.normal(size=(600, 6))
    truth = (np.abs(inputs[:, 2]) > 1).astype(float)
    grown = fit_trees(inputs[:400], truth[:400, None], truth[:400], np.random.default_rng(1))
    predicted = grown.predict(inputs[400:])[:, 0]
    assert np.corrcoef(predicted, truth[400:])[0, 1] > 0.8
    assert np.corrcoef(inputs[400:, 2], truth[400:])[0, 1] < 0.3
    np.testing.assert_allclose(grown.predict_row(inputs[400]), grown.predict(inputs[400:401])[0])
