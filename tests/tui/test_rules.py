"""The rules behind the screens that need no screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from baton.core.errors import ConfigError
from baton.tui import desktop, menu_entries, slash_commands
from baton.tui.widgets.text_widgets import wrap_line
from baton.tui.widgets.transcript import MAX_TURNS, TranscriptWindow


@given(st.integers(0, 5000), st.lists(st.booleans(), max_size=60))
def test_a_window_stays_inside_and_never_grows_too_large(total: int, moves: list[bool]) -> None:
    window = TranscriptWindow.newest(total)
    for back in moves:
        moved = window.earlier() if back else window.later()
        assert 0 <= moved.first <= moved.end <= total
        assert moved.end - moved.first <= MAX_TURNS
        if total:
            assert moved.first < window.end
            assert window.first < moved.end, "what is in sight stays"
        window = moved


@given(st.integers(1, 5000), st.data())
def test_a_window_around_a_turn_holds_it(total: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, total - 1))
    window = TranscriptWindow.around(index, total)
    assert window.first <= index < window.end


def test_what_is_a_command() -> None:
    assert slash_commands.parse_command("/export a b.md") == slash_commands.TypedCommand(
        "export", "a b.md"
    )
    assert slash_commands.parse_command("/New") == slash_commands.TypedCommand("new", "")
    for text in ("//", "/etc/hosts", "/a\nb", "hello /new", "/", "/ new", ""):
        assert slash_commands.parse_command(text) is None
    found = [command.name for command in slash_commands.matching_commands("re")]
    assert found == ["rename", "regenerate", "recommend"]
    assert [command.name for command in slash_commands.matching_commands("q")] == ["quit"]


def test_typed_paths() -> None:
    assert menu_entries.path_at_end("see @fol") == "fol"
    assert menu_entries.path_at_end('see @"a b') == "a b"
    assert menu_entries.path_at_end("me@example.org") is None
    assert menu_entries.path_at_end("@a b") is None
    assert menu_entries.path_at_end("“@fol") == "fol"
    assert menu_entries.mention_of("a b.md") == '@"a b.md"'
    assert menu_entries.mention_of('say "hi".md') == "@'say \"hi\".md'"


def test_paths_in_a_folder(tmp_path: Path) -> None:
    for name in ("Alpha.md", "alps", ".hidden", "bad\x1bname", "quo\"te's", "O\u0308l"):
        (tmp_path / name).touch()
    (tmp_path / "all").mkdir()
    assert menu_entries.folder_paths(f"{tmp_path}/al") == [
        f"{tmp_path}/all/",
        f"{tmp_path}/Alpha.md",
        f"{tmp_path}/alps",
    ]
    assert menu_entries.folder_paths(f"{tmp_path}/öl") == [f"{tmp_path}/O\u0308l"]
    assert len(menu_entries.folder_paths(f"{tmp_path}/")) == 4
    assert menu_entries.folder_paths(f"{tmp_path}/.h") == [f"{tmp_path}/.hidden"]
    assert menu_entries.folder_paths(f"{tmp_path}/none/x") == []


def test_exports_never_overwrite(tmp_path: Path) -> None:
    first = desktop.export_path("", tmp_path, "Lisbon, with kids?")
    assert first.name == "lisbon-with-kids.md"
    desktop.save_export(first, "one")
    assert desktop.export_path("", tmp_path, "Lisbon, with kids?").name == "lisbon-with-kids-2.md"
    with pytest.raises(ConfigError, match="is there already"):
        desktop.save_export(first, "two")
    assert first.read_text("utf-8") == "one"
    assert desktop.export_path("", tmp_path, "../../etc").parent == tmp_path
    with pytest.raises(ConfigError, match="can't be written"):
        desktop.save_export(first / "below.md", "three")


def test_which_clipboard_is_before_the_user() -> None:
    assert desktop.has_system_clipboard({"DISPLAY": ":0"})
    assert not desktop.has_system_clipboard({"DISPLAY": ":0", "SSH_TTY": "/dev/pts/0"})


async def test_a_clipboard_that_fails_or_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    import pyperclip

    taken: list[str] = []
    monkeypatch.setattr(pyperclip, "copy", taken.append)
    assert await desktop.copy_to_system("text")
    assert taken == ["text"]

    def fail(text: str) -> None:
        raise RuntimeError("no display")

    monkeypatch.setattr(pyperclip, "copy", fail)
    assert not await desktop.copy_to_system("text")
    monkeypatch.setattr(desktop, "COPY_SECONDS", 0.05)
    monkeypatch.setattr(pyperclip, "copy", lambda text: time.sleep(0.5))
    assert not await desktop.copy_to_system("text")


def test_an_editor_that_fails_changes_nothing() -> None:
    with pytest.raises(ConfigError, match="as it was"):
        desktop.edit_text("text", environ={"EDITOR": "false"})
    assert desktop.edit_text("text", environ={"EDITOR": "true"}) is None


@given(st.text(st.sampled_from("ab 日é-\u0301"), max_size=80), st.integers(2, 20))
def test_wrapping_leaves_nothing_out(line: str, width: int) -> None:
    parts = wrap_line(line, width)
    assert "".join(parts) == line
    assert all(cell_len(part.rstrip(" ")) <= width for part in parts)


@pytest.mark.parametrize(
    ("environ", "said", "is_sent"),
    [
        ({"DISPLAY": ":0"}, "copied 2 lines", False),
        ({"DISPLAY": ":0", "SSH_TTY": "/dev/pts/0"}, "sent 2 lines to the terminal, which ", True),
        ({"TERM": "xterm-256color"}, "sent 2 lines to the terminal, which may copy it", True),
        ({"TERM": "linux"}, "this terminal can't copy: ", False),
        ({"TERM": "screen", "STY": "1.x"}, "this terminal can't copy: ", False),
    ],
)
async def test_a_copy_is_only_claimed_where_it_is_known(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], said: str, is_sent: bool
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_TTY", "SSH_CONNECTION", "STY", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pyperclip.copy", lambda _: None)
    sent: list[str] = []
    assert (await desktop.copy("a\nb", "2 lines", sent.append)).startswith(said)
    assert sent == ["a\nb"] * is_sent
