"""A release brings along what its builds are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.releases import keys, program, publish, script

NAME = "baton-1.0.0-linux-x86_64"


def released(tmp_path: Path) -> Path:
    key, _ = keys(tmp_path / "keys")
    folder = publish(tmp_path / "release", key, "1.0.0", {("full", ""): program("1.0.0")})
    dist = tmp_path / "release dist"
    (dist / f"{NAME}.cdx.json").write_text('{"bomFormat": "CycloneDX"}')
    script().make(dist, folder, key, "2026-11-21", "")  # once more, over what was there
    return folder


def test_the_bill_of_a_file_lies_beside_it_and_is_summed(tmp_path: Path) -> None:
    folder = released(tmp_path)
    assert (folder / f"{NAME}.cdx.json").read_text() == '{"bomFormat": "CycloneDX"}'
    assert f"  {NAME}.cdx.json\n" in (folder / "SHA256SUMS").read_text()
    _, public = keys(tmp_path / "keys")
    assert script().check(folder, public) == []


def test_a_changed_bill_is_noticed_and_a_stray_file_is_kept(tmp_path: Path) -> None:
    folder = released(tmp_path)
    key, public = keys(tmp_path / "keys")
    (folder / f"{NAME}.cdx.json").write_text("{}")
    assert any("SHA256SUMS" in line for line in script().check(folder, public))
    (folder / "letters.cdx.json").touch()
    with pytest.raises(script().Wrong, match="more than a release"):
        script().make(tmp_path / "release dist", folder, key, "2026-11-21", "")
    assert (folder / "letters.cdx.json").exists()
