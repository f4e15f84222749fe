"""Conversion between units of measure, exactly, by the library `pint`.

It is imported with the first conversion: it takes half a second to read its definitions. Names are
looked up one by one and put together here, because pint's own parser would also compute.
"""

from __future__ import annotations

import re
import sys
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from baton.children.exact import CannotCompute

if TYPE_CHECKING:
    import pint

_LONGEST = 60
_SYNONYMS = {
    "c": "degC",
    "f": "degF",
    "k": "kelvin",
    "°c": "degC",
    "°f": "degF",
    "celsius": "degC",
    "fahrenheit": "degF",
    "degrees celsius": "degC",
    "degrees fahrenheit": "degF",
    "degree celsius": "degC",
    "degree fahrenheit": "degF",
    "degrees c": "degC",
    "degrees f": "degF",
    "grad celsius": "degC",
    "grad fahrenheit": "degF",
    "kmh": "km/h",
    "kph": "km/h",
    "mph": "mile/hour",
    "mpg": "mile/gallon",
    "km/h": "km/hour",
    "sq ft": "foot^2",
    "sqft": "foot^2",
    "sq m": "m^2",
    "lbs": "lb",
    "fl oz": "floz",
    "fluid ounces": "floz",
    "fluid ounce": "floz",
    "nautical miles": "nautical_mile",
    "light years": "light_year",
    "light-years": "light_year",
    "feet": "foot",
    "stones": "stone",
    "meilen": "mile",
    "meile": "mile",
    "kilometer": "km",
    "stunden": "hour",
    "stunde": "hour",
    "minuten": "minute",
    "sekunden": "second",
    "pfund": "lb",
    "h": "hour",
    "j": "joule",
    "kj": "kilojoule",
    "w": "watt",
    "kw": "kilowatt",
    "wh": "watt_hour",
    "kwh": "kilowatt_hour",
    "hz": "hertz",
    "khz": "kilohertz",
    "mhz": "megahertz",
    "ghz": "gigahertz",
    "pa": "pascal",
    "kpa": "kilopascal",
    "v": "volt",
    "kb": "kilobyte",
    "mb": "megabyte",
    "gb": "gigabyte",
    "tb": "terabyte",
    "min": "minute",
    '"': "inch",
}
_BITS = {"kb": "kilobyte", "Kb": "kilobit", "Mb": "megabit", "Gb": "gigabit", "Tb": "terabit"}
"""Here capitals tell."""

_PART = re.compile(r"\s*([*/]?)\s*([a-zµμ°Ω_]+)\s*(?:\^?\s*(-?[1-9]|[²³]))?\s*", re.IGNORECASE)


def is_unit(text: str) -> bool:
    """Tell whether a text names a unit of measure."""
    try:
        _unit(text)
    except CannotCompute:
        return False
    return True


def convert(amount: Fraction, unit: str, target: str) -> Fraction:
    """Return the amount in other units. Raises CannotCompute."""
    import pint

    try:
        quantity = _registry().Quantity(amount, _unit(unit)).to(_unit(target))
    except pint.errors.DimensionalityError as error:
        raise CannotCompute(f"{unit} can't be converted to {target}.") from error
    return Fraction(quantity.magnitude)


def _unit(text: str) -> pint.Unit:
    """Return the unit of that name, in any product or quotient of names and small powers."""
    name = " ".join(text.strip(" .?").split())
    if not name or len(name) > _LONGEST:
        raise CannotCompute("This is no unit.")
    name = _BITS.get(name) or _SYNONYMS.get(name.lower(), name)
    name = re.sub(
        r"\bper\b", "/", re.sub(r"\bsquared?\s+(\w+)", r"\1^2", name, flags=re.IGNORECASE)
    )
    name = re.sub(r"\bcubic\s+(\w+)", r"\1^3", name, flags=re.IGNORECASE)
    if " " in name and re.fullmatch(r"[a-z ]+", name, re.IGNORECASE):
        return _named(name.replace(" ", "_"))
    whole: Any = None
    position = 0
    while position < len(name):
        match = _PART.match(name, position)
        if match is None or (whole is None) == bool(match[1]):
            raise CannotCompute("This is no unit.")
        one = _named(match[2]) ** int({"²": "2", "³": "3"}.get(match[3], match[3] or "1"))
        whole = one if whole is None else (whole / one if match[1] == "/" else whole * one)
        position = match.end()
    found: pint.Unit = whole
    return found


@cache
def _named(name: str) -> pint.Unit:
    import pint

    known = _BITS.get(name) or _SYNONYMS.get(name.lower(), name)
    for spelling in dict.fromkeys((known, known.lower())):
        try:
            if "/" not in spelling:
                return _registry().Unit(spelling)
        except (pint.errors.UndefinedUnitError, pint.errors.DefinitionSyntaxError, ValueError):
            continue
    raise CannotCompute("This is no unit.")


@cache
def _registry() -> pint.UnitRegistry[Any]:
    # pint takes up numpy and its kin where they are installed, which costs time and gives nothing.
    for name in ("numpy", "babel", "uncertainties", "dask", "xarray", "pandas"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    import pint

    return pint.UnitRegistry(
        non_int_type=Fraction, autoconvert_offset_to_baseunit=True, cache_folder=None
    )
