"""What known attacks on `baton serve` do to those who don't attack.

    scripts/bench_attacks            all of them (some minutes)
    scripts/bench_attacks schema     those with that word in their name

Each attack is made ten times at once with the token for what is free and that which may spend, over
a new home with a paid worker at a provider on loopback. Meanwhile another program asks /health
twenty times a second and the local model a short question, over and over. The memory is that of the
server's own process; that of its children is shown beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from baton.platform.paths import find_paths  # noqa: E402
from baton.server import read_tokens  # noqa: E402

AT_ONCE = 10
START_SECONDS = 120
MAX_SECONDS = 90.0
MAX_HEALTH_SECONDS = 0.5
MAX_GROWTH_MB = 250

CONFIG = """
[budget]
day = 1

[[workers]]
id = "cl"
kind = "cloud"
model = "openai/gpt-5-mini"
base_url = "http://127.0.0.1:9/v1"
price = { input = "10", output = "40" }
"""


@dataclass
class Server:
    """A server that is attacked: where it listens, its process, and its tokens."""

    port: int
    process: psutil.Process
    free: str
    spend: str

    def memory(self) -> tuple[float, float]:
        """Return the MB that the server takes, and its children together."""
        own = self.process.memory_info().rss / 1e6
        others = 0.0
        for child in self.process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                others += child.memory_info().rss / 1e6
        return own, others


@dataclass
class Observation:
    """What others saw while an attack lasted; seconds and MB."""

    health: float = 0.0
    refused: int = 0
    answers: list[float] = field(default_factory=list)
    failed: int = 0
    memory: float = 0.0
    children: float = 0.0


@contextmanager
def started_server(home: Path) -> Iterator[Server]:
    """Serve over a new home until this is left."""
    paths = find_paths({"BATON_HOME": str(home)})
    paths.config.mkdir(parents=True)
    paths.config_file.write_text(CONFIG)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {**os.environ, "BATON_HOME": str(home), "OPENAI_API_KEY": "sk-none"}
    command = [sys.executable, "-P", "-m", "baton", "serve", "--port", str(port), "-q"]
    process = subprocess.Popen(command, env=environ)
    try:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            with suppress(httpx.HTTPError):
                httpx.get(f"http://127.0.0.1:{port}/health")
                break
            time.sleep(0.1)
        tokens = read_tokens(paths.server_tokens)
        yield Server(port, psutil.Process(process.pid), tokens.free, tokens.spend)
    finally:
        process.terminate()
        process.wait(30)


async def post(server: Server, token: str, body: Any, path: str = "/chat/completions") -> int:
    """Send a request; return its status, 0 where the server broke the connection off."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = f"http://127.0.0.1:{server.port}/v1{path}"
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    async with httpx.AsyncClient(timeout=MAX_SECONDS) as client:
        try:
            return (await client.post(url, content=data, headers=headers)).status_code
        except httpx.HTTPError:
            return 0


def chat(model: str, text: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


def shaped(schema: dict[str, Any]) -> dict[str, Any]:
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    return chat("baton/local", "hi", max_tokens=3, response_format=form)


def turns(count: int) -> dict[str, Any]:
    roles = ("user", "assistant")
    said = [{"role": roles[n % 2], "content": "x"} for n in range(count)]
    return {"model": "baton/auto", "messages": said}


BODIES: dict[str, Callable[[], Any]] = {
    "schema minLength 1e9": lambda: shaped({"type": "string", "minLength": 10**9}),
    "schema minLength 1e8": lambda: shaped({"type": "string", "minLength": 10**8}),
    "schema nested items": lambda: shaped(
        {
            "type": "array",
            "minItems": 1000,
            "items": {"type": "array", "minItems": 1000, "items": {"type": "string"}},
        }
    ),
    "schema pattern": lambda: shaped({"type": "string", "pattern": "^((a{1000}){1000}){1000}$"}),
    "5,001 turns": lambda: turns(5_001),
    "40,001 turns": lambda: turns(40_001),
    "100,001 turns": lambda: turns(100_001),
    "7.5 MB of words": lambda: chat("baton/auto", "word " * 1_500_000),
    "a product of millions of digits": lambda: chat(
        "baton/auto", "What is " + "9" * 4_000_000 + " * " + "9" * 3_000_000
    ),
    "a@ x 3.7 million": lambda: chat("baton/auto", "a@" * 3_700_000),
    "redaction of digits": lambda: chat("cl", "9 1-" * 375_000),
    "redaction of keys": lambda: chat("cl", "sk-" * 500_000),
    "redaction of mail": lambda: chat("cl", "a@" * 750_000),
    "7.9 MB of lists": lambda: b"[" + b"[]," * 2_600_000 + b"[]]",
    "7.9 MB of numbers": lambda: b'{"x":[' + b"1," * 3_900_000 + b"1]}",
}


async def send_bodies(make: Callable[[], Any], server: Server) -> list[int]:
    body = make()
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    tokens = [server.free, server.spend] * AT_ONCE
    return await asyncio.gather(*(post(server, token, data) for token in tokens[:AT_ONCE]))


async def half_requests(server: Server, count: int, head: bytes, body: int) -> list[int]:
    """Open connections, send a head and so many bytes of a body, and wait."""
    writers = []
    with suppress(OSError):
        for _ in range(count):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writers.append(writer)
            writer.write(head + b"x" * body)
            with suppress(TimeoutError, OSError):
                await asyncio.wait_for(writer.drain(), 0.2)
    await asyncio.sleep(15)
    for writer in writers:
        writer.close()
    return []


def head_of(server: Server, size: int) -> bytes:
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Authorization: Bearer {server.free}\r\nContent-Length: {size}\r\n\r\n"
    ).encode()


ATTACKS: dict[str, Callable[[Server], Awaitable[list[int]]]] = {
    **{name: partial(send_bodies, make) for name, make in BODIES.items()},
    "150 unfinished bodies of 7.9 MB": lambda server: half_requests(
        server, 150, head_of(server, 7_900_000), 7_890_000
    ),
    "700 half bodies": lambda server: half_requests(server, 700, head_of(server, 5000), 2500),
    "600 half heads": lambda server: half_requests(server, 600, b"GET /health HTTP/1.1\r\nHo", 0),
}


async def observe(server: Server, seen: Observation) -> None:
    """Ask for health and the local model, over and over, as another program would."""

    async def ask_health() -> None:
        async with httpx.AsyncClient(timeout=30) as client:
            while True:
                began = time.monotonic()
                try:
                    answer = await client.get(f"http://127.0.0.1:{server.port}/health")
                    seen.refused += answer.status_code != 200
                except httpx.HTTPError:
                    seen.refused += 1
                seen.health = max(seen.health, time.monotonic() - began)
                own, others = server.memory()
                seen.memory, seen.children = max(seen.memory, own), max(seen.children, others)
                await asyncio.sleep(0.05)

    async def ask_model() -> None:
        while True:
            began = time.monotonic()
            body = chat("baton/local", "Say hello.", max_tokens=8)
            if await post(server, server.spend, body) == 200:
                seen.answers.append(time.monotonic() - began)
            else:
                seen.failed += 1
            await asyncio.sleep(0.1)

    await asyncio.gather(ask_health(), ask_model())


async def attack(server: Server, name: str) -> bool:
    """Make an attack, print what others saw; return whether it was within the bounds."""
    idle, _ = server.memory()
    seen = Observation()
    observing = asyncio.create_task(observe(server, seen))
    await asyncio.sleep(1)
    began = time.monotonic()
    statuses = await ATTACKS[name](server)
    seconds = time.monotonic() - began
    await asyncio.sleep(2)
    observing.cancel()
    with suppress(asyncio.CancelledError):
        await observing
    growth = seen.memory - idle
    is_held = (
        seen.health <= MAX_HEALTH_SECONDS
        and not seen.refused
        and not seen.failed
        and growth <= MAX_GROWTH_MB
    )
    found = ", ".join(f"{statuses.count(s)} x {s}" for s in sorted(set(statuses)))
    slowest = max(seen.answers, default=0.0)
    print(
        f"| {name} | {found or 'none'} | {seconds:.1f} | {seen.health:.2f} | {seen.refused} |"
        f" {len(seen.answers)} ({slowest:.1f}), {seen.failed} failed | {growth:.0f} |"
        f" {seen.children:.0f} | {'yes' if is_held else '**no**'} |",
        flush=True,
    )
    return is_held


def main() -> int:
    """Print the table; return 1 where an attack was felt."""
    names = [name for name in ATTACKS if not sys.argv[1:] or any(w in name for w in sys.argv[1:])]
    print(
        "| attack, ten at once | statuses | s | /health, most s | refused | other answers (most s)"
        " | MB more | MB of children | within bounds |\n|---|---|---|---|---|---|---|---|---|"
    )
    held = True
    with tempfile.TemporaryDirectory() as folder, started_server(Path(folder) / "home") as server:
        asyncio.run(post(server, server.spend, chat("baton/local", "Say hello.", max_tokens=8)))
        for name in names:
            held &= asyncio.run(attack(server, name))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
