"""What the training finds on groups of questions that it leaves out."""

from __future__ import annotations

import sys
from pathlib import Path

import fit_first_stage
import numpy as np
import pytest
from fit_trust import fit_trust

from baton.routing.child.text_features import FEATURE_NAMES, WIDTH

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import routing_rows as rr  # noqa: E402
from train_router import DOMAIN_PARTS, PARTS, Part, groups_of, parts_of  # noqa: E402

COUNT = 480


def questions(is_reversed: bool) -> tuple[rr.Rows, fit_first_stage.Sample]:
    """Return questions of four groups; in two of them it may be the easy ones that look hard."""
    dice = np.random.default_rng(0)
    groups = [f"group{number % 4}" for number in range(COUNT)]
    vectors = dice.normal(size=(COUNT, WIDTH)) / 30
    vectors[np.arange(COUNT), np.arange(COUNT) % 4] += 1.0
    vectors[:, 10] = dice.normal(size=COUNT) / 3
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    hard = vectors[:, 10] > 0
    turned = np.arange(COUNT) % 4 >= 2
    wrong = hard ^ turned if is_reversed else hard
    quality = {"weak-7b": np.where(wrong, 0.0, 1.0), "strong-70b": np.ones(COUNT)}
    sample = fit_first_stage.Sample(
        "made up",
        vectors,
        dice.normal(size=(COUNT, len(FEATURE_NAMES))),
        groups,
        quality,
        np.full(COUNT, 200.0),
        np.zeros(COUNT, np.int64),
    )
    texts = [f"question {number}" for number in range(COUNT)]
    return rr.from_columns("made up", {"text": texts, "group": groups}), sample


@pytest.mark.parametrize(("is_reversed", "least", "most"), [(False, 0.5, 1.0), (True, 0.0, 0.1)])
def test_heads_are_not_carried_into_groups_where_the_relation_is_reversed(
    is_reversed: bool, least: float, most: float
) -> None:
    rows, sample = questions(is_reversed)
    ways = {"made up": (1.0, 0.0, 0.0)}
    known, new = (
        [
            held
            for part in range(count)
            for held in Part.of([rows], [sample], ways, masks([rows], part)).held_out()
        ]
        for count, masks in ((PARTS, parts_of), (DOMAIN_PARTS, groups_of))
    )
    assert sum(len(one.inputs) for one in known) == COUNT == sum(len(one.inputs) for one in new)
    trust = fit_trust(known, new)
    assert least <= trust.transfer["made up"] <= most
    near, far = (np.mean([one.inputs[:, 1].mean() for one in some]) for some in (known, new))
    assert near > far
    assert trust.head[1:] @ [near - far, 0.0] > 0 or trust.head[2] > 0


def test_no_question_is_on_both_sides_of_a_part() -> None:
    rows, sample = questions(False)
    other = rr.from_columns("other", {"text": rows.texts[:40], "group": ["x"] * 40})
    masks = groups_of([rows, other], 0)
    assert masks[1].all()  # a set of one group is in the first part
    part = Part.of([rows, other], [sample, sample.take(np.arange(COUNT) < 40)], {}, masks)
    assert part.heads is not None
    kept = ~masks[0] & (np.arange(COUNT) >= 40)
    assert [block.name for block in part.heads.sets] == ["made up"]
    assert part.heads.sets[0].means[0] == pytest.approx(
        sample.quality["weak-7b"][kept].mean(), abs=1e-6
    )
