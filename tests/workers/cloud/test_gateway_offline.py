"""Offline, and against a hostile machine: the gateway goes nowhere that it wasn't sent."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from baton.core.errors import WorkerError, WorkerUnavailable
from baton.core.messages import RequestSent
from baton.workers.cloud import Gateway
from support.cloud_worker_calls import (
    MODELS,
    Log,
    cloud_worker,
    collect_answer,
    gateways,
    new_gateway,
    request,
    server_worker,
)
from support.fake_cloud import Cloud, Reply
from support.metered_calls import GatewayNetwork
from support.processes import is_over

ANSWER = Reply().text


async def test_offline_nothing_is_started_for_the_cloud(tmp_path: Path) -> None:
    before = gateways()
    gateway = new_gateway(Log(), tmp_path, offline=True)
    with Cloud() as cloud:
        worker = cloud_worker(gateway, cloud, "openai")
        worker.warm()
        gateway.warm()
        heard = await collect_answer(worker)
    assert isinstance(heard.error, WorkerError)
    assert "offline" in str(heard.error)
    assert gateways() == before


@pytest.mark.parametrize(
    "host", ["198.51.100.1", "baton.invalid", "0.0.0.0", "[::ffff:198.51.100.1]", "127.1"]
)
async def test_offline_a_server_must_be_on_this_machine(tmp_path: Path, host: str) -> None:
    gateway = new_gateway(Log(), tmp_path, offline=True)
    heard = await collect_answer(server_worker(gateway, f"http://{host}:9/v1"))
    await gateway.aclose()
    assert isinstance(heard.error, WorkerError)
    assert "Baton is offline" in str(heard.error)
    assert not heard.has(RequestSent)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_offline_a_server_on_this_machine_answers(tmp_path: Path, host: str) -> None:
    gateway = new_gateway(Log(), tmp_path, offline=True)
    with Cloud() as cloud:
        base = cloud.base("server").replace("127.0.0.1", host)
        assert (await collect_answer(server_worker(gateway, base))).text == ANSWER
        assert dict(cloud.calls[0].headers)["host"] == f"{host}:{cloud.port}"
    await gateway.aclose()


async def test_going_offline_ends_what_runs(tmp_path: Path) -> None:
    gateway = new_gateway(Log(), tmp_path)
    with Cloud(reply=Reply(tokens=10_000, rate=20)) as cloud:
        worker = server_worker(gateway, cloud.base("server"))
        stream = worker.stream(request())
        assert isinstance(await anext(stream), RequestSent)
        await anext(stream)
        gateway.offline = True
        with pytest.raises(WorkerUnavailable):
            async for _ in stream:
                pass
        cloud.quiet(2)
        cloud.reply = Reply()
        assert (await collect_answer(worker)).text == ANSWER, "it is on this machine"
    await gateway.aclose()


async def test_hostile_settings_of_the_folder_and_the_environment_are_ignored(
    gateway: Gateway, network: GatewayNetwork
) -> None:
    gateway.record = Log().record
    with Cloud() as cloud:
        for name in MODELS:
            assert (await collect_answer(cloud_worker(gateway, cloud, name))).text == ANSWER
        assert cloud.posts == len(MODELS)
    assert network.hostile.received == []


async def test_a_proxy_that_was_set_is_used_for_remote_addresses(tmp_path: Path) -> None:
    with Cloud() as proxy:
        gateway = new_gateway(Log(), tmp_path, proxy=proxy.url)
        heard = await collect_answer(server_worker(gateway, "http://198.51.100.1/v1"))
        await gateway.aclose()
        assert heard.text == ANSWER
        assert [r.path for r in proxy.calls] == ["http://198.51.100.1/v1/chat/completions"]


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, time\n"
        "from baton.workers.cloud import Gateway\n"
        "Gateway(None, keys_file=pathlib.Path('keys.toml')).warm()\n"
        "print('started', flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=tmp_path)
    with parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        [child] = psutil.Process(parent.pid).children()
        parent.kill()
    end = time.monotonic() + 30
    while not is_over(child):
        assert time.monotonic() < end
        time.sleep(0.05)
