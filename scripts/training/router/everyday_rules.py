"""Judges answers to everyday prompts mechanically, by a rule that stands beside each prompt.

A rule is an object; an answer is right if it fulfils every key of it:

    has        patterns, each of which is found; `a|b` where either will do
    lacks      patterns, none of which is found
    order      patterns that are found one after the other
    number     the result: the last number of the answer's first or last line with numbers, or the
               one at its beginning, or behind "=" or "is"; [value, tolerance] if it may be rounded
    words      [least, most] words; lines, items and sentences alike: lines that aren't empty, list
               items (- * • 1.), sentences
    full       a pattern for the whole answer but spaces and closing punctuation
    json       the answer is JSON (a fence around it is fine): an object with just these keys, each
               with a pattern for its value, or a list with a pattern for each place in it
    language   de, en, es, fr, it or pt: most of its common words are of that language
    python     tests with `assert` that the answer's Python passes in the sandbox
    unanswerable   now, web, machine, link or personal: the answer says that it can't know

Patterns are regular expressions that ignore case. They begin at the beginning of a word, and are
searched in the answer as it is and without its accents and Markdown marks. Whatever the rule says,
an answer is wrong that is empty, is the prompt again, or says a line or a sentence of some length
three times.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baton.bench.graded_questions import python_in
from baton.bench.strategy_bench import PASSED_PREFIX, Execute
from baton.core.errors import BatonError, WorkerUnavailable
from baton.core.markdown import CodeBlock, text_and_blocks
from baton.core.plan_types import KINDS

UNANSWERABLE = ("now", "web", "machine", "link", "personal")
"""What no worker on this machine can know."""

MAX_REPEATS = 2
MIN_REPEATED_WORDS = 4


@dataclass(frozen=True)
class EverydayPrompt:
    """A prompt with the rule for its answers, an answer that is right, and one that is wrong.

    `kind` is a task kind or "unanswerable", `language` a code of two letters.
    """

    id: str
    kind: str
    language: str
    prompt: str
    rule: Mapping[str, Any]
    good: str
    bad: str


def read_prompts(file: Path) -> list[EverydayPrompt]:
    """Return the prompts of a file of JSON Lines. Raises ValueError for a rule with a mistake."""
    lines = file.read_text(encoding="utf-8").splitlines()
    found = [EverydayPrompt(**json.loads(line)) for line in lines]
    for prompt in found:
        known = _CHECKS.keys() | {"python"}
        if not prompt.rule or not prompt.rule.keys() <= known:
            raise ValueError(f"{prompt.id} has a rule with unknown keys: {list(prompt.rule)}")
        if prompt.kind not in (*KINDS, "unanswerable"):
            raise ValueError(f"{prompt.id} is of no known kind: {prompt.kind}")
    return found


async def is_right(prompt: EverydayPrompt, answer: str, execute: Execute) -> bool:
    """Whether an answer fulfils its prompt's rule; `execute` runs code and its tests."""
    rule, text = prompt.rule, _plain_text(answer)
    if not text or is_repetitive(text) or is_echo(prompt.prompt, text):
        return False
    if not all(_CHECKS[key](text, value) for key, value in rule.items() if key != "python"):
        return False
    return "python" not in rule or await _passes(python_in(answer), rule["python"], execute)


async def _passes(code: str, tests: str, execute: Execute) -> bool:
    try:
        shown = await execute(code, tests)
    except WorkerUnavailable:
        raise  # that says nothing of the code
    except BatonError:
        return False
    return shown.rpartition("\n")[2].startswith(PASSED_PREFIX)


def is_repetitive(text: str) -> bool:
    """Whether a line or sentence of some length stands in a text more than twice."""
    parts = [" ".join(_words(part)) for part in _SENTENCE_END.split(text)]
    counts = Counter(part for part in parts if part.count(" ") >= MIN_REPEATED_WORDS - 1)
    return any(count > MAX_REPEATS for count in counts.values())


def is_echo(prompt: str, text: str) -> bool:
    """Whether a text is the prompt again, or holds nearly all of it."""
    asked, said = _words(_plain_text(prompt)), _words(text)
    runs = set(zip(*(asked[start:] for start in range(ECHO_WORDS)), strict=False))
    there = runs & set(zip(*(said[start:] for start in range(ECHO_WORDS)), strict=False))
    is_same = len(asked) >= ECHO_WORDS and asked == said
    return is_same or len(there) > MAX_ECHO_SHARE * max(len(runs), ECHO_WORDS)


ECHO_WORDS = 5
MAX_ECHO_SHARE = 0.9

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|\n+")


def _plain_text(answer: str) -> str:
    text = unicodedata.normalize("NFKC", answer)
    text = text.translate(_QUOTES)
    return text.replace("**", "").replace("__", "").strip()


_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb", "''" + 5 * '"')


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text.casefold())


# Patterns


def _without_accents(text: str) -> str:
    apart = unicodedata.normalize("NFKD", text)
    return "".join(char for char in apart if not unicodedata.combining(char))


def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{pattern})", re.IGNORECASE | re.MULTILINE)


def _contains(text: str, pattern: str) -> bool:
    found = _pattern(pattern)
    return bool(found.search(text) or found.search(_without_accents(text)))


def _has(text: str, patterns: Iterable[str]) -> bool:
    return all(_contains(text, pattern) for pattern in patterns)


def _lacks(text: str, patterns: Iterable[str]) -> bool:
    return not any(_contains(text, pattern) for pattern in patterns)


def _is_in_order(text: str, patterns: Iterable[str]) -> bool:
    """Whether the patterns are found in their order, from any place on."""
    return any(_follow(form, patterns) for form in (text, _without_accents(text)))


def _follow(text: str, patterns: Iterable[str]) -> bool:
    start = 0
    for pattern in patterns:
        found = _pattern(pattern).search(text, start)
        if found is None:
            return False
        start = found.end()
    return True


def _is_full_match(text: str, pattern: str) -> bool:
    bare = text.strip(" \n.!\"'`*")
    found = re.compile(pattern, re.IGNORECASE | re.DOTALL)
    return any(found.fullmatch(form) for form in (bare, _without_accents(bare)))


# Numbers


_NUMBER = re.compile(r"(?<![\w.,])[-\u2212]?\d+(?:[.,' \u202f]\d+)*")


def _has_number(text: str, value: float | Sequence[float]) -> bool:
    """Whether the result that a text states is a number."""
    wanted, tolerance = value if isinstance(value, Sequence) else (value, 1e-6)
    lines = [line for line in text.splitlines() if _NUMBER.search(line)]
    return any(
        abs(reading - wanted) <= tolerance
        for line in {*lines[:1], *lines[-1:]}
        for number in _stated_numbers(line)
        for reading in _readings(number)
    )


def _stated_numbers(line: str) -> list[str]:
    """Return the first number of a line if it begins so, the last, and those behind "=" or "is"."""
    numbers = _NUMBER.findall(line)
    stated = re.findall(
        rf"(?:=|≈|\bis\b|\bare\b|\bist\b|\bsind\b|\best\b|\bes\b|\bè\b|\bé\b|\bson\b|\bfont?\b)"
        rf"\s*(?:about |ungefähr |environ )?[$€£]?\s*({_NUMBER.pattern})",
        line,
        re.IGNORECASE,
    )
    leading = _NUMBER.match(line.lstrip(" $€£"))
    return [*([leading[0]] if leading else []), numbers[-1], *stated]


def _readings(number: str) -> set[float]:
    """Return what a number can mean: 1.234 is one thing in English and another in German."""
    number = re.sub(r"[' \u202f]", "", number.replace("\u2212", "-"))
    found = set()
    for thousands, decimal in ((",", "."), (".", ",")):
        whole, _, part = number.partition(decimal)
        grouped = whole.split(thousands)
        fits = all(len(group) == 3 for group in grouped[1:]) and part.isdecimal() | (not part)
        if fits:
            found.add(float(f"{whole.replace(thousands, '')}.{part or 0}"))
    return found


# Form


def _is_within(count: int, bounds: Sequence[int]) -> bool:
    return bounds[0] <= count <= bounds[1]


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip().strip("`-*_")]


_ITEM = re.compile(r"\s*(?:[-*•\u2013+]|\(?\d{1,2}[.):])\s*\S")


def _count_items(text: str) -> int:
    return sum(1 for line in text.splitlines() if _ITEM.match(line))


def _count_sentences(text: str) -> int:
    without_marks = re.sub(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+", "", text, flags=re.MULTILINE)
    return sum(1 for part in _SENTENCE_END.split(without_marks) if re.search(r"\w", part))


def _is_json(text: str, wanted: Mapping[str, str] | Sequence[str]) -> bool:
    """Whether a text is JSON with these values, and nothing else."""
    parts = list(text_and_blocks(text))
    blocks = [part.text for part in parts if isinstance(part, CodeBlock)]
    try:
        value = json.loads(blocks[0] if len(blocks) == 1 else text)
    except ValueError:
        return False
    if isinstance(wanted, Mapping):
        if not isinstance(value, dict) or value.keys() != wanted.keys():
            return False
        pairs = [(value[key], pattern) for key, pattern in wanted.items()]
    else:
        if not isinstance(value, list) or len(value) != len(wanted):
            return False
        pairs = list(zip(value, wanted, strict=True))
    return all(
        _contains(found if isinstance(found, str) else json.dumps(found), pattern)
        for found, pattern in pairs
    )


# Language


_COMMON_WORDS = {
    "de": "der die das und ist ein eine nicht ich sie wir mit für auf den dem zu im von auch es an"
    " dass wie bei nach oder haben sich am um aus bitte uns ihr ihre mir dir kann wird sind hat",
    "en": "the and is of to in that it for with you we this are be on at as have i a from your can"
    " will or not my was our please there has they an so if do about me she he",
    "es": "el la los las y es de que en un una por con para no se su lo como más pero al del muy"
    " está son hay mi te nos le este esta yo tu puedes fue han a si",
    "fr": "le la les et est de que en un une pour avec dans ne pas ce il elle vous nous sur au du"
    " des plus je qui sont mais votre mon ma se cette à tu j'ai c'est l'eau a sa son y être",
    "it": "il lo la gli i e è di che in un una per con non si del della al alla sono più ma come"
    " le mi ti ci questo questa anche da nel nella ho ha dei delle suo sua io vi se a",
    "pt": "o a os as e é de que em um uma para com não se do da no na mais mas por ao são como está"
    " seu sua eu você nos muito dos das foi tem este esta isso à meu minha te ou",
}
_COMMON = {name: frozenset(words.split()) for name, words in _COMMON_WORDS.items()}


def _is_language(text: str, language: str) -> bool:
    """Whether more of a text's common words are of a language than of any other one."""
    words = Counter(_words(text))
    counts = {
        name: sum(number for word, number in words.items() if word in common)
        for name, common in _COMMON.items()
    }
    return counts[language] > 0 and counts[language] == max(counts.values())


# Admitting that it can't be known


_ADMISSION = re.compile(
    r"\b(?:can(?:no|')t|can not|cannot|could(?: not|n't)|unable|not able"
    r"|(?:do|does)(?: not|n't) (?:have|know)"
    r"|have no (?:way|access|information|internet)|no access|not (?:possible|available)|don't see"
    r"|would need|you(?:'ll| will) (?:have|need) to|as of my|my knowledge|isn't possible"
    r"|kann (?:\w+ ){0,6}nicht|nicht in der lage|keinen zugriff|keinen zugang|weiß ich nicht"
    r"|ich weiß nicht|nicht möglich|je ne (?:peux|sais|connais)|je n'ai (?:pas|aucun)|pas accès"
    r"|pas en mesure|impossible|no (?:puedo|tengo|sé|conozco|es posible)|sin acceso"
    r"|non (?:posso|ho|so|conosco|sono in grado|è possibile)"
    r"|não (?:posso|tenho|sei|consigo|é possível))",
    re.IGNORECASE,
)


def _admits(text: str, subject: str) -> bool:
    """Whether an answer says that it can't know, soon enough to be read."""
    assert subject in UNANSWERABLE, subject
    return bool(_ADMISSION.search(text[:600]))


_CHECKS: Mapping[str, Callable[[str, Any], bool]] = {
    "has": _has,
    "lacks": _lacks,
    "order": _is_in_order,
    "number": _has_number,
    "words": lambda text, bounds: _is_within(len(_words(text)), bounds),
    "lines": lambda text, bounds: _is_within(len(_lines(text)), bounds),
    "items": lambda text, bounds: _is_within(_count_items(text), bounds),
    "sentences": lambda text, bounds: _is_within(_count_sentences(text), bounds),
    "full": _is_full_match,
    "json": _is_json,
    "language": _is_language,
    "unanswerable": _admits,
}
