"""The lines in which the small conductor writes a plan."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st
from plan_format import format_lines

from baton.core.errors import PlanError
from baton.core.plan_types import KINDS, MAX_DRAWN_STEPS, Need
from baton.core.planning.plan_lines import PlanPart, parse_lines


def test_lines_are_parts() -> None:
    text = "calc: 17*23\ntranslation1: Translate 'hi' to German\nwriting2: a haiku on it <- 2"
    assert parse_lines(text) == (
        PlanPart("17*23", "calculator", Need("calculation", 1)),
        PlanPart("Translate 'hi' to German", "", Need("translation", 1)),
        PlanPart("a haiku on it", "", Need("writing", 2), (2,)),
    )
    assert parse_lines("chat1: *")[0].is_whole_request


def test_a_reference_is_an_input_whether_it_is_named_or_not() -> None:
    assert parse_lines("calc: 1+1\ncalc: #1/4")[1].inputs == (1,)
    assert parse_lines("calc: 1+1\ncalc: 2+2\ncalc: #1/4 <- 2")[2].inputs == (1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "calc 1+1",
        "nonsense1: hello",
        "chat6: hello",
        "chat1: ",
        "calc: #1 + 1",
        "chat1: a <- 1",
        "chat1: a\nchat1: b <- 2",
        "chat1: *\ncalc: 1+1",
        "chat1: " + "a" * 500,
        "\n".join(["chat1: a"] * (MAX_DRAWN_STEPS + 1)),
    ],
)
def test_what_is_not_a_plan_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        parse_lines(text)


TEXTS = st.text("abc xyz0123+*?", min_size=1, max_size=30).map(str.strip).filter(bool)
TEXTS = TEXTS.filter(lambda text: text != "*")


@st.composite
def plans(draw: st.DrawFn) -> tuple[PlanPart, ...]:
    parts = []
    for number in range(draw(st.integers(1, MAX_DRAWN_STEPS))):
        inputs = draw(st.sets(st.integers(1, number))) if number else set()
        if draw(st.booleans()):
            tool = draw(st.sampled_from(("calculator", "units", "clock")))
            need = Need("calculation", 1)
        else:
            tool, need = "", Need(draw(st.sampled_from(KINDS)), draw(st.integers(1, 5)))
        parts.append(PlanPart(draw(TEXTS), tool, need, tuple(sorted(inputs))))
    return tuple(parts)


@given(plans())
def test_what_is_written_can_be_read(parts: tuple[PlanPart, ...]) -> None:
    assert parse_lines(format_lines(parts)) == parts


@given(st.text(max_size=200))
def test_any_text_is_a_plan_or_refused(text: str) -> None:
    with suppress(PlanError):
        assert len(parse_lines(text)) <= MAX_DRAWN_STEPS
