"""What is selected with the mouse is the text, not how it is laid out on the screen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from textual.geometry import Offset
from textual.selection import SELECT_ALL, Selection

from baton.core.messages import Chunk, Request, Text
from baton.tui.widgets.answer import AnswerView, line_joints
from baton.tui.widgets.turn_view import TurnView
from support.app_session import AppSession, open_app

WORDS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
ADDRESS = "https://example.org/" + "path/" * 30
CODE = "def f(a):\n    return a  # " + "because " * 12 + "it is so"
ANSWER = f"""# A heading

{WORDS} {WORDS}
and a line of its own.

- {WORDS} {WORDS}
- short

{ADDRESS}

```python
{CODE}
```
"""
SELECTED = f"""A heading

{WORDS} {WORDS}
and a line of its own.

 • {WORDS} {WORDS}
 • short

{ADDRESS}

{CODE}"""


def answer(request: Request) -> Iterable[Chunk]:
    yield Text(ANSWER)


class StubClipboard:
    """Keeps what is copied."""

    def __init__(self, session: AppSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        monkeypatch.delenv("DISPLAY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setattr(session.app, "copy_to_clipboard", self.texts.append)


@pytest.mark.parametrize("columns", [40, 80, 200])
async def test_an_answer_is_copied_as_it_was_written(tmp_path: Path, columns: int) -> None:
    async with open_app(tmp_path, answer, size=(columns, 24)) as session:
        await session.ask("Write")
        view = session.chat.query(AnswerView).first()
        assert view.get_selection(SELECT_ALL) == (SELECTED, "\n")


async def test_a_part_of_a_wrapped_paragraph_is_one_line(tmp_path: Path) -> None:
    async with open_app(tmp_path, answer, size=(60, 24)) as session:
        await session.ask("Write")
        view = session.chat.query(AnswerView).first()
        part = view.get_selection(Selection(Offset(4, 2), Offset(3, 4)))
        assert part is not None
        assert "\n" not in part[0]
        assert part[0].startswith("two three")
        assert part[0] in f"{WORDS} {WORDS}"


def test_of_what_is_more_than_its_text_each_line_stays() -> None:
    table = ["a   b", "─────", "c   d"]
    assert line_joints(table, ["a b", "────────", "c d"]) == ["\n", "\n", "\n"]
    assert line_joints(["ab  cd", "ef", "", "gh"], ["ab  cd   ef", "", "gh"]) == [
        "\n", "   ", "\n", "\n",
    ]  # fmt: skip
    assert line_joints(["abc", "def"], ["abcdef"]) == ["\n", ""]


async def test_a_heading_line_is_copied_without_its_padding(tmp_path: Path) -> None:
    async with open_app(tmp_path, answer, size=(80, 24)) as session:
        await session.ask("Write")
        views = session.chat.query(TurnView)
        heads = [head.get_selection(SELECT_ALL) for head in views.last().query(".head")]
        assert [head and "   " in head[0] for head in heads] == [False]


async def test_dragging_the_mouse_and_ctrl_c_copies_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(tmp_path, answer, size=(80, 40)) as session:
        copied = StubClipboard(session, monkeypatch)
        await session.ask("Write")
        lines = session.screen_text().splitlines()
        top = next(y for y, line in enumerate(lines) if "one two three" in line)
        left = lines[top].index("one two three")
        await session.pilot.mouse_down(offset=(left, top))
        await session.pilot.hover(offset=(left + 7, top + 1))
        await session.pilot.mouse_up(offset=(left + 7, top + 1))
        await session.press("ctrl+c")
        await session.wait_until(lambda: copied.texts)
        assert copied.texts[0].startswith("one two three four")
        assert "\n" not in copied.texts[0]
        assert len(copied.texts[0]) > 70, "it goes on where the line was broken"
        await session.wait_for_text("sent 1 line to the terminal")
