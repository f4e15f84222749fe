"""How the first start and the models look. After a wanted change, see `--snapshot-update`."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual.pilot import Pilot

from baton.core.messages import Chunk, Request, Text
from baton.models.ports import ExternalModel
from baton.tui.screens.models_screen import ModelsScreen
from baton.workers.scripted_worker import ScriptedWorker
from support.app_library import CODER, GATED, GB, SCOUT, TALKER, LibrarySetup, new_library_setup
from support.app_session import CARD, GPT, settled
from support.screen_looks import (
    LARGE,
    NOW,
    SMALL,
    Look,
    app_of,
    each_look,
    freeze_runs,
    look,
)

__all__ = ["look"]

Act = Callable[[Pilot[None], LibrarySetup], Awaitable[None]]


def say(request: Request) -> Iterable[Chunk]:
    for word in ("Walk", "to", "the", "castle", "early;", "it", "is", "quiet", "before", "ten."):
        yield Text(f"{word} ")


@pytest.fixture(autouse=True)
def _frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time stand still, but for the measurement: 80 tokens/s."""
    ticks = itertools.count(0.0, 0.0125)
    freeze_runs(monkeypatch)
    monkeypatch.setattr(
        "baton.workers.local.speed_benchmark.time", SimpleNamespace(monotonic=lambda: next(ticks))
    )
    monkeypatch.setattr("baton.history.changes.time", SimpleNamespace(time=lambda: NOW - 300))
    monkeypatch.setattr("baton.history.queries.time", SimpleNamespace(time=lambda: NOW))
    monkeypatch.setattr("baton.tui.screens.models_screen.time", SimpleNamespace(time=lambda: NOW))


async def first(pilot: Pilot[None], library_setup: LibrarySetup) -> None:
    app = app_of(pilot)
    await settled(
        pilot, lambda: app.chat.onboarding.advice and "tokens/s" in app.chat.onboarding.advice.text
    )


async def chosen(pilot: Pilot[None], library_setup: LibrarySetup) -> None:
    await first(pilot, library_setup)
    library_setup.model_source.hold()
    await pilot.press("tab", "enter")
    app = app_of(pilot)
    await settled(pilot, lambda: "40 %" in app.chat.footer.beside)


async def offline(pilot: Pilot[None], library_setup: LibrarySetup) -> None:
    app = app_of(pilot)
    await settled(pilot, lambda: app.chat.onboarding.choices)


async def table(pilot: Pilot[None], library_setup: LibrarySetup) -> None:
    app = app_of(pilot)
    await settled(pilot)
    for one in (CODER, TALKER):
        app.chat.context.services.add_model(library_setup.put(one))
    library_setup.put(GATED, here=False, paused=True)
    app.chat.composer.prompt.insert("hello")
    await pilot.press("enter")
    await settled(pilot, lambda: app.chat.transcript.turns and not app.chat.queue.is_busy)
    library_setup.model_source.hold()
    assert app.chat.downloads.queue is not None
    app.chat.downloads.queue.fetch(library_setup.put(SCOUT, here=False))
    await pilot.press("ctrl+l")
    await settled(pilot, lambda: isinstance(app.screen, ModelsScreen) and app.screen._data.verdicts)
    await settled(pilot, lambda: "40 %" in app.chat.footer.beside)
    await pilot.press("down")
    await settled(pilot)


async def detail(pilot: Pilot[None], library_setup: LibrarySetup) -> None:
    await table(pilot, library_setup)
    await pilot.press("a", "end")
    await settled(pilot)


async def roles(pilot: Pilot[None], library_setup: LibrarySetup) -> None:
    await table(pilot, library_setup)
    await pilot.press("r")
    await settled(pilot)


CASES = [
    *((act, size, theme) for act in (first, table)
      for size in (SMALL, LARGE) for theme in ("dark", "light")),
    (chosen, SMALL, "dark"),
    (offline, SMALL, "light"),
    (detail, SMALL, "dark"),
    (detail, LARGE, "light"),
    (roles, SMALL, "dark"),
]  # fmt: skip


@pytest.mark.sampled(2)
@each_look(CASES)
def test_look_of_models(
    look: Look, tmp_path: Path, act: Act, size: tuple[int, int], theme: str
) -> None:
    library_setup = new_library_setup(tmp_path, say)
    library_setup.library.offline = act is offline
    library_setup.model_store.others = [
        ExternalModel("Mistral 7B", Path("/models/mistral.gguf"), 4 * GB, "Ollama")
    ]
    workers = {"small": ScriptedWorker(say, CARD)}
    if act in (table, detail, roles):
        workers["gpt"] = ScriptedWorker(say, GPT)

    async def execute(pilot: Pilot[None]) -> None:
        await act(pilot, library_setup)

    assert look.is_unchanged(workers, execute, size, theme, equip=library_setup.equip)
