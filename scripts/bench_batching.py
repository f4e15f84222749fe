"""How fast one model answers 1, 4 and 16 requests at once, next to llama.cpp's own server engine.

    scripts/bench_batching                               Baton with 1, 2 and 16 slots
    scripts/bench_batching --reference VENV/bin/python   and a Python that has `xllamacpp`

All sides read the same file and the same prompts, and write the same number of tokens. They take
turns, several rounds of it, and of each figure the best round counts: on a machine that does other
things as well, the best is what was disturbed least. "per core" divides by the processor's time
that the engine took instead of by the clock, which another program doesn't change as much.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import time
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from baton.core.messages import Message, Request, Role, Text, Usage
from baton.workers.local import (
    GenerationSettings,
    LoadSettings,
    LocalWorker,
    Memory,
    ModelProcess,
    starter,
)

CONTEXT_TOKENS = 8192
AT_ONCE = (1, 4, 16)

REFERENCE = """
import sys, time, xllamacpp
path, context, slots, threads = sys.argv[1], *map(int, sys.argv[2:])
params = xllamacpp.CommonParams()
params.model.path = path
params.n_ctx, params.n_parallel, params.kv_unified = context, slots, True
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
params.warmup, params.port, params.verbosity = True, 0, -1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
"""A server with one pool of context for all, as Baton has it; the rest is its own choice."""


@dataclass
class Side:
    """What is measured: `ask` answers a prompt with so many tokens; returns how many came."""

    name: str
    ask: Callable[[str, int], Awaitable[int]]
    process: Callable[[], psutil.Process]
    per_second: dict[int, float] = field(default_factory=dict)
    per_core: dict[int, float] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)

    async def measure(self, at_once: int, tokens: int, mark: str) -> None:
        """Take one round, and keep what is better than before."""
        prompts = [f"{mark} {n}: write a long story about the sea." for n in range(at_once)]
        began = time.perf_counter()
        await asyncio.gather(*(self.ask(f"First {prompt}", 1) for prompt in prompts))
        self._keep(self.first, at_once, -(time.perf_counter() - began))
        began, busy = time.perf_counter(), _busy(self.process())
        written = sum(await asyncio.gather(*(self.ask(prompt, tokens) for prompt in prompts)))
        self._keep(self.per_second, at_once, written / (time.perf_counter() - began))
        self._keep(self.per_core, at_once, written / (_busy(self.process()) - busy))

    def _keep(self, figures: dict[int, float], at_once: int, value: float) -> None:
        figures[at_once] = max(value, figures.get(at_once, float("-inf")))


def _busy(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def baton_side(path: Path, slots: int, threads: int) -> tuple[Side, LocalWorker]:
    """Return Baton with so many slots."""
    loading = LoadSettings(CONTEXT_TOKENS, threads=threads, slots=slots)
    settings = GenerationSettings(0.0, repeat_penalty=1.0)
    card = replace(starter().card, context=CONTEXT_TOKENS)
    worker = LocalWorker(card, ModelProcess(path, Memory(), loading), settings)

    async def ask(prompt: str, tokens: int) -> int:
        request = Request((Message(Role.USER, prompt),), max_tokens=tokens)
        written = 0
        async with aclosing(worker.stream(request)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Usage):
                    return chunk.tokens_out
                written += chunk.tokens if isinstance(chunk, Text) else 0
        return written

    return Side(f"Baton, {slots} slots", ask, lambda: psutil.Process(worker.process)), worker


def reference_side(python: str, path: Path, threads: int) -> tuple[Side, subprocess.Popen[str]]:
    """Return llama.cpp's own server with 16 slots."""
    arguments = [str(path), str(CONTEXT_TOKENS), str(max(AT_ONCE)), str(threads)]
    server = subprocess.Popen(
        [python, "-c", REFERENCE, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    address = ""
    while not address.startswith("http"):
        address = server.stdout.readline().strip()

    def ask(prompt: str, tokens: int) -> int:
        asked = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": tokens,
            "temperature": 0,
            "repeat_penalty": 1.0,
        }
        request = urllib.request.Request(
            f"{address}/v1/chat/completions",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return int(json.load(answer)["usage"]["completion_tokens"])

    async def ask_in_thread(prompt: str, tokens: int) -> int:
        return await asyncio.to_thread(ask, prompt, tokens)

    side = Side("llama.cpp's server, 16 slots", ask_in_thread, lambda: psutil.Process(server.pid))
    return side, server


async def measure(options: argparse.Namespace) -> list[Side]:
    """Measure all sides in turn."""
    from concurrent.futures import ThreadPoolExecutor

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max(AT_ONCE)))
    path = options.model or starter().path
    made = [baton_side(path, slots, options.threads) for slots in (1, 2, 16)]
    sides, workers = [side for side, _ in made], [worker for _, worker in made]
    server = None
    if options.reference:
        side, server = reference_side(options.reference, path, options.threads)
        sides.append(side)
    try:
        for side in sides:
            await side.ask("Hello", 4)
        for turn in range(options.rounds):
            for at_once in options.at_once:
                for side in sides:
                    await side.measure(at_once, options.tokens, f"Round {turn}, {at_once} at once")
    finally:
        for worker in workers:
            await worker.aclose()
        if server is not None:
            with suppress(OSError):
                server.kill()
            server.wait()
    return sides


def table(sides: Sequence[Side], at_once: Sequence[int]) -> list[str]:
    """Return the figures as Markdown; ratios are to the last side."""
    lines = ["| requests at once | | tokens/s | ratio | per core | ratio | first token |"]
    lines.append("|---|---|---|---|---|---|---|")
    last = sides[-1]
    for count in at_once:
        for side in sides:
            speed, core = side.per_second[count], side.per_core[count]
            cells = (
                str(count),
                side.name,
                f"{speed:.1f}",
                f"{speed / last.per_second[count]:.2f}x",
                f"{core:.1f}",
                f"{core / last.per_core[count]:.2f}x",
                f"{-side.first[count]:.2f} s",
            )
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", metavar="PYTHON", help="a Python that has xllamacpp")
    parser.add_argument("--model", type=Path, help="a GGUF file instead of the starter's")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False))
    parser.add_argument("--at-once", type=int, nargs="+", default=AT_ONCE)
    options = parser.parse_args()
    sides = asyncio.run(measure(options))
    print("\n".join(table(sides, options.at_once)))


if __name__ == "__main__":
    main()
