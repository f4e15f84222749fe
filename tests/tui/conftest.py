"""Every test of the app waits for what is, and guesses nothing."""

from __future__ import annotations

import pytest

from tui import rest


@pytest.fixture(autouse=True)
def _rests(monkeypatch: pytest.MonkeyPatch) -> None:
    rest.install(monkeypatch)
