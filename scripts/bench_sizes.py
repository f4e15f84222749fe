"""How fast Baton is with models of real sizes: next to llama.cpp's own server and a bare loop.

    scripts/bench_sizes                     all models and figures (an hour; 8 GB of disk)
    scripts/bench_sizes 1.1b --only write   one model, one figure: load, write, memory or turns
    scripts/bench_sizes --folder X          where the files are kept (else nowhere)

The files have weights by chance (`random_models.py`): they compute as long as real ones. All sides
have the same file and threads, words are drawn at temperature 1, and rounds alternate. `write` is
tokens a second once all have begun, for so many streams with so much text before them; `read` is
tokens of prompts a second until the last has begun. No two prompts begin alike. Words of chance may
begin with half a character, which is held back: single rounds of `read` are off by that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
from answer_stream import AnswerStream, stream_answer  # noqa: E402
from bench_local import Row, print_rows, row  # noqa: E402
from bench_serve import LLAMA_SERVER, Target, baton_server, engine_server, free_port  # noqa: E402
from random_models import SHAPES, write_model  # noqa: E402

from baton.workers.local.model_file import estimate_file_load  # noqa: E402

THREADS = psutil.cpu_count(logical=False) or 1
CONTEXT = 16_384
TOKENS = 48
STREAMS = (1, 2, 4, 8)
BEFORE = (100, 1500, 6000)
ROUNDS = 5
WORDS = ("sea", "house", "light", "river", "stone", "paper", "garden", "winter", "market", "road")

BARE = """
import json, sys, time
from pathlib import Path
import llama_cpp
from llama_cpp._ggml import libggml
for plugin in Path(llama_cpp.__file__).parent.glob("lib/libggml-cuda.so"):
    libggml.ggml_backend_load(str(plugin).encode())
path, text, tokens, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
began = time.perf_counter()
how = dict(n_threads=threads, n_threads_batch=threads, n_gpu_layers=-1, verbose=False)
llm = llama_cpp.Llama(path, n_ctx=8192, **how)
loaded = time.perf_counter()
how = dict(temperature=1.0, max_tokens=tokens, stream=True)
times = []
for chunk in llm.create_chat_completion([dict(role="user", content=text)], **how):
    if "content" in chunk["choices"][0]["delta"]:
        times.append(time.perf_counter())
print(json.dumps([loaded - began, times[0] - loaded, (len(times) - 1) / (times[-1] - times[0])]))
"""


@dataclass(frozen=True)
class Speed:
    """Tokens a second of all streams: of what is read, and of what is written."""

    read: float
    write: float


@contextmanager
def servers(
    path: Path, streams: int, *, alone: bool = False, slots: int = 16
) -> Iterator[list[Target]]:
    """Run Baton's server with a model, and llama.cpp's own unless Baton is to be `alone`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "config").mkdir()
        text = f'[[workers]]\nid = "sized"\nkind = "local"\nmodel = "{path}"\nslots = {slots}\n'
        (folder / "config" / "config.toml").write_text(text)
        found = [stack.enter_context(baton_server(folder, "sized", CONTEXT))]
        if not alone:
            port = free_port()
            size = CONTEXT // streams  # it gives each slot the same
            command = [sys.executable, "-c", LLAMA_SERVER, str(path), "sized", str(streams)]
            command += [str(THREADS), str(port), str(size)]
            found.append(stack.enter_context(engine_server("llama.cpp's server", command, port)))
        yield found


def some_text(tokens: int, chance: random.Random) -> str:
    """Return words that make up about so many tokens."""
    return " ".join(chance.choice(WORDS) for _ in range(tokens))


async def answer(
    client: httpx.AsyncClient, target: Target, messages: list[dict[str, str]], **own: Any
) -> AnswerStream:
    """Have a server answer with so many words of chance."""
    return await stream_answer(
        client, target.model, messages, max_tokens=TOKENS, temperature=1, **own
    )


@contextmanager
def connected(target: Target) -> Iterator[httpx.AsyncClient]:
    """Return a client of a server."""
    headers = {"authorization": f"Bearer {target.token}"}
    yield httpx.AsyncClient(base_url=target.url, headers=headers, timeout=1200)


async def speed(target: Target, streams: int, before: int, seed: int) -> Speed:
    """Ask a server so many things at once, with so many tokens each."""
    chance = random.Random(f"{target.name} {seed}")
    with connected(target) as client:
        began = time.perf_counter()
        asked = (
            answer(client, target, [{"role": "user", "content": some_text(before, chance)}])
            for _ in range(streams)
        )
        found = await asyncio.gather(*asked)
        await client.aclose()
    start, end = (max(stream.times[at] for stream in found) for at in (0, -1))
    written = sum(
        (stream.written - 1) * (stream.times[-1] - start) / (stream.times[-1] - stream.times[0])
        for stream in found
        if stream.times[-1] > start
    )
    return Speed(sum(stream.read for stream in found) / (start - began), written / (end - start))


def bare_loop(path: Path, before: int, seed: int) -> tuple[float, float, float]:
    """Return how long a bare loop took to load and to begin, and how many tokens/s it wrote."""
    text = some_text(before, random.Random(f"bare {seed}"))
    command = [sys.executable, "-I", "-c", BARE, str(path), text, str(TOKENS), str(THREADS)]
    loaded, first, rate = json.loads(subprocess.check_output(command))
    return loaded, first, rate


def bench_write(name: str, path: Path, before: tuple[int, ...]) -> Iterator[Row]:
    """Compare what is written and read in a second."""
    for tokens in before:
        for streams in STREAMS:
            if streams * (tokens + TOKENS + 200) > CONTEXT:
                continue
            with servers(path, streams) as targets:
                rounds = {target.name: list[Speed]() for target in targets}
                bare = list[float]()
                for turn in range(ROUNDS if tokens < 6000 else 3):
                    for target in targets:
                        rounds[target.name].append(
                            asyncio.run(speed(target, streams, tokens, turn))
                        )
                    if streams == 1:
                        bare.append(bare_loop(path, tokens, turn)[2])
            what = f"{name}: {streams} streams after {tokens:,} tokens"
            ours, theirs = rounds.values()
            for figure in ("write", "read"):
                mine, other = (
                    statistics.median(getattr(one, figure) for one in side)
                    for side in (ours, theirs)
                )
                yield row(
                    f"{what}, {figure}, next to llama.cpp's server",
                    mine,
                    other,
                    0.95,
                    "",
                    at_least=True,
                )
                if streams == 1 and figure == "write":
                    loop = statistics.median(bare)
                    yield row(
                        f"{what}, {figure}, next to a bare loop",
                        mine,
                        loop,
                        0.95,
                        "",
                        at_least=True,
                    )


def bench_write_alone(
    name: str, path: Path, streams: tuple[int, ...], rounds: int
) -> Iterator[Row]:
    """Compare what so many streams write in a second with one bare loop."""
    loop = statistics.median(bare_loop(path, BEFORE[0], turn)[2] for turn in range(rounds))
    with servers(path, max(streams), alone=True) as (target,):
        for count in streams:
            found = [asyncio.run(speed(target, count, BEFORE[0], turn)) for turn in range(rounds)]
            figure = f"{name}: {count} streams, write, next to one bare loop"
            mine = statistics.median(one.write for one in found)
            yield row(figure, mine, loop, 0.95, "", at_least=True)


def bench_load(name: str, path: Path, rounds: int = ROUNDS) -> Iterator[Row]:
    """Compare the seconds until the first word of a short prompt, the model's loading included."""
    ours, theirs = list[float](), list[float]()
    for turn in range(rounds):
        with servers(path, 1, alone=True) as (target,):
            began = time.perf_counter()
            asyncio.run(speed(target, 1, 20, turn))
            ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        bare_loop(path, 20, turn)
        theirs.append(time.perf_counter() - began)
    mine, other = statistics.median(ours), statistics.median(theirs)
    yield row(f"{name}: loading and {TOKENS} tokens, next to a bare loop", mine, other, 1.3, "s")


def bench_memory(name: str, path: Path) -> Iterator[Row]:
    """Compare the memory that the model's process takes at its fullest with what was expected."""
    with servers(path, 1, alone=True, slots=1) as (target,):
        asyncio.run(speed(target, 1, CONTEXT // 2 - 600, 0))
        biggest = max(
            (child.memory_info().rss, child.pid)
            for child in psutil.Process().children(recursive=True)
        )[0]
    expected = estimate_file_load(path, CONTEXT // 2).total
    off = biggest / expected - 1
    yield Row(
        f"{name}: memory with {CONTEXT // 2:,} tokens, against what `fit` expects",
        f"{biggest / 1e6:,.0f} MB",
        f"{expected / 1e6:,.0f} MB",
        f"{off:+.1%}",
        "within 7 %",
        abs(off) <= 0.07,
    )


async def read_again(target: Target, messages: list[dict[str, str]], **own: Any) -> float:
    """Have something answered, ask on, and return which share of what was known is read again."""
    with connected(target) as client:
        first = await answer(client, target, messages, **own)
        messages = [*messages, {"role": "assistant", "content": first.text}]
        messages.append({"role": "user", "content": "And what follows from that?"})
        second = await answer(client, target, messages, **own)
        await client.aclose()
    return 1 - second.known / (first.read + first.written)


def bench_turns(name: str, path: Path) -> Iterator[Row]:
    """How much of a long conversation is read again at its second turn."""
    chance = random.Random(name)
    long = [{"role": "user", "content": some_text(6000, chance)}]
    tools = [
        {"type": "function", "function": {"name": f"tool_{n}", "parameters": {"type": "object"},
         "description": some_text(60, chance)}}
        for n in range(8)
    ]  # fmt: skip
    agent = [
        {"role": "system", "content": some_text(1500, chance)},
        {"role": "user", "content": some_text(500, chance)},
    ]
    cases: list[tuple[str, list[dict[str, str]], dict[str, Any], int]] = [
        ("a conversation of 6,000 tokens", long, {}, 2),
        ("an agent", agent, {"tools": tools}, 15),
    ]
    for what, messages, own, most in cases:
        with servers(path, 1, alone=True) as (target,):
            share = asyncio.run(read_again(target, messages, **own)) * 100
        yield Row(f"{name}: second turn of {what}, read again", f"{share:.1f} %", "", "",
                  f"at most {most} %", share <= most)  # fmt: skip


def rows(names: list[str], figures: list[str], folder: Path) -> Iterator[Row]:
    """Yield the lines of the table."""
    for name in names:
        path = write_model(name, folder)
        before = (512,) if name == "8b" else BEFORE
        if "load" in figures:
            yield from bench_load(name, path)
        if "memory" in figures:
            yield from bench_memory(name, path)
        if "turns" in figures and name != "8b":
            yield from bench_turns(name, path)
        if "write" in figures:
            yield from bench_write(name, path, before)


def main() -> None:
    """Measure what is asked for, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", choices=[*SHAPES, []], metavar="MODEL")
    parser.add_argument("--only", action="append", choices=["load", "memory", "turns", "write"])
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    figures = asked.only or ["load", "memory", "turns", "write"]
    with tempfile.TemporaryDirectory() as passing:
        folder = asked.folder or Path(passing)
        folder.mkdir(parents=True, exist_ok=True)
        print_rows(rows(asked.models or list(SHAPES), figures, folder))


if __name__ == "__main__":
    main()
