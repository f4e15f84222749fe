"""Served requests as runs: cancelled with their client, under a ceiling, never mixed up."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import re
import signal
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from baton.core.errors import ConfigError
from baton.core.ledger_types import Scope
from baton.core.messages import Chunk, Declined, Request, Text
from baton.core.money import NANO
from baton.platform.paths import find_paths
from baton.server import read_tokens
from baton.server.access import Grant
from baton.workers.scripted_worker import ScriptedWorker
from support.processes import wait_until_over
from support.serve_process import run_command, serve_process
from support.served_baton import (
    GPT,
    SMALL,
    Served,
    cut_answer,
    remote_answer,
    served_baton,
    wait_until,
)

HELLO: Any = [{"role": "user", "content": "Hello there"}]


def endless(request: Request) -> Iterable[Chunk | float]:
    for number in itertools.count():
        yield Text(f"{number} ")
        yield 0.01


async def post(
    client: httpx.AsyncClient, headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    asked = {"model": "baton/auto", "messages": HELLO, **body}
    return await client.post("/chat/completions", json=asked, headers=headers)


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_client_that_leaves_stops_its_run(tmp_path: Path, is_streamed: bool) -> None:
    async with served_baton(tmp_path, [ScriptedWorker(endless, SMALL)]) as served:
        async with served.client() as client:
            asking = asyncio.create_task(post(client, stream=is_streamed))
            await wait_until(lambda: served.runner.served and served.runner.served[0].view.answer)
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking
        (run,) = served.runner.served
        await wait_until(lambda: run.is_over, seconds=2)
        record = await served.baton.store.runs.get(run.id)
        assert record.status == "cancelled"


async def test_a_stopped_server_lets_what_runs_end(tmp_path: Path) -> None:
    def slow(request: Request) -> Iterable[Chunk | float]:
        yield Text("First ")
        yield 0.4
        yield Text("and last.")

    async with httpx.AsyncClient() as client:
        async with served_baton(tmp_path, [ScriptedWorker(slow, SMALL)]) as served:
            headers = {"authorization": f"Bearer {served.token}"}
            body = {"model": "baton/auto", "messages": HELLO}
            url = f"{served.url}/chat/completions"
            asking = asyncio.create_task(client.post(url, json=body, headers=headers))
            await wait_until(lambda: served.runner.served and served.runner.served[0].view.answer)
        answer = await asking
    assert answer.json()["choices"][0]["message"]["content"] == "First and last."


async def test_a_ceiling_ends_the_answer_here_and_says_so(tmp_path: Path) -> None:
    workers = [ScriptedWorker(cut_answer, SMALL), ScriptedWorker(remote_answer, GPT)]
    async with (
        served_baton(tmp_path, workers, ceilings={Scope.DAY: 1000}) as served,
        served.client(Grant.SPEND) as client,
    ):
        answer = (await post(client)).json()
        assert answer["choices"][0]["message"]["content"] == "Half of an ans"
        assert answer["baton"]["budget_reached"] is True
        assert answer["baton"]["budget_message"]

        strict = await post(client, {"x-baton-strict": "1"})
        assert strict.status_code == 402
        assert strict.json()["error"]["type"] == "insufficient_quota"


@pytest.mark.parametrize(
    ("grant", "headers", "said"),
    [
        (Grant.SPEND, {}, "From far away."),
        (Grant.SPEND, {"x-baton-budget": "0.50"}, "From far away."),
        (Grant.SPEND, {"x-baton-budget": "0.0000001"}, "Half of an ans"),
        (Grant.SPEND, {"x-baton-private": "1"}, "Half of an ans"),
        (Grant.FREE, {}, "Half of an ans"),
        (Grant.FREE, {"x-baton-budget": "0.50"}, "Half of an ans"),
    ],
)
async def test_only_a_token_that_may_spend_asks_the_cloud(
    tmp_path: Path, grant: Grant, headers: dict[str, str], said: str
) -> None:
    workers = [ScriptedWorker(cut_answer, SMALL), ScriptedWorker(remote_answer, GPT)]
    async with (
        served_baton(tmp_path, workers, ceilings={Scope.DAY: NANO}) as served,
        served.client(grant) as client,
    ):
        answer = (await post(client, headers)).json()
    assert answer["choices"][0]["message"]["content"] == said
    spent = answer["usage"]
    assert (spent["cost_usd"] != "0") is (said == "From far away.")
    assert (spent["cloud_tokens"] > 0) is (said == "From far away.")


async def test_a_deadline_gives_what_there_is(tmp_path: Path) -> None:
    async with (
        served_baton(tmp_path, [ScriptedWorker(endless, SMALL)]) as served,
        served.client() as client,
    ):
        answer = (await post(client, {"x-baton-deadline": "0.5"})).json()
    assert answer["choices"][0]["message"]["content"].startswith("0 1 2")
    assert answer["choices"][0]["finish_reason"] == "length"
    assert [warning["kind"] for warning in answer["baton"]["warnings"]] == ["deadline"]


async def test_a_failed_worker_is_an_error_with_a_status(tmp_path: Path) -> None:
    from baton.core.errors import WorkerUnavailable

    def broken(request: Request) -> Iterable[Chunk | BaseException]:
        yield Declined()
        yield WorkerUnavailable("The model is gone.", "Fetch it.")

    async with (
        served_baton(tmp_path, [ScriptedWorker(broken, SMALL)]) as served,
        served.client() as client,
    ):
        for streamed in (False, True):
            answer = await post(client, stream=streamed)
            assert answer.status_code == 503
            assert answer.json()["error"]["message"] == "The model is gone. Fetch it."


async def read_stream(client: httpx.AsyncClient, number: int) -> str:
    """Return what one stream says; each says its own number."""
    messages = [{"role": "user", "content": f"Say number {number}."}]
    body = {"model": "baton/mini", "messages": messages, "stream": True}
    said = ""
    async with client.stream("POST", "/chat/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line.removeprefix("data: "))["choices"]
                said += choices[0]["delta"].get("content") or ""
    return said


def echo_number(request: Request) -> Iterable[Chunk | float]:
    number = re.findall(r"number (\d+)", request.messages[-1].text)[-1]
    for place in range(20):
        yield Text(f"{number}.{place} ")
        yield 0.01


async def check_streams(served: Served, rounds: int) -> None:
    """Read 64 streams at once, over and over: none is mixed up or lost, and memory stays."""
    process = psutil.Process()
    limits = httpx.Limits(max_connections=64)
    headers = {"authorization": f"Bearer {served.token}"}
    memory: list[int] = []
    async with httpx.AsyncClient(
        base_url=served.url, headers=headers, timeout=120, limits=limits
    ) as client:
        for turn in range(rounds):
            numbers = range(turn * 64, turn * 64 + 64)
            said = await asyncio.gather(*(read_stream(client, number) for number in numbers))
            for number, text in zip(numbers, said, strict=True):
                assert text.split() == [f"{number}.{place}" for place in range(20)]
            gc.collect()
            memory.append(process.memory_info().rss)
    assert memory[-1] < memory[len(memory) // 2] * 1.1


async def test_64_streams_at_once_are_not_mixed_up(tmp_path: Path) -> None:
    async with served_baton(tmp_path, [ScriptedWorker(echo_number, SMALL)]) as served:
        await check_streams(served, 1)


@pytest.mark.long
async def test_64_streams_at_once_for_five_minutes(tmp_path: Path) -> None:
    end = time.monotonic() + 300
    async with served_baton(tmp_path, [ScriptedWorker(echo_number, SMALL)]) as served:
        while time.monotonic() < end:
            await check_streams(served, 4)


def test_killed_in_mid_stream_it_has_everything_after_the_restart(home: Path) -> None:
    messages = [{"role": "user", "content": "Write a long story about a lighthouse."}]
    body = {"model": "baton/mini", "messages": messages, "stream": True}
    said = ""
    with serve_process(home) as (process, url):
        headers = {"authorization": f"Bearer {read_tokens(find_paths().server_tokens).free}"}
        children = psutil.Process(process.pid).children(recursive=True)
        with (
            contextlib.suppress(httpx.HTTPError),
            httpx.stream(
                "POST", f"{url}/chat/completions", json=body, headers=headers, timeout=60
            ) as answer,
        ):
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line.removeprefix("data: "))["choices"]
                    said += choices[0]["delta"].get("content") or ""
                if len(said) > 80 and process.poll() is None:
                    time.sleep(0.5)  # it saves all that is older than a quarter second
                    children = psutil.Process(process.pid).children(recursive=True)
                    process.send_signal(signal.SIGKILL)
                    process.wait()
    assert len(said) > 80
    wait_until_over(children)

    with serve_process(home) as (again, url):
        models = httpx.get(f"{url}/models", headers=headers, timeout=30).json()
        assert models["data"][0]["id"] == "baton/auto"
        again.send_signal(signal.SIGINT)
        assert again.wait(30) == 0

    from baton.history import Store

    async def kept() -> str:
        store = Store(find_paths().database)
        try:
            (conversation,) = await store.conversations()
            _, turn = await store.thread(conversation.id)
            assert turn.status == "lost"
            return turn.text
        finally:
            await store.aclose()

    text = asyncio.run(kept())
    assert text.startswith(said[:60])


def test_a_taken_port_names_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as error:
            run_command("serve", "--port", str(port))
    assert error.value.message.startswith(f"Port {port} is taken")
    assert re.search(r"`--port \d+` is free", error.value.hint)
