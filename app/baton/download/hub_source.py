"""Model files and releases from hubs, addresses and folders, through one child process."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from baton.core.catalogue_types import ModelOffer, Source
from baton.core.errors import BatonError, WorkerError, WorkerUnavailable
from baton.core.sanitiser import one_line
from baton.download.messages import (
    REPLIES,
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
from baton.download.releases import RELEASE_SCHEMA, Release, ReleaseFile
from baton.gguf.header import Header
from baton.ipc.messages import Failed, FinalReply, Message, Stopped
from baton.ipc.process import (
    Child,
    ChildDied,
    InvalidReply,
    environment,
    error_of,
    start_child,
)
from baton.ipc.supervisor import Supervisor

if TYPE_CHECKING:
    import asyncio

IDLE_SECONDS = 60.0
"""How long the child stays when it has nothing to do."""

GRACE_SECONDS = 5.0
"""How long the child may take to stop with a file before it is killed."""

_MAX_ATTEMPTS = 2
"""A child that dies loses nothing, so another one continues its work, once."""

Reply = TypeVar("Reply", bound=FinalReply)

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")

PASSED_VARIABLES = frozenset(
    {
        "HF_ENDPOINT",
        "HF_HOME",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN",
        "HF_HUB_DOWNLOAD_TIMEOUT",
        "HF_HUB_OFFLINE",
        "HF_TOKEN",
        "HF_TOKEN_PATH",
        "HUGGING_FACE_HUB_TOKEN",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "USERPROFILE",
        "XDG_CACHE_HOME",
        *_PROXIES,
        *map(str.lower, _PROXIES),
    }
)
"""The variables that hubs, accounts, proxies and certificates need."""

TELEMETRY_OFF = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
"""Switches off the telemetry of the hub's client."""

LAST_GRACE_SECONDS = 1.0
"""How long the child may take to stop everything before it is killed."""


class DownloadProcess(Supervisor):
    """The download process, which ends after `idle` seconds without a call."""

    def __init__(
        self, *, environ: Mapping[str, str] = os.environ, idle: float = IDLE_SECONDS
    ) -> None:
        super().__init__("The download process")
        self._environ = environ
        self._idle = idle
        self._idle_timer: asyncio.TimerHandle | None = None

    async def ask(self, request: Message, kind: type[Reply]) -> Reply:
        """Return the reply to a question. Raises BatonError."""
        async with aclosing(self._steps(request, kind, None)) as steps:
            async for step in steps:
                if isinstance(step, kind):
                    return step
        raise AssertionError("it ends with a reply or an error")

    async def work(self, request: Message) -> AsyncGenerator[Progress | str]:
        """Run a long task; yields progress, then a sha256."""
        async with aclosing(self._steps(request, HashReply, GRACE_SECONDS)) as steps:
            async for step in steps:
                yield step.value if isinstance(step, HashReply) else step

    async def _steps(
        self, request: Message, kind: type[Reply], grace: float | None
    ) -> AsyncGenerator[Progress | Reply]:
        """Yield progress, then the reply; repeated in another child if the first one dies.

        Closed early, it waits up to `grace` seconds for the child to stop.
        """
        done, closings = 0, self.closings
        for attempt in range(_MAX_ATTEMPTS):
            call = None
            try:
                call = (await self.ready()).call(request)
                while isinstance(reply := await call.receive(), DownloadProgress):
                    step = reply.progress
                    done = max(done, step.done)
                    yield replace(step, done=min(done, step.total))
                if self.closings != closings:  # even if the child has answered first
                    raise _stopped_error()
                self.forgive()
                yield _checked_reply(reply, kind, call.child)
                return
            except InvalidReply as death:
                message = "The download process sent an invalid reply."
                raise WorkerError(message, "Try again.") from death
            except ChildDied as death:
                if self.closings != closings:
                    raise _stopped_error() from death
                if attempt + 1 == _MAX_ATTEMPTS:
                    raise WorkerUnavailable(
                        f"The download process failed {_MAX_ATTEMPTS} times. {death} What was"
                        " downloaded is kept.",
                        "Try again.",
                    ) from death
            finally:
                self._schedule_end()
                if call is not None and grace is None:
                    call.cancel()
                elif call is not None and grace is not None:
                    await call.close(grace)

    def _schedule_end(self) -> None:
        """End the child after `idle` seconds without a call."""
        import asyncio

        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(self._idle, self._end_idle)

    async def aclose(self) -> None:
        """Stop everything and end the child; downloads can continue later."""
        self.closings += 1  # ends what runs now, and with the child what starts meanwhile
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._child is not None:
            for call in self._child.calls:
                call.cancel()
            await self._child.at_rest(LAST_GRACE_SECONDS)
        await super().aclose()

    def _end_idle(self) -> None:
        if self._child is not None and self._child.calls:
            self._schedule_end()
        elif self._child is not None:
            self._child.kill()

    def _start(self) -> Child:
        environ = {**environment(self._environ, PASSED_VARIABLES), **TELEMETRY_OFF}
        return start_child("fetcher", environ, REPLIES, self._title)


class HubSource(DownloadProcess):
    """Model files from hubs and addresses: the only part of Baton that connects to a hub.

    The child process is started at the first use. Methods raise ModelFileError where a file is
    wrong, WorkerUnavailable where nothing could be reached, ConfigError for what doesn't exist or
    in offline mode.
    """

    async def look_up(self, source: Source) -> ModelOffer:
        """Return what the hub offers as this file now, pinned to a revision.

        A `source.revision` of 40 hex digits stays. `source.file` must be a file's name.
        """
        return (await self.ask(LookUpSource(source), OfferReply)).value

    async def list_files(self, repo: str, revision: str = "") -> Sequence[ModelOffer]:
        """Return the GGUF files of a repository, all pinned to the same revision."""
        return (await self.ask(ListFiles(repo, revision), OffersReply)).value

    async def read_header(self, offer: ModelOffer) -> Header:
        """Return a file's header, read by ranged requests before the file itself is fetched."""
        return (await self.ask(ReadHeader(offer), HeaderReply)).value

    def fetch(self, offer: ModelOffer, target: Path) -> AsyncGenerator[Progress | str]:
        """Fetch a file to `target`, resuming an earlier attempt; yields its sha256 last.

        `target` appears only when its contents have been verified. Closing the generator pauses;
        what has come stays, as `<sha256>.partial` in `target`'s folder.
        """
        return self.work(FetchFile(offer, target.absolute()))

    def copy(self, source: Path, target: Path, sha256: str = "") -> AsyncGenerator[Progress | str]:
        """Copy a local file to `target`, verified as `fetch` does; yields its sha256 last."""
        return self.work(CopyFile(source.absolute(), target.absolute(), sha256))

    def hash_file(self, path: Path) -> AsyncGenerator[Progress | str]:
        """Read a file; yields progress, then its sha256 in hex."""
        return self.work(HashFile(path.absolute()))


class ReleaseSource(DownloadProcess):
    """Releases from addresses and folders, whose signatures the child process checks."""

    async def read_release(self, source: str, key: str) -> Release:
        """Return the release in a folder or behind an address, if `key` signed it."""
        text = (await self.ask(ReadRelease(source, key), ReleaseReply)).value
        try:
            schema = msgspec.json.decode(text, type=_SchemaOnly).schema
            release = msgspec.json.decode(text, type=Release) if schema == RELEASE_SCHEMA else None
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BatonError(
                f"The release's list can't be read: {one_line(str(error), 160)}.",
                "Report it to the publisher of the release.",
            ) from error
        if release is None:
            raise BatonError(
                "The release is described in a way that this version doesn't know.",
                "Install it with its own install.sh; settings, models and history stay.",
            )
        return release

    def fetch_file(
        self, source: str, file: ReleaseFile, target: Path
    ) -> AsyncGenerator[Progress | str]:
        """Fetch a file of a release to `target`, resumed; yields its sha256 last."""
        return self.work(
            FetchReleaseFile(source, file.name, file.size, file.sha256, target.absolute())
        )


class _SchemaOnly(msgspec.Struct):
    schema: int


def _checked_reply(reply: Message, kind: type[Reply], child: Child) -> Reply:
    """Return a final reply. Raises the error that it reports, and InvalidReply."""
    match reply:
        case Failed() as failed:
            raise error_of(failed)
        case Stopped():
            raise _stopped_error()
    if not isinstance(reply, kind):
        raise child.reject()
    return reply


def _stopped_error() -> WorkerUnavailable:
    return WorkerUnavailable(
        "The download was stopped. What has come is kept.", "Ask for it again."
    )
