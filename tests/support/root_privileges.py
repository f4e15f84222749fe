"""Root's right to pass over file modes, given up for a while."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_VERSION_3 = 0x20080522
_READ_AND_WRITE_ANYTHING = (1 << 1) | (1 << 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


@contextmanager
def held_to_file_modes() -> Iterator[None]:
    """Have this thread obey file modes as any other user's does; skip where root can't."""
    if os.geteuid() != 0:
        yield
        return
    if sys.platform != "linux":
        pytest.skip("root may read and write everything")
    library = ctypes.CDLL(None, use_errno=True)
    header, before = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    if library.capget(header, before):
        raise OSError(ctypes.get_errno(), "capget")
    less = (ctypes.c_uint32 * 6)(*before)
    less[0] &= ~_READ_AND_WRITE_ANYTHING  # of those in effect
    if library.capset(header, less):
        raise OSError(ctypes.get_errno(), "capset")
    try:
        yield
    finally:
        library.capset(header, before)
