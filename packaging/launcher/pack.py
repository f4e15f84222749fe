"""Makes one file of a folder build: the launcher, the folder in one compressed piece, a trailer.

    packaging/launcher/pack.py FOLDER TARGET   packs
    packaging/launcher/pack.py --check FILE    tells what a single file holds, if it is whole

The launcher (`launcher.c` and its neighbours) unpacks the folder once, into the user's cache, and
from then on starts `FOLDER/baton` there. What it can rely on:

**The payload** is a zstd frame with a ustar archive: folders, then files, then links, sorted, owned
by nobody in particular, made at no time. The same folder always becomes the same bytes.

**MANIFEST** is the archive's first file, and is in the unpacked folder's root. It has one line
for each other file or link, sorted by path, and ends with a newline:

    KIND MODE SIZE SHA256 PATH

`KIND` is `f` or `l`, `MODE` are four octal digits (0644 or 0755; 0777 for links), `SIZE` is in
bytes, `SHA256` in hex; of a link they are its target's. `PATH` is relative, has no newline, and may
have spaces.

**The trailer** is 152 bytes, little-endian: the magic, five numbers of 8 bytes (the format's
version, the payload's offset and size, how much room the unpacked folder takes, how many entries
its MANIFEST has), and three SHA-256 sums: the payload's (its first 16 hex digits name the unpacked
folder), the MANIFEST's, and that of the trailer before it. A code signature may follow it.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import struct
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import zstandard
from building import BuildError, build_launcher

__all__ = [
    "BuildError",
    "Entry",
    "PackError",
    "Packed",
    "Trailer",
    "build_launcher",
    "check",
    "contents",
    "entries",
    "manifest",
    "pack",
    "read",
    "unpack",
    "written",
]

MAGIC = b"\0Baton's payload"
VERSION = 1
MANIFEST = "MANIFEST"
PROGRAM = "baton.exe" if sys.platform == "win32" else "baton"

_HERE = Path(__file__).resolve().parent
_TRAILER = struct.Struct("<16s5Q32s32s32s")
_SIGNATURE = 8 << 20
"""How much may follow the trailer: a signature takes a hundredth of the file."""
_BLOCK = 4096
_CHUNK = 1 << 20
_LEVEL = 19
_WINDOW = 25
"""Two to this power is the memory that unpacking takes, in bytes."""


class PackError(Exception):
    """A folder that can't be packed, or a single file that isn't whole."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What MANIFEST says of one file, or of one link (then of its target)."""

    kind: str
    mode: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Trailer:
    """What a single file says of its payload. `unpacked` is the room on disk, in bytes."""

    offset: int
    size: int
    unpacked: int
    entries: int
    sha256: str
    manifest: str

    @property
    def key(self) -> str:
        """The unpacked folder's name."""
        return self.sha256[:16]


@dataclass(frozen=True, slots=True)
class Packed:
    """A single file that was made: its own hash and size, and what it says of its payload."""

    sha256: str
    size: int
    payload: Trailer


def pack(folder: Path, target: Path, launcher: Path, level: int = _LEVEL) -> Packed:
    """Make `target` of a folder build and a launcher; it's whole or not there. Raises PackError."""
    manifest, members = _scan(folder)
    with _replacing(target) as file, launcher.open("rb") as head:
        shutil.copyfileobj(head, file)
        offset = file.tell()
        _compress(folder, manifest, members, file, level)
        size = file.tell() - offset
        file.seek(offset)
        trailer = Trailer(
            offset,
            size,
            sum(_room(member) for member in members) + 2 * _BLOCK + len(manifest),
            manifest.count(b"\n"),
            _sha256(file, size),
            hashlib.sha256(manifest).hexdigest(),
        )
        file.write(written(trailer))
        file.seek(0)
        whole = _sha256(file, offset + size + _TRAILER.size)
    return Packed(whole, target.stat().st_size, trailer)


def read(file: Path) -> Trailer:
    """Return what a single file says of its payload. Raises PackError."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        start = max(0, size - _SIGNATURE)
        opened.seek(start)
        tail = opened.read()
    at = tail.rfind(MAGIC)
    while at >= 0:
        found = _parsed(tail[at : at + _TRAILER.size])
        if found and found.offset + found.size == start + at:
            return found
        at = tail.rfind(MAGIC, 0, at)
    raise PackError(f"{file} isn't a packed Baton, or the end of it is missing.")


def check(file: Path) -> Trailer:
    """Read all of a single file's payload; return what it says of it. Raises PackError."""
    trailer = read(file)
    with file.open("rb") as opened:
        opened.seek(trailer.offset)
        if _sha256(opened, trailer.size) != trailer.sha256:
            raise PackError(f"{file} isn't as it was packed.")
    return trailer


def contents(file: Path) -> dict[str, Entry]:
    """Return what is in a single file, by path, without unpacking all of it. Raises PackError."""
    trailer = read(file)
    with _archive(file, trailer) as archive:
        first = archive.next()
        manifest = archive.extractfile(first) if first and first.name == MANIFEST else None
        data = manifest.read() if manifest else b""
    if hashlib.sha256(data).hexdigest() != trailer.manifest:
        raise PackError(f"{file} isn't as it was packed.")
    return entries(data)


def unpack(file: Path, folder: Path) -> None:
    """Unpack a single file into a new folder, as the launcher does. Raises PackError.

    Everything is new and in a folder that was made here, so nothing is written elsewhere; what
    there is afterwards is what MANIFEST says, with links that stay inside.
    """
    trailer = check(file)
    folder.mkdir(mode=0o700)
    folders = {Path()}
    with _archive(file, trailer) as archive:
        for member in archive:
            path = Path(member.name)
            if path.parent not in folders:
                raise PackError(f"{file} would unpack {member.name!r} elsewhere.")
            _put(file, archive, member, folder / path)
            if member.isdir():
                folders.add(path)
    manifest = folder / MANIFEST
    data = manifest.read_bytes() if manifest.is_file() else b""
    if hashlib.sha256(data).hexdigest() != trailer.manifest or data != _scan(folder)[0]:
        raise PackError(f"{file} isn't as it was packed.")


def _put(file: Path, archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    """Make one member at a place where nothing may be yet. Raises PackError."""
    try:
        if member.isdir():
            place.mkdir()
        elif member.issym():
            place.symlink_to(member.linkname)
        elif member.isreg() and (data := archive.extractfile(member)):
            with place.open("xb") as new:
                shutil.copyfileobj(data, new)
            place.chmod(member.mode & 0o755)
        else:
            raise PackError(f"{file} holds {member.name!r}, which is neither file nor folder.")
    except FileExistsError:
        raise PackError(f"{file} holds {member.name!r} twice, or outside of itself.") from None


def manifest(folder: Path) -> bytes:
    """Return the MANIFEST of a folder build, for those that stay a folder. Raises PackError."""
    return _scan(folder)[0]


def entries(manifest: bytes) -> dict[str, Entry]:
    """Return what a MANIFEST says, by path."""
    found = {}
    for line in os.fsdecode(manifest).split("\n")[:-1]:
        kind, mode, size, sha256, path = line.split(" ", 4)
        found[path] = Entry(kind, int(mode, 8), int(size), sha256)
    return found


def _scan(folder: Path) -> tuple[bytes, list[tarfile.TarInfo]]:
    """Return the folder's MANIFEST, and the archive's other members. Raises PackError."""
    if not os.access(folder / PROGRAM, os.X_OK):
        raise PackError(f"{folder} has no executable {PROGRAM}.")
    lines: dict[str, str] = {}
    members = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name == MANIFEST:
            continue
        member = _member(folder, path, name)
        members.append(member)
        if not member.isdir():
            lines[name] = _line(path, member)
    members.sort(key=lambda member: (not member.isdir(), member.issym(), os.fsencode(member.name)))
    ordered = sorted(lines, key=os.fsencode)
    return os.fsencode("".join(lines[name] for name in ordered)), members


def _member(folder: Path, path: Path, name: str) -> tarfile.TarInfo:
    found = path.lstat()
    member = tarfile.TarInfo(name)
    if "\n" in name:
        raise PackError(f"{name!r} has a newline in its name.")
    if stat.S_ISLNK(found.st_mode):
        member.type, member.mode = tarfile.SYMTYPE, 0o777
        member.linkname = str(path.readlink())
        inside = path.resolve().is_relative_to(folder.resolve()) and path.exists()
        if Path(member.linkname).is_absolute() or not inside:
            raise PackError(f"{path} links to {member.linkname}, which isn't in the folder.")
    elif stat.S_ISDIR(found.st_mode):
        member.type, member.mode = tarfile.DIRTYPE, 0o755
    elif stat.S_ISREG(found.st_mode):
        member.size = found.st_size
        member.mode = 0o755 if found.st_mode & 0o100 else 0o644
    else:
        raise PackError(f"{path} is neither a file nor a folder nor a link.")
    return member


def _line(path: Path, member: tarfile.TarInfo) -> str:
    if member.issym():
        target = os.fsencode(member.linkname)
        digest, kind, size = hashlib.sha256(target).hexdigest(), "l", len(target)
    else:
        with path.open("rb") as file:
            digest, kind, size = _sha256(file, member.size), "f", member.size
    return f"{kind} {member.mode:04o} {size} {digest} {member.name}\n"


def _compress(
    folder: Path, manifest: bytes, members: Iterable[tarfile.TarInfo], file: BinaryIO, level: int
) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level,
        window_log=_WINDOW,
        enable_ldm=True,
        write_checksum=True,
        threads=os.cpu_count() or 1,
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    with (
        compressor.stream_writer(file, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.USTAR_FORMAT) as archive,
    ):
        first = tarfile.TarInfo(MANIFEST)
        first.size = len(manifest)
        archive.addfile(first, io.BytesIO(manifest))
        for member in members:
            _add(archive, member, folder / member.name)


def _add(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    try:
        if member.isreg():
            with path.open("rb") as file:
                archive.addfile(member, file)
        else:
            archive.addfile(member)
    except ValueError as error:  # what has no room in a ustar header
        raise PackError(f"{path} can't be packed: {error}.") from error


@contextmanager
def _archive(file: Path, trailer: Trailer) -> Iterator[tarfile.TarFile]:
    with file.open("rb") as opened:
        opened.seek(trailer.offset)
        decompressor = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW)
        try:
            with (
                decompressor.stream_reader(opened, read_across_frames=False) as stream,
                tarfile.open(fileobj=stream, mode="r|") as archive,
            ):
                yield archive
        except (zstandard.ZstdError, tarfile.TarError) as error:
            raise PackError(f"{file} isn't as it was packed: {error}.") from error


def _room(member: tarfile.TarInfo) -> int:
    return max(_BLOCK, -(-member.size // _BLOCK) * _BLOCK)


def written(trailer: Trailer) -> bytes:
    """Return a trailer's bytes."""
    fields = _TRAILER.pack(
        MAGIC,
        VERSION,
        trailer.offset,
        trailer.size,
        trailer.unpacked,
        trailer.entries,
        bytes.fromhex(trailer.sha256),
        bytes.fromhex(trailer.manifest),
        bytes(32),
    )[:-32]
    return fields + hashlib.sha256(fields).digest()


def _parsed(data: bytes) -> Trailer | None:
    if len(data) < _TRAILER.size or hashlib.sha256(data[:-32]).digest() != data[-32:]:
        return None
    _, version, offset, size, unpacked, count, payload, manifest, _ = _TRAILER.unpack(data)
    if version != VERSION:
        return None
    return Trailer(offset, size, unpacked, count, payload.hex(), manifest.hex())


def _sha256(file: IO[bytes], size: int) -> str:
    """Return the hash of what comes next in a file; less than that is hashed as it is."""
    digest = hashlib.sha256()
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest()


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """Give a file to write to, which takes the target's place once all of it is on the disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w+b", dir=target.parent, prefix=f".{target.name}.", delete=False
    ) as file:
        made = Path(file.name)
        try:
            yield file.file  # type: ignore[misc]
            file.flush()
            os.fsync(file.fileno())
            made.chmod(0o755)
            made.replace(target)
        except BaseException:
            made.unlink(missing_ok=True)
            raise


def main(arguments: Sequence[str]) -> str:
    """Do what the command line says; return a line that tells of it."""
    if len(arguments) == 2 and arguments[0] == "--check":
        found = check(Path(arguments[1]))
        return f"{found.entries} files, {found.unpacked:,} bytes unpacked, payload {found.sha256}"
    if len(arguments) != 2:
        raise PackError((__doc__ or "").split("\n\n")[1])
    launcher = build_launcher(_HERE.parents[1] / "build")
    packed = pack(Path(arguments[0]), Path(arguments[1]), launcher)
    return f"{packed.size:,} bytes, sha256 {packed.sha256}"


if __name__ == "__main__":
    try:
        print(main(sys.argv[1:]))
    except (BuildError, PackError) as error:
        sys.exit(str(error))
