"""How settled screens look. After a wanted change, look at what `--snapshot-update` made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual.pilot import Pilot

from baton.adapters.ledger import Ledger
from baton.adapters.scripted import ScriptedWorker
from baton.adapters.store import Store
from baton.domain.chat import Chunk, Reading, Request, Text, Writing
from baton.domain.errors import ContextTooLong, WorkerUnavailable
from baton.engine.orchestra import Orchestra
from baton.tui.app import BatonApp
from baton.tui.desk import Desk
from tui.stage import CARD, STRONG

Act = Callable[[Pilot[None]], Awaitable[None]]
Compare = Callable[..., bool]

SMALL, LARGE = (80, 24), (140, 40)
ANSWER = """Three **quiet** days, with `tram 28` once.

## Day 1

- Walk to the castle early; it is quiet before ten
- Eat *pastéis* by the river

| Dia | Manhã | Tarde |
|---|---|---|
| 1 | Castelo | Elétrico 28 |
| 2 | Oceanário | Parque |

```python
def days(count: int) -> list[str]:
    return [f"Day {n}" for n in range(count)]  # from 0
```
"""


def script(request: Request) -> Iterable[Chunk | BaseException | float]:
    last = request.messages[-1].text
    if "too long" in last:
        raise ContextTooLong(9000, 4096)
    if "fail" in last:
        yield Text("Here is the beginning of")
        raise WorkerUnavailable("The worker small died.", "What there is was kept; send it again.")
    if "slow" in last:
        yield from (Reading(1, 1), Text(ANSWER[:180]), Writing(31.0))
        yield 60.0
    yield Text(ANSWER)


@pytest.fixture(autouse=True)
def _frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run take 1.2 s, and every day be the same."""
    monkeypatch.setattr("baton.engine.run.Run._now", 1.2)
    monkeypatch.setattr("baton.engine.meter.time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(
        "baton.adapters.store.recording.time", SimpleNamespace(time=lambda: 1_790_000_000.0)
    )
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def store() -> Iterator[Store]:
    kept = Store.open(None)
    yield kept
    asyncio.run(kept.aclose())


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    kept = Ledger.open(None, lambda: 1_790_000_000.0)
    yield kept
    asyncio.run(kept.aclose())


def chat(pilot: Pilot[None]) -> BatonApp:
    assert isinstance(pilot.app, BatonApp)
    pilot.app.chat.composer.prompt.cursor_blink = False
    return pilot.app


async def settle(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await pilot.pause(0.02)
    await pilot.pause(0.1)


async def ask(pilot: Pilot[None], text: str) -> None:
    app = chat(pilot)
    before = len(app.chat.transcript.turns)
    app.chat.composer.prompt.insert(text)
    await pilot.press("enter")
    await settle(
        pilot, lambda: len(app.chat.transcript.turns) > before and not app.chat.player.busy
    )
    await app.workers.wait_for_complete()


async def over(pilot: Pilot[None], key: str, name: str, *typed: str) -> None:
    app = chat(pilot)
    await pilot.press(key)
    await settle(pilot, lambda: type(app.screen).__name__ == name)
    await pilot.press(*typed)
    await pilot.pause(0.4)
    for field in app.screen.query("Input"):
        field.cursor_blink = False  # type: ignore[attr-defined]


async def first(pilot: Pilot[None]) -> None:
    app = chat(pilot)
    await pilot.pause()
    await app.workers.wait_for_complete()


async def answer(pilot: Pilot[None]) -> None:
    await ask(pilot, "Plan three days in Lisbon with two kids.")


async def failed(pilot: Pilot[None]) -> None:
    await answer(pilot)
    await ask(pilot, "now fail")


async def search(pilot: Pilot[None]) -> None:
    await answer(pilot)
    await over(pilot, "ctrl+s", "ConversationsScreen", *"castle")


async def selected(pilot: Pilot[None]) -> None:
    await answer(pilot)
    await pilot.press("tab", "k")


async def streaming(pilot: Pilot[None]) -> None:
    app = chat(pilot)
    app.chat.composer.prompt.insert("slow please")
    await pilot.press("enter")
    await settle(pilot, lambda: "writing" in app.chat.footer.status)
    app.chat.composer.prompt.insert("and then this")
    await pilot.press("enter")
    await settle(pilot, lambda: app.chat.player.waiting)


async def question(pilot: Pilot[None]) -> None:
    app = chat(pilot)
    await ask(pilot, "hello")
    app.chat.composer.prompt.insert("too long")
    await pilot.press("enter")
    await settle(pilot, lambda: app.chat._question)
    await pilot.press("tab")
    await pilot.pause()


async def commands(pilot: Pilot[None]) -> None:
    await first(pilot)
    await pilot.press("/")


async def models(pilot: Pilot[None]) -> None:
    await over(pilot, "ctrl+l", "ModelsScreen")


async def keys(pilot: Pilot[None]) -> None:
    await over(pilot, "f1", "HelpScreen")


async def why(pilot: Pilot[None]) -> None:
    await answer(pilot)
    await pilot.press("escape")
    await over(pilot, "w", "WhyScreen")


CASES = [
    *((act, size, theme) for act in (first, answer, failed, search)
      for size in (SMALL, LARGE) for theme in ("dark", "light")),
    (answer, SMALL, "high-contrast"),
    (selected, SMALL, "light"),
    (streaming, SMALL, "dark"),
    (question, SMALL, "dark"),
    (commands, SMALL, "dark"),
    (models, SMALL, "dark"),
    (keys, LARGE, "light"),
    (why, LARGE, "dark"),
    (why, SMALL, "light"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("act", "size", "theme"),
    CASES,
    ids=[f"{act.__name__}-{size[0]}-{theme}" for act, size, theme in CASES],
)
def test_look(
    snap_compare: Compare,
    store: Store,
    ledger: Ledger,
    tmp_path: Path,
    act: Act,
    size: tuple[int, int],
    theme: str,
) -> None:
    workers = {"small": ScriptedWorker(script, CARD), "large": ScriptedWorker(script, STRONG)}
    orchestra = Orchestra(workers, store, "small", ledger=ledger)
    exports, logs = tmp_path / "exports", tmp_path / "logs"
    desk = Desk(orchestra, store, ledger, tmp_path / "config.toml", exports, logs)

    async def play(pilot: Pilot[None]) -> None:
        await first(pilot)
        await act(pilot)

    assert snap_compare(BatonApp(desk, theme), terminal_size=size, run_before=play)
