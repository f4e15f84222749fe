"""Each address is served however clients write it, and each answer has an id that commands take."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import psutil
import pytest
from click.testing import CliRunner

from baton.cli.root import baton as command
from baton.core.errors import ConfigError
from baton.core.messages import Card
from baton.core.money import Price, Rates
from baton.platform.paths import find_paths
from baton.platform.settings import ServeSettings, Settings
from baton.server import request_runner
from baton.server.access import Access, allowed_hosts, allowed_name, allowed_origin, read_tokens
from baton.server.api_errors import ApiError
from baton.server.dialects import canonical_path
from baton.workers.scripted_worker import ScriptedWorker
from support.serve_process import run_command, serve_process
from support.served_baton import SMALL, Served, served_baton

HELLO: Any = [{"role": "user", "content": "Hello there"}]
CHAT = {"model": "baton/mini", "messages": HELLO}
MESSAGES = {"model": "baton/mini", "messages": HELLO, "max_tokens": 50}
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": CHAT,
    "responses": {"model": "baton/mini", "input": "Hello there"},
    "messages": MESSAGES,
}
WAYS = ["/{}", "/v1/{}", "/v1/v1/{}", "/v1/v1/v1/{}/", "//v1//{}", "/v1/{}/", "/v1/{}//", "/{}/"]


def root_of(served: Served) -> str:
    return served.url.removesuffix("/v1")


def at_root(served: Served) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {served.token}"}
    return httpx.AsyncClient(base_url=root_of(served), headers=headers)


@pytest.mark.parametrize("way", WAYS)
async def test_an_address_is_served_however_it_is_written(tmp_path: Path, way: str) -> None:
    async with served_baton(tmp_path) as served, at_root(served) as client:
        for path, body in BODIES.items():
            answer = await client.post(way.format(path), json=body)
            assert answer.status_code == 200, answer.text
        listed = await client.get(way.format("models"))
        assert listed.json()["data"][0]["id"] == "baton/auto"
        one = await client.get(way.format("models/baton/auto"))
        assert one.json()["id"] == "baton/auto"
        quoted = await client.get(way.format("models/baton%2Fauto"))
        assert quoted.json()["id"] == "baton/auto"


@pytest.mark.parametrize("base", ["", "/v1/v1", "/v1/", "//v1"])
async def test_the_official_clients_work_with_any_of_them(tmp_path: Path, base: str) -> None:
    async with served_baton(tmp_path) as served:
        key = served.token
        async with openai.AsyncOpenAI(base_url=root_of(served) + base, api_key=key) as client:
            said = await client.chat.completions.create(**CHAT)
            assert said.choices[0].message.content == "Hello there "
        async with anthropic.AsyncAnthropic(base_url=root_of(served) + base, api_key=key) as claude:
            message = await claude.messages.create(**MESSAGES)
            assert message.content[0].type == "text"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/openai/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/chat/completions", "/v1/chat/completions"),
        ("/anthropic/v1/messages", "/v1/messages"),
        ("/api/tags", ""),
        ("/v1", ""),
    ],
)
async def test_a_wrong_address_names_the_right_one(tmp_path: Path, path: str, meant: str) -> None:
    async with served_baton(tmp_path) as served, at_root(served) as client:
        answer = await client.post(path, json=CHAT)
        assert answer.status_code == 404
        error = answer.json()["error"]
        assert error["code"] == "not_found"
        assert f"({served.url})" in error["message"]
        assert f"({root_of(served)})" in error["message"]
        assert (f"Did you mean {meant}?" in error["message"]) == bool(meant)


async def test_a_right_address_at_which_there_is_nothing_is_said_so(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, at_root(served) as client:
        for path in ("/v1/images/generations", "/v1/moderations", "/v1/messages/batches"):
            answer = await client.post(path, json=CHAT)
            assert answer.status_code == 404
            assert "Served are: /v1/chat/completions, " in answer.json()["error"]["message"]


async def test_another_method_is_named_as_that(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        for method, path, allowed in [
            ("GET", "/chat/completions", "POST"),
            ("DELETE", "/messages", "POST"),
            ("POST", "/models", "GET, HEAD"),
        ]:
            answer = await client.request(method, path)
            assert answer.status_code == 405
            assert sorted(answer.headers["allow"].split(", ")) == allowed.split(", ")
            error = answer.json()["error"]
            if path != "/messages":
                assert error["code"] == "method_not_allowed"
            assert answer.headers["allow"] in error["message"]


@pytest.mark.parametrize("path", ["/v1/messages", "/messages/", "/v1/messages/batches", "/v1/none"])
@pytest.mark.parametrize("token", [True, False])
async def test_clients_of_anthropic_read_errors_in_their_shape(
    tmp_path: Path, path: str, token: bool
) -> None:
    async with served_baton(tmp_path) as served:
        headers = {"x-api-key": served.token} if token else {}
        if "messages" not in path:
            headers["anthropic-version"] = "2023-06-01"
        async with httpx.AsyncClient(base_url=root_of(served), headers=headers) as client:
            for method in "GET", "POST":
                answer = await client.request(method, path, json={"model": 5})
                assert answer.status_code in ((400, 404, 405) if token else (401,))
                assert answer.json()["type"] == "error"
                assert answer.json()["error"].keys() == {"type", "message"}


async def test_an_unknown_model_is_said_in_the_clients_shape(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        claude = {"anthropic-version": "2023-06-01"}
        assert (await client.get("/models/none", headers=claude)).json()["type"] == "error"
        assert "code" in (await client.get("/models/none")).json()["error"]


async def test_the_root_says_without_a_token_that_baton_runs_and_no_more(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, httpx.AsyncClient() as client:
        head = await client.head(f"{root_of(served)}/")
        assert (head.status_code, head.content) == (200, b"")
        shown = await client.get(root_of(served))
        assert shown.json().keys() == {"status", "name", "version"}
        for path in "/v1", "//v1/models", "/health/x", "/v1/health":
            assert (await client.get(f"{root_of(served)}{path}")).status_code == 401
        rebound = await client.head(f"{root_of(served)}/", headers={"host": "evil.example"})
        assert rebound.status_code == 421


def test_paths_that_mean_nothing_stay_as_they_are() -> None:
    assert canonical_path("/") == "/"
    assert canonical_path("") == "/"
    assert canonical_path("/v1") == "/v1"
    assert canonical_path("/health/") == "/health"
    assert canonical_path("/v1/health") == "/v1/health"
    assert canonical_path("/../v1/models") == "/../v1/models"


# Request ids


async def test_each_answer_has_an_id_which_is_its_runs(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        seen = set()
        for path, body in BODIES.items():
            for stream in False, True:
                answer = await client.post(f"/{path}", json={**body, "stream": stream})
                id = answer.headers["x-request-id"]
                assert id == answer.headers["request-id"]
                assert re.fullmatch("req_[0-9a-f]{12}", id)
                assert id.removeprefix("req_") in answer.text
                seen.add(id.removeprefix("req_"))
        assert {run.id for run in served.runner.served} == seen
        for path in "/models", "/none", "/responses/resp_x":
            other = await client.get(path)
            assert re.fullmatch("req_[0-9a-f]{12}", other.headers["request-id"])
        refused = await client.get("/models", headers={"authorization": "Bearer wrong"})
        assert refused.headers["x-request-id"].startswith("req_")
        foreign = await client.get("/models", headers={"origin": "http://evil.example"})
        assert foreign.headers["x-request-id"].startswith("req_")


async def test_the_official_clients_know_the_ids(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served:
        key = served.token
        async with openai.AsyncOpenAI(base_url=served.url, api_key=key, max_retries=0) as client:
            said = await client.chat.completions.create(**CHAT)
            assert said._request_id == said.id.replace("chatcmpl-", "req_")
            with pytest.raises(openai.NotFoundError) as refused:
                await client.models.retrieve("none")
            assert refused.value.request_id is not None
        base = root_of(served)
        async with anthropic.AsyncAnthropic(base_url=base, api_key=key, max_retries=0) as claude:
            message = await claude.messages.create(**MESSAGES)
            assert message._request_id == message.id.replace("msg_", "req_")


async def test_one_too_many_hears_when_to_ask_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_runner, "MAX_RUNS", 0)
    async with served_baton(tmp_path) as served, served.client() as client:
        answer = await client.post("/chat/completions", json=CHAT)
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0


async def serve_two(home: Path) -> tuple[str, str]:
    """Return the id of a request that was answered, and of one that was refused."""
    async with served_baton(home) as served, served.client() as client:
        answered = await client.post("/chat/completions", json=CHAT)
        refused = await client.post("/chat/completions", json={**CHAT, "model": "none"})
        return answered.headers["request-id"], refused.headers["request-id"]


@pytest.fixture
def two_requests(home: Path) -> tuple[str, str]:
    return asyncio.run(serve_two(home))


@pytest.mark.parametrize("name", ["chatcmpl-", "cmpl-", "resp_", "msg_", "req_", ""])
def test_commands_take_what_programs_log(two_requests: tuple[str, str], name: str) -> None:
    run = two_requests[0].removeprefix("req_")
    for words in ["why"], ["trace"]:
        shown = run_command(*words, name + run, "--json")
        assert f'"run_id": "{run}"' in shown.output or f'"run_id":"{run}"' in shown.output
    resumed = CliRunner().invoke(command, ["resume", name + run])
    assert "no run" not in f"{resumed.exception}"


def test_of_a_refused_request_why_says_that_it_had_no_run(two_requests: tuple[str, str]) -> None:
    with pytest.raises(ConfigError) as error:
        run_command("why", two_requests[1])
    said = f"The request {two_requests[1]} has no run here: it was refused. The log says: "
    assert error.value.message.startswith(said)
    assert "404 There is no model" in error.value.message
    with pytest.raises(ConfigError, match=r"msg_0123456789ab has no run here: .*isn't kept"):
        run_command("trace", "msg_0123456789ab")


# Other names of models

ALIASES = {"claude-*": "baton/mini", "gpt-4o-mini": "small", "paid-*": "paid", "lost": "gone"}


ALIASED = Settings(serve=ServeSettings(aliases=ALIASES))


async def test_an_alias_stands_for_a_model_and_is_echoed(tmp_path: Path) -> None:
    async with (
        served_baton(tmp_path, [ScriptedWorker(card=SMALL)], settings=ALIASED) as served,
        served.client() as client,
    ):
        for path, body in BODIES.items():
            for model in "claude-haiku-4-5", "gpt-4o-mini":
                answer = await client.post(f"/{path}", json={**body, "model": model})
                assert answer.json()["model"] == model, answer.text
                streamed = await client.post(
                    f"/{path}", json={**body, "model": model, "stream": True}
                )
                assert f'"model":"{model}"' in streamed.text
        assert (await client.get("/models/claude-x")).json()["id"] == "claude-x"
        ids = [model["id"] for model in (await client.get("/models")).json()["data"]]
        assert "gpt-4o-mini" in ids
        assert not {"claude-*", "lost", "paid-*"} & set(ids)


async def test_an_unknown_name_names_the_setting(tmp_path: Path) -> None:
    async with served_baton(tmp_path, settings=ALIASED) as served, served.client() as client:
        for model, said in [
            ("Claude-x", "There is no model 'Claude-x'."),
            ("x" * 200, "There is no model 'xxx"),
            ("lost", "There is no model 'gone', to which the alias of 'lost' leads."),
        ]:
            answer = await client.post("/chat/completions", json={**CHAT, "model": model})
            assert answer.status_code == 404
            assert answer.json()["error"]["code"] == "model_not_found"
            assert said in answer.json()["error"]["message"]
            assert "serve.aliases" in answer.json()["error"]["message"]


async def test_an_alias_allows_nothing_that_its_model_does_not(tmp_path: Path) -> None:
    price = Price(Rates(1000, 1000, 0, 0), source="test")
    paid = ScriptedWorker(card=Card("paid", "cloud", "Paid", price=price))
    own = ScriptedWorker(card=Card("claude-own", "local", "Own", context=8192))
    workers = [ScriptedWorker(card=SMALL), paid, own]
    async with (
        served_baton(tmp_path, workers, settings=ALIASED) as served,
        served.client() as client,
    ):
        answer = await client.post("/chat/completions", json={**CHAT, "model": "paid-model"})
        assert answer.status_code == 403
        assert paid.requests == []
        await client.post("/chat/completions", json={**CHAT, "model": "claude-own"})
        assert len(own.requests) == 1, "a worker's own name comes first"


# Names and addresses of the server, and origins


ASK = """
import http.client, json, sys
statuses = []
for host in sys.argv[4:]:
    connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=20)
    headers = {"host": host, "authorization": "Bearer " + sys.argv[3]}
    connection.request("GET", "/v1/models", headers=headers)
    statuses.append(connection.getresponse().status)
print(json.dumps(statuses))
"""


async def ask_with_hosts(address: str, served: Served, hosts: list[str]) -> dict[str, int]:
    """Return the statuses of requests to an address under these names, as another process asks."""
    arguments = [address, str(served.port), served.token, *hosts]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ASK, *arguments, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    return dict(zip(hosts, json.loads(printed), strict=True))


@pytest.mark.parametrize(
    ("wildcard", "family"), [("0.0.0.0", socket.AF_INET), ("::", socket.AF_INET6)]
)
async def test_a_wildcard_answers_at_the_machines_own_addresses_only(
    tmp_path: Path, wildcard: str, family: int
) -> None:
    cards = [one for card in psutil.net_if_addrs().values() for one in card]
    addresses = [one.address for one in cards if one.family == family]
    async with served_baton(tmp_path, hosts=(wildcard,)) as served:
        port = served.port
        for address in addresses:
            plain = address.partition("%")[0]
            shown = f"[{plain}]" if ":" in plain else plain
            others = [
                f"10.9.8.7:{port}",
                f"evil.example:{port}",
                f"{shown}:1",
                shown,
                f"{socket.gethostname()}:{port}",
                f"[::ffff:127.0.0.1]:{port}",
                f"{plain}.nip.io:{port}",
            ]
            statuses = await ask_with_hosts(address, served, [f"{shown}:{port}", *others])
            assert list(statuses.values()) == [200] + [421] * len(others), statuses


def test_the_zone_of_an_address_is_each_sides_own() -> None:
    access = Access(allowed_hosts(80, ["::"]), {}, is_wildcard=True)
    local = ("fe80::1%eth0", 80)
    for host in "[fe80::1]:80", "[fe80::1%25en0]:80", "[fe80::1%en0]:80", "[FE80:0::1]:80":
        access.check_source({"host": host}, local)
    for host in "fe80::1:80", "[fe80::2]:80", "[fe80::1]:81", "[fe80::1]", "[fe80::1]:80, x":
        with pytest.raises(ApiError):
            access.check_source({"host": host}, local)
    with pytest.raises(ApiError):
        Access(allowed_hosts(80), {}).check_source({"host": "[fe80::1]:80"}, local)


async def test_a_named_host_is_answered_with_any_port(tmp_path: Path) -> None:
    settings = Settings(serve=ServeSettings(allow_hosts=("Baton.LAN", "host.docker.internal")))
    async with served_baton(tmp_path, settings=settings) as served:
        wanted = {
            f"baton.lan:{served.port}": 200,
            "baton.lan": 200,
            "BATON.lan:9000": 200,
            "host.docker.internal:8765": 200,
            "evil.baton.lan": 421,
            "baton.lan.evil.example": 421,
            "baton.lan:x": 421,
            "docker.internal": 421,
        }
        assert await ask_with_hosts("127.0.0.1", served, list(wanted)) == wanted
        async with served.client() as client:
            shown = await client.get("/models", headers={"host": "evil.example"})
        assert "--allow-host" in shown.json()["error"]["message"]


ORIGINS = ["null", "app://obsidian.md", "tauri://localhost", "http://localhost:3000"]
ASKS = {"access-control-request-method": "POST"}


async def test_without_the_users_word_no_page_asks(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, httpx.AsyncClient(base_url=served.url) as client:
        for origin in ORIGINS:
            refused = await client.options("/chat/completions", headers={"origin": origin, **ASKS})
            assert refused.status_code == 403
            assert "--allow-origin" in refused.json()["error"]["message"]
            assert not [name for name in refused.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", ORIGINS)
async def test_pages_of_an_allowed_origin_ask_with_a_token(tmp_path: Path, origin: str) -> None:
    settings = Settings(serve=ServeSettings(allow_origins=(origin,)))
    async with (
        served_baton(tmp_path, settings=settings) as served,
        httpx.AsyncClient(base_url=served.url) as client,
    ):
        wanted = "authorization,content-type,x-stainless-os"
        asks = {"origin": origin, **ASKS, "access-control-request-headers": wanted}
        asks["access-control-request-private-network"] = "true"
        preflight = await client.options("/chat/completions", headers=asks)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == origin
        assert preflight.headers["access-control-allow-headers"] == wanted
        assert preflight.headers["access-control-allow-private-network"] == "true"
        assert "access-control-allow-credentials" not in preflight.headers

        page = {"origin": origin, "sec-fetch-site": "cross-site"}
        without = await client.post("/chat/completions", json=CHAT, headers=page)
        assert without.status_code == 401
        assert without.headers["access-control-allow-origin"] == origin
        page["authorization"] = f"Bearer {served.token}"
        for stream in False, True:
            body = {**CHAT, "stream": stream}
            answer = await client.post("/chat/completions", json=body, headers=page)
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == origin
            assert "x-request-id" in answer.headers["access-control-expose-headers"]
        for other in "http://evil.example", f"{origin}.evil.example", f"{origin}, {origin}":
            refused = await client.post(
                "/chat/completions", json=CHAT, headers={**page, "origin": other}
            )
            assert refused.status_code == 403
            assert "access-control-allow-origin" not in refused.headers
        rebound = {**page, "host": "evil.example"}
        refused = await client.post("/chat/completions", json=CHAT, headers=rebound)
        assert refused.status_code == 421


@pytest.mark.parametrize("text", ["", "*", "http://baton.lan", "a b", "a/b", "a:80", "a,b", "-"])
def test_what_is_not_a_host_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="isn't a host name"):
        allowed_name(text)


@pytest.mark.parametrize(
    "text", ["", "*", "chat.example", "http://a/b", "http://a b", "http://*.a"]
)
def test_what_is_not_an_origin_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="isn't an origin"):
        allowed_origin(text)


def test_the_command_takes_names_and_origins_besides_those_of_the_settings(home: Path) -> None:
    paths = find_paths()
    paths.config.mkdir(parents=True)
    paths.config_file.write_text(
        '[serve]\nallow_hosts = ["lab.lan"]\n[serve.aliases]\n"claude-*" = "baton/mini"\n'
    )
    shown = run_command("config", "show").output
    assert '"claude-*" = "baton/mini"' in shown
    words = ["--allow-host", "baton.lan", "--allow-host", "[fd00::9]"]
    with serve_process(home, *words, "--allow-origin", "null") as (_, url):
        token = read_tokens(paths.server_tokens).free
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=headers) as client:
            for host in "lab.lan", "baton.lan:1", "[fd00::9]:80":
                assert client.get("/models", headers={"host": host}).status_code == 200
            assert client.get("/models", headers={"host": "other.lan"}).status_code == 421
            assert client.get("/models", headers={"origin": "null"}).status_code == 200
            assert client.get("/models/claude-x").json()["id"] == "claude-x"


def test_the_command_refuses_what_is_not_a_name() -> None:
    for option, said in ("--allow-host", "a host name"), ("--allow-origin", "an origin"):
        with pytest.raises(ConfigError, match=rf"'\*' isn't {said}"):
            run_command("serve", "--port", "0", option, "*")


async def test_a_wrong_name_in_the_settings_is_said_before_anything_listens(tmp_path: Path) -> None:
    settings = Settings(serve=ServeSettings(allow_hosts=("*",)))
    with pytest.raises(ConfigError, match="'\\*' isn't a host name"):
        async with served_baton(tmp_path, settings=settings):
            pass
