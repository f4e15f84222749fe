"""What was recommended last, so that what is fetched is what the person read."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from baton.cli.output import notify
from baton.core.catalogue_types import ModelRole
from baton.platform.durable_files import make_folder, replace_file
from baton.platform.settings import Settings, find_paths

if TYPE_CHECKING:
    from baton.models.library import Library
    from baton.models.recommendation import Recommendation

_GOOD_SECONDS = 86400.0
"""After a day a machine may have other things to do, and is looked at again."""

Picked = Sequence[tuple[str, tuple[ModelRole, ...]]]


def _file() -> Path:
    return find_paths().state / "recommended.json"


def keep(found: Recommendation) -> None:
    """Remember what was recommended; where that can't be kept, it is found out again."""
    picks = [{"id": pick.entry.id, "roles": list(pick.roles)} for pick in found.picks]
    with suppress(OSError):
        make_folder(_file().parent)
        replace_file(_file(), json.dumps({"at": time.time(), "models": picks}))


def kept(known: Collection[str]) -> Picked:
    """Return what was recommended in the last day, of models that are known; else nothing."""
    try:
        told = json.loads(_file().read_text("utf-8"))
        if not 0 <= time.time() - told["at"] < _GOOD_SECONDS:
            return []
        picks = [(one["id"], tuple(map(ModelRole, one["roles"]))) for one in told["models"]]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    return [(id, roles) for id, roles in picks if id in known]


async def advise(
    library: Library, settings: Settings, measures: bool
) -> tuple[float | None, Recommendation]:
    """Measure, if wanted, and return how fast the starter is and what suits this machine."""
    speed = await _measured(settings) if measures else None
    found = await library.recommend(speed)
    keep(found)
    return speed, found


async def _measured(settings: Settings) -> float | None:
    """Return how many tokens/s the starter writes here; None where it can't be told."""
    from baton.compose import compose
    from baton.core.errors import BatonError
    from baton.core.model_roles import STARTER_ID
    from baton.workers.local import starter
    from baton.workers.local.speed_benchmark import measure

    try:
        starter()
    except BatonError:
        return None
    notify("Measuring for two seconds how fast this machine is ...")
    try:
        baton = compose(settings, find_paths(), history=False, only=[STARTER_ID])
    except BatonError:
        return None
    try:
        return await measure(baton.orchestra.worker(STARTER_ID))
    except BatonError:
        return None
    finally:
        await baton.aclose()
