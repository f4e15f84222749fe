"""What the packaged binary holds of others is expected to people and to machines."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.binary


def test_it_shows_the_licences_of_all_that_it_holds(folder: Path) -> None:
    shown = subprocess.run(
        [str(folder), "self", "licences"], check=True, capture_output=True, encoding="utf-8"
    ).stdout
    for part in ("numpy", "llama.cpp", "CPython", "OpenSSL", "SmolLM2-135M-Instruct", "litellm"):
        assert f"\n{part} " in shown
    assert "Copyright (c) 2005-" in shown, "numpy's own text"
    assert "GNU GENERAL PUBLIC LICENSE" in shown, (
        "what GCC's libraries are under, beside its exception"
    )


@pytest.mark.parametrize("name", ["baton", "baton-slim"])
def test_the_bill_of_materials_lists_what_is_in_the_folder(dist: Path, name: str) -> None:
    bill = json.loads((dist / f"{name}.cdx.json").read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    root = bill["metadata"]["component"]
    expected = json.loads((dist / "folder" / name / "lib/baton/build.json").read_text())
    assert (root["name"], root["version"]) == (name, expected["version"])
    parts = {component["name"]: component for component in bill["components"]}
    assert {"numpy", "llama.cpp", "CPython", "OpenSSL", "all-MiniLM-L6-v2"} <= parts.keys()
    assert ("SmolLM2-135M-Instruct" in parts) is (name == "baton")
    assert not {"pip", "cmake", "pyinstaller", "boto3"} & parts.keys()
    for part in parts.values():
        assert part["licenses"], part["name"]
    (needs,) = [one for one in bill["dependencies"] if one["ref"] == root["bom-ref"]]
    assert len(needs["dependsOn"]) == len(bill["components"])


@pytest.mark.parametrize("name", ["baton", "baton-slim"])
def test_no_library_of_the_system_s_under_the_gpl_came_along(dist: Path, name: str) -> None:
    names = [path.name for path in (dist / "folder" / name).rglob("*")]
    for unwanted in ("readline", "gdbm", "libdb-", "ncurses", "libtinfo"):
        assert not [found for found in names if unwanted in found]
