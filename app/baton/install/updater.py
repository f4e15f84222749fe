"""How the packaged binary is replaced by another version of itself, and back again.

Only what the key in this build has signed is trusted. An older version, or another binary of the
same, is taken only on request: an attacker who can answer in a release's place could hand out an
old one, signed long ago. What came is started once before it takes the place, and the version
before is kept.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.errors import (
    BatonError,
    ConfigError,
    ModelFileError,
    WorkerError,
    WorkerUnavailable,
)
from baton.core.sanitiser import one_line
from baton.download.messages import Progress
from baton.download.releases import Build, ReleaseFile, Switch, is_address, is_newer
from baton.install.installation import Installation, own_installation, probe_version
from baton.install.unpack_cache import has_damaged_payload
from baton.platform import build_info as building
from baton.platform.build_info import BuildInfo
from baton.platform.durable_files import expand_home

if TYPE_CHECKING:
    from baton.download import ReleaseSource
    from baton.platform.paths import Paths


class ReleaseStanding(StrEnum):
    """How a release's file compares with what is installed."""

    NEWER = "newer"
    HERE = "here"  # the very same file
    OTHER = "other"  # another flavour of the same version
    EQUAL = "equal"  # the same version and flavour, with other contents
    OLDER = "older"


@dataclass(frozen=True, slots=True)
class FoundRelease:
    """A release, and its file for this machine; `now` is what is installed."""

    source: str
    released: str
    file: ReleaseFile
    build: Build
    now: Build
    standing: ReleaseStanding


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What was done: `now` is started from here on, `before` is kept.

    `action` is update, rollback, or none.
    """

    action: str
    now: Build
    before: Build


class Updater:
    """Looks for releases and changes the installation, only when asked."""

    def __init__(
        self, built: BuildInfo, installed: Installation, releases: ReleaseSource, *, offline: bool
    ) -> None:
        self.installation = installed
        self._built = built
        self._releases = releases
        self._offline = offline

    async def find_release(
        self, source: str = "", flavour: str | None = None, gpu: str | None = None
    ) -> FoundRelease:
        """Return a release's file for this machine; `source` "" is where this version came from.

        Raises ConfigError for a source that can't be used, BatonError for what is not from there.
        """
        source = self._check_source(source or self.installation.receipt.source)
        now = await self._installed_build()
        with _explain_errors():
            release = await self._releases.read_release(source, self._built.update_key)
        wanted = Build(
            release.version,
            now.flavour if flavour is None else flavour,
            now.platform,
            now.gpu if gpu is None else gpu,
        )
        file = release.file_for(wanted.platform, wanted.flavour, wanted.gpu)
        released = one_line(release.released, 20)
        return FoundRelease(source, released, file, wanted, now, self._compare(file, wanted, now))

    async def update(self, release: FoundRelease) -> AsyncGenerator[Progress | UpdateResult]:
        """Fetch a release's file, try it, and switch to it; called with the lock held.

        Closing the generator stops it; what has come is kept.
        """
        if release.standing is ReleaseStanding.HERE:
            self.installation.clear_staging()
            yield UpdateResult("none", release.now, release.now)
            return
        staged = self.installation.stage_file(release.file.name, release.file.sha256)
        with _explain_errors():
            async with aclosing(
                self._releases.fetch_file(release.source, release.file, staged)
            ) as coming:
                async for step in coming:
                    if isinstance(step, Progress):
                        yield step
        await self._try_start(staged, release.build)
        size, sha256 = release.file.size, release.file.sha256
        switch = Switch("update", release.build, release.now, size, sha256, release.source)
        self.installation.switch(staged, switch)
        yield UpdateResult("update", release.build, release.now)

    async def rollback(self) -> UpdateResult:
        """Switch to the version before, and keep this one; called with the lock held."""
        previous = self.installation.previous
        if previous is None:
            raise BatonError(
                f"No version before this one is kept ({self._built.version}).",
                "`baton self update` keeps the one that it replaces.",
            )
        now = await self._installed_build()
        size, sha256 = self.installation.size_and_hash(previous)
        if self.installation.is_installed(size, sha256):
            raise BatonError(
                "The version that is kept is this very one, so nothing was changed.",
                "`baton self update --from` takes any release, an older one with --force.",
            )
        noted = self.installation.previous_build
        is_other = noted is not None and noted.sha256 not in ("", sha256)
        if is_other or has_damaged_payload(previous):
            raise BatonError(
                f"The version that is kept, {previous}, is damaged, so nothing was changed.",
                "`baton self update --from` takes any release, an older one with --force.",
            )
        staged = self.installation.stage_previous()
        version = await self._staged_version(staged)
        build = Build(version, now.flavour, now.platform, now.gpu)
        if noted is not None and noted.version == version:
            build = noted.build
        self.installation.switch(staged, Switch("rollback", build, now, size, sha256))
        return UpdateResult("rollback", build, now)

    def finish_interrupted(self) -> UpdateResult | None:
        """Complete an interrupted switch; return it if its version is now in place.

        Called first, with the lock held.
        """
        if (switch := self.installation.finish_switch()) is None:
            return None
        return UpdateResult(switch.action, switch.coming, switch.leaving)

    async def aclose(self) -> None:
        """Let go of processes; what has come is kept."""
        await self._releases.aclose()

    def _check_source(self, source: str) -> str:
        if not self._built.update_key:
            raise ConfigError(
                "This build has no key to check updates with, so it takes none.",
                "Install a published release, or build it with `scripts/build --key FILE.pub`.",
            )
        if not source:
            raise ConfigError(
                "It isn't known where this Baton came from.",
                "`baton self update --from FOLDER` (or an address) says where a release is.",
            )
        if is_address(source) and self._offline:
            raise ConfigError(
                "Baton is offline, so nothing was asked or fetched.",
                "Leave offline, or take a release from a folder:"
                " `baton self update --from FOLDER`.",
            )
        return source if is_address(source) else str(expand_home(source).absolute())

    async def _installed_build(self) -> Build:
        """Return what is installed: what runs, unless another Baton has just changed it."""
        built, noted = self._built, self.installation.receipt
        if noted.version not in ("", built.version):
            version = await probe_version(self.installation.target)
            if version == noted.version:
                return Build(version, noted.flavour, built.platform, noted.gpu)
        return Build(built.version, built.flavour, built.platform, built.gpu)

    def _compare(self, file: ReleaseFile, wanted: Build, now: Build) -> ReleaseStanding:
        if self.installation.is_installed(file.size, file.sha256):
            return ReleaseStanding.HERE
        if is_newer(wanted.version, now.version):
            return ReleaseStanding.NEWER
        if wanted.version != now.version:
            return ReleaseStanding.OLDER
        return ReleaseStanding.EQUAL if wanted == now else ReleaseStanding.OTHER

    async def _try_start(self, staged: Path, build: Build) -> None:
        """Start the staged file, which also unpacks it. Deletes it and raises BatonError."""
        self.installation.make_executable(staged)
        version = await self._staged_version(staged)
        if version != build.version:
            self.installation.discard_staged(staged)
            raise BatonError(
                f"What the release calls {build.version} has the version {one_line(version, 40)},"
                " so it was not installed.",
                "Report it to the publisher of the release.",
            )

    async def _staged_version(self, staged: Path) -> str:
        """Return a staged file's version. Raises BatonError, and deletes the file then."""
        try:
            return await probe_version(staged)
        except BatonError as error:
            self.installation.discard_staged(staged)
            raise BatonError(
                f"{error.message} It was not installed; Baton is as it was.", error.hint
            ) from error


def own_updater(paths: Paths, *, offline: bool = False) -> Updater:
    """Return what changes this very program's installation. Raises ConfigError for another."""
    from baton.download import ReleaseSource

    installed, built = own_installation(paths), building.build_info()
    assert built is not None, "an installation was built"
    return Updater(built, installed, ReleaseSource(environ=dict(os.environ)), offline=offline)


@contextmanager
def _explain_errors() -> Iterator[None]:
    """Add to an error that Baton is unchanged, in place of the hints for models."""
    try:
        yield
    except ModelFileError as error:
        raise BatonError(f"{error.message} Baton is as it was.", error.hint) from error
    except WorkerError as error:
        raise WorkerUnavailable(f"{error.message} Baton is as it was.", _RETRY_HINT) from error


_RETRY_HINT = (
    "Run it again later, or take a release from a folder: `baton self update --from FOLDER`."
)
