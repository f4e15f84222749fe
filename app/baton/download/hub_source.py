"""Model files and releases from hubs, addresses and folders, through one child process."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from baton.core.catalogue_types import ModelOffer, Source
from baton.core.errors import (
    BatonError,
    ConfigError,
    ModelFileError,
    SecretMissing,
    WorkerError,
    WorkerUnavailable,
)
from baton.core.sanitiser import one_line
from baton.download.progress import Progress
from baton.download.releases import RELEASE_SCHEMA, Release, ReleaseFile
from baton.gguf.header import Header
from baton.ipc import frames
from baton.ipc.process import Child, Died, environment
from baton.ipc.supervisor import Supervisor, start

IDLE_SECONDS = 60.0
"""How long the child stays when it has nothing to do."""

GRACE_SECONDS = 5.0
"""How long the child may take to stop with a file before it is killed."""

_MAX_ATTEMPTS = 2
"""A child that dies loses nothing, so another one continues its work, once."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ERROR_CLASSES: dict[str, type[BatonError]] = {
    cls.__name__: cls for cls in (ConfigError, ModelFileError, SecretMissing, WorkerUnavailable)
}

T = TypeVar("T")


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


class HubSource:
    """Model files from hubs and addresses, as `models.ports.ModelSource` says.

    The child process is started at the first use.
    """

    def __init__(
        self, *, environ: Mapping[str, str] = os.environ, idle: float = IDLE_SECONDS
    ) -> None:
        self._process = DownloadProcess(environ, idle)

    @property
    def pid(self) -> int | None:
        """The child's process, where it runs."""
        return self._process.pid

    async def look_up(self, source: Source) -> ModelOffer:
        return await self._process.ask(ModelOffer, "look", source=asdict(source))

    async def list_files(self, repo: str, revision: str = "") -> Sequence[ModelOffer]:
        return await self._process.ask(list[ModelOffer], "files", repo=repo, revision=revision)

    async def read_header(self, offer: ModelOffer) -> Header:
        return await self._process.ask(Header, "header", offer=asdict(offer))

    def fetch(self, offer: ModelOffer, target: Path) -> AsyncGenerator[Progress | str]:
        return self._process.work("fetch", offer=asdict(offer), target=str(target.absolute()))

    def copy(self, source: Path, target: Path, sha256: str = "") -> AsyncGenerator[Progress | str]:
        paths = {"source": str(source.absolute()), "target": str(target.absolute())}
        return self._process.work("copy", **paths, sha256=sha256)

    def hash_file(self, path: Path) -> AsyncGenerator[Progress | str]:
        return self._process.work("digest", path=str(path.absolute()))

    async def aclose(self) -> None:
        """End the child; downloads can continue later."""
        await self._process.aclose()


class ReleaseSource:
    """Releases from addresses and folders, whose signatures the child process checks."""

    def __init__(self, *, environ: Mapping[str, str] = os.environ) -> None:
        self._process = DownloadProcess(environ, IDLE_SECONDS)

    async def read_release(self, source: str, key: str) -> Release:
        """Return the release in a folder or behind an address, if `key` signed it."""
        text = await self._process.ask(str, "release", source=source, key=key)
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
        return self._process.work(
            "bring",
            source=source,
            name=file.name,
            size=file.size,
            sha256=file.sha256,
            target=str(target.absolute()),
        )

    async def aclose(self) -> None:
        """End the child; downloads can continue later."""
        await self._process.aclose()


class DownloadProcess(Supervisor):
    """The download process, which ends after `idle` seconds without a call."""

    def __init__(self, environ: Mapping[str, str], idle: float) -> None:
        super().__init__()
        self._environ = environ
        self._idle = idle
        self._idle_timer: asyncio.TimerHandle | None = None

    async def ask(self, kind: type[T], question: str, **asked: object) -> T:
        """Return the answer to a question. Raises BatonError."""
        steps = self._steps(question, asked, lambda value: _convert(value, kind), None)
        async with aclosing(steps):
            async for step in steps:
                if not isinstance(step, Progress):
                    return step
        raise AssertionError("it ends with an answer or an error")

    def work(self, kind: str, **asked: object) -> AsyncGenerator[Progress | str]:
        """Run a long task; yields progress, then a sha256."""
        return self._steps(kind, asked, _checked_sha256, GRACE_SECONDS)

    async def _steps(
        self,
        kind: str,
        asked: Mapping[str, object],
        read: Callable[[object], T],
        grace: float | None,
    ) -> AsyncGenerator[Progress | T]:
        """Yield progress, then the result; repeated in another child if the first one dies.

        Closed early, it waits up to `grace` seconds for the child to stop.
        """
        done, closings = 0, self.closings
        for attempt in range(_MAX_ATTEMPTS):
            call = self.running().call(kind, **asked)
            try:
                while (frame := await call.receive()).get("type") == "progress":
                    step = _convert(frame.get("progress"), Progress)
                    done = max(done, step.done)
                    yield replace(step, done=min(done, step.total))
                if self.closings != closings:  # even if the child has answered first
                    raise _stopped_error()
                yield read(_reply_value(frame))
                return
            except Died as death:
                if self.closings != closings:
                    raise _stopped_error() from death
                if attempt + 1 == _MAX_ATTEMPTS:
                    raise WorkerUnavailable(
                        f"The download process failed {_MAX_ATTEMPTS} times. {death} What was"
                        " downloaded is kept.",
                        "Try again.",
                    ) from death
            except _InvalidReply:
                call.child.kill()
                raise
            finally:
                self._schedule_end()
                if grace is None:
                    call.cancel()
                else:
                    await call.close(grace)

    def _schedule_end(self) -> None:
        """End the child after `idle` seconds without a call."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(self._idle, self._end_idle)

    async def aclose(self) -> None:
        """Stop everything and end the child; it can be started again."""
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
        return start("fetcher", environ, "The download process")


class _SchemaOnly(msgspec.Struct):
    schema: int


class _InvalidReply(WorkerError):
    """The child sent a reply that can't be read: a bug, or another program."""

    def __init__(self) -> None:
        super().__init__("The download process sent an invalid reply.", "Try again.")


def _reply_value(frame: frames.Frame) -> Any:
    """Return the value of a final frame. Raises the error that it reports."""
    match frame:
        case {"type": "done", "value": value}:
            return value
        case {"type": "failed", "error": str(name), "message": str(message), "hint": str(hint)}:
            raise _ERROR_CLASSES.get(name, WorkerError)(one_line(message, 600), one_line(hint, 600))
        case {"type": "stopped"}:
            raise _stopped_error()
    raise _InvalidReply


def _stopped_error() -> WorkerUnavailable:
    return WorkerUnavailable(
        "The download was stopped. What has come is kept.", "Ask for it again."
    )


def _checked_sha256(value: object) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise _InvalidReply
    return value


def _convert(value: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise _InvalidReply from error
