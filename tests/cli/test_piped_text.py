"""What is piped into `ask`: read to its end, or left out where it never begins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from baton.cli import piped_text
from baton.cli.root import run
from support.command_line import Call, CallResult
from support.scripted_baton import Scripted, scripted

__all__ = ["scripted"]  # a fixture

Piped = Callable[..., CallResult]


@pytest.fixture
def piped(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, scripted: Scripted
) -> Iterator[Piped]:
    """Call a command with a real pipe as its stdin, which gets each part after a while."""
    scripted(small=None)
    held: list[int] = []

    def piped(
        *args: str, parts: tuple[bytes, ...] = (), closes: bool = True, blocks: bool = True
    ) -> CallResult:
        reading, writing = os.pipe()
        os.set_blocking(reading, blocks)
        held.append(writing)

        def write() -> None:
            for part in parts:
                time.sleep(0.2)
                os.write(writing, part)
            if closes:
                os.close(held.pop())

        if parts:
            threading.Thread(target=write, daemon=True).start()
        monkeypatch.setattr(sys, "stdin", os.fdopen(reading, closefd=False))
        capfd.readouterr()
        code = run(args)
        return CallResult(code, *capfd.readouterr())

    yield piped
    for descriptor in held:
        os.close(descriptor)


def latest_prompt(call: Call) -> Any:
    [newest] = json.loads(call("history", "ls", "-n", "1", "--json").out)["conversations"]
    return json.loads(call("history", "show", newest["id"], "--json").out)["thread"][-2]


def prompt(call: Call) -> str:
    return str(latest_prompt(call)["text"])


def test_a_pipe_that_never_begins_is_left_out_and_said(
    piped: Piped, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped_text, "BEGIN_SECONDS", 0.05)
    done = piped("ask", "Hello", closes=False)
    assert (done.code, prompt(call)) == (0, "Hello")
    said = "No text was piped in within 0.05 s, so it was left out."
    assert done.err == f"baton: {said} `-f -` waits for its end.\n"
    done = piped("ask", "Hello", "--json", closes=False)
    [warning] = json.loads(done.out)["warnings"]
    assert (warning["kind"], warning["message"]) == ("piped_text", said)
    assert said in done.err
    assert piped("ask", "-q", "Hello", closes=False).err == ""


def test_the_deadline_ends_the_wait_if_it_is_earlier(piped: Piped, call: Call) -> None:
    done = piped("ask", "Hello", "--deadline", "0.3", closes=False)
    assert (done.code, prompt(call)) == (0, "Hello")
    assert "within 0.3 s" in done.err


def test_a_pipe_that_has_begun_is_read_to_its_end(
    piped: Piped, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped_text, "BEGIN_SECONDS", 0.4)
    done = piped("ask", "Hello", parts=(b"one\n", b"", b"two\n"))
    assert (done.code, done.err, prompt(call)) == (0, "", "one\ntwo\n\nHello")


def test_at_the_deadline_whole_lines_of_it_are_used(piped: Piped, call: Call) -> None:
    parts = (b"one\n", b"two\nthr")
    done = piped("ask", "Hello", "--deadline", "0.9", "--json", parts=parts, closes=False)
    assert (done.code, prompt(call)) == (0, "one\ntwo\n\nHello")
    said = "The piped text had not ended after 0.9 s: only 8 B were used."
    assert said in done.err
    assert json.loads(done.out)["warnings"][0]["message"] == said


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("日本語".encode()[:-1], "日本"),
        ("one\ntwo".encode("utf-16")[:-1], "one"),
        ("one\ntwo".encode("utf-16-le"), "one"),
    ],
)
def test_at_the_deadline_half_a_character_is_left_out(
    piped: Piped, call: Call, part: bytes, text: str
) -> None:
    done = piped("ask", "Hello", "--deadline", "0.6", parts=(part,), closes=False)
    assert (done.code, prompt(call)) == (0, f"{text}\n\nHello")


def test_a_piped_pdf_is_named_as_what_it_is(piped: Piped) -> None:
    done = piped("ask", "Hello", parts=(b"%PDF-1.4\n1 0 obj<<>>endobj\n",))
    assert (done.code, "A PDF was piped in; it was not sent." in done.err) == (2, True)


@pytest.mark.parametrize("deadline", [(), ("--deadline", "0.1")])
def test_a_named_pipe_is_waited_for(
    piped: Piped, call: Call, monkeypatch: pytest.MonkeyPatch, deadline: tuple[str, ...]
) -> None:
    monkeypatch.setattr(piped_text, "BEGIN_SECONDS", 0.05)
    done = piped("ask", "Hello", "-f", "-", *deadline, parts=(b"", b"text"))
    assert (done.code, latest_prompt(call)["files"][0]["text"]) == (0, "text")
    assert "Reading piped text until it ends ..." in done.err


def test_a_prompt_that_is_piped_in_is_waited_for(
    piped: Piped, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped_text, "BEGIN_SECONDS", 0.05)
    assert piped("ask", parts=(b"", b"Hello")).code == 0
    assert prompt(call) == "Hello"
    done = piped("ask", "--deadline", "0.2", closes=False)
    assert (done.code, "There is nothing to ask." in done.err) == (2, True)


@pytest.mark.skipif(sys.platform == "win32", reason="it sets a pipe not to block")
def test_a_pipe_that_does_not_block_is_read_as_any(piped: Piped, call: Call) -> None:
    assert piped("ask", "Hello", parts=(b"one\n", b"two\n"), blocks=False).code == 0
    assert prompt(call) == "one\ntwo\n\nHello"


@pytest.mark.usefixtures("home")
def test_a_sleeping_reader_keeps_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-P", "-m", "baton", "ask", "2+2", "--deadline", "60"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        code = process.wait(60)
        assert process.stdout is not None
        assert process.stderr is not None
        assert (code, process.stdout.read()) == (0, b"2 + 2 = 4\n")
        assert b"No text was piped in within 2 s" in process.stderr.read()
