"""Model files from hubs and addresses; see models.ports.Supply."""

from __future__ import annotations

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
from baton.download.fetcher import DownloadProcess
from baton.download.progress import Progress
from baton.gguf.header import Header
from baton.ipc import frames
from baton.ipc.process import Died

IDLE_SECONDS = 60.0
"""How long the child stays when it has nothing to do."""

GRACE_SECONDS = 5.0
"""How long the child may take to let go of a file before it is killed."""

_MAX_ATTEMPTS = 2
"""A child that died takes nothing with it, so what it did goes on in another, once."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ERROR_CLASSES: dict[str, type[BatonError]] = {
    cls.__name__: cls for cls in (ConfigError, ModelFileError, SecretMissing, WorkerUnavailable)
}

T = TypeVar("T")


class HubSource:
    """Asks and fetches through one child process, which is started when first needed."""

    def __init__(
        self, *, environ: Mapping[str, str] = os.environ, idle: float = IDLE_SECONDS
    ) -> None:
        self._fetcher = DownloadProcess(environ, idle)

    @property
    def pid(self) -> int | None:
        """The child's process, where it runs."""
        return self._fetcher.pid

    async def look_up(self, source: Source) -> ModelOffer:
        """Return what the hub says of a file now; see Supply."""
        return await self._ask(ModelOffer, "look", source=asdict(source))

    async def list_files(self, repo: str, revision: str = "") -> Sequence[ModelOffer]:
        """Return the GGUF files of a repository; see Supply."""
        return await self._ask(list[ModelOffer], "files", repo=repo, revision=revision)

    async def read_header(self, offer: ModelOffer) -> Header:
        """Return a file's header; see Supply."""
        return await self._ask(Header, "header", offer=asdict(offer))

    def fetch(self, offer: ModelOffer, target: Path) -> AsyncGenerator[Progress | str]:
        """Fetch a file; see Supply."""
        return self._work("fetch", offer=asdict(offer), target=str(target.absolute()))

    def copy(self, source: Path, target: Path, sha256: str = "") -> AsyncGenerator[Progress | str]:
        """Copy a file of this machine; see Supply."""
        paths = {"source": str(source.absolute()), "target": str(target.absolute())}
        return self._work("copy", **paths, sha256=sha256)

    def hash_file(self, path: Path) -> AsyncGenerator[Progress | str]:
        """Read a file through; see Supply."""
        return self._work("digest", path=str(path.absolute()))

    async def aclose(self) -> None:
        """End the child; what it was fetching can go on later."""
        await self._fetcher.aclose()

    async def _ask(self, kind: type[T], question: str, **asked: object) -> T:
        """Return the answer to a question."""
        steps = self._steps(question, asked, lambda value: _convert(value, kind), None)
        async with aclosing(steps):
            async for step in steps:
                if not isinstance(step, Progress):
                    return step
        raise AssertionError("it ends with an answer or an error")

    def _work(self, kind: str, **asked: object) -> AsyncGenerator[Progress | str]:
        """Do what takes a while; at last its sha256."""
        return self._steps(kind, asked, _checked_sha256, GRACE_SECONDS)

    async def _steps(
        self,
        kind: str,
        asked: Mapping[str, object],
        read: Callable[[object], T],
        grace: float | None,
    ) -> AsyncGenerator[Progress | T]:
        """Yield how far it is and then what comes of it, begun again if the child died over it.

        Closed early, it waits for the child to let go of it for so many seconds, if any.
        """
        done, closings = 0, self._fetcher.closings
        for attempt in range(_MAX_ATTEMPTS):
            call = self._fetcher.running().call(kind, **asked)
            try:
                while (frame := await call.receive()).get("type") == "progress":
                    step = _convert(frame.get("progress"), Progress)
                    done = max(done, step.done)
                    yield replace(step, done=min(done, step.total))
                if self._fetcher.closings != closings:  # though the child was quicker
                    raise _stopped_error()
                yield read(_reply_value(frame))
                return
            except Died as death:
                if self._fetcher.closings != closings:
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
                self._fetcher.schedule_idle_end()
                if grace is None:
                    call.cancel()
                else:
                    await call.close(grace)


class _InvalidReply(WorkerError):
    """The child said something that has no meaning; it is a bug, or not our child."""

    def __init__(self) -> None:
        super().__init__("The download process sent an invalid reply.", "Try again.")


def _reply_value(frame: frames.Frame) -> Any:
    """Return what a frame that ends a line brings. Raises the error that it stands for."""
    match frame:
        case {"type": "done", "value": value}:
            return value
        case {"type": "failed", "error": str(name), "message": str(message), "hint": str(hint)}:
            raise _ERROR_CLASSES.get(name, WorkerError)(one_line(message, 600), one_line(hint, 600))
        case {"type": "stopped"}:
            raise _stopped_error()
    raise _InvalidReply


def _stopped_error() -> WorkerUnavailable:
    return WorkerUnavailable("It was stopped. What has come is kept.", "Ask for it again.")


def _checked_sha256(value: object) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise _InvalidReply
    return value


def _convert(value: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise _InvalidReply from error
