"""Plans and their steps: in words, and as a tree with each step under what it sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from baton.core.hold_decision import shown_rounded_up
from baton.core.plan_types import FILE, HISTORY, PROMPT, Need, Step
from baton.core.sanitiser import one_line
from baton.presentation.words import join_words

_MAX_SUBTASK_CHARS = 4000
"""An instruction is shown whole, up to this length, since the user decides by it."""

_SOURCE_NAMES = {PROMPT: "the prompt", HISTORY: "the conversation"}


def access_text(access: Iterable[str]) -> str:
    """Say what a step may see: "the prompt, file a.txt, result 2"."""
    return ", ".join(map(_source_text, access)) or "nothing but its instruction"


def _source_text(name: str) -> str:
    if name.startswith(FILE):
        file, _, piece = name.removeprefix(FILE).rpartition("#")
        number, _, count = piece.partition("/")
        if file and number.isdecimal() and count.isdecimal():
            return f"file {one_line(file)} (piece {number} of {count})"
        return f"file {one_line(name.removeprefix(FILE))}"
    return _SOURCE_NAMES.get(name, f"result {one_line(name)}")


def need_text(need: Need) -> str:
    """Say what kind of task it is, and how difficult: "math, difficulty 3 of 5"."""
    return f"{one_line(need.kind)}, difficulty {need.difficulty} of 5"


def subtask_text(step: Step) -> str:
    """Return a step's instruction on one line."""
    return (
        "Answers the prompt itself."
        if step.is_direct
        else one_line(step.subtask, _MAX_SUBTASK_CHARS)
    )


def step_numbers(numbers: Iterable[int]) -> str:
    """Name steps: "step 2", "steps 1 and 3", "steps 1, 2 and 4"."""
    names = [str(number) for number in numbers]
    return f"step{'s' if len(names) > 1 else ''} {join_words(names)}"


def step_cost_text(step: Step, cost: int | None) -> str:
    """Say what a step can cost at most: about that, where it reads what isn't written yet."""
    if cost is None:
        return "no price"
    return f"at most {'about ' if step.inputs else ''}{shown_rounded_up(cost)}" if cost else ""


# The tree


_MAX_INDENT = 3
_MIN_STEM_COLUMNS = 4


@dataclass(frozen=True, slots=True)
class Branch:
    """A step's place in the tree.

    `stem` are the lines that lead to it, `below` those that pass under it. `joins` are the steps
    that it sees where those are several: a stem leads to one place only.
    """

    number: int
    stem: str
    below: str
    joins: tuple[int, ...]


def plan_tree(steps: Sequence[Step], columns: int) -> tuple[Branch, ...]:
    """Return every step once, from top to bottom, with stems of at most so many columns.

    A step that sees one other stands under it; one that sees several stands where those part, as
    far to the right as the last of them. What goes deeper than `columns` is cut at its left.
    """
    parents = _parents(steps)
    levels = _levels(steps)
    columns = max(_MIN_STEM_COLUMNS, columns)
    indent = max(1, min(_MAX_INDENT, columns // (1 + max(levels, default=0))))
    rows: list[tuple[int, str, str]] = []
    roots = [number for number, parent in parents.items() if not parent]
    children: dict[int, list[int]] = {0: roots}
    for number, parent in parents.items():
        if parent:
            children.setdefault(parent, []).append(number)

    open_rows: list[tuple[int, str, int, bool]] = [
        (number, "", -1, number == roots[-1]) for number in reversed(roots)
    ]
    while open_rows:
        number, before, parent_level, is_last = open_rows.pop()
        span = indent * (levels[number - 1] - parent_level)
        corner = _corner(number, roots, is_last=is_last)
        line = corner + "─" * (span - 2) + " "
        under = before + (" " if is_last else "│") + " " * (span - 1)
        below = children.get(number, [])
        rows.append((number, before + line, under + ("│" if below else "")))
        open_rows += [
            (child, under, levels[number - 1], child == below[-1]) for child in reversed(below)
        ]
    return tuple(
        Branch(
            number,
            _fitted(stem, columns),
            _fitted(under, columns),
            inputs if len(inputs := steps[number - 1].inputs) > 1 else (),
        )
        for number, stem, under in rows
    )


def _corner(number: int, roots: Sequence[int], *, is_last: bool) -> str:
    """Return how a line leaves its trunk; the first one begins it."""
    if number == roots[0]:
        return "─" if is_last else "┬"
    return "└" if is_last else "├"


def _fitted(stem: str, width: int) -> str:
    """Return a stem with at most so many columns: what is cut is cut at its left."""
    return stem if len(stem) <= width else "…" + stem[-(width - 1) :]


def _parents(steps: Sequence[Step]) -> dict[int, int]:
    """Return for each step the one that it stands under (0: the plan itself)."""
    parents: dict[int, int] = {}
    for number, step in enumerate(steps, start=1):
        lines = [_line_to(seen, parents) for seen in step.inputs]
        shared = [n for n in lines[0] if all(n in line for line in lines)] if lines else []
        parents[number] = max(shared, default=0)
    return parents


def _line_to(number: int, parents: dict[int, int]) -> list[int]:
    """Return a step and all that it stands under."""
    line = []
    while number:
        line.append(number)
        number = parents[number]
    return line


def _levels(steps: Sequence[Step]) -> list[int]:
    """Return for each step how many others come one after the other before it."""
    levels: list[int] = []
    for step in steps:
        levels.append(max((levels[seen - 1] + 1 for seen in step.inputs), default=0))
    return levels
