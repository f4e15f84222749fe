"""How many bytes something has, in words: the one way in which Baton counts them.

A GB is 10**9 bytes, of memory as of files. So count the hub, disks and the setting `memory_gb`, and
only so can what a model takes be held against its file and against what is free. Memory is sold in
units of 2**30 bytes: a machine sold with 16 GB has up to 17.2 GB.
"""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB")


def show_size(size: float) -> str:
    """Write a number of bytes for a person: "312 B", "12.3 kB", "1.2 GB"."""
    unit = _unit(size)
    return f"{_figure(size, unit)} {_UNITS[unit]}"


def show_part(done: int, total: int) -> str:
    """Write how many of how many bytes, in the larger one's unit: "0.6 of 1.3 GB"."""
    unit = _unit(max(done, total))
    return f"{_figure(done, unit)} of {_figure(total, unit)} {_UNITS[unit]}"


def _unit(size: float) -> int:
    """Return in which unit a size has less than four digits before the point."""
    fitting = (unit for unit in range(len(_UNITS)) if float(_figure(size, unit)) < 1000)
    return next(fitting, len(_UNITS) - 1)


def _figure(size: float, unit: int) -> str:
    return f"{size / 1000**unit:.{min(unit, 1)}f}"
