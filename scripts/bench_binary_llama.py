"""How fast the packaged llama.cpp computes next to the checkout's, compiled for this machine.

    bench_binary_llama.py [FOLDER]     the folder that holds the packaged libraries, or one above it
                                       (else dist/folder/baton)

The same program reads a prompt and writes an answer with one and with the other, each in a process
of its own, in turn, so that a busy moment hits both. The figures are medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MUST = 0.95
"""How fast the packaged one is at least, in parts of the native one."""

ROUNDS = 8

COMPILERS = ("libgomp.so.1", "libgcc_s.so.1", "libstdc++.so.6")
"""What its compiler adds and the packaged program brings along, where it does."""

MEASURE = """
import json, sys, time
sys.path[:0] = sys.argv[1:]
from baton.workers.local import starter
from baton.workers.local.child import llama
from prompt_context import PromptContext
from baton.core.sampling_settings import Sampling
import psutil

llama.start(lambda text: None)
info = llama.info()
threads = psutil.cpu_count(logical=False)
model = llama.Model(str(starter().path))
prompt = model.tokenise("The lighthouse keeper looked at the sea. " * 64, False)
context = PromptContext(model, 1024, threads, lambda: False)
context.read(prompt[:20], lambda done, total: None)  # what is slow once only
began = time.perf_counter()
context.read(prompt, lambda done, total: None)
read = time.perf_counter()
answer = context.write(model.sampler(Sampling(temperature=0)))
next(answer)
first = time.perf_counter()
count = sum(1 for _, _ in zip(answer, range(100)))
written = time.perf_counter()
print(json.dumps({
    "processor": info.processor,
    "reading": (len(prompt) - 20) / (read - began),
    "writing": count / (written - first),
}))
"""


@dataclass(frozen=True)
class Speeds:
    """Tokens per second, and the processor that it was compiled for ("" for this one)."""

    reading: float
    writing: float
    processor: str = ""


def main() -> None:
    """Print the table; fail when the packaged one is slower than promised."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist/folder/baton")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    packaged, native = compare(asked.folder, asked.rounds)
    print(f"| tokens/s | packaged ({packaged.processor}) | for this machine | ratio | at least |")
    print("|---|---|---|---|---|")
    for figure in ("reading", "writing"):
        ours, theirs = getattr(packaged, figure), getattr(native, figure)
        print(f"| {figure} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f}x | {MUST}x |")
    sys.exit(packaged.writing / native.writing < MUST or packaged.reading / native.reading < MUST)


def compare(folder: Path, rounds: int = ROUNDS) -> tuple[Speeds, Speeds]:
    """Return how fast the packaged llama.cpp is, and the one compiled for this machine."""
    library = next(folder.rglob("libllama.so*"), None)
    if library is None:
        sys.exit(f"No libllama.so under {folder}: build it first (scripts/build).")
    with tempfile.TemporaryDirectory() as site:
        _package(library.parent, Path(site))
        environ = {**os.environ, "GOMP_SPINCOUNT": "1000"}
        own = {**environ, "LD_LIBRARY_PATH": str(Path(site) / "own")}
        pairs = [(_measure(site, own), _measure("", environ)) for _ in range(rounds + 1)][1:]
    packaged, native = zip(*pairs, strict=True)
    return _median(packaged), _median(native)


def _package(libraries: Path, site: Path) -> None:
    """Put together a package llama_cpp with these libraries and the checkout's Python code."""
    libraries = libraries.resolve()
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        sys.exit("The checkout has no llama.cpp: start it once (scripts/baton).")
    shutil.copytree(
        Path(spec.origin).parent, site / "llama_cpp", ignore=shutil.ignore_patterns("lib")
    )
    (site / "llama_cpp" / "lib").symlink_to(libraries)
    (site / "own").mkdir()
    for name in COMPILERS:
        if (path := libraries.parent.parent / name).exists():
            (site / "own" / name).symlink_to(path)


def _measure(site: str, environ: dict[str, str]) -> Speeds:
    folders = [site or str(ROOT / "app"), str(ROOT / "scripts" / "training" / "conductor")]
    command = [sys.executable, "-P", "-c", MEASURE, *folders]
    done = subprocess.run(command, env=environ, capture_output=True, encoding="utf-8")
    if done.returncode:
        sys.exit(f"It failed: {done.stderr[-2000:]}")
    return Speeds(**json.loads(done.stdout))


def _median(all_: tuple[Speeds, ...]) -> Speeds:
    return Speeds(
        statistics.median(one.reading for one in all_),
        statistics.median(one.writing for one in all_),
        all_[0].processor,
    )


if __name__ == "__main__":
    main()
