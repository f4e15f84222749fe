"""Writes the router's heads into the files that `baton.routing.child` loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from baton.routing.child.draft_signals import DraftSignals, SignalLine
from baton.routing.child.first_stage import (
    ARRAYS_FILE,
    FORMAT,
    METADATA_FILE,
    POINT_ARRAYS,
    FirstStage,
)
from baton.routing.child.router_model import KINDS_FILE, LENGTHS_FILE, KindHead, LengthHead
from baton.routing.child.second_stage import AGREEMENT_FILE, SecondStage
from baton.routing.child.text_features import FEATURE_NAMES
from baton.routing.child.unseen_models import Abilities


def save_first_stage(heads: FirstStage, folder: Path) -> None:
    """Write both files of the first stage."""
    arrays: dict[str, Any] = {
        "centre": heads.basis.centre, "scale": heads.basis.scale, "axes": heads.axes,
        "member": heads.membership, "tokens": heads.tokens, "trust": heads.trust,
    }  # fmt: skip
    for place, block in enumerate(heads.sets):
        arrays[f"linear{place}"], arrays[f"near{place}"] = block.linear, block.likeness
        arrays[f"means{place}"] = block.means
        arrays[f"cuts{place}"], arrays[f"values{place}"] = block.trees.cuts, block.trees.values
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    for place, block in enumerate(heads.sets):
        arrays[f"columns{place}"] = block.trees.columns.astype(np.int16)
    for name in POINT_ARRAYS:
        arrays[f"point_{name}"] = getattr(heads.points, name)
    np.savez(folder / ARRAYS_FILE, **arrays)
    words = {
        "format": FORMAT,
        "figures": list(FEATURE_NAMES),
        "known": heads.known_range,
        "slope": heads.slope,
        "ways": heads.ways,
        "blocks": [
            {"name": b.name, "workers": list(b.workers), "transfer": b.transfer} for b in heads.sets
        ],
        "abilities": abilities_numbers(heads.abilities),
    }
    (folder / METADATA_FILE).write_text(json.dumps(words, indent=1) + "\n", "utf-8")


def abilities_numbers(abilities: Abilities) -> dict[str, object]:
    """Return abilities as `Abilities.from_numbers` takes them."""
    return {
        "workers": {worker: round(a, 4) for worker, a in sorted(abilities.workers.items())},
        "worth": [round(float(value), 4) for value in abilities.worth],
        "level": {name: round(a, 4) for name, a in sorted(abilities.level.items())},
        "error": round(abilities.error, 4),
    }


def save_kind_head(head: KindHead, folder: Path) -> None:
    np.savez(
        folder / KINDS_FILE,
        centre=head.centre.astype(np.float32),
        scale=head.scale.astype(np.float32),
        worth=head.worth.astype(np.float16),
    )


def save_length_head(head: LengthHead, folder: Path) -> None:
    np.savez(folder / LENGTHS_FILE, worth=head.worth.astype(np.float32))


def save_second_stage(stage: SecondStage, folder: Path) -> None:
    text = json.dumps(second_stage_numbers(stage), indent=1) + "\n"
    (folder / AGREEMENT_FILE).write_text(text, "utf-8")


def second_stage_numbers(stage: SecondStage) -> dict[str, object]:
    """Return the heads as `SecondStage.from_numbers` takes them."""
    heads: dict[str, object] = {
        name: [round(float(value), 6) for value in getattr(stage, name)]
        for name in ("right", "asked", "centre", "scale")
    }
    return {**heads, "signals": signals_numbers(stage.signals)}


def signals_numbers(signals: DraftSignals) -> dict[str, object]:
    """Return the lines as `DraftSignals.from_numbers` takes them."""
    return {
        "families": {name: _numbers(line) for name, line in sorted(signals.families.items())},
        "alone": _numbers(signals.alone),
        "texts": {
            name: {kind: round(level, 6) for kind, level in sorted(levels.items())}
            for name, levels in sorted(signals.texts.items())
        },
    }


def _numbers(line: SignalLine) -> dict[str, object]:
    return {
        "usual": [round(one, 6) for one in line.usual],
        "worth": [round(one, 6) for one in line.worth],
        "level": round(line.level, 6),
    }
