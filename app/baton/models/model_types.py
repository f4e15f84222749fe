"""The models on this machine: what is recorded of each, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from baton.core.catalogue_types import UNKNOWN_SOURCE, ModelRole, Source


class ModelState(StrEnum):
    """How a model on this machine stands. Only what is here or linked is ever loaded."""

    HERE = "here"
    LINKED = "linked"  # somebody else's file, used where it lies
    CHANGED = "changed"  # its file is not as it was verified: read again before it is loaded
    COMING = "coming"  # wanted, not all of it is here yet
    BROKEN = "broken"  # its contents aren't what they should be
    GONE = "gone"  # its file isn't there any more

    @property
    def is_usable(self) -> bool:
        """Whether it may answer; what has changed is verified first."""
        return self in (ModelState.HERE, ModelState.LINKED, ModelState.CHANGED)


@dataclass(frozen=True, slots=True)
class FileStamp:
    """How a file looked when its contents were last verified: bytes, and time of last change."""

    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """What is kept of one model, in a file of its own beside it.

    `file` is the file's name; it lies in the model's own folder, or at `link` if that is set.
    `sha256` "" is not known yet. `roles` are those it takes when it has arrived, `stamp` is None
    until it was verified, `wrong` says what was found to be wrong with it. `forced` is whether the
    person wants it although it doesn't fit. `added` is in seconds since the epoch.
    """

    id: str
    name: str
    file: str
    source: Source = UNKNOWN_SOURCE
    size: int = 0
    sha256: str = ""
    licence: str = ""
    roles: tuple[ModelRole, ...] = ()
    added: float = 0.0
    stamp: FileStamp | None = None
    link: str = ""
    forced: bool = False
    paused: bool = False
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class LibraryModel:
    """A model on this machine: its record, where its file is, how it stands, and the bytes here.

    `bytes` counts what lies in Baton's own folder: of a download, what has come so far.
    """

    record: ModelRecord
    path: Path
    state: ModelState
    bytes: int

    @property
    def id(self) -> str:
        """Its id, which is its worker's too."""
        return self.record.id


@dataclass(frozen=True, slots=True)
class ExternalModel:
    """A model file of another program on this machine, that could be used where it lies.

    `sha256` is "" where that program doesn't tell; `program` is its name for people.
    """

    name: str
    path: Path
    size: int
    program: str
    sha256: str = ""
    source: Source = UNKNOWN_SOURCE
