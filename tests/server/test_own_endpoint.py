"""A worker whose address is Baton's own endpoint: it would ask itself without end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from baton.core.messages import VIA_HEADER
from baton.platform.paths import find_paths
from baton.server import LOOPBACK, endpoint, read_tokens
from baton.workers.scripted_worker import ScriptedWorker
from support.serve_process import BATON, run_command, serve_process
from support.served_baton import served_baton

TOKEN_VARIABLE = "OTHER_TOKEN"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port: int = unused.getsockname()[1]
        return port


def make_home(home: Path, *urls: str) -> Path:
    """Make the home of a Baton that always asks what answers there: workers `other0` and so on."""
    (home / "config").mkdir(parents=True)
    (home / "config/config.toml").write_text(
        'worker = "other0"\ndaemon = false\nmode = "local"\n'
        + "".join(
            f'[[workers]]\nid = "other{number}"\nkind = "server"\nmodel = "baton/auto"\n'
            f'base_url = "{url}"\napi_key_env = "{TOKEN_VARIABLE}"\nhere = true\n'
            for number, url in enumerate(urls)
        )
    )
    return home


def environ_of(home: Path, asks: Path) -> dict[str, str]:
    """Return the environment of a Baton that has the token of the Baton that it asks."""
    token = read_tokens(find_paths({"BATON_HOME": str(asks)}).server_tokens).free
    return {"BATON_HOME": str(home), TOKEN_VARIABLE: token}


def ask(environ: dict[str, str], worker: str) -> tuple[int, dict[str, Any]]:
    command = [*BATON, "ask", "--json", "-m", worker, "What is a fjord?"]
    variables = {**os.environ, **environ}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=90)
    return done.returncode, json.loads(done.stdout)


def count_conversations(environ: dict[str, str]) -> int:
    shown = run_command("history", "ls", "--programs", "--json", environ=environ).stdout
    return len(json.loads(shown)["conversations"])


def test_a_baton_that_asks_itself_ends_at_once_with_a_sentence(home: Path) -> None:
    port = free_port()
    hosts = ("127.0.0.1", "localhost", "[::1]")
    make_home(home, *(f"http://{host}:{port}/v1" for host in hosts))
    environ = environ_of(home, home)
    with serve_process(home, "--port", str(port), environ=environ):
        for number, host in enumerate(hosts):
            code, said = ask(environ, f"other{number}")
            assert code == 6, (host, said)
            assert "own endpoint, so the request went in a circle" in said["error"]["message"], host
            assert "config edit" in said["error"]["message"]
            assert count_conversations(environ) == 0


@pytest.mark.sampled(0.5)
def test_two_batons_that_ask_each_other_end_at_once(tmp_path: Path) -> None:
    first, second = free_port(), free_port()
    home = make_home(tmp_path / "first", f"http://127.0.0.1:{second}/v1")
    other = make_home(tmp_path / "second", f"http://127.0.0.1:{first}/v1")
    environ, far = environ_of(home, other), environ_of(other, home)
    with (
        serve_process(home, "--port", str(first), environ=environ),
        serve_process(other, "--port", str(second), environ=far),
    ):
        code, said = ask(environ, "other0")
        assert code == 0, "the second Baton answers by another worker"
        assert said["answer"]
        assert (count_conversations(environ), count_conversations(far)) == (0, 1)
        assert "in a circle" in run_command("why", environ=far).stdout


async def test_a_chain_of_other_endpoints_is_not_a_circle(tmp_path: Path) -> None:
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
