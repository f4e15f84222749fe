"""The calculator: a question in, an exact answer out.

It answers only where all of the question is understood: a story with numbers in it is refused.
"""

from __future__ import annotations

import re
from fractions import Fraction

from baton.children.arithmetic import Value, evaluate, read_number, shown
from baton.children.asked import questions
from baton.children.exact import CannotCompute

MOST_QUESTION = 1200
"""A question of more characters isn't arithmetic."""

MOST_CLAIMS = 500
"""How many claims are judged at once."""

_POLITE = (
    r"please|bitte|por favor|s'il (?:te|vous) pla[iî]t|per favore|hi|hello|hey"
    r"|now|then|just|exactly"
)
_LEAD = re.compile(
    r"^[\s¿]*(?:(?:" + _POLITE + r")[,:!]?\s+)*"
    r"(?:(?:can|could|would) you )?(?:please )?(?:(?:tell|give) me |i need )?"
    r"(?:use the calculator to )?"
    r"(?:what(?:'s| is| are| does)(?! the (?:date|time))|how (?:much|many) (?:is|are)"
    r"|calculate|compute|evaluate|work out|solve|simplify|add up|find|convert|determine|answer|do"
    r"|(?:wie ?viel|was) (?:ist|sind|ergibt|macht)|berechne|rechne|wandle"
    r"|combien (?:font|fait|vaut)|calcule[rz]?|que vaut"
    r"|(?:cuanto|cuánto) (?:es|son)|calcula|convierte|quanto (?:[eèé]|fa)|calcola|converti"
    r"|hoeveel is|bereken|сколько будет|ile (?:to )?jest|oblicz)?[\s:]*"
    r"(?:the (?:exact )?(?:result|value|answer)s?(?: of|:| to)|(?:of )?the expression"
    r"|the following(?: expression| sum)?|expression)?[\s:]*",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?:[\s,]*(?:=\s*\??|\?|\.(?!\d)|equals?\??|please|bitte|exactly|in total"
    r"|and (?:give|return|show|write|state|report) (?:me )?(?:only |just )?the"
    r" (?:number|result|answer|value)(?: only)?"
    r"|(?:give|return|show|write|answer with|reply with|respond with) (?:me )?(?:only|just)"
    r" (?:with )?(?:the |a )?(?:final )?(?:number|result|answer|value)))+\s*$",
    re.IGNORECASE,
)
_WORDS = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"\bthe\s+(?=square|cube|sum|product|difference|quotient)", ""),
        (
            r"\b(?:square root|quadratwurzel|wurzel|racine carr[ée]e|ra[ií]z cuadrada)"
            r"\s+(?:of|von|aus|de)\s+(?=[\d(])",
            " √",
        ),
        (r"\bcube root\s+of\s+([\d.,]+)", r" cbrt(\1)"),
        (r"\b(?:sqrt|root)\s+(?:of\s+)?(?=\d)", " √"),
        (r"\b(?:sum of|add)\s+([\d.,]+)\s+(?:and|to)\s+(?=[\d.,]+$)", r" \1 + "),
        (r"\bproduct of\s+([\d.,]+)\s+and\s+(?=[\d.,]+$)", r" \1 * "),
        (r"\bmultiply\s+([\d.,]+)\s+(?:by|and|with)\s+(?=[\d.,]+$)", r" \1 * "),
        (r"\bdivide\s+([\d.,]+)\s+by\s+(?=[\d.,]+$)", r" \1 / "),
        (r"\bsubtract\s+([\d.,]+)\s+from\s+([\d.,]+)$", r" \2 - \1"),
        (r"\bdifference (?:between|of)\s+([\d.,]+)\s+and\s+(?=[\d.,]+$)", r" \1 - "),
        (r"\bhalf of\b", " 0.5 * "),
        (r"([\d.,]+)\s*(?:%|per ?cent) off\s+([$€£]?[\d.,]+)$", r" \2 - \1%"),
        (
            r"(?:%|\bper ?cent\b|\bprozent\b|\bpour ?cent\b|\bpor ciento\b)\s*(?:of|von|de|di)\b",
            "% * ",
        ),
        (r"\b(?:per ?cent|prozent|pour ?cent|por ciento)\b", "%"),
        (
            r"\b(?:multiplied by|multipliziert mit|multiplié par|multiplicado por|times|mal"
            r"|fois|por)\b",
            "*",
        ),
        (r"\b(?:divided by|geteilt durch|divis[ée] par|dividido (?:por|entre)|diviso|over)\b", "/"),
        (r"\b(?:plus|más|più)\b", "+"),
        (r"\b(?:minus|weniger|moins|menos|meno)\b", "-"),
        (r"\b(?:to the power of|raised to(?: the power of)?|hoch)\b", "^"),
        (r"\bmodulo\b", " mod "),
        (r"\bsquared\b", "^2"),
        (r"\bcubed\b", "^3"),
    )
)
_CLAIM = re.compile(
    r"^\s*(?:is|does|check(?: whether| that| if)?)?\s*(?P<left>[^=≈]+?)\s*(?P<sign>[=≈])"
    r"\s*(?P<right>[^=≈?]+?)\s*\??$",
    re.IGNORECASE,
)
_CURRENCY = re.compile(r"[$€£]\s?(?=[\d.])|(?<=\d)\s?[€£]")


def calculate(text: str) -> str:
    """Return the answer to a question about numbers. Raises CannotCompute.

    Lines that are all claims (`1 + 1 = 2`) are judged one by one.
    """
    lines = text.strip().splitlines()
    if 1 < len(lines) <= MOST_CLAIMS and all(map(_CLAIM.match, lines)):
        return "\n".join(map(_judged_line, lines))
    reason = CannotCompute("There is no expression in this that the calculator can read.")
    for question in questions(text):
        if len(question) > MOST_QUESTION:
            reason = CannotCompute("This is too long for the calculator.")
            continue
        try:
            return _answer(question)
        except CannotCompute as error:
            # What is read as arithmetic and refused tells more than what isn't arithmetic at all.
            if "can read" not in str(error):
                reason = error
    raise reason


def _answer(question: str) -> str:
    line = " ".join(question.strip("` \t\n*$").split())
    if (claim := _CLAIM.match(line)) and any(c.isdigit() for c in claim["right"]):
        return _judged(**claim.groupdict())
    expression = _stripped(line)
    if (converted := _converted(expression)) is not None:
        return converted
    if not any(character.isdigit() for character in expression):
        raise CannotCompute("There is no expression in this that the calculator can read.")
    return shown(evaluate(_spelled(expression)))


def _stripped(line: str) -> str:
    return _LEAD.sub("", _TAIL.sub("", line), count=1).strip("` *:$")


def _spelled(expression: str) -> str:
    """Write the words in an expression as signs."""
    for pattern, replacement in _WORDS:
        expression = pattern.sub(replacement, expression)
    return _CURRENCY.sub("", expression).strip()


def _judged_line(line: str) -> str:
    try:
        claim = _CLAIM.match(line[:MOST_QUESTION])
        return _judged(**claim.groupdict()) if claim else "Unreadable"
    except CannotCompute:
        return "Unreadable"


def _judged(left: str, sign: str, right: str) -> str:
    """Say whether two expressions are the same number; with ≈ as far as the right one goes."""
    value, claimed = evaluate(_spelled(_stripped(left))), evaluate(_spelled(right))
    step = _last_digit(right)
    same = value.number == claimed.number
    if not same and step is not None and (step < 1 or sign == "≈"):
        # Rounded or cut off, but a whole number needs neither.
        inexact = value.number.denominator != 1
        same = inexact and abs(value.number - claimed.number) < step
    return f"{'Yes' if same else 'No'}: {left.strip()} = {shown(value)}"


def _last_digit(written: str) -> Fraction | None:
    """Return what one more in the last digit of a written number adds; None for no number."""
    if not (
        match := re.fullmatch(r"\s*[-\u2212]?[$€£]?[\d.,']*?(?:[.,](\d+))?\s*(%?)\s*", written)
    ):
        return None
    grouped = re.search(r"[1-9]\d{0,2}(,\d{3})+%?\s*$|(\.\d{3}){2,}%?\s*$", written)
    places = len(match[1]) if match[1] and not grouped else 0
    return Fraction(1, 10**places) / (100 if match[2] else 1)


_CONVERSION = re.compile(
    r"^(?:how (?:many|much) )?(?P<target>[^\d]+?) (?:is|are|in|make(?: up)?|sind|equals?)"
    r"(?: there in)?"
    r" (?P<number>-?[\d.,/ ]+|an?|one|eine?|un|une)\s?(?P<unit>[^\d\s][^\d]*?\d?)$"
    r"|^(?P<number2>-?[\d.,/ ]+|an?|one)\s?(?P<unit2>[^\d\s].*?)"
    r" (?:in|to|into|as|nach|en|em|a|equals how many|is how many) (?P<target2>[^\d].*)$",
    re.IGNORECASE,
)


def _converted(expression: str) -> str | None:
    """Convert between units, or return None where no units are asked about."""
    match = _CONVERSION.match(expression)
    if match is None:
        return None
    number, unit, target = (
        match[name] or match[name + "2"] for name in ("number", "unit", "target")
    )
    target = re.sub(r"^(?:how many|how much)\s+|\s+are there$|\s+are$", "", target.strip())
    from baton.children import units

    if not (units.is_unit(unit) and units.is_unit(target)):
        return None
    amount = _amount(number)
    found = units.convert(amount, unit, target)
    written = shown(Value(amount))
    return f"{written} {unit.strip()} = {_short(found)} {target}"


def _amount(number: str) -> Fraction:
    number = number.strip()
    if number.isalpha():
        return Fraction(1)
    whole, _, below = number.partition("/")
    try:
        return read_number(whole.strip()) / (read_number(below.strip()) if below else 1)
    except (ValueError, ZeroDivisionError) as error:
        raise CannotCompute(f"{number} is not a number that can be read in one way.") from error


def _short(number: Fraction) -> str:
    """Write what was converted: to seven digits where it has many after the point."""
    text = shown(Value(number))
    if "." not in text or len(text) < 10:
        return text
    return shown(Value(number, exact=False), max(7, len(str(abs(int(number))))))
