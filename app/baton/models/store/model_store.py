"""The models folder: a folder for each model, with its record and its file."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.errors import ConfigError
from baton.models.model_types import Foreign, Held, Record, Stamp, State
from baton.models.store.folder_changes import downloads_stopped, replace_whole, told, writing
from baton.models.store.manifest import Unreadable, check, encode, load, survey, tidied
from baton.models.store.safe_names import PARTIAL, RECORD, check_id, is_id, is_made
from baton.platform.durable_files import make_folder, settle

if TYPE_CHECKING:
    from baton.gguf.header import Header


class FolderShelf:
    """The models in a folder, as `baton.models.ports.Shelf` says.

    `environ` says where other programs keep their models. Every change is made by one Baton at a
    time; reading waits for nobody.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.folder = folder
        self._environ = environ

    def held(self) -> Sequence[Held]:
        """Return the models there are, by id.

        Folders without a record that can be read are left out: `problems` tells of them.
        """
        return [self._held(found) for _, found in survey(self.folder) if isinstance(found, Record)]

    def get(self, id: str) -> Held | None:
        """Return one model; None if it isn't there, or can't be a model's id at all."""
        folder = self.folder / id
        if not is_id(id) or folder.is_symlink():
            return None
        try:
            record = load(folder)
        except Unreadable:
            return None
        return self._held(record) if record is not None else None

    def put(self, record: Record) -> Held:
        """Keep a record, new or changed; replaced as a whole.

        Raises ConfigError for names that would lead out of the folder, ModelFileError where it
        can't be written.
        """
        record = tidied(record)
        check(record)
        data = encode(record)
        folder = self.folder / record.id
        with writing(self.folder):
            self._refuse_link(folder)
            make_folder(folder)
            replace_whole(folder / RECORD, data)
        return self._held(record)

    def remove(self, id: str) -> int:
        """Take a model away, with what has come of it; return the bytes freed.

        A linked file stays where it is, and so does what Baton didn't write. Raises ConfigError
        while the model is being downloaded.
        """
        from baton.models.store.deletion import delete

        check_id(id)
        folder = self.folder / id
        with told(self.folder):
            if not folder.is_dir():
                return 0
        with writing(self.folder):
            self._refuse_link(folder)
            if not folder.is_dir():  # another Baton was quicker
                return 0
            with downloads_stopped(folder, id):
                gone = delete(self._own(folder))
                # The record goes last: killed before that, the model is still listed.
                gone += delete([folder / RECORD])
                with suppress(PermissionError):  # some systems keep what is open
                    delete(folder.glob("*.lock"))
            delete(folder.glob("*.lock"))
            with suppress(OSError):  # something of somebody else's is in it
                folder.rmdir()
            settle(self.folder)
        return gone

    def stamp(self, path: Path) -> Stamp | None:
        """Return how a file looks now, None where there is none."""
        return stamp_of(path)

    def header(self, path: Path) -> Header:
        """Return a file's header. Raises ModelFileError."""
        from baton.models.store.file_header import header_of

        return header_of(path)

    def orphans(self) -> Sequence[Path]:
        """Return what lies in the folder and belongs to no model, or to one that is here anyway.

        What is being written now is never among it, nor what Baton didn't write: a folder of
        somebody else's, or one whose record can't be read, is a problem instead.
        """
        from baton.models.store.orphans import leftovers

        with told(self.folder):
            if not self.folder.is_dir():
                return []
        with writing(self.folder):
            return list(leftovers(self.folder))

    def discard(self, path: Path) -> int:
        """Delete one of those, or a model's file; return the bytes freed.

        Raises ConfigError for everything else.
        """
        from baton.models.store.orphans import discard

        with writing(self.folder):
            return discard(self.folder, path)

    def problems(self) -> Sequence[str]:
        """Return a sentence for each thing in the folder that can't be used as it is."""
        from baton.models.store.orphans import problems

        return list(problems(self.folder))

    def bundle(self, folder: Path) -> Sequence[tuple[Record, Path]]:
        """Return the models of a folder that `write_bundle` described, and where their files are.

        Raises ModelFileError.
        """
        from baton.models.store.bundle import read_bundle

        return read_bundle(folder)

    def packed(self, folder: Path, record: Record) -> Record:
        """Return a record as it goes into such a folder, with the name its file is to have there.

        Raises ModelFileError.
        """
        from baton.models.store.bundle import packed

        return packed(folder, record)

    def write_bundle(self, folder: Path, records: Sequence[Record]) -> None:
        """Describe the models whose files lie in a folder, beside what it held before.

        Raises ConfigError and ModelFileError.
        """
        from baton.models.store.bundle import write_bundle

        write_bundle(folder, records)

    def foreign(self) -> Sequence[Foreign]:
        """Return the model files on this machine that aren't linked yet: other programs', and loose
        ones in the folder.
        """
        from baton.models.store.external_models import find

        return find(self.folder, self._environ, self.held())

    def _own(self, folder: Path) -> list[Path]:
        """Return what Baton wrote into a model's folder, but its record and locks."""
        own = [path for path in folder.iterdir() if is_made(path.name) and path.suffix != ".lock"]
        with suppress(Unreadable):
            record = load(folder)
            if record is not None and not record.link:
                own.append(folder / record.file)
        return own

    def _refuse_link(self, folder: Path) -> None:
        if folder.is_symlink():
            raise ConfigError(
                f"{folder} is a link to somewhere else, so Baton leaves it alone.",
                "Delete the link if you don't need it, or move what it leads to in its place.",
            )

    def _held(self, record: Record) -> Held:
        folder = self.folder / record.id
        path = Path(record.link) if record.link else folder / record.file
        there = stamp_of(path)
        return Held(record, path, _state(record, there), self._bytes(record, folder, there))

    def _bytes(self, record: Record, folder: Path, there: Stamp | None) -> int:
        if record.link:
            return 0
        if there is not None:
            return 0 if (folder / record.file).is_symlink() else there.size
        if record.sha256:
            coming = [folder / f"{record.sha256}{PARTIAL}"]
        else:
            coming = list(folder.glob(f"*{PARTIAL}"))
        return max((found.size for found in map(stamp_of, coming) if found is not None), default=0)


def stamp_of(path: Path) -> Stamp | None:
    """Return how an ordinary file looks now, None where there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Stamp(status.st_size, status.st_mtime_ns)


def _state(record: Record, there: Stamp | None) -> State:
    """Tell how a model stands, by its record and by how its file looks now."""
    if record.wrong:
        return State.BROKEN
    if there is None:
        return State.GONE if record.stamp is not None or record.link else State.COMING
    if there != record.stamp:
        return State.CHANGED
    return State.LINKED if record.link else State.HERE
