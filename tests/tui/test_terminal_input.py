"""A paste is one where the terminal doesn't say so; what a user types isn't one."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given, strategies as st
from textual import events

if sys.platform == "win32":
    pytest.skip("its driver reads keys one by one", allow_module_level=True)

from baton.tui.desktop import BurstParser


class Keyboard:
    """A parser, and a clock that only goes as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.parser = BurstParser()
        self.seen: list[str] = []

    def type(self, data: str, seconds: float = 0.001) -> None:
        """Send this so long after the last keys."""
        self.now += seconds
        self._take(self.parser.feed(data))
        self._take(self.parser.tick())

    def rest(self) -> list[str]:
        """Return what came, once nothing more does."""
        self.now += 0.1
        self._take(self.parser.tick())
        return self.seen

    def _take(self, messages: object) -> None:
        for message in messages:  # type: ignore[attr-defined]
            if isinstance(message, events.Paste):
                self.seen.append(f"<{message.text}>")
            elif isinstance(message, events.Key):
                self.seen.append(message.character or message.key)


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Keyboard:
    return Keyboard(monkeypatch)


LINES = "line one\rline two\rline three\r"


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_lines_in_one_burst_are_one_paste(keyboard: Keyboard, end: str) -> None:
    text = LINES.replace("\r", end)
    keyboard.type(text)
    assert keyboard.rest() == [f"<{text}>"]
    keyboard.type("\r", 1.0)
    assert keyboard.seen[1:] == ["\r"]


@pytest.mark.parametrize("size", [1, 2, 7, 9, 4096])
def test_however_a_burst_is_cut_no_enter_of_it_sends(keyboard: Keyboard, size: int) -> None:
    text = LINES * 3
    for at in range(0, len(text), size):
        keyboard.type(text[at : at + size])
    seen = keyboard.rest()
    assert "".join(seen).replace("<", "").replace(">", "") == text
    assert "\r" not in seen
    assert sum("<" in one for one in seen) == 1


def test_a_user_types_and_sends_at_once(keyboard: Keyboard) -> None:
    for key in "ab\rc\r":
        keyboard.type(key, 0.03)
    assert keyboard.seen == ["a", "b", "\r", "c", "\r"]
    keyboard.type("d\r", 1.0)  # a busy machine hands two keys over at once
    assert keyboard.rest()[5:] == ["d", "\r"]
    keyboard.type("\r\r\r", 1.0)
    assert keyboard.rest()[7:] == ["\r", "\r", "\r"]


@given(
    st.lists(
        st.tuples(
            st.text(st.sampled_from("ab \r\n\t\x1bé漢"), min_size=1, max_size=4)
            | st.sampled_from(["\r", "\x1b[A", "\x1b[200~", "\x1b[201~", "word"]),
            st.sampled_from([0.001, 0.019, 0.021, 0.2, 1.0]),
        )
    )
)
def test_whatever_comes_the_keys_after_it_are_read(pieces: list[tuple[str, float]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        keyboard = Keyboard(patch)
        for piece, seconds in pieces:
            keyboard.type(piece, seconds)
        keyboard.type("\x1b[201~", 1.0)  # ends a paste that was begun
        keyboard.rest()
        keyboard.type("z", 1.0)
        assert keyboard.rest()[-1] == "z"


def test_an_enter_right_behind_a_word_sends_it(keyboard: Keyboard) -> None:
    """As `tmux send-keys` types."""
    keyboard.type("hi", 1.0)
    keyboard.type("\r")
    assert keyboard.rest() == ["h", "i", "\r"]
    keyboard.type("z", 1.0)
    assert keyboard.rest()[3:] == ["z"]


def test_other_keys_and_marked_pastes_are_left_alone(keyboard: Keyboard) -> None:
    keyboard.type("a\r\x0e")
    keyboard.type("\x1b[Ab\rc\r", 1.0)
    assert keyboard.rest() == ["a", "\r", "\x0e", "up", "b", "\r", "c", "\r"]
    for piece in ("\x1b[20", "0~one\r", "two\rthree\r", "x\x1b[201", "~y\r"):
        keyboard.type(piece)
    assert keyboard.rest()[8:] == ["<one\rtwo\rthree\rx>", "y", "\r"]


@pytest.mark.parametrize("size", [1, 2, 7, 4096])
def test_escape_sequences_in_a_marked_paste_are_not_keys(keyboard: Keyboard, size: int) -> None:
    text = "\x1b[200~one \x1b[31mred\x1b[0m\r\x1b]0;t\x07two\x1b\x1b[201~\x1b[Ab\x1b[200~\x1b[201~"
    for at in range(0, len(text), size):
        keyboard.type(text[at : at + size])
    assert keyboard.rest() == ["<one red\rtwo>", "up", "b", "<>"]
