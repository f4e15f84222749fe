"""How the models folder is changed: by one Baton at a time, each file as a whole."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from baton.core.errors import ConfigError, ModelFileError
from baton.models.store.safe_names import DRAFT_PREFIX, LOCK_FILE
from baton.platform.durable_files import make_folder, open_replacement

LOCK_SECONDS = 10.0
"""How many seconds another Baton may take to change the folder; it needs a few milliseconds."""


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other Batons from changing the models folder meanwhile; it is made if need be.

    Raises ModelFileError, also where the system refuses what is done inside.
    """
    from filelock import FileLock, Timeout

    with explain_folder_errors(folder):
        make_folder(folder)
        try:
            with FileLock(folder / LOCK_FILE, timeout=LOCK_SECONDS, poll_interval=0.01, mode=0o600):
                yield
        except Timeout:
            raise ModelFileError(
                f"Another Baton has kept {folder} locked for {LOCK_SECONDS:.0f} seconds, so nothing"
                " was changed.",
                "Wait for it, or end it, and try again.",
            ) from None


@contextmanager
def explain_folder_errors(folder: Path) -> Iterator[None]:
    """Turn what the system refuses into a sentence."""
    try:
        yield
    except OSError as error:
        raise ModelFileError(
            f"The models folder {folder} can't be changed: {error.strerror or error}. What was"
            " recorded before is kept.",
            "Check its owner and permissions, and that the disk isn't full.",
        ) from error


def replace_json(path: Path, data: bytes) -> None:
    """Write a file so that it is the old one or the new one, whatever happens meanwhile."""
    draft = path.with_name(f"{DRAFT_PREFIX}{os.urandom(8).hex()}.json")
    with open_replacement(path, draft=draft) as file:
        file.write(data)


@contextmanager
def hold_download_locks(folder: Path, what: str) -> Iterator[None]:
    """Hold the locks of a model's downloads. Raises ConfigError if one is under way."""
    with ExitStack() as held:
        for lock in sorted(folder.glob("*.lock")):
            if not try_lock(lock, held):
                raise ConfigError(
                    f"{what} is being downloaded, so it was not removed.",
                    "Stop the download first, or wait for it.",
                )
        yield


def is_locked(lock: Path) -> bool:
    """Tell whether somebody holds a lock now."""
    with ExitStack() as held:
        return not try_lock(lock, held)


def try_lock(lock: Path, until: ExitStack) -> bool:
    """Take a lock, if it is one and nobody has it; tell whether nobody had."""
    from filelock import FileLock, Timeout

    try:
        before = lock.lstat()
        if not stat.S_ISREG(before.st_mode):
            return True
        until.enter_context(FileLock(lock, timeout=0, mode=0o600))
        if lock.lstat().st_ino != before.st_ino:  # who had it took it away just now
            lock.unlink()
    except Timeout:
        return False
    except OSError:
        return True
    return True


def is_regular_file(path: Path) -> bool:
    """Tell whether there is an ordinary file; a link to one is none."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
