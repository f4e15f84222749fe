"""What each command prints with --json: an object of the form that docs/scripting.md describes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from baton.cli.root import baton
from baton.platform.paths import find_paths
from support.command_line import Call
from support.sample_ledger import spend
from support.stored_runs import EVENTS, store_run

PAGE = (Path(__file__).parents[2] / "docs" / "scripting.md").read_text("utf-8")
SECTIONS = dict(
    zip(*(iter(re.split(r"^### (.+)$", PAGE, flags=re.MULTILINE)[1:]),) * 2, strict=True)
)

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")

COMMANDS = (
    "history ls",
    "history show 1",
    "history search Compare",
    "history query SELECT.id.FROM.runs",
    "workers ls",
    "workers show small",
    "models ls",
    "models ls --all",
    "models show small",
    "models show qwen3.5-4b",
    "models ps",
    "ps",
    "models role",
    "models recommend --no-measure",
    "models verify",
    "models prune",
    "budget show",
    "budget prices --all",
    "budget release",
    "usage",
    "usage --by worker",
    "egress ls",
    "egress show 1",
    "keys ls",
    "config show",
    "config path",
    "why",
    "trace",
)


@pytest.fixture
def used_home(home: Path) -> None:
    """A home with a run, calls that were charged, and requests that left."""
    store_run(*EVENTS)
    spend(find_paths().ledger)


def described(command: str) -> set[str]:
    """Return the names on the first level that the page gives for a command."""
    names: set[str] = set()
    for heading, text in SECTIONS.items():
        if any(f"{command} ".startswith(f"{one} ") for one in re.findall(r"`([^`]+)`", heading)):
            linked = re.findall(r"\]\(#(\w+)\)", text.split("|")[0])
            names |= first_names(text).union(*(first_names(SECTIONS[x.title()]) for x in linked))
    return names


def first_names(text: str) -> set[str]:
    cells = (line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    return {re.split(r"[.\[]", name)[0] for cell in cells for name in re.findall("`([^`]+)`", cell)}


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that holds no others, with its field's name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, name)
    else:
        yield name, value


@pytest.mark.usefixtures("used_home")
@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_an_object_of_the_described_form(call: Call, command: str) -> None:
    words = [word.replace(".", " ") if "SELECT" in word else word for word in command.split()]
    done = call(*words, "--json")
    assert done.code == 0, done.err
    shown = json.loads(done.out)
    assert isinstance(shown, dict)
    assert shown["schema"] == 1
    assert set(shown) <= described(command), set(shown) - described(command)
    for name, value in leaves(shown):
        if name.endswith("_usd"):
            assert value is None or re.fullmatch(r"\d+(\.\d+)?", value), (name, value)
        if name in ("created", "updated", "last_used", "started", "time") or name.endswith("_at"):
            assert value is None or re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", value), (
                name,
                value,
            )


def test_every_command_with_json_is_described() -> None:
    def leaf_paths(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        import click

        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                yield from leaf_paths(command.get_command(context, name), f"{path} {name}".strip())
        else:
            yield path, command

    with_json = {
        path
        for path, command in leaf_paths(baton, "")
        if any("--json" in option.opts for option in command.params)
    }
    headings = {name for heading in SECTIONS for name in re.findall(r"`([^`]+)`", heading)}
    assert with_json - headings == set()
