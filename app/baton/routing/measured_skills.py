"""What was measured of models, as Baton ships it."""

from __future__ import annotations

import json
import math
from pathlib import Path

from baton.core.plan.plan import KINDS

NAME = "skills.json"

_LARGEST = 4_000_000
"""More bytes than this are no such file."""


def read_scores(folder: Path) -> dict[str, dict[str, tuple[float, int]]]:
    """Return by model and task kind how good its answers were, 0 to 1, and on how many.

    Of a file that isn't there, or is broken, what is sound: the sizes of models serve as well.
    """
    file = folder / NAME
    try:
        if file.stat().st_size > _LARGEST:
            return {}
        raw = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(raw, dict):
        return {}
    read = ((model, _kinds(kinds)) for model, kinds in raw.items())
    return {model: kinds for model, kinds in read if kinds}


def _kinds(raw: object) -> dict[str, tuple[float, int]]:
    found: dict[str, tuple[float, int]] = {}
    for kind, pair in raw.items() if isinstance(raw, dict) else ():
        match pair:
            case [int() | float() as mean, int() as count] if kind in KINDS and count > 0:
                if math.isfinite(mean) and 0 <= mean <= 1:
                    found[kind] = (float(mean), count)
    return found
