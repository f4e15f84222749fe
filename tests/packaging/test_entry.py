"""What the packaged program does first of all, before anything of Baton is imported."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

ENTRY = Path(__file__).parents[2] / "packaging" / "entry.py"


def load_entry() -> ModuleType:
    spec = importlib.util.spec_from_file_location("entry", ENTRY)
    assert spec is not None
    assert spec.loader is not None
    entry = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(entry)
    return entry


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
    entry = load_entry()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path / folder / "lib"), raising=False)
    monkeypatch.setattr(sys, "executable", "planted")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("BATON_BINARY", "/home/of/mine/thesis.doc")
    entry._know_itself()
    assert sys.executable == str(tmp_path / folder / "baton")
    assert ("BATON_BINARY" in os.environ) is believed
    assert sys.path[-1] == str(tmp_path / folder / "lib" / "zones.zip"), "in the front, too"


@pytest.mark.parametrize(
    ("words", "module", "given"),
    [
        (["--child", "self_test", "zones"], "baton_self_test.part_process.main", ("zones",)),
        (["--child", "runner"], "baton.cli.main", ()),
        (["ask", "Hello"], "baton.cli.main", ()),
    ],
)
def test_a_part_of_the_self_test_is_started_here_and_all_else_by_baton(
    monkeypatch: pytest.MonkeyPatch, words: list[str], module: str, given: tuple[str, ...]
) -> None:
    called: list[tuple[str, ...]] = []
    monkeypatch.setattr(module, lambda *words: called.append(words))
    monkeypatch.setattr(sys, "argv", ["baton", *words])
    monkeypatch.setattr(sys, "path", [*sys.path])
    load_entry().main()
    assert called == [given]
