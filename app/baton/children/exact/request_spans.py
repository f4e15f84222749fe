"""Where in a marked request each part of its plan stands, and what no part is about.

Parts are written in the request's order. A text holds the request's own words; of an expression
only literals and names stand in the request, and the words around them belong to it as well.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

_WORD = re.compile(r"\w+(?:[.:'\u2019-]\w+)*")
_SENTENCE_END = re.compile(r"[.?!;]+(?=\s)|\n+")
_JOINT = re.compile(
    r",|(?<!\w)(?:and|und|et|y|e|also|außerdem|then|dann|puis|luego|poi|depois|plus|sowie)(?!\w)",
    re.IGNORECASE,
)
_JOINTS = r"(?:and|und|et|y|e|also|außerdem|then|dann|puis|luego|poi|depois)"
_BEFORE = re.compile(rf"^(?:[\s,.;:?!)]+|{_JOINTS}(?=[\s,:]))+", re.IGNORECASE)
_AFTER = re.compile(rf"(?:[\s,;:(]+|(?<=[\s,.?!;]){_JOINTS})+$", re.IGNORECASE)
_NO_NUMBER = re.compile(
    r"^[¿\s]*(?:(?:and|und|et|y|e)\s+)?[¿]?(?:who|whose|why|where|wer|wessen|warum|wieso|weshalb|wo|qui"
    r"|pourquoi|où|quién(?:es)?|por qué|dónde|chi|perché|dove|quem|por que|onde)(?!\w)",
    re.IGNORECASE,
)
"""How a question begins that no number answers."""

MIN_WORDS = 4
"""A shorter sentence is no part of its own ("Thanks a lot!"), but where it asks, one fewer is."""
SHARED_LETTERS = 5
"""Words that begin with the same letters count as one: `table`, `tables`."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a request, from its first character to after its last."""

    start: int
    end: int

    def touches(self, other: Span) -> bool:
        """Tell whether it shares a character with another one."""
        return self.start < other.end and other.start < self.end


def left_out(request: str, parts: Sequence[tuple[str, bool]]) -> list[str]:
    """Return the sentences of a marked request that none of its parts is about.

    A part is its text and whether that is an expression. A question that stands beside a sentence
    of numbers and asks nothing else is the question to them.
    """
    anchors = _anchors(request, parts)
    held = [anchor for anchor in anchors if anchor]
    computed = [a for a, (_, is_tool) in zip(anchors, parts, strict=True) if a and is_tool]
    sentences = _sentences(request)
    found: list[str] = []
    for place, sentence in enumerate(sentences):
        text = request[sentence.start : sentence.end].strip()
        words = _WORD.findall(text.casefold())
        if len(words) + ("?" in text) < MIN_WORDS or any(map(sentence.touches, held)):
            continue
        beside = [s for s in sentences[max(0, place - 1) : place + 2] if s is not sentence]
        told = [s for s in beside if any(map(s.touches, computed))]
        is_open = "?" in text and not _NO_NUMBER.search(text)
        if is_open and any("?" not in request[s.start : s.end] for s in told):
            continue
        if told and _shares(words, request, computed):
            continue
        found.append(trimmed(text))
    return found[anchors.count(None) :]


def _shares(words: Sequence[str], request: str, computed: Sequence[Span]) -> bool:
    around = {
        word[:SHARED_LETTERS]
        for sentence in _sentences(request)
        if any(map(sentence.touches, computed))
        for word in _WORD.findall(request[sentence.start : sentence.end].casefold())
        if len(word) >= SHARED_LETTERS
    }
    return any(word[:SHARED_LETTERS] in around for word in words)


def _sentences(request: str) -> list[Span]:
    starts = [0, *(match.end() for match in _SENTENCE_END.finditer(request)), len(request)]
    return [Span(a, b) for a, b in itertools.pairwise(starts)
            if request[a:b].strip()]  # fmt: skip


def spans(request: str, parts: Sequence[tuple[str, bool]]) -> list[str]:
    """Return the words of a marked request that each part stands for, in order."""
    anchors = _anchors(request, parts)
    cuts = [0]
    at = 0
    for number in range(len(parts) - 1):
        anchor, after = anchors[number], anchors[number + 1]
        start = max(at, anchor.end if anchor else at)
        if anchor is None and number:
            start = _after_joint(request, at, len(request))
        end = after.start if after else len(request)
        if after is not None and not parts[number + 1][1]:
            at = max(at, end)
        else:
            at = _cut(request, start, max(start, end))
        cuts.append(at)
    cuts.append(len(request))
    return [trimmed(request[a:b]) for a, b in itertools.pairwise(cuts)]


def trimmed(text: str) -> str:
    """Return a part without what joins it to others."""
    return _AFTER.sub("", _BEFORE.sub("", text))


def _cut(request: str, start: int, end: int) -> int:
    """Return where in a gap one part ends and the next one begins."""
    for pattern in (_SENTENCE_END, _JOINT):
        if match := pattern.search(request, start, end):
            return match.end()
    return start


def _after_joint(request: str, start: int, end: int) -> int:
    match = _JOINT.search(request, start + 1, end)
    return match.start() if match else start


def _anchors(request: str, parts: Sequence[tuple[str, bool]]) -> list[Span | None]:
    """Return where the words that each part shares with the request stand."""
    words = [(m[0].casefold(), m.start(), m.end()) for m in _WORD.finditer(request)]
    at = 0
    found: list[Span | None] = []
    for text, is_tool in parts:
        said = _WORD.findall(text.casefold())
        there = [word for word, *_ in words[at:]]
        if is_tool:
            places = _literals(said, there)
        else:
            blocks = difflib.SequenceMatcher(None, there, said, False).get_matching_blocks()
            places = [block.a + n for block in blocks for n in range(block.size)]
        if not places:
            found.append(None)
            continue
        first, last = words[at + min(places)], words[at + max(places)]
        found.append(Span(first[1], last[2]))
        at += max(places) + 1
    return found


def _literals(said: Sequence[str], there: Sequence[str]) -> list[int]:
    """Return where an expression's numbers and names stand, each after the first of them."""
    places: list[int] = []
    for word in said:
        if (word.isalpha() and len(word) < SHARED_LETTERS) or word not in there:
            continue
        free = [n for n, other in enumerate(there) if other == word and n not in places]
        if free:
            places.append(free[0])
    return places
