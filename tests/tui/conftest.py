"""Every test of the app waits for what is, and guesses nothing."""

from __future__ import annotations

import pytest

from support import app_idle


@pytest.fixture(autouse=True)
def _rests(monkeypatch: pytest.MonkeyPatch) -> None:
    app_idle.install(monkeypatch)
