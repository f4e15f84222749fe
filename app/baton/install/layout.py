"""Where an installation's files lie.

Of one that the installer made, which is known by its receipt:

    <prefix>/bin/baton                 what is started
    <prefix>/share/baton/install.json  the receipt
    <prefix>/share/baton/previous      the version before

A binary that lies anywhere else, as it was downloaded, is changed where it is. What else belongs to
it is kept in `self/<a hash of its path>` of the state folder, so that nothing appears beside it but
while an update is brought: then there is `.baton-update`, in both cases, because only what is on
the same file system can take its place at one stroke.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from baton.install.receipts import read_receipt

STATE_FOLDER = "self"
"""The folder, in the state folder, of what belongs to binaries that no installer put down."""


@dataclass(frozen=True, slots=True)
class InstallationPaths:
    """An installation: `target` is the file that is started, `home` the folder of all else."""

    target: Path
    home: Path

    @property
    def receipt(self) -> Path:
        """What is noted of it."""
        return self.home / "install.json"

    @property
    def previous(self) -> Path:
        """The version before."""
        return self.home / "previous"

    @property
    def previous_note(self) -> Path:
        """What that is."""
        return self.home / "previous.json"

    @property
    def journal(self) -> Path:
        """Which version is just taking its place."""
        return self.home / "switch.json"

    @property
    def outgoing(self) -> Path:
        """The version that is just leaving its place."""
        return self.home / "outgoing"

    @property
    def lock(self) -> Path:
        """Held by whoever changes it."""
        return self.home / "update.lock"

    @property
    def staging(self) -> Path:
        """Where what comes lies until it takes its place."""
        return self.target.parent / ".baton-update"


def find_installation(file: Path, state: Path) -> InstallationPaths:
    """Return the place of a binary; `state` is Baton's state folder."""
    target = file.resolve()
    for start in (file.absolute(), target):
        home = start.parent.parent / "share" / "baton"
        if (home / "install.json").is_file() and _is_trusted(home, target):
            files = read_receipt(home / "install.json").files
            # One that can't be read was broken by a power cut: who else has such a file there?
            if not files or any(Path(named).resolve() == target for named in files):
                return InstallationPaths(target, home)
    key = hashlib.sha256(str(target).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return InstallationPaths(target, state / STATE_FOLDER / key)


def _is_trusted(home: Path, target: Path) -> bool:
    """Tell whether a receipt is of those who could change the program itself.

    Of a binary in a folder where anybody may write, such as /tmp, somebody else can write the
    receipt: it says what is deleted, and the version beside it is started by a rollback.
    """
    try:
        owners = {0, os.geteuid(), target.stat().st_uid}
        found = [path.lstat() for path in (home, home / "install.json")]
    except (OSError, AttributeError):  # Windows has no owners of this kind
        return sys.platform == "win32"
    return all(one.st_uid in owners and not one.st_mode & stat.S_IWOTH for one in found)
