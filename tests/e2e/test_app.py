"""The real app with the real model, in a real pseudo-terminal.

To start it takes longer than most of what is tried with it, so the tests share one: each begins a
conversation of its own, and where one has ended the app, the next opens it again.
"""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from baton.history.rows import ANSWER_TEXT
from baton.platform.sqlite import connect
from support.fake_cloud import Cloud, Reply
from support.terminal import Terminal

BATON = [sys.executable, "-I", "-m", "baton"]
STORY = "Write a very long story about the sea."


class SharedApp:
    """An app in a home of its own, which is opened when it is needed and doesn't run."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._app: Terminal | None = None

    def start(self) -> Terminal:
        """Start it, after any earlier run."""
        self.close()
        editor = f"'{sys.executable}' '{self.home / 'editor.py'}'"
        environ = {**os.environ, "BATON_HOME": str(self.home), "EDITOR": editor}
        self._app = Terminal(BATON, environ, 100, 30)
        return self._app

    def open(self) -> Terminal:
        """Return it with a new conversation; it is started again where a test has spoiled it."""
        if self._app is not None and self._app.is_running:
            time.sleep(0.2)  # an Esc just before would make it Alt+Ctrl+N
            self._app.send("\x0e")
            with suppress(AssertionError):
                return _new_conversation(self._app, 20)
        return _new_conversation(self.start(), 60)

    def close(self) -> None:
        """End it, if it runs."""
        if self._app is not None:
            self._app.close()

    def turns(self) -> list[tuple[str, str, str]]:
        """Return (role, text, status) of every turn of the last conversation."""
        with closing(connect(self.home / "data" / "baton.db", "ro")) as db:
            assert [*db.execute("PRAGMA integrity_check").fetchone()] == ["ok"]
            rows = db.execute(
                f"SELECT role, {ANSWER_TEXT}, status FROM turns WHERE conversation ="
                " (SELECT id FROM conversations ORDER BY key DESC LIMIT 1)"
                " ORDER BY created, rowid"
            )
            return [(role, text, status) for role, text, status in rows]


def _new_conversation(app: Terminal, longest: float) -> Terminal:
    app.wait(lambda shown: "Ask anything" in shown and not answer_on(app), longest)
    return app


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedApp]:
    shared = SharedApp(tmp_path_factory.mktemp("shared app") / "baton home")
    yield shared
    shared.close()


@pytest.fixture
def app(shared: SharedApp) -> Terminal:
    return shared.open()


def start_streaming(app: Terminal, prompt: str = STORY) -> None:
    app.send(prompt + "\r")
    app.wait(lambda shown: "Esc stop" in shown and answer_on(app) != "")


def written_on(app: Terminal) -> list[str]:
    """Return the lines that stand in the prompt."""
    return [line.strip("│ ") for line in app.text.splitlines() if line.lstrip().startswith("│")]


def child_of(app: Terminal, name: str) -> psutil.Process:
    """Return the app's child process of this name; it is started after the first frame."""
    command = ["--child", name]
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(psutil.NoSuchProcess):
            for child in app.children():
                if child.cmdline()[-2:] == command:
                    return child
        app.read()
    raise AssertionError(f"no {name} within 60 s; the screen shows:\n{app.text}")


def assert_gone(processes: list[psutil.Process], within: float = 30) -> None:
    _, alive = psutil.wait_procs(processes, timeout=within)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


def rounds(short: int, full: int) -> list[object]:
    """Return round numbers: some for every run of the suite, all of them behind `long`."""
    return [
        *range(short),
        *(pytest.param(n, marks=pytest.mark.long) for n in range(short, full)),
    ]


def answer_on(app: Terminal) -> str:
    """Return the answer's words as far as the screen shows them."""
    lines = iter(app.text.splitlines())
    for line in lines:
        if line.startswith(" Baton") and not line.startswith(" Baton answers"):
            break
    shown = itertools.takewhile(lambda line: not line.startswith(" ╭"), lines)
    return " ".join(" ".join(shown).split())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("round_", rounds(4, 60))
def test_what_is_typed_early_is_kept_also_over_a_pause(home: Path, round_: int) -> None:
    """It is paused while it writes its first screens, and its output isn't read meanwhile."""
    own = SharedApp(home)
    app = own.start()
    app.send("typed early")
    app.wait_for("│ typed early")
    time.sleep((round_ * 0.037) % 0.3)
    app.process.send_signal(signal.SIGTSTP)
    app.wait(lambda _: app.process.status() == psutil.STATUS_STOPPED)
    app.process.send_signal(signal.SIGCONT)
    app.send(", here again")
    app.wait_for("│ typed early, here again")
    own.close()


def test_a_stranger_asks_quits_and_finds_it_all_again(shared: SharedApp, app: Terminal) -> None:
    app.wait_for("Small questions stay on this machine")
    app.send("What is the capital of France?\r")
    app.wait_for("Paris")
    app.wait_for("finished in")
    app.wait(lambda _: app.title == "What is the capital of France? · Baton")
    children = app.children()
    app.send("\x11")
    assert app.wait_end() == 0
    assert_gone(children)
    assert b"\x1b[22;2t" in app.raw, "the window's own title is kept"
    assert b"\x1b[23;2t" in app.raw
    assert "“What is the capital of France?”: baton -c".encode() in app.raw
    again = shared.open()
    again.send("\x13")
    again.wait_for("1 conversation")
    again.send("\r")
    again.wait_for("The capital of France is Paris.")
    again.send("\x0e\x10")  # the menu stays open over the new conversation
    again.wait_for("Type to search")
    again.send("\x1b")


def line_of(app: Terminal, text: str) -> int:
    """Return the line of the screen where a text stands, the first one being 1."""
    return next(n for n, line in enumerate(app.text.splitlines(), 1) if text in line)


def test_the_menu_finds_shows_themes_takes_clicks_and_quits(
    shared: SharedApp, app: Terminal
) -> None:
    app.send("\x10")
    app.wait_for("Type to search")
    app.send("colour")
    app.wait_for("> /theme")
    app.send("\r")
    app.wait_for("> dark")
    app.send("dracula")
    app.wait_for("> dracula")
    app.send("\x1b")
    app.wait(lambda shown: "dracula" not in shown)
    app.send("/")
    app.wait_for("> /theme")  # it was used last
    for button in "Mm":
        app.send(f"\x1b[<0;10;{line_of(app, '/search')}{button}")
    app.wait_for("Enter open")
    app.send("\x1b")
    app.wait_for("Ask anything")
    app.send("/exi")
    app.wait_for("> /quit")
    app.send("\r")
    assert app.wait_end() == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_pasted_line_breaks_arrive(shared: SharedApp, app: Terminal, end: str) -> None:
    lines = [f"line {number}" for number in range(5_000)]
    app.send(f"\x1b[200~{end.join(lines)}\x1b[201~")
    app.wait_for("pasted text (")
    app.send(f"\x1b[200~def f():{end}    return 1{end}{end}print(f())\x1b[201~")
    app.wait(lambda _: written_on(app) == ["def f():", "return 1", "", "print(f())"])
    app.send("\r")
    app.wait(lambda _: any("def f()" in text for _, text, _ in shared.turns()[:1]))
    assert shared.turns()[0][1] == "def f():\n    return 1\n\nprint(f())"
    with sqlite3.connect(shared.home / "data" / "baton.db") as db:
        (text,) = db.execute("SELECT text FROM files ORDER BY key DESC").fetchone()
    assert text == "\n".join(lines)
    app.send("\x1b")
    app.wait(lambda _: shared.turns()[1][2] != "streaming")


def statuses(shared: SharedApp) -> list[str]:
    return [status for _, _, status in shared.turns()]


def test_escape_stops_the_answer_and_then_takes_a_waiting_prompt_back(
    shared: SharedApp, app: Terminal
) -> None:
    """The window changes its size meanwhile, and the text that came is kept."""
    start_streaming(app)
    for size in ((80, 24), (140, 40), (40, 10), (100, 30)):
        app.resize(*size)
        app.read(0.1)
    app.send("Never mind me.\r")
    app.wait_for("Waiting: Never mind me.")
    app.send("\x1b")
    app.wait_for("Enter sends what waits")
    app.wait_for("Stopped here.")
    app.send("\x1b")
    app.wait_for("│ Never mind me.")
    app.send("\x7f" * len("Never mind me.") + "What is 17*23?\r")
    app.wait(lambda _: statuses(shared) == ["done", "cancelled", "done", "done"])
    assert shared.turns()[1][1]


@pytest.mark.sampled(0.5)
def test_control_c_stops_first_and_quits_when_pressed_twice(
    shared: SharedApp, app: Terminal
) -> None:
    """A killed router isn't missed, and a prompt that waits can be sent."""
    child_of(app, "scorer").kill()
    app.send("What is the capital of France?\r")
    app.wait(lambda _: statuses(shared) == ["done", "done"])
    app.send(STORY + "\r")
    app.wait(lambda _: any(text for _, text, _ in shared.turns()[3:]))
    app.send("What is 17*23?\r")
    app.wait_for("Waiting: What is 17*23?")
    app.send("\x03")
    app.wait_for("Stopped here.")  # the footer may still speak of another stop
    app.send("\r")
    app.wait(lambda _: statuses(shared)[2:] == ["done", "cancelled", "done", "done"])
    children = app.children()
    app.send("\x03")
    app.send("\x03")
    assert app.wait_end() == 0
    assert_gone(children)


def hang_up(app: Terminal, pauses: int = 0) -> None:
    """Close the window. Textual takes each SIGCONT for the end of a pause, and reads on."""
    app.hang_up()
    for _ in range(pauses):
        app.process.send_signal(signal.SIGCONT)
        time.sleep(0.05)


ENDS: dict[str, Callable[[Terminal], object]] = {
    "SIGINT": lambda app: app.process.send_signal(signal.SIGINT),
    "SIGTERM": lambda app: app.process.send_signal(signal.SIGTERM),
    "SIGHUP": lambda app: app.process.send_signal(signal.SIGHUP),
    "the window is closed": hang_up,
    "the window is closed after a pause": lambda app: hang_up(app, 5),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ENDS)
def test_a_polite_end_keeps_the_partial_text_and_leaves_nothing_running(
    shared: SharedApp, app: Terminal, end: str
) -> None:
    start_streaming(app)
    children = app.children()
    ENDS[end](app)
    status = app.wait_end()
    assert_gone(children)
    if end.startswith("SIG"):
        assert status == 0
    elif not end.endswith("pause"):
        assert status != 128 + signal.SIGHUP, "it left, and was not thrown out"
    assert shared.turns()[1][1]
    assert shared.turns()[1][2] == "cancelled"


@pytest.mark.sampled(0.34)
def test_an_interrupt_from_another_process_is_not_a_fault_of_the_app(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a paid answer shows at its end must not look for an app that has gone."""
    monkeypatch.setenv("LAB_KEY", "sk-0123456789abcdef")
    with Cloud(reply=Reply(tokens=600, rate=20)) as cloud:
        (home / "config").mkdir(parents=True)
        (home / "config" / "config.toml").write_text(
            'worker = "lab"\n[budget]\nday = "1"\npolicy = "budget"\n[[workers]]\nid = "lab"\n'
            f'kind = "server"\nmodel = "kit-1"\nbase_url = "{cloud.base("server")}"\n'
            'api_key_env = "LAB_KEY"\nprice = { input = "1", output = "1" }\n'
        )
        app = Terminal([*BATON, "-m", "lab"], os.environ)
        try:
            app.wait_for("Ask anything")
            app.send("Hello\r")
            app.wait_for("few words")
            app.process.send_signal(signal.SIGINT)
            assert app.wait_end() == 0
        finally:
            app.close()
    assert SharedApp(home).turns()[1][2] == "cancelled"


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("round_", rounds(3, 100))
def test_a_killed_runner_is_said_and_the_next_prompt_works(
    shared: SharedApp, app: Terminal, round_: int
) -> None:
    number = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)[round_ % 3]
    prompt = f"{STORY} It is number {round_}."  # one that has killed twice isn't tried again
    start_streaming(app, prompt)
    time.sleep((round_ * 0.037) % 0.5)
    child_of(app, "runner").send_signal(number)
    app.wait_for("Try again")
    app.send("What is the capital of France?\r")
    app.wait(lambda _: statuses(shared)[2:] == ["done", "done"])
    turns = shared.turns()
    assert turns[3][1]
    assert turns[3][2] == "done"
    assert turns[0] == ("user", prompt, "done")
    assert turns[1][1]
    assert turns[1][2] == "failed"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("round_", rounds(3, 100))
def test_a_killed_app_loses_nothing_older_than_a_quarter_second(
    shared: SharedApp, app: Terminal, round_: int
) -> None:
    start_streaming(app)
    time.sleep((round_ * 0.041) % 0.6)
    app.read(0.01)
    shown = answer_on(app)
    # A quarter of a second, on a machine that does nothing else.
    app.wait(lambda _: " ".join(shared.turns()[1][1].split()).startswith(shown))
    children = app.children()
    app.process.kill()
    assert_gone(children)
    app.close()
    shared.open()
    prompt, answer = shared.turns()
    assert prompt == ("user", STORY, "done")
    assert answer[2] == "lost"
    assert shown
    assert " ".join(answer[1].split()).startswith(shown)


EDITOR = """
import os, signal, sys, time
def hear(*_):
    signal.signal(signal.SIGINT, save)
    os.write(1, b"once\\n")  # print in a handler may meet the print below
def save(*_):
    with open(sys.argv[1], "w") as file:
        file.write("Written in the editor.")
    sys.exit()
signal.signal(signal.SIGINT, hear)
print("in the editor", flush=True)
while True:
    time.sleep(1)
"""


@pytest.mark.sampled(0.5)
def test_ctrl_c_in_an_editor_is_the_editors(shared: SharedApp, app: Terminal) -> None:
    """An editor has a meaning of its own for it; the app stays, with what was written."""
    (shared.home / "editor.py").write_text(EDITOR)
    app.send("\x0f")
    app.wait_for("in the editor")
    app.send("\x03")
    app.wait_for("once")
    app.send("\x03")
    app.wait_for("Written in the editor.")
    app.send(" And here.")
    app.wait_for("And here.")
    app.send("\x7f" * len("Written in the editor. And here."))  # no draft for other tests
    app.wait_for("Ask anything")
    app.send("\x11")
    assert app.wait_end() == 0


def test_a_line_takes_its_keys_in_their_order(shared: SharedApp, app: Terminal) -> None:
    """A slow line brings a word, its correction and Enter at once."""
    app.send("What is 17*23?\r")
    app.wait_for("391")
    app.send("\x12")
    app.wait_for("Rename the conversation")
    app.send("\x05 and so om\x7fn\x1b[D\x1b[DX\r")
    app.wait_for("What is 17*23? and so Xon")


@pytest.mark.local_model
def test_everything_is_reached_with_the_mouse_alone(shared: SharedApp, app: Terminal) -> None:
    """A talk is continued, its answer written again and stopped, a theme taken, the app left."""
    start_streaming(app, "Write a long poem about the sea.")
    app.send("\x1b")
    app.wait_for("Stopped here.")
    app.send("\x11")  # the last key
    assert app.wait_end() == 0
    app = shared.open()
    click(app, "Write a long poem")
    app.wait(lambda shown: "Write a long poem" in shown.partition("\n")[0])
    click(app, "Ctrl+P more")
    app.wait_for("Type to search")
    roll_to(app, "/regenerate")
    click(app, "/regenerate")
    app.wait(lambda shown: "2 of 2" in shown and answer_on(app) != "")
    click(app, "Esc stop")
    app.wait_for("Stopped here.")
    click(app, "Ctrl+P more")
    roll_to(app, "/theme")
    click(app, "/theme")
    click(app, "atom-one-light")
    app.wait_for("theme: atom one light")
    click(app, "Ctrl+P more")
    app.wait_for("Type to search")
    roll_to(app, "/new")
    click(app, "/new")
    app.wait_for("Small questions")
    click(app, "Ctrl+P more")
    app.wait_for("Type to search")
    roll_to(app, "/quit")
    click(app, "/quit")
    assert app.wait_end() == 0


def roll_to(app: Terminal, text: str) -> None:
    """Turn the mouse's wheel over the menu until it shows a text, and still shows it there."""
    app.wait_for("Type to search")
    for _ in range(200):
        while text in app.text:
            line = line_of(app, text)
            app.read(0.5)  # the last turn of the wheel may not be drawn yet
            if text in app.text and line_of(app, text) == line:
                return
        app.send(f"\x1b[<65;10;{line_of(app, 'Ask anything') - 3}M")
        app.read(0.1)
    raise AssertionError(f"the menu has no {text}:\n{app.text}")


@pytest.mark.sampled(1)
def test_the_lines_above_and_below_can_be_clicked(app: Terminal) -> None:
    click(app, "Ctrl+P more")
    app.wait_for("Type to search")
    click(app, "Esc close")
    app.wait(lambda shown: "Type to search" not in shown)
    click(app, "baton")
    app.wait_for("Type to search")
    click(app, "Esc close")
    app.wait(lambda shown: "Type to search" not in shown)


def click(app: Terminal, text: str) -> None:
    """Press and release the mouse's first button on a text, once it is there and stands still."""
    place, since = (0, 0), time.monotonic()

    def stands(shown: str) -> bool:
        nonlocal place, since
        found = [(line.find(text) + 1, n) for n, line in enumerate(shown.splitlines(), 1)]
        now = next((place for place in found if place[0]), (0, 0))
        if now != place:
            place, since = now, time.monotonic()
        return place != (0, 0) and time.monotonic() - since > 0.2

    app.wait(stands)
    column, line = place
    for button in "Mm":
        app.send(f"\x1b[<0;{column};{line}{button}")


FAULT = """
import sys
from baton.tui.widgets.composer import PromptArea

def render_line(area, y):
    if area.text == "x":
        raise RuntimeError("broken")
    return draw(area, y)

draw, PromptArea.render_line = PromptArea.render_line, render_line
from baton.cli import main
main(sys.argv[1:])
"""
MODES = ("?1049", "?1000", "?1003", "?1006", "?1004", "?2004")


@pytest.mark.parametrize("end", ["SIGTERM", "SIGHUP", "a fault of a widget"])
def test_a_terminal_that_is_still_there_is_left_as_it_was(home: Path, end: str) -> None:
    app = Terminal(BATON if end in ENDS else [sys.executable, "-I", "-c", FAULT], os.environ)
    try:
        app.wait_for("Ask anything")
        if end in ENDS:
            ENDS[end](app)
        else:
            app.send("x")
        assert app.wait_end() == (0 if end in ENDS else 1)
    finally:
        app.close()
    for mode in MODES:
        on, off = (app.raw.rfind(f"\x1b[{mode}{letter}".encode()) for letter in "hl")
        assert 0 <= on < off, mode


def test_pasted_lines_are_one_prompt_where_the_terminal_marks_no_paste(app: Terminal) -> None:
    app.send("line one\rline two\rline three\r")
    app.wait(lambda _: written_on(app)[:3] == ["line one", "line two", "line three"])
    assert "Esc stop" not in app.text
    app.send("\x15")
