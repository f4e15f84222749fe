"""What a model is in the library, and why one isn't taken."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.catalogue_types import UNKNOWN_SOURCE, FilePart, ModelRole, Source
from baton.core.errors import ConfigError, ModelFileError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.gguf.split_files import part_paths

if TYPE_CHECKING:
    from baton.gguf.memory_fit import FitVerdict


class ModelState(StrEnum):
    """The state of a model on this machine. Only what is here or linked is ever loaded."""

    HERE = "here"
    LINKED = "linked"  # another program's file, used where it is
    CHANGED = "changed"  # its file is not as it was verified: read again before it is loaded
    COMING = "coming"  # wanted, not all of it is here yet
    BROKEN = "broken"  # its contents aren't what they should be
    GONE = "gone"  # its file isn't there any more

    @property
    def is_usable(self) -> bool:
        """Whether it may answer; what has changed is verified first."""
        return self in (ModelState.HERE, ModelState.LINKED, ModelState.CHANGED)


@frozen_dataclass
class FileStamp:
    """A file's bytes and time of last change when its contents were last verified."""

    size: int
    mtime_ns: int


@frozen_dataclass
class ModelRecord:
    """What is recorded of one model, in a file beside it.

    `file` is the file's name; it is in the model's own folder, or at `link` if that is set.
    `sha256` "" is not known yet. Of a model in several `parts`, `file` and `link` are the first
    one's, `size` and `sha256` those of all together. `roles` are those it takes on arrival, `stamp`
    is None until the file was verified, `wrong` says what is wrong with it, `fault` why it wrote no
    word when it was tried, `note` what is wrong with its chat template. `forced` is whether the
    person took it although it doesn't fit. `added` is in seconds since the epoch.
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
    fault: str = ""
    note: str = ""
    parts: tuple[FilePart, ...] = ()

    @property
    def hashes(self) -> str:
        """The sha256 of its file, or those of its parts in a line; "" if unknown."""
        hashes = [part.sha256 for part in self.parts]
        return (" ".join(hashes) if all(hashes) else "") if hashes else self.sha256


@frozen_dataclass
class LibraryModel:
    """A model on this machine: its record, where its file is, how it stands, and the bytes here.

    `bytes` counts what is in Baton's own folder: of a download, what has come so far.
    """

    record: ModelRecord
    path: Path
    state: ModelState
    bytes: int

    @property
    def id(self) -> str:
        """Its id, which is its worker's too."""
        return self.record.id

    @property
    def missing(self) -> str:
        """What isn't there of it: "the file", or which of its parts."""
        paths = part_paths(self.path)
        lost = [str(number) for number, path in enumerate(paths, start=1) if not path.is_file()]
        return f"part {', '.join(lost)} of {len(paths)}" if lost and paths[1:] else "the file"

    @property
    def may_answer(self) -> bool:
        """Whether it may answer without being asked for by name."""
        return self.state.is_usable and not self.record.fault

    @property
    def is_unfinished(self) -> bool:
        """Whether its download can be resumed: a part is missing, or it was never verified."""
        is_unverified = self.state is ModelState.CHANGED and self.record.stamp is None
        return self.state is ModelState.COMING or (is_unverified and not self.record.link)


@frozen_dataclass
class ExternalModel:
    """A model file of another program on this machine, that could be used where it is.

    `sha256` is "" where that program doesn't record it; `program` is its name for people.
    """

    name: str
    path: Path
    size: int
    program: str
    sha256: str = ""
    source: Source = UNKNOWN_SOURCE


class NeedsAgreement(ConfigError):
    """A model's licence restricts its use, and the user hasn't agreed to it."""

    def __init__(self, name: str, licence: str, source: Source = UNKNOWN_SOURCE) -> None:
        place = source.url or (f"hf.co/{source.repo}" if source.repo else "")
        super().__init__(
            f"{name} comes under the licence {licence or 'unknown'}.",
            f"Read it first{place and f' ({place})'}; `--agree` says that you accept it.",
        )
        self.place = place


class DoesNotFit(ModelFileError):
    """A model won't fit this machine, and the user hasn't forced it."""

    def __init__(self, verdict: FitVerdict) -> None:
        super().__init__(verdict.why, f"{verdict.remedy} `--force` fetches it anyway.".strip())
        self.verdict = verdict
