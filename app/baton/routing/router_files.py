"""The router's files: what Baton ships, and what was learned from the person's own answers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import baton

SHIPPED = ("encoder.onnx", "tokenizer.json")
"""Without these nothing can be scored; the heads have their own names and are looked for later."""

_LIBRARIES = ("numpy", "onnxruntime", "tokenizers")


def shipped() -> Path:
    """Return the folder of the trained router: in the installed package, else in the checkout."""
    package = Path(baton.__file__).resolve().parent
    inside = package / "models" / "router"
    return inside if inside.is_dir() else package.parents[1] / "models" / "router"


def learned_file(data: Path) -> Path:
    """Return where what was learned from the person's answers is kept, below their data folder."""
    return data / "router" / "learned.npz"


def lacking(folder: Path) -> tuple[str, str]:
    """Say what is plainly missing for the router to run, and what to do; ("", "") if nothing is.

    Nothing is imported or read for that.
    """
    absent = [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]
    if absent:
        again = "Run `scripts/baton` once with a network, or install Baton with its extra `cpu`."
        return f"The package {absent[0]} isn't installed, which the router needs.", again
    if any(not (folder / name).is_file() for name in SHIPPED):
        again = "Get it again: `git checkout models/router` in a checkout, else install anew."
        return f"The trained router isn't in {folder}.", again
    return "", ""


def stamp(file: Path | None) -> tuple[int, int] | None:
    """Return what changes when a file does; None where there is none."""
    if file is None:
        return None
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
