"""`baton self licences`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import baton
from baton.cli.installation import LICENCES_FILE
from baton.cli.root import baton as root_command
from baton.core.errors import ConfigError
from support.folder_build import notices


def test_a_build_shows_what_it_was_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Path("baton", LICENCES_FILE) == notices.FILE, "where the build writes it"
    (tmp_path / LICENCES_FILE).write_text(
        "Baton holds ...\n\nnumpy — BSD-3-Clause\n", encoding="utf-8"
    )
    monkeypatch.setattr(baton, "__file__", str(tmp_path / "__init__.py"))
    shown = CliRunner().invoke(root_command, ["self", "licences"])
    assert (shown.output, shown.exit_code) == ("Baton holds ...\n\nnumpy — BSD-3-Clause\n", 0)


def test_a_checkout_says_where_its_packages_licences_are() -> None:
    shown = CliRunner().invoke(root_command, ["self", "licences"])
    assert isinstance(shown.exception, ConfigError)
    assert "dist-info" in str(shown.exception.hint)
