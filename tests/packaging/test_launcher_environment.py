"""The single file where something is wrong around it: one sentence says what, and what to do."""

from __future__ import annotations

import hashlib
import io
import os
import re
import resource
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from support.shared_folders import let_look
from support.single_file import Make, SingleFile, pack, report

NOBODY = 65534
MEGABYTE = 1_000_000
UNPACK = 'mount -t tmpfs none "$1"; "$0" >"$1/said" || [ $? = 7 ];'

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="becomes another person, which needs root"
)


def refusal(ran: subprocess.CompletedProcess[bytes], *words: str) -> str:
    """See that it was refused, in one line that has these words; return it."""
    said = ran.stderr.decode()
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert said.count("\n") == 1
    assert said.endswith("\n")
    assert "  " not in said
    for word in words:
        assert word in said
    return said


def in_own_mounts(single: SingleFile, script: str) -> subprocess.CompletedProcess[bytes]:
    """Run a script that mounts what no other process sees; $0 is the single file, $1 its home."""
    single.home.mkdir(exist_ok=True)
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run(
        [*alone, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True
    ).returncode:
        pytest.skip("mounts a small disk, which isn't allowed here")
    return subprocess.run(
        [*alone, "sh", "-ec", script, single.file, single.home],
        env=single.environ(),
        capture_output=True,
        timeout=60,
    )


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_no_home(make: Make, home: str | None) -> None:
    single = make(BATON_HOME="", XDG_CACHE_HOME="", HOME=home or "")
    environ = {name: value for name, value in single.environ().items() if home or name != "HOME"}
    ran = subprocess.run([single.file], env=environ, capture_output=True, timeout=60)
    refusal(ran, "HOME isn't set", "BATON_HOME=/a/folder baton")


def test_a_home_of_an_unknown_user(make: Make) -> None:
    refusal(make(BATON_HOME="~somebody").start(), "~somebody", "whole path")


def test_a_path_that_is_too_long(make: Make) -> None:
    refusal(make(BATON_HOME="/" + "x" * 5000).start(), "too long", "BATON_HOME")
    refusal(make(BATON_HOME="/tmp/" + "x" * 300).start(), "name too long", "BATON_HOME")


def test_a_file_is_where_the_cache_should_be(single: SingleFile) -> None:
    single.home.write_text("mine")
    refusal(single.start(), f"{single.home}/cache/app", "Not a directory", "BATON_HOME=/a/folder")
    assert single.home.read_text() == "mine"


def test_names_cannot_move_the_cursor(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refusal(make(BATON_HOME=f"{tmp_path}/file/\x1b[2J\x9b31m\n\x7f").start())
    assert said.isprintable() or said[:-1].isprintable()


def as_nobody(single: SingleFile, *command: str) -> subprocess.CompletedProcess[bytes]:
    """Start a copy that any user may read, as the user nobody."""
    return subprocess.run(
        command or [single.file],
        env=single.environ(),
        capture_output=True,
        timeout=60,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
    )


@pytest.fixture
def public(make: Make, tmp_path: Path) -> SingleFile:
    """A single file in folders that anybody may look into."""
    let_look(tmp_path)
    return make()


@needs_root
def test_a_home_that_may_not_be_written_to(public: SingleFile) -> None:
    public.home.mkdir()
    refusal(as_nobody(public), "Permission denied", str(public.home), "BATON_HOME=/a/folder baton")
    assert not list(public.home.iterdir())


@needs_root
def test_a_home_of_another_user_without_root_s_tree(public: SingleFile) -> None:
    public.home.mkdir()
    os.chown(public.home, NOBODY, NOBODY)
    assert as_nobody(public).returncode == 7
    refusal(public.start(), str(public.app), "belongs to you", "BATON_HOME")


@needs_root
@pytest.mark.parametrize("planted", ["owner", "group", "others", "link", "file"])
def test_nothing_planted_is_run(single: SingleFile, tmp_path: Path, planted: str) -> None:
    single.works()
    (single.tree / "baton").write_text("#!/bin/sh\necho planted\n")
    if planted == "owner":
        os.chown(single.tree, NOBODY, NOBODY)
    elif planted in ("link", "file"):
        shutil.move(single.tree, tmp_path / "other")
        if planted == "link":
            single.tree.symlink_to(tmp_path / "other")
        else:
            single.tree.write_text("mine")
    else:
        single.tree.chmod(0o770 if planted == "group" else 0o707)
    refusal(single.start(), str(single.tree), "belongs to you", "Remove it", "BATON_HOME=/a/folder")


@needs_root
@pytest.mark.parametrize("planted", ["owner", "writable", "link"])
def test_no_tree_is_run_among_what_others_may_change(
    single: SingleFile, tmp_path: Path, planted: str
) -> None:
    single.works()
    if planted == "owner":
        os.chown(single.app, NOBODY, NOBODY)
    elif planted == "writable":
        single.app.chmod(0o777)
    else:
        shutil.move(single.app, tmp_path / "other")
        single.app.symlink_to(tmp_path / "other")
    refusal(single.start(), f"{single.app}:", "belongs to you")


@needs_root
@pytest.mark.parametrize("reached", ["open to all", "planted in what is"])
def test_no_tree_is_run_whose_place_others_can_take(
    single: SingleFile, tmp_path: Path, reached: str
) -> None:
    """Between two looks they could put their own program there, by renaming what is above."""
    shared = tmp_path / "shared"
    single = replace(single, home=shared / "of mine")
    single.home.mkdir(parents=True)
    if reached == "open to all":
        shared.chmod(0o777)
    else:
        shared.chmod(0o1777)
        os.chown(single.home, NOBODY, NOBODY)
    theirs = shared if reached == "open to all" else single.home
    refusal(single.start(), f"by way of {theirs}.", "BATON_HOME=/a/folder baton")


@needs_root
def test_a_sticky_folder_and_one_of_a_group_are_places_for_a_tree(
    single: SingleFile, tmp_path: Path
) -> None:
    for name, mode in (("sticky", 0o1777), ("group", 0o2775)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
        replace(single, home=tmp_path / name / "of mine").works()


@needs_root
def test_a_disk_of_its_own_that_is_open_to_all_is_what_containers_have(single: SingleFile) -> None:
    script = 'mount -t tmpfs -o mode=777 none "$1"; "$0"'
    assert in_own_mounts(single, script).returncode == 7


@needs_root
def test_sudo_leaves_nothing_in_a_persons_home(public: SingleFile) -> None:
    public.home.mkdir()
    os.chown(public.home, NOBODY, NOBODY)
    own = {"BATON_HOME": "", "XDG_CACHE_HOME": "", "SUDO_UID": str(NOBODY)}
    theirs = replace(public, environment={**own, "HOME": str(public.home)})
    refusal(theirs.start(), "sudo -H", str(public.home))
    assert not list(public.home.iterdir())
    roots = replace(public, environment={**own, "HOME": str(public.home.parent)})
    assert roots.start().returncode == 7


@needs_root
def test_it_lends_no_user_the_rights_of_its_owner(public: SingleFile) -> None:
    public.file.chmod(0o4755)
    public.home.mkdir()
    os.chown(public.home, NOBODY, NOBODY)
    refusal(as_nobody(public), "chmod ug-s")
    assert not list(public.home.iterdir())


@needs_root
def test_a_planted_lock_is_not_followed(single: SingleFile, tmp_path: Path) -> None:
    single.app.mkdir(parents=True, mode=0o700)
    (single.app / f"{single.payload.key}.lock").symlink_to(tmp_path / "target")
    refusal(single.start(), ".lock", "BATON_HOME")
    assert not (tmp_path / "target").exists()


@needs_root
def test_it_must_be_readable(public: SingleFile) -> None:
    public.home.mkdir(mode=0o777)
    public.home.chmod(0o777)
    public.file.chmod(0o711)
    refusal(as_nobody(public), str(public.file), "can't be read", "chmod +r")


@pytest.mark.parametrize("left", [0.02, 0.5, 0.9, 0.999, "a byte"])
def test_a_part_of_it_is_missing(single: SingleFile, left: float | str) -> None:
    size = single.file.stat().st_size
    launcher = single.payload.offset
    kept = size - 1 if left == "a byte" else launcher + int((size - launcher) * float(left))
    os.truncate(single.file, kept)
    refusal(single.start(), str(single.file), "is missing", "Download it again")
    with pytest.raises(pack.PackError):
        pack.check(single.file)


def test_a_single_wrong_byte_is_noticed(single: SingleFile) -> None:
    whole = single.file.read_bytes()
    first, last = single.payload.offset, len(whole) - 1
    for at in range(first, last, max(1, (last - first) // 25)):
        wrong = bytearray(whole)
        wrong[at] ^= 0x10
        single.file.write_bytes(wrong)
        refusal(single.start(), str(single.file), "is damaged", "Download it again")
        assert not [path for path in single.app.glob("*") if path.is_dir()]
        with pytest.raises(pack.PackError):
            pack.check(single.file)


def forge(single: SingleFile, *members: tarfile.TarInfo) -> None:
    """Put another payload behind the launcher, with a trailer that is right."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    payload = zstandard.compress(made.getvalue())
    launcher = single.file.read_bytes()[: single.payload.offset]
    sha256 = hashlib.sha256(payload).hexdigest()
    trailer = pack.Trailer(len(launcher), len(payload), 1, len(members), sha256, sha256)
    single.file.write_bytes(launcher + payload + pack.written(trailer))


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, target, 3 if kind == tarfile.REGTYPE else 0
    return made


LINK, FOLDER = tarfile.SYMTYPE, tarfile.DIRTYPE
HOSTILE = {
    "absolute": [member("/OUTSIDE/x")],
    "above": [member("../x")],
    "above, later": [member("a", FOLDER), member("a/../../x")],
    "its end is above": [member("a", FOLDER), member("a/..", FOLDER)],
    "here": [member("./x")],
    "nothing between": [member("a", FOLDER), member("a//x")],
    "through a link": [member("a", LINK, ".."), member("a/x")],
    "a link to a root": [member("a", LINK, "/OUTSIDE")],
    "a hard link": [member("a"), member("b", tarfile.LNKTYPE, "a")],
    "a pipe": [member("a", tarfile.FIFOTYPE)],
    "a device": [member("a", tarfile.CHRTYPE)],
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_is_written_outside_its_folder(
    single: SingleFile, tmp_path: Path, hostile: str
) -> None:
    """Though only pack.py makes payloads."""
    for made in HOSTILE[hostile]:
        made.name = made.name.replace("/OUTSIDE", str(tmp_path))
        made.linkname = made.linkname.replace("/OUTSIDE", str(tmp_path))
    before = set(tmp_path.rglob("x"))
    forge(single, *HOSTILE[hostile])
    refusal(single.start(), "is damaged")
    assert set(tmp_path.rglob("x")) == before
    assert not single.leftovers()


def test_what_is_kept_otherwise_than_it_was_unpacked_is_not_run(single: SingleFile) -> None:
    forge(single, member("baton"))  # there is no MANIFEST
    refusal(single.start(), "isn't kept there as it's written", "BATON_HOME=/a/folder baton")


def test_what_follows_does_not_matter(single: SingleFile) -> None:
    """On macOS a code signature does."""
    for extra in (b"x", b"\0Baton's payload", os.urandom(100_000)):
        with single.file.open("ab") as file:
            file.write(extra)
        shutil.rmtree(single.home, ignore_errors=True)
        single.works()
        assert pack.check(single.file) == single.payload


def test_too_little_space(make: Make) -> None:
    single = make({"big": bytes(30 * MEGABYTE)})
    ran = in_own_mounts(single, 'mount -t tmpfs -o size=20m none "$1"; "$0"')
    said = refusal(ran, str(single.app), "36 MB", "BATON_HOME=/a/folder baton")
    free = re.search(r"(\d+) MB are free", said)
    assert free
    assert 18 <= int(free[1]) <= 20


def test_a_disk_that_becomes_full(make: Make) -> None:
    """There seems to be room for a file with holes, until they are filled."""
    single = make({"big": os.urandom(3 * MEGABYTE), "small": bytes(MEGABYTE)})
    script = """
        mount -t tmpfs -o size=12m,nr_inodes=14 none "$1"
        "$0" && exit 3 || status=$?
        find "$1" -name '*.part.*' -o -type f -size +0 >&2
        exit $status
    """
    refusal(in_own_mounts(single, script), "disk became full", "MB", "BATON_HOME=/a/folder baton")


def test_a_limit_on_the_size_of_files(single: SingleFile) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with single.open(preexec_fn=limit) as program:
        _, said = program.communicate(timeout=60)
    assert program.returncode == 1
    assert b"File too large" in said
    assert not single.leftovers()
    single.works()


def test_programs_are_forbidden_there(single: SingleFile) -> None:
    mount = 'mount -t tmpfs -o noexec none "$1"; "$0"'
    refusal(in_own_mounts(single, mount), str(single.app), "noexec", "BATON_HOME=/a/folder baton")
    later = f'{UNPACK} mount -o remount,noexec "$1"; "$0"'
    refusal(in_own_mounts(single, later), str(single.tree), "Permission denied", "BATON_HOME")


def test_a_disk_that_may_only_be_read(single: SingleFile) -> None:
    mount = 'mount -t tmpfs -o ro none "$1"; "$0"'
    refusal(in_own_mounts(single, mount), "Read-only file system", "BATON_HOME=/a/folder baton")
    later = f'{UNPACK} mount -o remount,ro "$1"; "$0"'
    ran = in_own_mounts(single, later)  # it was unpacked before
    assert (ran.returncode, ran.stderr) == (7, b"")


@needs_root
def test_a_bare_root_without_proc(single: SingleFile, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(single.file, root / "baton")
    command = [shutil.which("chroot") or "", str(root), "/baton", "x"]
    for _ in range(2):
        ran = subprocess.run(
            command, env={"BATON_HOME": "/home"}, capture_output=True, timeout=60, cwd="/"
        )
        assert ran.stderr == b""
        answer = report(ran.stdout)
        assert answer["binary"] == "/baton"
        program = f"/home/cache/app/{single.payload.key}/baton"
        assert answer["arguments"].split(" ")[0] == program.encode().hex()


def test_a_program_that_this_system_cannot_run(make: Make) -> None:
    single = make({"baton": b"#!/not/there\n"})
    refusal(single.start(), "glibc")
