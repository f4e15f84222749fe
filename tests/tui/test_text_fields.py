"""A key moves over one character as people see it, and deletes one, wherever text is typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets.text_area import Selection

from baton.tui.widgets.text_widgets import TextField, character_border
from support.app_session import open_app, saying

CHARACTERS = [
    "\u303d\ufe0f",
    "\u23fa\ufe0f",
    "\U0001f469\u200d\U0001f4bb",
    "\U0001f1e9\U0001f1ea",
    "\U0001f44d\U0001f3fd",
    "e\u0301",
    "\U0001f3f3\ufe0f\u200d\U0001f308",
    "1\ufe0f\u20e3",
    "\u0e01\u0e47",
]


@pytest.mark.parametrize("character", CHARACTERS)
async def test_a_key_takes_a_whole_character(tmp_path: Path, character: str) -> None:
    size = len(character)
    async with open_app(tmp_path, saying("Yes.")) as session:
        area = session.chat.composer.prompt
        area.insert(f"a{character}{character}b")
        await session.press("left", "left")
        assert area.cursor_location == (0, 1 + size)
        await session.press("left", "right")
        assert area.cursor_location == (0, 1 + size)
        drawn = [segment.text for segment in area.render_line(0)]
        assert any(text.endswith(character) for text in drawn), "the cursor covers all of it"
        await session.press("shift+right")
        assert area.selected_text == character
        await session.press("right", "backspace")
        assert area.text == f"a{character}b"
        await session.press("left", "delete")
        assert area.text == "ab"
        area.put(f"a{character}")
        area.selection = Selection.cursor((0, 2))
        assert area.cursor_location == (0, 1 if size > 1 else 2)


@pytest.mark.parametrize("character", CHARACTERS)
async def test_a_line_to_type_in_does_the_same(tmp_path: Path, character: str) -> None:
    size = len(character)
    async with open_app(tmp_path, saying("Yes.")) as session:
        await session.ask("Hello?")
        await session.press("ctrl+r")
        line = session.app.screen.query_one(TextField)
        line.value = f"a{character}{character}b"
        await session.press("end", "left", "left")
        assert line.cursor_position == 1 + size
        await session.press("left", "right", "shift+right")
        assert line.selected_text == character
        await session.press("right", "backspace")
        assert line.value == f"a{character}b"
        await session.press("left", "delete")
        assert line.value == "ab"


async def test_the_joiner_of_an_emoji_can_be_typed(tmp_path: Path) -> None:
    async with open_app(tmp_path, saying("Yes.")) as session:
        await session.press("\U0001f469", "\u200d", "\U0001f4bb", "backspace", "x")
        assert session.chat.composer.prompt.text == "x"


def test_flags_in_a_row_are_parted_by_two() -> None:
    flags = "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7"
    assert [character_border(flags, place) for place in range(5)] == [0, 0, 2, 2, 4]
    assert [character_border(flags, place, is_end=True) for place in range(5)] == [0, 2, 2, 4, 4]
