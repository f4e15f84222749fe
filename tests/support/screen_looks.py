"""What the tests of settled screens share: the app at a time that stands still, and its picture."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot

from baton.core.permissions import RunTerms
from baton.core.ports import Redactor, Worker
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.history import Store
from baton.money import Ledger
from baton.tui.app import BatonApp
from baton.tui.chat.context import AppServices
from support.app_session import no_models

Execution = Callable[[Pilot[None]], Awaitable[None]]
"""What a user does before the picture is taken."""

SMALL, MIDDLE, LARGE = (80, 24), (100, 30), (140, 40)
NOW = 1_790_000_000.0


def freeze_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run take 1.2 s, and the side bar change with what happens only."""
    monkeypatch.setattr("baton.core.run.run.Run._now", 1.2)
    monkeypatch.setattr("baton.tui.chat.side_bar.REFRESH_SECONDS", 3600.0)
    monkeypatch.setattr(
        "baton.core.run.metered_worker.time", SimpleNamespace(monotonic=lambda: 0.0)
    )


@dataclass(frozen=True)
class Look:
    """The app with a history and a ledger of its own, to be compared with its snapshot."""

    snap_compare: Callable[..., bool]
    store: Store
    ledger: Ledger
    folder: Path

    def is_unchanged(
        self,
        workers: Mapping[str, Worker],
        execute: Execution,
        size: tuple[int, int],
        theme: str,
        *,
        terms: RunTerms | None = None,
        redactor: Redactor | None = None,
        equip: Callable[[Orchestra], Mapping[str, Any]] = lambda _: {},
    ) -> bool:
        """Whether the screen after `execute` is as it was; `equip` adds to `AppServices`."""
        services = Services(dict(workers), self.store, ledger=self.ledger, redactor=redactor)
        orchestra = Orchestra(services, "small", terms or RunTerms({}))
        config, exports, logs = (self.folder / name for name in ("config.toml", "exports", "logs"))
        more = {**no_models(self.folder), **equip(orchestra)}
        table = AppServices(orchestra, self.store, self.ledger, config, exports, logs, **more)
        return self.snap_compare(BatonApp(table, theme), terminal_size=size, run_before=execute)


@pytest.fixture
def look(snap_compare: Callable[..., bool], tmp_path: Path) -> Iterator[Look]:
    """Give what compares a screen with its snapshot."""
    store, ledger = Store(None), Ledger(None, lambda: NOW)
    yield Look(snap_compare, store, ledger, tmp_path)
    asyncio.run(store.aclose())
    asyncio.run(ledger.aclose())


def each_look(cases: Sequence[tuple[Any, tuple[int, int], str]]) -> pytest.MarkDecorator:
    """Run a test with each act, size and theme, and name its snapshot after them."""
    names = [f"{act.__name__}-{size[0]}-{theme}" for act, size, theme in cases]
    return pytest.mark.parametrize(("act", "size", "theme"), cases, ids=names)


def app_of(pilot: Pilot[None]) -> BatonApp:
    """Return the app, with a cursor that doesn't blink."""
    assert isinstance(pilot.app, BatonApp)
    pilot.app.chat.composer.prompt.cursor_blink = False
    return pilot.app
