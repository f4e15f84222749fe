"""What was measured and recommended on this machine, remembered so that it stays the same."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baton.core.catalogue_types import ModelRole
from baton.platform.durable_files import make_folder, replace_file

if TYPE_CHECKING:  # every start opens a library, and most never recommend
    from baton.core.machine import Hardware
    from baton.models.recommendation import Recommendation

_VALID_SECONDS = 86400.0
"""After a day a machine may have other things to do, and is looked at again."""

_BUSY_VALID_SECONDS = 3600.0
"""How long a speed counts that was measured while other programs were at work."""


class RecommendationMemory:
    """Two files in a folder: the starter model's speed here, and the last recommendation.

    What can't be read or kept is found out again; without a folder, nothing is kept.
    """

    def __init__(self, folder: Path | None) -> None:
        self._speed_file = folder and folder / "starter-speed.json"
        self._file = folder and folder / "recommended.json"

    def save_speed(self, speed: float, machine: Hardware, *, busy: bool) -> None:
        """Remember the starter model's tokens/s on this machine."""
        values = {"machine": _identity(machine), "at": time.time(), "busy": busy}
        self._write(self._speed_file, values | {"tokens_per_second": speed})

    def speed(self, machine: Hardware) -> float | None:
        """Return what was measured on such a machine, None where that is to be measured."""
        stored = self._read(self._speed_file)
        try:
            if stored["machine"] != _identity(machine):
                return None
            if stored["busy"] and not _is_recent(stored["at"], _BUSY_VALID_SECONDS):
                return None
            speed = float(stored["tokens_per_second"])
        except (LookupError, TypeError, ValueError):
            return None
        return speed if speed > 0 else None

    def save(self, found: Recommendation, machine: Hardware) -> None:
        """Remember what was recommended."""
        picks = [{"id": pick.entry.id, "roles": list(pick.roles)} for pick in found.picks]
        values = {"at": time.time(), "machine": _identity(machine), "models": picks}
        self._write(self._file, values)

    def picks(self) -> Sequence[tuple[str, tuple[ModelRole, ...]]]:
        """Return the models and their roles that were recommended in the last day."""
        stored = self._read(self._file)
        try:
            if not _is_recent(stored["at"], _VALID_SECONDS):
                return []
            return [(one["id"], tuple(map(ModelRole, one["roles"]))) for one in stored["models"]]
        except (LookupError, TypeError, ValueError):
            return []

    def ids_on(self, machine: Hardware) -> Sequence[str]:
        """Return the models that were recommended in the last day for such a machine."""
        if self._read(self._file).get("machine") != _identity(machine):
            return []
        return [id for id, _ in self.picks()]

    def _read(self, file: Path | None) -> dict[str, Any]:
        try:
            stored = json.loads(file.read_text("utf-8")) if file is not None else {}
        except (OSError, ValueError):
            return {}
        return stored if isinstance(stored, dict) else {}

    def _write(self, file: Path | None, values: object) -> None:
        if file is None:
            return
        with suppress(OSError):
            make_folder(file.parent)
            replace_file(file, json.dumps(values))


def _identity(machine: Hardware) -> str:
    """Return what distinguishes machines, as far as their speed goes."""
    cards = ",".join(f"{gpu.name}/{gpu.total}" for gpu in machine.gpus)
    return f"{machine.processor}|{machine.cores}|{machine.memory}|{cards}"


def _is_recent(at: float, seconds: float) -> bool:
    return 0 <= time.time() - at < seconds
