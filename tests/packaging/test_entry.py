"""What the packaged program does first of all, before anything of Baton is imported."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

ENTRY = Path(__file__).parents[2] / "packaging" / "entry.py"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no launcher")
@pytest.mark.parametrize(
    ("folder", "believed"),
    [
        (".cache/baton/app/0123456789abcdef", True),
        ("Downloads/baton", False),
        ("app/baton-0.1.0", False),
        ("app/0123456789abcdef/baton", False),
    ],
)
def test_only_what_the_launcher_unpacked_believes_the_launcher(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str, believed: bool
) -> None:
    """A folder build that is started in another Baton's terminal is not that other one."""
    spec = importlib.util.spec_from_file_location("entry", ENTRY)
    assert spec is not None
    assert spec.loader is not None
    entry = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(entry)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path / folder / "lib"), raising=False)
    monkeypatch.setattr(sys, "executable", "planted")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("BATON_BINARY", "/home/of/mine/thesis.doc")
    entry._know_itself()
    assert sys.executable == str(tmp_path / folder / "baton")
    assert ("BATON_BINARY" in os.environ) is believed
    assert sys.path[-1] == str(tmp_path / folder / "lib" / "zones.zip"), "in the front, too"
