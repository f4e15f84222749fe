"""The models of what serves, `baton serve` or the app, answer a `baton ask` beside it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from baton.ipc import lending_protocol as lending
from baton.ipc.borrower import Borrower
from baton.ipc.lending_protocol import Description, LentChild
from baton.platform.settings import find_paths
from support.lent_models import STORY, await_lender, have_ended, processes_of
from support.terminal import Terminal

pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(not lending.IS_SUPPORTED, reason="models are not lent here"),
]

BATON = [sys.executable, "-P", "-m", "baton"]


@contextmanager
def serving(home: Path, **environ: str) -> Iterator[Path]:
    """Run `baton serve`; yield the folder where its models are lent."""
    env = {**os.environ, "BATON_HOME": str(home), **environ}
    command = [*BATON, "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        assert any("Serving at" in line for line in process.stderr)
        try:
            yield find_paths(env).state
        finally:
            process.send_signal(signal.SIGTERM)


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


def test_an_ask_uses_the_model_that_is_served(tmp_path: Path) -> None:
    with serving(tmp_path) as folder:
        served = wait_for_runner(folder, 1)
        env = {**os.environ, "BATON_HOME": str(tmp_path)}
        command = [*BATON, "ask", STORY, "--max-tokens", "150", "-q"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as ask:
            assert wait_for_runner(folder, 2).pid == served.pid
            assert ask.stdout is not None
            assert len(ask.stdout.read()) > 200
        assert ask.returncode == 0
        assert [child.pid for child in runners(folder)] == [served.pid], "there is one model"
        alone = subprocess.run(
            [*command, "--no-daemon"], env=env, capture_output=True, timeout=120, check=True
        )
        assert alone.stdout
        assert wait_for_runner(folder, 1).borrowers == 1


def test_an_ask_uses_the_model_of_an_app_that_serves(tmp_path: Path) -> None:
    env = {**os.environ, "BATON_HOME": str(tmp_path)}
    folder = find_paths(env).state
    app = Terminal(BATON, env, 100, 30)
    try:
        app.wait(lambda shown: "Ask anything" in shown, 60)
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        app.send(f"/serve {port}\r")
        app.wait(lambda shown: "http://127.0.0.1:" in shown)
        served = wait_for_runner(folder, 1)
        command = [*BATON, "ask", STORY, "--max-tokens", "150", "-q"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as ask:
            assert wait_for_runner(folder, 2).pid == served.pid
            assert ask.stdout is not None
            assert len(ask.stdout.read()) > 200
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


def test_its_models_end_with_it_where_nothing_may_stay(tmp_path: Path) -> None:
    with serving(tmp_path) as folder:
        held = processes_of(await_lender(folder))
        wait_for_runner(folder, 1)
    assert have_ended(held, 10)
    assert Borrower(folder).description() is None


def test_without_a_background_process_it_keeps_its_models_to_itself(tmp_path: Path) -> None:
    with serving(tmp_path, BATON_DAEMON="false") as folder:
        found: list[Description] = []
        with contextlib.suppress(TimeoutError):
            found.append(await_lender(folder, 2))
        assert found == []
