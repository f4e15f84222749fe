"""Whether a model fits: how soon that is known, and how near the truth it is, on this machine.

    scripts/bench_models_fit.py           three contexts, really filled (two minutes or more)
    scripts/bench_models_fit.py --quick   the smallest of them only

From header to verdict: a file is opened, its header read, what it takes reckoned up, and that held
against the machine. The largest header is made up: 262,144 words and as many merges as Gemma's. The
worst are those of the tests, thought up to do harm, and mutated ones; beside their time
(of the processor), the memory that reading them takes at most.

Memory: what the runner's process takes (RSS) when its context is full, against the estimate
before it was started.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))
from baton.core.machine import Hardware  # noqa: E402
from baton.core.messages import Message, Request, Role  # noqa: E402
from baton.gguf.header import HeaderIncomplete, parse_header, read_header  # noqa: E402
from baton.gguf.memory_fit import estimate_load, judge_fit  # noqa: E402
from baton.gguf.metadata import MalformedHeader  # noqa: E402
from baton.workers.local import (  # noqa: E402
    LoadSettings,
    LocalWorker,
    Memory,
    ModelProcess,
    starter,
)
from baton.workers.local.model_file import estimate_file_load  # noqa: E402
from baton.workers.local.model_memory import machine_memory  # noqa: E402
from support.gguf_writer import Tensor, facts, header, hostile, mutate_header, vocabulary  # noqa: E402

MUST_SECONDS, MUST_BYTES, MUST_OFF = 0.2, 50_000_000, 0.10
WORDS, MERGES = 262_144, 514_906
CONTEXTS = (2048, 4096, 8192)
TIMES = 40


def largest(folder: Path) -> Path:
    """Write the largest header that is known of a real model, and no weights."""
    merges = [f"word{number} piece{number % 97}" for number in range(MERGES)]
    tensors = [Tensor(f"blk.{number}.weight", (256, 8), 12) for number in range(700)]
    keys = facts("gemma3", attention__sliding_window=1024, block_count=48, context_length=131_072)
    file = folder / "largest.gguf"
    head = header(keys | vocabulary(WORDS) | {"tokenizer.ggml.merges": merges}, tensors)
    with file.open("wb") as out:
        out.write(head)
        out.truncate(len(head) + 700 * 256 * 8)
    return file


def p95(measure: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that all but one of twenty runs keep to, and those of the processor."""
    taken, computed = [], []
    for _ in range(TIMES):
        start, begun = time.perf_counter(), time.process_time()
        measure()
        taken.append(time.perf_counter() - start)
        computed.append(time.process_time() - begun)
    last = TIMES * 95 // 100 - 1
    return sorted(taken)[last], sorted(computed)[last]


def verdict(path: Path) -> None:
    """Go all the way, from a file's name to what the user reads."""
    size = path.stat().st_size
    with path.open("rb") as file:
        load = estimate_load(read_header(file.read, size), size, 8192)
    memory = machine_memory()
    judge_fit([load], Hardware(memory.total, memory.available, 2, 2))


def worst(count: int) -> tuple[float, int]:
    """Read hostile and mutated headers; return the longest time and the most memory of one."""
    chance = random.Random(count)
    honest = header(
        facts("gemma3", attention__sliding_window=512) | vocabulary(300),
        [Tensor(f"blk.{number}.w", (256, 2), 12) for number in range(8)],
    )
    slowest, most = 0.0, 0
    for data in (*hostile(), *(mutate_header(honest, chance) for _ in range(count))):
        with contextlib.suppress(HeaderIncomplete, MalformedHeader):
            start = time.process_time()
            parse_header(data, len(data))
        slowest = max(slowest, time.process_time() - start)
        tracemalloc.start()
        with contextlib.suppress(HeaderIncomplete, MalformedHeader):
            parse_header(data, 1 << 40)
        most = max(most, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return slowest, most


async def measure_memory(context: int) -> tuple[int, int]:
    """Fill a context of the starter model; return the bytes estimated, and those really taken."""
    model = starter()
    card = replace(model.card, context=context)
    worker = LocalWorker(card, ModelProcess(model.path, Memory(), LoadSettings(card.context)))
    text = "the sea " * ((context - 80) // 2)  # two tokens each time
    request = Request((Message(Role.USER, text),), max_tokens=16)
    async with contextlib.aclosing(worker.stream(request)) as chunks:
        async for _ in chunks:
            pass
    assert worker.process is not None
    real = psutil.Process(worker.process).memory_info().rss
    await worker.aclose()
    return estimate_file_load(model.path, context).total, real


def rows(contexts: tuple[int, ...]) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the lines of the table: figure, value, what it must be, and whether it is."""
    with tempfile.TemporaryDirectory() as folder:
        large, small = largest(Path(folder)), starter().path
        megabytes = large.stat().st_size / 1e6
        for name, path in ((f"{WORDS:,} words, {megabytes:.0f} MB", large), ("SmolLM2", small)):
            taken, computed = p95(partial(verdict, path))
            what = f"header to verdict, {name}, p95"
            value = f"{taken * 1000:.0f} ms (computing: {computed * 1000:.0f})"
            yield what, value, f"{MUST_SECONDS} s", taken <= MUST_SECONDS
    slowest, most = worst(1000)
    what = "1,000 mutated and all hostile headers, the slowest"
    yield what, f"{slowest * 1000:.0f} ms", f"{MUST_SECONDS} s", slowest <= MUST_SECONDS
    what = "the same, the most memory"
    yield what, f"{most / 1e6:.1f} MB", f"{MUST_BYTES / 1e6:.0f} MB", most <= MUST_BYTES
    for context in contexts:
        estimated, real = asyncio.run(measure_memory(context))
        off = estimated / real - 1
        what = f"memory of SmolLM2 with {context:,} tokens, estimated against real"
        value = f"{estimated / 1e6:.0f} / {real / 1e6:.0f} MB ({off:+.1%})"
        yield what, value, f"±{MUST_OFF:.0%}", abs(off) <= MUST_OFF


def main(quick: bool = False) -> bool:
    """Print the table; return whether everything is as it must be."""
    print("| What | Here | Must | |\n|---|---|---|---|")
    good = True
    for figure, value, must, holds in rows(CONTEXTS[:1] if quick else CONTEXTS):
        good = good and holds
        print(f"| {figure} | {value} | {must} | {'yes' if holds else '**no**'} |", flush=True)
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    sys.exit(0 if main(parser.parse_args().quick) else 1)
