"""What every driver of a Python package shares: where Baton is, and what is asked of it.

A driver is started as `drive_NAME.py COLUMN` and prints what the package gave, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

URL, ROOT, TOKEN = (os.environ[name] for name in ("BATON_URL", "BATON_ROOT", "BATON_TOKEN"))
MODEL = "baton/auto"
PROMPT = Path(os.environ["PROMPT_FILE"]).read_text(encoding="utf-8")
MESSAGES = [{"role": "user", "content": PROMPT}]


class Mayor(BaseModel):
    """Nested, so that the schema has definitions."""

    name: str


class City(BaseModel):
    """The form of an answer."""

    name: str
    people: int
    mayor: Mayor


WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
}
APPEND: dict[str, Any] = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
}

called: list[dict[str, Any]] = []


def weather(place: str) -> str:
    """Return the weather at a place."""
    called.append({"place": place})
    return "sunny"


def append(word: str) -> str:
    """Append a word to the file."""
    with Path("proof.txt").open("a", encoding="utf-8") as file:
        file.write(f"{word}\n")
    return "appended"


def error_names(ask: Callable[[str, str], object]) -> list[str]:
    """Return the classes of the errors for an unknown model, and for a prompt that is too long."""
    names = []
    for model, prompt in (("baton/nothing", "Hello"), (MODEL, "All work and no play. " * 6000)):
        try:
            ask(model, prompt)
        except Exception as error:
            names.append(type(error).__name__)
        else:
            names.append("")
    return names


def run(columns: Mapping[str, Any]) -> None:
    """Do what the command line names, and print the result."""
    print("\n" + json.dumps(columns[sys.argv[1]]()))
