"""How far the heads are believed, found on groups of questions that were left out."""

from __future__ import annotations

import numpy as np
import pytest
from fit_trust import HeldOut, fit_trust

from baton.routing.child.first_stage import chances_known


def held(name: str, cosine: float, slope: float = 0.0, seed: int = 0, count: int = 300) -> HeldOut:
    """Return questions about so near to known ones, whose gain rises so much with the predicted."""
    dice = np.random.default_rng(seed)
    near = np.clip(cosine + dice.normal(0, 0.08, count), 0, 1)
    inputs = np.column_stack([np.ones(count), near, 4 * near - 4])
    predicted, length = dice.normal(0, 0.2, count), dice.normal(size=count)
    actual = slope * predicted + 0.1 * length + dice.normal(0, 0.3, count)
    return HeldOut(name, inputs, predicted + 0.2 * length, actual + 0.2 * slope * length, length)


def test_texts_near_to_known_ones_are_believed_more() -> None:
    trust = fit_trust([held("a", 0.6), held("b", 0.5, seed=1)], [held("a", 0.4), held("c", 0.3)])
    near, far = (
        chances_known(np.array([[1.0, cosine, 4 * cosine - 4]]), trust.head)[0]
        for cosine in (0.7, 0.2)
    )
    assert near > 0.9
    assert far < 0.1


@pytest.mark.parametrize(("slope", "least", "most"), [(0.8, 0.6, 0.9), (0.0, 0.0, 0.1), (-1, 0, 0)])
def test_heads_keep_what_holds_on_groups_that_they_never_saw(
    slope: float, least: float, most: float
) -> None:
    trust = fit_trust([held("a", 0.6)], [held("a", 0.4, slope, 1), held("a", 0.4, slope, 2)])
    assert least <= trust.transfer["a"] <= most


def test_a_set_that_was_left_out_as_a_whole_shows_nothing_of_its_heads() -> None:
    alone = HeldOut("alone", held("alone", 0.3).inputs)
    assert fit_trust([held("a", 0.6)], [alone]).transfer == {}


def test_without_anything_left_out_the_heads_count_by_half() -> None:
    trust = fit_trust([held("a", 0.6)], [])
    assert chances_known(np.array([[1.0, 0.5, -1.0]]), trust.head)[0] == 0.5
