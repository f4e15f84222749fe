"""Exports of a package whose modules are imported at their first use.

A child process lies in the package of its slice, and must not load the modules of the front.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module


def lazy_exports(package: str, **homes: str) -> Callable[[str], object]:
    """Return a package's `__getattr__`: each module of it by name, with the names that it holds."""
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def export(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return export
