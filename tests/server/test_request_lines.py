"""What the user at the server sees of requests: a line for each, never what it says."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest

from baton.core.ledger_types import Scope
from baton.core.messages import Chunk, Finish, Request, Text, Usage
from baton.core.money import NANO
from baton.platform.paths import find_paths
from baton.server import read_tokens
from baton.server.access import Grant
from baton.server.http_server import MAX_REFUSALS
from baton.workers.scripted_worker import ScriptedWorker
from support.serve_process import serve_process
from support.served_baton import GPT, SMALL, Served, remote_answer, served_baton, wait_until

CANARY = "canary-51fe"
HELLO = [{"role": "user", "content": f"Hello {CANARY}"}]


def short(request: Request) -> Iterable[Chunk]:
    yield Text("Half of an ans")
    yield Usage(1_000, 4, Finish.LENGTH)


async def lines_of(served: Served, count: int) -> list[str]:
    await wait_until(lambda: len(served.lines) >= count)
    return served.lines


def columns(line: str) -> list[str]:
    return re.split(r"  +", line)


async def test_a_line_says_who_was_answered_where_and_at_what_price(tmp_path: Path) -> None:
    workers = [ScriptedWorker(short, SMALL), ScriptedWorker(remote_answer, GPT)]
    body = {"model": "baton/auto", "messages": HELLO}
    async with served_baton(tmp_path, workers, ceilings={Scope.DAY: NANO}) as served:
        for grant in (Grant.FREE, Grant.SPEND):
            async with served.client(grant) as client:
                headers = {"user-agent": "codex_cli_rs/0.171 (Linux)"}
                await client.post("/chat/completions", json=body, headers=headers)
        free, paid = map(columns, await lines_of(served, 2))
    assert re.fullmatch(r"\d\d:\d\d:\d\d", free[0])
    assert free[1:5] == ["Codex", "baton/auto", "small", "1,000 + 4"]
    assert re.fullmatch(r"\d+\.\d s", free[5])
    assert free[6:] == ["free"]
    assert paid[3] == "cloud: gpt"
    assert paid[6].startswith("$")


REFUSED: dict[str, tuple[str, dict[str, Any], dict[str, str], str]] = {
    "401": ("/chat/completions", {}, {"authorization": f"Bearer {CANARY}"}, "The token is missing"),
    "421": ("/chat/completions", {}, {"host": "evil.example"}, "This address isn't Baton's."),
    "404": ("/nowhere", {}, {}, "There is nothing at this address."),
    "400": ("/chat/completions", {"response_format": {"type": CANARY}}, {}, "There is"),
    "403": ("/chat/completions", {"model": "gpt"}, {}, "GPT costs money"),
}


@pytest.mark.parametrize("status", REFUSED)
async def test_a_refusal_is_a_line_with_its_reason(tmp_path: Path, status: str) -> None:
    path, fields, headers, reason = REFUSED[status]
    workers = [ScriptedWorker(short, SMALL), ScriptedWorker(remote_answer, GPT)]
    async with served_baton(tmp_path, workers) as served, served.client() as client:
        body = {"model": "baton/auto", "messages": HELLO, **fields}
        assert (await client.post(path, json=body, headers=headers)).status_code == int(status)
        (line,) = await lines_of(served, 1)
        log = (served.baton.paths.logs / "serve.log").read_text()
    assert f"{status} {reason}" in line
    assert line in log
    assert CANARY not in line


async def test_a_client_that_left_is_a_line(tmp_path: Path) -> None:
    def endless(request: Request) -> Iterable[Chunk | float]:
        yield Text("It begins")
        yield 60.0

    async with served_baton(tmp_path, [ScriptedWorker(endless, SMALL)]) as served:
        async with served.client() as client:
            body = {"model": "baton/auto", "messages": HELLO, "stream": True}
            async with client.stream("POST", "/chat/completions", json=body) as answer:
                await anext(answer.aiter_lines())
        (line,) = await lines_of(served, 1)
    assert line.endswith("the program left")


async def test_a_flood_of_refusals_is_a_number(tmp_path: Path) -> None:
    count = 3 * MAX_REFUSALS
    async with served_baton(tmp_path) as served, httpx.AsyncClient() as client:
        for _ in range(count):
            assert (await client.get(f"{served.url}/models")).status_code == 401
    lines = served.lines
    assert len(lines) == MAX_REFUSALS + 1
    assert lines[-1].endswith(f"  {count - MAX_REFUSALS} more requests refused.")


async def test_whether_baton_runs_is_not_a_line(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        await client.get(f"http://127.0.0.1:{served.port}/health")
        await client.get("/models")
        lines = await lines_of(served, 1)
    assert [columns(line)[1:] for line in lines] == [["a Python program", "GET /v1/models", "200"]]


def test_the_command_writes_a_line_for_each_request(home: Path) -> None:
    body = {"model": "baton/local", "messages": HELLO, "max_tokens": 3}
    with serve_process(home) as (process, url):
        token = read_tokens(find_paths().server_tokens).free
        headers = {"authorization": f"Bearer {token}", "x-title": "My \x1b[31mred\x1b[0m program"}
        with httpx.Client(timeout=120) as client:
            answer = client.post(f"{url}/chat/completions", json=body, headers=headers)
            assert answer.status_code == 200
            client.post(f"{url}/chat/completions", json=body)
        process.terminate()
        said = process.communicate(timeout=60)[1]
    lines = [line for line in said.splitlines() if line.strip() and "baton:" not in line]
    [answered] = [line for line in lines if " baton/local " in line]  # its end is later at times
    assert columns(answered)[-1] == "free"
    [refused] = [line for line in lines if line is not answered]
    assert refused.endswith("`baton serve --show-token` shows the tokens.")
    assert CANARY not in said
    assert token not in said
    assert "\x1b" not in said


def test_quiet_leaves_the_lines_out(home: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-P", "-m", "baton", "serve", "--quiet", "--port", str(port)]
    environ = {**os.environ, "BATON_HOME": str(home)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ)
    try:
        transport = httpx.HTTPTransport(verify=False)
        with httpx.Client(transport=transport, base_url=f"http://127.0.0.1:{port}") as client:
            while process.poll() is None:
                with contextlib.suppress(httpx.ConnectError):
                    assert client.get("/v1/models").status_code == 401
                    break
                time.sleep(0.1)
    finally:
        process.terminate()
    said = process.communicate(timeout=60)[1]
    assert "401" not in said
    assert "/v1/models" not in said


MORE_THAN_A_PIPE_TAKES = 200 if sys.platform == "linux" else 2_000
"""Lines; the size of a pipe is set on Linux only."""


def test_no_request_waits_for_a_terminal_that_is_held_up(home: Path) -> None:
    with serve_process(home, pipesize=4096) as (process, url):
        token = read_tokens(find_paths().server_tokens).free
        with httpx.Client(headers={"authorization": f"Bearer {token}"}, timeout=30) as client:
            for _ in range(MORE_THAN_A_PIPE_TAKES):
                assert client.get(f"{url}/models").status_code == 200
        process.kill()
