"""The models folder: a folder for each model, with its record and its file."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.errors import ConfigError
from baton.models.model_types import ExternalModel, FileStamp, LibraryModel, ModelRecord, ModelState
from baton.models.store.folder_changes import (
    explain_folder_errors,
    hold_download_locks,
    lock_folder,
    replace_json,
)
from baton.models.store.manifest import (
    UnreadableRecord,
    check_record,
    clean_record,
    encode_record,
    list_records,
    load_record,
)
from baton.models.store.safe_names import (
    PARTIAL_SUFFIX,
    RECORD_FILE,
    check_model_id,
    is_baton_file,
    is_model_id,
)
from baton.platform.durable_files import make_folder, sync_folder

if TYPE_CHECKING:
    from baton.gguf.header import Header


class FolderModelStore:
    """The models in a folder, as `baton.models.ports.Shelf` says.

    `environ` says where other programs keep their models. Every change is made by one Baton at a
    time; reading waits for nobody.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.folder = folder
        self._environ = environ

    def models(self) -> Sequence[LibraryModel]:
        """Return the models there are, by id.

        Folders without a record that can be read are left out: `problems` tells of them.
        """
        return [
            self._to_model(found)
            for _, found in list_records(self.folder)
            if isinstance(found, ModelRecord)
        ]

    def get(self, id: str) -> LibraryModel | None:
        """Return one model; None if it isn't there, or can't be a model's id at all."""
        folder = self.folder / id
        if not is_model_id(id) or folder.is_symlink():
            return None
        try:
            record = load_record(folder)
        except UnreadableRecord:
            return None
        return self._to_model(record) if record is not None else None

    def save(self, record: ModelRecord) -> LibraryModel:
        """Keep a record, new or changed; replaced as a whole.

        Raises ConfigError for names that would lead out of the folder, ModelFileError where it
        can't be written.
        """
        record = clean_record(record)
        check_record(record)
        data = encode_record(record)
        folder = self.folder / record.id
        with lock_folder(self.folder):
            self._refuse_link(folder)
            make_folder(folder)
            replace_json(folder / RECORD_FILE, data)
        return self._to_model(record)

    def remove(self, id: str) -> int:
        """Take a model away, with what has come of it; return the bytes freed.

        A linked file stays where it is, and so does what Baton didn't write. Raises ConfigError
        while the model is being downloaded.
        """
        from baton.models.store.deletion import delete_files

        check_model_id(id)
        folder = self.folder / id
        with explain_folder_errors(self.folder):
            if not folder.is_dir():
                return 0
        with lock_folder(self.folder):
            self._refuse_link(folder)
            if not folder.is_dir():  # another Baton was quicker
                return 0
            with hold_download_locks(folder, id):
                gone = delete_files(self._written_files(folder))
                # The record goes last: killed before that, the model is still listed.
                gone += delete_files([folder / RECORD_FILE])
                with suppress(PermissionError):  # some systems keep what is open
                    delete_files(folder.glob("*.lock"))
            delete_files(folder.glob("*.lock"))
            with suppress(OSError):  # something of somebody else's is in it
                folder.rmdir()
            sync_folder(self.folder)
        return gone

    def file_stamp(self, path: Path) -> FileStamp | None:
        """Return how a file looks now, None where there is none."""
        return file_stamp(path)

    def read_header(self, path: Path) -> Header:
        """Return a file's header. Raises ModelFileError."""
        from baton.models.store.file_header import read_file_header

        return read_file_header(path)

    def orphans(self) -> Sequence[Path]:
        """Return what lies in the folder and belongs to no model, or to one that is here anyway.

        What is being written now is never among it, nor what Baton didn't write: a folder of
        somebody else's, or one whose record can't be read, is a problem instead.
        """
        from baton.models.store.orphans import find_leftovers

        with explain_folder_errors(self.folder):
            if not self.folder.is_dir():
                return []
        with lock_folder(self.folder):
            return list(find_leftovers(self.folder))

    def discard(self, path: Path) -> int:
        """Delete one of those, or a model's file; return the bytes freed.

        Raises ConfigError for everything else.
        """
        from baton.models.store.orphans import delete_leftover

        with lock_folder(self.folder):
            return delete_leftover(self.folder, path)

    def problems(self) -> Sequence[str]:
        """Return a sentence for each thing in the folder that can't be used as it is."""
        from baton.models.store.orphans import find_problems

        return list(find_problems(self.folder))

    def read_bundle(self, folder: Path) -> Sequence[tuple[ModelRecord, Path]]:
        """Return the models of a folder that `write_bundle` described, and where their files are.

        Raises ModelFileError.
        """
        from baton.models.store.bundle import read_bundle

        return read_bundle(folder)

    def bundled_record(self, folder: Path, record: ModelRecord) -> ModelRecord:
        """Return a record as it goes into such a folder, with the name its file is to have there.

        Raises ModelFileError.
        """
        from baton.models.store.bundle import bundled_record

        return bundled_record(folder, record)

    def write_bundle(self, folder: Path, records: Sequence[ModelRecord]) -> None:
        """Describe the models whose files lie in a folder, beside what it held before.

        Raises ConfigError and ModelFileError.
        """
        from baton.models.store.bundle import write_bundle

        write_bundle(folder, records)

    def external_models(self) -> Sequence[ExternalModel]:
        """Return the model files on this machine that aren't linked yet: other programs', and loose
        ones in the folder.
        """
        from baton.models.store.external_models import find_external_models

        return find_external_models(self.folder, self._environ, self.models())

    def _written_files(self, folder: Path) -> list[Path]:
        """Return what Baton wrote into a model's folder, but its record and locks."""
        own = [
            path for path in folder.iterdir() if is_baton_file(path.name) and path.suffix != ".lock"
        ]
        with suppress(UnreadableRecord):
            record = load_record(folder)
            if record is not None and not record.link:
                own.append(folder / record.file)
        return own

    def _refuse_link(self, folder: Path) -> None:
        if folder.is_symlink():
            raise ConfigError(
                f"{folder} is a link to somewhere else, so Baton leaves it alone.",
                "Delete the link if you don't need it, or move what it leads to in its place.",
            )

    def _to_model(self, record: ModelRecord) -> LibraryModel:
        folder = self.folder / record.id
        path = Path(record.link) if record.link else folder / record.file
        there = file_stamp(path)
        return LibraryModel(
            record, path, _model_state(record, there), self._stored_bytes(record, folder, there)
        )

    def _stored_bytes(self, record: ModelRecord, folder: Path, there: FileStamp | None) -> int:
        if record.link:
            return 0
        if there is not None:
            return 0 if (folder / record.file).is_symlink() else there.size
        if record.sha256:
            coming = [folder / f"{record.sha256}{PARTIAL_SUFFIX}"]
        else:
            coming = list(folder.glob(f"*{PARTIAL_SUFFIX}"))
        return max(
            (found.size for found in map(file_stamp, coming) if found is not None), default=0
        )


def file_stamp(path: Path) -> FileStamp | None:
    """Return how an ordinary file looks now, None where there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileStamp(status.st_size, status.st_mtime_ns)


def _model_state(record: ModelRecord, there: FileStamp | None) -> ModelState:
    """Tell how a model stands, by its record and by how its file looks now."""
    if record.wrong:
        return ModelState.BROKEN
    if there is None:
        return ModelState.GONE if record.stamp is not None or record.link else ModelState.COMING
    if there != record.stamp:
        return ModelState.CHANGED
    return ModelState.LINKED if record.link else ModelState.HERE
