"""A worker whose address is Baton's own endpoint: it would ask itself without end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from baton.core.messages import VIA_HEADER
from baton.server import LOOPBACK, endpoint
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import served_baton

BATON = [sys.executable, "-P", "-m", "baton"]
TOKEN_VARIABLE = "OTHER_TOKEN"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port: int = unused.getsockname()[1]
        return port


def make_home(home: Path, url: str, kind: str = "server", model: str = "baton/auto") -> Path:
    """Make the home of a Baton that always asks what answers there."""
    (home / "config").mkdir(parents=True)
    (home / "config/config.toml").write_text(
        'worker = "other"\ndaemon = false\nmode = "local"\n\n[[workers]]\nid = "other"\n'
        f'kind = "{kind}"\nmodel = "{model}"\nbase_url = "{url}"\n'
        f'api_key_env = "{TOKEN_VARIABLE}"\n' + ("here = true\n" if kind == "server" else "")
    )
    return home


def environ_of(home: Path, asks: Path) -> dict[str, str]:
    """Return the environment of a Baton that has the token of the Baton that it asks."""
    plain = {**os.environ, "BATON_HOME": str(asks)}
    command = [*BATON, "serve", "--show-token"]
    shown = subprocess.run(command, env=plain, capture_output=True, text=True, check=True).stdout
    return {
        **os.environ,
        "BATON_HOME": str(home),
        TOKEN_VARIABLE: shown.splitlines()[0].split()[-1],
    }


@contextmanager
def serving(environ: dict[str, str], port: int) -> Iterator[None]:
    command = [*BATON, "serve", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stderr is not None
        assert any("Serving at" in line for line in process.stderr)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()


def ask(environ: dict[str, str]) -> tuple[int, dict[str, Any]]:
    command = [*BATON, "ask", "--json", "-m", "other", "What is a fjord?"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=90)
    return done.returncode, json.loads(done.stdout)


def count_conversations(environ: dict[str, str]) -> int:
    command = [*BATON, "history", "ls", "--programs", "--json"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return len(json.loads(done.stdout)["conversations"])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_baton_that_asks_itself_ends_at_once_with_a_sentence(tmp_path: Path, host: str) -> None:
    port = free_port()
    home = make_home(tmp_path / "home", f"http://{host}:{port}/v1")
    environ = environ_of(home, home)
    with serving(environ, port):
        code, said = ask(environ)
        assert code == 6, said
        assert "own endpoint, so the request went in a circle" in said["error"]["message"]
        assert "config edit" in said["error"]["message"]
        assert count_conversations(environ) == 0


def test_two_batons_that_ask_each_other_end_at_once(tmp_path: Path) -> None:
    first, second = free_port(), free_port()
    home = make_home(tmp_path / "first", f"http://127.0.0.1:{second}/v1")
    other = make_home(tmp_path / "second", f"http://127.0.0.1:{first}/v1")
    environ, far = environ_of(home, other), environ_of(other, home)
    with ExitStack() as stack:
        stack.enter_context(serving(environ, first))
        stack.enter_context(serving(far, second))
        code, said = ask(environ)
        assert code == 0, "the second Baton answers by another worker"
        assert said["answer"]
        assert (count_conversations(environ), count_conversations(far)) == (0, 1)
        why = subprocess.run([*BATON, "why"], env=far, capture_output=True, text=True, check=True)
        assert "in a circle" in why.stdout


async def test_a_chain_of_other_endpoints_is_no_circle(tmp_path: Path) -> None:
    body = {"model": "baton/auto", "messages": [{"role": "user", "content": "Hello"}]}
    async with (
        served_baton(tmp_path, [ScriptedWorker()], hosts=LOOPBACK) as served,
        served.client() as client,
    ):
        for passed, status in (("a", 200), ("a,b , c", 200), (",".join("abcdefgh"), 400)):
            headers = {VIA_HEADER: passed}
            answer = await client.post("/v1/chat/completions", json=body, headers=headers)
            assert answer.status_code == status, answer.text
    assert endpoint.MAX_ENDPOINTS == 8
