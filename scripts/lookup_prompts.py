"""The prompts of `bench_lookup`: edits, summaries and code of real texts, and plain chat.

Texts are Python's own topics and functions of its standard library, and Baton's documentation, so
they are as real as what people paste. Each second prompt of a kind is `held`: it is scored once,
after all choices are made.
"""

from __future__ import annotations

import inspect
import json
import random
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pydoc_data.topics import topics
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MODULES = "bisect calendar colorsys copy csv difflib fnmatch fractions glob heapq inspect \
    imaplib linecache locale mimetypes pprint random shlex statistics string \
    textwrap tokenize"
PAGES = "README docs/background docs/cloud docs/install docs/models docs/plans docs/serve"
SUMMARY = "Summarise the following text in three sentences.\n\n{}"
TYPOS = "Correct the typos in this text. Answer with the corrected text only.\n\n{}"
RENAME = "Rename the variable `{}` to `{}` in this function and show the whole function.\n\n{}"
REWRITES = (
    "Rewrite this text as a list of bullet points.\n\n{}",
    "Rewrite this text so that it is more polite.\n\n{}",
    "Rewrite this text in simpler words.\n\n{}",
    "Rewrite this text in the past tense.\n\n{}",
)
CODES = (
    "Add a docstring and type hints to this function.\n\n{}",
    "Write a unit test for this function.\n\n{}",
    "Add comments to this function that explain each step.\n\n{}",
    "Rewrite this function so that it checks its arguments first.\n\n{}",
)
CHAT_KINDS = ("chat", "knowledge", "writing", "reasoning", "planning")


class LookupPrompt(NamedTuple):
    """A prompt; `wanted` is the text that a perfect answer would be, "" where there are many."""

    kind: str
    text: str
    wanted: str = ""
    is_held: bool = False


def lookup_prompts() -> list[LookupPrompt]:
    """Return all prompts, kind by kind; the same as long as Python and our pages are."""
    chance = random.Random(45)
    kinds = (_summaries, _typos, _renames, _rewrites, _codes, _chats)
    return [
        prompt._replace(is_held=number % 2 == 1)
        for prompts in kinds
        for number, prompt in enumerate(prompts(chance))
    ]


def _summaries(chance: random.Random) -> Iterator[LookupPrompt]:
    whole = [text.strip() for text in topics.values() if 800 < len(text.strip()) < 4000]
    for text in chance.sample(whole, 16):
        yield LookupPrompt("summary", SUMMARY.format(text))


def _typos(chance: random.Random) -> Iterator[LookupPrompt]:
    for text in _paragraphs(chance, 12):
        yield LookupPrompt("typos", TYPOS.format(_with_typos(text, chance)), text)


def _renames(chance: random.Random) -> Iterator[LookupPrompt]:
    for source in _functions(chance, 12):
        names = re.findall(r"^def \w+\((?:self, )?(\w+)", source)
        old, new = names[0], chance.choice(("source", "given_value", "item_list", "payload"))
        wanted = re.sub(rf"\b{old}\b", new, source)
        yield LookupPrompt("rename", RENAME.format(old, new, _fenced(source)), wanted)


def _rewrites(chance: random.Random) -> Iterator[LookupPrompt]:
    for number, text in enumerate(_paragraphs(chance, 12)):
        yield LookupPrompt("rewrite", REWRITES[number // 2 % 4].format(text))


def _codes(chance: random.Random) -> Iterator[LookupPrompt]:
    for number, source in enumerate(_functions(chance, 16)):
        yield LookupPrompt("code", CODES[number // 2 % 4].format(_fenced(source)))


def _chats(chance: random.Random) -> Iterator[LookupPrompt]:
    path = ROOT / "scripts" / "training" / "router" / "everyday.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    texts = [
        one["prompt"] for one in lines if one["kind"] in CHAT_KINDS and one["language"] == "en"
    ]
    for text in chance.sample(texts, 24):
        yield LookupPrompt("chat", text)


def _paragraphs(chance: random.Random, count: int) -> list[str]:
    """Return paragraphs of prose from Baton's documentation."""
    pages = [(ROOT / f"{page}.md").read_text("utf-8") for page in PAGES.split()]
    parts = (part.strip() for page in pages for part in page.split("\n\n"))
    prose = [" ".join(part.split()) for part in parts if part[:1].isalpha() and "|" not in part]
    return chance.sample([part for part in prose if 300 < len(part) < 900], count)


def _functions(chance: random.Random, count: int) -> list[str]:
    """Return functions of Python's standard library that have an argument."""
    found = []
    for name in MODULES.split():
        for one in vars(import_module(name)).values():
            if inspect.isfunction(one) and one.__module__ == name:
                source = textwrap.dedent(inspect.getsource(one))
                if 300 < len(source) < 1500 and re.match(r"def \w+\((?:self, )?\w{2,}", source):
                    found.append(source)
    return chance.sample(found, count)


def _with_typos(text: str, chance: random.Random) -> str:
    """Return a text in which two letters of each eighth word or so have changed places."""
    words = text.split(" ")
    for number, word in enumerate(words):
        if len(word) > 4 and word.isalpha() and chance.random() < 0.25:
            at = chance.randrange(1, len(word) - 2)
            words[number] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)


def _fenced(source: str) -> str:
    return f"```python\n{source.rstrip()}\n```"
