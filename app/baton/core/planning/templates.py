"""Workflow templates: parses TOML into plans, and writes plans as TOML.

about = "One worker writes, another looks it over."

[[steps]]
task = "Answer the prompt."
sees = ["prompt", "history", "files"]

[[steps]]
task = "List what is wrong with it."
sees = ["prompt", 1]
check = true
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from baton.core.errors import ConfigError, PlanError
from baton.core.messages import Card, estimated_tokens
from baton.core.plan_types import (
    FILE,
    HISTORY,
    KINDS,
    MAX_STEPS,
    PROMPT,
    Material,
    Need,
    Plan,
    Step,
    text_pieces,
)

FILES, PIECE = "files", "piece"
"""What a template's step may see besides: all files, and the piece it is repeated for."""

_HELP = (
    "A template has `about`, `answer` and `[[steps]]` with task, kind, difficulty, sees, worker, "
)
_HELP += "optional, check, each."


@dataclass(frozen=True, slots=True)
class TemplateStep:
    """A step as it stands in a template: without a `need` it has the prompt's.

    With `each` there is one step for each piece of the files, read by a worker here.
    """

    step: Step
    has_need: bool = False
    each: bool = False


@dataclass(frozen=True, slots=True)
class Workflow:
    """A template (core.ports.Template)."""

    name: str
    about: str
    drawn: tuple[TemplateStep, ...]
    answer: tuple[int, ...]

    def plan(self, material: Material, roster: Sequence[Card], need: Need | None = None) -> Plan:
        """Return its plan for a prompt that asks for `need`; steps' workers may be "".

        Raises PlanError where there are no files to read in pieces, or too much in them.
        """
        room = MAX_STEPS - sum(not drawn.each for drawn in self.drawn)
        copies = sum(drawn.each for drawn in self.drawn)
        reader = ""
        names: list[str] = []
        if copies:
            reader, names = _reader_and_pieces(material, roster, room // copies)
        steps: list[Step] = []
        places: dict[int, tuple[int, ...]] = {}
        for number, drawn in enumerate(self.drawn, start=1):
            made = [
                _plan_step(drawn, piece, places, material, need)
                for piece in (names if drawn.each else [""])
            ]
            if drawn.each:
                made = [replace(step, worker=step.worker or reader) for step in made]
            places[number] = tuple(range(len(steps) + 1, len(steps) + len(made) + 1))
            steps.extend(made)
        return Plan(tuple(steps), tuple(n for number in self.answer for n in places[number]))


def _plan_step(
    drawn: TemplateStep,
    piece: str,
    places: Mapping[int, tuple[int, ...]],
    material: Material,
    need: Need | None,
) -> Step:
    """Return a template's step as a plan has it."""
    access: list[str] = []
    for name in drawn.step.access:
        if name == FILES:
            access.extend(FILE + file for file in material.files)
        elif name == PIECE:
            access.append(piece)
        elif name.isdecimal():
            access.extend(map(str, places[int(name)]))
        else:
            access.append(name)
    wanted = drawn.step.need if drawn.has_need or need is None else need
    return replace(drawn.step, access=tuple(access), need=wanted)


# Long documents

_FRAME_TOKENS = 256
"""Tokens of instruction and template around a piece."""

_FILLED_SHARE = 0.6
"""The share of the context that is filled: token counts are estimates."""


def _reader_and_pieces(
    material: Material, roster: Sequence[Card], most: int
) -> tuple[str, list[str]]:
    """Return who reads the files, and the names of their pieces, at most so many.

    It is the first worker, if it is here and its context lets it; else another one here; else code
    chooses later. Raises PlanError.
    """
    if not material.files:
        raise PlanError("This workflow reads a document in pieces, and there is no file.")
    here = [card for card in roster if not card.is_tool and card.is_local]
    for card in here or [card for card in roster if not card.is_tool][:1]:
        names = _piece_names(material, _readable_tokens(card, material))
        if 0 < len(names) <= most:
            return (card.id if here else ""), names
    raise PlanError(
        f"The files are too long to be read in {most} pieces by the workers here.",
        "Attach less, or choose a worker with a larger context.",
    )


def _readable_tokens(card: Card, material: Material) -> int:
    """Return how many tokens of a document a worker can read at once; 0: it never ends."""
    if not card.context:
        return 0
    answer = min(1024, card.context // 4)
    left = card.context - answer - _FRAME_TOKENS - estimated_tokens(material.prompt)
    return max(64, int(left * _FILLED_SHARE))


def _piece_names(material: Material, room: int) -> list[str]:
    """Return the names of the pieces of all files, none of more than so many tokens."""
    names: list[str] = []
    for file in material.files:
        _, text = material.file(FILE + file)
        tokens = estimated_tokens(text)
        count = -(-tokens // room) if room else 1
        while 1 < count <= MAX_STEPS:
            if max(map(estimated_tokens, text_pieces(text, count))) <= room:
                break
            count += 1
        names.extend(_names_in_file(file, text, count))
    return names


def _names_in_file(file: str, text: str, count: int) -> list[str]:
    if count <= 1:
        return [FILE + file]
    if count > MAX_STEPS:
        return [FILE + file] * count  # more than any plan can have, so the caller refuses
    there = len(text_pieces(text, count))
    return [f"{FILE}{file}#{n}/{count}" for n in range(1, there + 1)]


# Reading


def parse_plan(text: str) -> Plan:
    """Return the plan in a text that `format_plan` wrote or the user edited. Raises ConfigError."""
    workflow = parse_workflow(text)
    shorthand = any(drawn.each or FILES in drawn.step.access for drawn in workflow.drawn)
    if shorthand:
        raise ConfigError(
            'A plan names each file by itself, as in sees = ["prompt", "file:notes.txt"].',
            "`files` and `each` are for templates.",
        )
    try:
        return workflow.plan(Material(()), ())
    except PlanError as error:
        raise ConfigError(error.message, error.hint) from error


def parse_workflow(text: str, name: str = "plan") -> Workflow:
    """Return the workflow in a TOML text. Raises ConfigError, naming the line or the step."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers and nesting without end
        raise ConfigError(f"{name} isn't TOML: {error}.", _HELP) from error
    _refuse_unknown(data, ("name", "about", "answer", "steps"), name)
    called = _typed_value(data, "name", str, name, name)
    entries = data.get("steps")
    if not isinstance(entries, list) or not entries or not all(map(_is_table, entries)):
        raise ConfigError(f"{name} has no steps.", _HELP)
    if len(entries) > MAX_STEPS:
        raise ConfigError(f"{name} has {len(entries)} steps.", f"{MAX_STEPS} are the most.")
    drawn = tuple(
        _parse_step(entry, n, f"Step {n} of {name}") for n, entry in enumerate(entries, 1)
    )
    answer = _parse_answer(data, len(drawn), name)
    _refuse_unplayable(drawn, answer, name)
    return Workflow(called, _typed_value(data, "about", str, "", name), drawn, answer)


def _is_table(entry: object) -> bool:
    return isinstance(entry, dict)


_STEP_KEYS = ("task", "kind", "difficulty", "sees", "worker", "optional", "check", "each")


def _parse_step(entry: dict[str, Any], number: int, where: str) -> TemplateStep:
    _refuse_unknown(entry, _STEP_KEYS, where)
    task = _typed_value(entry, "task", str, "", where)
    if not task.strip():
        raise ConfigError(f"{where} has no task.", 'Say what to do: task = "...".')
    kind = _typed_value(entry, "kind", str, "", where)
    if kind and kind not in KINDS:
        raise ConfigError(f"{where} has no known kind: {kind!r}.{_suggestion(kind, KINDS)}", "")
    difficulty = _typed_value(entry, "difficulty", int, 0, where)
    if "difficulty" in entry and not 1 <= difficulty <= 5:
        raise ConfigError(f"{where} has a difficulty of {difficulty}.", "It goes from 1 to 5.")
    each = _typed_value(entry, "each", str, "", where)
    if each not in ("", PIECE):
        raise ConfigError(f"{where} has each = {each!r}.", f'Only "{PIECE}" is known.')
    default = [PROMPT, PIECE] if each else [PROMPT, HISTORY]
    sees = _typed_value(entry, "sees", list, default, where)
    step = Step(
        _typed_value(entry, "worker", str, "", where),
        task,
        tuple(_parse_sight(name, number, bool(each), where) for name in sees),
        Need(kind or "chat", difficulty or (3 if kind else 1)),
        _typed_value(entry, "optional", bool, False, where),
        _typed_value(entry, "check", bool, False, where),
    )
    return TemplateStep(step, bool(kind or difficulty), bool(each))


def _parse_sight(name: object, number: int, each: bool, where: str) -> str:
    """Return what an entry of `sees` is in an access list."""
    if isinstance(name, int) and not isinstance(name, bool):
        if 1 <= name < number:
            return str(name)
        raise ConfigError(f"{where} can't see step {name}.", "A step sees earlier ones only.")
    known = (PROMPT, HISTORY, FILES, *((PIECE,) if each else ()))
    if isinstance(name, str) and (name in known or name.startswith(FILE)):
        return name
    if name == PIECE:
        raise ConfigError(f"{where} sees a piece of nothing.", f'It needs each = "{PIECE}".')
    hint = "It sees prompt, history, files, file:NAME or the numbers of earlier steps."
    raise ConfigError(f"{where} can't see {name!r}.{_suggestion(str(name), known)}", hint)


def _parse_answer(data: Mapping[str, Any], count: int, name: str) -> tuple[int, ...]:
    answer = _typed_value(data, "answer", list, [count], name)
    numbers = [n for n in answer if isinstance(n, int) and not isinstance(n, bool)]
    right = len(numbers) == len(answer) == len(set(numbers)) > 0
    if not right or not all(1 <= n <= count for n in numbers):
        raise ConfigError(
            f"The answer of {name} is {answer!r}.", f"It lists numbers of steps, 1 to {count}."
        )
    return tuple(numbers)


def _refuse_unplayable(drawn: Sequence[TemplateStep], answer: tuple[int, ...], name: str) -> None:
    """Refuse a template that makes no valid plan for any prompt."""
    try:
        Plan(tuple(replace(d.step, access=()) for d in drawn), answer)
    except PlanError as error:
        raise ConfigError(f"{name} can't be run. {error.message}", error.hint) from error


def _typed_value(entry: Mapping[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    value = entry.get(key, default)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        words = {
            str: "text in quotes",
            int: "a whole number",
            bool: "true or false",
            list: "a list",
        }
        raise ConfigError(f"{where}: `{key}` is {value!r}.", f"It must be {words[kind]}.")
    return value


def _refuse_unknown(entry: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in entry:
        if key not in known:
            raise ConfigError(f"{where} has an unknown `{key}`.{_suggestion(key, known)}", _HELP)


def _suggestion(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, 1, 0.5)
    return f" Is {near[0]!r} meant?" if near else ""


# Writing


def format_plan(plan: Plan, about: str = "") -> str:
    """Return the TOML text of a plan; `parse_plan` makes the same plan of it."""
    lines = [f"about = {_quoted(about)}"] if about else []
    lines.append(f"answer = [{', '.join(map(str, plan.answer))}]")
    for number, step in enumerate(plan.steps, start=1):
        sees = [name if name.isdecimal() else _quoted(name) for name in step.access]
        lines += ["", f"[[steps]]  # {number}", f"task = {_format_text(step.subtask)}"]
        lines.append(f"kind = {_quoted(step.need.kind)}")
        lines.append(f"difficulty = {step.need.difficulty}")
        lines.append(f"sees = [{', '.join(sees)}]")
        lines.append(f"worker = {_quoted(step.worker)}")
        lines += [f"{key} = true" for key in ("optional", "check") if getattr(step, key)]
    return "\n".join(lines) + "\n"


_PLAIN_TEXT = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f]*")


def _format_text(text: str) -> str:
    """Write a text that has several lines as it looks."""
    if "\n" not in text or not _PLAIN_TEXT.fullmatch(text) or text.endswith('"'):
        return _quoted(text)
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""\n{escaped}"""'


def _quoted(text: str) -> str:
    # JSON's strings are TOML's, but for one control character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
