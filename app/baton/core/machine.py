"""This machine: its hardware as types, and sizes in bytes as people read and write them."""

from __future__ import annotations

import math

from baton.core.frozen_dataclass import frozen_dataclass


@frozen_dataclass
class Gpu:
    """A GPU that the engine here can use; memory in bytes. `driver` is "" where unknown.

    `integrated` is one in the processor, as the engine knows it.
    """

    name: str
    free: int
    total: int
    driver: str = ""
    integrated: bool = False

    @property
    def has_shared_memory(self) -> bool:
        """Whether its memory is a part of the machine's own, and must not be counted twice."""
        return self.integrated or "apple" in self.name.lower()


@frozen_dataclass
class Hardware:
    """This machine, or the container that Baton is in if that has less. Sizes in bytes.

    `available` is the memory that could be used now without swapping, `disk` what is free where
    models are. `battery` is how full it is, from 0 to 1 (None: there is none), `plugged` whether it
    is being charged. `idle_gpus` names GPUs that are there, but that the engine here can't use.
    """

    memory: int
    available: int
    cores: int
    threads: int
    processor: str = ""
    gpus: tuple[Gpu, ...] = ()
    disk: int = 0
    battery: float | None = None
    plugged: bool = True
    idle_gpus: tuple[str, ...] = ()

    @property
    def free_percent(self) -> int:
        """The unused share of the memory, in percent."""
        return round(100 * self.available / self.memory)

    @property
    def is_on_battery(self) -> bool:
        """Whether it runs on its battery alone."""
        return self.battery is not None and not self.plugged


# Sizes


_UNITS = ("B", "kB", "MB", "GB", "TB")
_GIB = 2**30


def show_size(size: float) -> str:
    """Write a number of bytes for display: "312 B", "12.3 kB", "1.2 GB"."""
    unit = _unit(size)
    return f"{_figure(size, unit)} {_UNITS[unit]}"


def show_part(done: int, total: int) -> str:
    """Write how many of how many bytes, in the larger one's unit: "0.6 of 1.3 GB"."""
    unit = _unit(max(done, total))
    return f"{_figure(done, unit)} of {_figure(total, unit)} {_UNITS[unit]}"


def show_speed(speed: float) -> str:
    """Write bytes per second for display: "312 B/s", "1.2 MB/s", "12 MB/s"."""
    unit = _unit(speed)
    figure = _figure(speed, unit)
    return f"{figure if float(figure) < 10 else round(float(figure))} {_UNITS[unit]}/s"


def show_memory(size: int) -> str:
    """Write what a machine or a GPU has in all, as it is sold: "16 GB" of 15.6 * 2**30 bytes.

    A system keeps a few percent for itself, and reports only the rest. Modules come in eighths of a
    power of two, at least: 12, 24, 48 GB.
    """
    there = size / _GIB
    step = max(1, 2 ** math.floor(math.log2(max(there, 1)) - 3))
    return f"{math.ceil(there / step) * step} GB"


def _unit(size: float) -> int:
    """Return in which unit a size has less than four digits before the point."""
    fitting = (unit for unit in range(len(_UNITS)) if float(_figure(size, unit)) < 1000)
    return next(fitting, len(_UNITS) - 1)


def _figure(size: float, unit: int) -> str:
    return f"{size / 1000**unit:.{min(unit, 1)}f}"
