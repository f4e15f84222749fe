"""A request in a line: in columns, as wide as the terminal, harmless."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from baton.core.events import Called
from baton.core.messages import Finish, Purpose
from baton.core.sanitiser import sanitise
from baton.core.view import RunView
from baton.presentation.served_requests import request_line


def request(**fields: Any) -> Any:
    call = Called(1, "small", Purpose.ANSWER, 20, 148, 0, 0, 0, True, 1.0, 0.1, 0.0, Finish.STOP)
    made: dict[str, Any] = {
        "program": "Claude Code",
        "model": "baton/auto",
        "address": "",
        "prompt": "",
        "began": 0.0,
        "view": RunView("finished", calls=(call,), seconds=4.2),
        "status": 200,
        "failure": "",
        "is_over": True,
    }
    return SimpleNamespace(**{**made, **fields})


def test_columns_stand_below_each_other() -> None:
    lines = [request_line(request(program=name)) for name in ("curl", "日本語", "é" * 40)]
    assert {cell_len(line[: line.index("baton/auto")]) for line in lines} == {33}
    assert {cell_len(line) for line in lines} == {cell_len(lines[0])}


@pytest.mark.parametrize("cells", [20, 74, 80, 108, 200])
@given(program=st.text(), model=st.text(), failure=st.text())
def test_a_line_fits_its_terminal_and_is_harmless(
    cells: int, program: str, model: str, failure: str
) -> None:
    line = request_line(request(program=program, model=model, failure=failure, status=400), cells)
    assert sanitise(line) == line
    assert "\n" not in line
    assert len(line) <= cells


def test_in_74_cells_everything_is_there() -> None:
    assert request_line(request(), 74).endswith("20 + 148   4.2 s  free")


@pytest.mark.parametrize(
    "said",
    [
        "There is no role 'my secret'.",
        "Baton doesn't support \"it's my secret\" here; it can't.",
        r"There is no 'my \'secret\' text', isn't there?",
        "At `my secret` something is wrong.",
    ],
)
def test_what_a_reason_quotes_is_left_out(said: str) -> None:
    line = request_line(request(failure=said, status=400))
    assert "secret" not in line
    assert "400" in line
