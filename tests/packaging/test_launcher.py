"""The single file: what it starts, with what, from where, and what it repairs."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from baton.install.unpack_cache import has_damaged_payload
from baton.platform.paths import find_paths
from support.single_file import ROOT, Make, SingleFile, report


def test_the_program_gets_what_the_user_gave(single: SingleFile) -> None:
    ran = single.start(b"ask", b"", b"\xff\xfe \n", "-é".encode())
    answer = report(ran.stdout)
    given = [bytes(single.file), b"ask", b"", b"\xff\xfe \n", "-é".encode()]
    assert answer["arguments"].split(" ") == [argument.hex() for argument in given]
    assert answer["binary"] == str(single.file)
    assert (ran.returncode, ran.stderr) == (7, b"")


@pytest.mark.parametrize("closed", [(), (0,), (0, 2)], ids=str)
def test_streams_are_passed_on_as_they_are(single: SingleFile, closed: tuple[int, ...]) -> None:
    def close() -> None:
        for number in closed:
            os.close(number)

    for _ in range(2):  # unpacks, and doesn't
        process = single.open(stdin=None, stderr=None, preexec_fn=close)
        *files, lock = report(process.communicate(timeout=60)[0])["files"].split(" ")
        assert files == [str(number) for number in (0, 1, 2) if number not in closed]
        assert int(lock) > 2


def test_signals_and_umask_are_passed_on_as_they_are(single: SingleFile) -> None:
    def prepare() -> None:
        os.umask(0o077)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])

    for _ in range(2):  # unpacks, and doesn't
        process = single.open(preexec_fn=prepare)
        answer = report(process.communicate(timeout=60)[0])
        assert answer["signals"] == f"ignored:{signal.SIGHUP:d} blocked:{signal.SIGUSR1:d}"
        assert answer["umask"] == "77"
        single.is_whole()


def test_what_is_unpacked_is_what_was_packed(single: SingleFile, build: Path) -> None:
    single.works()
    for packed in build.rglob("*"):
        here = single.tree / packed.relative_to(build)
        assert here.lstat().st_mode == packed.lstat().st_mode
        assert here.is_symlink() == packed.is_symlink()
        if packed.is_symlink():
            assert here.readlink() == packed.readlink()
        elif packed.is_file():
            assert here.read_bytes() == packed.read_bytes()


def test_it_unpacks_once(single: SingleFile) -> None:
    first = single.works()
    unpacked = {path: path.lstat() for path in single.tree.rglob("*")}
    assert single.works() == first
    assert {path: path.lstat() for path in single.tree.rglob("*")} == unpacked


@pytest.mark.parametrize("way", ["link", "PATH", "relative", "deleted folder", "another name"])
def test_it_finds_itself(single: SingleFile, tmp_path: Path, way: str) -> None:
    command, options = [str(single.file)], dict[str, object]()
    if way == "link":
        (tmp_path / "link").symlink_to("second")
        (tmp_path / "second").symlink_to(single.file)
        command = [str(tmp_path / "link")]
    elif way == "PATH":
        command = ["sh", "-c", f'PATH="{single.file.parent}:$PATH" exec baton']
    elif way == "relative":
        command = ["../bin/baton"]
        (tmp_path / "other").mkdir()
        options["cwd"] = tmp_path / "other"
    elif way == "deleted folder":
        command = [
            "sh",
            "-c",
            f'mkdir "{tmp_path}/x"; cd "{tmp_path}/x"; rmdir "$PWD"; "$0"',
            *command,
        ]
    else:
        script = f"import os; os.execv({command[0]!r}, ['another'])"
        command = ["python3", "-c", script]
    ran = subprocess.run(
        command,
        env=single.environ(),
        capture_output=True,
        timeout=60,
        **options,  # type: ignore[call-overload]
    )
    assert ran.stderr == b""
    assert report(ran.stdout)["binary"] == str(single.file)


@pytest.mark.parametrize(
    "environment",
    [
        {"BATON_HOME": "TMP/a home"},
        {"BATON_HOME": "~/own"},
        {"BATON_HOME": "~"},
        {"BATON_HOME": "relative/own"},
        {"BATON_HOME": "", "XDG_CACHE_HOME": "TMP/xdg"},
        {"BATON_HOME": "", "XDG_CACHE_HOME": "not/absolute"},
        {"BATON_HOME": "", "XDG_CACHE_HOME": ""},
    ],
    ids=str,
)
def test_the_cache_is_where_baton_looks_for_it(
    make: Make, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "person").mkdir()
    environment = {name: value.replace("TMP", str(tmp_path)) for name, value in environment.items()}
    single = make(HOME=str(tmp_path / "person"), **environment)
    for name, value in single.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert single.start().returncode == 7
    app = find_paths(os.environ).cache / "app"
    assert (app / single.payload.key / "baton").exists()
    assert app.stat().st_mode & 0o777 == 0o700


def _link_instead(tree: Path) -> None:
    (tree / "_internal/libone.so.1").rename(tree / "other")
    (tree / "_internal/libone.so.1").symlink_to("../other")


def _other_link(tree: Path) -> None:
    (tree / "_internal/libone.so").unlink()
    (tree / "_internal/libone.so").symlink_to("/bin/sh")


def _say_less(tree: Path) -> None:
    manifest = tree / "MANIFEST"
    manifest.write_text("".join(manifest.read_text().splitlines(keepends=True)[:-1]))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a file is missing": lambda tree: (tree / "_internal/nothing").unlink(),
    "a folder is missing": lambda tree: shutil.rmtree(tree / "_internal"),
    "all is missing": lambda tree: tree.rename(tree.with_name("other")),
    "the program is missing": lambda tree: (tree / "baton").unlink(),
    "a file is shorter": lambda tree: os.truncate(tree / "baton", 4096),
    "a file is longer": lambda tree: (tree / "_internal/nothing").write_bytes(b"x"),
    "a file isn't executable": lambda tree: (tree / "baton").chmod(0o644),
    "a file isn't readable": lambda tree: (tree / "_internal/libone.so.1").chmod(0o200),
    "others may write to a file": lambda tree: (tree / "baton").chmod(0o757),
    "a link is a file": lambda tree: shutil.copy(tree / "baton", tree / "_internal/libone.so"),
    "a link lies in a file's place": _link_instead,
    "a link points to another file": _other_link,
    "the MANIFEST is missing": lambda tree: (tree / "MANIFEST").unlink(),
    "the MANIFEST is empty": lambda tree: os.truncate(tree / "MANIFEST", 0),
    "the MANIFEST says less": _say_less,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_unpacked_again(single: SingleFile, damage: str) -> None:
    first = single.works()
    unpacked = single.tree.stat().st_ino
    DAMAGES[damage](single.tree)
    assert single.works()["arguments"] == first["arguments"]
    assert single.tree.stat().st_ino != unpacked


def test_it_repairs_while_another_runs(single: SingleFile) -> None:
    with single.open("wait") as running:
        assert running.stdout
        running.stdout.readline()
        (single.tree / "_internal/nothing").unlink()
        single.works()
        running.communicate(timeout=60)
    assert running.returncode == 7


SUM = r"""
#include "sha256.h"
#include <stdio.h>
#include <stdlib.h>

/* Prints the hash of each beginning of its input, which it takes in pieces of so many bytes. */
int main(int count, char **arguments) {
    static unsigned char data[1000];
    size_t size = fread(data, 1, sizeof data, stdin), piece = (size_t)atoi(arguments[count - 1]);
    for (size_t length = 0; length <= size; length++) {
        struct sha256 sha;
        unsigned char digest[32];
        sha256_start(&sha);
        for (size_t at = 0; at < length; at += piece)
            sha256_add(&sha, data + at, length - at < piece ? length - at : piece);
        sha256_end(&sha, digest);
        for (int i = 0; i < 32; i++) printf("%02x", digest[i]);
        puts("");
    }
}
"""


def test_hashes_are_right(tmp_path: Path) -> None:
    """The launcher computes SHA-256 by itself: here of all lengths, in pieces of many sizes."""
    (tmp_path / "sum.c").write_text(SUM)
    source, program = ROOT / "packaging" / "launcher", tmp_path / "sum"
    sources = [str(tmp_path / "sum.c"), str(source / "sha256.c")]
    compiler = ["cc", f"-I{source}", "-o", str(program), *sources]
    subprocess.run(compiler, check=True, timeout=60)
    data = os.urandom(1000)
    expected = [hashlib.sha256(data[:length]).hexdigest() for length in range(1001)]
    for piece in (1, 3, 55, 56, 63, 64, 65, 128, 1000):
        ran = subprocess.run([program, str(piece)], input=data, capture_output=True, timeout=60)
        assert ran.stdout.decode().split() == expected


def test_a_damaged_payload_is_found_without_unpacking(single: SingleFile) -> None:
    assert not has_damaged_payload(single.file)
    data = single.file.read_bytes()
    for at in (len(data) - 50_000, len(data) - 1000):
        single.file.write_bytes(data[:at] + b"\0\1\2\3" + data[at + 4 :])
        assert has_damaged_payload(single.file), at
    single.file.write_bytes(data[:-1])
    assert has_damaged_payload(single.file)
