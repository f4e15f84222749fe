"""One installation of the packaged binary, which is changed by one process at a time.

    1. note in a journal what comes, and what leaves
    2. give the version that is here a second name, `outgoing`
    3. rename the one that takes its place: from here on it is the one that is started
    4. rename `outgoing` to `previous`
    5. note in the receipt what is here now, and delete the journal

Each step is on the disk before the next one begins. At any moment a whole version is where the
user starts it, and `finish_switch` completes an interrupted switch: before step 3 backwards,
after it forwards.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import baton
from baton.core.errors import BatonError, ConfigError
from baton.core.sanitiser import one_line
from baton.download.releases import RELEASE_SCHEMA, KeptBuild, Receipt, Switch, is_address
from baton.install.unpack_cache import UnpackCache, tree_key
from baton.platform import build_info as building
from baton.platform.durable_files import hold_lock, is_disk_full, sync_folder
from baton.platform.secrets import plain_environ

if TYPE_CHECKING:
    from baton.platform.paths import Paths


class Installation:
    """The binary at `file`, and what belongs to it; which one process at a time changes.

    `target` is the file that is started.
    """

    def __init__(self, file: Path, state: Path, cache: Path) -> None:
        self.place: InstallationPaths = find_installation(file, state)
        self.target = self.place.target
        self._unpacked = UnpackCache(cache / "app")

    @property
    def receipt(self) -> Receipt:
        """Its receipt."""
        return read_receipt(self.place.receipt)

    @property
    def previous(self) -> Path | None:
        """The version before, None where none is kept."""
        return self.place.previous if self.place.previous.is_file() else None

    @property
    def previous_build(self) -> KeptBuild | None:
        """What is noted of the version before."""
        return _read_note(self.place.previous_note, KeptBuild)

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the installation's lock. Raises BatonError, also while another process holds it."""
        with ExitStack() as held:
            with self._explain_errors("nothing was changed"):
                self.place.home.mkdir(mode=0o700, parents=True, exist_ok=True)
                try:
                    held.enter_context(hold_lock(self.place.lock))
                except TimeoutError:
                    raise BatonError(
                        f"Another Baton is just changing {self.target}, so nothing was done here.",
                        "Wait for it, then try again.",
                    ) from None
            self._refuse_folders()
            yield

    def _refuse_folders(self) -> None:
        """Raise BatonError where a folder has a file's name: no switch could be completed."""
        place = self.place
        notes = (place.previous_note, place.journal, place.receipt)
        for file in (place.target, place.previous, place.outgoing, *notes):
            if file.is_dir():
                what = f"{file} is a folder, where Baton keeps a file, so nothing was changed."
                raise BatonError(what, "Move it away, then run it again.")

    def finish_switch(self) -> Switch | None:
        """Complete an interrupted switch; return it if its version is now in place."""
        place = self.place
        with self._explain_errors("what is started is whole, and as it was"):
            switch = _read_note(place.journal, Switch)
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
            status = staging.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                # Another user who may write there could change the file after its check.
                raise BatonError(
                    f"{staging} isn't a folder of yours, so nothing was brought.", "Delete it."
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
        """Delete the staged files."""
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
        """Make a file executable for the users who may start the one that it replaces."""
        with self._explain_errors("nothing was changed"):
            file.chmod((self.target.stat().st_mode & 0o777) | 0o500)
            _sync_file(file)
            sync_folder(file.parent)

    def size_and_hash(self, file: Path) -> tuple[int, str]:
        """Return a file's size and sha256. Raises BatonError."""
        with self._explain_errors("nothing was changed"), file.open("rb") as opened:
            return os.fstat(opened.fileno()).st_size, hashlib.file_digest(
                opened, "sha256"
            ).hexdigest()

    def is_installed(self, size: int, sha256: str) -> bool:
        """Whether what is started has these contents."""
        try:
            return (
                self.target.stat().st_size == size and self.size_and_hash(self.target)[1] == sha256
            )
        except (OSError, BatonError):
            return False

    def switch(self, incoming: Path, switch: Switch) -> None:
        """Let a staged file take its place, and keep the one that was there. Raises BatonError."""
        place = self.place
        switch = replace(switch, leaving_sha256=self.size_and_hash(place.target)[1])
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
        """Do the remaining steps of a switch, which can be repeated. Raises OSError."""
        place = self.place
        _part_path(place.outgoing).unlink(missing_ok=True)
        if place.outgoing.exists():
            place.outgoing.replace(place.previous)
            place.outgoing.unlink(missing_ok=True)  # two names of one file stay both
            sync_folder(place.home)
        kept = KeptBuild(**asdict(switch.leaving), sha256=switch.leaving_sha256)
        write_note(place.previous_note, kept)
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
        """Turn an OSError into a BatonError that ends with the installation's state."""
        try:
            yield
        except OSError as error:
            where = error.filename if isinstance(error.filename, str) else str(self.place.home)
            why, hint = error.strerror or str(error), "Check who owns the folder"
            if is_disk_full(error):
                why, hint = "the disk is full", "Make room"
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
        _sync_file(part)
        part.replace(name)
    sync_folder(name.parent)


def _sync_file(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _part_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


STATE_FOLDER = "self"
"""The folder, in the state folder, for binaries that no installer installed."""


class InstallationPaths:
    """An installation: `target` is the file that is started, `home` the folder of all else."""

    def __init__(self, target: Path, home: Path) -> None:
        self.target = target
        self.home = home
        self.receipt = home / "install.json"
        self.previous = home / "previous"
        """The version before, and what that is."""
        self.previous_note = home / "previous.json"
        self.journal = home / "switch.json"
        """Which version is just taking its place."""
        self.outgoing = home / "outgoing"
        """The version that is just leaving its place."""
        self.lock = home / "update.lock"
        self.staging = target.parent / ".baton-update"
        """Where a new file is until the switch."""


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
    """Whether a receipt belongs to a user who could change the program itself.

    Of a binary in a folder where all users may write, such as /tmp, another user can write the
    receipt: it says what is deleted, and the version beside it is started by a rollback.
    """
    try:
        owners = {0, os.geteuid(), target.stat().st_uid}
        statuses = [path.lstat() for path in (home, home / "install.json")]
    except (OSError, AttributeError):  # Windows has no owners of this kind
        return sys.platform == "win32"
    return all(one.st_uid in owners and not one.st_mode & stat.S_IWOTH for one in statuses)


MAX_NOTE_BYTES = 1 << 20

T = TypeVar("T")


def read_receipt(path: Path) -> Receipt:
    """Return a receipt; an empty one where there is none, or none that can be read."""
    return _read_note(path, Receipt) or Receipt()


def write_note(path: Path, note: Receipt | Switch | KeptBuild) -> None:
    """Replace a note: at any moment it is the old one or the new one. Raises OSError."""
    import json

    content: dict[str, Any] = {"schema": RELEASE_SCHEMA, **asdict(note)}
    data = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    draft = path.with_name(f".{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(data.encode("utf-8", "surrogateescape"))
        file.flush()
        os.fchmod(handle, 0o644)  # one that root installed is everybody's
        os.fsync(handle)
    draft.replace(path)
    sync_folder(path.parent)


def _read_note(path: Path, note_type: type[T]) -> T | None:
    import msgspec

    try:
        if not path.is_file() or path.stat().st_size > MAX_NOTE_BYTES:
            return None
        return msgspec.json.decode(path.read_bytes(), type=note_type)
    except (OSError, msgspec.MsgspecError, RecursionError, ValueError):
        return None


FIRST_START_SECONDS = 180.0
"""How many seconds the first start may take, at which a binary unpacks itself."""

_END_SECONDS = 10.0
"""How many seconds one that is asked to end may take, in which it removes what is half unpacked."""

_FOLDER_VARIABLES = ("BATON_HOME", "SUDO_UID", "XDG_CACHE_HOME")
"""By these its launcher chooses the folder that it unpacks to."""


async def probe_version(file: Path, patience: float = FIRST_START_SECONDS) -> str:
    """Start a binary with --version and return which it is. Raises BatonError if it can't say."""
    try:
        process = await asyncio.create_subprocess_exec(
            str(file),
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=plain_environ(also=_FOLDER_VARIABLES),
            start_new_session=True,
        )
    except OSError as error:
        raise _start_error(file, error.strerror or str(error)) from error
    try:
        async with asyncio.timeout(patience):
            out, err = await process.communicate()
    except TimeoutError:
        raise _start_error(file, f"it was not done after {patience:.0f} seconds") from None
    finally:
        if process.returncode is None:
            await _end_process(process)
    answer = out.decode("utf-8", "replace").split()
    if process.returncode or len(answer) != 2 or answer[0] != "baton":
        words = (err or out).decode("utf-8", "replace").strip().splitlines()
        code = process.returncode or 0
        ended = f"signal {-code} ended it" if code < 0 else f"it ended with {code}"
        raise _start_error(file, words[-1] if words else ended)
    return answer[1]


async def _end_process(process: asyncio.subprocess.Process) -> None:
    for kind in (signal.SIGTERM, signal.SIGKILL):
        with suppress(OSError):
            os.killpg(process.pid, kind)
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
                return


def _start_error(file: Path, why: str) -> BatonError:
    return BatonError(
        f"{file.name} doesn't start here: {one_line(why, 300).rstrip('.')}.",
        "`baton self update --from` takes any release, an older one with --force.",
    )


# The installation of this very program


def own_installation(paths: Paths) -> Installation:
    """Return this installation. Raises ConfigError where `baton self` can't change it."""
    file = building.binary_path()
    if building.build_info() is None or file is None:
        raise _not_packaged(paths)
    if not os.environ.get(building.BINARY_VARIABLE):
        raise ConfigError(
            f"This Baton is a folder, {file.parent}, which `baton self` doesn't change.",
            "A newer release's folder takes its place; to uninstall it, delete it."
            f" {_yours(paths)}",
        )
    return Installation(file, paths.state, paths.cache)


def _not_packaged(paths: Paths) -> ConfigError:
    package = Path(baton.__file__).resolve().parent
    root = package.parents[1]
    if (root / "pyproject.toml").is_file():
        return ConfigError(
            f"This Baton runs from a checkout, {root}, which `baton self` doesn't change.",
            "`git pull` there gets a newer one, `git checkout` an older one; to uninstall it,"
            f" delete that folder. {_yours(paths)}",
        )
    return ConfigError(
        f"This Baton was installed as a Python package, in {package}.",
        "`pip install -U baton` gets a newer one, `pip uninstall baton` removes it."
        f" {_yours(paths)}",
    )


def _yours(paths: Paths) -> str:
    folders = dict.fromkeys(map(str, (paths.config, paths.data, paths.state, paths.cache)))
    return f"Models, history and settings are in {', '.join(folders)}."
