"""Reads the hand-written wordings in `texts/LANGUAGE/`, and fills their slots.

A template is `wording => plan line`, with slots `{name:type}` and alternatives `(x|y|)`. A slot has
a surface, as a user types it, and a literal, as the plan language writes it.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from slots import fill_slot

TEXTS = Path(__file__).parent / "texts"

HELD_OUT = 0.15
"""The share of templates that training never sees."""

_SLOT = re.compile(r"\{(\w+):([\w.]+)\}")
_EXPRESSION = re.compile(r"(?:calc|units|clock): ")
_CHOICE = re.compile(r"\(([^()]*\|[^()]*)\)")


@dataclass(frozen=True)
class Template:
    """One wording with its plan line; a `clause` can stand inside a longer sentence."""

    language: str
    operation: str
    wording: str
    plan: str
    clause: bool = False

    @property
    def is_held_out(self) -> bool:
        """Whether it is kept back for judging, by a hash of its wording."""
        digest = hashlib.sha256(self.wording.encode()).digest()
        return digest[0] / 256 < HELD_OUT


@dataclass(frozen=True)
class Request:
    """A complete request that was written by hand, with its plan."""

    language: str
    style: str
    prompt: str
    plan: tuple[str, ...]


@dataclass(frozen=True)
class Texts:
    """All that one author wrote for a language."""

    language: str
    tools: Sequence[Template]
    none: Sequence[Template]
    text: Sequence[Template]
    joins: Mapping[str, Sequence[str]]
    follow: Mapping[str, Sequence[Template]]
    hand: Sequence[Request]
    fill: Mapping[str, Sequence[str]] = field(default_factory=dict)


def written_languages() -> tuple[str, ...]:
    """Return the languages that have written texts."""
    return tuple(sorted(folder.name for folder in TEXTS.iterdir() if folder.is_dir()))


@cache
def texts(language: str) -> Texts:
    """Read a language's folder. Raises OSError, ValueError."""
    folder = TEXTS / language
    joins: dict[str, list[str]] = {}
    follow: dict[str, list[Template]] = {}
    for group, line in _lines(folder / "join.txt"):
        if group.startswith("after"):
            follow.setdefault(group, []).append(_template(language, group, line))
        else:
            joins.setdefault(group, []).append(line)
    fill: dict[str, Sequence[str]] = {}
    for _, line in _lines(folder / "fill.txt"):
        name, _, values = line.partition(":")
        fill[name.strip()] = [
            *fill.get(name.strip(), []),
            *(value.strip() for value in values.split("|") if value.strip()),
        ]
    return Texts(
        language,
        [_template(language, group, line) for group, line in _lines(folder / "tools.txt")],
        [_template(language, group, line) for group, line in _lines(folder / "none.txt")],
        [_template(language, group, line) for group, line in _lines(folder / "text.txt")],
        joins,
        follow,
        _requests(language, folder / "hand.txt"),
        fill,
    )


def _lines(path: Path) -> list[tuple[str, str]]:
    """Return a file's lines with the group (`@ group`) that each stands in."""
    group, found = "", []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("@"):
            group = line[1:].strip()
        elif line.strip() and not line.startswith("#"):
            found.append((group, line))
    return found


def _template(language: str, operation: str, line: str) -> Template:
    wording, arrow, plan = line.rpartition(" => ")
    if not arrow:
        raise ValueError(f"A template without a plan line: {line}")
    clause = wording.startswith("+ ")
    return Template(language, operation, wording.removeprefix("+ ").strip(), plan.strip(), clause)


def _requests(language: str, path: Path) -> list[Request]:
    found: list[Request] = []
    style, style_of, prompt = "", "", ""
    plan: list[str] = []
    for line in [*path.read_text(encoding="utf-8").splitlines(), "> "]:
        if line.startswith("@"):
            style = line.removeprefix("@").strip().removeprefix("style").strip()
            continue
        if line.startswith("> "):
            if prompt:
                found.append(Request(language, style_of, prompt.replace("\\n", "\n"), tuple(plan)))
            prompt, plan, style_of = line[2:].strip(), [], style
        elif line.startswith("= "):
            plan.append(line[2:].strip())
    return found


@dataclass(frozen=True)
class FilledTemplate:
    """A wording with its slots filled, and its plan line ("" for none)."""

    text: str
    plan: str
    surfaces: tuple[str, ...] = ()


def fill(template: Template, rng: random.Random) -> FilledTemplate:
    """Return a template with alternatives chosen and slots filled."""
    wording = chosen(template.wording, rng)
    literals: dict[str, str] = {}
    said: dict[str, str] = {}
    surfaces: list[str] = []
    used: dict[str, set[str]] = {}

    def put(match: re.Match[str]) -> str:
        name, kind = match[1], match[2]
        for _ in range(20):
            surface, literal = slot(kind, template.language, rng)
            seen = used.setdefault(kind.rpartition(".")[2] if "." in kind else kind, set())
            value = _unit_in(literal) if "." in kind else literal
            if value not in seen:
                break
        seen.add(value)
        literals[name], said[name] = literal, surface
        surfaces.append(surface)
        return surface

    text = _SLOT.sub(put, wording)
    text = re.sub(r"\{(\w+)\}", lambda m: said.get(m[1], m[0]), text)
    plan = template.plan if _EXPRESSION.match(template.plan) else chosen(template.plan, rng)
    plan = re.sub(r"\{(\w+)(?::[\w.]+)?\}", lambda m: literals.get(m[1], m[0]), plan)
    return FilledTemplate(text.replace("\\n", "\n"), plan, tuple(surfaces))


def _unit_in(literal: str) -> str:
    return literal.split()[-1]


def chosen(wording: str, rng: random.Random) -> str:
    """Return a wording with one of each `(x|y)` taken, from the inside out."""
    while match := _CHOICE.search(wording):
        wording = (
            wording[: match.start()] + rng.choice(match[1].split("|")) + wording[match.end() :]
        )
    return re.sub(r"  +", " ", wording)


def slot(kind: str, language: str, rng: random.Random) -> tuple[str, str]:
    """Return a slot's surface and its literal: made up, or from the author's lists."""
    if (made := fill_slot(kind, language, rng)) is not None:
        return made
    value = rng.choice(texts(language).fill[kind])
    return value, value
