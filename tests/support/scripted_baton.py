"""A Baton with scripted workers, for commands that run something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from baton.compose import Baton, library
from baton.compose.local_workers import LocalWorkers
from baton.compose.remote_workers import RemoteWorkers
from baton.core.messages import Card
from baton.core.permissions import RunTerms
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.history import Store
from baton.money import Ledger
from baton.platform.paths import Paths
from baton.platform.settings import Settings
from baton.workers.scripted_worker import Script, ScriptedWorker, echo_script

Scripted = Callable[..., dict[str, ScriptedWorker]]
"""Puts workers with these ids (and scripts) in the place of the real ones; returns them."""


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, home: Path) -> Scripted:
    def put(**scripts: Script | None) -> dict[str, ScriptedWorker]:
        workers = {
            name: ScriptedWorker(
                script or echo_script, Card(name, "local", name.title(), context=8192)
            )
            for name, script in scripts.items()
        }

        def compose(
            settings: Settings, paths: Paths, *, history: bool = True, **_: object
        ) -> Baton:
            store = Store(paths.database if history else None)
            ledger = Ledger(paths.ledger)
            terms = RunTerms(mode=settings.mode, offline=settings.offline)
            orchestra = Orchestra(
                Services(workers, store, ledger=ledger), next(iter(workers)), terms
            )
            stock = library(settings, paths)
            local = LocalWorkers(settings, stock)
            away = RemoteWorkers(settings, paths, ledger)
            return Baton(orchestra, store, ledger, settings, paths, stock, local, away)

        monkeypatch.setattr("baton.compose.compose", compose)
        return workers

    return put
