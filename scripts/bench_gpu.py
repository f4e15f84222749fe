"""What an NVIDIA card makes of Baton: the CUDA build, offload by `fit`, models of real sizes.

    scripts/bench_gpu                    all steps, on a bare machine with a card: 10 minutes
    scripts/bench_gpu offload sizes      some of them
    scripts/bench_gpu --on-processor     the same without a card, with a small model

It needs Linux on x86-64, Python 3.11 to 3.14, a C++ compiler, the package registry, 12 GB of disk,
some 16 cores to compile within the time, and NVIDIA's driver: 580 or newer for the compiler that
packaging/cuda.lock pins. The machine's own CUDA is used where it is whole (nvcc and cuBLAS, in
$CUDA_HOME or /usr/local/cuda). What is built stays in build/, so a second run has time for more.

Each step is a process of its own: one that fails or takes too long doesn't stop those behind it.
Its figures are printed as they come, and all of them are written to gpu.json in $OUT, else build/.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("scripts", "tests", "packaging")]
import bench_sizes  # noqa: E402
import gpu as plugins  # noqa: E402
from bench_local import QUESTION, Row, print_rows, row  # noqa: E402
from random_models import write_model  # noqa: E402

from baton.core.messages import Message, Request, Role, Usage  # noqa: E402
from baton.gguf.memory_fit import (  # noqa: E402
    GPU_RESERVED_BYTES,
    ModelLoad,
    gpu_room,
    layers_on_gpu,
)
from baton.workers.local import (  # noqa: E402
    LoadSettings,
    LocalWorker,
    Memory,
    ModelProcess,
    memory_of_process,
    probe_gpus,
    probe_llama,
    starter,
)
from baton.workers.local.messages import ModelLoaded  # noqa: E402
from baton.workers.local.model_file import estimate_file_load  # noqa: E402

LIMIT_SECONDS = 600
"""All steps together, the set-up of .venv included."""

ENVIRONMENT = ROOT / "build" / "gpu"
"""As .venv, but with a llama.cpp of its own that has the plugin for CUDA."""

MODELS, SMALL_MODELS = ("1.1b", "3b", "8b"), ("window",)
STREAMS = (1, 4, 8)
ROUNDS = 3
CONTEXT, SMALL_CONTEXT = 8192, 1024

BALLAST = """
import ctypes, sys
memory, cuda = ctypes.c_void_p(), ctypes.CDLL(sys.argv[1])
print(cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(int(sys.argv[2]))), flush=True)
sys.stdin.read()
"""
"""Takes memory of the card until its input ends."""


@dataclass(frozen=True)
class Step:
    """A part of the run: `rows` yields its figures; of ten minutes it may take so many seconds."""

    rows: Callable[[Options], Iterator[Row]]
    seconds: float


@dataclass(frozen=True)
class Options:
    """What the steps work with: a card or the `on_processor` stand-in, and a folder for models."""

    on_processor: bool
    folder: Path

    @property
    def context(self) -> int:
        """The tokens of context that are filled."""
        return SMALL_CONTEXT if self.on_processor else CONTEXT

    @property
    def models(self) -> Sequence[str]:
        """The models that are measured."""
        return SMALL_MODELS if self.on_processor else MODELS


# The steps


def describe_machine(options: Options) -> Iterator[Row]:
    """What is measured on."""
    fields = ("name", "driver_version", "compute_cap", "memory.total", "memory.used")
    values = [] if options.on_processor else _card(*fields)
    for name, value in zip(fields, values, strict=False):
        yield _fact(name, value)
    yield _fact("own CUDA", str(_own_toolkit() or "none"))
    yield _fact("memory", f"{psutil.virtual_memory().total / 1e9:.0f} GB")


def build(options: Options) -> Iterator[Row]:
    """The plugin for CUDA, compiled for this card unless it was before, and who has it."""
    made = None
    if not options.on_processor:
        (capability,) = _card("compute_cap")
        number = capability.replace(".", "")
        known = (name for name in plugins.CUDA_ARCHITECTURES if name.startswith(number))
        os.environ["BATON_CUDA_ARCHITECTURES"] = next(known, f"{number}-real")
        if toolkit := _own_toolkit():
            os.environ["BATON_CUDA_TOOLKIT"] = str(toolkit)
        made = plugins.plugin(Path(sys.executable), "cuda")
        size = (made / "libggml-cuda.so").stat().st_size
        yield _fact("size of the plugin, for this card alone", f"{size / 1e6:.0f} MB")
    _make_environment(made)
    yield _fact("environment", str(ENVIRONMENT.relative_to(ROOT)))


def answer(options: Options) -> Iterator[Row]:
    """The starter's answer on the card, and what llama.cpp says of the card."""
    info = asyncio.run(probe_llama())
    has_card = bool(info.devices)
    words = "; ".join(f"{kind}: {why or 'usable'}" for kind, why in info.gpu_kinds.items())
    devices = [device.description for device in info.devices]
    yield Row("the runner's GPUs", ", ".join(devices) or "none", words, "", "one with a card",
              has_card != options.on_processor)  # fmt: skip
    ours, theirs = (_ask(QUESTION, layers) for layers in ("-1", "0"))
    both = "Paris" in ours and "Paris" in theirs
    yield Row("`ask`, the starter on the card; without it", ours, theirs, "", "Paris in both", both)


def compare_offload(options: Options) -> Iterator[Row]:
    """Layers and memory that `fit` expects, next to what the runner uses: all of it, and half."""
    for name in options.models[::2]:
        path = write_model(name, options.folder)
        load = estimate_file_load(path, options.context)
        yield from _offload(f"{name}, all that is free", path, load)
        if not options.on_processor:
            left = GPU_RESERVED_BYTES + load.scratch + (load.weights + load.kv) // 2
            free = sum(device.free for device in asyncio.run(probe_gpus()))
            with _ballast(free - left):
                yield from _offload(f"{name}, room for half", path, load)


def compare_sizes(options: Options) -> Iterator[Row]:
    """Loading, and tokens a second at 1, 4 and 8 streams, next to a bare loop."""
    for name in options.models:
        path = write_model(name, options.folder)
        rounds = 1 if options.on_processor else ROUNDS
        streams = STREAMS[:2] if options.on_processor else STREAMS
        yield from bench_sizes.bench_load(name, path, rounds)
        yield from bench_sizes.bench_write_alone(name, path, streams, rounds)


STEPS = {
    "machine": Step(describe_machine, 20),
    "build": Step(build, 420),
    "answer": Step(answer, 60),
    "offload": Step(compare_offload, 120),
    "sizes": Step(compare_sizes, 240),
}


# What they consist of


def _fact(what: str, value: str) -> Row:
    return Row(what, value, "", "", "", True)


def _card(*fields: str) -> list[str]:
    """Return what NVIDIA's own program says of the first card; sizes in MiB."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    line = subprocess.check_output(command, text=True, timeout=20).splitlines()[0]
    return [value.strip() for value in line.split(",")]


def _own_toolkit() -> Path | None:
    """Return the machine's own CUDA, if all is there that llama.cpp is compiled with."""
    for folder in map(Path, (os.environ.get("CUDA_HOME") or "/usr/local/cuda", "/usr/local/cuda")):
        if (folder / "bin/nvcc").exists() and (folder / "lib64/libcublas.so").exists():
            return folder.resolve()
    return None


def _make_environment(plugin: Path | None) -> None:
    """Make the environment that has the plugin; the rest of it is .venv's."""
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    venv.create(ENVIRONMENT, symlinks=True)
    (site,) = ENVIRONMENT.glob("lib/python3*/site-packages")
    spec = importlib.util.find_spec("llama_cpp")
    assert spec is not None
    assert spec.origin is not None
    own = Path(spec.origin).parent
    shutil.copytree(own, site / own.name)
    (site / "checkout.pth").write_text(f"import site; site.addsitedir({str(own.parent)!r})\n")
    libraries = site / own.name / "lib"
    for path in libraries.glob("*.so.?"):  # one file for all names, else it is loaded once for each
        (libraries / path.stem).unlink(missing_ok=True)
        (libraries / path.stem).symlink_to(path.name)
    for path in plugin.iterdir() if plugin else ():
        shutil.copyfile(path, libraries / path.name)


def _ask(question: str, layers: str) -> str:
    """Return what `baton ask` answers with so many layers on the card."""
    command = [sys.executable, "-P", "-m", "baton", "ask", "--no-daemon", question]
    with tempfile.TemporaryDirectory() as home:
        own = {"BATON_HOME": home, "BATON_LOCAL__GPU_LAYERS": layers}
        done = subprocess.run(
            command, env={**os.environ, **own}, capture_output=True, text=True, timeout=60
        )
    return (done.stdout.strip() or done.stderr.strip())[:120]


@contextmanager
def _ballast(size: int) -> Iterator[None]:
    """Take so many bytes of the card's memory."""
    if size <= 0:
        yield
        return
    library = next(ENVIRONMENT.rglob("libcudart.so*"))
    command = [sys.executable, "-I", "-c", BALLAST, str(library), str(size)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        if (failure := holder.stdout.readline().strip()) != "0":
            raise RuntimeError(f"cudaMalloc fails with {failure}")
        yield
    finally:
        holder.kill()
        holder.wait()


def _offload(what: str, path: Path, load: ModelLoad) -> Iterator[Row]:
    """Compare what a runner does with what is expected of the memory that is free now."""
    gpus = asyncio.run(probe_gpus())
    expected = layers_on_gpu(load, room) if (room := gpu_room(gpus)) else 0
    loaded, on_card, on_machine = asyncio.run(_load(path, load.context, has_card=bool(gpus)))
    layers = min(expected, load.layers)
    words = f"{layers}/{load.layers} layers on GPU" if layers else "CPU only"
    yield Row(f"{what}: layers", loaded.hardware, words, "", "equal", loaded.hardware == words)
    if not layers:
        yield row(f"{what}: memory", on_machine / 1e6, load.total / 1e6, 1.07, "MB")
        return
    holds = int((load.weights + load.kv) * layers / load.layers) + load.scratch
    ratio, must = f"{on_card / holds:.2f}x", "at least 0.93x, at most 1 GiB more"
    is_right = 0.93 * holds <= on_card <= holds + GPU_RESERVED_BYTES
    sizes = (f"{size / 1e6:,.0f} MB" for size in (on_card, holds))
    yield Row(f"{what}: memory on the card", next(sizes), next(sizes), ratio, must, is_right)


async def _load(path: Path, context: int, *, has_card: bool) -> tuple[ModelLoaded, int, int]:
    """Have a runner read so much text that its context is full.

    Returns what it says, and the bytes that it takes of the card and of the machine.
    """
    before = _used_memory() if has_card else 0
    model = ModelProcess(path, Memory(), LoadSettings(context, slots=1), force=True)
    worker = LocalWorker(replace(starter().card, context=context), model)
    text = bench_sizes.some_text(context - context // 12, random.Random(0))
    try:
        async for chunk in worker.stream(Request((Message(Role.USER, text),), max_tokens=4)):
            if isinstance(chunk, Usage):
                break
        assert model.loaded is not None
        assert model.pid is not None
        on_card = _used_memory() - before if has_card else 0
        return model.loaded, on_card, memory_of_process(model.pid)
    finally:
        await worker.aclose()


def _used_memory() -> int:
    """Return the bytes of the card that all programs use."""
    return int(_card("memory.used")[0]) << 20


# Running them


def run_step(name: str, options: Options, seconds: float) -> dict[str, Any]:
    """Run a step in a process of its own; return its figures, how it ended and how long it took."""
    own = ENVIRONMENT / "bin" / "python"
    python = sys.executable if name in ("machine", "build") or not own.exists() else str(own)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as passing:
        file = Path(passing) / "rows"
        file.touch()
        command = [python, "-I", __file__, name, "--step", str(file), "--folder"]
        command += [str(options.folder), *["--on-processor"] * options.on_processor]
        print(f"\n## {name}\n", flush=True)
        process = subprocess.Popen(command, start_new_session=True)
        try:
            status = "done" if process.wait(max(seconds, 0)) == 0 else "failed"
        except subprocess.TimeoutExpired:
            status = "stopped: it took too long"
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it has started ends with it
        process.wait()
        rows = [json.loads(line) for line in file.read_text().splitlines()]
    took = round(time.monotonic() - began, 1)
    print(f"\n{name}: {status}, {took} s", flush=True)
    return {"step": name, "status": status, "seconds": took, "rows": rows}


def print_step(name: str, options: Options, file: Path) -> None:
    """Print a step's figures, and add each to a file as soon as it is known."""

    def kept() -> Iterator[Row]:
        for line in STEPS[name].rows(options):
            with file.open("a") as out:
                out.write(json.dumps(asdict(line)) + "\n")
            yield line

    print_rows(kept())


def main() -> int:
    """Run the steps; return 1 unless all were done."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], metavar="STEP")
    parser.add_argument("--on-processor", action="store_true")
    parser.add_argument("--minutes", type=float, default=LIMIT_SECONDS / 60)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "gpu-models")
    parser.add_argument("--step", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    options = Options(asked.on_processor, asked.folder)
    options.folder.mkdir(parents=True, exist_ok=True)
    if asked.step is not None:
        print_step(asked.steps[0], options, asked.step)
        return 0
    end = psutil.Process().create_time() + 60 * asked.minutes  # scripts/bench_gpu has its process
    out = Path(os.environ.get("OUT") or ROOT / "build") / "gpu.json"
    results = list[dict[str, Any]]()
    for name in asked.steps or STEPS:
        most = STEPS[name].seconds * 60 * asked.minutes / LIMIT_SECONDS
        left = min(most, end - time.time())
        results.append(run_step(name, options, left))
        out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nAll figures: {out}")
    return int(any(result["status"] != "done" for result in results))


if __name__ == "__main__":
    sys.exit(main())
