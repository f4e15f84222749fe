"""The command line at a real terminal: status, questions, and nothing that the terminal obeys."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.terminal import Terminal

pytestmark = pytest.mark.sampled(0.5)

CHAT = """
import asyncio, sys, time
from functools import partial
from pathlib import Path
from baton.workers.scripted_worker import ScriptedWorker
from baton.history import Store
from baton.cli.prompt_run import OutputOptions, show_run
from baton.core.messages import Loading, Prompt, Reading, Text
from baton.core.errors import ContextTooLong
from baton.core.run.orchestra import Orchestra
from baton.core.ports import ConversationPosition
from baton.core.permissions import PromptLimits
from baton.core.run.run_context import Services

def hostile(request):
    yield from (Loading(0.4), 0.4, Reading(1, 2), 0.4)
    yield from (Text(piece) for piece in ("Par\\x1b", "]0;forged\\x07", "\\x9b2Jis\\u202e"))

def forgetful(request):
    long = len(request.messages) > 2
    return [ContextTooLong(9000, 4096)] if long else [Text("word " * 300)]

def waits_for(here, go):
    def script(request):
        if len(request.messages) > 2:
            Path(here).touch()
            while not Path(go).exists():
                time.sleep(0.01)
        return forgetful(request)
    return script

async def main(script, prompts):
    store = Store(None)
    services = Services({"scripted": ScriptedWorker(script)}, store)
    orchestra, place = Orchestra(services, "scripted"), ConversationPosition()
    for text in prompts:
        begin = partial(orchestra.run, Prompt(text), place, PromptLimits())
        code = await show_run(begin, OutputOptions())
        place = ConversationPosition(await store.latest())
    return code

sys.exit(asyncio.run(main({script}, {prompts})))
"""


def terminal(script: str, *prompts: str) -> Terminal:
    code = CHAT.replace("{script}", script).replace("{prompts}", repr(prompts))
    return Terminal([sys.executable, "-I", "-c", code], os.environ, 160, 40)


def test_the_status_gives_way_to_the_answer_and_nothing_is_obeyed() -> None:
    screen = terminal("hostile", "Capital?")
    screen.wait_for("loading scripted 40 %")
    screen.wait_for("reading prompt 50 %")
    assert screen.wait_end() == 0
    assert screen.text.strip() == "Par\ufffd]0;forged\ufffd\ufffd2Jis\ufffd"
    assert b"\x1b]" not in screen.raw
    assert b"\xc2\x9b" not in screen.raw


def test_the_user_is_asked_before_turns_are_left_out() -> None:
    screen = terminal("forgetful", "one", "two")
    screen.wait_for("Leave out the 2 oldest turns?")
    screen.wait_for("1  Leave them out")
    screen.answer("1\r")
    assert screen.wait_end() == 0
    assert "earlier turns are not sent" in screen.text


def test_enter_alone_takes_the_safe_choice() -> None:
    screen = terminal("forgetful", "one", "two")
    screen.wait_for("Number, then Enter (2):")
    screen.answer("\r")
    assert screen.wait_end() == 6
    assert "(--drop-oldest)" in screen.text


def test_what_is_typed_while_the_question_is_unseen_is_not_an_answer(
    tmp_path: Path,
) -> None:
    here, go = tmp_path / "here", tmp_path / "go"
    script = f"waits_for({str(here)!r}, {str(go)!r})"
    screen = terminal(script, "one", "two")
    screen.wait(lambda _: here.exists())
    screen.send("\x13")  # Ctrl+S
    screen.read()
    go.touch()
    screen.read(0.3)
    screen.send("1\r")
    screen.read()
    screen.send("\x11")
    screen.wait_for("Number, then Enter (2):")
    screen.answer("\r")
    assert screen.wait_end() == 6


def test_a_question_can_be_left_by_ctrl_c() -> None:
    screen = terminal("forgetful", "one", "two")
    screen.wait_for("Number, then Enter (2):")
    screen.send("\x03")
    assert screen.wait_end() == 130


def test_rm_asks_at_a_terminal() -> None:
    for typed, code, left in (("n\r", 1, 1), ("y\r", 0, 0)):
        command = [sys.executable, "-I", "-c", REMOVED]
        screen = Terminal(command, os.environ, 100, 20)
        screen.wait_for("Remove 1 conversation for good?")
        screen.answer(typed)
        assert screen.wait_end() == 0
        assert f"code {code}, {left} left" in screen.text


def test_a_failure_as_json_is_clean_at_a_terminal() -> None:
    env = {**os.environ, "BATON_HOME": "/proc/\x9b2J\x7f"}
    screen = Terminal([sys.executable, "-I", "-m", "baton", "history", "ls", "--json"], env)
    assert screen.wait_end() == 1
    assert b'"status": "failed"' in screen.raw
    assert b"\xc2\x9b" not in screen.raw
    assert b"\x7f" not in screen.raw


def test_the_app_opens_with_what_was_typed(home: Path) -> None:
    baton = [sys.executable, "-I", "-m", "baton"]
    refused = Terminal([*baton, "-c"], os.environ)
    assert refused.wait_end(20) == 2
    assert "no conversation to continue" in refused.text
    begun = """
import asyncio
from baton.history import Store
from baton.core.messages import Prompt
from baton.core.labels import Label
from baton.core.ports import ConversationPosition
from baton.platform.paths import find_paths
store = Store(find_paths().database)
asyncio.run(store.begin(Prompt("Lisbon with kids"), ConversationPosition(), Label.CLOUD))
asyncio.run(store.aclose())
"""
    subprocess.run([sys.executable, "-I", "-c", begun], check=True)
    for options, shown in ((["-c"], "Lisbon with kids"), (["--private"], "private")):
        screen = Terminal([*baton, *options], os.environ)
        screen.wait_for(shown)
        screen.send("\x11")
        assert screen.wait_end() == 0


REMOVED = """
import asyncio
from baton.history import Store
from baton.cli.root import run
from baton.core.messages import Prompt
from baton.core.labels import Label
from baton.core.ports import ConversationPosition
from baton.platform.paths import find_paths

async def store(act):
    store = Store(find_paths().database)
    try:
        return await act(store)
    finally:
        await store.aclose()

for old in asyncio.run(store(lambda s: s.conversations())):
    asyncio.run(store(lambda s: s.purge(old.id)))
begun = asyncio.run(store(lambda s: s.begin(Prompt("Hello"), ConversationPosition(), Label.CLOUD)))
code = run(["history", "rm", begun.conversation])
left = len(asyncio.run(store(lambda s: s.conversations())))
print(f"code {code}, {left} left")
"""
