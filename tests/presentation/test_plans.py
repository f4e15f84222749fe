"""A plan's steps as a tree, whatever its shape."""

from __future__ import annotations

from hypothesis import given, strategies as st

from baton.core.plan_types import MAX_STEPS, Step
from baton.presentation.plans import plan_tree


def drawn(*inputs: tuple[int, ...], columns: int = 40) -> list[str]:
    """Draw steps of which each sees some earlier ones."""
    steps = [Step("small", "Do it.", tuple(map(str, seen)) or ("prompt",)) for seen in inputs]
    return [f"{branch.stem}{branch.number}" for branch in plan_tree(steps, columns)]


def test_steps_stand_under_what_they_see() -> None:
    assert drawn((), (), (1,), (1, 2, 3)) == ["┬─ 1", "│  └─ 3", "├─ 2", "└─────── 4"]
    assert drawn(()) == ["── 1"]
    assert drawn((), (1,), (2,)) == ["── 1", "   └─ 2", "      └─ 3"]
    assert drawn((), (1,), (1,), (2, 3)) == ["── 1", "   ├─ 2", "   ├─ 3", "   └──── 4"]


def test_the_steps_that_one_joins_are_named() -> None:
    steps = [Step("small", "Do it.", seen) for seen in (("prompt",), ("1",), ("1", "2"))]
    assert [branch.joins for branch in plan_tree(steps, 40)] == [(), (), (1, 2)]


def test_a_long_chain_is_drawn_narrower_and_then_cut_at_its_left() -> None:
    chain = [(), *((number,) for number in range(1, MAX_STEPS))]
    assert drawn(*chain, columns=33)[-1] == f"{' ' * 31}└ 32"
    assert drawn(*chain, columns=8)[-1] == "…     └ 32"


@st.composite
def all_inputs(draw: st.DrawFn) -> list[tuple[int, ...]]:
    count = draw(st.integers(1, MAX_STEPS))
    return [
        tuple(sorted(draw(st.sets(st.integers(1, number - 1), max_size=4)))) if number > 1 else ()
        for number in range(1, count + 1)
    ]


@given(all_inputs(), st.integers(1, 80))
def test_every_step_is_there_once_below_what_it_sees(
    inputs: list[tuple[int, ...]], columns: int
) -> None:
    steps = [Step("small", "Do it.", tuple(map(str, seen)) or ("prompt",)) for seen in inputs]
    branches = plan_tree(steps, columns)
    order = [branch.number for branch in branches]
    assert sorted(order) == list(range(1, len(steps) + 1))
    for branch in branches:
        assert all(order.index(n) < order.index(branch.number) for n in inputs[branch.number - 1])
        assert max(len(branch.stem), len(branch.below)) <= max(4, columns)
