"""The bounds of computing: no sum may hold up the app, however it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from baton.workers.tools.computation import CannotCompute, evaluate, numbers
from baton.workers.tools.computation.evaluator import (
    CALL_WORK,
    MAX_BITS,
    MAX_WORK,
    Percent,
)

LARGE = (
    "1e999", "1e-999", "9" * 300, "(7^3330/6^3330)", "(5^3330/7^3330)", "fact(500)", "2^99.5",
    "npr(1e6, 490)", "(1/3^900)", "999962000357", "1e15", "97%", "0.1", "(-2)", "1/7",
)  # fmt: skip
IRRATIONAL = ("sqrt", "cbrt", "ln", "log", "log2", "exp", "sin", "tan")


def combined_expressions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=1, max_size=30)
    return st.one_of(
        st.builds("{} {} {}".format, inner, st.sampled_from("+-*/^"), inner),
        st.builds(lambda sign, values: f"({sign.join(values)})", st.sampled_from("+-*/^"), several),
        st.builds(
            lambda function, values: f"{function}({', '.join(values)})",
            st.sampled_from(sorted(numbers.FUNCTIONS)),
            several,
        ),
        st.builds(lambda value, count: "+".join([value] * count), inner, st.integers(2, 60)),
    )


EXPRESSIONS = st.recursive(st.sampled_from(LARGE), combined_expressions, max_leaves=8)


class SizeRecorder:
    """Notes the sizes of all numbers that operators and functions are given and return."""

    def __init__(self) -> None:
        self.largest = 0
        self.operations: list[int] = []
        self.irrational = 0

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*values: Any) -> Any:
            sizes = [bits for value in values for bits in sizes_of(value)]
            self.largest = max(self.largest, *sizes, 0)
            self.operations.append(sum(sizes) ** 2)
            self.irrational += name in IRRATIONAL
            return function(*values)

        return watched


def sizes_of(value: Any) -> list[int]:
    number = value.number if isinstance(value, Percent) else value
    if not isinstance(number, Fraction):
        return []
    return [number.numerator.bit_length(), number.denominator.bit_length()]


@contextmanager
def watched_numbers() -> Iterator[SizeRecorder]:
    watched = SizeRecorder()
    with pytest.MonkeyPatch.context() as patch:
        for table in (numbers.FUNCTIONS, numbers.OPERATORS):
            for name, function in table.items():
                patch.setitem(table, name, watched.wrap(name, function))
        yield watched


@settings(max_examples=150)
@given(EXPRESSIONS)
def test_no_expression_costs_more_than_ten_operations_of_the_largest_size(text: str) -> None:
    with watched_numbers() as watched:
        found: Any = None
        with suppress(CannotCompute):
            found = evaluate("calc", text).value
    assert max([watched.largest, *sizes_of(found)]) <= MAX_BITS
    # What an operation is given was counted when it was made: each operand by itself, of which
    # it has two; a function's arguments are counted again.
    assert sum(watched.operations) <= 4 * MAX_WORK
    assert watched.irrational <= MAX_WORK // CALL_WORK


@pytest.mark.parametrize(
    "text",
    [
        "2^9999 * 2^9999",
        "+".join(["(7^3330/6^3330)"] * 60),
        "+".join(["ln(2)"] * 100),
        "*".join(["1e999"] * 160),
        "sum(" + ", ".join(f"1/{n}^160" for n in range(3, 90)) + ")",
        "1e300^333.5",
        ".5 ^ (e^31)",
        "cbrt(fact(500)^2.5)",
    ],
)
def test_what_would_take_long_is_refused(text: str) -> None:
    with pytest.raises(CannotCompute, match=r"too large|too long"):
        evaluate("calc", text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("+".join(["0.1"] * 160), 16),
        ("avg(" + ", ".join(["7"] * 300) + ")", 7),
        ("factors(999962000357)[0]", CannotCompute),
        ("2^4999 / 2^4998", 2),
        ("cbrt(7^900)", 7**300),
        ("root(3^4900, 100)", 3**49),
    ],
)
def test_what_people_compute_is_within_the_bounds(text: str, value: Any) -> None:
    if value is CannotCompute:
        with pytest.raises(CannotCompute):
            evaluate("calc", text)
    else:
        assert evaluate("calc", text).value == value


@given(st.integers(2, 10**12))
def test_factors_are_prime_and_their_product_is_the_number(number: int) -> None:
    product = 1
    for factor in numbers.factors(Fraction(number)):
        assert numbers.is_prime(Fraction(factor))
        product *= factor
    assert product == number


@given(st.integers(0, 10**30), st.integers(3, 100))
def test_an_exact_root_is_found(base: int, degree: int) -> None:
    if (base**degree).bit_length() <= MAX_BITS:
        assert numbers.root(Fraction(base**degree), Fraction(degree)) == base


def test_powers_of_units_are_bounded() -> None:
    for text in (
        "(" * 9 + "9 km" + ")^6" * 9 + " -> m",
        "((1 km)^6)^6 * ((1 km)^6)^6 / (((1 m)^6)^6 * ((1 m)^6)^6)",
    ):
        with pytest.raises(CannotCompute):
            evaluate("units", text)
