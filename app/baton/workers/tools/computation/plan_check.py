"""Checks the parts that the conductor wrote against the request, and writes them as subtasks.

What an expression takes from earlier tools stands behind it, so that it is exact and can be read
alone: `#1 / 2 where #1 = units: 42 km -> mi`. Parts are written in the request's order, so each
stands for a span of its words. A text repeats the request's own words; of an expression only
literals and names stand in the request, and the words around them belong to it as well.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from baton.core.planning.plan_lines import TOOL_HEADS, PlanPart
from baton.core.planning.request_parts import CheckedPart
from baton.workers.tools.computation import CannotCompute, NoResult, evaluate
from baton.workers.tools.computation.expression_check import (
    CONSTANTS,
    correct_expression,
    find_foreign_word,
    find_lost_name,
    find_problem,
    find_unused_numbers,
    request_literals,
)
from baton.workers.tools.computation.lexicon import request_words
from baton.workers.tools.computation.plan_steps import REFERENCE, WHERE
from baton.workers.tools.computation.relation_check import find_lost_relation
from baton.workers.tools.computation.result_text import plain_value, result_text
from baton.workers.tools.messages import MarkedText

_HEADS = {"": "", **{tool: head for head, tool in TOOL_HEADS.items()}}
_WORD = re.compile(r"\w+")
MIN_WORDS = 4
"""A shorter sentence isn't a part of its own ("Thanks a lot!"); of a question one word fewer is."""

SHARED_LETTERS = 5
"""Words that begin with the same letters count as one: `table`, `tables`."""

_TERM = re.compile(r"\w+(?:[.:'\u2019-]\w+)*")
_SENTENCE_END = re.compile(r"[.?!;]+(?=\s)|\n+")
_JOINTS = rf"{request_words('and', 'also')}(?!\w)"
_WORD_JOINT = re.compile(rf"(?<!\w){_JOINTS}", re.IGNORECASE)
_JOINT = re.compile(rf",|{_WORD_JOINT.pattern}", re.IGNORECASE)
_POINT = r"\(?(?:\d{1,2}|[a-e])[.)](?=\s|$)"
_BEFORE = re.compile(rf"^(?:[\s,.;:?!)]+|{_POINT}|{_JOINTS}(?=[\s,:]))+", re.IGNORECASE)
_AFTER = re.compile(rf"(?:[\s,;:(]+|(?<=\n){_POINT}|(?<=[\s,.?!;]){_JOINTS})+$", re.IGNORECASE)
_UNCOUNTED, _WHICH = request_words("uncounted"), request_words("which")
_NO_NUMBER = re.compile(rf"^¿?{_UNCOUNTED}(?!\w)", re.IGNORECASE)
"""How a question begins that no number answers."""
_ASKING = re.compile(
    rf"(?<!\w)(?:{_UNCOUNTED}|{_WHICH}|{request_words('question')})(?!\w)", re.IGNORECASE
)
_NEXT_QUESTION = re.compile(
    rf"(?:[,;]|(?<!\w){_JOINTS})\s+¿?(?:(?P<uncounted>{_UNCOUNTED})|{_WHICH}|{request_words('count')})(?!\w)",
    re.IGNORECASE,
)
"""A question in the same sentence as a sum, behind it."""
_QUOTE = re.compile("[\"\u201c\u201e\u00ab]|(?<!\\w)['\u2018\u201a]")
_OPENING = re.compile(r"^(?:[^\W\d]+\W+){1,4}(?<=[,:!\n]) *\n?")
"""Up to four words before the first part: a greeting, or "two things:"."""

_PLACEHOLDER_VALUE = Fraction(7)
"""What the number in a text that isn't written yet is taken to be, to see whether it would do."""


def check_parts(marked: MarkedText, parts: Sequence[PlanPart]) -> list[CheckedPart]:
    """Return the parts as subtasks with what is wrong with each, then what the plan omits.

    A text becomes the words of the request that it stands for. What the plan omits is a part of
    its own; background that it omits is a part with a problem.
    """
    parts = [
        replace(part, text=correct_expression(_HEADS[part.tool], part.text, marked))
        for part in parts
    ]
    division = divide_request(marked.text, [(part.text, bool(part.tool)) for part in parts])
    missing = _missing_numbers(parts, division.words, marked.text)
    values: dict[int, Any] = {}
    checked: list[CheckedPart] = []
    for number, part in enumerate(parts, start=1):
        words = division.words[number - 1]
        if part.tool:
            why = _why_not_computable(part, marked, values, number)
            its_words = words if len(parts) > 1 else marked.text
            lost = find_lost_relation(_HEADS[part.tool], part.text, its_words, marked.language)
            why = why or (lost and f"It leaves out what the request says: {lost}.")
            if name := find_lost_name(
                _HEADS[part.tool], part.text, replace(marked, text=its_words), marked.text
            ):
                why = why or f"It leaves {name} out."
            why = why or missing.get(number - 1, "")
            why = why or _find_misreading(part.text, words, number)
            if why:  # no later expression builds on one in doubt
                values.pop(number, None)
            text = _expand_references(number, parts)
        else:
            values[number] = _PLACEHOLDER_VALUE
            why, text = _as_text(part.text, words, marked)
        literal = marked.restored(words) or text
        checked.append(_checked_part(text, why, literal))
    checked += [_checked_part(text) for text in map(marked.restored, division.omitted)]
    if text := marked.restored(division.background):
        checked.append(_checked_part(text, "The plan leaves it out."))
    return checked


def _checked_part(text: str, problem: str = "", words: str = "") -> CheckedPart:
    words = words or text
    refers = any(pattern.search(words) for pattern in (_ASKS_RESULT, _POINTS_BACK))
    return CheckedPart(text, problem, words, refers)


def _missing_numbers(
    parts: Sequence[PlanPart], all_words: Sequence[str], request: str
) -> Mapping[int, str]:
    """Return a number of the request that the plan leaves out, by the place of a part.

    It is left out where no expression holds it, nor a text that asks something. Where no sum's own
    words have it, all sums lack it.
    """
    pairs = list(zip(all_words, parts, strict=False))
    asked = [t for t, part in pairs if not part.tool and ("?" in t or "?" not in request)]
    sums = {place: t for place, (t, part) in enumerate(pairs) if part.tool}
    stated = [t for t, part in pairs if not (part.tool or t in asked)]
    expressions = [part.text for part in parts if part.tool]
    missing: dict[int, str] = {}
    for number in find_unused_numbers(expressions, asked, " ".join([*sums.values(), *stated])):
        owners = [place for place, text in sums.items() if number in request_literals(text)]
        missing |= dict.fromkeys(owners or sums, f"The plan leaves {number} out.")
    return missing


def _find_misreading(expression: str, words: str, number: int) -> str:
    """Say why an expression can't be what its own words ask for, "" where nothing shows it."""
    if not REFERENCE.search(expression):
        return "It leaves the result out." if number > 1 and _ASKS_RESULT.search(words) else ""
    literals = request_literals(REFERENCE.sub(" ", expression))
    foreign = literals - request_literals(words) - CONSTANTS
    return f"{min(foreign)} belongs to another part." if foreign else ""


_ASKS_RESULT = re.compile(rf"(?<!\w){request_words('result')}(?!\w)", re.IGNORECASE)
_POINTS_BACK = re.compile(rf"(?<!\w){request_words('that_result')}(?!\w)", re.IGNORECASE)


def _as_text(text: str, words: str, marked: MarkedText) -> tuple[str, str]:
    """Return what is wrong with a text, and the text in words of the request."""
    there = set(_WORD.findall(words.casefold()))
    its_words = _WORD.findall(text.casefold())
    if there and sum(word not in there for word in its_words) <= max(1, len(its_words) // 5):
        return "", marked.restored(words)
    foreign = find_foreign_word(text, marked)
    return (f"{foreign} isn't in the request." if foreign else ""), marked.restored(text)


def _why_not_computable(
    part: PlanPart, marked: MarkedText, values: dict[int, Any], number: int
) -> str:
    """Say why an expression must not be computed, and note its value."""
    if foreign := find_problem(_HEADS[part.tool], part.text, marked):
        return f"{foreign} isn't in the request."
    try:
        result = evaluate(_HEADS[part.tool], part.text, results=values)
        result_text(_HEADS[part.tool], part.text, result, marked.language)
    except NoResult:
        return ""  # which is the answer
    except CannotCompute as error:
        return str(error)
    value = plain_value(result)
    values[number] = result.value if value is None else value
    return ""


def _expand_references(number: int, parts: Sequence[PlanPart]) -> str:
    """Return an expression with all that it takes from other tools' parts."""
    part = parts[number - 1]
    definitions: dict[int, str] = {}

    def take(text: str, tool: str) -> str:
        def put(match: re.Match[str]) -> str:
            wanted = int(match[1])
            earlier = parts[wanted - 1]
            if not earlier.tool:
                return match[0]
            inner = take(earlier.text, earlier.tool)
            if tool == earlier.tool == TOOL_HEADS["calc"]:
                return f"({inner})"
            definitions[wanted] = f"#{wanted} = {_HEADS[earlier.tool]}: {inner}"
            return match[0]

        return REFERENCE.sub(put, text)

    text = take(part.text, part.tool)
    if not definitions:
        return text
    return text + WHERE + "; ".join(definitions[key] for key in sorted(definitions))


@dataclass(frozen=True, slots=True)
class Division:
    """A request, divided among the parts of its plan.

    `words` are those that each part stands for. `omitted` are requests that no part is about;
    `background` is the first sentence before all parts that none of them is about, and that asks
    nothing.
    """

    words: Sequence[str]
    omitted: Sequence[str]
    background: str


def divide_request(request: str, parts: Sequence[tuple[str, bool]]) -> Division:
    """Return a marked request divided among parts: the text of each, and if it is an expression."""
    anchors = _anchors(request, parts)
    sentences = _omitted(request, parts, anchors)
    words = _part_words(request, parts, anchors)
    for sentence in sentences:
        words = [part.replace(request[sentence.start : sentence.end], " ") for part in words]
    start = min((anchor.start for anchor in anchors if anchor), default=0)
    questions: list[str] = []
    for place, ((_, is_expression), anchor) in enumerate(zip(parts, anchors, strict=True)):
        if is_expression and anchor:
            words[place], question = _without_question(
                words[place], request[anchor.start : anchor.end]
            )
            questions += [question] if question else []
    omitted: list[str] = []
    background = ""
    for sentence in sentences:
        text = _trim_span(request[sentence.start : sentence.end])
        if sentence.end <= start and "?" not in text:
            background = background or text
        else:
            omitted.append(text)
    words = [_trim_span(part) for part in words]
    if anchors and anchors[0] and not parts[0][1] and (opening := _OPENING.match(words[0])):
        anchor_at = words[0].find(request[anchors[0].start : anchors[0].end])
        if anchor_at >= opening.end():  # the plan doesn't repeat the opening
            words[0] = _trim_span(words[0][opening.end() :])
    return Division(words, [*questions, *omitted], background)


def _without_question(words: str, anchor: str) -> tuple[str, str]:
    """Return a sum's words, and the question behind it that is another one ("" for none).

    After who, why or where no number is asked for. Which, what and how many begin another question
    only where the sum has one of its own: else it is the question to the sum.
    """
    sum_end = words.find(anchor) + len(anchor)
    match = _NEXT_QUESTION.search(words, sum_end)
    if match is None or words.find(anchor) < 0:
        return words, ""
    its_sentence = _SENTENCE_END.split(words[:sum_end])[-1]
    if not match["uncounted"] and not _ASKING.search(its_sentence):
        return words, ""
    question = _trim_span(words[match.start() :])
    if len(_TERM.findall(question)) + ("?" in question) < MIN_WORDS:
        return words, ""
    return words[: match.start()], question


@dataclass(frozen=True, slots=True)
class _Span:
    """A piece of a request, from its first character to after its last."""

    start: int
    end: int

    def overlaps(self, other: _Span) -> bool:
        return self.start < other.end and other.start < self.end


def _anchors(request: str, parts: Sequence[tuple[str, bool]]) -> list[_Span | None]:
    """Return where the words stand that each part shares with the request."""
    words = [(m[0].casefold(), m.start(), m.end()) for m in _TERM.finditer(request)]
    after = 0
    anchors: list[_Span | None] = []
    for text, is_expression in parts:
        its_words = _TERM.findall(text.casefold())
        remaining = [word for word, *_ in words[after:]]
        if is_expression:
            places = _literal_places(its_words, remaining)
        else:
            matcher = difflib.SequenceMatcher(None, remaining, its_words, autojunk=False)
            places = [b.a + n for b in matcher.get_matching_blocks() for n in range(b.size)]
        if not places:
            anchors.append(None)
            continue
        first, last = words[after + min(places)], words[after + max(places)]
        anchors.append(_Span(first[1], last[2]))
        after += max(places) + 1
    return anchors


def _literal_places(its_words: Sequence[str], remaining: Sequence[str]) -> list[int]:
    """Return where an expression's numbers and names stand; short names are its functions."""
    places: list[int] = []
    for word in its_words:
        if word.isalpha() and len(word) < SHARED_LETTERS:
            continue
        free = (n for n, other in enumerate(remaining) if other == word and n not in places)
        places += itertools.islice(free, 1)
    return places


def _part_words(
    request: str, parts: Sequence[tuple[str, bool]], anchors: Sequence[_Span | None]
) -> list[str]:
    """Return a request cut into one piece a part."""
    cuts = [0]
    for number, ((_, is_expression), (anchor, following)) in enumerate(
        zip(parts[1:], itertools.pairwise(anchors), strict=True)
    ):
        start = max(cuts[-1], anchor.end if anchor else 0)
        if anchor is None and number:
            joint = _JOINT.search(request, start + 1)
            start = joint.start() if joint else start
        end = max(start, following.start if following else len(request))
        if following and not is_expression:
            # Behind an expression a text's first words may not be in the plan.
            cuts.append(_last_joint(request, start, end) if parts[number][1] else end)
        else:
            cuts.append(_cut_text(request, start, end))
    return [request[a:b] for a, b in itertools.pairwise([*cuts, len(request)])]


def _cut_text(request: str, start: int, end: int) -> int:
    """Return where in a gap one part ends and the next one begins.

    A colon begins a list, which the last joint ends.
    """
    if request[start:end].lstrip().startswith(":"):
        return _last_joint(request, start, end)
    for pattern in (_SENTENCE_END, _JOINT):
        if match := pattern.search(request, start, end):
            return match.end()
    return start


def _last_joint(request: str, start: int, end: int) -> int:
    """Return where the last sentence or joint of a gap ends, else the gap's end."""
    gap = request[start:end]
    ends = [match.end() for joint in (_SENTENCE_END, _WORD_JOINT) for match in joint.finditer(gap)]
    return start + max(ends) if ends else end


def _trim_span(text: str) -> str:
    """Return a part's words without what joins them to others."""
    return _AFTER.sub("", _BEFORE.sub("", text))


def _omitted(
    request: str, parts: Sequence[tuple[str, bool]], anchors: Sequence[_Span | None]
) -> list[_Span]:
    """Return the sentences that no part is about.

    A question beside a sentence of numbers that doesn't ask anything itself is the question to
    those numbers; so is a sentence that shares a word with them.
    """
    held = [anchor for anchor in anchors if anchor]
    computed = [a for a, (_, is_expression) in zip(anchors, parts, strict=True)
                if a and is_expression]  # fmt: skip
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(request)), len(request)]
    sentences = [_Span(a, b) for a, b in itertools.pairwise(ends) if request[a:b].strip()]
    numbers = [s for s in sentences if any(map(s.overlaps, computed))]
    stems = {stem for sentence in numbers for stem in _stems(request, sentence)}
    omitted: list[_Span] = []
    for place, sentence in enumerate(sentences):
        text = _trim_span(request[sentence.start : sentence.end])
        length = len(_TERM.findall(text)) + ("?" in text)
        if length < MIN_WORDS or any(map(sentence.overlaps, held)):
            continue
        beside = [s for s in sentences[max(0, place - 1) : place + 2] if s in numbers]
        asks_for_number = _asks(text) and not (_NO_NUMBER.search(text) or _QUOTE.search(text))
        if asks_for_number and not all(_asks(request[s.start : s.end]) for s in beside):
            continue
        if not (beside and stems & _stems(request, sentence)):
            omitted.append(sentence)
    # What a part without any word of the request is about, as a holiday, can't be found.
    return omitted[list(anchors).count(None) :]


def _asks(sentence: str) -> bool:
    """Whether a sentence is a question, with its mark or without."""
    return "?" in sentence or _ASKING.match(sentence.lstrip("¿ ")) is not None


def _stems(request: str, sentence: _Span) -> set[str]:
    words = _TERM.findall(request[sentence.start : sentence.end].casefold())
    return {word[:SHARED_LETTERS] for word in words if len(word) >= SHARED_LETTERS}
