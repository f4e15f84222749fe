"""What the menu finds for what is typed, and in which order."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from baton.tui import key_bindings, slash_commands
from baton.tui.menu_entries import (
    MAX_WAYS,
    MenuEntry,
    MenuWord,
    all_entries,
    match_quality,
    ranked_entries,
    ranked_paths,
    typed_word,
)

ENTRIES = all_entries()
LETTERS = st.text(st.sampled_from("abcdeorst /-"), max_size=12)
MEANT = {
    "quit": "/quit",
    "exit": "/quit",
    "theme": "/theme",
    "color": "/theme",
    "colour": "/theme",
    "search": "/search",
    "delete": "/search",
    "provider": "/connect",
    "key": "/connect",
    "budget": "/budget",
    "cost": "/budget",
    "stronger": "Stronger",
    "context": "/context",
    "copy code": "Copy code",
    "edit": "Edit",
    "versions": "Version before",
    "keys": "Keys here",
    "/new": "/new",
    "regen": "/regenerate",
}


@pytest.mark.parametrize(("typed", "name"), MEANT.items(), ids=MEANT)
def test_a_word_finds_first_what_it_means(typed: str, name: str) -> None:
    assert ranked_entries(ENTRIES, typed)[0].name == name


@given(LETTERS, st.lists(st.sampled_from([entry.id for entry in ENTRIES]), unique=True))
def test_filtering_invents_and_doubles_nothing(typed: str, recent: list[str]) -> None:
    found = [entry.id for entry in ranked_entries(ENTRIES, typed, recent)]
    assert len(set(found)) == len(found)
    assert set(found) <= {entry.id for entry in ENTRIES}
    if not typed.strip().strip("/"):
        assert len(found) == len(ENTRIES)
        assert found[: len(recent)] == recent


@given(st.sampled_from(ENTRIES), st.data())
def test_every_beginning_of_a_name_finds_it(entry: MenuEntry, data: st.DataObject) -> None:
    name = entry.name.removeprefix("/").lower()
    length = data.draw(st.integers(1, len(name)))
    assert entry.id in [found.id for found in ranked_entries(ENTRIES, name[:length])]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_recent_use_never_comes_before_a_name(entry: MenuEntry) -> None:
    others = [other.id for other in ENTRIES if other is not entry]
    for recent in others:
        assert ranked_entries(ENTRIES, entry.name, [recent])[0].name == entry.name


def test_of_equal_ones_the_recent_comes_first() -> None:
    assert ranked_entries(ENTRIES, "version")[0].name == "Version before"
    assert ranked_entries(ENTRIES, "version", ["branch(1)"])[0].name == "Version after"


@given(st.text("ab/.", max_size=40), st.text("ab/.", max_size=60))
def test_letters_match_in_their_order_or_not_at_all(query: str, text: str) -> None:
    rest = iter(text)
    is_inside = bool(query) and all(letter in rest for letter in query)
    quality = match_quality(query, text)
    assert (quality > 0) == is_inside
    assert quality <= 1


def test_letters_that_could_match_in_very_many_ways_are_matched_all_the_same() -> None:
    text = "ab" * 60
    assert MAX_WAYS < 20**12
    assert match_quality("a" * 12 + "b" * 12, text) > 0


@given(st.lists(st.text("abc/.", min_size=1, max_size=12), unique=True), st.text("abc", max_size=4))
def test_paths_are_found_by_their_letters(paths: list[str], typed: str) -> None:
    found = ranked_paths(paths, typed, 5)
    assert len(found) == min(5, sum(match_quality(typed, path) > 0 or not typed for path in paths))
    assert set(found) <= set(paths)


def test_the_name_of_a_file_counts_more_than_its_folders() -> None:
    paths = ["menu/readme.md", "docs/old/menu.py", "menu/deep/other.py"]
    assert ranked_paths(paths, "menu", 3)[0] == "docs/old/menu.py"
    assert ranked_paths(paths, "menu/readme.md", 3)[0] == "menu/readme.md"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("/", MenuWord("/", "", 1)),
        ("/re", MenuWord("/", "re", 3)),
        ("/mode u", MenuWord("mode", "u", 7)),
        ("/rename a title", None),
        ("/plan see @fol", MenuWord("@", "fol", 4)),
        ("see @fol", MenuWord("@", "fol", 4)),
        ('see @"a b', MenuWord("@", "a b", 5)),
        ("/etc/hosts", None),
        ("// why", None),
        ("/new\nline", None),
        ("me@example.org", None),
        ("hello", None),
    ],
)
def test_what_the_menu_can_complete(text: str, word: MenuWord | None) -> None:
    assert typed_word(text, text.rpartition("\n")[2], ("mode",)) == word


def test_every_entry_has_a_group_and_a_key_that_exists() -> None:
    for entry in ENTRIES:
        assert entry.group in slash_commands.GROUPS
        assert not entry.binding or entry.binding in key_bindings.BY_ID
    assert len({entry.id for entry in ENTRIES}) == len(ENTRIES)
