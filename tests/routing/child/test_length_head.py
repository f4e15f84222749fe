"""The head of the answers' lengths: its coverage, its file, and figures that are none."""

from __future__ import annotations

from pathlib import Path

import fit_heads
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from baton.routing.child import RouterFileError
from baton.routing.child.first_stage import Places
from baton.routing.child.linear_heads import DESIGN_COLUMNS, LENGTHS_FILE, Floats, LengthHead

SHIPPED = Path(__file__).resolve().parents[3] / "models" / "router"
ANSWERS = 12
"""To each question of a sample."""


def sample(count: int, seed: int, columns: int = 40) -> tuple[Floats, Places, Floats, Places]:
    """Return answers whose length and whose spread depend on two columns of the design."""
    dice = np.random.default_rng(seed)
    design = np.hstack([np.ones((count, 1)), dice.normal(size=(count, columns))])
    questions = np.repeat(np.arange(count), ANSWERS)
    middle, spread = design[questions, 1], 0.3 + 0.1 * np.tanh(design[questions, 2])
    logs = 5.0 + 0.5 * middle + spread * dice.normal(size=len(questions))
    return design, questions, np.expm1(logs), np.arange(count) % fit_heads.FOLDS


@pytest.mark.parametrize("seed", range(3))
def test_99_of_100_answers_to_new_questions_are_no_longer(seed: int) -> None:
    head = fit_heads.fit_length_head(*sample(500, seed))
    design, questions, tokens, _ = sample(2000, seed + 10)
    most = head.p99(design)
    assert 0.98 <= (tokens <= most[questions]).mean() <= 0.995
    longer = design[:, 1] > 1
    assert most[longer].mean() > 1.5 * most[~longer].mean(), "and not by one figure for all"


def test_without_the_calibration_a_fit_covers_too_few() -> None:
    """Else what raises it would be for nothing."""
    design, questions, tokens, parts = sample(150, 0, columns=100)
    fitted = fit_heads._fit_quantile(design, questions, np.log1p(tokens))
    raised = fit_heads.fit_length_head(design, questions, tokens, parts)
    new, asked, written, _ = sample(2000, 1, columns=100)
    bare = (written <= LengthHead(fitted).p99(new)[asked]).mean()
    assert bare < 0.975 < (written <= raised.p99(new)[asked]).mean()


def test_without_answers_nothing_is_called_short() -> None:
    none = np.zeros(0, np.int64)
    head = fit_heads.fit_length_head(np.zeros((0, DESIGN_COLUMNS)), none, np.zeros(0), none)
    assert head.p99(np.ones((1, DESIGN_COLUMNS))) == pytest.approx([8192.0])


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    head = LengthHead(dice.normal(size=DESIGN_COLUMNS).astype(np.float32).astype(np.float64) / 64)
    head.save(tmp_path)
    again = LengthHead.load(tmp_path)
    assert np.array_equal(again.worth, head.worth)
    first = (tmp_path / LENGTHS_FILE).read_bytes()
    again.save(tmp_path)
    assert (tmp_path / LENGTHS_FILE).read_bytes() == first
    assert len(first) < 4000


@pytest.mark.parametrize("damage", ["absent", "torn", "short", "nan", "infinite", "other"])
def test_a_broken_file_is_refused(tmp_path: Path, damage: str) -> None:
    file = tmp_path / LENGTHS_FILE
    LengthHead(np.ones(DESIGN_COLUMNS)).save(tmp_path)
    match damage:
        case "absent":
            file.unlink()
        case "torn":
            file.write_bytes(file.read_bytes()[:300])
        case "short":
            np.savez(file, worth=np.ones(DESIGN_COLUMNS - 1))
        case "nan" | "infinite":
            np.savez(file, worth=np.full(DESIGN_COLUMNS, np.nan if damage == "nan" else np.inf))
        case _:
            np.savez(file, something=np.ones(DESIGN_COLUMNS))
    with pytest.raises(RouterFileError):
        LengthHead.load(tmp_path)


WILD = hnp.arrays(np.float64, (3, DESIGN_COLUMNS), elements=st.floats(width=64), fill=st.floats())


@settings(max_examples=60, deadline=None)
@given(WILD)
def test_any_figures_have_a_length(design: Floats) -> None:
    with np.errstate(all="ignore"):
        most = LengthHead.load(SHIPPED).p99(design)
    assert np.isfinite(most).all()
    assert ((most >= 15.9) & (most <= 8192.1)).all()
    unknown = np.isnan(design).any(axis=1)
    assert (most[unknown] > 8191).all(), "what can't be told is not called short"


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_a_larger_sum_is_never_a_shorter_answer(one: float, two: float) -> None:
    head = LengthHead(np.array([1.0]))
    shorter, longer = head.p99(np.array([[min(one, two)], [max(one, two)]]))
    assert shorter <= longer
