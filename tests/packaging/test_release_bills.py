"""A release brings along what its builds are made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.sample_builds import MINE, bill, build
from support.sample_releases import keys, script

NAME = "baton-0.2.0-linux-x86_64"


def make_release(tmp_path: Path) -> Path:
    key, public = keys(tmp_path / "keys")
    build(tmp_path / "dist", NAME, {"update_key": public})
    script().make(tmp_path / "dist", tmp_path / "release", key, "2026-11-21", "")
    return tmp_path / "release"


def test_the_bill_of_a_file_is_beside_it_and_is_signed(tmp_path: Path) -> None:
    folder = make_release(tmp_path)
    written = (folder / f"{NAME}.cdx.json").read_text()
    assert json.loads(written)["metadata"]["component"]["bom-ref"] == NAME
    assert f"  {NAME}.cdx.json\n" in (folder / "SHA256SUMS").read_text()
    _, public = keys(tmp_path / "keys")
    assert script().check(folder, public) == []
    (folder / f"{NAME}.cdx.json").write_text(written.replace("abc", "abcabc"))
    assert script().check(folder, public) == [
        f"{NAME}.cdx.json: its contents aren't those that were signed"
    ]


def test_a_stray_file_is_kept(tmp_path: Path) -> None:
    folder = make_release(tmp_path)
    key, _ = keys(tmp_path / "keys")
    (folder / "letters.cdx.json").touch()
    with pytest.raises(script().ReleaseError, match="more than a release"):
        script().make(tmp_path / "dist", folder, key, "2026-11-21", "")
    assert (folder / "letters.cdx.json").exists()
    assert (folder / NAME).exists()


def test_a_bill_that_is_missing_or_of_another_build_ends_it(tmp_path: Path) -> None:
    key, public = keys(tmp_path / "keys")
    file = build(tmp_path / "dist", NAME, {"update_key": public})
    right = MINE | {"commit": "abc"}
    for wrong in (
        {"commit": "def"},
        {"version": "0.1.0"},
        {"flavour": "slim"},
        {"gpu": "cuda"},
        {"platform": "linux-aarch64"},
    ):
        written = bill(file, right | wrong)
        with pytest.raises(
            script().ReleaseError, match=rf"{NAME}\.cdx\.json isn't the bill of {NAME}"
        ):
            script().make(tmp_path / "dist", tmp_path / "release", key, "2026-11-21", "")
    for text in ("", "[]", "{}", '{"metadata": {"component": []}}', "\xff"):
        written.write_text(text, "latin-1")
        with pytest.raises(script().ReleaseError, match="isn't the bill of"):
            script().make(tmp_path / "dist", tmp_path / "release", key, "2026-11-21", "")
    written.unlink()
    with pytest.raises(script().ReleaseError, match=r"cdx\.json is missing"):
        script().make(tmp_path / "dist", tmp_path / "release", key, "2026-11-21", "")
    assert not (tmp_path / "release").exists()
