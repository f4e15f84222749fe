"""The head that scores turns: its file, and what it says without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from baton.core.plan.plan import Need
from baton.core.plan.turn_roles import (
    POSITION_FEATURES,
    WORKER_FEATURES,
    TurnPosition,
    TurnRole,
    WorkerFacts,
    position_features,
    scores_by_rule,
    worker_features,
)
from baton.routing.child import RouterFileError
from baton.routing.child.linear_heads import (
    POSITION,
    ROLES,
    TURN_SHAPE,
    TURNS_FILE,
    WORKER,
    TurnHead,
)
from baton.routing.child.text_features import WIDTH

VECTOR = np.zeros(WIDTH, np.float32)


def test_the_engine_gives_as_many_figures_as_the_head_takes() -> None:
    assert (len(TurnRole), POSITION_FEATURES, WORKER_FEATURES) == (ROLES, POSITION, WORKER)


def test_without_a_file_it_is_the_rule(tmp_path: Path) -> None:
    workers = [WorkerFacts(0.2, 1.0, 0.0), WorkerFacts(0.8, 4.0, 0.01, uses_gateway=True)]
    figures = [worker_features(worker, n, TurnPosition()) for n, worker in enumerate(workers)]
    position = position_features(TurnPosition(), Need("chat", 1))
    scores = TurnHead.load(tmp_path).scores(VECTOR, position, figures)
    assert np.allclose(scores, scores_by_rule(figures))
    assert scores[TurnRole.WORKER][1] < 0.8, "the price counts"


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).normal(size=TURN_SHAPE)
    TurnHead(weights).save(tmp_path)
    assert np.allclose(TurnHead.load(tmp_path).weights, weights, atol=1e-6)


@pytest.mark.parametrize("broken", [b"", b"PK", b"\x93NUMPY"])
def test_a_broken_file_is_named(tmp_path: Path, broken: bytes) -> None:
    (tmp_path / TURNS_FILE).write_bytes(broken)
    with pytest.raises(RouterFileError, match=TURNS_FILE):
        TurnHead.load(tmp_path)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    for weights in (np.zeros((2, 3)), np.full(TURN_SHAPE, np.nan)):
        np.savez(tmp_path / TURNS_FILE, head=weights)
        with pytest.raises(RouterFileError, match="no weights"):
            TurnHead.load(tmp_path)
