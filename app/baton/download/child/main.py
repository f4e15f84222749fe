"""The download process: asks hubs, fetches models and updates, and hashes files.

The child `fetcher` speaks the messages of `download.messages` on stdin and
stdout; each request runs in a thread of its own. Only this process connects to hubs, and it may
hold the account's token (HF_TOKEN). It writes only to the targets that it is given, and ends at
once when its parent does. What has come until then is kept.
"""

from __future__ import annotations

import os
import threading
import traceback
from typing import TYPE_CHECKING, Any

from baton.download.messages import (
    REQUESTS,
    CopyFile,
    DownloadProgress,
    FetchFile,
    FetchReleaseFile,
    HashFile,
    HashReply,
    HeaderReply,
    ListFiles,
    LookUpSource,
    OfferReply,
    OffersReply,
    Progress,
    ReadHeader,
    ReadRelease,
    ReleaseReply,
)
from baton.ipc import messages
from baton.ipc.messages import Failed, FinalReply, Message
from baton.ipc.parent_channel import Failure, ParentChannel, connect_parent

if TYPE_CHECKING:
    from baton.download.child.hub_metadata import HubMetadata


class Job:
    """One request of the parent."""

    def __init__(self, parent: ParentChannel, request: Message) -> None:
        self._parent = parent
        self._request = request

    def is_stopped(self) -> bool:
        """Whether the job is cancelled."""
        return self._parent.is_cancelled(self._request.id)

    def report(self, progress: Progress) -> None:
        """Send progress to the parent."""
        self._parent.send(DownloadProgress(progress, id=self._request.id))

    def run(self) -> None:
        """Do the job, and send how it ended."""
        from baton.download.child.hub_client import Stopped

        reply: FinalReply
        try:
            reply = self._reply(self._request)
        except Stopped:
            reply = messages.Stopped()
        except Failure as failure:
            reply = _without_token(failure.failed)
        except Exception as error:
            traceback.print_exc(limit=-3)
            message = f"The download process failed on this ({type(error).__name__})."
            reply = Failed("WorkerUnavailable", message, "What has come is kept; try again.")
        reply.id = self._request.id
        self._parent.send(reply)

    def _reply(self, request: Any) -> FinalReply:
        """Do what is asked. Raises Failure, and Stopped."""
        match request:
            case LookUpSource(source=source):
                return OfferReply(self._metadata().look_up(source))
            case ListFiles(repo=repo, revision=revision):
                return OffersReply(list(self._metadata().list_files(repo, revision)))
            case ReadHeader(offer=offer):
                return HeaderReply(self._metadata().read_header(offer))
            case ReadRelease(source=source, key=key):
                from baton.download.child import signed_release

                return ReleaseReply(signed_release.fetch_manifest(source, key))
        return HashReply(self._transfer(request))

    def _transfer(self, request: Any) -> str:
        """Fetch, copy or read a file, and return its hash; of parts, their hashes in a line."""
        from baton.download.child import transfer
        from baton.gguf.split_files import part_paths

        stopped, hooks = self.is_stopped, (self.report, self.is_stopped)
        match request:
            case FetchFile(offer=offer, target=target):
                from baton.download.child import hub_metadata

                hub_metadata.check_source(offer.source)
                offers, targets = hub_metadata.part_offers(offer), part_paths(target)
                return transfer.in_parts(
                    lambda n, report: transfer.fetch_again(offers[n], targets[n], report, stopped),
                    [one.size for one in offers],
                    self.report,
                )
            case CopyFile(source=source, target=target, sha256=sha256):
                sources, targets = part_paths(source), part_paths(target)
                hashes = sha256.split() or [""] * len(sources)
                return transfer.in_parts(
                    lambda n, report: transfer.copy(
                        sources[n], targets[n], hashes[n], report, stopped
                    ),
                    transfer.file_sizes(sources),
                    self.report,
                )
            case HashFile(path=path):
                paths = part_paths(path)
                return transfer.in_parts(
                    lambda n, report: transfer.hash_file(paths[n], report, stopped),
                    transfer.file_sizes(paths),
                    self.report,
                )
            case FetchReleaseFile():
                from baton.download.child import signed_release

                return signed_release.fetch_release_file(request, *hooks)
        raise AssertionError(f"nothing does {type(request).__name__}")

    def _metadata(self) -> HubMetadata:
        from baton.download.child.hub_client import default_client
        from baton.download.child.hub_metadata import HubMetadata

        return HubMetadata(default_client(), self.is_stopped)


def _without_token(failed: Failed) -> Failed:
    """Remove the account's token from a message: a server may have echoed it."""
    from baton.download.child.hub_client import account_token

    if token := account_token(os.environ):
        failed.message = failed.message.replace(token, "…")
        failed.hint = failed.hint.replace(token, "…")
    return failed


def main() -> None:
    """Run until the parent is gone."""
    with connect_parent(REQUESTS) as parent:
        while True:
            job = Job(parent, parent.receive())
            threading.Thread(target=job.run, daemon=True).start()
