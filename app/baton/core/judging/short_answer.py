"""Finds the short answer in a text, and compares two texts by it.

Where two workers that were asked the same give the same short answer, it is likely right. Every
pattern looks at a bounded piece of text, so a hostile text takes no longer than its length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from baton.core.lazy_loading import lazy_pattern

_MAX_ANSWER_CHARS = 240
"""Characters after an announcement in which an answer is searched."""

_MAX_CUES = 24
"""Announcements that are examined, from the last one backwards."""

_MAX_ANSWER_WORDS = 6
"""An announced answer of more words is a sentence, which two workers would word differently."""

_MAX_RELATIVE_DIFFERENCE = Fraction(1, 10**6)

_BOXED = lazy_pattern(r"\\f?box(?:ed)?\s{0,9}\{")
_CUE = lazy_pattern(
    r"#{4,9}|\\f?box(?:ed)?\s{0,9}\{"
    r"|\banswer(?:\s{1,9}(?:is|are|would\s{1,9}be|must\s{1,9}be|=)|\s{0,9}[:=])",
    re.IGNORECASE,
)


def short_answer(text: str) -> str:
    """Return the short answer in a text, normalised, or "" where there is none to check.

    The last one announced ("the answer is 18", "#### 18", a box) counts; else a text that is no
    more than a choice, yes or no, or the last number of the last line.
    """
    return announced_answer(text) or _unannounced_answer(text)


def announced_answer(text: str) -> str:
    """Return the last short answer that a text announces as such, or ""."""
    plain = _without_marks(text)
    cues = list(_CUE.finditer(plain))[-_MAX_CUES:]
    for cue in reversed(cues):
        boxed = cue[0].endswith("{")
        piece = plain[cue.end() : cue.end() + _MAX_ANSWER_CHARS]
        found = _boxed(piece) if boxed else _sentence_after(piece)
        if value := normalised_answer(found, exact=boxed):
            return value
    return ""


def answers_agree(a: str, b: str) -> bool:
    """Whether two texts give the same short answer; numbers count by their value.

    Texts without one agree only where they are the same word for word.
    """
    return _keys_agree(_comparison_key(a), _comparison_key(b))


def majority_index(texts: Sequence[str]) -> int | None:
    """Return the index of the first text of the largest group that agrees, or None.

    It takes two to agree, and no other group may be as large.
    """
    groups: list[tuple[str, list[int]]] = []
    for index, key in enumerate(map(_comparison_key, texts)):
        group = next((members for first, members in groups if _keys_agree(first, key)), None)
        if group is None:
            groups.append((key, [index]))
        else:
            group.append(index)
    sizes = sorted((len(members) for _, members in groups), reverse=True)
    if not sizes or sizes[0] < 2 or sizes[:2] == [sizes[0]] * 2:
        return None
    return next(members[0] for _, members in groups if len(members) == sizes[0])


def _comparison_key(text: str) -> str:
    """Return what a text is compared by; a space before it where that is the text itself."""
    plain = " ".join(text.casefold().split())
    return short_answer(text) or (f" {plain}" if plain else "")


def _keys_agree(a: str, b: str) -> bool:
    if a == b:
        return bool(a)
    x, y = number_value(a), number_value(b)
    if x is None or y is None:
        return False
    return numbers_agree(x, y)


def numbers_agree(a: Fraction, b: Fraction) -> bool:
    """Whether two numbers are the same answer: they differ by a millionth of the larger at most."""
    return abs(a - b) <= _MAX_RELATIVE_DIFFERENCE * max(abs(a), abs(b))


def number_value(key: str) -> Fraction | None:
    """Return the number that a normalised answer is, if it is one."""
    return Fraction(key) if re.fullmatch(r"-?\d{1,80}(?:/[1-9]\d{0,80}|\.\d{1,80})?", key) else None


# Where the answer stands


_MARKS = str.maketrans({"*": "", "\u2212": "-", "\u00a0": " ", "\u202f": " ", "`": ""})


def _without_marks(text: str) -> str:
    return text.translate(_MARKS)


def _boxed(piece: str) -> str:
    """Return what stands up to the brace that closes the one before the piece."""
    depth = 1
    for place, sign in enumerate(piece):
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            return piece[:place]
    return ""


_SENTENCE = lazy_pattern(r"(?<!\bvs)[.!?;](?=\s|$)")


def _sentence_after(piece: str) -> str:
    """Return the first sentence of the line that follows an announcement."""
    lines = piece.lstrip(" \t\r\n:=").splitlines()
    line = lines[0] if lines else ""
    if box := _BOXED.search(line):
        return _boxed(piece[piece.find(box[0]) + len(box[0]) :])
    return _SENTENCE.split(line, maxsplit=1)[0]


_JUDGEMENT = lazy_pattern(r"\W{0,9}(yes|no|true|false)(?=\s{0,9}(?:[.,!:;)\u2013\u2014-]|$))", re.I)
_LETTER_ONLY = lazy_pattern(r"\W{0,9}([A-J])(?:[).:]{0,2}|[).:]{1,2}\s.{0,200})$", re.DOTALL)
_LISTED = lazy_pattern(r"^\s{0,20}(?:[-+]\s|\(?\d{1,3}[.)]\s)")


def _unannounced_answer(text: str) -> str:
    """Return the short answer of a text that announces none."""
    plain = _without_marks(text).strip()
    if found := _JUDGEMENT.match(plain):
        return found[1].lower()
    if len(plain) <= _MAX_ANSWER_CHARS and (letter := _LETTER_ONLY.match(plain)):
        return letter[1]
    last = plain[-2 * _MAX_ANSWER_CHARS :].rsplit("\n", 1)[-1]
    if len(last) == 2 * _MAX_ANSWER_CHARS:
        last = last.split(" ", 1)[-1]
    last = _plain_latex(_LISTED.sub("", last))
    *_, found = (None, *_NUMBER.finditer(last))
    if (
        found is None
        or _PREFIX.search(last[: found.start()])
        or _SCALE_AFTER.match(last, found.end())
    ):
        return ""
    return _number_text(found)


# Its value


_LATEX = (
    (lazy_pattern(r"\\[dt]frac"), r"\\frac"),
    (lazy_pattern(r"\\frac\s?(\d)\s?(\d)(?!\d)"), r"\1/\2"),
    (lazy_pattern(r"\\frac\s?\{\s?(-?\w{1,30})\s?\}\s?\{\s?(\w{1,30})\s?\}"), r"\1/\2"),
    (lazy_pattern(r"\\frac\s?\{([^{}]{1,80})\}\s?\{([^{}]{1,80})\}"), r"(\1)/(\2)"),
    (lazy_pattern(r"\\(?:text|mathrm|mathbf|textbf|mbox)\s?\{([^{}]{0,80})\}"), r" \1"),
    (lazy_pattern(r"\^\s?\{?\\circ\s?\}?|\u00b0"), ""),
    (lazy_pattern(r"\\(?:left|right|displaystyle|[,;:!]|quad|\s)"), ""),
    (lazy_pattern(r"\\([%$#&])|\\[()\[\]]|\$"), r"\1"),
    (lazy_pattern(r"(?<=\d)\{,\}(?=\d)"), ","),
)


def _plain_latex(text: str) -> str:
    """Write the LaTeX that is common in answers without it."""
    for pattern, plain in _LATEX:
        text = pattern.sub(plain, text)
    return text.strip()


_NUMBER = lazy_pattern(
    r"(?<![\w.,/^])([-+]?)\s?[$\u20ac\u00a3]?\s?((?:\d{1,3}(?:,\d{3}){1,9}|\d{1,60})(?:\.\d{1,60})?|\.\d{1,60})"
    r"(?:\s?/\s?(\d{1,30}))?(?![\d_^]|\.\d|[A-Za-z](?![A-Za-z]))"
)
_SCALED = (
    r"[\u00b9\u00b2\u00b3\u00bc-\u00be\u2070-\u2079\u221a\u03c0]"
    r"|\s?(?:hundred|thousand|million|billion|trillion|dozen|mio|mrd|bn)\b"
)
_CONTINUATION = lazy_pattern(
    r"%?\s?(?:[-+*/^(=\\\u00d7\u00b7\u2013:]\s?[\w\\(]|,\s?[-\d(]|\\|x\s?\d)"
    rf"|{_SCALED}|\s(?:(?:or|and|to)\s)?\d"
    r"|\s(?:(?:year|month|week|day|hour|minute|second|pound|ounce|dollar|euro|degree)s?|f(?:ee|oo)t|ft"
    r"|hrs?|lbs?),?\s(?:and\s)?\d",
    re.IGNORECASE,
)
"""What makes the number before it a part of something: 3 hours and 20 minutes, 2 1/2, 5 million."""
_PREFIX = lazy_pattern(
    r"(?:\d\s?[-:\u2013/+*\u00d7]\s?|\d\s(?:(?:to|or|and)\s)?"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,7}\.?\s(?:\d{1,2}\w{0,2},\s)?)$",
    re.IGNORECASE,
)
"""What makes the number after it one: 10:30, 3 to 4, March 5, March 5, 2020."""
_SCALE_AFTER = lazy_pattern(_SCALED, re.IGNORECASE)
_CHOICE = lazy_pattern(
    r"(?:option|choice|letter)?\s?(?:\(([A-Ja-j])\)|([A-J])(?:[).:,]|$)|([B-HJ])(?=\s))"
)
_OPENING = lazy_pattern(
    r"^(?:therefore|thus|so|that|the|about|approximately|exactly|option)\s", re.I
)


def normalised_answer(found: str, *, exact: bool = False) -> str:
    """Return an answer as it is compared: `1,000 dollars` is `1000`; "" for a whole sentence.

    An `exact` one is what it says, not a sentence that has the answer in it.
    """
    text = _plain_latex(found).strip(" :,;!\"'").rstrip(" .")
    if letter := _CHOICE.match(text):
        return str(next(filter(None, letter.groups()))).upper()
    if judged := _JUDGEMENT.match(text):
        return judged[1].lower()
    return _number(text, exact) or _phrase(text)


def _number(text: str, exact: bool) -> str:
    """Return the number that an announced answer is; a term or a list of numbers is none."""
    last = text.rsplit("=", 1)[-1].strip()
    first = _NUMBER.search(last)
    if first is None:
        return ""
    leading = not last[: first.start()].strip()
    if _CONTINUATION.match(last, first.end()) or (exact and not leading):
        return ""
    if not leading and len(text.split()) <= 2:
        return ""  # "sqrt 2", "B-52": a name with a number in it
    return _number_text(first)


def _number_text(found: re.Match[str]) -> str:
    sign, digits, under = found.groups()
    value = Fraction(digits.replace(",", ""))
    if under is not None:
        if not int(under):
            return ""
        value /= int(under)
    value = -value if sign == "-" else value
    if value.denominator == 1:
        return str(value.numerator)
    if under is not None:
        return f"{value.numerator}/{value.denominator}"
    whole, _, part = digits.replace(",", "").partition(".")
    minus = "-" if value < 0 else ""
    return f"{minus}{int(whole or 0)}.{part.rstrip('0')}"


def _phrase(text: str) -> str:
    """Return a few words or a term as they are compared, or "" for more than that."""
    words = _OPENING.sub("", text).casefold().split()
    if not 0 < len(words) <= _MAX_ANSWER_WORDS:
        return ""
    if " - " in text or any(
        sign in text for sign in "\\^=+*/(["
    ):  # a term: spaces say nothing in it
        return "".join(words)
    return " ".join(words)
