"""One installation of the packaged binary, which is changed by one process at a time.

    1. note in a journal what comes, and what leaves
    2. give the version that is here a second name, `outgoing`
    3. rename the one that comes to where it shall be: from here on it is the one that is started
    4. rename `outgoing` to `previous`
    5. note in the receipt what is here now, and delete the journal

Each step is on the disk before the next one begins. At any moment a whole version lies where the
person starts it, and `mend` takes whatever is interrupted to its end: before step 3 back, after it
forward.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from baton.core.errors import BatonError
from baton.download.releases import Build, Receipt, Switch, is_address
from baton.install import version_probe
from baton.install.layout import InstallationPaths, find_installation
from baton.install.receipts import read_build, read_receipt, read_switch, write_note
from baton.install.unpack_cache import UnpackCache, tree_key
from baton.platform.durable_files import sync_folder

_DISK_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


class Installation:
    """The binary at `file`, and what belongs to it; see install.updater.Installed."""

    def __init__(self, file: Path, state: Path, cache: Path) -> None:
        self.place: InstallationPaths = find_installation(file, state)
        self._unpacked = UnpackCache(cache / "app")

    @property
    def target(self) -> Path:
        """The file that is started."""
        return self.place.target

    @property
    def receipt(self) -> Receipt:
        """What is noted of it."""
        return read_receipt(self.place.receipt)

    @property
    def previous(self) -> Path | None:
        """The version before, None where none is kept."""
        return self.place.previous if self.place.previous.is_file() else None

    @property
    def previous_build(self) -> Build | None:
        """What is noted of the version before."""
        return read_build(self.place.previous_note)

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Keep others from changing it meanwhile. Raises BatonError, also while another does."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.place.lock, timeout=0, mode=0o600)
        with self._explain_errors("nothing was changed"):
            self.place.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                lock.acquire()
            except Timeout:
                raise BatonError(
                    f"Another Baton is just changing {self.target}, so nothing was done here.",
                    "Wait for it, then try again.",
                ) from None
        try:
            yield
        finally:
            with suppress(OSError):
                self.place.lock.unlink()
            lock.release()

    def finish_switch(self) -> Switch | None:
        """Take an interrupted switch to its end; return it if that brought its version."""
        place = self.place
        with self._explain_errors("what is started is whole, and as it was"):
            switch = read_switch(place.journal)
            if switch is not None and self.is_installed(switch.size, switch.sha256):
                self._complete_switch(switch)
                return switch
            for left in (place.outgoing, _part_path(place.outgoing), place.journal):
                left.unlink(missing_ok=True)
        with suppress(OSError):  # what came for an update stays, for the next one
            place.staging.rmdir()
        return None

    def stage_file(self, name: str, sha256: str) -> Path:
        """Return where a file is to be brought; what came for other updates is deleted."""
        staging = self.place.staging
        with self._explain_errors("nothing was changed"):
            staging.mkdir(mode=0o700, exist_ok=True)
            found = staging.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                # Whoever else may write there could change what was checked before it is started.
                raise BatonError(
                    f"{staging} is no folder of yours, so nothing was brought.", "Delete it."
                )
            staging.chmod(0o700)
            for left in staging.iterdir():
                if left.name != name and not left.name.startswith(sha256):
                    left.unlink()
        return staging / name

    def stage_previous(self) -> Path:
        """Return a second name of the version before, from which it can take its place."""
        staged = self.stage_file("previous", "previous")
        with self._explain_errors("nothing was changed"):
            _link_or_copy(self.place.previous.resolve(), staged)
        return staged

    def clear_staging(self) -> None:
        """Delete what was brought and isn't wanted."""
        staging = self.place.staging
        with suppress(OSError):
            for left in [] if staging.is_symlink() else staging.iterdir():
                left.unlink()
            staging.rmdir()

    def discard_staged(self, file: Path) -> None:
        """Delete a staged file, and what only that has unpacked; a tree in use stays."""
        key = tree_key(file)
        self.clear_staging()
        kept = (self.place.target, self.place.previous, self.place.outgoing)
        if key and key not in map(tree_key, kept):
            self._unpacked.discard(key)

    def make_executable(self, file: Path) -> None:
        """Let a file be started like the one that it shall replace, for whom that may be."""
        with self._explain_errors("nothing was changed"):
            file.chmod((self.target.stat().st_mode & 0o777) | 0o500)
            handle = os.open(file, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            sync_folder(file.parent)

    async def version_of(self, file: Path) -> str:
        """Start a binary and return which version it says it is. Raises BatonError."""
        return await version_probe.probe_version(file)

    def size_and_hash(self, file: Path) -> tuple[int, str]:
        """Return a file's size and sha256. Raises BatonError."""
        with self._explain_errors("nothing was changed"), file.open("rb") as opened:
            return os.fstat(opened.fileno()).st_size, hashlib.file_digest(
                opened, "sha256"
            ).hexdigest()

    def is_installed(self, size: int, sha256: str) -> bool:
        """Tell whether what is started has these contents."""
        try:
            return (
                self.target.stat().st_size == size and self.size_and_hash(self.target)[1] == sha256
            )
        except (OSError, BatonError):
            return False

    def switch(self, incoming: Path, switch: Switch) -> None:
        """Let a staged file take its place, and keep the one that was there. Raises BatonError."""
        place = self.place
        with self._explain_errors("the version that was here is in its place"):
            write_note(place.journal, switch)
            _link_or_copy(place.target, place.outgoing)
            incoming.replace(place.target)
        with self._explain_errors(
            f"{switch.coming.version} is in its place, but not all that belongs to it;"
            " the next `baton self` command does the rest"
        ):
            sync_folder(place.target.parent)
            self._complete_switch(switch)

    def _complete_switch(self, switch: Switch) -> None:
        """Do what is left of a switch; it doesn't matter how often it was begun. Raises OSError."""
        place = self.place
        _part_path(place.outgoing).unlink(missing_ok=True)
        if place.outgoing.exists():
            place.outgoing.replace(place.previous)
            place.outgoing.unlink(missing_ok=True)  # two names of one file stay both
            sync_folder(place.home)
        write_note(place.previous_note, switch.leaving)
        noted, new = self.receipt, switch.coming
        write_note(
            place.receipt,
            replace(
                noted,
                version=new.version,
                flavour=new.flavour,
                platform=new.platform,
                gpu=new.gpu,
                source=_update_source(noted.source, switch.source),
                files=noted.files or (str(place.target),),
            ),
        )
        place.journal.unlink(missing_ok=True)
        sync_folder(place.home)
        self.clear_staging()

    @contextmanager
    def _explain_errors(self, standing: str) -> Iterator[None]:
        """Turn what the system refuses into a sentence that says how things stand then."""
        try:
            yield
        except OSError as error:
            where = error.filename if isinstance(error.filename, str) else str(self.place.home)
            why = "the disk is full" if error.errno in _DISK_FULL else error.strerror or str(error)
            hint = "Make room" if error.errno in _DISK_FULL else "Check who owns the folder"
            raise BatonError(
                f"{where} can't be changed: {why}; {standing}.", f"{hint}, and run it again."
            ) from error


def _update_source(noted: str, used: str) -> str:
    """Return where updates come from, from now on: a stick doesn't take an address's place."""
    if not used or (noted and is_address(noted) and not is_address(used)):
        return noted
    return used


def _link_or_copy(file: Path, name: Path) -> None:
    """Give a file a second name, or make a copy where that can't be. Raises OSError."""
    name.unlink(missing_ok=True)
    try:
        name.hardlink_to(file)
    except OSError:
        part = _part_path(name)
        shutil.copy2(file, part)
        handle = os.open(part, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        part.replace(name)
    sync_folder(name.parent)


def _part_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")
