"""Fills the slots of a template: a surface, as a user types it, and its literal in the plan."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction

from baton.workers.tools.computation.lexicon import WEEKDAYS, lexicon
from baton.workers.tools.computation.numbers import roman

DIMENSIONS = {
    "length": "km mi m ft cm in yd mm nmi km mi m ft cm in",
    "mass": "kg lb g oz kg lb g oz t st mg",
    "volume": "l ml gal cup tbsp tsp floz cl dl pt qt m3 l ml gal",
    "area": "m2 ft2 ha acre km2 mi2 cm2 yd2 m2 ft2 ha acre",
    "speed": "km/h mph m/s kn km/h mph",
    "temp": "C F C F C F K",
    "time": "min h s d w min h s",
    "data": "MB GB TB kB MB GB B bit Mbit Gbit kbit MiB GiB KiB",
    "energy": "kcal kJ kWh J Wh cal kcal kJ",
    "power": "kW hp W kW hp",
    "pressure": "bar psi hPa Pa kPa atm bar psi",
    "angle": "deg rad",
}

NUMBER_WORDS = {
    "en": "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety",
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn"
    " sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig"
    " neunzig",
    "fr": "deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
    " dix-sept dix-huit dix-neuf vingt trente quarante cinquante soixante soixante-dix"
    " quatre-vingts quatre-vingt-dix",
    "es": "dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince"
    " dieciséis diecisiete dieciocho diecinueve veinte treinta cuarenta cincuenta sesenta setenta"
    " ochenta noventa",
    "it": "due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici"
    " quindici sedici diciassette diciotto diciannove venti trenta quaranta cinquanta sessanta"
    " settanta ottanta novanta",
    "pt": "dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis"
    " dezessete dezoito dezenove vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
}
"""From 2 to 20, then the tens to 90."""

AND = {"en": " and ", "de": " und ", "fr": " et ", "es": " y ", "it": " e ", "pt": " e "}
PER_CENTS = (5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90, 19, 7, 21, 18, 12, 3, 8, 35)
BROKEN_PER_CENTS = ("7.5", "2.5", "12.5", "4.9", "0.5", "17.5", "3.75", "8.25", "5.5")

FilledTemplate = tuple[str, str]


def fill_slot(kind: str, language: str, rng: random.Random) -> FilledTemplate | None:
    """Return a slot's surface and its literal; None for a kind that an author's list fills."""
    name, _, dimension = kind.partition(".")
    if name == "q":
        return _quantity(rng.choice(DIMENSIONS[dimension].split()), language, rng)
    if name == "u":
        code = rng.choice(DIMENSIONS[dimension].split())
        return _unit(code, language, rng, True), code
    return _KINDS[name](language, rng) if name in _KINDS else None


def _number(language: str, rng: random.Random) -> FilledTemplate:
    return (_any_integer if rng.random() < 0.7 else _any_decimal)(language, rng)


def _any_integer(language: str, rng: random.Random) -> FilledTemplate:
    return _integer(round(10 ** rng.uniform(0.31, 4)), language, rng)


def _small(language: str, rng: random.Random) -> FilledTemplate:
    return _integer(rng.randint(2, 12), language, rng, 0.35)


def _big(language: str, rng: random.Random) -> FilledTemplate:
    return _integer(rng.randint(10, 999) * 10 ** rng.randint(2, 4), language, rng)


def _any_decimal(language: str, rng: random.Random) -> FilledTemplate:
    amount = rng.choice((10, 100, 1000)) * rng.random()
    return _decimal(f"{amount:.{rng.choice((1, 1, 2, 2, 3))}f}", language, rng)


def _percent(language: str, rng: random.Random) -> FilledTemplate:
    if rng.random() < 0.15:
        return _decimal(rng.choice(BROKEN_PER_CENTS), language, rng)
    value = rng.choice(PER_CENTS) if rng.random() < 0.7 else rng.randint(1, 99)
    return _integer(value, language, rng, 0.05)


def _year(_: str, rng: random.Random) -> FilledTemplate:
    year = str(rng.randint(1900, 2040))
    return year, year


def _month_of_year(language: str, rng: random.Random) -> FilledTemplate:
    number, year = rng.randint(1, 12), rng.randint(1990, 2035)
    of = {"es": " de ", "pt": " de "}.get(language, " ")
    return f"{_month(number, language, rng)}{of}{year}", f"{year}-{number:02}"


def _list(language: str, rng: random.Random) -> FilledTemplate:
    kinds = (_any_integer, _any_integer, _small, _any_decimal)
    items = [rng.choice(kinds)(language, rng) for _ in range(rng.randint(3, 6))]
    with_commas = any("," in surface for surface, _ in items)
    comma = "; " if with_commas and rng.random() < 0.5 else ", "
    last = AND[language] if rng.random() < 0.6 else comma
    surface = comma.join(surface for surface, _ in items[:-1]) + last + items[-1][0]
    return surface, ", ".join(literal for _, literal in items)


def _roman(_: str, rng: random.Random) -> FilledTemplate:
    ranges = ((2, 60), (1, 3999), (1800, 2030))
    numeral = roman(Fraction(rng.randint(*rng.choice(ranges))))
    return numeral, numeral


def _binary(_: str, rng: random.Random) -> FilledTemplate:
    digits = f"{rng.randint(2, 255):b}"
    return digits, f"0b{digits}"


def _hexadecimal(_: str, rng: random.Random) -> FilledTemplate:
    digits = f"{rng.randint(10, 65535):x}"
    prefix = "0x" if digits.isdecimal() else rng.choice(("0x", "", ""))
    return prefix + rng.choice((digits, digits.upper())), f"0x{digits}"


def _city(language: str, rng: random.Random) -> FilledTemplate:
    city = rng.choice(list(lexicon(language).cities))
    return city, city


def _weekday(language: str, rng: random.Random) -> FilledTemplate:
    index = rng.randrange(7)
    forms = lexicon(language).weekdays[index]
    return rng.choice(forms[:2] if rng.random() < 0.3 else forms[:1]), WEEKDAYS[index]


def _holiday(language: str, rng: random.Random) -> FilledTemplate:
    holidays = lexicon(language).holidays
    holiday = rng.choice(list(holidays))
    return rng.choice(holidays[holiday][:3]), holiday


def _integer(value: int, language: str, rng: random.Random, worded: float = 0.1) -> FilledTemplate:
    value = max(2, value)
    if value <= 100 and rng.random() < worded:
        return _in_words(value, language), str(value)
    if value >= 1000 and rng.random() < 0.4:
        words = lexicon(language)
        separator = rng.choice(
            words.thousands[:1]
            if rng.random() < 0.8
            else ("\u00a0",)
            if language != "en"
            else (",",)
        )
        return f"{value:,}".replace(",", separator), str(value)
    return str(value), str(value)


def _in_words(value: int, language: str) -> str:
    """Return a number's word, and its digits where it is none of the simple ones."""
    words = NUMBER_WORDS[language].split()
    if value <= 20:
        return words[value - 2]
    return words[value // 10 + 16] if value % 10 == 0 and value < 100 else str(value)


def _decimal(text: str, language: str, rng: random.Random) -> FilledTemplate:
    sign = lexicon(language).decimal if rng.random() < 0.93 else "."
    return text.replace(".", sign), text


def _money(language: str, rng: random.Random) -> FilledTemplate:
    amount = 10 ** rng.uniform(0.3, 3.5)
    if rng.random() < 0.5:
        surface, literal = _decimal(f"{amount:.2f}", language, rng)
    else:
        surface, literal = _integer(
            max(2, round(amount, rng.choice((0, 0, -1)))).__int__(), language, rng, 0.03
        )
    words = lexicon(language)
    code = rng.choice(
        {
            "en": ("USD", "USD", "GBP", "EUR"),
            "de": ("EUR", "EUR", "EUR", "CHF"),
            "fr": ("EUR",),
            "es": ("EUR", "EUR", "MXN"),
            "it": ("EUR",),
            "pt": ("BRL", "EUR", "EUR"),
        }[language]
    )
    forms = [form for form in words.currencies.get(code, ("€",)) if form]
    form = rng.choice(forms[:3])
    if form in ("$", "£", "R$", "US$") or (form == "€" and language == "en"):
        return form + (" " if form == "R$" else "") + surface, literal
    return f"{surface} {form}" if rng.random() < 0.8 or len(form) > 1 else surface + form, literal


def _month(number: int, language: str, rng: random.Random) -> str:
    forms = lexicon(language).months[number - 1]
    return forms[0] if rng.random() < 0.85 else rng.choice(forms[:3])


def _some_day(rng: random.Random) -> date:
    year = rng.choice((rng.randint(1940, 2010), rng.randint(2015, 2030), rng.randint(2020, 2028)))
    return date(year, 1, 1) + timedelta(rng.randrange(365))


def _written_day(day: date, language: str, rng: random.Random) -> str:
    month, number = _month(day.month, language, rng), day.day
    match language:
        case "en":
            suffix = (
                "th" if 10 < number < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
            )
            ordinal = f"{number}{suffix}" if rng.random() < 0.4 else str(number)
            return rng.choice(
                (
                    f"{month} {ordinal}",
                    f"{month} {ordinal}",
                    f"{ordinal} {month}",
                    f"{number}{suffix} of {month}",
                )
            )
        case "de":
            return f"{number}. {month}"
        case "fr":
            return f"{'1er' if number == 1 else number} {month}"
        case "it":
            return f"{number} {month}"
        case "pt" if number == 1:
            return f"1º de {month}"
    return f"{number} de {month}"


def _date(language: str, rng: random.Random) -> FilledTemplate:
    day = _some_day(rng)
    if rng.random() < 0.3:
        short = {
            "en": (f"{day.month}/{day.day}/{day.year}",) if day.day > 12 else (f"{day:%Y-%m-%d}",),
            "de": (
                f"{day.day}.{day.month}.{day.year}",
                f"{day:%d.%m.%Y}",
                f"{day.day}.{day.month}.{day:%y}",
            ),
        }.get(language, (f"{day:%d/%m/%Y}", f"{day.day}/{day.month}/{day.year}"))
        return rng.choice((*short, day.isoformat())), day.isoformat()
    glue = {"en": rng.choice((", ", " ")), "es": rng.choice((" de ", " del ")), "pt": " de "}.get(
        language, " "
    )
    return _written_day(day, language, rng) + glue + str(day.year), day.isoformat()


def _day(language: str, rng: random.Random) -> FilledTemplate:
    day = _some_day(rng)
    if language == "de" and rng.random() < 0.25:
        return f"{day.day}.{day.month}.", f"{day:%m-%d}"
    return _written_day(day, language, rng), f"{day:%m-%d}"


def _time(language: str, rng: random.Random) -> FilledTemplate:
    hour = rng.choice((rng.randint(5, 23), rng.randint(0, 23)))
    minute = rng.choice((0, 0, 0, 15, 30, 45, rng.randrange(60), 5 * rng.randrange(12)))
    literal = f"{hour:02}:{minute:02}"
    plain = rng.choice((literal, f"{hour}:{minute:02}"))
    match language:
        case "en":
            half = (
                rng.choice(("am", "AM", " am", "a.m."))
                if hour < 12
                else rng.choice(("pm", "PM", " pm", "p.m."))
            )
            twelve = hour % 12 or 12
            written = f"{twelve}{half}" if minute == 0 else f"{twelve}:{minute:02}{half}"
            return (written if rng.random() < 0.65 else plain), literal
        case "de":
            if minute == 0 and rng.random() < 0.6:
                return f"{hour} Uhr", literal
            return rng.choice(
                (f"{plain} Uhr", plain, f"{hour} Uhr {minute:02}" if minute > 9 else plain)
            ), literal
        case "fr" | "pt":
            if minute == 0 and language == "fr" and rng.random() < 0.3:
                return f"{hour} h 00", literal
            return rng.choice((f"{hour}h{minute:02}", plain)), literal
    return plain, literal


def _duration(language: str, rng: random.Random) -> FilledTemplate:
    hours, minutes = (
        rng.randint(1, 12),
        rng.choice((5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, rng.randint(1, 59))),
    )
    glue = {"en": " and ", "de": " und ", "fr": " et ", "es": " y ", "it": " e ", "pt": " e "}[
        language
    ]
    glue = rng.choice((glue, glue, " ", ", "))
    style = rng.random()
    if style < 0.35:
        return f"{minutes} {_unit('min', language, rng, minutes != 1)}", f"{minutes} min"
    if style < 0.5:
        return f"{hours} {_unit('h', language, rng, hours != 1)}", f"{hours} h"
    if style < 0.6:
        return f"{hours}h {minutes}min", f"{hours} h + {minutes} min"
    in_hours = f"{hours} {_unit('h', language, rng, hours != 1)}"
    in_minutes = f"{minutes} {_unit('min', language, rng, minutes != 1)}"
    return in_hours + glue + in_minutes, f"{hours} h + {minutes} min"


def _unit(code: str, language: str, rng: random.Random, plural: bool) -> str:
    forms = lexicon(language).units.get(code, (code, code))
    if rng.random() < 0.3:
        short = [form for form in (*forms[2:], code) if len(form) <= 5]
        if short:
            return rng.choice(short)
    return forms[1 if plural and len(forms) > 1 else 0]


def _quantity(code: str, language: str, rng: random.Random) -> FilledTemplate:
    if code in ("C", "F", "K"):
        surface, literal = (
            str(value := rng.randint(-20 if code == "C" else 0, 450 if code == "F" else 250)),
            "",
        )
        literal = surface
        if value < 0:
            surface = rng.choice(("-", "\u2212", "-")) + str(-value)
        unit = _unit(code, language, rng, True)
        return (
            f"{surface} {unit}"
            if rng.random() < 0.7
            else f"{surface}{unit if unit.startswith('°') else ' ' + unit}",
            f"{literal} {code}",
        )
    kind = rng.choices(("int", "small", "dec", "dec1"), (4, 2, 2, 2))[0]
    if kind == "dec1":
        surface, literal = _decimal(f"{rng.uniform(0.2, 30):.1f}", language, rng)
    else:
        surface, literal = _KINDS[kind](language, rng)
    unit = _unit(code, language, rng, literal != "1")
    tight = len(unit) <= 3 and surface[-1].isdigit() and rng.random() < 0.5
    return f"{surface}{'' if tight else ' '}{unit}", f"{literal} {code}"


_KINDS: dict[str, Callable[[str, random.Random], FilledTemplate]] = {
    "num": _number,
    "int": _any_integer,
    "small": _small,
    "big": _big,
    "dec": _any_decimal,
    "pct": _percent,
    "money": _money,
    "year": _year,
    "date": _date,
    "day": _day,
    "month": _month_of_year,
    "time": _time,
    "dur": _duration,
    "list": _list,
    "roman": _roman,
    "bin": _binary,
    "hexa": _hexadecimal,
    "city": _city,
    "weekday": _weekday,
    "holiday": _holiday,
}
