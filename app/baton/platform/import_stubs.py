"""Imports of a part of a library whose own start would import much more."""

from __future__ import annotations

import importlib.util
import sys


def skip_package_init(name: str) -> None:
    """Let submodules of `name` be imported without its `__init__`."""
    spec = importlib.util.find_spec(name)
    if spec is not None and name not in sys.modules:
        sys.modules[name] = importlib.util.module_from_spec(spec)


def import_without(absent: str, name: str) -> None:
    """Import the module `name`, which takes the optional module `absent` for missing.

    Others can import that one as ever. What is imported already stays as it is.
    """
    if absent in sys.modules or name in sys.modules:
        return
    sys.modules[absent] = None  # type: ignore[assignment]
    try:
        importlib.import_module(name)
    finally:
        del sys.modules[absent]
