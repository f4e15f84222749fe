"""The form in which a language model draws a plan, and how what it drew is read.

    {"steps":[{"kind":"math","difficulty":3,"sees":["prompt"],"uses":[],"worker":2,
               "check":false,"task":"..."}],"answer":[1]}

A grammar is made for this very prompt: what isn't there (a file, a later step, a worker) can't be
written. Whatever comes is checked all the same, as not every worker can be held to a grammar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from baton.core.errors import PlanError
from baton.core.messages import AnswerFormat
from baton.core.plan.plan import (
    DIRECT,
    FILE,
    HISTORY,
    KINDS,
    MOST_DRAWN,
    MOST_STEPS,
    PROMPT,
    Need,
    Plan,
    Step,
)
from baton.core.sanitiser import one_line

MOST_FILES = 32
"""Files that a plan can name; of more than these, the newest."""

_DRAWN_TASK = 300
"""Characters of a task within the grammar: without an end, a small model repeats itself."""

_READ_TASK = 2000
_READ_TEXT = 60_000

_TASK = rf"""task ::= "\"" first char{{0,{_DRAWN_TASK - 1}}} "\""
first ::= [^"\\\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]
char ::= [^"\\\x00-\x1f\x7f-\x9f\u2028\u2029] | "\\" ["\\n]"""

_AGAIN = re.compile(r"(.{6,80}?)\1{2,}", re.DOTALL)
_BLANK = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class PlanSchema:
    """What a plan may name: files and workers (by number, from 1), and what was done before.

    Without `workers`, code chooses them. `done` steps were played, and of these the ones in
    `usable` have a text.
    """

    files: tuple[str, ...] = ()
    history: bool = False
    workers: tuple[str, ...] = ()
    done: int = 0
    usable: tuple[int, ...] = ()

    @property
    def room(self) -> int:
        """How many steps may be drawn."""
        return min(MOST_DRAWN, MOST_STEPS - self.done)

    @property
    def sights(self) -> dict[str, str]:
        """What a step may see besides results: as it is written, and as an access list has it."""
        names = {"prompt": PROMPT} | ({"history": HISTORY} if self.history else {})
        files = {f"file {n}": FILE + name for n, name in enumerate(self.files, start=1)}
        return names | files

    def shape(self) -> AnswerFormat:
        """Return the form of a plan; of one that may also accept, where steps were played."""
        return AnswerFormat(_grammar(self), json.dumps(_schema(self)))

    def read(self, text: str) -> tuple[tuple[Step, ...], tuple[int, ...]] | None:
        """Return the steps that were drawn and the answer; None where what there is was accepted.

        Raises PlanError, with a sentence that tells the model what is wrong.
        """
        drawn = _object(text)
        if self.done and drawn.get("accept") is True:
            return None
        steps = _list(drawn, "steps", "The plan")
        if not 0 < len(steps) <= self.room:
            raise PlanError(f"A plan has 1 to {self.room} steps, not {len(steps)}.")
        read = tuple(self._step(n, step) for n, step in enumerate(steps, start=self.done + 1))
        last = self.done + len(read)
        there = {*self.usable, *range(self.done + 1, last + 1)}
        answer = tuple(_numbers(drawn, "answer", there, "The answer"))
        if not answer:
            raise PlanError('"answer" names no step.')
        return read, answer

    def _step(self, number: int, drawn: Any) -> Step:
        what = f"Step {number}"
        if not isinstance(drawn, dict):
            raise PlanError(f"{what} is no object.")
        kind, difficulty = drawn.get("kind"), drawn.get("difficulty")
        if kind not in KINDS:
            raise PlanError(f'{what} has no "kind" out of: {", ".join(KINDS)}.')
        if type(difficulty) is not int or not 1 <= difficulty <= 5:
            raise PlanError(f'{what} has no "difficulty" from 1 to 5.')
        earlier = {*self.usable, *range(self.done + 1, number)}
        uses = sorted(_numbers(drawn, "uses", earlier, what))
        access = (*self._seen(drawn, what), *map(str, uses))
        check = drawn.get("check") is True and bool(uses)
        worker = self._worker(drawn, what)
        return Step(worker, _task(drawn, what), access, Need(kind, difficulty), check=check)

    def _seen(self, drawn: dict[str, Any], what: str) -> list[str]:
        sights = self.sights
        seen = []
        for name in _list(drawn, "sees", what):
            if not isinstance(name, str) or name not in sights:
                raise PlanError(
                    f'{what} can\'t see {_shown(name)}. "sees" can name: {", ".join(sights)}.'
                )
            seen.append(sights[name])
        return list(dict.fromkeys(seen))

    def _worker(self, drawn: dict[str, Any], what: str) -> str:
        if not self.workers:
            return ""
        number = drawn.get("worker")
        if type(number) is not int or not 1 <= number <= len(self.workers):
            raise PlanError(
                f"{what} has no such worker: {_shown(number)}. There are 1 to {len(self.workers)}."
            )
        return self.workers[number - 1]


def needed(steps: Sequence[Step], answer: tuple[int, ...], before: Sequence[Step] = ()) -> Plan:
    """Return a plan without the drawn steps that nothing comes of: no answer, and no check."""
    everything = (*before, *steps)
    wanted = set(answer) | {n for n, step in enumerate(everything, start=1) if step.check}
    for number in range(len(everything), 0, -1):
        if number in wanted:
            wanted.update(everything[number - 1].inputs)
    kept = [n for n in range(1, len(everything) + 1) if n <= len(before) or n in wanted]
    new = {old: position for position, old in enumerate(kept, start=1)}
    renumbered = [_renumbered(everything[n - 1], new) for n in kept[len(before) :]]
    return Plan((*before, *renumbered), tuple(new[n] for n in answer))


def _renumbered(step: Step, new: dict[int, int]) -> Step:
    access = tuple(str(new[int(name)]) if name.isdecimal() else name for name in step.access)
    return Step(step.worker, step.subtask, access, step.need, step.optional, step.check)


def written(steps: Sequence[Step], answer: Sequence[int], canvas: PlanSchema) -> str:
    """Return a plan as it would have been drawn: for examples."""
    names = {access: name for name, access in canvas.sights.items()}
    drawn = []
    for step in steps:
        fields: dict[str, Any] = {"kind": step.need.kind, "difficulty": step.need.difficulty}
        fields["sees"] = [names[name] for name in step.access if not name.isdecimal()]
        fields["uses"] = list(step.inputs)
        if canvas.workers:
            fields["worker"] = canvas.workers.index(step.worker) + 1
        drawn.append(fields | {"check": step.check, "task": step.subtask})
    return _compact({"steps": drawn, "answer": list(answer)})


# Reading


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, which may stand between fences or after some words."""
    start = text.find("{")
    if start < 0 or len(text) > _READ_TEXT:
        raise PlanError("There is no JSON object in it.")
    try:
        drawn, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"It isn't JSON: {one_line(str(error), 100)}.") from error
    assert isinstance(drawn, dict)
    return drawn


def _list(drawn: dict[str, Any], name: str, what: str) -> list[Any]:
    value = drawn.get(name)
    if not isinstance(value, list):
        raise PlanError(f'{what} has no list "{name}".')
    return value


def _numbers(drawn: dict[str, Any], name: str, there: Iterable[int], what: str) -> list[int]:
    there = set(there)
    for number in (numbers := _list(drawn, name, what)):
        if type(number) is not int or number not in there:
            known = ", ".join(map(str, sorted(there))) or "none"
            raise PlanError(
                f'{what} can\'t build on step {_shown(number)}. "{name}" can name: {known}.'
            )
    return list(dict.fromkeys(numbers))


def _task(drawn: dict[str, Any], what: str) -> str:
    task = drawn.get("task")
    if not isinstance(task, str) or not task.strip():
        raise PlanError(f'{what} has no "task".')
    if len(task) > _READ_TASK:
        raise PlanError(f'{what} has a "task" of more than {_READ_TASK:,} characters.')
    task = task.encode("utf-8", "replace").decode()  # JSON can hold half a character
    task = _AGAIN.sub(_once, f"{task.strip()} ").strip()
    plain = _BLANK.sub(" ", task).rstrip(".").lower()
    return DIRECT if plain == DIRECT.rstrip(".").lower() else task


def _once(found: re.Match[str]) -> str:
    """Say what a looping model repeated just once; a number with many zeros stays."""
    return found[1] if any(map(str.isalpha, found[1])) else found[0]


def _shown(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), 60)


# The grammar and the schema


def _grammar(canvas: PlanSchema) -> str:
    """Return the form as GBNF, with rules for each number that a step can have.

    What llama.cpp allows can't depend on what was written, so "only earlier steps" must be spelled
    out: `step-3` knows just the steps before it, and `end-3` just the answers of three steps.
    """
    first, last = canvas.done + 1, canvas.done + canvas.room
    drawn = f"step-{first} end-{first}"
    root = _quoted('{"steps":[') + " " + drawn
    if canvas.done:
        accepted = _quoted(_compact({"accept": True, "steps": [], "answer": []}))
        root = accepted + " | " + _quoted('{"accept":false,"steps":[') + " " + drawn
    rules = [f"root ::= {root}"]
    for number in range(first, last + 1):
        earlier = [*map(str, canvas.usable), *map(str, range(first, number))]
        rules.append(f"step-{number} ::= {_step_rule(canvas, number, bool(earlier))}")
        more = f' | "," step-{number + 1} end-{number + 1}' if number < last else ""
        close = _quoted('],"answer":[') + f" answer-{number} " + _quoted("]}")
        rules.append(f"end-{number} ::= {close}{more}")
        rules += _chain(f"uses-{number}", earlier)
        rules += _chain(f"answer-{number}", [*earlier, str(number)])
    rules += _chain("sees", [json.dumps(name) for name in canvas.sights])
    rules += _one_of("worker", [str(n + 1) for n in range(len(canvas.workers))])
    rules += _one_of("kind", [json.dumps(kind) for kind in KINDS])
    rules += ["grade ::= [1-5]", 'flag ::= "true" | "false"', _TASK]
    return "\n".join(rules) + "\n"


def _step_rule(canvas: PlanSchema, number: int, earlier: bool) -> str:
    parts = ['{"kind":', "kind", ',"difficulty":', "grade", ',"sees":[', "sees?"]
    parts += ['],"uses":[', f"uses-{number}?", "]"] if earlier else ['],"uses":[]']
    parts += [',"worker":', "worker"] if canvas.workers else []
    parts += [',"check":', "flag"] if earlier else [',"check":false']
    parts += [',"task":', "task", "}"]
    return " ".join(part if part[0].isalpha() else _quoted(part) for part in parts)


def _chain(name: str, items: Sequence[str]) -> list[str]:
    """Return rules for one or more of the items, in their order and none twice."""
    rules = []
    for position, item in enumerate(items):
        rule = name if position == 0 else f"{name}-{position}"
        rest = f"{name}-{position + 1}"
        more = f' ("," {rest})? | {rest}' if position + 1 < len(items) else ""
        rules.append(f"{rule} ::= {_quoted(item)}{more}")
    return rules


def _one_of(name: str, items: Sequence[str]) -> list[str]:
    """Return a rule for exactly one of the items."""
    return [f"{name} ::= {' | '.join(map(_quoted, items))}"] if items else []


def _quoted(text: str) -> str:
    """Return a text as GBNF writes it."""
    return json.dumps(text)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _schema(canvas: PlanSchema) -> dict[str, Any]:
    """Return the form as a JSON Schema, with nothing in it that strict providers refuse.

    They know neither ranges nor lengths nor that a list's items differ by their place.
    """
    whole: dict[str, Any] = {"type": "integer"}
    numbers = {"type": "array", "items": whole}
    step: dict[str, Any] = {
        "kind": {"type": "string", "enum": list(KINDS)},
        "difficulty": whole | {"description": "1 to 5"},
        "sees": {"type": "array", "items": {"type": "string", "enum": list(canvas.sights)}},
        "uses": numbers | {"description": "Numbers of earlier steps"},
    }
    if canvas.workers:
        step["worker"] = whole | {"description": f"1 to {len(canvas.workers)}"}
    step |= {"check": {"type": "boolean"}, "task": {"type": "string"}}
    plan: dict[str, Any] = {"accept": {"type": "boolean"}} if canvas.done else {}
    plan |= {"steps": {"type": "array", "items": _closed(step)}, "answer": numbers}
    return _closed(plan)


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
