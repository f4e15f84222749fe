"""A disk that becomes full while a file is fetched: a small one, that only one process sees."""

from __future__ import annotations

import os
import random
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from baton.core.catalogue_types import ModelOffer
from baton.download.child import hub_client, transfer
from baton.download.messages import Progress
from baton.ipc.parent_channel import Failure
from support.download_processes import QUICK, ProgressLog, here
from support.private_mounts import mount_small_disk

NEIGHBOUR = b"another model" * 1000


def on_small_disk(
    environ: dict[str, str], offer: ModelOffer, disk: Path, offsets: int, pipe: Connection
) -> None:
    """Fill a disk that only this process sees while a file comes; make room; continue."""
    if not mount_small_disk(disk, 4 * offer.size):
        pipe.send("refused")
        return
    (disk / "neighbour").write_bytes(NEIGHBOUR)
    dice, web = random.Random(offsets), hub_client.HubClient(environ)
    for number in range(offsets):
        target = disk / str(number) / offer.source.file
        room = dice.randrange(offer.size * 3 // 4)
        outcome: dict[str, Any] = {"room": 0, "failed": {}}
        filled = _DiskFiller(disk, target, room)
        try:
            transfer.fetch(offer, target, filled, lambda: False, web=web, pace=QUICK)
        except Failure as failure:
            outcome["failed"] = asdict(failure.failed)
        outcome["target"] = target.exists()
        outcome["kept"] = sum(here(path) for path in target.parent.glob("*.partial"))
        outcome["room"] = room
        (disk / "filling").unlink()
        steps = ProgressLog()
        outcome["then"] = transfer.fetch(
            offer, target, steps, steps.should_stop, web=web, pace=QUICK
        )
        outcome["left"] = [path.name for path in target.parent.iterdir()]
        outcome["neighbour"] = (disk / "neighbour").read_bytes()
        pipe.send(outcome)
        target.unlink()
    pipe.send("done")


class _DiskFiller(ProgressLog):
    """Another program that fills the disk as soon as the file begins to come."""

    def __init__(self, disk: Path, target: Path, room: int) -> None:
        super().__init__()
        self._disk, self._target, self._room = disk, target, room

    def __call__(self, step: Progress) -> None:
        super().__call__(step)
        filling = self._disk / "filling"
        if not filling.exists():
            come = sum(here(path) for path in self._target.parent.glob("*.partial"))
            free = os.statvfs(self._disk).f_bavail * os.statvfs(self._disk).f_frsize
            with filling.open("wb") as file:
                left = max(0, free - max(0, self._room - come))
                file.write(bytes(left))
