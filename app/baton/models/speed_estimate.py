"""How fast a model will write here, before it is here: estimated from the starter model's speed.

A model reads all the weights that a token uses for each token that it writes, and on a processor
the memory's speed is the limit. So a model of ten times the bytes takes ten times as long. The
starter model is so small that it waits for other things too, which makes the estimate low: a file
of 1.4 GB was reported to write 10 tokens/s on two cores like those on which the starter wrote 100,
where this says 7.

On a GPU the starter hardly waits for memory at all, so its speed shows only the delay that every
token has. What cards read per second grows with the memory they have: from 14 times
(Tesla P40) over 28 (RTX 3050) to 56 times (RTX 3070) all of it per second, and 6 to 12 times where
it is the machine's own (Apple). Taken are 15 and 6.
"""

from __future__ import annotations

from baton.core.catalogue_types import CatalogueEntry
from baton.core.machine import Hardware
from baton.core.messages import DEFAULT_CONTEXT
from baton.gguf.memory_fit import ModelLoad, estimate_entry_load, gpu_room, layers_on_gpu

STARTER_BYTES = 98_000_000
"""What the starter model reads for each token: its whole file."""

_STARTER_CORE_SPEED, _MAX_CORES = 45.0, 8
"""Tokens/s of the starter for each core where nothing was measured; more cores than that share the
same memory. Two cores of a server from 2021 made 100."""

_STARTER_GPU_SPEED = 200.0
"""The same on a GPU."""

_GPU_READS_PER_SECOND, _SHARED_READS_PER_SECOND = 15, 6
"""How many times per second a GPU reads all of its memory, at least."""

_BYTES_PER_PARAMETER = 0.6
"""Bytes per parameter of a file of unknown size."""


def expected_speed(entry: CatalogueEntry, machine: Hardware, starter: float) -> float:
    """Return about how many tokens/s a model will make, from the starter model's tokens/s."""
    return round_speed(estimate_speed(entry, machine, starter))


def round_speed(tokens: float) -> float:
    """Round a speed to the precision of the estimate."""
    step = 1 if tokens < 10 else 5 if tokens < 50 else 10
    return round(max(tokens, 0.0) / step) * step if tokens >= 1 else round(max(tokens, 0.0), 1)


def usual_starter_speed(machine: Hardware) -> float:
    """Return how many tokens/s the starter model usually makes on such a machine, unmeasured."""
    return (
        _STARTER_GPU_SPEED
        if machine.gpus
        else _STARTER_CORE_SPEED * min(max(machine.cores, 1), _MAX_CORES)
    )


def estimate_speed(
    entry: CatalogueEntry, machine: Hardware, starter: float, *, context: int = DEFAULT_CONTEXT
) -> float:
    """Return the tokens/s unrounded."""
    starter = max(starter, 0.1)
    needed = _bytes_per_token(entry)
    if not machine.gpus:
        return starter * STARTER_BYTES / needed
    share = gpu_share(estimate_entry_load(entry, context), machine)
    on_card = needed * share / max(_gpu_bytes_per_second(machine), starter * STARTER_BYTES)
    beside = needed * (1 - share) / _cpu_bytes_per_second(machine)
    return 1 / (1 / starter + on_card + beside)


def gpu_share(load: ModelLoad, machine: Hardware) -> float:
    """Return the share of a model that fits on the GPUs, from 0 to 1."""
    fitting = layers_on_gpu(load, gpu_room(machine.gpus))
    return min(max(fitting, 0) / (load.layers or 32), 1.0)


def _bytes_per_token(entry: CatalogueEntry) -> float:
    """Return the bytes that a model reads for each token: of experts, the few that are asked."""
    size = entry.size or entry.parameters * _BYTES_PER_PARAMETER or STARTER_BYTES
    if not 0 < entry.active < entry.parameters:
        return float(size)
    return size * entry.active / entry.parameters


def _gpu_bytes_per_second(machine: Hardware) -> float:
    """Return the bytes that a GPU reads per second, at least."""
    reads = sum(
        gpu.total * (_SHARED_READS_PER_SECOND if gpu.has_shared_memory else _GPU_READS_PER_SECOND)
        for gpu in machine.gpus
    )
    return reads / len(machine.gpus)  # one after the other reads its share


def _cpu_bytes_per_second(machine: Hardware) -> float:
    """Return the bytes that the processor reads from memory per second, unmeasured."""
    return STARTER_BYTES * _STARTER_CORE_SPEED * min(max(machine.cores, 1), _MAX_CORES)
