"""Releases of the packaged binary: versions, files, and the notes on an installed one.

A release is a folder, or what an address leads to: the binaries, `manifest.json` that lists them,
and `manifest.json.sig`, the manifest's signature.
"""

from __future__ import annotations

import re

from baton.core.errors import BatonError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.sanitiser import one_line
from baton.gguf.split_files import is_sha256

MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
RELEASE_SCHEMA = 1

FLAVOURS = ("full", "slim")
GPUS = ("", "cuda", "vulkan")

MAX_BINARY_BYTES = 1 << 33
"""Every binary is smaller."""

_VERSION = re.compile(r"(\d{1,5})\.(\d{1,5})\.(\d{1,5})(?:(a|b|rc)(\d{1,4}))?", re.ASCII)
_STAGE_ORDER = {"a": 0, "b": 1, "rc": 2, None: 3}


@frozen_dataclass
class Build:
    """What distinguishes one binary from another; `gpu` is "", cuda or vulkan."""

    version: str
    flavour: str
    platform: str
    gpu: str = ""

    def __str__(self) -> str:
        more = ", ".join(filter(None, (self.flavour, self.gpu)))
        return f"{self.version} ({more})" if more else self.version


@frozen_dataclass
class ReleaseFile:
    """A file of a release; `kind` is file (to be started) or folder (to be unpacked)."""

    name: str
    platform: str
    flavour: str
    gpu: str
    kind: str
    size: int
    sha256: str


@frozen_dataclass
class Release:
    """What a manifest says. `released` is a date, for people."""

    schema: int
    version: str
    released: str
    files: tuple[ReleaseFile, ...]

    def file_for(self, platform: str, flavour: str, gpu: str) -> ReleaseFile:
        """Return the file for a machine. Raises BatonError where there is none, or a wrong one."""
        for file in self.files:
            build = (file.platform, file.flavour, file.gpu)
            if build == (platform, flavour, gpu) and file.kind == "file":
                return _checked_file(file, self.version)
        wanted = ", ".join(filter(None, (platform, flavour, gpu)))
        there = {
            " ".join(filter(None, (file.platform, file.flavour, file.gpu))) for file in self.files
        }
        raise BatonError(
            f"The release {one_line(self.version, 40)} has no file for {wanted}.",
            f"It has: {one_line(', '.join(sorted(there)) or 'nothing', 300)}.",
        )


@frozen_dataclass
class Receipt:
    """The receipt of an installation: its build, its source, and all its files.

    `folders` are those that weren't there before it.
    """

    version: str = ""
    flavour: str = ""
    platform: str = ""
    gpu: str = ""
    source: str = ""
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


@frozen_dataclass
class KeptBuild:
    """The version before, and the hash of its file ("": not known)."""

    version: str
    flavour: str
    platform: str
    gpu: str = ""
    sha256: str = ""

    @property
    def build(self) -> Build:
        """Which build it is."""
        return Build(self.version, self.flavour, self.platform, self.gpu)


@frozen_dataclass
class Switch:
    """A change from one version to another.

    `action` is update or rollback; `size` and `sha256` are of the file that comes, `source` is
    where from ("": it was here). `leaving_sha256` is of the file that leaves.
    """

    action: str
    coming: Build
    leaving: Build
    size: int
    sha256: str
    source: str = ""
    leaving_sha256: str = ""


def release_file_name(
    version: str, platform: str, flavour: str, gpu: str = "", kind: str = "file"
) -> str:
    """Return the name under which a build is released."""
    slim = "-slim" if flavour == "slim" else ""
    return f"baton{slim}-{version}-{platform}{f'-{gpu}' if gpu else ''}" + (
        ".zip" if kind == "folder" else ""
    )


def is_version(text: str) -> bool:
    """Whether that is a version as Baton's are written: 0.2.0, or 0.2.0rc1."""
    return _VERSION.fullmatch(text) is not None


def is_newer(one: str, other: str) -> bool:
    """Whether a version comes after another one. Raises BatonError for what is none."""
    return _version_key(one) > _version_key(other)


def is_address(source: str) -> bool:
    """Whether a release's source is an address and not a folder."""
    return "://" in source


def _version_key(version: str) -> tuple[int, ...]:
    match = _VERSION.fullmatch(version)
    if match is None:
        raise BatonError(f"{one_line(version, 40)!r} isn't a version of Baton.")
    numbers = [int(match[group]) for group in (1, 2, 3)]
    return (*numbers, _STAGE_ORDER[match[4]], int(match[5] or 0))


def _checked_file(file: ReleaseFile, version: str) -> ReleaseFile:
    """Refuse an impossible entry: a name must follow from the other fields."""
    right = release_file_name(version, file.platform, file.flavour, file.gpu)
    plain = is_version(version) and re.fullmatch(r"[a-z0-9_-]+", file.platform) is not None
    sound = 0 < file.size < MAX_BINARY_BYTES and is_sha256(file.sha256)
    if not plain or not sound or file.name != right:
        raise BatonError(
            f"The release's list is wrong about {one_line(file.name, 80)!r}, so nothing was"
            " changed.",
            "Report it to the publisher of the release.",
        )
    return file
