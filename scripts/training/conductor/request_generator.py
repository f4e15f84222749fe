"""Draws requests with their plans: what the conductor is trained on.

Every request is marked as the product marks it, so that the model sees in training what it will
see at work; a plan whose numbers the marked text doesn't hold is dropped.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import templates
from real_texts import RealText

from baton.core.errors import PlanError
from baton.core.planning.plan_lines import TOOL_HEADS, parse_lines
from baton.workers.tools.computation import CannotCompute, evaluate
from baton.workers.tools.computation.expression_check import CONSTANTS
from baton.workers.tools.computation.marked_text import mark
from baton.workers.tools.computation.result_text import plain_value

LANGUAGE_WEIGHTS = {"en": 34, "de": 14, "fr": 13, "es": 13, "it": 13, "pt": 13}
"""How often each language is drawn, of those that have written texts."""

TOOL, NONE, TEXT, COMPOUND, HAND, REAL = "tool", "none", "text", "compound", "hand", "real"
OWN = "own"
KIND_WEIGHTS = {TOOL: 40, NONE: 13, TEXT: 9, COMPOUND: 32, HAND: 6, REAL: 6}
OWN_SHARE = 0.1
"""The share of the user's own requests among what is drawn, where there are any."""

_TOOL_LINE = re.compile(r"(?:calc|units|clock): ")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")
_WORD = re.compile(r"\w+")
_RARE = 0.5
_DOUBLED = (
    "word_problem",
    "deadline",
    "conv_length",
    "conv_mass",
    "percent_of",
    "percent_off",
    "mixed",
    "days_between",
    "weekday",
    "date_plus",
    "today_plus",
    "kitchen",
    "two_items",
)


@dataclass(frozen=True)
class Example:
    """A marked request and its plan, one line a part."""

    kind: str
    language: str
    prompt: str
    plan: tuple[str, ...]
    operation: str = ""

    @property
    def target(self) -> str:
        """The plan as the model writes it."""
        return "\n".join(self.plan)


class Generator:
    """Draws examples: the same seed draws the same ones.

    With `held_out` only from the templates kept back, with `everything` from all of them. `real`
    are questions of public sets, which stay whole; `own` are sound examples of the user's own.
    """

    def __init__(
        self,
        seed: int,
        held_out: bool = False,
        everything: bool = False,
        real: Sequence[RealText] = (),
        own: Sequence[Example] = (),
    ) -> None:
        self._random = random.Random(seed)
        self._real = real
        self._own = own
        self._held_out = held_out
        self._everything = everything
        self.dropped = 0
        self.drawn = 0

    @property
    def state(self) -> Any:
        """Where its drawing stands, to continue from there."""
        return self._random.getstate()

    @state.setter
    def state(self, state: Any) -> None:
        self._random.setstate(state)

    def __iter__(self) -> Iterator[Example]:
        weights = {
            language: LANGUAGE_WEIGHTS[language] for language in templates.written_languages()
        }
        kinds = {k: float(w) for k, w in KIND_WEIGHTS.items() if k != REAL or self._real}
        if self._own:
            kinds[OWN] = sum(kinds.values()) * OWN_SHARE / (1 - OWN_SHARE)
        while True:
            kind = self._random.choices(tuple(kinds), tuple(kinds.values()))[0]
            language = self._random.choices(tuple(weights), tuple(weights.values()))[0]
            if example := self.draw(kind, language):
                yield example

    def draw(self, kind: str, language: str) -> Example | None:
        """Return one example, None where what was drawn can't be used."""
        self.drawn += 1
        maker: dict[str, Callable[[str], Example | None]] = {
            TOOL: self._tool,
            NONE: lambda language: self._whole(NONE, language),
            TEXT: lambda language: self._whole(TEXT, language),
            COMPOUND: self._compound,
            HAND: self._hand,
            REAL: lambda _: self._real_text(),
            OWN: lambda _: self._random.choice(self._own),
        }
        example = maker[kind](language)
        if example is None or not is_sound(example):
            self.dropped += 1
            return None
        return example

    def _usable(self, found: list[templates.Template]) -> list[templates.Template]:
        if self._everything:
            return found
        kept = [template for template in found if template.is_held_out == self._held_out]
        return kept or found

    def _template(
        self, found: list[templates.Template], clause: bool | None = None
    ) -> templates.Template:
        """Draw an operation, then one of its wordings."""
        usable = self._usable(found)
        if clause is not None:
            usable = [t for t in usable if t.clause == clause] or usable
        groups: dict[str, list[templates.Template]] = {}
        for template in usable:
            groups.setdefault(template.operation, []).append(template)
        weights = [
            (2.0 if group in _DOUBLED else 1.0) * (1 if len(members) > 2 else _RARE)
            for group, members in groups.items()
        ]
        return self._random.choice(groups[self._random.choices(tuple(groups), weights)[0]])

    def _tool(self, language: str) -> Example | None:
        source = templates.texts(language)
        clause = self._random.random() < 0.2
        template = self._template(list(source.tools), clause)
        filled = templates.fill(template, self._random)
        text = self._noisy(filled.text, filled.surfaces)
        if template.clause:
            text = text[:1].upper() + text[1:] + self._random.choice((".", "", "", "!", "?"))
        return Example(TOOL, language, mark(text).text, (filled.plan,), template.operation)

    def _whole(self, kind: str, language: str) -> Example:
        source = templates.texts(language)
        found = list(source.none if kind == NONE else source.text)
        template = self._random.choice(self._usable(found))
        filled = templates.fill(template, self._random)
        text = self._noisy(filled.text, filled.surfaces)
        if template.clause:
            text = text[:1].upper() + text[1:]
        return Example(kind, language, mark(text).text, (f"{filled.plan.partition(':')[0]}: *",))

    def _hand(self, language: str) -> Example | None:
        source = templates.texts(language)
        kept = [
            request
            for request in source.hand
            if self._everything or (request.style == "story") == self._held_out
        ]
        if not kept:
            return None
        request = self._random.choice(kept)
        return Example(HAND, language, mark(request.prompt).text, request.plan)

    def _real_text(self) -> Example:
        text = self._random.choice(self._real)
        plan = (f"{text.kind}{text.difficulty}: *",)
        return Example(REAL, "en", mark(text.prompt).text, plan, text.group)

    def _compound(self, language: str) -> Example | None:
        source = templates.texts(language)
        rng = self._random
        count = rng.choices((2, 3, 4), (58, 28, 14))[0]
        if count < 4 and rng.random() < 0.16 and source.joins.get("sentences"):
            return self._sentences(language)
        depends = rng.random() < 0.34
        independent = count - 1 if depends else count
        texts: list[str] = []
        plan: list[str] = []
        for _ in range(independent):
            is_tool = rng.random() < 0.52
            template = self._template(list(source.tools if is_tool else source.text), True)
            filled = templates.fill(template, rng)
            text = self._noisy(filled.text, filled.surfaces).rstrip(".?! ")
            texts.append(text)
            plan.append(
                filled.plan
                if is_tool
                else f"{filled.plan.partition(':')[0]}: {mark(text, language).text}"
            )
        if depends:
            number = rng.randint(1, len(plan))
            after = "after_number" if _TOOL_LINE.match(plan[number - 1]) else "after_text"
            template = rng.choice(self._usable(list(source.follow[after])))
            filled = templates.fill(template, rng)
            texts[number - 1] = _with_follow_up(texts[number - 1], filled.text, rng)
            plan.insert(number, _dependent(filled.plan, number, language))
        if len(texts) == 1:
            text = texts[0]
        else:
            group = {2: "two", 3: "three", 4: "four"}[len(texts)]
            join = templates.chosen(rng.choice(source.joins[group]), rng).replace("\\n", "\n")
            text = re.sub(r"\{(\d)(l?)\}", lambda m: texts[int(m[1]) - 1], join)
        if rng.random() < 0.6:
            text = text[:1].upper() + text[1:]
        if rng.random() < 0.5 and text[-1] not in ".?!":
            text += rng.choice((".", ".", "?", "!"))
        return Example(COMPOUND, language, mark(text).text, tuple(plan))

    def _sentences(self, language: str) -> Example | None:
        source = templates.texts(language)
        rng = self._random
        texts: list[str] = []
        plan: list[str] = []
        for _ in range(2):
            is_tool = rng.random() < 0.5
            template = self._template(list(source.tools if is_tool else source.text), False)
            filled = templates.fill(template, rng)
            text = self._noisy(filled.text, filled.surfaces).strip()
            texts.append(text)
            plan.append(
                filled.plan
                if is_tool
                else f"{filled.plan.partition(':')[0]}: {mark(text, language).text}"
            )
        if "\n" in "".join(texts):
            return None
        if texts[0][-1] not in ".?!":
            texts[0] += rng.choice((".", "?"))
        join = templates.chosen(rng.choice(source.joins["sentences"]), rng).replace("\\n", "\n")
        values = {
            "1": texts[0],
            "2": texts[1],
            "1l": texts[0][:1].lower() + texts[0][1:],
            "2l": texts[1][:1].lower() + texts[1][1:],
        }
        text = re.sub(r"\{(\dl?)\}", lambda m: values.get(m[1], ""), join)
        return Example(COMPOUND, language, mark(text).text, tuple(plan))

    def _noisy(self, text: str, surfaces: tuple[str, ...]) -> str:
        """Return a text as sloppy people type it; what fills its slots stays whole."""
        rng = self._random
        if rng.random() < 0.16 and not any(c.isupper() for s in surfaces for c in s):
            text = text.lower()
        if rng.random() < 0.12:
            text = text.rstrip("?.! ")
        if rng.random() < 0.05 and not any(ord(c) > 127 for s in surfaces for c in s):
            text = "".join(
                c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c)
            )
        if rng.random() < 0.1:
            text = _typo(text, surfaces, rng)
        return text


_JOINT = re.compile(
    r"^(?:and then|and|then|und dann|und|dann|et puis|et|puis|ensuite|y luego|y|luego|e poi|"
    r"e depois|e|poi|depois) +",
    re.IGNORECASE,
)


def _with_follow_up(text: str, follow_up: str, rng: random.Random) -> str:
    """Return a part with a follow-up behind it, joined by its own joint or in another way."""
    bare = _JOINT.sub("", follow_up)
    if bare == follow_up or rng.random() < 0.4:
        return f"{text} {follow_up}".replace(" ,", ",")
    joint = rng.choice((", ", "; ", ". ", "? ", "\n", " + "))
    if rng.random() < 0.25:
        bare = follow_up
    if joint in (". ", "? ", "\n") and rng.random() < 0.7:
        bare = bare[:1].upper() + bare[1:]
    return text + joint + bare


def _typo(text: str, surfaces: tuple[str, ...], rng: random.Random) -> str:
    """Return a text with one letter dropped, doubled or swapped outside of its slots."""
    held = "|".join(re.escape(surface) for surface in surfaces if surface)
    words = list(re.finditer(r"[^\W\d_]{4,}", text))
    if held:
        taken = [m.span() for m in re.finditer(held, text)]
        words = [m for m in words if not any(a < m.end() and m.start() < b for a, b in taken)]
    words = [m for m in words if '"' not in text[: m.start()]]
    if not words:
        return text
    word = rng.choice(words)
    at = rng.randrange(word.start() + 1, word.end() - 1)
    match rng.randrange(3):
        case 0:
            return text[:at] + text[at + 1 :]
        case 1:
            return text[:at] + text[at] + text[at:]
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def _dependent(line: str, number: int, language: str) -> str:
    """Return a follow-up's plan line with the number of the part that it builds on."""
    head, _, body = line.partition(": ")
    if body.endswith("<- 1"):
        body = body.removesuffix("<- 1").rstrip()
    if head not in ("calc", "units", "clock"):
        body = mark(body, language).text
    return f"{head}: {body.replace('#1', f'#{number}')} <- {number}"


def is_sound(example: Example) -> bool:
    """Whether a plan can be read and computed, and holds what its request says."""
    return _is_computable(example) and _holds_numbers(example) and _holds_words(example)


def _is_computable(example: Example) -> bool:
    """Whether every expression of the plan has a value, and the plan can be read."""
    results: dict[int, Any] = {}
    try:
        for number, part in enumerate(parse_lines(example.target), start=1):
            results[number] = Fraction(12)
            if part.tool:
                expression = evaluate(HEADS[part.tool], part.text, now=NOON, results=results)
                value = plain_value(expression)
                results[number] = expression.value if value is None else value
    except (CannotCompute, PlanError):
        return False
    return True


def _holds_words(example: Example) -> bool:
    """Whether a hand-written or own plan's texts are said in words of the request."""
    if example.kind not in (HAND, OWN):
        return True
    there = set(_WORD.findall(example.prompt.casefold()))
    texts = [line.partition(": ")[2] for line in example.plan if not _TOOL_LINE.match(line)]
    marked = (mark(text.partition(" <- ")[0], example.language).text for text in texts)
    return all(there.issuperset(_WORD.findall(text.casefold())) for text in marked)


HEADS = {tool: head for head, tool in TOOL_HEADS.items()}
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def _holds_numbers(example: Example) -> bool:
    """Whether the marked text holds the numbers of the plan's expressions."""
    there = set(_NUMBER.findall(example.prompt))
    for line in example.plan:
        if not _TOOL_LINE.match(line):
            continue
        for literal in re.findall(r"\d{4}-\d\d-\d\d|\d{4}-\d\d|\d\d-\d\d|\d\d?:\d\d", line):
            if literal not in example.prompt:
                return False
        plain = re.sub(
            r"\d{4}-\d\d-\d\d|\d{4}-\d\d|\d\d-\d\d|\d\d?:\d\d|#\d|<- \d|0[bxo]\w+|[a-z]+\d",
            " ",
            line,
        )
        if any(n not in there and n not in CONSTANTS for n in _NUMBER.findall(plain)):
            return False
    return True
