"""Whether models fit into memory together: what they take, and what is free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.machine import Gpu, Hardware, show_memory, show_size

if TYPE_CHECKING:
    from baton.core.catalogue_types import CatalogueEntry
    from baton.gguf.header import Header

COMFORT_SHARE = 0.6
"""What models may take of a machine's memory so that everything else still goes well."""

MEMORY_SHARE = 0.8
"""What they may take at all, unless set otherwise: a model that is judged to fit can be loaded."""

SPARE_BYTES = 256 << 20
"""Bytes of free memory that are left to other programs."""

GPU_RESERVED_BYTES = 1 << 30
"""Bytes of each GPU's memory that are left to the screen and to llama.cpp's scratch space."""

SMALLEST_CONTEXT = 2048
"""A smaller context isn't offered as a remedy: hardly a conversation fits into it."""

PROCESS_BYTES = 42 << 20
"""Bytes of a runner without its model: Python, llama.cpp, numpy. Measured."""

TOKEN_BYTES = 400
"""Bytes that llama.cpp keeps of each word of a vocabulary. Measured: 150 to 460, mostly 350."""

BATCH_TOKENS = 128
GPU_BATCH_TOKENS = 512
"""Tokens that the runner reads at once, without a GPU and with one."""

QUANTISED_BITS = 8.5
"""What a number of 8 bits really takes: 32 of them share a scale of 16 bits."""


class Fit(StrEnum):
    """How well models fit a machine."""

    FITS = "fits"
    TIGHT = "tight"  # it works, with little left for other programs
    SPILLS = "spills"  # a part of it runs on the processor, more slowly
    WONT = "won't"  # it would swap, or be killed


@frozen_dataclass
class ModelLoad:
    """What one model takes, in bytes: weights, and `kv` for `context` tokens.

    `layers` is how many layers the weights are spread over (0: unknown). `fixed` is the part of
    `kv` that doesn't shrink with the context: windows and states. `scratch` is what a GPU computes
    in, beside what it holds of weights and context. With `quantised`, numbers in the context have 8
    bits.
    """

    name: str
    weights: int
    kv: int
    context: int
    overhead: int
    layers: int = 0
    fixed: int = 0
    scratch: int = 0
    quantised: bool = False

    @property
    def total(self) -> int:
        """All of it, where there is no GPU."""
        return self.weights + self.kv + self.overhead

    def with_context(self, context: int) -> ModelLoad:
        """Return what it takes with a smaller context, at most."""
        if context >= self.context:
            return self
        growing = (self.kv - self.fixed) * context // self.context
        return replace(self, kv=self.fixed + growing, context=context)


@frozen_dataclass
class FitVerdict:
    """How well models fit together: `needed` of `room` bytes, `why` in a sentence, and a `remedy`
    ("" where none is needed).
    """

    fit: Fit
    needed: int
    room: int
    why: str
    remedy: str = ""


# What a model takes


def estimate_load(
    header: Header, size: int, context: int, kv_bits: int = 16, slots: int = 1
) -> ModelLoad:
    """Return what a model takes whose header was read; `size` is its file's, or all its parts'.

    `kv_bits` are those of the numbers in its context: 16, or 8; `slots` is how many requests may
    share it. A context larger than the model was
    made for is taken as that.
    """
    context = min(context, header.context or context)
    bits = QUANTISED_BITS if kv_bits < 16 and can_quantise_cache(header) else 16
    vocabulary = TOKEN_BYTES * header.vocabulary
    layers = zip(header.kv_heads, header.windowed, strict=True)
    windows = replace(header, kv_heads=tuple(heads * is_window for heads, is_window in layers))
    return ModelLoad(
        header.name,
        max(size, header.weights),
        kv_cache_bytes(header, context, bits, slots),
        context,
        PROCESS_BYTES + vocabulary + scratch_bytes(header, context, BATCH_TOKENS, flash=bits < 16),
        header.layers,
        kv_cache_bytes(windows, context, bits, slots),
        scratch_bytes(header, context, GPU_BATCH_TOKENS, flash=True),
        bits < 16,
    )


def estimate_entry_load(entry: CatalogueEntry, context: int) -> ModelLoad:
    """Return about what a model of the catalogue takes, before its header was read."""
    context = min(context, entry.context or context)
    parameters = entry.parameters or entry.size * 5 // 3
    per_token = entry.kv_bytes or 40_000 + parameters // 80_000
    vocabulary, small = 96 << 20, entry.size // 50
    computing = max(128 << 20, 4 * BATCH_TOKENS * 24 * context)  # all words' scores, or 24 heads
    return ModelLoad(
        entry.name,
        entry.size,
        per_token * context,
        context,
        PROCESS_BYTES + vocabulary + computing + small,
        scratch=512 << 20,
    )


def kv_cache_bytes(header: Header, context: int, bits: float = 16, slots: int = 1) -> int:
    """Return the bytes of keys, values and states for a context, as llama.cpp keeps them.

    Layers with a window keep that for each slot, and a batch; each slot has a state. Without
    flash attention, all values take as much room as the widest.
    """
    cells = _padded(context)
    layers = list(zip(header.kv_heads, header.windowed, strict=True))
    widest = max((heads * _lengths(header, windowed)[1] for heads, windowed in layers), default=0)
    numbers = 0
    for heads, windowed in layers:
        key, value = _lengths(header, windowed)
        kept = min(cells, _padded(header.window * slots + BATCH_TOKENS)) if windowed else cells
        wide = heads * value if bits < 16 else widest
        numbers += kept * (heads * key + wide) if heads else 0
    return int(numbers * bits / 8) + header.state * slots


def can_quantise_cache(header: Header) -> bool:
    """Whether llama.cpp can keep a model's context in numbers of 8 bits: 32 in a block."""
    lengths = {length for windowed in (False, True) for length in _lengths(header, windowed)}
    return any(lengths) and all(length % 32 == 0 for length in lengths)


def scratch_bytes(header: Header, context: int, batch: int, *, flash: bool) -> int:
    """Return the bytes that llama.cpp computes in, at its widest moment, for a batch of tokens.

    That is the attention over the whole context, the scores of all words, or a layer's inside.
    """
    across = 1.5 if flash else header.heads + 1
    attention = _padded(context) * across + 6 * header.embedding
    words = header.vocabulary + 3 * header.embedding
    inside = 3 * header.feed_forward + 4 * header.embedding
    return int(4 * batch * max(attention, words, inside))


def _lengths(header: Header, windowed: bool) -> tuple[int, int]:
    if windowed:
        return header.window_key_length, header.window_value_length
    return header.key_length, header.value_length


def _padded(tokens: int) -> int:
    return tokens + -tokens % 256


# Whether it fits


def judge_fit(loads: Sequence[ModelLoad], machine: Hardware) -> FitVerdict:
    """Whether models fit this machine together, as it is right now."""
    if not loads:
        return FitVerdict(Fit.FITS, 0, _memory_room(machine), "Nothing has to fit.")
    verdict = _judge(loads, machine)
    if verdict.fit is Fit.FITS:
        return verdict
    return replace(verdict, remedy=_suggest_remedy(loads, machine))


def layers_on_gpu(load: ModelLoad, free: int) -> int:
    """Return how many of a model's layers fit into so many bytes of GPUs; one more means all.

    A model of unknown layers counts as 32.
    """
    layers = load.layers or 32
    free -= load.scratch
    each = (load.weights + load.kv) / layers
    if free >= load.weights + load.kv:
        return layers + 1
    return max(min(int(free / each), layers - 1), 0)


def gpu_room(gpus: Sequence[Gpu]) -> int:
    """Return the bytes that models may take of GPUs together."""
    return sum(max(gpu.free - GPU_RESERVED_BYTES, 0) for gpu in gpus)


def room_beside(gpus: Sequence[Gpu]) -> int:
    """Return the bytes that GPUs have for models beside the machine's own memory."""
    return gpu_room([gpu for gpu in gpus if not gpu.has_shared_memory])


def _memory_room(machine: Hardware, share: float = MEMORY_SHARE) -> int:
    """Return the bytes that models may take of the machine's own memory."""
    return max(min(int(machine.memory * share), machine.available - SPARE_BYTES), 0)


def _judge(loads: Sequence[ModelLoad], machine: Hardware) -> FitVerdict:
    if vram := gpu_room(machine.gpus):
        return _judge_with_gpu(loads, machine, vram)
    needed, room = sum(load.total for load in loads), _memory_room(machine)
    has = f"{show_size(needed)} of the {show_memory(machine.memory)} here"
    if needed > room:
        return _wont_fit(loads, machine, needed, room)
    if needed > _memory_room(machine, COMFORT_SHARE):
        why = f"{_they(loads, 'take')} {has}: little is left for other programs."
        return FitVerdict(Fit.TIGHT, needed, room, why)
    return FitVerdict(Fit.FITS, needed, room, f"{_they(loads, 'take')} {has}.")


def _judge_with_gpu(loads: Sequence[ModelLoad], machine: Hardware, vram: int) -> FitVerdict:
    """Judge a machine with a GPU, which the loads take in their order."""
    left, beside, on_gpu, layers = vram, 0, 0, 0
    for load in loads:
        all_layers = load.layers or 32
        fitting = layers_on_gpu(load, left)
        share = min(fitting / all_layers, 1)
        holds = load.weights + load.kv
        left -= int(holds * share) + (load.scratch if fitting else 0)
        beside += load.total - int(holds * share)
        on_gpu, layers = on_gpu + min(fitting, all_layers), layers + all_layers
    needed = sum(load.total for load in loads)
    room = room_beside(machine.gpus) + _memory_room(machine)
    if any(gpu.has_shared_memory for gpu in machine.gpus):
        beside = needed
    if beside > _memory_room(machine):
        return _wont_fit(loads, machine, needed, room)
    if on_gpu < layers:
        they = "layers" if all(load.layers for load in loads) else "parts"
        rest = "the others run on the processor, more slowly"
        why = f"{on_gpu} of {layers} {they} fit on the GPU; {rest}."
        return FitVerdict(Fit.SPILLS, needed, room, why)
    return FitVerdict(Fit.FITS, needed, room, f"{_they(loads, 'fit')} on the GPU.")


def _wont_fit(loads: Sequence[ModelLoad], machine: Hardware, needed: int, room: int) -> FitVerdict:
    there = show_memory(machine.memory + room_beside(machine.gpus))
    why = f"{show_size(needed)}, and {show_size(room)} of {there} can be used now."
    return FitVerdict(Fit.WONT, needed, room, f"{_they(loads, 'need')} {why}")


def _suggest_remedy(loads: Sequence[ModelLoad], machine: Hardware) -> str:
    """Return what would make a better fit, "" if nothing easy does."""
    before = _judge(loads, machine).fit
    longest = max(load.context for load in loads)
    for context in smaller_contexts(longest):
        after = _judge([load.with_context(context) for load in loads], machine).fit
        if _RANKS[after] < _RANKS[before]:
            smaller, larger = _context_text(context), _context_text(longest)
            return f"{smaller} instead of {larger} of context {_VERBS[after]}."
    if before is not Fit.WONT:
        return ""
    emptied = replace(machine, available=max(machine.available, machine.memory))
    if _judge(loads, emptied).fit is not Fit.WONT:
        return "Close other programs, then it fits."
    if len(loads) > 1:
        return _suggest_leaving_out(loads, machine)
    size = _largest(loads[0].with_context(SMALLEST_CONTEXT), emptied)
    if not size:
        return "Not even a small model fits here."
    return f"Choose a smaller one: its file may have up to {show_size(size)}."


def _largest(load: ModelLoad, machine: Hardware) -> int:
    """Return how large a file like that one may be to fit, in hundreds of megabytes, from below."""
    most = _memory_room(machine) + room_beside(machine.gpus) - load.overhead - load.kv
    for tenths in range(10, 0, -1):
        size = most * tenths // 10 // 10**8 * 10**8
        if size > 0 and _judge([replace(load, weights=size)], machine).fit is not Fit.WONT:
            return size
    return 0


def _suggest_leaving_out(loads: Sequence[ModelLoad], machine: Hardware) -> str:
    """Return which of several loads could be left out, the smallest first."""
    for left_out in sorted(loads, key=lambda load: load.total):
        others = [load for load in loads if load is not left_out]
        if _judge(others, machine).fit is not Fit.WONT:
            return f"Without {left_out.name} it fits."
    return "Choose fewer or smaller ones."


def smaller_contexts(context: int) -> Iterator[int]:
    """Yield smaller contexts that are worth having, the largest first."""
    power = 1 << max(context - 1, 1).bit_length() - 1
    while power >= SMALLEST_CONTEXT:
        yield power
        power //= 2


_RANKS = {fit: rank for rank, fit in enumerate(Fit)}
_VERBS = {
    Fit.FITS: "fits",
    Fit.TIGHT: "fits, tightly",
    Fit.SPILLS: "fits, a part of it beside the GPU",
}


def _they(loads: Sequence[ModelLoad], verb: str) -> str:
    return f"Together they {verb}" if len(loads) > 1 else f"It {verb}s"


def _context_text(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else f"{tokens:,}"
