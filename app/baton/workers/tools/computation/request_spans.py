"""Which words of a marked request each part of its plan stands for, and what the plan omits.

Parts are written in the request's order. A text repeats the request's own words; of an expression
only literals and names stand in the request, and the words around them belong to it as well.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from baton.workers.tools.computation.lexicon import request_words

MIN_WORDS = 4
"""A shorter sentence is no part of its own ("Thanks a lot!"); of a question one word fewer is."""

SHARED_LETTERS = 5
"""Words that begin with the same letters count as one: `table`, `tables`."""

_WORD = re.compile(r"\w+(?:[.:'\u2019-]\w+)*")
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
    words = _words(request, parts, anchors)
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
        words[0] = _without(words[0], opening.end(), request[anchors[0].start : anchors[0].end])
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
    if len(_WORD.findall(question)) + ("?" in question) < MIN_WORDS:
        return words, ""
    return words[: match.start()], question


def _without(words: str, opening: int, anchor: str) -> str:
    """Return a part's words without an opening that its plan doesn't repeat."""
    return _trim_span(words[opening:]) if words.find(anchor) >= opening else words


@dataclass(frozen=True, slots=True)
class _Span:
    """A piece of a request, from its first character to after its last."""

    start: int
    end: int

    def overlaps(self, other: _Span) -> bool:
        return self.start < other.end and other.start < self.end


def _anchors(request: str, parts: Sequence[tuple[str, bool]]) -> list[_Span | None]:
    """Return where the words stand that each part shares with the request."""
    words = [(m[0].casefold(), m.start(), m.end()) for m in _WORD.finditer(request)]
    after = 0
    anchors: list[_Span | None] = []
    for text, is_expression in parts:
        its_words = _WORD.findall(text.casefold())
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


def _words(
    request: str, parts: Sequence[tuple[str, bool]], anchors: Sequence[_Span | None]
) -> list[str]:
    """Return a request cut into one piece a part."""
    cuts = [0]
    for number, ((_, is_expression), (anchor, following)) in enumerate(
        zip(parts[1:], itertools.pairwise(anchors), strict=True)
    ):
        start = max(cuts[-1], anchor.end if anchor else 0)
        if anchor is None and number:
            start = _next_joint(request, start)
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


def _next_joint(request: str, start: int) -> int:
    match = _JOINT.search(request, start + 1)
    return match.start() if match else start


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
    sentences = _sentences(request)
    numbers = [s for s in sentences if any(map(s.overlaps, computed))]
    stems = {stem for sentence in numbers for stem in _stems(request, sentence)}
    omitted: list[_Span] = []
    for place, sentence in enumerate(sentences):
        text = _trim_span(request[sentence.start : sentence.end])
        length = len(_WORD.findall(text)) + ("?" in text)
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


def _sentences(request: str) -> list[_Span]:
    starts = [0, *(match.end() for match in _SENTENCE_END.finditer(request)), len(request)]
    return [_Span(a, b) for a, b in itertools.pairwise(starts) if request[a:b].strip()]


def _stems(request: str, sentence: _Span) -> set[str]:
    words = _WORD.findall(request[sentence.start : sentence.end].casefold())
    return {word[:SHARED_LETTERS] for word in words if len(word) >= SHARED_LETTERS}
