"""What can be checked in a text without asking anybody: code, JSON, sums.

All that could take long or break, code and schemas above all, is done by the tools, in their own
process. Nothing is called wrong that may be right: what can't be told is "not checked".
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from baton.core.code_blocks import LINE_BREAK, CodeBlock, blocks, prose
from baton.core.errors import BatonError
from baton.core.events import Verdict
from baton.core.messages import fenced
from baton.core.plan.arithmetic_claims import ClaimedSum, claimed_sums

MAX_TEXT_CHARS = 100_000
"""A longer text is checked as far as that."""

MAX_RUNS = 6
"""How often code is run for one text."""

Compute = Callable[[str, str], Awaitable[str]]
"""Gives a tool (by its id) a text and returns its answer. Raises WorkerError, or LookupError."""

_PYTHON_LANGUAGES = ("python", "py", "python3", "pycon")
_TEXT_LANGUAGES = (
    "text",
    "txt",
    "plaintext",
    "output",
    "console",
    "csv",
    "md",
    "markdown",
    "diff",
    "log",
)
_TESTS = re.compile(
    r"^(?:[^\s#].*; *)?assert\b|^\s*(?:async )?def test|\b(?:unittest\.|IsolatedAsyncio)TestCase\b"
    r"|\bTestCase\)|^\s*>>> ",
    re.MULTILINE,
)
_DEFINITION = re.compile(r"@|class\b|(?:async )?def (?!(?:main|run|check|verify))")
_PARSERS = {
    "toml": "import tomllib\ntomllib.loads({text!r})",
    "yaml": "import yaml\nlist(yaml.parse({text!r}))",
    "yml": "import yaml\nlist(yaml.parse({text!r}))",
}
_SCHEMA_PROGRAM = """
import json, jsonschema
schema, value = json.loads({schema!r}), json.loads({value!r})
problem = None
try:
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    kind.check_schema(schema)
    found = jsonschema.exceptions.best_match(kind(schema).iter_errors(value))
    problem = found and found.json_path + ": " + found.message
except Exception:
    problem = ""
assert problem != "", "unusable"
assert problem is None, problem
"""
_SCHEMA_WORDS = (
    "properties items required enum const anyOf oneOf allOf additionalProperties prefixItems"
    " minimum maximum pattern minItems maxItems minLength maxLength $ref $defs"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at (code, JSON, sums), and what was found."""

    what: str
    verdict: Verdict
    note: str = ""


async def check_text(text: str, prompt: str, compute: Compute | None) -> tuple[Finding, ...]:
    """Check what can be checked in a text; `prompt` may hold the schema that was asked for."""
    text = text[:MAX_TEXT_CHARS]
    checker = _Checker(prompt[:MAX_TEXT_CHARS], compute)
    found = blocks(text)
    if not found and text.lstrip()[:1] in ("{", "[") and _is_json(text):
        found = [CodeBlock("json", text)]
    python = [block.text for block in found if block.language in _PYTHON_LANGUAGES]
    findings = await checker.check_python(python)
    findings += await checker.check_documents(found)
    findings += await checker.check_sums(claimed_sums(prose(text)))
    others = {b.language for b in found} - {
        *_PYTHON_LANGUAGES,
        *_PARSERS,
        *_TEXT_LANGUAGES,
        "json",
        "",
    }
    if others:
        names = ", ".join(sorted(others)[:5])
        findings.append(Finding("code", Verdict.UNCHECKED, f"There is no parser here for {names}."))
    if not findings:
        note = "Nothing in it can be executed, parsed or recomputed."
        findings.append(Finding("text", Verdict.UNCHECKED, note))
    return tuple(findings)


def is_checkable(text: str) -> bool:
    """Tell whether there is anything in a text that `check` might find right or wrong."""
    text = text[:MAX_TEXT_CHARS]
    return bool(blocks(text) or text.lstrip()[:1] in ("{", "[") or claimed_sums(prose(text)))


class _Checker:
    """Checks one text; counts what it has the tools do."""

    def __init__(self, prompt: str, compute: Compute | None) -> None:
        self._prompt = prompt
        self._compute = compute
        self._runs = 0

    async def check_python(self, codes: Sequence[str]) -> list[Finding]:
        """Run the code that has tests, parse all other."""
        tested = [n for n, code in enumerate(codes) if _has_tests(code)]
        findings = [await self._run_tests(codes, n) for n in tested]
        used = max(tested, default=-1)
        plain = [code for code in codes[used + 1 :] if not _has_tests(code)]
        return findings + ([await self._parse_python(plain)] if plain else [])

    async def _run_tests(self, codes: Sequence[str], number: int) -> Finding:
        """Run a block's tests: after the blocks before it, else alone, else after the prompt's."""
        code = _as_program(codes[number])
        before = [_as_program(other) for other in codes[:number]]
        asked = [b.text for b in blocks(self._prompt) if b.language in _PYTHON_LANGUAGES]
        attempts = dict.fromkeys(
            "\n\n".join(parts) for parts in ([*before, code], [code], [*asked, *before, code])
        )
        first: Finding | None = None
        for program in attempts:
            found = await self._run_program("Python and its tests", program, tested=True)
            if found.verdict is Verdict.RIGHT:
                return found
            first = first or found
        assert first is not None
        if "NameError" in first.note and not re.search(r"^\s*(?:def|class) ", code, re.MULTILINE):
            note = "The tests are of something that isn't there."
            return Finding(first.what, Verdict.UNCHECKED, note)
        return first

    async def _parse_python(self, codes: Sequence[str]) -> Finding:
        """Have code without tests parsed: where the jail is, because a parser can be overrun."""
        sources = [textwrap.dedent(_without_shell_lines(code)) for code in codes]
        program = f"import ast\nfor code in {sources!r}:\n    ast.parse(code)"
        found = await self._run_program("Python", program)
        if found.verdict is Verdict.RIGHT:
            return Finding(found.what, found.verdict, "It can be parsed; it has no tests.")
        return found

    async def check_documents(self, found: Sequence[CodeBlock]) -> list[Finding]:
        """Parse JSON and the like; hold JSON against the prompt's schema."""
        findings = [await self._check_json(b.text) for b in found if b.language == "json"][
            :MAX_RUNS
        ]
        for block in found:
            if (program := _PARSERS.get(block.language)) and "{{" not in block.text:
                findings.append(
                    await self._run_program(block.language.upper(), program.format(text=block.text))
                )
        return findings

    async def _check_json(self, text: str) -> Finding:
        try:
            value = json.loads(text, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            return Finding("JSON", Verdict.WRONG, f"{error.msg} in line {error.lineno}.")
        except (ValueError, RecursionError):
            return Finding(
                "JSON", Verdict.UNCHECKED, "It is nested too deeply, or has huge numbers."
            )
        schema = next(_schemas_in(self._prompt), None)
        if schema is None or value == schema:
            return Finding("JSON", Verdict.RIGHT, "It can be parsed; there is no schema for it.")
        program = _SCHEMA_PROGRAM.format(schema=json.dumps(schema), value=json.dumps(value))
        found = await self._run_program("JSON and its schema", program, tested=True)
        if found.note.startswith("AssertionError: unusable "):
            return Finding("JSON", Verdict.RIGHT, "It can be parsed; its schema can't be used.")
        return found

    async def check_sums(self, sums: Sequence[ClaimedSum]) -> list[Finding]:
        """Recompute all sums at once."""
        quoted = {one.written for one in claimed_sums(self._prompt)}
        sums = [one for one in sums if one.written not in quoted]
        if not sums:
            return []
        asked = [f"{left} \u2248 {right}" for one in sums for left, right in one.readings]
        asked.append("1 = 1")  # a list of claims is judged line by line
        try:
            answers = iter((await self._ask_tool("calculator", "\n".join(asked))).splitlines())
        except (BatonError, LookupError) as error:
            return [Finding("sums", Verdict.UNCHECKED, str(error))]
        right, wrong = 0, []
        for one in sums:
            said = [next(answers, "") for _ in one.readings]
            if any(answer.startswith("Yes") for answer in said):
                right += 1
            elif not one.doubtful and said[0].startswith("No: "):
                wrong.append(f"{one.written}, but {said[0].removeprefix('No: ')}")
        if wrong:
            return [Finding("sums", Verdict.WRONG, "; ".join(wrong[:3]))]
        return [Finding("sums", Verdict.RIGHT, f"{right} recomputed.")] if right else []

    async def _run_program(self, what: str, program: str, *, tested: bool = False) -> Finding:
        """Run a program; that it can't be run says nothing of it.

        Where it is `tested`, only tests that ran and passed say that it is right.
        """
        self._runs += 1
        if self._runs > MAX_RUNS:
            return Finding(what, Verdict.UNCHECKED, "There is too much of it.")
        block = fenced(program).replace("\n", "python\n", 1)
        try:
            said = await self._ask_tool("python", block)
        except (BatonError, LookupError) as error:
            message = error.message if isinstance(error, BatonError) else ""
            return Finding(what, Verdict.UNCHECKED, message or "There is no sandbox here.")
        outcome, _, note = said.rpartition("\n")[2].partition(": ")
        if outcome == "Failed":
            return Finding(what, Verdict.WRONG, note)
        if tested and outcome != "Passed":
            return Finding(what, Verdict.UNCHECKED, note or "No test ran.")
        return Finding(what, Verdict.RIGHT)

    async def _ask_tool(self, tool: str, text: str) -> str:
        if self._compute is None:
            raise LookupError("There are no tools.")
        return await self._compute(tool, text)


def _has_tests(code: str) -> bool:
    """Return whether code looks as if it had tests: an assertion of a function's own is none."""
    # After a form feed Python counts the indentation from 0.
    lines = [re.sub(r"^[ \t\f]*\f", "", line) for line in LINE_BREAK.split(code)]
    if _TESTS.search("\n".join(lines)):
        return True
    is_inside = False
    for line in lines:
        if line[:1].strip(" \t)]}#"):
            is_inside = bool(_DEFINITION.match(line))
        elif not is_inside and re.match(r"\s+assert\b", line):
            return True
    return False


def _as_program(code: str) -> str:
    """Make a program of what may be a session: its own output is its test."""
    session = code.lstrip().startswith(">>>")
    return f"__doc__ = {textwrap.dedent(code) + chr(10)!r}" if session else textwrap.dedent(code)


def _without_shell_lines(code: str) -> str:
    """Leave out what is no Python in a notebook: `%pip install`, `!ls`."""
    return re.sub(r"^[%!].*$", "", code, flags=re.MULTILINE)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(constant: str) -> None:
    raise json.JSONDecodeError(f"{constant} is no JSON", "", 0)


def _schemas_in(prompt: str) -> Iterator[dict[str, object]]:
    """Find JSON schemas in a prompt, in blocks or in its lines."""
    decoder = json.JSONDecoder()
    start, tries = prompt.find("{"), 0
    while start >= 0 and tries < 50:
        try:
            value, end = decoder.raw_decode(prompt, start)
        except (ValueError, RecursionError):
            value, end = None, start + 1
        if isinstance(value, dict) and ("$schema" in value or _is_schema(value)):
            yield value
        tries += 1
        start = prompt.find("{", end)


def _is_schema(value: dict[str, object]) -> bool:
    kinds = ("object", "array", "string", "number", "integer", "boolean", "null")
    return value.get("type") in kinds and bool(value.keys() & set(_SCHEMA_WORDS.split()))
