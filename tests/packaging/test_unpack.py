"""What pack.unpack does with a single file that was made to do harm: nothing outside."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import zstandard

from support.single_file import SingleFile, pack

Member = tuple[str, bytes, str | bytes]
"""A name, a type of tar's, and a link's target or a file's contents."""

FILE, FOLDER, LINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE
PROGRAM: Member = ("baton", FILE, b"#!/bin/sh\n")


def single_file(target: Path, *members: Member, manifest: bytes | None = None) -> Path:
    """Make a single file with these members, whose MANIFEST lists the files by default."""
    expected = _manifest(members) if manifest is None else manifest
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for name, kind, inside in [("MANIFEST", FILE, expected), *members]:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, 0o4755
            if isinstance(inside, str):
                member.linkname = inside
            else:
                member.size = len(inside)
            packed.addfile(member, io.BytesIO(inside) if isinstance(inside, bytes) else None)
    payload = zstandard.compress(archive.getvalue())
    sums = (hashlib.sha256(data).hexdigest() for data in (payload, expected))
    trailer = pack.Trailer(4, len(payload), 1 << 20, expected.count(b"\n"), *sums)
    target.write_bytes(b"head" + payload + pack.written(trailer))
    return target


def _manifest(members: Sequence[Member]) -> bytes:
    lines = []
    for name, kind, inside in sorted(members):
        data = inside.encode() if isinstance(inside, str) else inside
        mode = {FILE: "f 0755", LINK: "l 0777"}.get(kind)
        if mode:
            lines.append(f"{mode} {len(data)} {hashlib.sha256(data).hexdigest()} {name}\n")
    return "".join(lines).encode()


def test_what_is_right_is_unpacked_without_more_rights_than_it_needs(tmp_path: Path) -> None:
    file = single_file(
        tmp_path / "file",
        ("lib", FOLDER, b""),
        PROGRAM,
        ("lib/one", FILE, b"1"),
        ("lib/two", LINK, "one"),
    )
    pack.unpack(file, tmp_path / "new")
    assert (tmp_path / "new" / "lib" / "two").read_bytes() == b"1"
    assert (tmp_path / "new" / "baton").stat().st_mode & 0o7777 == 0o755
    with pytest.raises(FileExistsError):
        pack.unpack(file, tmp_path / "new")


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", FILE, b"x")],
        [("..", FOLDER, b"")],
        [("{outside}/evil", FILE, b"x")],
        [("a", FOLDER, b""), ("a/../../evil", FILE, b"x")],
        [("a", LINK, "{outside}"), ("a/evil", FILE, b"x")],
        [("a", LINK, ".."), ("a/evil", LINK, "baton")],
        [("a", FOLDER, b""), ("a", LINK, "{outside}"), ("a/evil", FILE, b"x")],
        [("a", LINK, "{outside}/evil"), ("a", FILE, b"x")],
        [("baton", FILE, b"another")],
        [("a", LINK, "{outside}")],
        [("a", LINK, "../{name}/baton")],
        [("a", LINK, "nothing")],
        [("a", tarfile.LNKTYPE, "baton")],
        [("a", tarfile.LNKTYPE, "../secret")],
        [("a", tarfile.FIFOTYPE, b"")],
        [("a", tarfile.CHRTYPE, b"")],
        [("MANIFEST", FILE, b"")],
        [("missing/parent", FILE, b"x")],
    ],
)
def test_nothing_is_written_outside_its_folder_and_nothing_odd_is_taken(
    tmp_path: Path, members: list[Member]
) -> None:
    outside, place = tmp_path / "outside", tmp_path / "places"
    for folder in (outside, place):
        folder.mkdir()
    (place / "secret").write_text("mine")
    expected = {"outside": str(outside), "name": "other"}
    evil = [
        (
            name.format(**expected),
            kind,
            inside.format(**expected) if isinstance(inside, str) else inside,
        )
        for name, kind, inside in members
    ]
    file = single_file(tmp_path / "file", PROGRAM, *evil)
    with pytest.raises(pack.PackError, match=r"file|links to"):
        pack.unpack(file, place / "new")
    assert list(outside.iterdir()) == []
    assert {path.name for path in place.iterdir()} == {"new", "secret"}
    assert {path.name for path in tmp_path.iterdir()} == {"file", "outside", "places"}


@pytest.mark.parametrize("manifest", [b"", b"invalid\n", _manifest([("baton", FILE, b"other")])])
def test_what_manifest_does_not_list_is_refused(tmp_path: Path, manifest: bytes) -> None:
    file = single_file(tmp_path / "file", PROGRAM, manifest=manifest)
    with pytest.raises(pack.PackError, match="isn't as it was packed"):
        pack.unpack(file, tmp_path / "new")


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_a_byte_that_changed_is_noticed(single: SingleFile, tmp_path: Path, at: float) -> None:
    data = bytearray(single.file.read_bytes())
    trailer = pack.read(single.file)
    data[trailer.offset + int(trailer.size * at)] ^= 1
    single.file.write_bytes(data)
    with pytest.raises(pack.PackError, match="isn't as it was packed"):
        pack.unpack(single.file, tmp_path / "new")
    assert not (tmp_path / "new").exists()
