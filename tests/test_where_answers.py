"""Each question of docs/where-questions.md has an answer, whose file and symbol exist."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
QUESTIONS = ROOT / "docs" / "where-questions.md"
ANSWERS = ROOT / "docs" / "where-answers.toml"
PACKAGE = ROOT / "app" / "baton"

answers = tomllib.loads(ANSWERS.read_text("utf-8"))["answer"]


def test_each_question_has_one_answer() -> None:
    asked = re.findall(r"^(\d+)\. ", QUESTIONS.read_text("utf-8"), flags=re.MULTILINE)
    answered = [answer["question"] for answer in answers]
    assert answered == [int(number) for number in asked], (
        f"Give each question of {QUESTIONS.name} one [[answer]] in {ANSWERS.name}, in their order."
    )


@pytest.mark.parametrize("answer", answers, ids=lambda answer: f"question-{answer['question']}")
def test_the_file_of_an_answer_defines_its_symbol(answer: dict[str, str]) -> None:
    path, symbol = PACKAGE / answer["file"], answer["symbol"]
    what_to_do = (
        f"If the code moved, move answer {answer['question']} of {ANSWERS.name} with it: name the "
        "file and the symbol that decide it now."
    )
    assert path.is_file(), f"There is no app/baton/{answer['file']}. {what_to_do}"
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        is_defined = symbol in set(defined_symbols(ast.parse(text).body))
    else:
        is_defined = re.search(rf"^\W*{re.escape(symbol)}\b", text, re.MULTILINE) is not None
    assert is_defined, f"app/baton/{answer['file']} doesn't define {symbol}. {what_to_do}"


def defined_symbols(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Names of functions, classes and constants; what a class defines behind its name and a dot."""
    for statement in statements:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name, body=body):
                yield name
                yield from (f"{name}.{inner}" for inner in defined_symbols(body))
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case _:
                pass
