"""What models take of memory: what is estimated from their headers is what llama.cpp allocates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from prompt_context import PromptContext

from baton.core.sampling_settings import Sampling
from baton.gguf.memory_fit import QUANTISED_BITS, kv_cache_bytes
from baton.ipc.messages import Message
from baton.workers.local import starter
from baton.workers.local.child import llama, main
from baton.workers.local.child.batch_plan import Layout
from baton.workers.local.child.llama_loader import LlamaError, c
from baton.workers.local.messages import GpuDevice, LoadModel, ModelLoaded
from baton.workers.local.model_file import estimate_file_load, read_model_header
from support.tiny_models import LAYERS, WINDOW, scores, tiny

pytestmark = pytest.mark.local_model

GREEDY = Sampling(temperature=0)


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What llama.cpp says of itself, also where all is well."""
    lines: list[str] = []
    monkeypatch.setattr(llama, "_LOUD", (1, 2, 3, 4, 5))
    llama.start(lines.append)
    yield lines
    monkeypatch.undo()
    llama.start(lambda _: None)


def allocated_mib(lines: list[str]) -> float:
    """Return the MiB that llama.cpp allocated for keys, values and states."""
    found = re.findall(r"(?:KV|RS) buffer size = +([\d.]+) MiB", "".join(lines))
    return sum(map(float, found))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["llama", "gemma3", "qwen35"])
@pytest.mark.parametrize("tokens", [2048, 4096])
@pytest.mark.parametrize(("quantised", "slots"), [(False, 1), (True, 1), (True, 4)])
def test_contexts_take_what_was_estimated(
    tmp_path: Path, log_lines: list[str], kind: str, tokens: int, quantised: bool, slots: int
) -> None:
    path = tiny(tmp_path, kind)
    model = llama.Model(path)
    log_lines.clear()
    ctx = model.context(Layout(slots, tokens, False), 1, quantised=quantised, slots=slots)
    assert ctx
    c.llama_free(ctx)
    model.free()
    bits = QUANTISED_BITS if quantised else 16
    expected = kv_cache_bytes(read_model_header(path), tokens, bits, slots)
    assert allocated_mib(log_lines) == pytest.approx(expected / 2**20, abs=0.02)


def test_the_starter_takes_what_was_estimated(log_lines: list[str]) -> None:
    path = starter().path
    model = llama.Model(path)
    log_lines.clear()
    c.llama_free(model.context(Layout(1, 4096, True), 1))
    model.free()
    assert allocated_mib(log_lines) == kv_cache_bytes(read_model_header(path), 4096) / 2**20 == 90


def write_tokens(
    model: llama.Model, ctx: PromptContext, prompt: list[int], count: int
) -> list[int]:
    """Read a prompt and return what follows."""
    ctx.read(prompt, lambda done, total: None)
    with closing(model.sampler(GREEDY)) as sampler:
        return list(islice(ctx.write(sampler), count))


def context(model: llama.Model, quantised: bool = False) -> PromptContext:
    return PromptContext(model, 2048, 1, lambda: False, quantised)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("kind", ["gemma3", "qwen35"])
def test_what_a_layer_has_let_go_is_read_again(tmp_path: Path, kind: str) -> None:
    llama.start(lambda _: None)
    model = llama.Model(tiny(tmp_path, kind))
    assert model.window == (WINDOW if kind == "gemma3" else 0)
    prompt = [3 + (7 * n * n + n) % 256 for n in range(1500)]
    used = context(model)
    for shared in (1500, 1490, 900, 300, 100, 1500):
        again = [*prompt[:shared], 5, 6, 7]
        known = used.read(again, lambda done, total: None)
        assert known == 0 if shared == 900 else known in (0, shared, 100)
        found, fresh = scores(used), context(model)
        fresh.read(again, lambda done, total: None)
        assert found == pytest.approx(scores(fresh), abs=1e-4), (shared, known)
        c.llama_free(fresh.native)
    model.free()


def test_a_quantised_context_makes_sense() -> None:
    llama.start(lambda _: None)
    model = llama.Model(starter().path)
    prompt = model.tokenise("The capital of France is", special=False)
    words = write_tokens(model, context(model, quantised=True), prompt, 4)
    assert "Paris" in b"".join(map(model.piece, words)).decode()
    model.free()


class PipeRecorder:
    """The end of a pipe that keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def is_cancelled(self, _: int) -> bool:
        return False


class SmallGpuModel(llama.Model):
    """A model that finds room on the GPU for so many layers only, or for none with a context."""

    room = 0
    tried: list[int]

    def __init__(self, path: Path, gpu_layers: int = 0, *rest: Any) -> None:
        self.tried.append(gpu_layers)
        if gpu_layers > self.room:
            raise LlamaError("out of memory")
        self.wanted = gpu_layers
        super().__init__(path, 0, *rest)

    def context(self, layout: Layout, threads: int, **rest: Any) -> Any:
        return None if self.wanted else super().context(layout, threads, **rest)


@pytest.mark.parametrize(
    ("room", "tried"), [(99, [5, 2, 1, 0]), (1, [5, 2, 1, 0]), (0, [5, 2, 1, 0])]
)
def test_fewer_layers_are_tried_until_it_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, tried: list[int]
) -> None:
    monkeypatch.setattr(llama, "Model", SmallGpuModel)
    monkeypatch.setattr(SmallGpuModel, "room", room)
    monkeypatch.setattr(SmallGpuModel, "tried", [], raising=False)
    state = load_model(tiny(tmp_path, "llama"), gpu_layers=99)
    assert SmallGpuModel.tried == tried
    assert state.hardware == "CPU only"


def load_model(path: Path, **how: Any) -> ModelLoaded:
    """Have a runner load a model; return what it says of it."""
    parent = PipeRecorder()
    load = estimate_file_load(path, how.get("context", 4096), how.pop("kv", "f16"))
    usual = {"context": 4096, "threads": 1, "gpu_layers": 0, "gpu_share": 1.0, "idle_seconds": 1}
    request = LoadModel(path=path, expected=load, **{**usual, **how})
    main.Runner(parent)._load_file(request)  # type: ignore[arg-type]
    assert isinstance(parent.sent[-1], ModelLoaded)
    return parent.sent[-1]


def test_a_runner_reports_what_its_model_will_take(tmp_path: Path) -> None:
    path = tiny(tmp_path, "gemma3")
    sizes = [load_model(path, kv=kv).bytes for kv in ("f16", "q8_0")]
    kvs = [kv_cache_bytes(read_model_header(path), 4096, bits) for bits in (16, QUANTISED_BITS)]
    assert sizes[0] - sizes[1] >= kvs[0] - kvs[1] > 0
    assert load_model(path, context=2048).bytes < sizes[0]


def test_layers_that_fit_leave_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from baton.gguf.memory_fit import GPU_RESERVED_BYTES, estimate_load

    path = tiny(tmp_path, "llama")
    load = estimate_load(read_model_header(path), path.stat().st_size, 4096)

    def with_free(*free: int) -> int:
        found = [GpuDevice("gpu", "A GPU", free_, 2 * free_) for free_ in free]
        monkeypatch.setattr(llama, "devices", lambda: found)
        return llama.layers_that_fit(load)

    enough = GPU_RESERVED_BYTES + load.weights + load.kv + load.scratch
    assert with_free() == with_free(GPU_RESERVED_BYTES) == 0
    assert with_free(enough) == LAYERS + 1
    assert with_free(enough, GPU_RESERVED_BYTES // 2) == LAYERS + 1
    assert 0 < with_free(enough - load.weights // 2) < LAYERS
