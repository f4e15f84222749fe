"""What a packaged binary knows of its own build."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import baton
from baton.platform.build_info import build_info
from support.single_file import ROOT

sys.path.append(str(ROOT / "packaging"))
import inside


@pytest.fixture(autouse=True)
def _forgets() -> Iterator[None]:
    build_info.cache_clear()
    yield
    build_info.cache_clear()


def test_a_checkout_is_not_a_build() -> None:
    assert build_info() is None


def test_a_binary_reads_what_the_build_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / inside.NOTE
    note.parent.mkdir(parents=True)
    says = {"version": "1.0", "flavour": "slim", "platform": "linux-x86_64"}
    note.write_text(json.dumps(says))
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(baton, "__file__", str(tmp_path / "lib" / "baton" / "__init__.py"))
    found = build_info()
    assert found is not None
    assert found.flavour == "slim"
