"""What a tool can answer alone: a sum in signs and digits, a conversion, the time, what Baton is.

What matches here never reaches a model, so only unambiguous requests match. Requests in words
are for the trained conductor, which writes them as expressions. The core reads requests to choose a
tool, the tools' process to answer them.
"""

from __future__ import annotations

import ast
import re

from baton.core.lazy_loading import lazy_pattern
from baton.core.reading.request_words import alternatives, lexicon

MAX_CHARS = 200
"""A longer text is a task in words, even with numbers in it."""

MAX_SUM_CHARS = 20_000
"""A sum in signs and digits alone may be longer; the calculator says where it is too long."""

_SUM = lazy_pattern(r"(?!.*\.\.)[\d\s.,'\u2019()*/%!^+\u00d7\u00f7\u00b7\u2212\u221a²³-]+")
_FUNCTION = lazy_pattern(r"(?<![a-z])(?:sqrt|cbrt|abs)(?=\()")
_PERCENT = lazy_pattern(r"%\s*(?:of|von|de|di)\s")
_SEPARATORS = lazy_pattern(r"(?<=\d)[,'\u2019](?=\d{3}(?!\d))|%(?=\s*(?:[-+*/^)]|$))")
MATH_SIGNS = {
    **dict.fromkeys("\u00d7\u00b7\u22c5\u2219", "*"),
    **dict.fromkeys("\u00f7\u2215\u2044", "/"),
    **dict.fromkeys("\u2212\u2013", "-"),
    "\u00b2": "^2",
    "\u00b3": "^3",
}
"""Signs of sums as people write them, with those of the calculator."""

_SIGNS = str.maketrans({"\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "^": "**"})
_SIGNS |= str.maketrans({"²": "**2", "³": "**3", "!": "**1", "\u221a": "0-"})
"""Signs as Python has them, or others that stand in the same places."""
_MAX_BRACKETS = 90
"""With more of them Python's parser may give up, and the calculator does, in a sentence."""
_NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant)

_SUM_SIGN = lazy_pattern(
    r"[\d)%]\s*[+*\u00d7\u00f7\u00b7^=]|\d\s+[-/\u2212]\s+[-\u2212]?\d|[)\u221a²³]|\d!|(?<!\d{3})\d[-\u2212]{2}\d"
)
"""What a bare line needs, or else it is a date, a telephone number or 24/7."""
_NAME = lazy_pattern(
    r"9[-/]11|24/7|7[-/]11|50[-/]50|80/20|20/20|4/20|9-1-1|0-60|"
    r"4-4-2|4-3-3|4-2-3-1|3-5-2|3-4-3|5-3-2|3-2-1|\d\d?/\d\d?/\d{4}|"
    r"(?:1\d|20)\d\d-(?:1\d|20)\d\d|1-800(?:-\d+)*|\d{3}-\d{3}-\d{4}"
)
"""They look like sums, but a user who asks what they *are* means something else: a day, a shop, a
ratio, a football formation, some years, a date, a telephone number."""
_DAY = lazy_pattern(r"(?<![\d.-])[12]\d{3}-\d\d?-\d\d?(?![\d.-])")
_THOUSANDS = lazy_pattern(r"(?<![\d.,])[1-9]\d{0,2}[.,]\d{3}(?!\d)")
"""One number in English, another one where the point stands between thousands."""

UNIT = (
    r"(?:°\s?[cf]|(?:degrees? )?(?:celsius|fahrenheit)|(?-i:[CFK])|kelvin|"
    r"(?:milli|centi|kilo)?(?:met(?:er|re)|gram|lit(?:er|re))s?|meilen?|millas?|miglia|milhas?|"
    r"inch(?:es)?|foot|feet|yards?|(?:nautical )?miles?|ounces?|pounds?|tonnes?|stones?|"
    r"(?:(?:us|uk|imperial|british) )?(?:gallons?|pints?|quarts?)|"
    r"cups?|tablespoons?|teaspoons?|acres?|hectares?|seconds?|minutes?|hours?|days?|"
    r"weeks?|(?:kilo|mega|giga|tera)?bytes?|mm|cm|km|m|mi|ft|in|yd|mg|kg|g|lbs?|oz|ml|l|mph|km/h|"
    r"m/s|(?-i:[kMGT]B)|kwh|kcal)"
)
_CONVERSION = (
    rf"[-\u2212]?(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?\s*{UNIT}"
    rf"\s(?:in|to|into|nach|en|em)\s{UNIT}"
)
"""A text until it is needed: compiling it takes 3 ms of the start."""


def can_compute(tool: str, text: str) -> bool:
    """Whether a tool can answer a text alone."""
    if len(text) > MAX_SUM_CHARS or "\n" in text.strip():
        return False
    has_digit = any(sign.isdigit() for sign in text)
    if tool == "calculator":
        return has_digit and _is_sum(text)
    if len(text) > MAX_CHARS:
        return False
    match tool:
        case "units" if has_digit:
            plain = without_lead(text)[0]
            is_clear = re.match(r"[1-9]\d{0,2}\.\d{3}(?!\d)", plain) is None
            return is_clear and re.fullmatch(_CONVERSION, plain, re.IGNORECASE) is not None
        case "clock":
            return bool(clock_expression(text))
        case tool if tool == ABOUT_BATON:
            plain = _without_opening(text)
            return _is_question("model", plain) or _is_question("skills", plain)
    return False


def is_computable(text: str) -> bool:
    """Whether one of the tools can answer a text alone."""
    return any(can_compute(tool, text) for tool in ("calculator", "units", "clock", ABOUT_BATON))


def _is_sum(text: str) -> bool:
    text = _PERCENT.sub("%*", text)
    plain, language = without_lead(text)
    is_ambiguous = (
        _DAY.search(plain)
        or (_NAME.fullmatch(plain) and "=" not in text)
        or (language not in ("", "en") and _THOUSANDS.search(plain))
        or (not language and not _SUM_SIGN.search(text))
    )
    plain = _FUNCTION.sub("0+", plain)
    if is_ambiguous or not _SUM.fullmatch(plain):
        return False
    try:
        tree = ast.parse(_SEPARATORS.sub("", plain).translate(_SIGNS), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return plain.count("(") > _MAX_BRACKETS
    nodes = list(ast.walk(tree))
    is_grouped = plain.count("(") > 1
    has_operation = is_grouped or any(isinstance(node, ast.BinOp) for node in nodes)
    return has_operation and all(isinstance(node, _NODES) for node in nodes)


# The words around a bare question


def _lead_pattern() -> str:
    leads = lexicon("expressions")["leads"].items()
    return rf"(?:{'|'.join(f'(?P<{name}>{words})' for name, words in leads)})\s*:?\s"


_LEAD = lazy_pattern(_lead_pattern, re.IGNORECASE)
_TAIL = " \t=?.\uff1f\u3002"


def without_lead(text: str) -> tuple[str, str]:
    """Return a question without "what is" before it and "= ?" behind it, and the lead's language.

    The language is "" where nothing stood before it.
    """
    plain = _bare_text(text)
    if (lead := _LEAD.match(plain)) is None:
        return plain, ""
    return plain[lead.end() :].strip("` "), lead.lastgroup or ""


def clock_expression(text: str) -> str:
    """Return `now()` or `today()` for a bare question for the time or the date, else ""."""
    plain = _bare_text(text).rstrip(" !")
    asked = (name for name in ("now", "today") if _is_question(name, plain))
    return next((f"{name}()" for name in asked), "")


def _bare_text(text: str) -> str:
    return " ".join(text.split()).replace("\u2019", "'").lstrip("\u00bf").strip("` ").rstrip(_TAIL)


# What Baton itself answers


ABOUT_BATON = "baton"
"""The id of the tool that says what Baton is and can do."""


def asks_who_answers(text: str) -> bool:
    """Whether a text asks which model answers, and nothing more."""
    return _is_question("model", _without_opening(text))


def _without_opening(text: str) -> str:
    """Return a question for Baton itself without "hey," before it."""
    opening = lexicon("expressions")["opening"]
    return re.sub(rf"^{opening}", "", _bare_text(text).strip(" !"), flags=re.IGNORECASE)


def _is_question(name: str, text: str) -> bool:
    """Whether a text is one of the questions of that name in the lexicon, and nothing more."""
    questions = alternatives(lexicon("expressions")["questions"][name])
    return re.fullmatch(questions, text, re.IGNORECASE) is not None
