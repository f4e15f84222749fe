"""What pages, help texts and hints name exists: commands and options, settings, variables."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import click
import pytest

from baton.cli.root import baton as root_command
from baton.platform.settings import load_settings

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "AGENTS.md",
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "models").rglob("*.md")),
]
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
CALL = re.compile(r"(?:^|(?<!from)[\s|;&(])baton((?: +[^|;&\n)<>]+)?)")
OPTION = re.compile(r"--?[a-z][\w-]*")
VARIABLE = re.compile(r"\bBATON_[A-Z][A-Z_]*[A-Z]\b")
PLACEHOLDER = re.compile(r"[^a-z]|\{")
"""The first character of what stands for something: MODEL, {id}, ..., [ID]."""


def code_lines(text: str) -> Iterator[str]:
    for _, block in BLOCK.findall(text):
        yield from block.splitlines()
    yield from CODE.findall(BLOCK.sub("", text))


def calls(line: str) -> Iterator[list[str]]:
    """The words after each `baton` of a line."""
    for found in CALL.finditer(line):
        shown = re.split(r" {3,}", found[1])[0]  # what a help text says of its example
        try:
            yield shlex.split(shown, comments=True)
        except ValueError:
            yield shown.split()


def unknown_words(words: Sequence[str]) -> list[str]:
    """What a call names that isn't there."""
    command: click.Command = root_command
    path, unknown = "baton", []
    for number, word in enumerate(words):
        if word == "--":
            break
        if OPTION.match(word):
            known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
            if not {word, word.split("=")[0], word[:2]} & {*known, "--help", "-h"}:
                unknown.append(f"{path} {word}")
        elif isinstance(command, click.Group):
            if PLACEHOLDER.match(word):
                break
            found = command.get_command(click.Context(command), word)
            if found is None:
                is_text = command is root_command and " " in " ".join(words[number:])
                unknown.append(f"{path} {word}{' ...' if is_text else ''}")
                break
            command, path = found, f"{path} {word}"
    return unknown


def every_command(
    command: click.Command, path: str = "baton"
) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (found := command.get_command(context, name)) is not None:
                yield from every_command(found, f"{path} {name}")


def options_of(command: click.Command) -> set[str]:
    """The options of a command, and of those below it."""
    below = [one for _, one in every_command(command)]
    return {name for one in below for p in one.params for name in (*p.opts, *p.secondary_opts)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    found = [
        unknown
        for line in code_lines(text)
        for call in calls(line)
        for unknown in unknown_words(call)
    ]
    assert not found


def test_options_that_a_row_of_commands_names_are_its_commands_own() -> None:
    wrong = []
    for page in PAGES:
        for line in page.read_text("utf-8").splitlines():
            first, _, rest = line.strip("| ").partition(" | ")
            named = [call for code in CODE.findall(first) for call in calls(code)]
            if not line.startswith("|") or not named:
                continue
            for code in CODE.findall(rest):
                if OPTION.match(code):
                    option = code.split()[0]
                    if all(unknown_words([*call, option]) for call in named):
                        wrong.append(f"{page.name}: {line}")
    assert not wrong


def test_commands_and_options_that_help_texts_name_are_there() -> None:
    found = []
    for path, command in every_command(root_command):
        texts = [command.help or "", command.epilog or "", command.short_help or ""]
        texts += [getattr(parameter, "help", None) or "" for parameter in command.params]
        for text in texts:
            lines = [*CODE.findall(text), *re.findall(r"^  +(baton .+)$", text, re.MULTILINE)]
            for call in (call for line in lines for call in calls(line)):
                found += [f"{path} --help: {unknown}" for unknown in unknown_words(call)]
            for option in re.findall(r"(?<![\w`-])--[a-z][\w-]+", CODE.sub("", text)):
                found += [f"{path} --help: {option}"] if option not in options_of(command) else []
    assert not found


def test_commands_and_options_that_messages_name_are_there() -> None:
    found = []
    for file in sorted((ROOT / "app").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else "{}" for p in node.values]
                text = "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            for call in (call for code in CODE.findall(text) for call in calls(code)):
                found += [f"{file.relative_to(ROOT)}: {one}" for one in unknown_words(call)]
    assert not found


@cache
def settings() -> list[dict[str, str]]:
    data = ROOT / "tests" / "inventory" / "data" / "settings.json"
    return json.loads(data.read_text("utf-8"))  # type: ignore[no-any-return]


def test_variables_that_pages_name_are_read() -> None:
    sources = [*(ROOT / "app").rglob("*.py"), *(ROOT / "tests").glob("*.py")]
    for folder in ("scripts", "packaging", ".github"):
        sources += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    read = {row["variable"] for row in settings() if "variable" in row}
    for path in sources:
        read |= {*VARIABLE.findall(path.read_text("utf-8", errors="ignore"))}
    named = {name for page in PAGES for name in VARIABLE.findall(page.read_text("utf-8"))}
    assert named
    assert not named - read


def test_keys_that_pages_name_are_settings() -> None:
    keys = {row["key"] for row in settings()}
    tops = {key.split(".")[0] for key in keys if "." in key and not key.startswith("workers[")}
    wrong = []
    for page in PAGES:
        for code in CODE.findall(BLOCK.sub("", page.read_text("utf-8"))):
            found = re.fullmatch(r"\[?(\w+)(?:\.|\] )(\w+)(?: ?=.*)?", code)
            is_key = found is not None and found[1] in tops and found[2] not in ("log", "toml")
            if found is not None and is_key and f"{found[1]}.{found[2]}" not in keys:
                wrong.append(f"{page.name}: {code}")
            section = re.fullmatch(r"\[(\w+)\]", code)
            if section is not None and section[1] not in tops | keys:
                wrong.append(f"{page.name}: {code}")
    assert not wrong


SAMPLES = [
    (page.name, block)
    for page in PAGES
    for kind, block in BLOCK.findall(page.read_text("utf-8"))
    if kind == "toml" and "[[steps]]" not in block
]


@pytest.mark.parametrize(("page", "sample"), SAMPLES)
def test_a_configuration_that_a_page_shows_is_valid(page: str, sample: str, tmp_path: Path) -> None:
    tomllib.loads(sample)
    file = tmp_path / "config.toml"
    file.write_text(sample)
    load_settings(file)


def test_what_is_not_there_is_noticed() -> None:
    for line in ("baton ps --stop", "baton models pll", "A=1 baton ask --nope x | baton modls ls"):
        assert [unknown for call in calls(line) for unknown in unknown_words(call)]
    assert not [u for call in calls("baton ask -fsV 'x --nope'") for u in unknown_words(call)]
