"""scripts/release: keys that stay secret, releases that are the same each time, and their check."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.sample_builds import build
from support.sample_releases import PLATFORM, keys, publish, script

ROOT = Path(__file__).parents[2]
VERSION = "0.2.0"
BINARY = f"baton-{VERSION}-{PLATFORM}"


@pytest.fixture
def key(tmp_path: Path) -> tuple[Any, str]:
    return keys(tmp_path / "keys")


def dist(folder: Path, key: str, version: str = VERSION) -> Path:
    """Return what scripts/build leaves, and what was brought there from other machines."""
    mine = {"version": version, "update_key": key}
    build(folder, "baton", mine)
    build(folder, "baton-slim", {"flavour": "slim", **mine})
    build(folder, f"baton-{version}-{PLATFORM}-vulkan", {"gpu": "vulkan", **mine})
    windows = {"platform": "windows-x86_64", **mine}
    build(folder, f"baton-{version}-windows-x86_64.zip", windows)
    (folder / "folder" / "baton").mkdir(parents=True)
    (folder / "sizes.md").write_text("a table")
    return folder


def test_a_private_key_is_its_owners_alone_and_never_in_the_repository(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "release", "keygen", tmp_path / "key"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    public = (tmp_path / "key.pub").read_text()
    assert (done.stdout, len(public)) == (public, 65)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "key").read_bytes()
    assert script().main(["keygen", str(tmp_path / "key")]) == 1
    assert (tmp_path / "key").read_bytes() == before
    assert script().main(["keygen", str(ROOT / "build" / "key")]) == 1
    assert not (ROOT / "build" / "key").exists()
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(script().ReleaseError, match="Others can read"):
        script().private_key(tmp_path / "key")


def test_what_is_typed_wrongly_is_reported_in_one_sentence(
    tmp_path: Path, key: tuple[Any, str], capsys: pytest.CaptureFixture[str]
) -> None:
    private, folder = str(tmp_path / "keys" / "key"), str(tmp_path)
    (tmp_path / "note").write_text("no key")
    (tmp_path / "note").chmod(0o600)
    for args, why in (
        (["keygen", private], f"{private} is there already, and a key is never written over."),
        (["keygen", f"{folder}/no/key"], f"{folder}/no/key: No such file or directory"),
        (["make", "--key", f"{folder}/none"], f"{folder}/none: No such file or directory"),
        (["make", "--key", f"{private}.pub"], "is a public key"),
        (["make", "--key", f"{folder}/note"], "isn't a private key of `scripts/release keygen`."),
        (["make", "--key", private, "--dist", f"{folder}/none"], f"There is no folder {folder}/n"),
        (["check", folder, "--key", "zzz"], "zzz isn't a public key"),
        (["check", folder, "--key", f"{folder}/note"], "note isn't a public key"),
        (["check", folder, "--key", key[1]], f"{folder}/manifest.json: No such file"),
    ):
        assert script().main(args) == 1, args
        out, err = capsys.readouterr()
        assert (out, why in err, len(err.splitlines()), "Errno" in err) == ("", True, 1, False), err


def test_a_release_is_the_same_each_time_and_as_it_was_signed(
    tmp_path: Path, key: tuple[Any, str]
) -> None:
    private, public = key
    made = dist(tmp_path / "dist", public)
    for name in ("one", "two", "two"):  # the second time over itself
        script().make(made, tmp_path / name, private, "2026-11-21", "")
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("one", "two")
    )
    assert one == two
    assert set(one) >= {
        BINARY,
        f"baton-slim-{VERSION}-{PLATFORM}",
        f"{BINARY}-vulkan",
        f"baton-{VERSION}-windows-x86_64.zip",
        "manifest.json",
        "manifest.json.sig",
        "SHA256SUMS",
        "install.sh",
    }
    manifest = json.loads(one["manifest.json"])
    assert (manifest["schema"], manifest["version"], manifest["released"]) == (
        1,
        VERSION,
        "2026-11-21",
    )
    bills = {f"{file['name']}.cdx.json" for file in manifest["files"]}
    assert manifest["others"].keys() == bills | {"install.sh", "install.ps1"}
    kinds = {(f["platform"], f["flavour"], f["gpu"], f["kind"]) for f in manifest["files"]}
    assert kinds == {
        (PLATFORM, "full", "", "file"),
        (PLATFORM, "slim", "", "file"),
        (PLATFORM, "full", "vulkan", "file"),
        ("windows-x86_64", "full", "", "folder"),
    }
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=tmp_path / "one",
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout
    assert script().check(tmp_path / "one", public) == []
    expected = script().main(
        ["check", str(tmp_path / "one"), "--key", str(tmp_path / "keys/key.pub")]
    )
    assert expected == 0


def _longer(release: Path) -> None:
    with (release / BINARY).open("ab") as file:
        file.write(b"x")


def _change_binary(release: Path) -> None:
    data = (release / BINARY).read_bytes()
    (release / BINARY).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    _rewrite_sums(release)


def _with_new_sums(release: Path) -> None:
    (release / "install.sh").write_text("rm -rf ~")
    _rewrite_sums(release)


def _another_installer(release: Path) -> None:
    (release / "get.sh").write_text("rm -rf ~")
    _rewrite_sums(release)


def _link_binary(release: Path) -> None:
    moved = release.with_name("moved")
    (release / BINARY).rename(moved)
    (release / BINARY).symlink_to(moved)


def _space_signature(release: Path) -> None:
    signature = (release / "manifest.json.sig").read_text()
    (release / "manifest.json.sig").write_text(f"{signature[:64]} {signature[64:]}")


def _rewrite_sums(release: Path) -> None:
    """Write SHA256SUMS as anybody can who may write there."""
    names = sorted(path.name for path in release.iterdir() if path.name != "SHA256SUMS")
    summed = subprocess.run(["sha256sum", *names], cwd=release, capture_output=True, check=True)
    (release / "SHA256SUMS").write_bytes(summed.stdout)


def _change_list(release: Path) -> None:
    manifest = (release / "manifest.json").read_text()
    (release / "manifest.json").write_text(manifest.replace(VERSION, "0.3.0"))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_longer, "size isn't"),
        (_change_binary, "contents aren't"),
        (_change_list, "signature"),
        (lambda release: (release / BINARY).unlink(), "isn't there"),
        (lambda release: (release / "SHA256SUMS").unlink(), "SHA256SUMS: it isn't there"),
        (
            lambda release: (release / "SHA256SUMS").write_bytes(b"\xff"),
            "SHA256SUMS: it isn't that",
        ),
        (_with_new_sums, "install.sh: its contents aren't"),
        (_another_installer, "get.sh: it isn't part of the release"),
        (lambda release: (release / "old").mkdir(), "old: it isn't a plain file"),
        (_link_binary, f"{BINARY}: it isn't a plain file"),
        (lambda release: (release / "install.ps1").unlink(), "install.ps1: it isn't there"),
        (lambda release: (release / "manifest.json.sig").unlink(), "No such file"),
        (
            lambda release: (release / "manifest.json.sig").write_text("ab" * 63),
            "isn't a signature",
        ),
        (_space_signature, "isn't a signature"),
    ],
)
def test_what_is_wrong_with_a_release_is_found(
    tmp_path: Path, key: tuple[Any, str], spoil: Callable[[Path], object], why: str
) -> None:
    release = publish(tmp_path / "release", key[0], VERSION)
    spoil(release)
    assert [line for line in script().check(release, key[1]) if why in line]
    assert script().main(["check", str(release), "--key", key[1]]) == 1


def test_another_key_did_not_sign_it(tmp_path: Path, key: tuple[Any, str]) -> None:
    release = publish(tmp_path / "release", key[0], VERSION)
    [wrong] = script().check(release, keys(tmp_path / "others")[1])
    assert "isn't that key's signature" in wrong


def test_a_build_that_could_never_be_updated_is_not_released(
    tmp_path: Path, key: tuple[Any, str]
) -> None:
    made = dist(tmp_path / "dist", "")
    with pytest.raises(script().ReleaseError, match="could never be updated"):
        script().make(made, tmp_path / "release", key[0], "2026-11-21", "")
    assert not (tmp_path / "release").exists()


def test_versions_are_not_mixed_and_nothing_else_is_overwritten(
    tmp_path: Path, key: tuple[Any, str]
) -> None:
    made = dist(tmp_path / "dist", key[1])
    mine = tmp_path / "documents"
    mine.mkdir()
    (mine / "thesis").write_text("years")
    with pytest.raises(script().ReleaseError, match="more than a release: thesis"):
        script().make(made, mine, key[0], "2026-11-21", "")
    assert [path.name for path in mine.iterdir()] == ["thesis"]
    build(made, f"baton-0.1.0-{PLATFORM}", {"version": "0.1.0", "update_key": key[1]})
    with pytest.raises(script().ReleaseError, match=r"of one version, and here are .* of 0\.1\.0"):
        script().make(made, tmp_path / "release", key[0], "2026-11-21", "")
    with pytest.raises(script().ReleaseError, match="nothing to release"):
        script().make(mine, tmp_path / "release", key[0], "2026-11-21", "")


def test_the_installer_knows_where_the_release_is(tmp_path: Path, key: tuple[Any, str]) -> None:
    made, origin = dist(tmp_path / "dist", key[1]), "https://example.org/baton/latest"
    script().make(made, tmp_path / "release", key[0], "2026-11-21", origin)
    text = (tmp_path / "release" / "install.sh").read_text()
    assert f'\norigin="{origin}"\n' in text
    assert text.replace(origin, "") == (ROOT / "packaging" / "install.sh").read_text()
    before = (tmp_path / "release" / "manifest.json").read_bytes()
    with pytest.raises(script().ReleaseError, match="isn't a plain address"):
        script().make(made, tmp_path / "release", key[0], "2026-11-21", 'https://x"; rm -rf ~; "')
    assert (tmp_path / "release" / "manifest.json").read_bytes() == before


@pytest.mark.sampled(0.34)
@pytest.mark.skipif(sys.platform == "win32", reason="a script for Unix shells")
def test_what_the_installer_puts_down_is_updated_rolled_back_and_noted(
    tmp_path: Path, key: tuple[Any, str]
) -> None:
    """Installer, receipt, update and release fit together."""
    from support.update_processes import World, baton_self

    private, public = key
    old = publish(tmp_path / "old", private, "0.1.0")
    new = publish(tmp_path / "new", private, VERSION)
    world = World(tmp_path / "m", public)
    environ = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    install = ["sh", f"{old}/install.sh", "--prefix", f"{world.prefix}", "--no-completions"]
    (tmp_path / "home").mkdir()
    done = subprocess.run(install, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert world.receipt()["source"] == str(old)
    expected = baton_self(world, "update", "--from", str(new))
    assert expected.code == 0, expected.text
    assert world.version() == VERSION
    again = ["sh", f"{new}/install.sh", *install[2:]]
    done = subprocess.run(again, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert world.version(world.share / "previous") == "0.1.0"
    expected = baton_self(world, "rollback")
    assert expected.code == 0, expected.text
    assert (world.version(), world.receipt()["version"]) == ("0.1.0", "0.1.0")
    listed = [Path(file) for file in world.receipt()["files"]]
    assert world.target in listed
    expected = baton_self(world, "uninstall", "--yes")
    assert expected.code == 0, expected.text
    assert not any(path.exists() for path in listed)
    assert not world.share.exists()
