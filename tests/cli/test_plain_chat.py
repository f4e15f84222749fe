"""`baton --plain` at a real terminal and in a pipe: lines that are only ever added."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from baton.cli import plain_session
from baton.cli.output import Output
from baton.cli.plain_commands import COMMANDS
from baton.core.permissions import ANYTHING
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.history import Store
from baton.platform.paths import find_paths
from baton.platform.settings import Settings, load_settings
from baton.workers.scripted_worker import ScriptedWorker
from support.command_line import Call, Process, write_settings
from support.fake_cloud import FAR_SETTINGS, Cloud
from support.terminal import Terminal

CHAT = """
import sys
import baton.compose
from baton.cli import main, plain_session
from baton.compose import Baton, library
from baton.compose.local_workers import LocalWorkers
from baton.compose.remote_workers import RemoteWorkers
from baton.core.messages import Card, Text
from baton.core.run.orchestra import Orchestra
from baton.core.permissions import RunTerms
from baton.core.run.run_context import Services
from baton.history import Store
from baton.money import Ledger
from baton.workers.scripted_worker import ScriptedWorker

def script(request):
    prompt = request.messages[-1].text
    if prompt.startswith("slow"):
        yield Text("This is begun. ")
        for _ in range(600):
            yield Text("word ")
            yield 0.1
    else:
        count = sum(message.role == "user" for message in request.messages)
        yield from (Text("You said: "), Text(f"{prompt}. Prompts: {count}"))

def compose(settings, paths):
    store, ledger = Store(paths.database), Ledger(paths.ledger)
    cards = [Card(name, "local", name.title(), context=8192) for name in ("scripted", "other")]
    workers = {card.id: ScriptedWorker(script, card) for card in cards}
    services = Services(workers, store, ledger=ledger)
    orchestra = Orchestra(services, "scripted", RunTerms(offline=settings.offline))
    stock, away = library(settings, paths), RemoteWorkers(settings, paths, ledger)
    local = LocalWorkers(settings, stock)
    return Baton(orchestra, store, ledger, settings, paths, stock, local, away)

baton.compose.compose = compose
plain_session.LATE_SECONDS = 0.2
main(["--plain", *sys.argv[1:]])
"""
LATE_SECONDS = 0.3
"""How long after an answer Ctrl+C leaves a scripted chat, and a little more."""

SCRIPTED = [sys.executable, "-I", "-c", CHAT]
BATON = [sys.executable, "-I", "-m", "baton", "--plain"]


@contextmanager
def open_chat(*options: str, command: list[str] = SCRIPTED) -> Iterator[Terminal]:
    screen = Terminal([*command, *options], os.environ, 150, 50)
    try:
        wait_for_prompt(screen)
        yield screen
    finally:
        screen.close()


def wait_for_prompt(screen: Terminal) -> None:
    """Wait until the last line is the chat's mark, with nothing typed behind it."""
    screen.wait(lambda shown: shown.rstrip().rpartition("\n")[2].strip() == "You:", 20)


def ask(screen: Terminal, text: str, shown: str) -> None:
    """Send a line, and wait for what it brings about and the next prompt."""
    start = len(screen.raw)
    screen.send(f"{text}\r")
    screen.wait(lambda _: shown in screen.raw[start:].decode(errors="ignore"), 20)
    wait_for_prompt(screen)


def test_a_first_prompt_is_answered_in_lines_that_are_only_added() -> None:
    with open_chat() as screen:
        ask(screen, "Hello", "Answered by scripted (local), ")
        lines = screen.text.splitlines()
        assert lines[0].startswith("Baton, line by line. Worker: scripted.")
        assert "You: Hello" in lines[1]
        assert "Baton: You said: Hello. Prompts: 1" in lines[2]
        screen.send("\x04")
        assert screen.wait_end() == 0
    assert "To continue \u201cHello\u201d: baton --plain -c" in screen.text
    assert b"\x1b" not in screen.raw
    assert b"\r" not in screen.raw.replace(b"\r\n", b"")


def test_ctrl_c_stops_an_answer_and_at_the_prompt_it_leaves() -> None:
    with open_chat() as screen:
        screen.send("slow\r")
        screen.wait_for("Baton: This is begun.")
        screen.send("\x03")
        screen.wait_for("the text so far is kept.")
        wait_for_prompt(screen)
        ask(screen, "Hello", "Prompts: 2")
        screen.send("half a")
        screen.wait_for("You: half a")
        time.sleep(LATE_SECONDS)
        screen.send("\x03")
        assert screen.wait_end() == 0
        assert "To continue" in screen.text
    with open_chat("-c") as screen:
        assert "Not sent yet, the Up key brings it back: half a" in screen.text
        screen.send("\x10")  # as the Up key, without an escape sequence from us
        screen.wait_for("You: half a")
        ask(screen, "b", "You said: half ab.")
    with open_chat("-c") as screen:
        assert "Not sent yet" not in screen.text


async def test_a_ctrl_c_just_after_an_answer_does_not_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plain_session, "LATE_SECONDS", 0.2)
    store = Store(None)
    orchestra = Orchestra(Services({"scripted": ScriptedWorker()}, store), "scripted")
    baton: Any = SimpleNamespace(orchestra=orchestra, store=store, settings=Settings())
    output = Output(plain=True)
    session = plain_session.PlainSession(
        baton, output, ANYTHING, worker=None, remember=lambda _: False
    )
    await session.answer("Hello")
    session.interrupt()
    assert not session.left.done()
    await asyncio.sleep(LATE_SECONDS)
    session.interrupt()
    assert session.left.done()
    output.close()
    await store.aclose()


def test_without_readline_the_terminal_edits_the_lines() -> None:
    without = CHAT.replace("import sys\n", "import sys\nsys.modules['readline'] = None\n", 1)
    with open_chat(command=[sys.executable, "-I", "-c", without]) as screen:
        ask(screen, "Helloo\x7f", "You said: Hello. Prompts: 1")
        screen.send('"""\rhalf a\r')
        screen.wait(lambda shown: shown.count("More:") == 2)
        time.sleep(LATE_SECONDS)
        screen.send("\x03")
        assert screen.wait_end() == 0
        assert "To continue" in screen.text
    with open_chat("-c", command=[sys.executable, "-I", "-c", without]) as screen:
        assert "Not sent yet: half a" in screen.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_chat_and_keeps_the_text(call: Call, number: signal.Signals) -> None:
    with open_chat() as screen:
        screen.send("slow\r")
        screen.wait_for("Baton: This is begun.")
        screen.process.send_signal(number)
        assert screen.wait_end() == 0
    assert "This is begun." in call("history", "show", "1").out


def test_the_latest_conversation_is_continued_and_another_one_is_opened() -> None:
    with open_chat() as screen:
        ask(screen, "First", "Answered")
        ask(screen, "/new", "A new conversation.")
        ask(screen, "Second", "Prompts: 1")
    with open_chat("-c") as screen:
        screen.wait_for("Continuing \u201cSecond\u201d, prompts so far: 1.", 20)
        screen.wait_for("Baton: You said: Second. Prompts: 1", 20)  # what was said begins with You:
        wait_for_prompt(screen)
        ask(screen, "More", "You said: More. Prompts: 2")
        ask(screen, "/open", "4 messages  Second")
        ask(screen, "/open 2", "Continuing \u201cFirst\u201d")
        ask(screen, "/show", " 2 messages")
        ask(screen, "/open nothing", "Error: ")


def test_an_answer_is_written_again_and_marked_and_the_conversation_renamed() -> None:
    with open_chat() as screen:
        ask(screen, "/regenerate", "There is no answer here yet.")
        ask(screen, "/rename Herons", "There is nothing here yet.")
        ask(screen, "First", "Answered")
        ask(screen, "/rename", "/rename needs a title.")
        ask(screen, "/rename Herons", "\u201cHerons\u201d from now on")
        ask(screen, "/regenerate", "You said: First. Prompts: 1")
        ask(screen, "/good", "is marked as good")
        ask(screen, "/show", "Herons")
    with sqlite3.connect(find_paths().database) as db:
        roles = [role for (role,) in db.execute("SELECT role FROM turns ORDER BY created")]
    assert roles == ["user", "assistant", "assistant"], "the first version is kept"


def test_commands_change_how_the_next_prompt_is_answered(home: Path) -> None:
    with open_chat() as screen:
        ask(screen, "/mode", "ultra: plans")
        ask(screen, "/mode mini", "Mode: mini, never waits for a plan.")
        ask(screen, "/strategy vot", "Error: There is no strategy 'vot'. Did you mean vote?")
        ask(screen, "/strategy single", "Strategy: single, until /strategy auto.")
        ask(screen, "/model", "scripted: Scripted, local, costs nothing (now)")
        ask(screen, "/model other", "other answers from now on.")
        ask(screen, "/private", "this conversation stays on this machine")
        ask(screen, "/offline on", "Baton is offline")
        ask(screen, "/why", "Error: There is no answer here yet.")
        ask(screen, "Hello", "Answered by other (local)")
        ask(screen, "/why", "other (local) answered.")
        ask(screen, "/budget day 2", "Today has a ceiling of $2.00")
        ask(screen, "/budget", "Baton is offline")
        ask(screen, "/budgte", "Error: /budgte isn't a command. Did you mean /budget?")
        ask(screen, "/continue", "Error: The last answer was not interrupted.")
        ask(screen, "//help", "You said: /help.")
        screen.send("/quit\r")
        assert screen.wait_end() == 0
    assert b"\x1b" not in screen.raw
    assert load_settings(find_paths().config_file).budget.day == "2"


def test_the_help_names_every_command() -> None:
    with open_chat() as screen:
        ask(screen, "/help", "begins a prompt of several lines")
        assert all(f"/{one.name}" in screen.text for one in COMMANDS)


def test_a_plan_is_run_only_if_the_user_agrees() -> None:
    with open_chat() as screen:
        screen.send("/plan Praise a river\r")
        screen.wait_for("2  Stop here (default)")
        screen.wait_for("Number, then Enter (2):")
        screen.answer("\r")
        screen.wait_for("The plan was not run; your prompt is kept.")
        wait_for_prompt(screen)
        assert "You said" not in screen.text
        screen.send("/plan Praise a lake\r")
        screen.wait(lambda shown: shown.count("Number, then Enter (2):") == 2)
        screen.answer("1\r")
        screen.wait_for("You said: Praise a lake.")


def test_a_prompt_may_have_several_lines_and_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Lisbon")
    (tmp_path / "blob.txt").write_bytes(b"\x00\x01\x02")
    with open_chat() as screen:
        screen.send('"""\rOne\r')
        screen.wait_for("More: One")
        ask(screen, 'Two\r"""', "Two. Prompts: 1")
        ask(screen, f"Sum up @{tmp_path}/notes.txt", "With notes.txt")
        ask(screen, f"Sum up @{tmp_path}/blob.txt", "Error: ")


@pytest.mark.parametrize("without", ["", "sys.modules['readline'] = None"])
def test_lines_in_one_burst_are_one_prompt_and_typed_ones_are_each_one(without: str) -> None:
    script = CHAT.replace("import sys\n", f"import sys\n{without}\n", 1)
    with open_chat(command=[sys.executable, "-I", "-c", script]) as screen:
        ask(screen, "line one\rline two\rline three", "line three. Prompts: 1")
        ask(screen, "line four", "You said: line four. Prompts: 2")
        screen.send("slow\r")
        screen.wait_for("This is begun.")
        screen.send("one\rtwo\r")
        screen.process.send_signal(signal.SIGINT)  # the key would drop what was typed
        screen.wait_for("You said: two. Prompts: 5", 20)


def test_an_offer_is_taken_by_its_number_and_refused_by_enter_or_what_was_typed_before() -> None:
    with Cloud() as cloud:
        write_settings(FAR_SETTINGS.format(url=cloud.base("server")))
        with open_chat(command=BATON) as screen:
            screen.send("Hello?\r2\r")  # the number comes before its question
            screen.wait_for("1  Don't send (default)")
            screen.wait_for("Number, then Enter (1):")
            screen.read(1)
            assert "Nothing was sent" not in screen.text, "it still waits"
            screen.answer("\r")
            screen.wait_for("Nothing was sent; your prompt is kept.")
            assert cloud.posts == 0
            wait_for_prompt(screen)
            screen.send("Hello again?\r")
            screen.wait(lambda shown: shown.count("Number, then Enter (1):") == 2)
            screen.answer("2\r")
            screen.wait_for("Answered by far (cloud), ")
            assert cloud.posts == 1
            assert re.search(r"Answered by far \(cloud\), [\d.]+ s, under \$0", screen.text)
        assert b"\x1b" not in screen.raw


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\0", "What you wrote is not text."),
        (b"Ol\xe9", "What you wrote is not UTF-8 text (byte 2) but seems to be WINDOWS-1252"),
    ],
)
def test_a_line_that_is_not_text_is_not_a_prompt(process: Process, line: bytes, said: str) -> None:
    done = process("--plain", piped=b"2 + 3\n" + line + b"\n\x1b[1m3 + 4\x1b[m\n")
    assert said in done.stderr.decode()
    assert b"2 + 3 = 5" in done.stdout
    assert b"3 + 4 = 7" in done.stdout
    assert done.stdout.count(b"Answered by") == 2


def test_a_line_that_windows_ended_is_kept_without_its_return(process: Process) -> None:
    process("--plain", piped=b"2 + 2\r\n")
    assert (
        b'"text": "2 + 2"'
        in process("history", "query", "--ndjson", "SELECT text FROM turns").stdout
    )


def test_a_named_file_that_is_not_there_is_said(process: Process) -> None:
    done = process("--plain", piped=b"2 + 2 @no.md\n")
    assert b"There is no file no.md.\n" in done.stderr


def test_a_pipe_is_read_to_its_end(process: Process) -> None:
    write_settings("worker = 'calculator'")
    done = process("--plain", piped=b'2 + 2\n\n/nothing\n3 + 4\n"""\n5 + 4')
    out = done.stdout.decode()
    assert done.returncode == 0
    assert re.findall(r"Baton: .*= (\d+)", out) == ["4", "7", "9"]
    assert out.index("You: 2 + 2\nBaton: ") < out.index("You: 3 + 4\nBaton: ")
    assert done.stderr.decode().startswith("Error: /nothing isn't a command. There are: /new, ")


def test_an_output_that_is_full_is_reported() -> None:
    write_settings("worker = 'calculator'")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(BATON, input=b"2 + 2\n", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert b"The output can't be written: No space left on device." in done.stderr


def test_without_a_model_it_says_at_once_how_to_get_one() -> None:
    absent = "from baton.workers.local import model_file; model_file.STARTER_PACKAGE = 'absent'"
    code = f"{absent}; from baton.cli import main; main(['--plain'])"
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, input="/model\n", capture_output=True, text=True)
    assert done.returncode == 0
    assert "Worker: none yet." in done.stdout
    assert "There is no model on this machine yet. `baton models recommend`" in done.stderr
    assert "Error: There is no model yet. /models recommend" in done.stderr


def test_it_loads_neither_the_app_nor_native_engines() -> None:
    command = [sys.executable, "-I", "-X", "importtime", "-m", "baton", "--plain"]
    write_settings("worker = 'calculator'")
    done = subprocess.run(
        command, input="2 + 2\n/mode\n/model\n", capture_output=True, text=True, check=True
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "baton.cli.plain_chat" in loaded
    assert not loaded & {"textual", "rich", "baton.tui.app", "numpy", "llama_cpp", "onnxruntime"}


def test_the_setting_opens_it_and_a_terminal_without_a_cursor_is_sent_to_it() -> None:
    dumb = {**os.environ, "TERM": "dumb"}
    plain = [sys.executable, "-I", "-m", "baton"]
    command = f"import os; os.environ['TERM'] = 'dumb'; os.execv({plain[0]!r}, {plain!r})"
    screen = Terminal([sys.executable, "-c", command], dumb)
    assert screen.wait_end() == 2
    assert "TERM is dumb. `baton --plain`" in screen.text
    write_settings("[screen]\nplain = true")
    done = subprocess.run(plain, input=b"/quit\n", capture_output=True)
    assert (done.returncode, done.stdout[:20]) == (0, b"Baton, line by line.")


def test_an_unknown_worker_is_reported_before_anything_is_asked(process: Process) -> None:
    done = process("--plain", "-m", "nobody", piped=b"Hello\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"There is no worker 'nobody'" in done.stderr
