"""How fast `baton serve` answers, next to llama.cpp's own server and that of llama-cpp-python.

    scripts/bench_serve              all figures (some minutes; needs tests/engines.lock)
    scripts/bench_serve 1 16         with so many requests at once

All servers have the same GGUF file, threads and prompts; rounds alternate between them, and each
figure is the median of its rounds: of the same server, single ones differ by a third on a machine
that others use as well.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
import bench_local  # noqa: E402
from answer_stream import AnswerStream, stream_answer  # noqa: E402
from bench_local import Row, row  # noqa: E402

from baton.core.catalogue_types import STARTER_ID  # noqa: E402
from baton.platform.paths import find_paths  # noqa: E402
from baton.server import read_tokens  # noqa: E402
from baton.workers.local import starter  # noqa: E402

WARM_ROUNDS, ROUNDS = 6, 7
"""In the first ones the models are loaded, and Baton's context grows to as many slots."""

TOKENS = 64
MOST_AT_ONCE = 16
START_SECONDS = 120
THREADS = psutil.cpu_count(logical=False) or 1

TOPICS = ("lighthouses", "rivers", "bread", "violins", "maps", "winter", "bees", "harbours")


@dataclass(frozen=True)
class Target:
    """A server: its name for the table, its address, its model's name, and its token."""

    name: str
    url: str
    model: str
    token: str = "none"


@dataclass(frozen=True)
class Speed:
    """Seconds to the first token, the median over requests; tokens a second, of all together."""

    first: float
    total: float


BATON = (sys.executable, "-P", "-m", "baton")


@contextmanager
def baton_server(
    folder: Path,
    model: str = STARTER_ID,
    context: int = MOST_AT_ONCE * 1024,
    command: Sequence[str] = BATON,
) -> Iterator[Target]:
    """Run `baton serve`, by a `command` of one's own."""
    home = {"BATON_HOME": str(folder), "BATON_LOCAL__CONTEXT": str(context)}
    process = subprocess.Popen(
        [*command, "serve", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **home},
    )
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "Serving at" in line)
        token = read_tokens(find_paths(home).server_tokens).free
        yield Target("baton serve", line.split("at ")[1].split(";")[0], model, token)
    finally:
        process.terminate()
        process.wait()


LLAMA_SERVER = """
import sys, threading, xllamacpp
asked = xllamacpp.CommonParams()
asked.model.path, asked.model_alias = sys.argv[1], {sys.argv[2]}
asked.n_parallel, asked.n_ctx = int(sys.argv[3]), int(sys.argv[3]) * int(sys.argv[6])
asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = int(sys.argv[4])
asked.port = int(sys.argv[5])
server = xllamacpp.Server(asked)
threading.Event().wait()
"""
"""llama.cpp's own server, as the package xllamacpp carries it."""


@contextmanager
def engine_server(name: str, command: list[str], port: int) -> Iterator[Target]:
    """Run another program's server at a port."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    target = Target(name, f"http://127.0.0.1:{port}/v1", STARTER_ID)
    try:
        _wait_until_up(target, process)
        yield target
    finally:
        process.kill()
        process.wait()


def _wait_until_up(target: Target, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            httpx.get(f"{target.url}/models", timeout=5).raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.2)
        else:
            return
    sys.exit(f"{target.name} doesn't start: is tests/engines.lock installed?")


def free_port() -> int:
    """Return a port that no one has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def all_servers(count: int) -> Iterator[list[Target]]:
    """Run Baton's server and the others; that of llama-cpp-python drops all requests but one."""
    model, threads = str(starter().path), str(THREADS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(baton_server(folder))
        port, other = free_port(), free_port()
        own = [sys.executable, "-c", LLAMA_SERVER, model, STARTER_ID, str(MOST_AT_ONCE), threads]
        theirs = [sys.executable, "-m", "llama_cpp.server", "--model", model]
        theirs += ["--model_alias", STARTER_ID, "--n_ctx", "2048", "--n_threads", threads]
        theirs += ["--port", str(other)]
        servers = [engine_server("llama.cpp's server", [*own, str(port), "1024"], port)]
        if count == 1:
            servers.append(engine_server("llama_cpp.server", theirs, other))
        yield [ours, *map(stack.enter_context, servers)]


async def measure(target: Target, count: int, turn: int) -> Speed:
    """Ask so many things at once; return how fast the answers came."""
    headers = {"authorization": f"Bearer {target.token}"}
    async with httpx.AsyncClient(base_url=target.url, headers=headers, timeout=600) as client:
        start = time.perf_counter()
        asked = (_ask(client, target, number, turn) for number in range(count))
        streams = await asyncio.gather(*asked)
        seconds = time.perf_counter() - start
    first = statistics.median(stream.times[0] - start for stream in streams)
    return Speed(first, sum(stream.written for stream in streams) / seconds)


async def _ask(client: httpx.AsyncClient, target: Target, number: int, turn: int) -> AnswerStream:
    """Return an answer long enough not to end by itself: fewer streams would be another measure.

    No two prompts begin alike, so that none is known from before.
    """
    text = f"{turn}.{number}: tell me a long story about {TOPICS[(turn + number) % len(TOPICS)]}."
    return await stream_answer(
        client,
        target.model,
        [{"role": "user", "content": text}],
        max_tokens=TOKENS,
        temperature=0,
        repeat_penalty=1.0,  # as the others would have it anyway
    )


def bench_at_once(count: int) -> Iterator[Row]:
    """Compare the servers with so many requests at once."""
    with all_servers(count) as targets:
        found: dict[str, list[Speed]] = {target.name: [] for target in targets}
        for turn in range(WARM_ROUNDS + ROUNDS):
            for target in targets:
                speed = asyncio.run(measure(target, count, turn))
                if turn >= WARM_ROUNDS:
                    found[target.name].append(speed)
    ours, *others = found.values()
    first = min(statistics.median(one.first for one in speeds) for speeds in others)
    best = max(statistics.median(one.total for one in speeds) for speeds in others)
    least, reference = (0.97, "the best") if count == 1 else (0.95, "llama.cpp's own")
    total = statistics.median(one.total for one in ours)
    figure = f"{count} at once, tokens/s, next to {reference}"
    yield row(figure, total, best, least, "", at_least=True)
    mine = statistics.median(one.first for one in ours)
    yield row(f"{count} at once, seconds to the first token, median", mine, first, 1 / least, "s")


BENCHES = {str(count): partial(bench_at_once, count) for count in (1, 4, MOST_AT_ONCE)}


if __name__ == "__main__":
    bench_local.main(sys.argv[1:], BENCHES)
