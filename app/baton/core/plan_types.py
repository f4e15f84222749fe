"""A plan: steps, each with a worker, a need, a subtask and what it may see.

A step sees what its access list names and nothing else. It can only name earlier steps, so a plan
has no circles. What may start, and what a worker is shown, are pure functions of the plan.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, get_args

from baton.core.errors import PlanError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.messages import Message, Role, Turn, Usage, conversation_messages, fenced
from baton.core.prompt_wrapping import bare_question
from baton.core.sanitiser import one_line

Kind = Literal[
    "math",
    "calculation",
    "code",
    "knowledge",
    "reasoning",
    "writing",
    "rewriting",
    "summary",
    "extraction",
    "translation",
    "planning",
    "chat",
]
KINDS: tuple[str, ...] = get_args(Kind)
"""The task kinds, the same everywhere."""

MAX_DRAWN_STEPS = 5
"""How many steps a conductor may draw at once."""

MAX_STEPS = 32
"""How many steps a run may have in all: a long document is read in many pieces."""

DIRECT_SUBTASK = "Answer the prompt."
"""The subtask of a step that is shown the conversation itself, not an instruction about it."""

PROMPT, HISTORY, FILE = "prompt", "history", "file:"
"""What an access list may name besides the numbers of earlier steps."""


@frozen_dataclass
class Need:
    """What a step asks of a worker: a task kind, and a difficulty from 1 to 5."""

    kind: str = "chat"
    difficulty: int = 1


@frozen_dataclass
class Step:
    """One subtask for one worker ("" until code has chosen one).

    `access` names everything the worker may see: `prompt`, `history`, `file:NAME` (or a piece of
    one, `file:NAME#2/5`) or the number of an earlier step, counted from 1. Nothing is implicit.
    An `optional` step may fail without those that build on it; a `check` judges the steps it sees,
    and is given to another worker than theirs where there is one.
    """

    worker: str
    subtask: str
    access: tuple[str, ...] = (PROMPT, HISTORY)
    need: Need = Need()
    optional: bool = False
    check: bool = False

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of the steps it sees."""
        return tuple(int(name) for name in self.access if name.isdecimal())

    @property
    def is_direct(self) -> bool:
        """Whether the worker is shown the conversation itself."""
        return self.subtask == DIRECT_SUBTASK and not self.inputs


@frozen_dataclass
class Material:
    """What a run has to show: the conversation, its newest prompt last, each with its files."""

    turns: tuple[Turn, ...]
    _texts: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        texts = {file.name: file.text for turn in self.turns for file in turn.files}
        object.__setattr__(self, "_texts", texts)

    @property
    def prompt(self) -> str:
        """The text of the newest prompt."""
        return self.turns[-1].text

    @property
    def question(self) -> str:
        """The user's words in it: without what a program put around them."""
        return bare_question(self.prompt)

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files, oldest first."""
        return tuple(dict.fromkeys(file.name for turn in self.turns for file in turn.files))

    def file(self, access: str) -> tuple[str, str]:
        """Return the name and the text behind `file:NAME` or `file:NAME#2/5`; "" if not there."""
        name = access.removeprefix(FILE)
        texts = self._texts
        if name in texts:
            return name, texts[name]
        whole, _, piece = name.rpartition("#")
        number, _, count = piece.partition("/")
        if whole not in texts or not (number.isdecimal() and count.isdecimal()):
            return name, ""
        parts = text_pieces(texts[whole], int(count))
        return name, parts[int(number) - 1] if 0 < int(number) <= len(parts) else ""


@frozen_dataclass
class Plan:
    """Steps, counted from 1, and the numbers of those whose texts make up the answer.

    Raises PlanError for a plan that can't be run.
    """

    steps: tuple[Step, ...]
    answer: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.steps) <= MAX_STEPS:
            raise PlanError(f"A plan has 1 to {MAX_STEPS} steps, not {len(self.steps)}.")
        for number, step in enumerate(self.steps, start=1):
            _validate_step(number, step)
        if not self.answer or not all(1 <= n <= len(self.steps) for n in self.answer):
            raise PlanError("A plan's answer names at least one of its steps.")
        if len(set(self.answer)) < len(self.answer):
            raise PlanError("A plan's answer names a step twice.")

    def startable_steps(
        self, done: Collection[int], begun: Collection[int] = ()
    ) -> tuple[int, ...]:
        """Return the steps that may start once those in `done` are over, without those begun."""
        return tuple(
            number
            for number, step in enumerate(self.steps, start=1)
            if number not in done and number not in begun and all(n in done for n in step.inputs)
        )

    def messages(
        self, number: int, material: Material, outputs: Mapping[int, str], system: str = ""
    ) -> tuple[Message, ...]:
        """Return exactly the messages that step `number` may see, oldest first.

        `outputs` are the texts of steps that are over; one without a text has failed. All of it is
        data for the worker: only `system`, the worker's own text, becomes a system message.
        """
        step = self.steps[number - 1]
        earlier = material.turns[:-1] if HISTORY in step.access else ()
        if step.is_direct and _hold_all((*earlier, material.turns[-1]), step.access):
            turns = [
                _with_named_files(turn, step.access) for turn in (*earlier, material.turns[-1])
            ]
            return conversation_messages(system, turns)
        turns = [replace(turn, files=()) for turn in earlier]
        last = Message(Role.USER, "\n\n".join(self._message_parts(step, material, outputs)))
        return (*conversation_messages(system, turns, ended=True), last)

    def _message_parts(
        self, step: Step, material: Material, outputs: Mapping[int, str]
    ) -> list[str]:
        parts = []
        for name in step.access:
            if name.startswith(FILE):
                title, text = material.file(name)
                parts.append(f"File {one_line(title)}:\n{fenced(text)}")
        if PROMPT in step.access:
            heading = "What was asked" if step.subtask != DIRECT_SUBTASK else "What is asked"
            parts.append(f"{heading}:\n{fenced(material.prompt)}")
        for n in step.inputs:
            parts.append(f"Result {n}:\n{fenced(outputs.get(n, '') or '(nothing)')}")
        return [*parts, step.subtask]

    def with_steps(self, steps: Sequence[Step], answer: tuple[int, ...]) -> Plan:
        """Return this plan with more steps after its own, and another answer."""
        return Plan((*self.steps, *steps), answer)


def _validate_step(number: int, step: Step) -> None:
    if step.need.kind not in KINDS:
        raise PlanError(f"Step {number} is of no known kind: {step.need.kind!r}.")
    if not 1 <= step.need.difficulty <= 5:
        raise PlanError(f"Step {number} has a difficulty outside 1 to 5: {step.need.difficulty}.")
    if not step.subtask.strip():
        raise PlanError(f"Step {number} says nothing to do.")
    for name in step.access:
        known = name in (PROMPT, HISTORY) or name.startswith(FILE)
        if not known and not (name.isascii() and name.isdecimal() and 1 <= int(name) < number):
            raise PlanError(f"Step {number} can't see {name!r}: there is no such earlier thing.")


def _hold_all(turns: Sequence[Turn], access: Sequence[str]) -> bool:
    """Whether these turns hold all that an access list names: the prompt, whole files."""
    there = {PROMPT, HISTORY, *(FILE + file.name for turn in turns for file in turn.files)}
    return PROMPT in access and there.issuperset(access)


def _with_named_files(turn: Turn, access: Sequence[str]) -> Turn:
    """Leave the files out that the access list doesn't name."""
    named = set(access)
    return replace(turn, files=tuple(file for file in turn.files if FILE + file.name in named))


def text_pieces(text: str, count: int) -> tuple[str, ...]:
    """Cut a text into that many pieces of about the same length, at line ends where there are any.

    Joined they are the text again; a short text has fewer.
    """
    size = max(1, -(-len(text) // max(1, count)))
    parts: list[str] = []
    start = 0
    while start < len(text):
        end = start + size
        if end < len(text):
            newline = text.rfind("\n", start + size // 2, end)
            end = newline + 1 if newline > 0 else end
        if len(parts) == count - 1:
            end = len(text)
        parts.append(text[start:end])
        start = end
    return tuple(parts)


def single_step_plan(worker: str, files: Sequence[str] = (), need: Need | None = None) -> Plan:
    """Return the ordinary plan: one worker answers the prompt, seeing all of it."""
    return Plan((direct_step(worker, files, need),), (1,))


def direct_step(worker: str, files: Sequence[str] = (), need: Need | None = None) -> Step:
    """Return a step in which a worker answers the prompt, seeing all of the conversation."""
    access = (PROMPT, HISTORY, *(FILE + name for name in files))
    return Step(worker, DIRECT_SUBTASK, access, need or Need())


@frozen_dataclass
class Outcome:
    """The outcome of a plan: the texts of its steps, and why some have none.

    `cut` are those that stopped at their length cap, `failed` those that failed or were left out
    (their text, if any, is only a part), each with a sentence. `usage` is how its worker ended a
    step; `looped` are those that were stopped as they repeated themselves. `failed_workers` are
    those that couldn't do a step of it.
    """

    plan: Plan
    texts: Mapping[int, str] = field(default_factory=dict)
    cut: Collection[int] = ()
    failed: Mapping[int, str] = field(default_factory=dict)
    usage: Mapping[int, Usage] = field(default_factory=dict)
    looped: Collection[int] = ()
    failed_workers: Collection[str] = ()

    def text(self, number: int) -> str:
        """Return the whole text of a step that didn't fail, or ""."""
        return "" if number in self.failed else self.texts.get(number, "")


# Changes to a plan by hand


_RESULT_NUMBER = re.compile(r"\b(results?|steps?) (\d+)\b", re.IGNORECASE)


def with_worker(plan: Plan, number: int, worker: str) -> Plan:
    """Give a step to another worker."""
    return _with_step(plan, number, replace(plan.steps[number - 1], worker=worker))


def with_subtask(plan: Plan, number: int, text: str) -> Plan:
    """Give a step another instruction. Raises PlanError for an empty one."""
    return _with_step(plan, number, replace(plan.steps[number - 1], subtask=text.strip()))


def without_step(plan: Plan, number: int) -> Plan:
    """Leave a step out: what saw it sees what it saw, and takes its place in the answer.

    The steps after it have other numbers then, also where instructions name them. Raises PlanError
    for the only step.
    """
    if len(plan.steps) == 1:
        raise PlanError("The only step of a plan can't be left out.")
    gone = plan.steps[number - 1]
    steps = [
        _renumbered(step, number, gone.access)
        for index, step in enumerate(plan.steps, start=1)
        if index != number
    ]
    answer = dict.fromkeys(
        _moved(n, number)
        for seen in plan.answer
        for n in (gone.inputs if seen == number else (seen,))
    )
    return Plan(tuple(steps), tuple(answer) or (len(steps),))


def _with_step(plan: Plan, number: int, step: Step) -> Plan:
    return replace(plan, steps=(*plan.steps[: number - 1], step, *plan.steps[number:]))


def _renumbered(step: Step, gone: int, instead: tuple[str, ...]) -> Step:
    access: list[str] = []
    for name in step.access:
        access += instead if name == str(gone) else (name,)
    access = [str(_moved(int(name), gone)) if name.isdecimal() else name for name in access]

    def renumber(match: re.Match[str]) -> str:
        return f"{match[1]} {_moved(int(match[2]), gone)}"

    return replace(
        step,
        access=tuple(dict.fromkeys(access)),
        subtask=_RESULT_NUMBER.sub(renumber, step.subtask),
    )


def _moved(number: int, gone: int) -> int:
    return number - 1 if number > gone else number
