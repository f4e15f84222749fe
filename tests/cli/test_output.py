"""A terminal is never given anything that it would obey, wherever a text came from."""

from __future__ import annotations

import ast
import os
import random
import re
import subprocess
import sys
import threading
import time
import tty
from pathlib import Path
from typing import Self

import pytest

from baton import cli
from baton.cli.output import Output, emit, notify

END = b"THE END"
OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f]")

PIECES = (
    *"\x1b\x07\x9b\x9d\x90\r\b\x0c\x7f\x00\x85\u2028\u202e\u2066\udc9b\u0301é漢🎼\n\t []m;",
    "\x1b]52;c;aGk=\x07",
    "\x1b[2J",
    "\x1b]0;title\x1b\\",
    "\x1b[201~",
    "\x1bP1$r\x1b\\",
    "word ",
    "[/bold]",
)


class Screen:
    """A pseudo-terminal in place of stdout and stderr, whose every byte is taken down."""

    def __init__(self) -> None:
        self.shown = ""
        self._raw = b""
        self._taker = threading.Thread(target=self._take)

    def __enter__(self) -> Self:
        self._reading, writing = os.openpty()
        tty.setraw(writing)
        self._files = os.dup(1), os.dup(2), sys.stdout, sys.stderr
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.close(writing)
        sys.stdout = os.fdopen(1, "w", errors="replace", closefd=False)
        sys.stderr = os.fdopen(2, "w", errors="replace", closefd=False)
        self._taker.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(1, END)
        self._taker.join()
        out, err, sys.stdout, sys.stderr = self._files
        for descriptor, saved in ((1, out), (2, err)):
            os.dup2(saved, descriptor)
            os.close(saved)
        os.close(self._reading)
        self.shown = self._raw.removesuffix(END).decode()

    def _take(self) -> None:
        while not self._raw.endswith(END):
            self._raw += os.read(self._reading, 65536)


@pytest.fixture
def hostile() -> list[str]:
    """Ten thousand pieces of text, as models, files or other people's errors might hold."""
    chance = random.Random(1)
    return ["".join(chance.choices(PIECES, k=chance.randint(1, 12))) for _ in range(10_000)]


def drain(output: Output) -> None:
    output.close()
    output.drained.result(60)


def test_no_streamed_text_is_obeyed_however_it_is_split(
    capfd: pytest.CaptureFixture[str], hostile: list[str]
) -> None:
    chance = random.Random(2)
    with capfd.disabled(), Screen() as screen:
        output = Output()
        for text in hostile:
            border = chance.randint(0, len(text))
            output.write(text[:border])
            output.write(text[border:])
        output.warn("".join(hostile[:100]))
        drain(output)
    assert not OBEYED.search(screen.shown)
    assert screen.shown.count("漢") > 1000


def test_no_status_is_obeyed(capfd: pytest.CaptureFixture[str], hostile: list[str]) -> None:
    with capfd.disabled(), Screen() as screen:
        output = Output()
        for text in hostile:
            output.show_status(text)
        drain(output)
    statuses = screen.shown.split("\r\x1b[2K")
    assert len(statuses) > 9000
    assert not any(OBEYED.search(status) or "\n" in status for status in statuses)


def test_nothing_said_in_passing_is_obeyed(
    capfd: pytest.CaptureFixture[str], hostile: list[str]
) -> None:
    with capfd.disabled(), Screen() as screen:
        for text in hostile:
            emit(text)
            notify(text)
    assert not OBEYED.search(screen.shown)
    assert screen.shown.count("漢") > 1000


def test_a_plain_output_passes_a_text_on_by_whole_sentences(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with capfd.disabled(), Screen() as screen:
        output = Output(plain=True)
        for clock[0], text in (
            (0, "It is"),
            (1, " so."),
            (2, " And"),
            (3, " more\nof it"),
            (4, " is"),
            (9, " slow"),  # so long that words are better than nothing
        ):
            output.write(text)
            output.warn("|")
        output.end_line()
        drain(output)
    assert screen.shown == "|\n|\nIt is so. |\nAnd more\n|\n|\nof it is |\nslow\n"


def test_a_plain_output_says_what_is_happening_only_now_and_then(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with capfd.disabled(), Screen() as screen:
        output = Output(plain=True)
        for clock[0], status in (
            (1, "starting"),
            (2, "loading small 10 %"),
            (6, "loading small 50 %"),
            (7, "loading small 60 %"),
            (8, "step 1 of 2: writing"),
            (9, "step 1 of 2: writing 31 tokens/s"),
            (9, "step 2 of 2: writing"),
            (9, "step 1 of 2: writing"),  # which is still running beside it
            (15, ""),
            (19, "step 2 of 2: writing 7 tokens/s"),
            (20, "step 2 of 2: writing 8 tokens/s"),
        ):
            output.show_status(status)
        drain(output)
    assert screen.shown.split("\n") == [
        "Loading small 50 %.",
        "Step 1 of 2.",
        "Step 2 of 2.",
        "Step 2 of 2: writing 8 tokens/s.",
        "",
    ]


def test_stdout_is_written_in_one_place() -> None:
    """In other places what is written could reach a terminal through a pipe, as it came."""
    folder = Path(cli.__file__).parent
    found = {
        str(file.relative_to(folder))
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("print", "sys.stdout.write", "click.echo")
        and not any(keyword.arg == "file" for keyword in node.keywords)
    }
    assert found == {"output.py", "__init__.py"}, (
        "the second one writes the version, before imports"
    )


def test_what_is_said_breaks_between_words(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "baton: There is no model 'a-very-long-name-of-a-model.gguf'.\nYet `baton models ls`."
    with monkeypatch.context() as patch:
        patch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((30, 24)))
        notify(said)
    broken = [
        "baton: There is no model",
        "'a-very-long-name-of-a-model.gguf'.",
        "Yet `baton models ls`.",
    ]
    assert capfd.readouterr().err.splitlines() == broken
    notify(said)
    assert capfd.readouterr().err == f"{said}\n", "columns don't count where there is no terminal"


@pytest.mark.parametrize("full", [True, False], ids=["full", "closed"])
def test_an_exit_code_does_not_depend_on_who_reads_the_errors(full: bool) -> None:
    """What can't be said on stderr is not said; scripts still learn what happened."""
    if full:
        writing = os.open("/dev/full", os.O_WRONLY)
    else:
        reading, writing = os.pipe()
        os.close(reading)
    try:
        command = [sys.executable, "-I", "-m", "baton", "ask", "--budget", "x", "Hi"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=writing, timeout=180)
    finally:
        os.close(writing)
    assert done.returncode == 2
