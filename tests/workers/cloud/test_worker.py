"""Remote workers: the real gateway child, the real litellm, and the kit's cloud on loopback."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from baton.core.errors import (
    ConfigError,
    ContextTooLong,
    SecretMissing,
    WorkerError,
    WorkerUnavailable,
)
from baton.core.labels import Label
from baton.core.messages import Card, Declined, Finish, RequestSent, Text
from baton.core.money import BilledTokens
from baton.ipc import supervisor
from baton.platform.secrets import ADDRESS_EXAMPLES, PROVIDERS
from baton.workers.cloud import CloudWorker, Gateway, provider_refusals, unknown_provider
from support.canary import shows
from support.cloud_faults import FREE
from support.cloud_worker_calls import (
    MODELS,
    PRICE,
    RESPONSES,
    Log,
    WorkerAnswer,
    cloud_worker,
    collect_answer,
    gateways,
    new_gateway,
    request,
    server_worker,
)
from support.fake_cloud import Cloud, Fault, Reply
from support.metered_calls import KEYS

KEY_PARTS = ("sk-canary-", "-7f3a9c2e5b8d4160")
"""How every key begins and ends."""

ALL = [*MODELS, "responses", "server"]
ANSWER = Reply().text


class CloudSetup:
    """A gateway and a cloud, with a worker of every kind."""

    def __init__(self, gateway: Gateway, cloud: Cloud) -> None:
        self.cloud = cloud
        self.log = Log()
        self.gateway = gateway
        self.gateway.record = self.log.record
        self.workers = {name: cloud_worker(self.gateway, cloud, name) for name in MODELS}
        self.workers["responses"] = cloud_worker(self.gateway, cloud, "openai", RESPONSES)
        self.workers["server"] = server_worker(self.gateway, cloud.base("server"), PRICE)

    @property
    def child(self) -> psutil.Process:
        [found] = gateways()
        return found


@pytest.fixture
def cloud_setup(gateway: Gateway) -> Iterator[CloudSetup]:
    with Cloud(prices={"": PRICE}) as cloud:
        yield CloudSetup(gateway, cloud)


async def test_a_providers_key_never_goes_to_another_address(cloud_setup: CloudSetup) -> None:
    """Unless the user named its variable for that address."""
    for api_key_env in ("OPENAI_API_KEY", ""):
        worker = cloud_worker(
            cloud_setup.gateway, cloud_setup.cloud, "openai", api_key_env=api_key_env
        )
        assert (await collect_answer(worker)).text == ANSWER
    assert [call.key for call in cloud_setup.cloud.calls] == [KEYS["OPENAI_API_KEY"], ""]


def charge(heard: WorkerAnswer) -> int | None:
    """Return what the ledger would charge; None for all that was held."""
    if heard.usage is None:
        return 0 if heard.has(Declined) or not heard.has(RequestSent) else None
    usage = heard.usage
    return PRICE.cost(
        BilledTokens(
            usage.tokens_in, usage.tokens_out, usage.cached, usage.cache_written, usage.reported
        )
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ALL)
async def test_every_provider_answers_and_counts_as_billed(
    cloud_setup: CloudSetup, name: str
) -> None:
    cloud_setup.cloud.reply = Reply(reasoning=7, cached=3, written=2 if name == "anthropic" else 0)
    heard = await collect_answer(cloud_setup.workers[name])
    cloud_setup.cloud.quiet()
    assert (heard.text, heard.error) == (ANSWER, None)
    [bill], [received] = cloud_setup.cloud.bills, cloud_setup.cloud.calls
    usage = heard.usage
    assert usage is not None
    assert (usage.tokens_in, usage.tokens_out) == (bill.tokens_in, bill.tokens_out)
    assert (usage.cached, usage.cache_written) == (bill.cached, bill.cache_written)
    assert usage.finish is Finish.STOP
    assert charge(heard) == bill.nanos
    assert [(c, body) for c, _, body in cloud_setup.log.rows] == [("call-1", received.body)]
    assert heard.sent == [RequestSent(cloud_setup.log.rows[0][1], len(received.body))]
    caps = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    options = received.json.get("generationConfig", received.json)
    assert [options[cap] for cap in caps if cap in options] == [300]


@pytest.mark.parametrize("name", ALL)
async def test_no_provider_behind_openrouter_may_cost_more_than_is_known(
    cloud_setup: CloudSetup, name: str
) -> None:
    """It asks those who serve a model in turn, and their prices differ."""
    await collect_answer(cloud_setup.workers[name])
    [received] = cloud_setup.cloud.calls
    price = {"max_price": {"prompt": 2.0, "completion": 2.0}}  # the kit's dearest input is $2
    assert received.json.get("provider") == (price if name == "openrouter" else None)


@pytest.mark.parametrize("name", ALL)
async def test_the_key_is_in_one_header_and_nowhere_else(
    cloud_setup: CloudSetup, name: str
) -> None:
    await collect_answer(cloud_setup.workers[name])
    [received] = cloud_setup.cloud.calls
    provider = "openai" if name == "responses" else name
    key = KEYS[PROVIDERS[provider].variable] if name != "server" else ""
    assert received.key == key
    for part in KEY_PARTS:
        assert not shows(part, received.path + received.body.decode())
        assert sum(part in value for _, value in received.headers) == (1 if key else 0)


async def test_a_cap_is_reported(cloud_setup: CloudSetup) -> None:
    cloud_setup.cloud.reply = Reply(tokens=5000)
    heard = await collect_answer(cloud_setup.workers["server"], request(max_tokens=20))
    assert heard.usage is not None
    assert (heard.usage.finish, heard.usage.tokens_out) == (Finish.LENGTH, 20)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (Fault.UNAUTHORISED, SecretMissing, "refused the key"),
        (Fault.UNAUTHORISED, SecretMissing, "`baton keys set openai`"),
        (Fault.RATE_LIMITED, WorkerUnavailable, "Try again in 7 seconds"),
        (Fault.NOT_FOUND, WorkerError, "The kit refuses with 404"),
        (Fault.TOO_LONG, ContextTooLong, "hold 128,000"),
        (Fault.SERVER_ERROR, WorkerUnavailable, "failed (HTTP 500)"),
        (Fault.SERVER_ERROR, WorkerUnavailable, "Nothing was charged. Try again later."),
        (Fault.CUT_MIDWAY, WorkerUnavailable, "What it had written is kept"),
        (Fault.BARE_ERROR, WorkerUnavailable, "failed (HTTP 500)."),
        (Fault.ERROR_FIRST, WorkerUnavailable, "Overloaded before the first word). Nothing was"),
        (Fault.GZIP, WorkerError, "sends a compressed answer"),
        (Fault.ECHO_KEY, SecretMissing, "[key]"),
        (Fault.REDIRECT, WorkerError, "Nothing was sent to its new address"),
    ],
)
async def test_errors_are_reported(
    cloud_setup: CloudSetup, fault: Fault, kind: type, said: str
) -> None:
    cloud_setup.cloud.next(fault)
    heard = await collect_answer(cloud_setup.workers["openai"])
    assert type(heard.error) is kind
    assert said in str(heard.error)
    assert heard.has(Declined) == (fault in FREE)


@pytest.mark.parametrize(
    ("provider", "model", "said", "successor"),
    [
        ("openai", "gpt-4o-2024-05-13", "The model `gpt-4o-2024-05-13` has been deprecated.",
         "openai/gpt-4o:"),
        ("openai", "gpt-3.9", "The model `gpt-3.9` was retired; use gpt-4o-mini instead.",
         "openai/gpt-4o-mini:"),
        ("openai", "gpt-3.9", "The model `gpt-3.9` does not exist.", ""),
        ("openai", "gpt-3.9", "The model is no longer there: gpt-4o or gpt-4o-mini are.", ""),
        ("anthropic", "claude-haiku-4-5-20251001", "model: claude-haiku-4-5-20251001",
         "anthropic/claude-haiku-4-5:"),
    ],
)  # fmt: skip
async def test_a_withdrawn_model_is_named_with_its_successor(
    cloud_setup: CloudSetup, provider: str, model: str, said: str, successor: str
) -> None:
    cloud = cloud_setup.cloud
    cloud.manner = replace(cloud.manner, not_found=said)
    cloud.next(Fault.NOT_FOUND)
    worker = cloud_worker(cloud_setup.gateway, cloud, provider, f"{provider}/{model}")
    heard = await collect_answer(worker)
    assert type(heard.error) is WorkerError
    assert f"doesn't offer {provider}/{model} (any more): {said}" in heard.error.message
    expected = f"Its successor is {successor}" if successor else "`baton budget prices openai`"
    assert expected in heard.error.hint
    assert "Nothing was charged." in heard.error.hint


async def test_a_free_server_that_counts_nothing_is_not_a_failure(cloud_setup: CloudSetup) -> None:
    free = server_worker(cloud_setup.gateway, cloud_setup.cloud.base("server"))
    cloud_setup.cloud.next(Fault.NO_USAGE)
    heard = await collect_answer(free)
    assert (heard.text, heard.error) == (ANSWER, None)
    assert heard.usage is not None


async def test_many_calls_at_once_keep_apart(cloud_setup: CloudSetup) -> None:
    cloud_setup.cloud.reply = Reply(rate=500)
    names = [*ALL, *ALL]
    asked = [request(f"Number {i}", call=f"call-{i}") for i in range(len(names))]
    calls = [collect_answer(cloud_setup.workers[n], a) for n, a in zip(names, asked, strict=True)]
    for heard in await asyncio.gather(*calls):
        assert (heard.text, heard.error) == (ANSWER, None)
    cloud_setup.cloud.quiet()
    logged = {call: body for call, _, body in cloud_setup.log.rows}
    assert sorted(logged.values()) == sorted(r.body for r in cloud_setup.cloud.calls)
    assert all(b"Number %s" % c[5:].encode() in body for c, body in logged.items())


@pytest.mark.parametrize("name", ["openai", "server"])
async def test_closing_stops_the_call_outside(cloud_setup: CloudSetup, name: str) -> None:
    cloud_setup.cloud.reply = Reply(tokens=10_000, rate=20)
    child = cloud_setup.child.pid
    async with asyncio.timeout(60):  # all of it would take eight minutes
        async with aclosing(cloud_setup.workers[name].stream(request())) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Text):
                    break
        await asyncio.to_thread(cloud_setup.cloud.quiet)
    [bill] = cloud_setup.cloud.bills
    assert not bill.ended
    cloud_setup.cloud.reply = Reply()
    assert (await collect_answer(cloud_setup.workers[name])).text == ANSWER
    assert cloud_setup.child.pid == child, "the call was stopped, not the gateway"


async def test_what_cannot_be_recorded_is_not_sent(cloud_setup: CloudSetup) -> None:
    async def refuse(call: str, destination: str, body: bytes) -> None:
        raise WorkerError("The disk is full.")

    cloud_setup.gateway.record, record = refuse, cloud_setup.gateway.record
    try:
        heard = await collect_answer(cloud_setup.workers["server"])
    finally:
        cloud_setup.gateway.record = record
    assert heard.chunks == []
    assert "disk is full" in str(heard.error)
    assert cloud_setup.cloud.posts == 0


@pytest.mark.parametrize("name", ["openai", "server"])
async def test_nothing_is_sent_while_it_is_being_recorded(
    cloud_setup: CloudSetup, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    record, posts = cloud_setup.gateway.record, []

    async def record_slowly(call: str, destination: str, body: bytes) -> None:
        await asyncio.sleep(0.5)
        posts.append(cloud_setup.cloud.posts)
        await record(call, destination, body)

    monkeypatch.setattr(cloud_setup.gateway, "record", record_slowly)
    assert (await collect_answer(cloud_setup.workers[name])).text == ANSWER
    assert posts == [0]
    assert cloud_setup.cloud.posts == 1


async def test_what_is_not_taken_is_not_sent(cloud_setup: CloudSetup) -> None:
    async with aclosing(cloud_setup.workers["openai"].stream(request())) as chunks:
        assert isinstance(await anext(chunks), RequestSent)
    assert (await collect_answer(cloud_setup.workers["server"])).text == ANSWER
    assert [r.provider for r in cloud_setup.cloud.calls] == ["server"]


def libraries(process: psutil.Process) -> set[str]:
    """Return the packages whose native parts a process has loaded."""
    return {Path(m.path).parts[-2] for m in process.memory_maps() if m.path.endswith(".so")}


async def test_the_child_knows_its_own_keys_only(cloud_setup: CloudSetup, tmp_path: Path) -> None:
    await collect_answer(cloud_setup.workers["server"])
    for part in KEY_PARTS:
        assert not shows(part, " ".join(cloud_setup.child.cmdline()))
    assert cloud_setup.child.cwd() == "/"
    others = {"HF_TOKEN": "canary", "BATON_BUDGET__DAY": "canary", "MISTRAL_API_KEY": "canary"}
    environ = {**os.environ, **others, "LAB_KEY": "sk-lab-key-0123456789"}
    gateway = Gateway(Log().record, keys_file=tmp_path / "keys.toml", environ=environ)
    before = {process.pid for process in psutil.Process().children()}
    heard = await collect_answer(
        server_worker(gateway, cloud_setup.cloud.base("server"), PRICE, api_key_env="LAB_KEY")
    )
    [child] = [p for p in psutil.Process().children() if p.pid not in before]
    known = child.environ()
    without = libraries(child)
    await gateway.aclose()
    assert heard.text == ANSWER
    assert cloud_setup.cloud.calls[-1].key == "sk-lab-key-0123456789"
    assert "canary" not in str(known)
    await collect_answer(cloud_setup.workers["openai"])
    assert libraries(cloud_setup.child) - without >= {"tiktoken"}, (
        "litellm is there when it is needed"
    )


async def test_a_missing_key_is_reported_and_nothing_is_sent(tmp_path: Path) -> None:
    gateway = new_gateway(Log(), tmp_path, environ=dict(os.environ))
    with Cloud() as cloud:
        heard = await collect_answer(cloud_worker(gateway, cloud, "openai"))
        lab = await collect_answer(
            server_worker(gateway, cloud.base("server"), api_key_env="LAB_KEY")
        )
        assert cloud.received == []
    await gateway.aclose()
    assert isinstance(heard.error, SecretMissing)
    assert "`baton keys set openai`" in str(heard.error)
    assert heard.chunks == []
    assert isinstance(lab.error, SecretMissing)


async def test_an_absent_server_costs_nothing(alone: Gateway) -> None:
    heard = await collect_answer(server_worker(alone, "http://127.0.0.1:9/v1", PRICE))
    assert isinstance(heard.error, WorkerUnavailable)
    assert "can't be reached" in str(heard.error)
    assert heard.has(Declined)


@pytest.mark.parametrize("url", ["", "not an address", "ftp://127.0.0.1/", "http://"])
async def test_an_address_that_is_none_is_reported(alone: Gateway, url: str) -> None:
    heard = await collect_answer(server_worker(alone, url or "x"))
    assert isinstance(heard.error, ConfigError)


@pytest.mark.parametrize("provider", ADDRESS_EXAMPLES)
async def test_a_provider_without_one_address_names_what_it_needs(
    alone: Gateway, provider: str
) -> None:
    card = Card("x", "cloud", "x", Label.CLOUD, provider=provider, model=f"{provider}/m")
    heard = await collect_answer(CloudWorker(card, alone))
    assert isinstance(heard.error, ConfigError)
    assert "has no address" in heard.error.message
    assert f'base_url = "{ADDRESS_EXAMPLES[provider]}"' in heard.error.hint
    assert not heard.has(RequestSent)


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        ("heroku", "it has no dialect of its own"),
        ("sagemaker", "it wants a login"),
        ("nobody", "There is no provider"),
    ],
)
async def test_a_provider_that_is_not_asked_is_named(
    alone: Gateway, provider: str, reason: str
) -> None:
    card = Card("x", "cloud", "x", Label.CLOUD, provider=provider, model=f"{provider}/m")
    heard = await collect_answer(CloudWorker(card, alone))
    assert isinstance(heard.error, ConfigError)
    assert reason in heard.error.message
    assert heard.error.message.endswith("Nothing was sent.")
    assert 'kind "server"' in heard.error.hint


def test_every_refusal_says_what_to_do_instead() -> None:
    for name, (why, instead) in provider_refusals().items():
        assert not why.endswith("."), name
        assert instead[0].isupper() or instead[0] == "`", name
        assert instead.endswith("."), name
    assert "detect --add" in unknown_provider("ollama").hint
    assert "https://api.deepinfra.com/v1/openai" in unknown_provider("deepinfra").hint


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("costs", [False, True])
async def test_a_dead_gateway_is_reported_and_comes_back(
    alone: Gateway, monkeypatch: pytest.MonkeyPatch, costs: bool
) -> None:
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", (0.1, 0.1, 0.1))
    with Cloud(reply=Reply(tokens=10_000, rate=20)) as cloud:
        price = {"price": PRICE} if costs else {}
        worker = server_worker(alone, cloud.base("server"), **price)
        async with aclosing(worker.stream(request())) as stream:
            while not isinstance(await anext(stream), Text):
                pass
            max(gateways(), key=lambda process: process.create_time()).kill()
            with pytest.raises(WorkerUnavailable) as died:
                [chunk async for chunk in stream]
        assert died.value.message.startswith("The connection to ")
        assert "It was killed" in died.value.message
        assert died.value.message.endswith("What was written is kept.")
        assert ("stays charged" in died.value.hint) is costs
        cloud.reply = Reply()
        assert (await collect_answer(worker)).text == ANSWER


@pytest.mark.parametrize(
    ("provider", "model", "wanted"),
    [
        ("openai", "openai/gpt-5-mini", {"reasoning_effort": "low"}),
        ("openai", "openai/gpt-4o-mini", {}),
        ("openai", "openai/nobody-knows-it", {}),
        ("openai", "openai/gpt-5.5-pro", {"reasoning": {"effort": "medium"}}),
        ("openrouter", "openrouter/openai/gpt-5-mini", {"reasoning_effort": "low"}),
        ("mistral", "mistral/mistral-small-latest", {"reasoning_effort": "none"}),
        ("groq", "groq/openai/gpt-oss-20b", {"reasoning_effort": "low"}),
        ("anthropic", "anthropic/claude-haiku-4-5", {}),
    ],
)
async def test_models_are_asked_to_think_little(
    cloud_setup: CloudSetup, provider: str, model: str, wanted: dict[str, object]
) -> None:
    worker = cloud_worker(cloud_setup.gateway, cloud_setup.cloud, provider, model)
    heard = await collect_answer(worker, request(max_tokens=3000, temperature=0.3))
    assert (heard.text, heard.error) == (ANSWER, None)
    body = cloud_setup.cloud.calls[0].json
    assert {k: v for k, v in body.items() if "reasoning" in k or "think" in k} == wanted


@pytest.mark.parametrize(
    ("base_url", "proxies", "address"),
    [
        ("", {}, "api.openai.com"),
        ("", {"HTTPS_PROXY": "http://me:secret@proxy:3128"}, "api.openai.com through proxy:3128"),
        ("http://127.0.0.1:9/v1", {"HTTP_PROXY": "http://proxy:3128"}, "127.0.0.1:9"),
        ("unknown", {}, ""),
    ],
)
def test_a_card_names_where_the_bytes_go(
    tmp_path: Path, base_url: str, proxies: dict[str, str], address: str
) -> None:
    """The offer shows it before anything leaves; the egress log says the same after."""

    async def record(call: str, destination: str, body: bytes) -> None:
        raise AssertionError("nothing is sent")

    gateway = Gateway(record, keys_file=tmp_path / "keys.toml", environ=proxies)
    card = Card("gpt", "cloud", "gpt", Label.CLOUD, provider="openai", model="openai/gpt-5-nano")
    assert CloudWorker(card, gateway, base_url=base_url).card.address == address


# What it needs


async def test_a_worker_without_a_key_says_so_and_nothing_is_sent(tmp_path: Path) -> None:
    """The gateway looks for the key; the front never gets it."""
    card = Card("gpt", "cloud", "gpt", Label.CLOUD, price=PRICE, provider="openai", remote=True)
    for keys, fault in (({}, "There is no key for gpt."), (KEYS, "")):
        gateway = new_gateway(Log(), tmp_path, environ={**os.environ, "OPENAI_API_KEY": "", **keys})
        assert await CloudWorker(card, gateway).fault() == fault
        await gateway.aclose()


async def test_a_worker_whose_server_is_down_says_so(tmp_path: Path) -> None:
    gateway, before = new_gateway(Log(), tmp_path), gateways()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        assert await server_worker(gateway, there).fault() == ""
    assert "nothing listens" in await server_worker(gateway, there).fault()
    assert gateways() == before, "no process is started for that"
    await gateway.aclose()
