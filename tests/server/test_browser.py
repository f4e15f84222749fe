"""A page in a real browser, of another origin or a rebinding name, can't use the endpoint."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path

import pytest

from baton.core.messages import Card
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import Served, served_baton

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium"),
]

PAGE = """<!DOCTYPE html><body><pre id="seen"></pre><script>
const asked = JSON.stringify({model: "baton/auto", messages: [{role: "user", content: "Spend"}]});
const json = {"content-type": "application/json"};
const token = {"authorization": "Bearer TOKEN"};
const attempts = [];
for (const target of TARGETS) {
  attempts.push([target + "/v1/models", {}]);
  attempts.push([target + "/v1/models", {headers: token}]);
  attempts.push([target + "/health", {}]);
  for (const path of ["/v1/chat/completions", "/v1/responses", "/v1/messages"]) {
    attempts.push([target + path, {method: "POST", mode: "no-cors", body: asked}]);
    attempts.push([target + path, {method: "POST", headers: json, body: asked}]);
    attempts.push([target + path, {method: "POST", headers: {...json, ...token}, body: asked}]);
  }
}
attempts.push(["CONTROL/open", {}]);
(async () => {
  const seen = [];
  for (const [url, how] of attempts) {
    try {
      const answer = await fetch(url, {...how, credentials: "include"});
      seen.push([url, answer.type, answer.status, (await answer.text()).slice(0, 40)]);
    } catch (error) { seen.push([url, "refused", 0, ""]); }
  }
  document.getElementById("seen").textContent = JSON.stringify(seen);
  document.title = "done";
})();
</script></body>"""


@asynccontextmanager
async def foreign_site(page: str) -> AsyncIterator[int]:
    """Serve a page, and at `/open` what it may read; yield the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode()
        while (await reader.readline()).strip():
            pass
        body = "secret" if " /open" in line else page
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()
        writer.close()

    site = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with site:
        yield site.sockets[0].getsockname()[1]


async def browse(url: str, profile: Path) -> str:
    """Return what a browser makes of a page; foreign names lead to this machine."""
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={profile}",
        "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP *.evil.example 127.0.0.1",
        "--virtual-time-budget=20000",
        "--dump-dom",
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    shown, _ = await process.communicate()
    return unescape(shown.decode())


def attempts_of(shown: str) -> list[tuple[str, str, int, str]]:
    found = re.search(r'<pre id="seen">(.*?)</pre>', shown, re.DOTALL)
    assert found is not None, shown
    return [tuple(one) for one in json.loads(found[1])]


async def attack(served: Served, tmp_path: Path, name: str) -> list[tuple[str, str, int, str]]:
    """Return what a page at that name got of each attempt."""
    page = PAGE.replace("TOKEN", "baton-free-guessed")
    targets = [f"http://{host}:{served.port}" for host in ("127.0.0.1", "localhost", name)]
    page = page.replace("TARGETS", json.dumps(targets))
    async with foreign_site(page.replace("CONTROL", "")) as port:
        return attempts_of(await browse(f"http://{name}:{port}/", tmp_path / "profile"))


@pytest.mark.parametrize("name", ["evil.example", "rebound.evil.example"])
async def test_a_foreign_page_neither_reads_nor_spends(tmp_path: Path, name: str) -> None:
    worker = ScriptedWorker(card=Card("small", "local", "Small", context=8192))
    async with served_baton(tmp_path, [worker]) as served:
        seen = await attack(served, tmp_path, name)
        assert len(seen) == 3 * 12 + 1
        assert seen[-1][2:] == (200, "secret"), "what a page may read, it reads"
        for url, kind, status, text in seen[:-1]:
            assert (kind, status, text) in (("refused", 0, ""), ("opaque", 0, "")), url
        assert served.runner.served == []
        assert worker.requests == []


async def test_a_rebound_name_learns_nothing_even_as_its_own_origin(tmp_path: Path) -> None:
    worker = ScriptedWorker(card=Card("small", "local", "Small", context=8192))
    async with served_baton(tmp_path, [worker]) as served:
        address = f"http://evil.example:{served.port}/v1/models"
        shown = await browse(address, tmp_path / "profile")
        assert "host_not_allowed" in shown
        assert "baton/auto" not in shown
