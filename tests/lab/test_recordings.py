"""Recordings are read as they are, and just what a router never saw is held out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from recordings import read_recordings

from baton.core.errors import ConfigError
from support.recordings import SMALL, row, rows, write

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import routing_rows


def test_no_question_is_both_trained_on_and_replayed(tmp_path: Path) -> None:
    write(tmp_path / "made.csv.gz", rows(300))
    found = read_recordings(tmp_path / "made.csv.gz")
    for salt in ("1", "2", "a salt"):
        executed = {one.name for one in found.questions if found.is_held_out(one, salt)}
        visible, hidden = routing_rows.split(routing_rows.read_folder(tmp_path), salt)
        assert set(hidden[0].ids) == executed
        assert not executed & set(visible[0].ids)
        assert 60 < len(executed) < 120


def test_packed_or_not_it_is_the_same_data(tmp_path: Path) -> None:
    plain = read_recordings(write(tmp_path / "a.csv", rows(20)))
    packed = read_recordings(write(tmp_path / "a.csv.gz", rows(20)))
    assert plain.questions == packed.questions
    assert plain.answers == packed.answers


def test_the_same_text_is_asked_once(tmp_path: Path) -> None:
    twice = row("q1", 42, ("41", "42", "42"))
    table = [twice, {**twice, "id": "again", f"p:{SMALL}": "43"}, *rows(3)]
    found = read_recordings(write(tmp_path / "made.csv", table))
    assert [question.id for question in found.questions] == ["q1", "q0", "q2"]
    assert found.answers[SMALL]["q1"].answer == "41"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.csv", b"id,text\n1,2\n", "no recorded answers"),
        ("a.csv", b"id,text,m:x\n1,2,maybe\n", "Line 2"),
        ("a.csv", b"id,text,m:x\n1,2\n", "Line 2"),
        ("a.csv.gz", b"not packed", "can't be read"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(
    tmp_path: Path, name: str, content: bytes, why: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=why):
        read_recordings(tmp_path / name)
