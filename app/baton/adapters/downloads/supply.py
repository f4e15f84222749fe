"""Model files from hubs and addresses; see engine.supply.Supply."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from baton.adapters.downloads.fetcher import Fetcher, Line
from baton.children import framing
from baton.children.process import Died
from baton.domain.catalogue import Offer, Source
from baton.domain.errors import (
    BatonError,
    ConfigError,
    ModelFileError,
    SecretMissing,
    WorkerError,
    WorkerUnavailable,
)
from baton.domain.gguf import Header
from baton.domain.library import Progress
from baton.domain.sanitise import one_line

IDLE_SECONDS = 60.0
"""How long the child stays when it has nothing to do."""

_ATTEMPTS = 2
"""A child that died takes nothing with it, so what it did goes on in another, once."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_KINDS: dict[str, type[BatonError]] = {
    cls.__name__: cls for cls in (ConfigError, ModelFileError, SecretMissing, WorkerUnavailable)
}

T = TypeVar("T")


class HubSupply:
    """Asks and fetches through one child process, which is started when first needed."""

    def __init__(
        self, *, environ: Mapping[str, str] = os.environ, idle: float = IDLE_SECONDS
    ) -> None:
        self._fetcher = Fetcher(environ, idle)

    @property
    def pid(self) -> int | None:
        """The child's process, where it runs."""
        return self._fetcher.pid

    async def look(self, source: Source) -> Offer:
        """Return what the hub says of a file now; see Supply."""
        return await self._ask(Offer, "look", source=asdict(source))

    async def files(self, repo: str, revision: str = "") -> Sequence[Offer]:
        """Return the GGUF files of a repository; see Supply."""
        return await self._ask(list[Offer], "files", repo=repo, revision=revision)

    async def header(self, offer: Offer) -> Header:
        """Return a file's header; see Supply."""
        return await self._ask(Header, "header", offer=asdict(offer))

    def fetch(self, offer: Offer, target: Path) -> AsyncGenerator[Progress | str]:
        """Fetch a file; see Supply."""
        return self._work("fetch", offer=asdict(offer), target=str(target.absolute()))

    def copy(self, source: Path, target: Path, sha256: str = "") -> AsyncGenerator[Progress | str]:
        """Copy a file of this machine; see Supply."""
        paths = {"source": str(source.absolute()), "target": str(target.absolute())}
        return self._work("copy", **paths, sha256=sha256)

    def digest(self, path: Path) -> AsyncGenerator[Progress | str]:
        """Read a file through; see Supply."""
        return self._work("digest", path=str(path.absolute()))

    async def aclose(self) -> None:
        """End the child; what it was fetching can go on later."""
        await self._fetcher.aclose()

    async def _ask(self, kind: type[T], question: str, **asked: object) -> T:
        """Return the answer to a question, asked again if the child died over it."""
        for attempt in range(_ATTEMPTS):
            line = self._fetcher.open(question, **asked)
            try:
                while (frame := await line.receive()).get("type") == "progress":
                    pass
                return _converted(_value(frame), kind)
            except Died as death:
                _give_up(death, attempt)
            except _Nonsense:
                line.child.kill()
                raise
            finally:
                line.abandon()
        raise AssertionError("the last attempt raises")

    async def _work(self, kind: str, **asked: object) -> AsyncGenerator[Progress | str]:
        """Do what takes a while, begun again (where it was) if the child died over it."""
        done = 0
        for attempt in range(_ATTEMPTS):
            line = self._fetcher.open(kind, **asked)
            try:
                while not isinstance(step := await _step(line), str):
                    done = max(done, step.done)
                    yield replace(step, done=min(done, step.total))
                yield step
                return
            except Died as death:
                _give_up(death, attempt)
            except _Nonsense:
                line.child.kill()
                raise
            finally:
                await line.close()


class _Nonsense(WorkerError):
    """The child said something that has no meaning; it is a bug, or not our child."""

    def __init__(self) -> None:
        super().__init__("What fetches models answered nonsense.", "Try again.")


async def _step(line: Line) -> Progress | str:
    """Return how far it is, or the hash at its end."""
    frame = await line.receive()
    if frame.get("type") == "progress":
        return _converted(frame.get("progress"), Progress)
    value = _value(frame)
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise _Nonsense
    return value


def _value(frame: framing.Frame) -> Any:
    """Return what a frame that ends a line brings. Raises the error that it stands for."""
    match frame:
        case {"type": "done", "value": value}:
            return value
        case {"type": "failed", "error": str(name), "message": str(message), "hint": str(hint)}:
            raise _KINDS.get(name, WorkerError)(one_line(message, 600), one_line(hint, 600))
        case {"type": "stopped"}:
            raise WorkerUnavailable("It was stopped. What has come is kept.", "Ask for it again.")
    raise _Nonsense


def _converted(value: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _Nonsense from error


def _give_up(death: Died, attempt: int) -> None:
    """Raise if the child has died once too often."""
    if attempt + 1 == _ATTEMPTS:
        raise WorkerUnavailable(
            f"What fetches models fell over {_ATTEMPTS} times. {death} What has come is kept.",
            "Try again.",
        ) from death
