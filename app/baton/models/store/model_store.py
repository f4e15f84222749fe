"""The models folder: a folder for each model, with its record and its file."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.errors import ConfigError
from baton.core.machine import show_size
from baton.gguf.split_files import part_names, part_paths
from baton.models.ports import ExternalModel, FileStamp, LibraryModel, ModelRecord, ModelState
from baton.models.store.manifest import (
    UnreadableRecord,
    check_record,
    clean_record,
    encode_record,
    list_records,
    load_record,
    path_text,
)
from baton.models.store.store_files import (
    DRAFT_PREFIX,
    PARTIAL_SUFFIX,
    RECORD_FILE,
    check_model_id,
    delete_files,
    explain_folder_errors,
    hold_download_locks,
    is_baton_file,
    is_locked,
    is_model_id,
    is_regular_file,
    lock_folder,
    replace_json,
)
from baton.platform.durable_files import make_folder, sync_folder

if TYPE_CHECKING:
    from baton.gguf.header import Header


class FolderModelStore:
    """The models in a folder. Its methods are quick: none reads a whole file.

    Names that would lead out of the folder are refused with ConfigError. `environ` says where other
    programs keep their models. One process at a time makes changes; reading never waits.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.folder = folder
        self._environ = environ

    def models(self) -> Sequence[LibraryModel]:
        """Return the models there are, by id.

        Folders without a record that can be read are left out: `problems` lists them.
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
        """Save a record, new or changed; its file is replaced as a whole.

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
        """Remove a model, with what has come of it; return the bytes freed.

        A linked file stays where it is, and so does what Baton didn't write. Raises ConfigError
        while the model is being downloaded.
        """
        check_model_id(id)
        folder = self.folder / id
        with explain_folder_errors(self.folder):
            if not folder.is_dir():
                return 0
        with lock_folder(self.folder):
            self._refuse_link(folder)
            if not folder.is_dir():  # another Baton has just removed it
                return 0
            with hold_download_locks(folder, id):
                gone = delete_files(self._written_files(folder))
                # The record goes last: killed before that, the model is still listed.
                gone += delete_files([folder / RECORD_FILE])
                with suppress(PermissionError):  # some systems keep what is open
                    delete_files(folder.glob("*.lock"))
            delete_files(folder.glob("*.lock"))
            with suppress(OSError):  # it holds files that aren't Baton's
                folder.rmdir()
            sync_folder(self.folder)
        return gone

    def read_header(self, path: Path) -> Header:
        """Return a file's header. Raises ModelFileError."""
        from baton.models.store.external_models import read_file_header

        return read_file_header(path)

    def orphans(self) -> Sequence[Path]:
        """Return what is in the folder and belongs to no model, or to one that is here anyway.

        Files that are being written are never among it, nor files that Baton didn't write: a
        foreign folder, or one whose record can't be read, is a problem instead.
        """
        with explain_folder_errors(self.folder):
            if not self.folder.is_dir():
                return []
        with lock_folder(self.folder):
            return list(find_leftovers(self.folder))

    def discard(self, path: Path) -> int:
        """Delete an orphan, or a model's file; return the bytes freed.

        Raises ConfigError for everything else.
        """
        with lock_folder(self.folder):
            return delete_leftover(self.folder, path)

    def problems(self) -> Sequence[str]:
        """Return a sentence for each thing in the folder that can't be used as it is."""
        return list(find_problems(self.folder))

    def external_models(self) -> Sequence[ExternalModel]:
        """Return the model files on this machine that aren't linked yet: other programs', and loose
        ones in the folder.
        """
        from baton.models.store.external_models import FolderScan, find_external_models

        return find_external_models(self.folder, self._environ, self.models(), FolderScan())

    def _written_files(self, folder: Path) -> list[Path]:
        """Return what Baton wrote into a model's folder, but its record and locks."""
        own = [
            path for path in folder.iterdir() if is_baton_file(path.name) and path.suffix != ".lock"
        ]
        with suppress(UnreadableRecord):
            record = load_record(folder)
            if record is not None and not record.link:
                own += part_paths(folder / record.file)
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
        if len(paths := part_paths(folder / record.file)) > 1:
            here = [*paths, *folder.glob(f"*{PARTIAL_SUFFIX}")]
            return sum(found.size for found in map(_single_stamp, here) if found is not None)
        if record.sha256:
            coming = [folder / f"{record.sha256}{PARTIAL_SUFFIX}"]
        else:
            coming = list(folder.glob(f"*{PARTIAL_SUFFIX}"))
        return max(
            (found.size for found in map(file_stamp, coming) if found is not None), default=0
        )


def file_stamp(path: Path) -> FileStamp | None:
    """Return how an ordinary file looks now, None where there is none.

    A model in several files has the bytes of all, None if one is missing, and a time that is
    another one as soon as one of theirs is.
    """
    found = [_single_stamp(part) for part in part_paths(path)]
    stamps = [stamp for stamp in found if stamp is not None]
    if len(stamps) < len(found):
        return None
    times = sum(place * stamp.mtime_ns for place, stamp in enumerate(stamps, start=1))
    return FileStamp(sum(stamp.size for stamp in stamps), times % (1 << 62))


def _single_stamp(path: Path) -> FileStamp | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileStamp(status.st_size, status.st_mtime_ns)


def _model_state(record: ModelRecord, there: FileStamp | None) -> ModelState:
    """Return a model's state, from its record and its file as it is now."""
    if record.wrong:
        return ModelState.BROKEN
    if there is None:
        return ModelState.GONE if record.stamp is not None or record.link else ModelState.COMING
    if there != record.stamp:
        return ModelState.CHANGED
    return ModelState.LINKED if record.link else ModelState.HERE


def find_leftovers(folder: Path) -> Iterator[Path]:
    """Yield what belongs to no model, or to one that is here anyway.

    Called with the folder locked: a file that is being written looks the same.
    """
    found = list(list_records(folder))
    linked = {link for _, record in found for link in _linked_paths(record)}
    for model, record in found:
        if not isinstance(record, str) and is_model_id(model.name):
            yield from _leftovers_in(model, record, linked)


def delete_leftover(folder: Path, path: Path) -> int:
    """Delete a file of a model, or a folder without one; return the bytes freed.

    Raises ConfigError for everything else. Called with the folder locked.
    """
    inside = path.parts[len(folder.parts) :] if path.is_relative_to(folder) else ()
    found = dict(list_records(folder))
    linked = {link for record in found.values() for link in _linked_paths(record)}
    model = folder.joinpath(*inside[:1])
    if ".." not in inside and len(inside) in (1, 2) and is_model_id(model.name) and model in found:
        record = found[model]
        if not isinstance(record, str):
            if path == model and list(_leftovers_in(model, record, linked)) == [model]:
                freed = delete_files(_folder_entries(model))
                model.rmdir()
                return freed
            if path != model and path.name != RECORD_FILE and path not in linked and _is_idle(path):
                return delete_files([path])
    raise ConfigError(
        f"{path_text(path)} isn't a leftover of Baton, so it was not deleted.",
        "Delete it by hand if you don't need it.",
    )


def find_problems(folder: Path) -> Iterator[str]:
    """Yield a sentence for each thing in the folder that isn't a model as it should be."""
    try:
        next(folder.iterdir(), None)
    except FileNotFoundError:
        return
    except OSError as error:
        yield f"The models folder {path_text(folder)} can't be read: {error.strerror}."
        return
    found = list(list_records(folder))
    linked = {link for _, record in found for link in _linked_paths(record)}
    for model, record in found:
        where = f"What is in it ({_folder_size(model)}) is kept"
        if isinstance(record, str):
            yield f"{path_text(model)} can't be used as a model: {record}. {where}."
        elif record is None and not (_is_leftover_folder(model) or (model / RECORD_FILE).exists()):
            yield f"{path_text(model)} isn't a model that Baton has put there. {where}."
        elif isinstance(record, ModelRecord):
            yield from _unknown_model_files(model, record, linked)


def _unknown_model_files(
    folder: Path, record: ModelRecord, linked: Collection[Path]
) -> Iterator[str]:
    """Yield a sentence for each unknown model file, such as a LoRA adapter or another model."""
    for path in _folder_entries(folder):
        theirs = path.suffix.lower() == ".gguf" and not is_baton_file(path.name)
        if theirs and not _is_wanted(path, record) and path not in linked:
            yield f"{path_text(path)} belongs to no model, and Baton leaves it alone."


def _leftovers_in(
    folder: Path, record: ModelRecord | None, linked: Collection[Path]
) -> Iterator[Path]:
    """Yield what is left over in a model's folder."""
    if any(is_locked(lock) for lock in folder.glob("*.lock")):
        return
    if record is None and _is_leftover_folder(folder):
        yield folder
        return
    for path in _folder_entries(folder):
        wanted = record is not None and _is_wanted(path, record)
        if (
            is_baton_file(path.name)
            and not wanted
            and path not in linked
            and (path.is_symlink() or is_regular_file(path))
        ):
            yield path


def _is_wanted(path: Path, record: ModelRecord) -> bool:
    """Whether a model has, or still needs, that file of its folder."""
    names = part_names(record.file)
    if not record.link and path.name in names:
        return True
    is_here = all(is_regular_file(path.parent / name) for name in names)
    coming = not (record.link or record.stamp or record.wrong or is_here)
    hashes = tuple(part.sha256 for part in record.parts) or record.sha256
    return coming and path.name.startswith(hashes) and not path.name.startswith(DRAFT_PREFIX)


def _is_leftover_folder(folder: Path) -> bool:
    """Whether a folder without a record holds nothing but what Baton left there."""
    return is_model_id(folder.name) and all(
        is_baton_file(path.name) and not path.is_dir() for path in _folder_entries(folder)
    )


def _is_idle(path: Path) -> bool:
    """Whether that is a file that no process is writing."""
    if not (path.is_symlink() or is_regular_file(path)):
        return False
    return not (
        is_baton_file(path.name) and any(is_locked(lock) for lock in path.parent.glob("*.lock"))
    )


def _linked_paths(record: ModelRecord | str | None) -> tuple[Path, ...]:
    if isinstance(record, ModelRecord) and record.link:
        return part_paths(Path(record.link))
    return ()


def _folder_size(folder: Path) -> str:
    size = 0
    for path in _folder_entries(folder):
        with suppress(OSError):
            size += path.lstat().st_size
    return show_size(size)


def _folder_entries(folder: Path) -> list[Path]:
    """Return what is in a folder; nothing if it went just now."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
