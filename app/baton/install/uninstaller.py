"""Baton's files on this machine, and their removal: its own files, and nothing else.

Everything is named here, or in the receipt; links are taken away and never followed, and a folder
goes only when nothing is left in it. What Baton unpacked goes whole, unless a Baton runs from it.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from baton.install.installation import (
    STATE_FOLDER,
    InstallationPaths,
    own_installation,
    read_receipt,
)
from baton.install.unpack_cache import UnpackCache, folder_entries, is_single_file

if TYPE_CHECKING:
    from baton.platform.paths import Paths

_STAGED_NAME = re.compile(r"[0-9a-f]{64}\.(partial|partial\.etag|lock)|baton-.*|previous(\.part)?")

_HOME_NAME = re.compile(r"[0-9a-f]{16}")
"""What the folder of a binary that no installer installed is called."""

_INSTALLED_NAMES = {"_baton", "baton.fish", "baton.svg", "baton.desktop"}
"""The files that the installer installs besides the program, and bash's `completions/baton`."""

_DATA_FILES = ("baton.db*", "ledger.db*", "router/*.npz")
_STATE_FILES = (
    *("ledgers/*", "log/crash-*.txt", "lender*"),
    *("recommended.json", "missed-worker", "models-later"),
)
_SETTINGS_FILES = ("config.toml", ".config.toml.*", "catalogue.toml", "templates/*.toml")


@dataclass(frozen=True, slots=True)
class RemovableFiles:
    """Files that are removed together: their name for people, their paths, and their bytes."""

    name: str
    paths: tuple[Path, ...]
    size: int


class InstalledFiles:
    """The files of an installation, and the user's files in Baton's folders."""

    def __init__(
        self, place: InstallationPaths, config: Path, data: Path, state: Path, cache: Path
    ) -> None:
        self._place = place
        self._config, self._data, self._state, self._cache = config, data, state, cache
        self._unpacked = UnpackCache(cache / "app")
        # Known from the receipt, which goes before they can.
        self._made = [Path(folder) for folder in read_receipt(place.receipt).folders]

    def program(self) -> RemovableFiles:
        """Return the program, its receipt, and what was installed with it.

        What is started comes last, so that one that was interrupted can be begun again.
        """
        place = self._place
        listed = [Path(file) for file in read_receipt(place.receipt).files]
        others = [
            path for path in listed if path.resolve() != place.target and _is_installed_name(path)
        ]
        kept = () if self._has_foreign_previous() else (place.previous,)
        notes = (place.outgoing, *kept, place.previous_note, place.journal)
        staged = [
            path for path in folder_entries(place.staging) if _STAGED_NAME.fullmatch(path.name)
        ]
        names = [path for path in listed if path.resolve() == place.target]
        last = [place.receipt, *names, place.target]
        moved = [home for home in self._homes() if home != place.home]
        gone = filter(_is_of_gone_binary, moved)
        left = [path for home in gone for path in _home_files(home)]
        name = "the program, and what was installed with it"
        return _collect(name, others, notes, staged, left, last)

    def _homes(self) -> list[Path]:
        entries = folder_entries(self._state / STATE_FOLDER)
        return [home for home in entries if _HOME_NAME.fullmatch(home.name)]

    def foreign_program_notes(self) -> list[str]:
        """Return a sentence if the version before is a foreign program."""
        if not self._has_foreign_previous():
            return []
        was = f"{self._place.previous} stays: it was {self._place.target} before Baton came"
        return [f"{was}, and it isn't known to be a Baton."]

    def _has_foreign_previous(self) -> bool:
        place = self._place
        noted = place.previous_note.exists() or place.journal.exists()
        known = noted or place.previous.is_symlink() or is_single_file(place.previous)
        return _is_file(place.previous) and not known  # of a link, nothing is lost

    def unpacked(self) -> RemovableFiles:
        """Return what the program has unpacked itself to."""
        return _collect("what it has unpacked", self._unpacked.trees())

    def history(self) -> RemovableFiles:
        """Return conversations, ledger, what was learned, crash reports and settings."""
        files = [path for name in _DATA_FILES for path in self._data.glob(name)]
        files += [path for name in _STATE_FILES for path in self._state.glob(name)]
        files += [path for name in _SETTINGS_FILES for path in self._config.glob(name)]
        return _collect("history, ledger and settings", [path for path in files if _is_file(path)])

    def remove(self, thing: RemovableFiles) -> list[str]:
        """Delete it; return a sentence for each path that stays."""
        return [stays for path in thing.paths if (stays := _remove_path(path))]

    def remove_unpacked(self) -> list[str]:
        """Delete what was unpacked, but for what another Baton runs from; return what stays."""
        return self._unpacked.remove_all()

    def remove_empty_folders(self) -> list[Path]:
        """Remove the folders that are empty now; return those that aren't."""
        folders = [
            *self._homes(),
            *(self._place.staging, self._place.home),
            *(self._state / STATE_FOLDER, self._cache / "app"),
            *(self._data / "models", self._data / "router"),
            *(self._state / "log", self._state / "ledgers"),
            *(self._config / "templates", self._cache, self._state, self._data, self._config),
        ]
        for folder in folders:
            with suppress(OSError):
                entries = folder_entries(folder)
                if [path.name for path in entries] in ([".lock"], [".config.toml.lock"]):
                    entries[0].unlink()
                if not folder.is_symlink():
                    folder.rmdir()
        for folder in sorted(self._made, key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError):
                if folder.is_absolute() and not folder.is_symlink():
                    folder.rmdir()
        return [
            path for path in dict.fromkeys(folders[-4:]) if path.is_dir() and folder_entries(path)
        ]


def own_files(paths: Paths) -> InstalledFiles:
    """Return what belongs to this very program's installation. Raises ConfigError for another."""
    place = own_installation(paths).place
    return InstalledFiles(place, paths.config, paths.data, paths.state, paths.cache)


def _is_of_gone_binary(home: Path) -> bool:
    """Whether the binary isn't there of which an installation's folder is.

    Without a receipt it is one that was never updated, or is just being.
    """
    place = InstallationPaths(home, home)
    files = read_receipt(place.receipt).files
    is_noted = bool(files) or not place.lock.exists()
    return is_noted and not home.is_symlink() and not any(Path(file).exists() for file in files)


def _home_files(home: Path) -> list[Path]:
    """Return what is in an installation's folder, in the order in which it goes."""
    place = InstallationPaths(home, home)
    files = (place.outgoing, place.previous, place.previous_note, place.journal, place.lock)
    drafts = [home / f".{path.name}.new" for path in (place.previous_note, place.receipt)]
    return [*files, *drafts, place.receipt]


def _collect(name: str, *groups: Sequence[Path]) -> RemovableFiles:
    paths = [path for group in groups for path in group if path.exists() or path.is_symlink()]
    unique = tuple(dict.fromkeys(paths))
    return RemovableFiles(name, unique, sum(_size(path) for path in unique))


def _is_installed_name(path: Path) -> bool:
    """Whether the installer installs a file of that name: a receipt may name any file."""
    return path.is_absolute() and (
        path.name in _INSTALLED_NAMES or (path.parent.name, path.name) == ("completions", "baton")
    )


def _remove_path(path: Path) -> str:
    """Delete a file or a link; return why it stays, or ""."""
    try:
        if stat.S_ISDIR(path.lstat().st_mode):
            return f"{path} stays: it is a folder."
        path.unlink()
    except FileNotFoundError:
        pass
    except OSError as error:
        return f"{path} stays: {error.strerror}."
    return ""


def _size(path: Path) -> int:
    with suppress(OSError):
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            return sum(_size(inner) for inner in folder_entries(path))
        return status.st_size
    return 0


def _is_file(path: Path) -> bool:
    with suppress(OSError):
        return not stat.S_ISDIR(path.lstat().st_mode)
    return False
