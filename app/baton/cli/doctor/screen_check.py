"""The real app without a terminal: a prompt is typed, answered, and seen on its screen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape
from typing import TYPE_CHECKING

from baton.cli.doctor.check_result import CheckResult, CheckState
from baton.cli.doctor.temporary_home import SelfTestHome, repair_hint
from baton.core.messages import Card, Chunk, Request, Text
from baton.platform.os_signals import ENDING, unhear

if TYPE_CHECKING:
    from baton.tui.app import BatonApp

SIZE = (80, 24)
_TYPED, _ANSWERED = "tutti", ("Maestro", "forte", "print")
_STEP_SECONDS = 0.05
_MAX_STEPS = 600


async def check_screen(place: SelfTestHome) -> str | CheckResult:
    """Open the app at 80x24, send a prompt, and look for the answer on the screen."""
    from baton.core.run.orchestra import Orchestra
    from baton.history import Store
    from baton.money import Ledger
    from baton.tui.app import BatonApp
    from baton.tui.services import AppServices
    from baton.workers.scripted_worker import ScriptedWorker

    worker = ScriptedWorker(_script_answer, Card("self-test", "local", "Self-test", context=8192))
    store, ledger = Store.open(None), Ledger.open(None)
    try:
        paths = place.paths
        table = AppServices(
            Orchestra({"self-test": worker}, store, "self-test"),
            *(store, ledger, paths.config_file, place.folder, paths.logs),
        )
        seen = await _play_person(BatonApp(table))
    finally:
        await ledger.aclose()
        await store.aclose()
    if lacking := [word for word in (_TYPED, *_ANSWERED, "self-test") if word not in seen]:
        why = f"The app's screen doesn't show what it should ({', '.join(lacking)})."
        return CheckResult("screen", CheckState.BROKEN, f"{why} {repair_hint()}")
    return f"the app at {SIZE[0]}x{SIZE[1]} took a prompt and showed its answer"


def _script_answer(_: Request) -> Iterable[Chunk]:
    yield Text("**Maestro**, a list:\n\n- *forte*\n\n```python\nprint('baton')\n```\n")


async def _play_person(app: BatonApp) -> str:
    """Play a person, and return what is on the screen in the end."""
    try:
        async with app.run_test(size=SIZE) as pilot:
            await pilot.press(*_TYPED, "enter")
            for _ in range(_MAX_STEPS):
                text = _text_of(app.export_screenshot())
                if all(word in text for word in _ANSWERED) and not app.chat.queue.is_busy:
                    break
                await pilot.pause(_STEP_SECONDS)
            await app.chat.close()
            return text
    finally:
        _restore_signals()


def _text_of(picture: str) -> str:
    """Return the words in a screenshot, in their order."""
    return unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture))).replace(
        "\xa0", " "
    )


def _restore_signals() -> None:
    """Undo what the app made of the system's signals."""
    for number in ENDING:
        unhear(number)
