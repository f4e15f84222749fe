"""Formats numbers of bytes, in one way everywhere.

A GB is 10**9 bytes, of memory as of files. So count the hub, disks and the setting `memory_gb`, and
only so can what a model takes be held against its file and against what is free. A machine's memory
as a whole is shown as it is sold, in units of 2**30 bytes: a person who bought 16 GB expects 16.
"""

from __future__ import annotations

import math

_UNITS = ("B", "kB", "MB", "GB", "TB")
_GIB = 2**30


def show_size(size: float) -> str:
    """Write a number of bytes for a person: "312 B", "12.3 kB", "1.2 GB"."""
    unit = _unit(size)
    return f"{_figure(size, unit)} {_UNITS[unit]}"


def show_part(done: int, total: int) -> str:
    """Write how many of how many bytes, in the larger one's unit: "0.6 of 1.3 GB"."""
    unit = _unit(max(done, total))
    return f"{_figure(done, unit)} of {_figure(total, unit)} {_UNITS[unit]}"


def show_speed(speed: float) -> str:
    """Write bytes per second for a person: "312 B/s", "1.2 MB/s", "12 MB/s"."""
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
