"""The JSON form in which a language model draws a plan: its grammar, its schema, its parser.

    {"steps":[{"kind":"math","difficulty":3,"sees":["prompt"],"uses":[],"worker":2,
               "check":false,"task":"..."}],"answer":[1]}

A grammar is made for this very prompt: what doesn't exist (a file, a later step, a worker) can't
be written. The text is validated all the same, as not every worker can be held to a grammar.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from baton.core.errors import PlanError
from baton.core.messages import AnswerFormat
from baton.core.plan_types import (
    DIRECT_SUBTASK,
    FILE,
    HISTORY,
    KINDS,
    MAX_DRAWN_STEPS,
    MAX_STEPS,
    PROMPT,
    Need,
    Plan,
    Step,
)
from baton.core.sanitiser import one_line

MAX_NAMED_FILES = 32
"""Files that a plan can name; of more than these, the newest."""

_MAX_DRAWN_TASK_CHARS = 300
"""Characters of a task within the grammar: without an end, a small model repeats itself."""

_MAX_TASK_CHARS = 2000
_MAX_PLAN_CHARS = 60_000

_TASK_RULES = rf"""task ::= "\"" first char{{0,{_MAX_DRAWN_TASK_CHARS - 1}}} "\""
first ::= [^"\\\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]
char ::= [^"\\\x00-\x1f\x7f-\x9f\u2028\u2029] | "\\" ["\\n]"""

_REPEATED = re.compile(r"(.{6,80}?)\1{2,}", re.DOTALL)
_WHITESPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class PlanSchema:
    """What a plan may name: files and workers (by number, from 1), and what was done before.

    Without `workers`, code chooses them. `done` steps were run, and of these the ones in
    `usable` have a text.
    """

    files: tuple[str, ...] = ()
    history: bool = False
    workers: tuple[str, ...] = ()
    done: int = 0
    usable: tuple[int, ...] = ()

    @property
    def max_steps(self) -> int:
        """How many steps may be drawn."""
        return min(MAX_DRAWN_STEPS, MAX_STEPS - self.done)

    @property
    def access_names(self) -> dict[str, str]:
        """What a step may see besides results: names in a plan, and those of an access list."""
        names = {"prompt": PROMPT} | ({"history": HISTORY} if self.history else {})
        files = {f"file {n}": FILE + name for n, name in enumerate(self.files, start=1)}
        return names | files

    def answer_format(self) -> AnswerFormat:
        """Return the form of a plan, with `accept` where steps were executed before."""
        return AnswerFormat(_grammar(self), json.dumps(_json_schema(self)))

    def parse(self, text: str) -> tuple[tuple[Step, ...], tuple[int, ...]] | None:
        """Return the drawn steps and the answer; None where the outcome was accepted.

        Raises PlanError, with a sentence for the model that says what is wrong.
        """
        drawn = _parse_object(text)
        if self.done and drawn.get("accept") is True:
            return None
        steps = _parse_list(drawn, "steps", "The plan")
        if not 0 < len(steps) <= self.max_steps:
            raise PlanError(f"A plan has 1 to {self.max_steps} steps, not {len(steps)}.")
        read = tuple(self._parse_step(n, step) for n, step in enumerate(steps, start=self.done + 1))
        last = self.done + len(read)
        there = {*self.usable, *range(self.done + 1, last + 1)}
        answer = tuple(_parse_numbers(drawn, "answer", there, "The answer"))
        if not answer:
            raise PlanError('"answer" names no step.')
        return read, answer

    def _parse_step(self, number: int, drawn: Any) -> Step:
        what = f"Step {number}"
        if not isinstance(drawn, dict):
            raise PlanError(f"{what} isn't an object.")
        kind, difficulty = drawn.get("kind"), drawn.get("difficulty")
        if kind not in KINDS:
            raise PlanError(f'{what} has no "kind" out of: {", ".join(KINDS)}.')
        if type(difficulty) is not int or not 1 <= difficulty <= 5:
            raise PlanError(f'{what} has no "difficulty" from 1 to 5.')
        earlier = {*self.usable, *range(self.done + 1, number)}
        uses = sorted(_parse_numbers(drawn, "uses", earlier, what))
        access = (*self._parse_sees(drawn, what), *map(str, uses))
        check = drawn.get("check") is True and bool(uses)
        worker = self._parse_worker(drawn, what)
        return Step(worker, _parse_task(drawn, what), access, Need(kind, difficulty), check=check)

    def _parse_sees(self, drawn: dict[str, Any], what: str) -> list[str]:
        sights = self.access_names
        seen = []
        for name in _parse_list(drawn, "sees", what):
            if not isinstance(name, str) or name not in sights:
                raise PlanError(
                    f"{what} can't see {_quoted_value(name)}. "
                    f'"sees" can name: {", ".join(sights)}.'
                )
            seen.append(sights[name])
        return list(dict.fromkeys(seen))

    def _parse_worker(self, drawn: dict[str, Any], what: str) -> str:
        if not self.workers:
            return ""
        number = drawn.get("worker")
        if type(number) is not int or not 1 <= number <= len(self.workers):
            raise PlanError(
                f"{what} has no such worker: {_quoted_value(number)}. "
                f"There are 1 to {len(self.workers)}."
            )
        return self.workers[number - 1]


def without_unused_steps(
    steps: Sequence[Step], answer: tuple[int, ...], before: Sequence[Step] = ()
) -> Plan:
    """Return a plan without the drawn steps that neither the answer nor a check uses."""
    everything = (*before, *steps)
    wanted = set(answer) | {n for n, step in enumerate(everything, start=1) if step.check}
    for number in range(len(everything), 0, -1):
        if number in wanted:
            wanted.update(everything[number - 1].inputs)
    kept = [n for n in range(1, len(everything) + 1) if n <= len(before) or n in wanted]
    new = {old: position for position, old in enumerate(kept, start=1)}
    renumbered = [_renumber_step(everything[n - 1], new) for n in kept[len(before) :]]
    return Plan((*before, *renumbered), tuple(new[n] for n in answer))


def _renumber_step(step: Step, new: dict[int, int]) -> Step:
    access = tuple(str(new[int(name)]) if name.isdecimal() else name for name in step.access)
    return Step(step.worker, step.subtask, access, step.need, step.optional, step.check)


def format_plan(steps: Sequence[Step], answer: Sequence[int], schema: PlanSchema) -> str:
    """Return a plan as it would have been drawn: for examples."""
    names = {access: name for name, access in schema.access_names.items()}
    drawn = []
    for step in steps:
        fields: dict[str, Any] = {"kind": step.need.kind, "difficulty": step.need.difficulty}
        fields["sees"] = [names[name] for name in step.access if not name.isdecimal()]
        fields["uses"] = list(step.inputs)
        if schema.workers:
            fields["worker"] = schema.workers.index(step.worker) + 1
        drawn.append(fields | {"check": step.check, "task": step.subtask})
    return _compact_json({"steps": drawn, "answer": list(answer)})


# Reading


def _parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, which may stand between fences or after some words."""
    start = text.find("{")
    if start < 0 or len(text) > _MAX_PLAN_CHARS:
        raise PlanError("There is no JSON object in it.")
    try:
        drawn, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"It isn't JSON: {one_line(str(error), 100)}.") from error
    assert isinstance(drawn, dict)
    return drawn


def _parse_list(drawn: dict[str, Any], name: str, what: str) -> list[Any]:
    value = drawn.get(name)
    if not isinstance(value, list):
        raise PlanError(f'{what} has no list "{name}".')
    return value


def _parse_numbers(drawn: dict[str, Any], name: str, there: Iterable[int], what: str) -> list[int]:
    there = set(there)
    for number in (numbers := _parse_list(drawn, name, what)):
        if type(number) is not int or number not in there:
            known = ", ".join(map(str, sorted(there))) or "none"
            raise PlanError(
                f'{what} can\'t build on step {_quoted_value(number)}. "{name}" can name: {known}.'
            )
    return list(dict.fromkeys(numbers))


def _parse_task(drawn: dict[str, Any], what: str) -> str:
    task = drawn.get("task")
    if not isinstance(task, str) or not task.strip():
        raise PlanError(f'{what} has no "task".')
    if len(task) > _MAX_TASK_CHARS:
        raise PlanError(f'{what} has a "task" of more than {_MAX_TASK_CHARS:,} characters.')
    task = task.encode("utf-8", "replace").decode()  # JSON can hold half a character
    task = _REPEATED.sub(_shown_once, f"{task.strip()} ").strip()
    plain = _WHITESPACE.sub(" ", task).rstrip(".").lower()
    return DIRECT_SUBTASK if plain == DIRECT_SUBTASK.rstrip(".").lower() else task


def _shown_once(found: re.Match[str]) -> str:
    """Return what a looping model repeated just once; a number with many zeros stays."""
    return found[1] if any(map(str.isalpha, found[1])) else found[0]


def _quoted_value(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), 60)


# The grammar and the schema


def _grammar(schema: PlanSchema) -> str:
    """Return the form as GBNF, with rules for each number that a step can have.

    What llama.cpp allows can't depend on what was written, so "only earlier steps" must be spelled
    out: `step-3` knows just the steps before it, and `end-3` just the answers of three steps.
    """
    first, last = schema.done + 1, schema.done + schema.max_steps
    drawn = f"step-{first} end-{first}"
    root = _gbnf_string('{"steps":[') + " " + drawn
    if schema.done:
        accepted = _gbnf_string(_compact_json({"accept": True, "steps": [], "answer": []}))
        root = accepted + " | " + _gbnf_string('{"accept":false,"steps":[') + " " + drawn
    rules = [f"root ::= {root}"]
    for number in range(first, last + 1):
        earlier = [*map(str, schema.usable), *map(str, range(first, number))]
        rules.append(f"step-{number} ::= {_step_rule(schema, number, bool(earlier))}")
        more = f' | "," step-{number + 1} end-{number + 1}' if number < last else ""
        close = _gbnf_string('],"answer":[') + f" answer-{number} " + _gbnf_string("]}")
        rules.append(f"end-{number} ::= {close}{more}")
        rules += _chain_rules(f"uses-{number}", earlier)
        rules += _chain_rules(f"answer-{number}", [*earlier, str(number)])
    rules += _chain_rules("sees", [json.dumps(name) for name in schema.access_names])
    rules += _choice_rule("worker", [str(n + 1) for n in range(len(schema.workers))])
    rules += _choice_rule("kind", [json.dumps(kind) for kind in KINDS])
    rules += ["grade ::= [1-5]", 'flag ::= "true" | "false"', _TASK_RULES]
    return "\n".join(rules) + "\n"


def _step_rule(schema: PlanSchema, number: int, earlier: bool) -> str:
    parts = ['{"kind":', "kind", ',"difficulty":', "grade", ',"sees":[', "sees?"]
    parts += ['],"uses":[', f"uses-{number}?", "]"] if earlier else ['],"uses":[]']
    parts += [',"worker":', "worker"] if schema.workers else []
    parts += [',"check":', "flag"] if earlier else [',"check":false']
    parts += [',"task":', "task", "}"]
    return " ".join(part if part[0].isalpha() else _gbnf_string(part) for part in parts)


def _chain_rules(name: str, items: Sequence[str]) -> list[str]:
    """Return rules for one or more of the items, in their order and none twice."""
    rules = []
    for position, item in enumerate(items):
        rule = name if position == 0 else f"{name}-{position}"
        rest = f"{name}-{position + 1}"
        more = f' ("," {rest})? | {rest}' if position + 1 < len(items) else ""
        rules.append(f"{rule} ::= {_gbnf_string(item)}{more}")
    return rules


def _choice_rule(name: str, items: Sequence[str]) -> list[str]:
    """Return a rule for exactly one of the items."""
    return [f"{name} ::= {' | '.join(map(_gbnf_string, items))}"] if items else []


def _gbnf_string(text: str) -> str:
    """Return a text as GBNF writes it."""
    return json.dumps(text)


def _compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _json_schema(schema: PlanSchema) -> dict[str, Any]:
    """Return the form as a JSON Schema, with nothing in it that strict providers refuse.

    They know neither ranges nor lengths nor that a list's items differ by their place.
    """
    whole: dict[str, Any] = {"type": "integer"}
    numbers = {"type": "array", "items": whole}
    step: dict[str, Any] = {
        "kind": {"type": "string", "enum": list(KINDS)},
        "difficulty": whole | {"description": "1 to 5"},
        "sees": {"type": "array", "items": {"type": "string", "enum": list(schema.access_names)}},
        "uses": numbers | {"description": "Numbers of earlier steps"},
    }
    if schema.workers:
        step["worker"] = whole | {"description": f"1 to {len(schema.workers)}"}
    step |= {"check": {"type": "boolean"}, "task": {"type": "string"}}
    plan: dict[str, Any] = {"accept": {"type": "boolean"}} if schema.done else {}
    plan |= {"steps": {"type": "array", "items": _closed_object(step)}, "answer": numbers}
    return _closed_object(plan)


def _closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
