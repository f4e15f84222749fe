"""llama.cpp's C interface, without what the package loads around it."""

from __future__ import annotations

import importlib.util
import sys


def _skip_package_init(name: str) -> None:
    """Let submodules of `name` be imported without its `__init__`.

    llama_cpp's own imports numpy, diskcache and much else, for 0.2 s; its submodule with the C
    interface needs none of it.
    """
    spec = importlib.util.find_spec(name)
    if spec is not None and name not in sys.modules:
        sys.modules[name] = importlib.util.module_from_spec(spec)


_skip_package_init("llama_cpp")
import llama_cpp.llama_cpp as c  # noqa: E402

__all__ = ["LlamaError", "c"]


class LlamaError(Exception):
    """llama.cpp refused; the text is a sentence's second half."""
