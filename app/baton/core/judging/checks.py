"""What can be checked in a text without a model: code, JSON, sums.

What could take long or break, code and schemas above all, runs in the tools' process. Nothing
that may be right is called wrong: what can't be decided is "not checked".
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from baton.core.errors import BatonError
from baton.core.events import Verdict
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.judging.claims import (
    ClaimedConversion,
    ClaimedSum,
    claimed_conversions,
    claimed_sums,
    is_conversion_right,
)
from baton.core.lazy_loading import lazy_pattern
from baton.core.markdown import LINE_BREAK, CodeBlock, blocks, prose
from baton.core.messages import fenced

MAX_TEXT_CHARS = 100_000
"""Only so much of a longer text is checked."""

MAX_RUNS = 6
"""How often code is run for one text."""

Compute = Callable[[str, str], Awaitable[str]]
JudgeClaims = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""Returns the answer of a tool (by its id) to a text. Raises WorkerError, or LookupError."""

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
_TESTS = lazy_pattern(
    r"^(?:[^\s#].*; *)?assert\b|^\s*(?:async )?def test|\b(?:unittest\.|IsolatedAsyncio)TestCase\b"
    r"|\bTestCase\)|^\s*>>> ",
    re.MULTILINE,
)
_DEFINITION = lazy_pattern(r"@|class\b|(?:async )?def (?!(?:main|run|check|verify))")
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


@frozen_dataclass
class Finding:
    """What was checked (code, JSON, sums), and the result."""

    what: str
    verdict: Verdict
    note: str = ""


async def check_text(
    text: str, prompt: str, compute: Compute | None, judge: JudgeClaims | None
) -> tuple[Finding, ...]:
    """Check what can be checked in a text; `prompt` may hold the schema that was asked for.

    `compute` has a tool answer a text, `judge` judges claimed sums; None where there are no tools.
    """
    text = text[:MAX_TEXT_CHARS]
    checker = _Checker(prompt[:MAX_TEXT_CHARS], compute, judge)
    found = blocks(text)
    if not found and text.lstrip()[:1] in ("{", "[") and _is_json(text):
        found = [CodeBlock("json", text)]
    python = [block.text for block in found if block.language in _PYTHON_LANGUAGES]
    findings = await checker.check_python(python)
    findings += await checker.check_documents(found)
    if wants_json(prompt) and next(_json_in(text), None) is None:
        findings.append(Finding("JSON", Verdict.WRONG, "It was asked for, and there is none."))
    plain = prose(text)
    findings += await checker.check_sums(claimed_sums(plain))
    findings += await checker.check_conversions(claimed_conversions(plain))
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


def is_checkable(text: str, prompt: str = "") -> bool:
    """Whether there is anything in a text that `check_text` might find right or wrong."""
    text = text[:MAX_TEXT_CHARS]
    if blocks(text) or text.lstrip()[:1] in ("{", "[") or wants_json(prompt):
        return True
    plain = prose(text)
    return bool(claimed_sums(plain) or claimed_conversions(plain))


_JSON_WANTED = lazy_pattern(
    r"\b(?:as|in|into|to|return|output|valid|only|just|als|nur|en|em|solo|sólo)\s"
    r"(?:\w+\s){0,3}json\b|\bjson (?:array|object|list|only|format)\b",
    re.IGNORECASE,
)
_ABOUT_JSON = lazy_pattern(
    r"\b(?:python|javascript|typescript|java|rust|function|script|code|class|api|parse[rs]?|flask"
    r"|how (?:do|can|to)|explain|what is|why|difference|yaml|csv|xml)\b",
    re.IGNORECASE,
)


def wants_json(prompt: str) -> bool:
    """Whether a prompt asks for an answer in JSON, and isn't about JSON or code."""
    asked = prompt[:500]
    return _JSON_WANTED.search(asked) is not None and _ABOUT_JSON.search(asked) is None


class _Checker:
    """Checks one text; counts the programs that it runs."""

    def __init__(self, prompt: str, compute: Compute | None, judge: JudgeClaims | None) -> None:
        self._prompt = prompt
        self._compute = compute
        self._judge = judge
        self._runs = 0

    async def check_python(self, codes: Sequence[str]) -> list[Finding]:
        """Run the code that has tests, and parse the rest."""
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
        """Parse code without tests: in the sandbox, because code can crash a parser."""
        sources = [textwrap.dedent(_without_shell_lines(code)) for code in codes]
        program = f"import ast\nfor code in {sources!r}:\n    ast.parse(code)"
        found = await self._run_program("Python", program)
        if found.verdict is Verdict.RIGHT:
            return Finding(found.what, found.verdict, "It can be parsed; it has no tests.")
        return found

    async def check_documents(self, found: Sequence[CodeBlock]) -> list[Finding]:
        """Parse JSON, TOML and YAML; validate JSON by the prompt's schema."""
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
        if self._judge is None:
            return [Finding("sums", Verdict.UNCHECKED, "There are no tools.")]
        try:
            answers = iter(await self._judge(asked))
        except BatonError as error:
            return [Finding("sums", Verdict.UNCHECKED, str(error))]
        right, wrong = 0, []
        for one in sums:
            verdicts = [next(answers) for _ in one.readings]
            if any(answer.startswith("Yes") for answer in verdicts):
                right += 1
            elif not one.doubtful and verdicts[0].startswith("No: "):
                wrong.append(f"{one.written}, but {verdicts[0].removeprefix('No: ')}")
        if wrong:
            return [Finding("sums", Verdict.WRONG, "; ".join(wrong[:3]))]
        return [Finding("sums", Verdict.RIGHT, f"{right} recomputed.")] if right else []

    async def check_conversions(self, claims: Sequence[ClaimedConversion]) -> list[Finding]:
        """Convert again what a text claims to have converted."""
        right, wrong = 0, []
        for one in claims:
            if one.written in self._prompt:
                continue
            try:
                result = await self._ask_tool("units", one.question)
            except (BatonError, LookupError):  # no such unit, or units of different things
                continue
            is_right = is_conversion_right(result, one.value)
            right += is_right is True
            if is_right is False:
                wrong.append(f"{one.written}, but {result.rstrip('.')}")
        if wrong:
            return [Finding("units", Verdict.WRONG, "; ".join(wrong[:3]))]
        return [Finding("units", Verdict.RIGHT, f"{right} converted.")] if right else []

    async def _run_program(self, what: str, program: str, *, tested: bool = False) -> Finding:
        """Run a program; one that can't be run stays unchecked.

        Where it is `tested`, only tests that ran and passed say that it is right.
        """
        self._runs += 1
        if self._runs > MAX_RUNS:
            return Finding(what, Verdict.UNCHECKED, "There is too much of it.")
        block = fenced(program).replace("\n", "python\n", 1)
        try:
            output = await self._ask_tool("python", block)
        except (BatonError, LookupError) as error:
            message = error.message if isinstance(error, BatonError) else ""
            return Finding(what, Verdict.UNCHECKED, message or "There is no sandbox here.")
        outcome, _, note = output.rpartition("\n")[2].partition(": ")
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
    """Whether code seems to have tests: an assertion within a function is none."""
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
    """Return code as a program; of an interactive session, its own output is the test."""
    session = code.lstrip().startswith(">>>")
    return f"__doc__ = {textwrap.dedent(code) + chr(10)!r}" if session else textwrap.dedent(code)


def _without_shell_lines(code: str) -> str:
    """Return notebook code without its magic lines: `%pip install`, `!ls`."""
    return re.sub(r"^[%!].*$", "", code, flags=re.MULTILINE)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(constant: str) -> None:
    raise json.JSONDecodeError(f"{constant} isn't JSON", "", 0)


def _schemas_in(prompt: str) -> Iterator[dict[str, object]]:
    """Find JSON schemas in a prompt, in blocks or in its lines."""
    for value in _json_in(prompt, "{"):
        if isinstance(value, dict) and ("$schema" in value or _is_schema(value)):
            yield value


def _json_in(text: str, brackets: str = "{[") -> Iterator[object]:
    """Find JSON objects and arrays in a text; at most 50 brackets are tried."""
    decoder, end = json.JSONDecoder(), 0
    for match in islice(re.finditer(f"[{re.escape(brackets)}]", text), 50):
        if match.start() < end:
            continue
        with suppress(ValueError, RecursionError):
            value, end = decoder.raw_decode(text, match.start())
            yield value


def _is_schema(value: dict[str, object]) -> bool:
    kinds = ("object", "array", "string", "number", "integer", "boolean", "null")
    return value.get("type") in kinds and bool(value.keys() & set(_SCHEMA_WORDS.split()))
