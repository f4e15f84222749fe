"""The download process: asks hubs, fetches models and updates, and hashes files.

It speaks frames on stdin and stdout. Frames to it, each with an id:

    look    source
    files   repo, revision
    header  offer
    fetch   offer, target
    copy    source, target, sha256
    digest  path
    release source, key
    bring   source, name, size, sha256, target
    cancel  the answer isn't wanted any more

Each runs in a thread of its own. Frames from it: beat each second; progress with the id of what it
is of; then done with a value, stopped once there is nothing left of it, or failed with the name of
the error that the front raises. Only this process connects to hubs, and it may hold the account's
token (HF_TOKEN). It writes only to the targets that it is given, and ends at once when its front
does. What has come until then is kept.
"""

from __future__ import annotations

import os
import queue
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baton.core.catalogue_types import ModelOffer, Source
from baton.download.progress import Progress
from baton.ipc import frames
from baton.ipc.parent_channel import Failure, Front, keep_quiet_and_private, take_pipes

if TYPE_CHECKING:
    from baton.download.child.hub_metadata import HubMetadata


class Job:
    """One request of the front; any thread may cancel it."""

    def __init__(self, front: Front, frame: frames.Frame) -> None:
        self.frame = frame
        self.id: int = frame["id"]
        self._front = front
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Cancel the job."""
        self._stopped.set()

    def is_stopped(self) -> bool:
        """Whether the job is cancelled."""
        return self._stopped.is_set()

    def report(self, progress: Progress) -> None:
        """Send progress to the front."""
        self._front.send("progress", id=self.id, progress=asdict(progress))

    def run(self) -> None:
        """Do the job, and send how it ended."""
        from baton.download.child.hub_client import Stopped

        try:
            value = _HANDLERS[self.frame["type"]](self)
        except Stopped:
            self._front.send("stopped", id=self.id)
        except Failure as failure:
            self._front.send("failed", id=self.id, **_without_token(failure.fields))
        except Exception as error:
            traceback.print_exc(limit=-3)
            message = f"The fetcher failed on this ({type(error).__name__})."
            hint = "What has come is kept; try again."
            self._front.send(
                "failed", id=self.id, error="WorkerUnavailable", message=message, hint=hint
            )
        else:
            self._front.send("done", id=self.id, value=value)


class JobRunner:
    """Starts a thread for each request of the front."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._jobs: dict[int, Job] = {}

    def take(self, frame: frames.Frame) -> None:
        """Take a frame."""
        number = frame["id"]
        if frame["type"] == "cancel":
            if number in self._jobs:
                self._jobs[number].stop()
            return
        job = self._jobs[number] = Job(self._front, frame)
        threading.Thread(target=self._run, args=(job,), daemon=True).start()

    def _run(self, job: Job) -> None:
        try:
            job.run()
        finally:
            del self._jobs[job.id]


def _without_token(fields: dict[str, Any]) -> dict[str, Any]:
    """Remove the account's token from a message: a server may have echoed it."""
    from baton.download.child.hub_client import account_token

    token = account_token(os.environ)
    if not token:
        return fields
    return {
        name: value.replace(token, "…") if isinstance(value, str) else value
        for name, value in fields.items()
    }


def _look(job: Job) -> Any:
    return asdict(_metadata(job).look_up(Source(**job.frame["source"])))


def _files(job: Job) -> Any:
    frame = job.frame
    return [asdict(offer) for offer in _metadata(job).list_files(frame["repo"], frame["revision"])]


def _header(job: Job) -> Any:
    return asdict(_metadata(job).read_header(_read_offer(job.frame["offer"])))


def _fetch(job: Job) -> Any:
    from baton.download.child import hub_metadata, transfer

    offer, target = _read_offer(job.frame["offer"]), Path(job.frame["target"])
    hub_metadata.check_source(offer.source)
    return transfer.fetch(offer, target, job.report, job.is_stopped)


def _copy(job: Job) -> Any:
    from baton.download.child import transfer

    frame = job.frame
    source, target = Path(frame["source"]), Path(frame["target"])
    return transfer.copy(source, target, frame["sha256"], job.report, job.is_stopped)


def _digest(job: Job) -> Any:
    from baton.download.child import transfer

    return transfer.hash_file(Path(job.frame["path"]), job.report, job.is_stopped)


def _release(job: Job) -> Any:
    from baton.download.child import signed_release

    return signed_release.fetch_manifest(job.frame["source"], job.frame["key"])


def _bring(job: Job) -> Any:
    from baton.download.child import signed_release

    source, name, size, sha256, target = (
        job.frame[field] for field in ("source", "name", "size", "sha256", "target")
    )
    return signed_release.fetch_release_file(
        source, name, size, sha256, Path(target), job.report, job.is_stopped
    )


_HANDLERS: dict[str, Callable[[Job], Any]] = {
    "look": _look,
    "files": _files,
    "header": _header,
    "fetch": _fetch,
    "copy": _copy,
    "digest": _digest,
    "release": _release,
    "bring": _bring,
}


def _metadata(job: Job) -> HubMetadata:
    from baton.download.child.hub_client import default_client
    from baton.download.child.hub_metadata import HubMetadata

    return HubMetadata(default_client(), job.is_stopped)


def _read_offer(fields: dict[str, Any]) -> ModelOffer:
    return ModelOffer(**{**fields, "source": Source(**fields["source"])})


def main() -> None:
    """Run until the front is gone."""
    keep_quiet_and_private()
    inbox: queue.SimpleQueue[frames.Frame] = queue.SimpleQueue()
    try:
        fetcher = JobRunner(Front(*take_pipes(), inbox.put))
        while True:
            fetcher.take(inbox.get())
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(1)  # past the threads that still fetch


if __name__ == "__main__":
    main()
