"""Messages between the download process and its parent."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from baton.core.catalogue_types import ModelOffer, Source
from baton.core.frozen_dataclass import frozen_dataclass
from baton.gguf.header import Header
from baton.ipc.messages import FinalReply, Message, ProgressReply


class Phase(StrEnum):
    """What a download is doing."""

    WAITING = "waiting"  # another Baton fetches the same file
    DOWNLOADING = "downloading"
    VERIFYING = "verifying"


@frozen_dataclass
class Progress:
    """How far a download is: `done` of `total` bytes, which never go backwards.

    `speed` is in bytes per second over the last seconds, `left` in seconds (None: unknown).
    """

    phase: Phase
    done: int
    total: int
    speed: float = 0.0
    left: float | None = None


# Requests


class LookUpSource(Message, tag="look"):
    """Ask a hub or an address what is there."""

    source: Source


class ListFiles(Message, tag="files"):
    """List the model files of a repository."""

    repo: str
    revision: str


class ReadHeader(Message, tag="header"):
    """Read a file's header where it is offered."""

    offer: ModelOffer


class FetchFile(Message, tag="fetch"):
    """Fetch a file, resumed."""

    offer: ModelOffer
    target: Path


class CopyFile(Message, tag="copy"):
    """Copy a file of this machine; `sha256` is what it must have, "" if any."""

    source: Path
    target: Path
    sha256: str


class HashFile(Message, tag="digest"):
    """Read a file and compute its hash."""

    path: Path


class ReadRelease(Message, tag="release"):
    """Read what a release holds, if `key` signed it."""

    source: str
    key: str


class FetchReleaseFile(Message, tag="bring"):
    """Fetch a file of a release, resumed."""

    source: str
    name: str
    size: int
    sha256: str
    target: Path


REQUESTS = (
    LookUpSource
    | ListFiles
    | ReadHeader
    | FetchFile
    | CopyFile
    | HashFile
    | ReadRelease
    | FetchReleaseFile
)

# Replies


class DownloadProgress(ProgressReply, tag="progress"):
    """How far a task is."""

    progress: Progress


class OfferReply(FinalReply, tag="offer"):
    """The answer to LookUpSource."""

    value: ModelOffer


class OffersReply(FinalReply, tag="offers"):
    """The answer to ListFiles."""

    value: list[ModelOffer]


class HeaderReply(FinalReply, tag="header"):
    """The answer to ReadHeader."""

    value: Header


class ReleaseReply(FinalReply, tag="release"):
    """The answer to ReadRelease: the text of its list."""

    value: str


class HashReply(FinalReply, tag="hash"):
    """The hash of the file that was fetched, copied or read; of a model in parts, all of theirs."""

    value: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}( [0-9a-f]{64}){0,255}\Z")]


REPLIES = DownloadProgress | OfferReply | OffersReply | HeaderReply | ReleaseReply | HashReply
