"""llama.cpp through its C interface: a model and its adapters; its context: `model_context`.

The package's own `Llama` class is left aside: the C interface gives cancellation at any moment,
progress, reuse of what was read before, and a start that is 0.2 s quicker.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from baton.core.sampling_settings import Sampling
from baton.gguf.memory_fit import (
    BATCH_TOKENS,
    GPU_BATCH_TOKENS,
    GPU_RESERVED_BYTES,
    ModelLoad,
    layers_on_gpu,
)
from baton.gguf.split_files import part_paths
from baton.ipc.parent_channel import Failure
from baton.workers.local.child.batch_plan import FEW_SLOTS, Layout
from baton.workers.local.child.llama_loader import LlamaError, c, gpu_kinds, load_backends
from baton.workers.local.child.sampler import FIRST_TOKENS, GrammarSampler, Sampler
from baton.workers.local.messages import GpuDevice, LlamaInfo

MIN_PLAIN_PARAMETERS = 400_000_000
"""Smaller models answer several at once with flash attention; see `Model.context`."""

MIN_COPIED_BYTES = 32 << 20
"""From so many bytes on that llama.cpp has copied of a file, the file's pages are let go. It puts
weights in another order for the processor, or on a GPU, and keeps in memory what it read."""

PROMPT_KEY = "baton.conductor.prompt"
"""An adapter's metadata that says how its prompt is written, instead of the chat template."""

BASE_KEY = "baton.conductor.base_sha256"
"""An adapter's metadata that names the SHA-256 of the only model file that it is for."""

_complaints: deque[str] = deque(maxlen=20)
"""What llama.cpp logged last: the only place where it says why an adapter doesn't fit."""

_log: Any = None


def start(log: Callable[[str], None]) -> None:
    """Begin to use llama.cpp; its warnings and errors go to `log`, the rest nowhere.

    Raises LlamaError.
    """

    def receive(level: int, text: bytes, _: object) -> None:
        if level in _LOUD:
            _complaints.append(text.decode("utf-8", "replace"))
            log(_complaints[-1])

    global _log
    _log = c.llama_log_callback(receive)  # must outlive every call
    c.llama_log_set(_log, ctypes.c_void_p())
    load_backends()  # else it searches for them where it shouldn't
    c.llama_backend_init()


def info() -> LlamaInfo:
    """Return which llama.cpp this is, what it was built for, and the GPUs it can use."""
    return LlamaInfo(
        version=c.llama_version().decode(),
        processor=load_backends(),
        system=c.llama_print_system_info().decode().strip(),
        gpu=bool(c.llama_supports_gpu_offload()),
        gpu_kinds=gpu_kinds(),
        devices=devices(),
    )


def devices() -> list[GpuDevice]:
    """Return the GPUs this build can use: those in the processor only where there are no others."""
    if not c.llama_supports_gpu_offload():
        return []
    from llama_cpp._ggml import libggml as lib

    lib.ggml_backend_dev_get.restype = ctypes.c_void_p
    lib.ggml_backend_dev_name.restype = ctypes.c_char_p
    lib.ggml_backend_dev_description.restype = ctypes.c_char_p
    lib.ggml_backend_dev_count.restype = ctypes.c_size_t
    found = []
    for index in range(lib.ggml_backend_dev_count()):
        device = ctypes.c_void_p(lib.ggml_backend_dev_get(ctypes.c_size_t(index)))
        if (kind := lib.ggml_backend_dev_type(device)) in (_GPU, _SHARED_GPU):
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            lib.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
            name = lib.ggml_backend_dev_name(device).decode("utf-8", "replace")
            description = lib.ggml_backend_dev_description(device).decode("utf-8", "replace")
            shared = kind == _SHARED_GPU
            found.append(GpuDevice(name, description, free.value, total.value, shared))
    return [device for device in found if not device.shared] or found


_GPU, _SHARED_GPU = 1, 2  # GGML_BACKEND_DEVICE_TYPE_GPU and _IGPU
_LOUD = (3, 4)  # GGML_LOG_LEVEL_WARN, GGML_LOG_LEVEL_ERROR


def layers_that_fit(load: ModelLoad) -> int:
    """Guess how many of a model's layers the GPUs have room for; one more than it has means all."""
    free = sum(max(device.free - GPU_RESERVED_BYTES, 0) for device in devices())
    return layers_on_gpu(load, free) if free else 0


def check_file(path: Path) -> Model:
    """Return what llama.cpp would load of a file, without its weights: milliseconds at any size.

    Raises LlamaError unless its kind, its words and all tensors are as they should be.
    """
    return Model(path, weights=False)


class Model:
    """A loaded model file. Raises LlamaError when llama.cpp won't load it.

    Without its `weights` it can only be looked at.

    `batch` is how many tokens it reads at once: on a processor few, which isn't slower than more,
    and progress is seen to move. It is always the same on one machine, so that an answer doesn't
    depend on its pace.
    """

    def __init__(
        self,
        path: Path,
        gpu_layers: int = 0,
        progress: Callable[[float], None] = lambda _: None,
        *,
        weights: bool = True,
    ) -> None:
        def report(fraction: float, _: object) -> bool:
            progress(fraction)
            return True

        parameters = c.llama_model_default_params()
        parameters.n_gpu_layers = gpu_layers
        if not weights:
            parameters.no_alloc, parameters.load_mode = True, c.LLAMA_LOAD_MODE_NONE
        parameters.progress_callback = c.llama_progress_callback(report)
        before = _copied_bytes()
        self._model = c.llama_model_load_from_file(os.fsencode(path), parameters)
        if not self._model:
            raise LlamaError("llama.cpp can't load it")
        if _copied_bytes() - before > MIN_COPIED_BYTES:
            _leave_pages(path)
        self.path = path
        self._vocab = c.llama_model_get_vocab(self._model)
        self.vocabulary = c.llama_vocab_n_tokens(self._vocab)
        if not self.vocabulary or not c.llama_model_has_decoder(self._model):
            raise LlamaError("it isn't a language model")
        if c.llama_model_has_encoder(self._model) or c.llama_model_is_diffusion(self._model):
            raise LlamaError("it isn't a chat model")
        self.trained_context = c.llama_model_n_ctx_train(self._model)
        self.layers = c.llama_model_n_layer(self._model)
        self.gpu_layers = min(gpu_layers, self.layers) if c.llama_supports_gpu_offload() else 0
        self.batch = GPU_BATCH_TOKENS if self.gpu_layers else BATCH_TOKENS
        self.parameters = c.llama_model_n_params(self._model)
        self.window = c.llama_model_n_swa(self._model)

    def free(self) -> None:
        """Let the memory go; the model can't be used after it."""
        c.llama_model_free(self._model)

    def metadata(self, key: str) -> str | None:
        """Return a value of the file's header as text, None if it isn't there."""
        return _header_text(c.llama_model_meta_val_str, self._model, key)

    @property
    def template(self) -> str | None:
        """The chat template's source."""
        source = c.llama_model_chat_template(self._model, None)
        return source.decode("utf-8", "replace") if source else None

    def special_text(self, name: str) -> str:
        """Return the text of the `bos` or `eos` token, "" if there is none."""
        token = {"bos": c.llama_vocab_bos, "eos": c.llama_vocab_eos}[name](self._vocab)
        return self.piece(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    def with_bos(self, tokens: list[int]) -> list[int]:
        """Return a prompt's tokens with the BOS that the model wants and the template forgot."""
        bos = c.llama_vocab_bos(self._vocab)
        if not c.llama_vocab_get_add_bos(self._vocab) or tokens[:1] == [bos]:
            return tokens
        return [bos, *tokens]

    def tokenise(self, text: str, special: bool) -> list[int]:
        """Return the text's tokens; `special` lets it name control tokens."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 2
        while True:
            buffer = (c.llama_token * room)()
            count = c.llama_tokenize(self._vocab, data, len(data), buffer, room, False, special)
            if count >= 0:
                return buffer[:count]
            if -count <= room:
                raise LlamaError("llama.cpp can't read the prompt")
            room = -count  # what it puts before the text may be words that it has to spell

    def piece(self, token: int, special: bool = False) -> bytes:
        """Return a token's bytes; not always whole characters."""
        buffer = ctypes.create_string_buffer(64)
        size = c.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)
        if size < 0:
            buffer = ctypes.create_string_buffer(-size)
            size = c.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)
        return buffer.raw[: max(size, 0)]

    def adapter(self, path: Path) -> Any:
        """Load a LoRA adapter, which stays as long as the model; None if it isn't one for this."""
        return c.llama_adapter_lora_init(self._model, os.fsencode(path))

    def adapter_metadata(self, adapter: Any, key: str) -> str:
        """Return a value of an adapter's header as text, "" if it isn't there."""
        return _header_text(c.llama_adapter_meta_val_str, adapter, key) or ""

    def is_end(self, token: int) -> bool:
        """Whether a token ends an answer."""
        return bool(c.llama_vocab_is_eog(self._vocab, token))

    @property
    def has_costly_slots(self) -> bool:
        """Whether each slot of a context takes memory of its own: for a window, or a state."""
        has_state = c.llama_model_is_recurrent(self._model) or c.llama_model_is_hybrid(self._model)
        return bool(self.window or has_state)

    def can_split(self, quantised: bool) -> bool:
        """Whether each slot of a context can have room of its own at no cost but that."""
        return not (quantised or self.gpu_layers or self.has_costly_slots)

    def context(
        self, layout: Layout, threads: int, *, quantised: bool = False, slots: int = 1
    ) -> Any:
        """Return a new llama.cpp context with that room, None if there is no memory for it.

        `slots` is how many there may be later on. One that is quantised keeps its keys and values
        in numbers of 8 bits instead of 16. With flash attention a slot's token doesn't pass over
        what others have read in the same room; but on a processor it makes one's own text dearer:
        1.1B, 1,536 tokens of context, 28 tokens/s instead of 31 (AVX-512), on another machine 19
        instead of 30. It is less work for several short texts, which counts where a model is tiny:
        135M, 16 of them, 248 tokens/s instead of 206.
        """
        is_better_with_flash = self.has_costly_slots or self.parameters < MIN_PLAIN_PARAMETERS
        parameters = c.llama_context_default_params()
        parameters.n_ctx = layout.size * (layout.width if layout.is_split else 1)
        parameters.n_batch = self.batch
        parameters.n_seq_max, parameters.kv_unified = layout.width, not layout.is_split
        parameters.swa_full = False  # layers with a window keep no more than they look at
        parameters.n_threads = parameters.n_threads_batch = threads
        if quantised:
            parameters.type_k = parameters.type_v = c.GGML_TYPE_Q8_0
            parameters.flash_attn_type = c.LLAMA_FLASH_ATTN_TYPE_ENABLED  # nothing else reads that
        elif not self.gpu_layers and (slots <= FEW_SLOTS or not is_better_with_flash):
            parameters.flash_attn_type = c.LLAMA_FLASH_ATTN_TYPE_DISABLED
        return c.llama_init_from_model(self._model, parameters)

    def sampler(
        self, how: Sampling, grammar: str | None = None, first: int = FIRST_TOKENS
    ) -> Sampler:
        """Return what chooses the tokens of one answer, within a grammar if there is one.

        How sure the model is counts for all of the `first` tokens, and for some of the others.
        """
        if grammar is None:
            return Sampler(self.vocabulary, how, first)
        return GrammarSampler(self._vocab, self.vocabulary, how, grammar, first)


def _header_text(read: Callable[..., int], owner: Any, key: str) -> str | None:
    """Return a value of a header as text, None if it isn't there; `read` is llama.cpp's way."""
    size = read(owner, key.encode(), None, 0)
    if size < 0:
        return None
    buffer = ctypes.create_string_buffer(size + 1)
    read(owner, key.encode(), buffer, size + 1)
    return buffer.value.decode("utf-8", "replace")


def _copied_bytes() -> int:
    """Return the bytes that this process has in memory beside files; 0 where that isn't known."""
    if sys.platform != "linux":
        return 0
    _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text("ascii").split())
    return (resident - shared) * mmap.PAGESIZE


def _leave_pages(path: Path) -> None:
    """Have this process let go of a model's pages; those that are used come back one by one."""
    library, files = ctypes.CDLL(None), {os.fsencode(part.resolve()) for part in part_paths(path)}
    for line in Path("/proc/self/maps").read_bytes().splitlines():
        if line.split(maxsplit=5)[-1] in files:
            start, end = (int(address, 16) for address in line.split(maxsplit=1)[0].split(b"-"))
            library.madvise(
                ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED
            )


class Adapters:
    """The LoRA adapters that were put on a model. They stay in memory with it: they are small."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._loaded: dict[tuple[Path, int], Any] = {}

    def get(self, path: Path | None) -> Any:
        """Return an adapter, None without a path. Raises Failure where it isn't one for this."""
        if path is None:
            return None
        try:
            key = (path, path.stat().st_mtime_ns)
        except OSError as error:
            raise _unfit(path, f"it can't be read: {error.strerror}") from error
        if key not in self._loaded:
            _complaints.clear()
            adapter = self._model.adapter(path)
            if not adapter:
                raise _unfit(path, _unfit_reason("".join(_complaints)))
            base = self._model.adapter_metadata(adapter, BASE_KEY)
            if base and base != _sha256(self._model.path):
                raise _unfit(path, "it was made for another one")
            self._loaded[key] = adapter
        return self._loaded[key]

    def prompt(self, path: Path | None) -> str:
        """Return how an adapter's prompt is written, with `{prompt}` in it; "" for a chat."""
        adapter = self.get(path)
        return self._model.adapter_metadata(adapter, PROMPT_KEY) if adapter else ""


def _sha256(path: Path) -> str:
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unfit(path: Path, why: str) -> Failure:
    return Failure(
        "AdapterError",
        f"The adapter {path.name} can't be put on this model: {why}.",
        "Choose one that was made for it, or take `adapter` out of the worker's settings.",
    )


def _unfit_reason(log: str) -> str:
    """Put llama.cpp's complaint into plain words."""
    if any(word in log for word in ("general.type", "adapter.type", "unexpected suffix")):
        return "it isn't a LoRA adapter"
    if any(word in log for word in ("mismatch", "base model", "transposed")):
        return "it was made for another one"
    return "the file is broken, or there is no memory for it"
