"""How a worker writes and is loaded, and who said so: the settings, its file, or Baton."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from baton.core.byte_format import show_size
from baton.core.errors import BatonError
from baton.core.messages import Card
from baton.core.sampling_settings import default_sampling, effective_values
from baton.core.sanitiser import one_line
from baton.platform.settings import CloudWorker, LocalWorker, ServerWorker, Settings, Worker

_ORIGINS = ("settings", "model", "file", "baton")
_ORIGIN_NAMES = ("config.toml", "suits this model", "its file", "Baton's own")


@dataclass(frozen=True, slots=True)
class WorkerConfiguration:
    """How one worker writes.

    `sampling` has a number for each name and who said it, by its place in `_ORIGINS`; it is empty
    where the model's file can't be read, and of a worker elsewhere but for what was set.
    """

    card: Card
    entry: Worker
    sampling: Mapping[str, tuple[float, int]]
    settings: Settings


def worker_configuration(card: Card, settings: Settings, file: Path | None) -> WorkerConfiguration:
    """Return how a worker writes whose model is that file, if it is one of this machine."""
    listed = {entry.id: entry for entry in settings.roster}
    entry = listed.get(card.id) or LocalWorker(card.id, model=card.id)
    if isinstance(entry, LocalWorker):
        return WorkerConfiguration(card, entry, _sampling(entry, file), settings)
    set = {} if entry.temperature is None else {"temperature": (entry.temperature, 0)}
    return WorkerConfiguration(card, entry, set, settings)


def _sampling(entry: LocalWorker, file: Path | None) -> Mapping[str, tuple[float, int]]:
    from baton.workers.local import STARTER, find_model
    from baton.workers.local.model_file import read_file

    try:
        if file is None:
            return {}
        header = read_file(file)
        suits = find_model(STARTER).temperature if entry.model == STARTER else None
    except BatonError:
        return {}
    settings = {name: getattr(entry, name) for name in default_sampling(0)}
    return effective_values(
        settings, {"temperature": suits}, header.sampling, default_sampling(header.parameters)
    )


# For people


def configuration_lines(manner: WorkerConfiguration) -> dict[str, str]:
    """Return the lines that say how a worker writes."""
    entry = manner.entry
    lines = {"Writes with": _sampling_text(manner), "System text": _system_text(manner)}
    if isinstance(entry, LocalWorker):
        lines |= {
            "Seed": _seed_text(manner, entry),
            "Adapter": _adapter_text(entry),
            "Loaded with": _loading_text(entry, manner.settings),
        }
        if entry.thinking is not None:
            lines["Thinks"] = f"{'yes' if entry.thinking else 'no'} ({_ORIGIN_NAMES[0]})"
    return lines


def _sampling_text(manner: WorkerConfiguration) -> str:
    if isinstance(manner.entry, CloudWorker | ServerWorker) and not manner.sampling:
        return "what is usual there"
    by = sorted(manner.sampling.items(), key=lambda one: one[1][1])
    groups = groupby(by, key=lambda one: one[1][1])
    return "; ".join(
        ", ".join(f"{name} {number:g}" for name, (number, _) in group)
        + f" ({_ORIGIN_NAMES[origin]})"
        for origin, group in groups
    )


def _seed_text(manner: WorkerConfiguration, entry: LocalWorker) -> str:
    if entry.seed is not None:
        return f"{entry.seed} ({_ORIGIN_NAMES[0]})"
    always = manner.sampling.get("temperature", (1.0, 0))[0] == 0
    return "not needed: the likeliest word is taken" if always else "by chance"


def _system_text(manner: WorkerConfiguration) -> str:
    if not manner.card.system:
        return "nothing of its own"
    whose = _ORIGIN_NAMES[3] if manner.entry.system is None else _ORIGIN_NAMES[0]
    return f"\u201c{one_line(manner.card.system, 120)}\u201d ({whose})"


def _adapter_text(entry: LocalWorker) -> str:
    if not entry.adapter:
        return ""
    path = Path(entry.adapter).expanduser().absolute()
    if not path.is_file():
        return f"{path}, which isn't there: without it, this worker can't answer"
    return f"{path}, {show_size(path.stat().st_size)}, with a strength of {entry.adapter_scale:g}"


def _loading_text(entry: LocalWorker, settings: Settings) -> str:
    local = settings.local
    threads = local.threads if entry.threads is None else entry.threads
    layers = local.gpu_layers if entry.gpu_layers is None else entry.gpu_layers
    return ", ".join(
        (
            f"kv {entry.kv or local.kv}",
            f"{threads or 'a'} thread{'s' if threads > 1 else ''}{'' if threads else ' per core'}",
            "as many layers on a GPU as fit" if layers < 0 else f"{layers} layers on a GPU",
            *(["however little memory is free"] if entry.force else []),
        )
    )


# For machines


def configuration_object(manner: WorkerConfiguration) -> dict[str, Any]:
    """Return how a worker writes, for machines; what is None holds nowhere or isn't known."""
    entry = manner.entry
    found: dict[str, Any] = {
        "sampling": {
            name: {"value": round(number, 6), "from": _ORIGINS[origin]}
            for name, (number, origin) in manner.sampling.items()
        },
        "seed": None,
        "thinking": None,
        "adapter": None,
    }
    if isinstance(entry, LocalWorker):
        found |= {"seed": entry.seed, "thinking": entry.thinking}
        if entry.adapter:
            path = Path(entry.adapter).expanduser().absolute()
            found["adapter"] = {"file": str(path), "scale": entry.adapter_scale}
    return found
