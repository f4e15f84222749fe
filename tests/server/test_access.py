"""Only this machine's own programs with a token get in: no page, no other name, no guess."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import httpx
import pytest

from baton.core.errors import ConfigError
from baton.core.messages import Card
from baton.core.money import Price, Rates
from baton.server.access import Access, Grant, allowed_hosts, hash_token, read_tokens
from baton.server.api_errors import ApiError
from baton.workers.scripted_worker import ScriptedWorker
from support.serve_process import run_command
from support.served_baton import served_baton

PORT = 8765
GOOD_HOSTS = ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}", "LOCALHOST:{port}"]
BAD_HOSTS = [
    "",
    "127.0.0.1",
    "localhost",
    "127.0.0.1:80",
    "localhost:1",
    "localhost.:{port}",
    "127.1:{port}",
    "127.0.0.2:{port}",
    "2130706433:{port}",
    "0x7f000001:{port}",
    "0.0.0.0:{port}",
    "[::]:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "[0:0:0:0:0:0:0:1]:{port}",
    "::1:{port}",
    "localhost:{port}:1",
    "localhost:0{port}",
    "localhost:+{port}",
    "localhost:{port}/",
    "localhost:{port}#",
    "localhost:{port}@evil.example",
    "evil.example:{port}",
    "evil.example",
    "localhost.evil.example:{port}",
    "127.0.0.1.nip.io:{port}",
    "user@localhost:{port}",
    "http://localhost:{port}",
    "localhost:{port},evil.example",
    "localhost:{port} evil.example",
    "evil.example, localhost:{port}",
    "xn--lcalhost-54a:{port}",
    "localhost%00:{port}",
    "localhost%2e:{port}",
    "*",
    "null",
    "about:blank",
]
GOOD_ORIGINS: list[str | None] = [None, "http://{host}"]
BAD_ORIGINS: list[str | None] = [
    "",
    "null",
    "*",
    "https://{host}",
    "http://{host}/",
    "http://{host}.evil.example",
    "http://evil.example",
    "https://evil.example:{port}",
    "http://localhost",
    "http://localhost:1",
    "http://127.0.0.1:80",
    "file://",
    "chrome-extension://abcdef",
    "moz-extension://abcdef",
    "http://{host}, http://evil.example",
    "http://user@{host}",
    "HTTP://EVIL.EXAMPLE",
    "data:",
]
TOKENS = ["right", "wrong", "none"]
METHODS = ["GET", "POST", "DELETE"]
CELLS = list(itertools.product(GOOD_HOSTS + BAD_HOSTS, GOOD_ORIGINS + BAD_ORIGINS, TOKENS, METHODS))


def headers_of(host: str, origin: str | None, token: str, right: str, port: int) -> dict[str, str]:
    host = host.format(port=port)
    headers = {"host": host}
    if origin is not None:
        headers["origin"] = origin.format(host=host.lower(), port=port)
    if token != "none":
        headers["authorization"] = f"Bearer {right if token == 'right' else right[:-1] + '!'}"
    return headers


def expected(host: str, origin: str | None, token: str) -> int:
    if host not in GOOD_HOSTS:
        return 421
    if origin not in GOOD_ORIGINS:
        return 403
    return 200 if token == "right" else 401


def test_exactly_the_allowed_cells_pass() -> None:
    assert (len(GOOD_HOSTS + BAD_HOSTS), len(GOOD_ORIGINS + BAD_ORIGINS)) == (40, 20)
    access = Access(allowed_hosts(PORT), {hash_token("secret"): Grant.FREE})
    for host, origin, token, _ in CELLS:
        headers = headers_of(host, origin, token, "secret", PORT)
        try:
            access.check_source(headers, ("127.0.0.1", PORT))
            client = access.check_token(headers, "/v1/models")
            status = 200 if client is not None and client.grant is Grant.FREE else 0
        except ApiError as error:
            status = error.status
        assert status == expected(host, origin, token), (host, origin, token)


async def test_a_drawn_part_of_the_cells_over_http(tmp_path: Path) -> None:
    drawn = random.Random(20).sample(CELLS, 250)
    drawn += [cell for cell in CELLS if cell[0] in GOOD_HOSTS and cell[1] in GOOD_ORIGINS]
    async with served_baton(tmp_path) as served, httpx.AsyncClient(base_url=served.url) as client:
        for host, origin, token, method in drawn:
            headers = headers_of(host, origin, token, served.token, served.port)
            status = (await client.request(method, "/models", headers=headers)).status_code
            wanted = expected(host, origin, token)
            if wanted == 200 and method != "GET":
                wanted = 405
            assert status in (wanted, 400 if host not in GOOD_HOSTS else wanted), (host, origin)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_that_hides_its_origin_is_refused(tmp_path: Path, site: str) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        answer = await client.get("/models", headers={"sec-fetch-site": site})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


async def test_health_needs_no_token_and_says_nothing_else(tmp_path: Path) -> None:
    async with served_baton(tmp_path) as served, httpx.AsyncClient() as client:
        base = served.url.removesuffix("/v1")
        answer = await client.get(f"{base}/health")
        assert answer.json().keys() == {"status", "name", "version"}
        refused = await client.get(f"{base}/health", headers={"origin": "http://evil.example"})
        assert refused.status_code == 403


async def test_a_token_that_may_not_spend_asks_no_paid_worker(tmp_path: Path) -> None:
    price = Price(Rates(1000, 1000, 0, 0), source="test")
    paid = ScriptedWorker(card=Card("paid", "cloud", "Paid", price=price))
    workers = [ScriptedWorker(), paid]
    body = {"model": "paid", "messages": [{"role": "user", "content": "Hello"}]}
    async with served_baton(tmp_path, workers) as served, served.client() as client:
        answer = await client.post("/chat/completions", json=body)
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "may_not_spend"
    assert paid.requests == []


def test_tokens_are_made_once_and_private(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "tokens.json"
    tokens = read_tokens(file)
    assert read_tokens(file) == tokens
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert len({tokens.free, tokens.spend, tokens.private}) == 3


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"free": "", "spend": ""}', b"\0", b'{"free": "\xff"}']
)
def test_a_damaged_file_of_tokens_is_said(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "tokens.json"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match="holds no tokens"):
        read_tokens(file)


@pytest.mark.parametrize("host", ["", " "])
def test_an_empty_address_opens_none(host: str) -> None:
    """To the system it means every address here: a variable that isn't set opens them."""
    with pytest.raises(ConfigError, match="The address to listen at is empty"):
        run_command("serve", "--quiet", "--port", "0", "--host", host)


def test_offline_no_name_is_looked_up_to_listen_at() -> None:
    said = "Baton is offline, so 'some.example.org' isn't looked up."
    with pytest.raises(ConfigError, match=re.escape(said)):
        run_command("serve", "--quiet", "--port", "0", "--offline", "--host", "some.example.org")
