"""What a bench plays is just what a router that was trained with the same salt never saw."""

from __future__ import annotations

import sys
from pathlib import Path

from baton.bench.datasets import read_dataset
from baton.core.plan.answer_grades import is_held_out
from support.recordings import rows, write

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))
import routing_rows


def test_no_question_is_both_trained_on_and_played(tmp_path: Path) -> None:
    write(tmp_path / "made.csv.gz", rows(300))
    dataset = read_dataset(tmp_path / "made.csv.gz")
    for salt in ("1", "2", "a salt"):
        played = {one.id for one in dataset.questions if is_held_out(one, salt)}
        visible, hidden = routing_rows.split(routing_rows.read_folder(tmp_path), salt)
        assert set(hidden[0].ids) == played
        assert not played & set(visible[0].ids)
        assert 60 < len(played) < 120
