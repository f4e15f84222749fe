"""Where models come from, and where they are kept: the Protocols that the library works with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Protocol

from baton.core.catalogue_types import ModelOffer, Source
from baton.download.progress import Progress
from baton.gguf.header import Header
from baton.models.model_types import ExternalModel, FileStamp, LibraryModel, ModelRecord


class ModelSource(Protocol):
    """Where model files come from: the only part of Baton that connects to a hub.

    Raises ModelFileError where a file is wrong, WorkerUnavailable where nothing could be reached,
    ConfigError for what doesn't exist or in offline mode.
    """

    async def look_up(self, source: Source) -> ModelOffer:
        """Return what the hub offers as this file now, pinned to a revision.

        A `source.revision` of 40 hex digits stays. `source.file` must be a file's name.
        """
        ...

    async def list_files(self, repo: str, revision: str = "") -> Sequence[ModelOffer]:
        """Return the GGUF files of a repository, all pinned to the same revision."""
        ...

    async def read_header(self, offer: ModelOffer) -> Header:
        """Return a file's header, read by ranged requests before the file itself is fetched."""
        ...

    def fetch(self, offer: ModelOffer, target: Path) -> AsyncGenerator[Progress | str]:
        """Fetch a file to `target`, resuming an earlier attempt; yields its sha256 last.

        `target` appears only when its contents have been verified. Closing the generator pauses;
        what has come stays, as `<sha256>.partial` in `target`'s folder.
        """
        ...

    def copy(self, source: Path, target: Path, sha256: str = "") -> AsyncGenerator[Progress | str]:
        """Copy a local file to `target`, verified as `fetch` does; yields its sha256 last."""
        ...

    def hash_file(self, path: Path) -> AsyncGenerator[Progress | str]:
        """Read a file; yields progress, then its sha256 in hex."""
        ...

    async def aclose(self) -> None:
        """End child processes. Downloads stop, and can continue later."""
        ...


class ModelStore(Protocol):
    """The folder where models lie. Its methods are quick: none reads a whole file.

    Names that would lead out of the folder are refused with ConfigError.
    """

    def models(self) -> Sequence[LibraryModel]:
        """Return the models there are, by id; folders without a record are left out."""
        ...

    def get(self, id: str) -> LibraryModel | None:
        """Return one model, None if it isn't there."""
        ...

    def save(self, record: ModelRecord) -> LibraryModel:
        """Keep a record, new or changed; replaced as a whole."""
        ...

    def file_stamp(self, path: Path) -> FileStamp | None:
        """Return a file's stamp as it is now, None where there is no file."""
        ...

    def read_header(self, path: Path) -> Header:
        """Return a file's header. Raises ModelFileError."""
        ...

    def remove(self, id: str) -> int:
        """Remove a model, with what has come of it; return the bytes freed.

        A linked file stays where it is.
        """
        ...

    def orphans(self) -> Sequence[Path]:
        """Return what lies in the folder and belongs to no model, or to one that is here anyway."""
        ...

    def problems(self) -> Sequence[str]:
        """Return a sentence for each thing in the folder that can't be read or isn't Baton's."""
        ...

    def discard(self, path: Path) -> int:
        """Delete an orphan; return the bytes freed."""
        ...

    def read_bundle(self, folder: Path) -> Sequence[tuple[ModelRecord, Path]]:
        """Return the models of a folder that `write_bundle` described, and where their files are.

        Raises ModelFileError.
        """
        ...

    def bundled_record(self, folder: Path, record: ModelRecord) -> ModelRecord:
        """Return a model's record as it goes into such a folder, with its file's name there."""
        ...

    def write_bundle(self, folder: Path, records: Sequence[ModelRecord]) -> None:
        """Describe the models whose files lie in a folder, beside what it held before."""
        ...

    def external_models(self) -> Sequence[ExternalModel]:
        """Return the model files of other programs on this machine that aren't linked yet."""
        ...
