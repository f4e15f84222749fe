"""How fast `baton ask` is while the background process holds the model.

    scripts/bench_warm [ROUNDS]      10 rounds by default, about a minute

The other side is a bare script that loads the same model with llama_cpp and answers the same
prompt. The two take turns, so that a busy moment hits both; every figure is a median. Beside the
seconds stand those that the processor worked: on a busy machine they say more.
"""

from __future__ import annotations

import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from baton.ipc.borrower import Borrower
from baton.workers.local import starter

QUESTION = "What is the capital of France?"
MODEL, SYSTEM = str(starter().path), starter().card.system
FIRST_TOKEN_MOST, WHOLE_MOST = 0.4, 0.55

BARE = f"""
from llama_cpp import Llama
threads = {psutil.cpu_count(logical=False)}
llm = Llama({MODEL!r}, n_ctx=2048, n_threads=threads, n_threads_batch=threads, verbose=False)
messages = [dict(role="system", content={SYSTEM!r}), dict(role="user", content={QUESTION!r})]
stream = llm.create_chat_completion(messages, temperature=0, repeat_penalty=1.1, stream=True)
for chunk in stream:
    print(chunk["choices"][0]["delta"].get("content", ""), end="", flush=True)
"""

# Nothing stays where this is a container, as many machines that measure are.
BATON = """
from baton.platform import processes as session
session.CONTAINER_FILES = session.CONTAINER_VARIABLES = session.CI_VARIABLES = ()
from baton.cli import main
main()
"""


@dataclass(frozen=True)
class Timing:
    """Seconds until the first byte of the answer and until the end, and seconds of processor."""

    first: float
    whole: float
    processor: float


def measure(command: list[str], env: dict[str, str]) -> Timing:
    """Run a command with stdin and stderr at a terminal, and its answer in a pipe."""
    terminal, end = pty.openpty()
    start = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdin=end, stdout=subprocess.PIPE, stderr=end)
    os.close(end)
    assert process.stdout is not None
    first, output = 0.0, process.stdout.fileno()
    while True:
        ready, _, _ = select.select([output, terminal], [], [], 60)
        if terminal in ready:
            _drain(terminal)
        if output in ready:
            if not os.read(output, 65536):
                break
            first = first or time.perf_counter() - start
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    whole = time.perf_counter() - start
    os.close(terminal)
    if status or not first:
        sys.exit(f"{command[:3]} failed")
    return Timing(first, whole, usage.ru_utime + usage.ru_stime)


def _drain(terminal: int) -> None:
    try:
        os.read(terminal, 65536)
    except OSError:  # nothing has it open any more
        time.sleep(0.001)


def main() -> None:
    """Measure, and print a table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    ours: list[Timing] = []
    bare: list[Timing] = []
    with tempfile.TemporaryDirectory() as folder:
        env = {name: value for name, value in os.environ.items() if name != "CI"}
        env |= {"BATON_HOME": folder, "TERM": "xterm-256color"}
        ask = [sys.executable, "-I", "-c", BATON, "ask", QUESTION]
        cold = measure(ask, env)
        borrower = Borrower(Path(folder) / "state")
        while borrower.description() is None:
            time.sleep(0.05)
        try:
            for _ in range(rounds + 1):
                ours.append(measure(ask, env))
                bare.append(measure([sys.executable, "-I", "-c", BARE], env))
        finally:
            borrower.stop()
    print(f"cold, then handed over: first {cold.first:.2f} s, whole {cold.whole:.2f} s")
    for name, most in (("first", FIRST_TOKEN_MOST), ("whole", WHOLE_MOST), ("processor", None)):
        mine, theirs = (
            statistics.median(getattr(one, name) for one in side[1:]) for side in (ours, bare)
        )
        must = "" if most is None else f"   at most {most}x"
        print(f"{name:10} {mine:6.3f} s   bare {theirs:6.3f} s   {mine / theirs:5.2f}x{must}")


if __name__ == "__main__":
    main()
