"""Downloads as a test drives them: here, or in a process of their own that may be killed.

progress = ProgressLog()
transfer.fetch(offer, target, progress, progress.should_stop, web=web, pace=QUICK)

child = Child(hub, offer, target)      # a real process; starts in milliseconds
child.kill_at(5_000_000)               # SIGKILL once so many bytes are in the partial
child.result()                         # the sha256, or the Failure's fields, or None
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from baton.core.catalogue_types import ModelOffer, Source
from baton.download.child import hub_client, transfer
from baton.download.child.http_download import RetryPolicy
from baton.download.child.partial_file import partial_key, partial_path
from baton.download.messages import Phase, Progress
from baton.ipc.parent_channel import Failure
from support.fake_hub import Hub

REPO, FILE = "user/repo", "m.gguf"
"""Where tests keep the one file that they get."""

QUICK = RetryPolicy(max_failures=3, first_pause=0.0, max_pause=0.0)

_HOW = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
PROCESSES: Any = multiprocessing.get_context(_HOW)
PROCESSES.set_forkserver_preload(["baton.download.child.transfer"])


class ProgressLog:
    """Records the progress of a download; stops it once `stop_at` bytes are there."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.steps: list[Progress] = []
        self.stop_at = stop_at

    def __call__(self, step: Progress) -> None:
        if self.steps:
            before = self.steps[-1]
            assert step.done >= before.done, (before, step)
        assert 0 <= step.done <= step.total, step
        assert step.speed >= 0, step
        assert step.left is None or step.left >= 0, step
        self.steps.append(step)

    @property
    def phases(self) -> set[Phase]:
        """What it was doing, all in all."""
        return {step.phase for step in self.steps}

    def should_stop(self) -> bool:
        """Whether the download is to stop."""
        done = self.steps[-1].done if self.steps else 0
        return self.stop_at is not None and done >= self.stop_at


def offer_of(hub: Hub, repo: str, file: str, revision: str, size: int) -> ModelOffer:
    """Return a file as it is looked up."""
    return ModelOffer(Source(repo, file, revision), size, hub.sha256(repo, file, revision))


def offer_in(hub: Hub, size: int) -> ModelOffer:
    """Return the hub's one file, as it is looked up."""
    return offer_of(hub, REPO, FILE, hub.repos[REPO].names["main"], size)


def offer_without_hash(hub: Hub, size: int) -> ModelOffer:
    """Return the same file by its address alone, with no hash of its contents."""
    return ModelOffer(Source(url=f"{hub.url}/{REPO}/resolve/main/{FILE}"), size)


def partial_of(offer: ModelOffer, target: Path) -> Path:
    """Return the path of what has come."""
    return partial_path(target.parent, partial_key(offer.sha256, offer.source))


def here(path: Path) -> int:
    """Return a file's size, 0 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class Child:
    """A process that fetches one file."""

    def __init__(
        self, hub: Hub, offer: ModelOffer, target: Path, pace: RetryPolicy = QUICK
    ) -> None:
        self._partial = partial_of(offer, target)
        self._result, theirs = PROCESSES.Pipe(duplex=False)
        self._process = PROCESSES.Process(
            target=_fetch, args=(hub.environ, offer, target, pace, theirs), daemon=True
        )
        self._process.start()
        theirs.close()

    def kill_at(self, size: int) -> bool:
        """End it without warning once that much is here; return whether it came so far."""
        self.wait_for(lambda: here(self._partial) >= size)
        killed: bool = self._process.is_alive()
        self._process.kill()
        self._process.join()
        return killed

    def wait_for(self, due: Callable[[], bool]) -> None:
        """Wait for something, or for its end."""
        while self._process.is_alive() and not due():
            time.sleep(0.001)

    def result(self) -> Any:
        """Return its sha256 or its Failure's fields, and its phases; None if it was killed."""
        try:
            return self._result.recv()
        except EOFError:
            return None
        finally:
            self._process.join()
            self._process.close()
            self._result.close()


def _fetch(
    environ: dict[str, str], offer: ModelOffer, target: Path, pace: RetryPolicy, result: Connection
) -> None:
    os.umask(0o077)
    progress = ProgressLog()
    try:
        sha256 = transfer.fetch(
            offer,
            target,
            progress,
            progress.should_stop,
            web=hub_client.HubClient(environ),
            pace=pace,
        )
        result.send((sha256, progress.phases))
    except Failure as failure:
        result.send((asdict(failure.failed), progress.phases))
