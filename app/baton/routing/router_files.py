"""The router's files that Baton ships, measured skills among them."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import baton
from baton.core.plan_types import KINDS

SHIPPED_FILES = ("encoder.onnx", "tokenizer.json")
"""Without these nothing can be scored; the heads have their own names and are looked for later."""

_LIBRARIES = ("numpy", "onnxruntime", "tokenizers")


def shipped_folder() -> Path:
    """Return the folder of the trained router: in the installed package, else in the checkout."""
    package = Path(baton.__file__).resolve().parent
    inside = package / "models" / "router"
    return inside if inside.is_dir() else package.parents[1] / "models" / "router"


def missing_part(folder: Path) -> tuple[str, str]:
    """Say what is plainly missing for the router to run, and what to do; ("", "") if nothing is.

    Nothing is imported or read for that.
    """
    absent = [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]
    if absent:
        again = "Run `scripts/baton` once with a network, or install Baton with its extra `cpu`."
        return f"The package {absent[0]} isn't installed, which the router needs.", again
    if any(not (folder / name).is_file() for name in SHIPPED_FILES):
        again = "Get it again: `git checkout models/router` in a checkout, else reinstall Baton."
        return f"The trained router isn't in {folder}.", again
    return "", ""


SKILLS_FILE = "skills.json"

_MAX_FILE_BYTES = 4_000_000
"""More bytes than this are no such file."""


def read_scores(folder: Path) -> dict[str, dict[str, tuple[float, int]]]:
    """Return by model and task kind how good its answers were, 0 to 1, and on how many.

    Of a file that isn't there, or is broken, what is sound: the sizes of models serve as well.
    """
    file = folder / SKILLS_FILE
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            return {}
        raw = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(raw, dict):
        return {}
    read = ((model, _read_kinds(kinds)) for model, kinds in raw.items())
    return {model: kinds for model, kinds in read if kinds}


def _read_kinds(raw: object) -> dict[str, tuple[float, int]]:
    found: dict[str, tuple[float, int]] = {}
    for kind, pair in raw.items() if isinstance(raw, dict) else ():
        match pair:
            case [int() | float() as mean, int() as count] if kind in KINDS and count > 0:
                if math.isfinite(mean) and 0 <= mean <= 1:
                    found[kind] = (float(mean), count)
    return found
