"""What the menu can offer, and which of it a few typed letters mean: data, files and ranking."""

from __future__ import annotations

import math
import os
import re
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from textual.fuzzy import Matcher

from baton.core.folded_search import SearchQuery, fold
from baton.core.messages import Role, Turn
from baton.core.sanitiser import one_line, sanitise
from baton.platform.durable_files import expand_home
from baton.presentation.run_story import CardsById, worker_name
from baton.tui import slash_commands

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


RECENT = "Recent"
"""The group of what was chosen before."""

NAME_WEIGHT = 1.0
SYNONYM_WEIGHT = 0.95
SENTENCE_WEIGHT = 0.55
GROUP_WEIGHT = 0.4

RECENT_BONUS = 0.04
"""What a recent use adds: less than a name counts over a synonym, so it only breaks ties."""

MIN_QUALITY = 0.35
"""How well letters that aren't side by side must match a word, of 1 for the word itself."""

MAX_WAYS = 500
"""In how many ways letters may match a text for Textual's matcher, which tries all of them."""


MAX_BEFORE_WORD = 24
"""How many characters of a message are shown before the word that is found."""

MAX_MESSAGE_CHARS = 300
"""How many characters of a message are looked through in the menu."""


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """One row of the menu.

    `id` is what a recent use is remembered by. `action` is the screen's action, with arguments.
    `binding` is the id of the key that does the same, `key` that key for people. `completion` is
    what Tab writes into the prompt ("": nothing). `may_spend` is whether choosing it can cost money
    or let something leave this machine: letters and Enter alone never choose that.
    """

    id: str
    name: str
    sentence: str
    action: str = ""
    synonyms: tuple[str, ...] = ()
    group: str = ""
    binding: str = ""
    key: str = ""
    completion: str = ""
    may_spend: bool = False


def _action(
    name: str,
    sentence: str,
    action: str,
    binding: str = "",
    synonyms: str = "",
    *,
    group: str = slash_commands.ANSWERS,
    may_spend: bool = False,
) -> MenuEntry:
    return MenuEntry(
        action,
        name,
        sentence,
        action,
        tuple(synonyms.split()),
        group,
        binding,
        may_spend=may_spend,
    )


ACTIONS = (
    _action("Stop", "Stop the answer", "stop", "chat.stop", "cancel abort halt interrupt"),
    _action("Copy code", "Copy the next code block of the message", "copy_code", "turn.code"),
    _action(
        "Edit", "Change the prompt; the answer becomes a new version", "edit", "turn.edit", "fix"
    ),
    _action(
        "Stronger",
        "Have a stronger worker answer again",
        "stronger",
        "turn.stronger",
        "better cloud escalate",
        may_spend=True,
    ),
    _action(
        "Workflow", "See the steps, the workers and what was sent", "why", "turn.why", "steps trace"
    ),
    _action(
        "Version before",
        "Show the version before this one",
        "branch(-1)",
        "turn.branch_before",
        "versions branch previous",
    ),
    _action(
        "Version after",
        "Show the version after this one",
        "branch(1)",
        "turn.branch_after",
        "versions branch next",
    ),
    _action(
        "Editor",
        "Write the prompt in your editor",
        "editor",
        "chat.editor",
        "vim nano emacs",
        group=slash_commands.CONVERSATION,
    ),
    _action(
        "All models",
        "See, download and remove models",
        "models",
        "chat.models",
        "catalogue remove uninstall",
        group=slash_commands.MODELS,
    ),
    _action(
        "Keys here",
        "Show the keys that work here",
        "app.keys_here",
        "prompt.keys",
        "shortcuts bindings keyboard",
        group=slash_commands.BATON,
    ),
)
"""What the menu offers besides the commands."""


def command_entries(commands: Iterable[slash_commands.SlashCommand]) -> list[MenuEntry]:
    """Return an entry for each command; Tab writes its name."""
    return [
        MenuEntry(
            command.action,
            f"/{command.name}",
            command.help,
            command.action,
            command.synonyms,
            command.group,
            command.binding,
            completion=f"/{command.name}" + (" " if command.argument else ""),
            may_spend=command.may_spend,
        )
        for command in commands
    ]


def all_entries() -> list[MenuEntry]:
    """Return everything that the menu offers, group by group."""
    entries = [*command_entries(slash_commands.COMMANDS), *ACTIONS]
    return sorted(entries, key=lambda entry: slash_commands.GROUPS.index(entry.group))


def message_entries(turns: Sequence[Turn], words: str, roster: CardsById) -> list[MenuEntry]:
    """Return the messages that hold all the words, the newest first, each with its first match."""
    query = SearchQuery.of(words)
    entries: list[MenuEntry] = []
    for turn in reversed(turns) if query.parts else ():
        folded = fold(turn.text)
        if query.is_in(folded):
            who = "You" if turn.role is Role.USER else worker_name(turn.worker, roster)
            begin = max(0, query.spans(turn.text, folded)[0][0] - MAX_BEFORE_WORD)
            line = f"{'…' if begin else ''}{one_line(turn.text[begin:], MAX_MESSAGE_CHARS)}"
            entries.append(MenuEntry(f"message:{turn.id}", who, line, f"go_to({turn.id!r})"))
    return entries


def ranked_entries(
    entries: Sequence[MenuEntry], query: str, recent: Sequence[str] = ()
) -> list[MenuEntry]:
    """Return the entries that fit the query, the best first; without a query, the recent first."""
    words = query.lower().removeprefix("/").split()
    places = {id: place for place, id in enumerate(recent)}
    if not words:
        shown = [replace(e, group=RECENT) if e.id in places else e for e in entries]
        return sorted(shown, key=lambda entry: places.get(entry.id, len(recent)))
    fitting: list[tuple[float, MenuEntry]] = []
    for entry in entries:
        scores = [_word_score(entry, word) for word in words]
        bonus = RECENT_BONUS / (1 + places[entry.id]) if entry.id in places else 0.0
        if all(scores):
            fitting.append((sum(scores) / len(scores) + bonus, entry))
    return [entry for _, entry in sorted(fitting, key=lambda pair: -pair[0])]


def _word_score(entry: MenuEntry, word: str) -> float:
    """Return how well a word fits an entry, at most 1; 0 if it fits no part of it."""
    name = entry.name.removeprefix("/")
    weighted = (
        (NAME_WEIGHT, (name,)),
        (SYNONYM_WEIGHT, (*name.split(), *entry.synonyms)),
        (SENTENCE_WEIGHT, entry.sentence.split()),
        (GROUP_WEIGHT, entry.group.split()),
    )
    return max(
        weight * _word_quality(word, text.lower()) for weight, texts in weighted for text in texts
    )


def _word_quality(query: str, text: str) -> float:
    """Return how well letters match a word: side by side anywhere, else from its first one on."""
    text = text.strip(".,;:()")
    if query in text:
        return match_quality(query, text)
    quality = match_quality(query, text) if text[:1] == query[:1] else 0.0
    return quality if quality >= MIN_QUALITY else 0.0


def match_quality(query: str, text: str) -> float:
    """Return from 0 (a letter is missing) to 1 (the same) how well letters match a text, in order.

    Textual's matcher tries every way in which the letters can match the text. Where these are too
    many, only the first one counts.
    """
    if not query:
        return 0.0
    matcher = Matcher(query)
    if query in text or math.prod(text.count(letter) for letter in query) <= MAX_WAYS:
        score = matcher.match(text)
    else:
        positions = _first_positions(query, text)
        score = matcher.fuzzy_search.score(text, positions) if positions else 0.0
    return min(1.0, score / (4 * (len(query) + 1)))  # what the matcher gives for the same word


def _first_positions(query: str, text: str) -> list[int]:
    """Return where the letters stand first, in order; nothing if one is missing."""
    positions: list[int] = []
    for letter in query:
        place = text.find(letter, positions[-1] + 1 if positions else 0)
        if place < 0:
            return []
        positions.append(place)
    return positions


def ranked_paths(paths: Iterable[str], query: str, limit: int) -> list[str]:
    """Return the paths that fit the query, the best first: its letters in their names count most.

    Of equal ones the shorter comes first, and one that begins with a dot last.
    """
    typed = query.lower()
    if not typed:
        return sorted(islice(paths, limit), key=lambda path: path.startswith("."))
    ranked: list[tuple[float, bool, int, str]] = []
    for path in paths:
        lower = path.lower()
        quality = match_quality(typed, lower)
        if quality == 0:
            continue
        named = match_quality(typed, lower.rstrip("/").rpartition("/")[2])
        ranked.append((-quality - 2 * named, path.startswith("."), len(path), path))
    return [path for *_, path in sorted(ranked)[:limit]]


@dataclass(frozen=True, slots=True)
class MenuWord:
    """What is being typed in the prompt that the menu can complete.

    `kind` is "/" for a command, "@" for a file, or the name of the command whose argument it is;
    `text` is what was typed of it, `length` how many characters before the cursor it replaces.
    """

    kind: str
    text: str
    length: int


def typed_word(text: str, before: str, with_choices: Sequence[str]) -> MenuWord | None:
    """Return what the menu can complete in a prompt, `before` being its line up to the cursor."""
    if text.startswith("/") and "\n" not in text and "/" not in text[1:]:
        name, space, argument = text[1:].partition(" ")
        if not space:
            return MenuWord("/", name, len(text))
        if name.lower() in with_choices:
            return MenuWord(name.lower(), argument.strip(), len(text))
    path = path_at_end(before)
    return None if path is None else MenuWord("@", path, len(before) - before.rindex("@"))


_MENTION = re.compile(r"""(?:^|[\s(\["'`*:„“«—])@(?:"([^"]*)|([^\s"]*))$""")

MAX_ENTRIES = 2_000
"""How many entries of one folder are looked at."""

MAX_PATHS = 10_000
"""How many files and folders of the working folder are looked at."""

MAX_SECONDS = 1.0
"""For how long at most they are looked for."""

MAX_IGNORE_BYTES = 64 * 1024
"""How large a .gitignore may be that is read."""


def path_at_end(before: str) -> str | None:
    """Return the `@path` that is being typed at the end of this text, without the `@`."""
    match = _MENTION.search(before)
    return None if match is None else match[1] if match[1] is not None else match[2]


def mention_of(path: str) -> str:
    """Write a path as it is named in a prompt."""
    quote = "'" if '"' in path else '"'
    is_quoted = (" " in path or '"' in path) and not path.endswith("/")
    return f"@{quote}{path}{quote}" if is_quoted else f"@{path}"


def is_outside(typed: str) -> bool:
    """Whether a typed path leads out of the working folder."""
    return typed.startswith(("/", "~", "..", "./"))


def folder_paths(typed: str, limit: int = MAX_ENTRIES) -> list[str]:
    """Return what is in the folder of a typed path and begins like it; folders end in a slash."""
    folder, _, start = typed.rpartition("/")
    where = expand_home(f"{folder}/" if "/" in typed else ".")
    try:
        with os.scandir(where) as entries:
            names = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in islice(entries, MAX_ENTRIES)
                if _fold(entry.name).startswith(_fold(start))
                and (start.startswith(".") or not entry.name.startswith("."))
                and _can_be_named(entry.name)
            ]
    except OSError:
        return []
    prefix = f"{folder}/" if "/" in typed else ""
    return [prefix + name for name in sorted(names, key=str.lower)[:limit]]


def _fold(name: str) -> str:
    """Return a name in small letters, each composed as a keyboard writes it."""
    return unicodedata.normalize("NFC", name).lower()


def tree_paths(root: Path, limit: int = MAX_PATHS, seconds: float = MAX_SECONDS) -> list[str]:
    """Return the files and folders under a folder, the nearest first; folders end in a slash.

    Left out are `.git` and what .gitignore files say. Links to folders aren't followed. It ends
    after so many paths or seconds, with what it has.
    """
    end = time.monotonic() + seconds
    return list(islice(_walk(root, end), limit))


def _walk(root: Path, end: float) -> Iterator[str]:
    """Yield what is under a folder, one level after the other."""
    level: list[tuple[str, tuple[_Ignored, ...]]] = [("", ())]
    while level:
        deeper: list[tuple[str, tuple[_Ignored, ...]]] = []
        for folder, outer in level:
            if time.monotonic() > end:
                return
            ignored = (*outer, *_read_ignored(root, folder))
            for name, is_folder in _entries(root / folder):
                path = f"{folder}{name}/" if is_folder else f"{folder}{name}"
                if _is_ignored(ignored, path):
                    continue
                yield path
                if is_folder:
                    deeper.append((path, ignored))
        level = deeper


def _entries(folder: Path) -> list[tuple[str, bool]]:
    """Return the names in a folder that a prompt can hold, and which are folders."""
    try:
        with os.scandir(folder) as entries:
            found = [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in islice(entries, MAX_ENTRIES)
                if entry.name != ".git" and _can_be_named(entry.name)
            ]
    except OSError:
        return []
    return sorted(found, key=lambda entry: (entry[1], entry[0].lower()))


def _can_be_named(name: str) -> bool:
    """Whether a prompt can hold it as it is, so that no file's name writes to the terminal."""
    return name == sanitise(name) and not {'"', "'"} <= set(name) and "\n" not in name


_Ignored = tuple[str, "GitIgnoreSpec"]
"""The folder of a .gitignore file, from the root on, and what it says."""


def _read_ignored(root: Path, folder: str) -> list[_Ignored]:
    from pathspec import GitIgnoreSpec

    path = root / folder / ".gitignore"
    try:
        if not path.is_file():  # a pipe would never end
            return []
        with path.open("rb") as file:
            text = file.read(MAX_IGNORE_BYTES).decode("utf-8", "replace")
        return [(folder, GitIgnoreSpec.from_lines(text.splitlines()))]
    except (OSError, ValueError):
        return []


def _is_ignored(ignored: tuple[_Ignored, ...], path: str) -> bool:
    """Whether a path is ignored: the innermost .gitignore that says anything of it decides."""
    for folder, spec in reversed(ignored):
        if (decided := spec.check_file(path.removeprefix(folder)).include) is not None:
            return decided
    return False
