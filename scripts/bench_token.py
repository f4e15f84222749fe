"""What a token costs the processor on its way from the model to the user, part by part.

    scripts/bench_token              one stream at a time through `baton serve`, and `ask --json`
    scripts/bench_token serve 1      one of them, by one answer instead of five

Answers of 200 tokens, from the first text to the last: what a request costs is left out. The
milliseconds are processor time of threads, from runs without a profiler; those of the two main
threads are divided by what a profiler says of their functions in further runs. Calls are those of
Python's and of built-in functions. `PARTS` says what is of which part. On a busy machine a token
takes longer, and more of what happens so often a second falls on it.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
from answer_stream import stream_answer  # noqa: E402
from bench_local import STORY, home  # noqa: E402
from bench_serve import Target, baton_server  # noqa: E402

TOKENS, FEW_TOKENS = 200, 8
ANSWERS = 5
REST_SECONDS = 0.3
"""How long after an answer what it cost has surely been written down."""

PARTS: Mapping[str, Mapping[str, str]] = {
    "runner": {
        r"model_context\.py:decode$": "llama.cpp",
        r"should_stop|has_cancelled|<lambda>": "asking whether to stop",
        r"child/(sampler|model_context)\.py|numpy": "choosing a word",
        r"child/llama\.py|stream_filters|reasoning_filter|codecs|scheduler\.py:(add|write)$":
            "its text",
        r"baton/ipc/|msgspec|scheduler\.py:_?send$": "frames",
        r"": "scheduling",
    },
    "lender": {"": "passing frames on"},
    "front": {
        r"baton/ipc/": "a call's messages",
        r"baton/workers/": "worker",
        r"baton/history/|baton/platform/|sqlite": "store",
        r"baton/server/|starlette|uvicorn|h11|anyio": "server",
        r"baton/cli/|baton/presentation/": "command line",
        r"baton/core/judging/|baton/core/reading/|/re/": "checks of the text",
        r"baton/core/": "run and events",
        r"": "event loop",
    },
}  # fmt: skip
"""The parts of each process's main thread, by the files and functions that they are."""

THREADS = {
    "_listen": "reading frames",
    "_speak": "writing frames",
    "native": "llama.cpp, other threads",
    "baton-history": "history's thread",
    "baton-ledger": "ledger's thread",
}


Costs = dict[tuple[str, str, str], float]
"""What was used: by process, thread or function, and whether it is `ns`, `s`, `runs` or `calls`."""

RATE = ("", "tokens a second", "")


def read_costs(folder: Path) -> Costs:
    """Return what all processes have written down there."""
    found = defaultdict[tuple[str, str, str], float](float)
    for file in folder.glob("*.json"):
        written = json.loads(file.read_text())
        role = written["role"]
        for thread, spent in written["threads"].items():
            found[role, thread, "ns"] += spent
        for function, (runs, calls, seconds) in written["functions"].items():
            found[role, function, "runs"] += runs
            found[role, function, "calls"] += calls
            found[role, function, "s"] += seconds
    return found


def cost_of_tokens(ask: Callable[[int], int], folder: Path, answers: int) -> Costs:
    """Return what a token costs in several answers; `ask` takes and returns their tokens."""
    ask(FEW_TOKENS)  # the model is loaded
    time.sleep(REST_SECONDS)
    before, began = read_costs(folder), time.perf_counter()
    tokens = sum(ask(TOKENS) for _ in range(answers))
    rate = tokens / (time.perf_counter() - began)
    time.sleep(REST_SECONDS)
    after = read_costs(folder)
    costs = {key: (value - before.get(key, 0)) / tokens for key, value in after.items()}
    return {**costs, RATE: rate}


@contextmanager
def profiled(how: str) -> Iterator[tuple[list[str], Path]]:
    """Give the command that runs Baton and writes down its time, and the folder for that."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        script = str(ROOT / "scripts" / "profiled_baton.py")
        yield [sys.executable, "-P", script, folder, how], Path(folder)


def measure_serve(how: str, answers: int) -> Costs:
    """Ask a server."""
    with (
        profiled(how) as (command, folder),
        tempfile.TemporaryDirectory() as own,
        baton_server(Path(own), context=2048, command=command) as target,
    ):
        return cost_of_tokens(lambda tokens: asyncio.run(_ask(target, tokens)), folder, answers)


async def _ask(target: Target, tokens: int) -> int:
    """Return how many tokens were written."""
    headers = {"authorization": f"Bearer {target.token}"}
    question = [{"role": "user", "content": STORY}]
    async with httpx.AsyncClient(base_url=target.url, headers=headers, timeout=600) as client:
        answer = await stream_answer(client, target.model, question, max_tokens=tokens)
    return answer.written


def measure_ask(how: str, answers: int) -> Costs:
    """Run `ask` over and over, each time with a model process of its own."""
    with profiled(how) as (command, folder), home() as env:

        def ask(tokens: int) -> int:
            words = ["ask", STORY, "--json", "-q", "--no-daemon", "--max-tokens", str(tokens)]
            done = subprocess.run([*command, *words], env=env, capture_output=True, check=True)
            calls: list[dict[str, Any]] = json.loads(done.stdout)["calls"]
            return sum(call["tokens_out"] for call in calls if call["purpose"] == "answer")

        return cost_of_tokens(ask, folder, answers)


def part_of(role: str, function: str) -> str:
    """Return the part that a function of a main thread belongs to."""
    return next(part for pattern, part in PARTS[role].items() if re.search(pattern, function))


def rows(threads: Costs, functions: Costs) -> Iterator[tuple[str, str, float, float]]:
    """Yield process, part, milliseconds and calls of a token."""
    for role in PARTS:
        seconds, calls = defaultdict[str, float](float), defaultdict[str, float](float)
        for (process, name, kind), value in functions.items():
            if process == role and kind in ("s", "calls"):
                (seconds if kind == "s" else calls)[part_of(role, name)] += value
        main = threads.get((role, "MainThread", "ns"), 0) / 1e6
        whole = sum(seconds.values())
        for part in PARTS[role].values():
            share = seconds[part] / whole if whole else 1
            yield role, part, main * share, calls[part]
        for thread, part in THREADS.items():
            if spent := threads.get((role, thread, "ns")):
                yield role, part, spent / 1e6, 0


MESSAGE = "scheduler.py:_send"
"""What the runner does for each message with text."""

WAYS = {"serve": measure_serve, "ask": measure_ask}


def main() -> None:
    """Print a table for each way."""
    names = [name for name in sys.argv[1:] if name in WAYS]
    answers = next((int(number) for number in sys.argv[1:] if number.isdecimal()), ANSWERS)
    for name in names or WAYS:
        threads, functions = (WAYS[name](how, answers) for how in ("threads", "functions"))
        sent = functions["runner", next(key for _, key, _ in functions if MESSAGE in key), "runs"]
        print(f"\n{threads[RATE]:.0f} tokens a second, {sent:.2f} messages with text a token.")
        print(f"\n| `{name}`: process | part | ms a token | calls a token |\n|---|---|---|---|")
        totals = defaultdict[str, float](float)
        for role, part, spent, calls in rows(threads, functions):
            totals[role] += spent
            print(f"| {role} | {part} | {spent:.3f} | {calls:.1f} |", flush=True)
        for role, spent in totals.items():
            print(f"| {role} | **all** | **{spent:.3f}** | |")


if __name__ == "__main__":
    main()
