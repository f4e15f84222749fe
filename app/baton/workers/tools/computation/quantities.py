"""Quantities with units, by the library `pint`: the expressions of `units`.

`42 km -> mi`, `6 ft + 2 in -> cm`, `240 km / (80 km/h) -> h min`, `2 l / (330 ml)`.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, TypeVar

from baton.workers.tools.computation import CannotCompute, NoResult, numbers
from baton.workers.tools.computation.evaluator import (
    Functions,
    Result,
    Vocabulary,
    evaluate_tree,
    size_of,
)
from baton.workers.tools.computation.expression import parse_expression, token_pattern

PINT_NAMES = {
    "mm": "millimeter", "cm": "centimeter", "dm": "decimeter", "m": "meter", "km": "kilometer",
    "in": "inch", "ft": "foot", "yd": "yard", "mi": "mile", "nmi": "nautical_mile",
    "mg": "milligram", "g": "gram", "kg": "kilogram", "t": "metric_ton", "oz": "ounce",
    "lb": "pound", "st": "stone",
    "ml": "milliliter", "cl": "centiliter", "dl": "deciliter", "l": "liter", "m3": "meter ** 3",
    "tsp": "teaspoon", "tbsp": "tablespoon", "cup": "cup", "floz": "fluid_ounce", "pt": "pint",
    "qt": "quart", "gal": "gallon",
    "ifloz": "imperial_fluid_ounce", "ipt": "imperial_pint", "iqt": "imperial_quart",
    "igal": "imperial_gallon", "ston": "short_ton", "lton": "long_ton",
    "mm2": "millimeter ** 2", "cm2": "centimeter ** 2", "m2": "meter ** 2",
    "km2": "kilometer ** 2", "ha": "hectare", "a": "are", "acre": "acre", "ft2": "foot ** 2",
    "yd2": "yard ** 2", "mi2": "mile ** 2", "in2": "inch ** 2",
    "kn": "knot", "mph": "mile / hour",
    "C": "degree_Celsius", "F": "degree_Fahrenheit", "K": "kelvin",
    "ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day", "w": "week",
    "mo": "month", "y": "year",
    "bit": "bit", "kbit": "kilobit", "Mbit": "megabit", "Gbit": "gigabit",
    "B": "byte", "kB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte",
    "KiB": "kibibyte", "MiB": "mebibyte", "GiB": "gibibyte",
    "J": "joule", "kJ": "kilojoule", "cal": "calorie", "kcal": "kilocalorie", "Wh": "watt_hour",
    "kWh": "kilowatt_hour", "W": "watt", "kW": "kilowatt", "hp": "horsepower",
    "PS": "metric_horsepower",
    "Pa": "pascal", "hPa": "hectopascal", "kPa": "kilopascal", "bar": "bar", "psi": "psi",
    "atm": "atmosphere", "deg": "degree", "rad": "radian",
    "mpg": "mile / gallon", "l/100km": "liter_per_100_km",
}  # fmt: skip
"""Unit codes of the plan language, as pint names them."""

_CODE = "|".join(sorted(map(re.escape, PINT_NAMES), key=len, reverse=True))
_UNIT = rf"(?:{_CODE})(?:/(?:{_CODE}))?(?![\w/])"
_TOKEN = token_pattern(units=_UNIT)
_TARGET = re.compile(_UNIT)


@dataclass(frozen=True, slots=True)
class Amount:
    """The result of a conversion: numbers with unit codes, the largest unit first."""

    parts: tuple[tuple[Fraction, str], ...]
    source: str = ""


def evaluate_quantities(text: str, names: Mapping[str, Any]) -> Result:
    """Return the value of a `units` expression: an Amount, or a number. Raises CannotCompute."""
    source, arrow, target = text.partition("->")
    words = Vocabulary(_FUNCTIONS, {**numbers.NAMED_CONSTANTS, **names}, _OPERATORS)
    value = numbers.plain_number(evaluate_tree(parse_expression(source, _TOKEN), words).value)
    if not arrow:
        return Result(_without_unit(value))
    codes = target.split()
    if not 1 <= len(codes) <= 3 or not all(_TARGET.fullmatch(code) for code in codes):
        raise CannotCompute("This names no unit to convert to.")
    if not hasattr(value, "to"):  # a number, a percentage, or a function that isn't called
        raise CannotCompute("There is nothing to convert.")
    return Result(Amount(_split(value, codes), source.strip()))


_Value = TypeVar("_Value")


def _bounded(value: _Value) -> _Value:
    """Return a number, or a quantity of units to powers that can be converted."""
    size_of(value)
    powers = value.unit_items() if hasattr(value, "unit_items") else ()
    if any(abs(power) > MAX_UNIT_POWER for _, power in powers):
        raise NoResult("too_large")
    return value


MAX_UNIT_POWER = 36
"""The highest power of a unit: its factor is raised to that power."""

_OPERATORS: Functions = {
    **numbers.OPERATORS,
    "*": lambda left, right: _bounded(numbers.OPERATORS["*"](left, right)),
    "/": lambda left, right: _bounded(numbers.OPERATORS["/"](left, right)),
    "^": lambda base, exponent: _bounded(numbers.power(base, exponent)),
}


def _without_unit(value: Any) -> Fraction:
    if isinstance(value, Fraction):
        return _bounded(value)
    if not getattr(value, "dimensionless", False):
        raise CannotCompute("This names no unit to convert to.")
    return _bounded(Fraction(value.to("dimensionless").magnitude))


def _split(value: Any, codes: list[str]) -> tuple[tuple[Fraction, str], ...]:
    """Return a quantity in units: whole numbers of all but the last."""
    parts = []
    left = _convert(value, codes[0])
    for position, code in enumerate(codes[:-1]):
        whole = Fraction(int(left))
        parts.append((whole, code))
        rest = left - whole
        left = _convert(_registry().Quantity(rest, _unit(code)), codes[position + 1])
    return (*parts, (left, codes[-1]))


def _convert(value: Any, code: str) -> Fraction:
    import pint

    try:
        return _bounded(Fraction(value.to(_unit(code)).magnitude))
    except pint.errors.DimensionalityError as error:
        if (value.units**-1).dimensionality != _unit(code).dimensionality:
            raise CannotCompute("These units measure different things.") from error
        if not value.magnitude:
            raise NoResult("by_zero") from error
        inverse = 1 / value  # litres for 100 km into miles per gallon
        return _bounded(Fraction(inverse.to(_unit(code)).magnitude))


def _dimensionless(value: Any) -> Any:
    """Return a ratio of two quantities as a number, so that it can be rounded."""
    return value if isinstance(value, Fraction) else _without_unit(value)


def _quantity(amount: Any, code: str) -> Any:
    amount = numbers.plain_number(amount)
    if not isinstance(amount, Fraction):  # an earlier result that is a date, or has several parts
        raise CannotCompute("Only a number can have a unit.")
    return _registry().Quantity(amount, _unit(code))


_FUNCTIONS: Functions = {
    "quantity": _quantity,
    "unit": lambda code: _quantity(Fraction(1), code),
    "percent": numbers.FUNCTIONS["percent"],
    "sqrt": numbers.FUNCTIONS["sqrt"],
    "floor": lambda value: numbers.FUNCTIONS["floor"](_dimensionless(value)),
    "ceil": lambda value: numbers.FUNCTIONS["ceil"](_dimensionless(value)),
    "round": lambda value, digits=Fraction(0): numbers.FUNCTIONS["round"](
        _dimensionless(value), digits
    ),
}


@cache
def _unit(code: str) -> Any:
    if code in PINT_NAMES:
        return _registry().Unit(PINT_NAMES[code])
    over, _, under = code.partition("/")
    return _unit(over) / _unit(under)


def _registry() -> Any:
    with _LOADING:  # steps are computed in threads, and two registries don't go together
        return _loaded_registry()


_LOADING = threading.Lock()


@cache
def _loaded_registry() -> Any:
    # pint takes up numpy and its kin where they are installed, which costs time and gives nothing;
    # and native code must not get into the front.
    others = ("numpy", "babel", "uncertainties", "dask", "xarray", "pandas")
    hidden = [name for name in others if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        import pint
    finally:
        for name in hidden:
            del sys.modules[name]

    registry: Any = pint.UnitRegistry(
        non_int_type=Fraction, autoconvert_offset_to_baseunit=True, cache_folder=None
    )
    registry.define("liter_per_100_km = liter / (100 * kilometer)")
    return registry
