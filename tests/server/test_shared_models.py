"""The models of what serves, `baton serve` or the app, answer a `baton ask` beside it."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from baton.ipc.borrower import Borrower
from baton.ipc.lending_protocol import LentChild
from baton.platform import unix_sockets
from baton.platform.paths import find_paths
from support.lent_models import STORY, await_lender, have_ended, processes_of
from support.processes import wait_for_child
from support.serve_process import BATON, serve_process
from support.terminal import Terminal

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(not unix_sockets.IS_SUPPORTED, reason="models are not lent here"),
]

STORY_CHARS = 80
"""A story of 40 tokens is longer; it takes long enough to be seen while it is written."""
ASK = [*BATON, "ask", STORY, "--max-tokens", "40", "-q"]


def runners(folder: Path) -> list[LentChild]:
    found = Borrower(folder).description()
    return [child for child in found.children if child.kind == "runner"] if found else []


def wait_for_runner(folder: Path, borrowers: int) -> LentChild:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if (held := runners(folder)) and held[0].borrowers >= borrowers:
            return held[0]
        time.sleep(0.01)
    raise AssertionError(f"no runner with {borrowers} borrowers: {runners(folder)}")


def test_an_ask_uses_the_model_that_is_served_and_that_ends_with_it(home: Path) -> None:
    folder = find_paths().state
    with serve_process(home):
        served = wait_for_runner(folder, 1)
        held = processes_of(await_lender(folder))
        with subprocess.Popen(ASK, stdout=subprocess.PIPE, text=True) as ask:
            assert wait_for_runner(folder, 2).pid == served.pid
            assert ask.stdout is not None
            assert len(ask.stdout.read()) > STORY_CHARS
        assert ask.returncode == 0
        assert [child.pid for child in runners(folder)] == [served.pid], "there is one model"
        alone = [*BATON, "ask", "Hello", "--max-tokens", "1", "-q", "--no-daemon"]
        assert subprocess.run(alone, capture_output=True, timeout=120, check=True).stdout
        assert wait_for_runner(folder, 1).borrowers == 1
    assert have_ended(held, 10)
    assert Borrower(folder).description() is None


@pytest.mark.sampled(0.5)
def test_an_ask_uses_the_model_of_an_app_that_serves() -> None:
    folder = find_paths().state
    app = Terminal(BATON, os.environ, 100, 30)
    try:
        app.wait(lambda shown: "Ask anything" in shown, 60)
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        app.send(f"/serve {port}\r")
        app.wait(lambda shown: "http://127.0.0.1:" in shown)
        served = wait_for_runner(folder, 1)
        with subprocess.Popen(ASK, stdout=subprocess.PIPE, text=True) as ask:
            assert wait_for_runner(folder, 2).pid == served.pid
            assert ask.stdout is not None
            assert len(ask.stdout.read()) > STORY_CHARS
        app.send("\x1b")
        app.wait(lambda shown: "Ask anything" in shown)
        time.sleep(0.2)  # else Esc and the first letter would be one key
        app.send("What is the capital of France?\r")
        app.wait(lambda shown: "finished in" in shown, 60)
        assert [child.pid for child in runners(folder)] == [served.pid], "there is one model"
        held = processes_of(await_lender(folder))
    finally:
        app.close()
    assert have_ended(held, 10)


def test_without_a_background_process_it_keeps_its_models_to_itself(home: Path) -> None:
    with serve_process(home, environ={"BATON_DAEMON": "false"}) as (process, _):
        wait_for_child(psutil.Process(process.pid), "runner")
        with pytest.raises(TimeoutError):
            await_lender(find_paths().state, 0.5)
