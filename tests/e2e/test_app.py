"""The real app with the real model, in a real pseudo-terminal."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from support.fake_cloud import Cloud, Reply
from support.terminal import Terminal

BATON = [sys.executable, "-I", "-m", "baton"]
STORY = "Write a very long story about the sea."


@pytest.fixture
def app(home: Path) -> Iterator[Terminal]:
    terminal = open_app()
    yield terminal
    terminal.close()


def open_app(columns: int = 100, lines: int = 30) -> Terminal:
    terminal = Terminal(BATON, os.environ, columns, lines)
    terminal.wait_for("Ask anything")
    return terminal


def start_streaming(app: Terminal) -> None:
    app.send(STORY + "\r")
    app.wait_for("tokens/s")
    app.wait(lambda _: answer_on(app) != "")  # its speed may be shown before its first words


def written_on(app: Terminal) -> list[str]:
    """Return the lines that stand in the prompt."""
    return [line.strip("│ ") for line in app.text.splitlines() if line.lstrip().startswith("│")]


def child_of(app: Terminal, name: str) -> psutil.Process:
    (child,) = [
        one for one in app.children() if one.cmdline()[-2:] == ["baton.ipc.child_entry", name]
    ]
    return child


def runner_of(app: Terminal) -> psutil.Process:
    return child_of(app, "runner")


def assert_gone(processes: list[psutil.Process], within: float = 30) -> None:
    _, alive = psutil.wait_procs(processes, timeout=within)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def rounds(short: int, full: int) -> list[object]:
    """Return round numbers: some for every run of the suite, all of them behind `long`."""
    return [
        *range(short),
        *(pytest.param(n, marks=pytest.mark.long) for n in range(short, full)),
    ]


def stored(home: Path) -> list[tuple[str, str, str]]:
    """Return (role, text, status) of every turn, after checking the database's integrity."""
    with sqlite3.connect(home / "data" / "baton.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return list(db.execute("SELECT role, text, status FROM turns ORDER BY created, rowid"))


def test_a_stranger_asks_quits_and_finds_it_all_again(app: Terminal, home: Path) -> None:
    app.wait_for("Baton answers on this machine")
    app.send("What is the capital of France?\r")
    app.wait_for("Paris")
    app.wait_for("finished in")
    children = app.children()
    app.send("\x11")
    assert app.wait_end() == 0
    assert_gone(children)
    again = open_app()
    again.send("\x13")
    again.wait_for("What is the capital of France?")
    again.send("\r")
    again.wait_for("The capital of France is Paris.")
    again.close()


def test_typing_before_the_first_frame_is_not_lost(home: Path) -> None:
    terminal = Terminal(BATON, os.environ)
    terminal.send("typed early")
    terminal.wait_for("typed early")
    terminal.close()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_pasted_line_breaks_arrive(app: Terminal, home: Path, end: str) -> None:
    lines = [f"line {number}" for number in range(5_000)]
    app.send(f"\x1b[200~{end.join(lines)}\x1b[201~")
    app.wait_for("pasted text (")
    app.send(f"\x1b[200~def f():{end}    return 1{end}{end}print(f())\x1b[201~")
    app.wait(lambda _: written_on(app) == ["def f():", "return 1", "", "print(f())"])
    app.send("\r")
    wait_until(lambda: bool(stored(home)))
    with sqlite3.connect(home / "data" / "baton.db") as db:
        (text,) = db.execute("SELECT text FROM files").fetchone()
    assert text == "\n".join(lines)
    assert stored(home)[0][1] == "def f():\n    return 1\n\nprint(f())"


def test_escape_stops_and_the_text_is_kept(app: Terminal, home: Path) -> None:
    start_streaming(app)
    time.sleep(0.3)
    app.send("\x1b")
    app.wait_for("stopped")
    app.send("What is the capital of France?\r")
    app.wait_for("finished in")
    statuses = [status for _, _, status in stored(home)]
    assert statuses == ["done", "cancelled", "done", "done"]
    assert stored(home)[1][1]


def test_a_killed_router_is_missed_by_nobody(app: Terminal, home: Path) -> None:
    start_streaming(app)
    child_of(app, "scorer").kill()
    app.send("\x03")
    app.wait_for("stopped")
    app.send("What is the capital of France?\r")
    app.wait_for("finished in")
    app.send("\x11")
    assert app.wait_end() == 0
    assert [status for _, _, status in stored(home)] == ["done", "cancelled", "done", "done"]


def test_control_c_stops_first_and_quits_when_pressed_twice(app: Terminal) -> None:
    start_streaming(app)
    app.send("\x03")
    app.wait_for("stopped")
    children = app.children()
    app.send("\x03")
    app.send("\x03")
    assert app.wait_end() == 0
    assert_gone(children)


@pytest.mark.sampled(0.5)
def test_a_prompt_sent_while_an_answer_is_written_waits_its_turn(app: Terminal) -> None:
    start_streaming(app)
    app.send("What is the capital of France?\r")
    app.wait_for("Waiting: What is the capital")
    app.send("\x03")
    app.wait_for("Enter sends what waits")
    app.send("\r")
    app.wait_for("finished in")  # what it says there depends on how much of the story it has seen


def test_escape_stops_the_answer_and_then_takes_a_waiting_prompt_back(app: Terminal) -> None:
    start_streaming(app)
    app.send("Never mind me.\r")
    app.wait_for("Waiting: Never mind me.")
    app.send("\x1b")
    app.wait_for("Enter sends what waits")
    app.send("\x1b")
    app.wait_for("│ Never mind me.")


def test_the_window_may_change_its_size_while_text_streams(app: Terminal) -> None:
    start_streaming(app)
    for size in ((80, 24), (140, 40), (40, 10), (100, 30)):
        app.resize(*size)
        app.read(0.3)
    app.send("\x1b")
    app.wait_for("stopped")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_polite_end_keeps_the_partial_text(
    app: Terminal, home: Path, number: signal.Signals
) -> None:
    start_streaming(app)
    children = app.children()
    app.process.send_signal(number)
    assert app.wait_end() == 0
    assert_gone(children)
    assert stored(home)[1][1]
    assert stored(home)[1][2] == "cancelled"


def test_an_interrupt_from_elsewhere_is_no_fault_of_the_app(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a paid answer shows at its end must not look for an app that has gone."""
    monkeypatch.setenv("LAB_KEY", "sk-0123456789abcdef")
    with Cloud(reply=Reply(tokens=600, rate=20)) as cloud:
        (home / "config").mkdir(parents=True)
        (home / "config" / "config.toml").write_text(
            'worker = "lab"\n[budget]\nday = "1"\npolicy = "budget"\n[[workers]]\nid = "lab"\n'
            f'kind = "cloud"\nmodel = "openai/m"\nbase_url = "{cloud.base("openai")}"\n'
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
    assert stored(home)[1][2] == "cancelled"


def test_a_closed_window_ends_it_and_keeps_the_partial_text(app: Terminal, home: Path) -> None:
    start_streaming(app)
    children = app.children()
    app.hang_up()
    assert app.wait_end() != 128 + signal.SIGHUP, "it left, and was not thrown out"
    assert_gone(children)
    assert stored(home)[1][2] == "cancelled"


def test_a_window_that_closes_after_a_pause_leaves_nothing_running(
    app: Terminal, home: Path
) -> None:
    """Textual takes each SIGCONT for the end of a pause, and reads on in a thread of its own."""
    start_streaming(app)
    children = app.children()
    app.hang_up()
    for _ in range(5):
        app.process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    app.wait_end()
    assert_gone(children)
    assert stored(home)[1][2] == "cancelled"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("round_", rounds(4, 60))
def test_it_goes_on_after_a_pause(app: Terminal, round_: int) -> None:
    """Paused amid the writing of its first screens, with nobody who reads what it writes."""
    time.sleep((round_ * 0.037) % 0.3)
    app.process.send_signal(signal.SIGTSTP)
    wait_until(lambda: app.process.status() == psutil.STATUS_STOPPED)
    app.process.send_signal(signal.SIGCONT)
    app.send("here again")
    app.wait_for("│ here again")


def answer_on(app: Terminal) -> str:
    """Return the answer's words as far as the screen shows them."""
    lines = iter(app.text.splitlines())
    for line in lines:
        if line.startswith(" Baton") and not line.startswith(" Baton answers"):
            break
    shown = itertools.takewhile(lambda line: not line.startswith(" ╭"), lines)
    return " ".join(" ".join(shown).split())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("round_", rounds(3, 100))
def test_a_killed_runner_is_said_and_the_next_prompt_works(
    app: Terminal, home: Path, round_: int
) -> None:
    number = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)[round_ % 3]
    start_streaming(app)
    time.sleep((round_ * 0.037) % 0.5)
    runner_of(app).send_signal(number)
    app.wait_for("Try again")
    app.send("What is the capital of France?\r")
    app.wait_for("finished in")
    turns = stored(home)
    assert turns[3][1]
    assert turns[3][2] == "done"
    assert turns[0] == ("user", STORY, "done")
    assert turns[1][1]
    assert turns[1][2] == "failed"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("round_", rounds(3, 100))
def test_a_killed_app_loses_nothing_older_than_a_quarter_second(home: Path, round_: int) -> None:
    app = open_app()
    start_streaming(app)
    time.sleep((round_ * 0.041) % 0.6)
    app.read(0.01)
    shown = answer_on(app)
    # A quarter of a second, on a machine that does nothing else.
    wait_until(lambda: " ".join(stored(home)[1][1].split()).startswith(shown))
    children = app.children()
    app.process.kill()
    assert_gone(children)
    app.close()
    again = open_app()
    prompt, answer = stored(home)[:2]
    assert prompt == ("user", STORY, "done")
    assert answer[2] == "lost"
    assert shown
    assert " ".join(answer[1].split()).startswith(shown)
    again.close()


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


def test_ctrl_c_in_an_editor_is_the_editors(home: Path, tmp_path: Path) -> None:
    """An editor has a meaning of its own for it; the app stays, with what was written."""
    script = tmp_path / "editor.py"
    script.write_text(EDITOR)
    environ = {**os.environ, "EDITOR": f"'{sys.executable}' '{script}'"}
    app = Terminal(BATON, environ, 100, 30)
    try:
        app.wait_for("Ask anything")
        app.send("\x0f")
        app.wait_for("in the editor")
        app.send("\x03")
        app.wait_for("once")
        app.send("\x03")
        app.wait_for("Written in the editor.")
        app.send(" And here.")
        app.wait_for("And here.")
        app.send("\x11")
        assert app.wait_end() == 0
    finally:
        app.close()
