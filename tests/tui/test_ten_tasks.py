"""Ten things that a user wants, each in at most three keys or clicks, read off the screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest
from textual.widgets import Input

from baton.core.ledger_types import Policy
from baton.core.messages import Chunk, Prompt, Request, Text
from baton.core.plan_types import Plan, Step
from baton.tui.prompt_queue import QueuedPrompt
from support.app_session import AppSession, open_app, remote_script

MOST = 3
CODE = "Here:\n\n```python\nprint('copied')\n```\n"


def code(request: Request) -> Iterable[Chunk]:
    yield Text(CODE)


class Person:
    """Presses keys and clicks on what stands on the screen, and counts that."""

    def __init__(self, session: AppSession) -> None:
        self.session = session
        self.count = 0

    @property
    def screen(self) -> str:
        return self.session.screen_text()

    async def press(self, key: str, shown: str = "") -> None:
        """Press a key, which the screen names, unless it is a letter of a search."""
        assert shown in self.screen, f"{shown!r} is not to be read in\n{self.screen}"
        self.count += 1
        await self.session.press(key)
        await self.session.settled()

    async def click(self, text: str) -> None:
        """Click on a text that stands on the screen."""
        lines = self.screen.splitlines()
        row = next((row for row, line in enumerate(lines) if text in line), None)
        assert row is not None, f"{text!r} is not to be read in\n{self.screen}"
        self.count += 1
        await self.session.pilot.click(offset=(lines[row].index(text) + 1, row))
        await self.session.settled()


def on(name: str) -> Callable[[AppSession], bool]:
    return lambda session: session.screen_name == name


async def find_quit(person: Person) -> Callable[[AppSession], object]:
    await person.press("ctrl+p", "Ctrl+P more")
    await person.press("q")
    return lambda session: "Quit Baton" in person.screen and "Ctrl+Q" in person.screen


async def change_theme(person: Person) -> Callable[[AppSession], object]:
    await person.press("ctrl+p", "Ctrl+P more")
    await person.press("t")
    await person.click("/theme")
    return lambda session: "solarized" in person.screen or "high-contrast" in person.screen


async def set_a_dollar(person: Person) -> Callable[[AppSession], object]:
    await person.click("$0.0")
    await person.press("c", "c ceiling")
    return lambda session: isinstance(session.app.focused, Input)


async def ask_stronger(person: Person) -> Callable[[AppSession], object]:
    await person.press("ctrl+p", "Ctrl+P more")
    await person.press("s")
    await person.click("Stronger")
    return lambda session: session.chat.queue.is_busy or len(session.asked) > 0


async def see_what_left(person: Person) -> Callable[[AppSession], object]:
    await person.click("$0.0")
    await person.press("e", "e sent")
    return on("EgressScreen")


async def continue_a_talk(person: Person) -> Callable[[AppSession], object]:
    await person.press("ctrl+n")
    await person.session.wait_until(lambda: "Continue" in person.screen)
    person.count = 0  # so it looks the next morning
    await person.click("An older talk")
    return lambda session: len(session.chat.transcript.turns) == 2


async def copy_code(person: Person) -> Callable[[AppSession], object]:
    await person.press("escape", "Esc select")
    await person.press("u", "u code")
    return lambda session: "copied" in person.screen


async def add_a_model(person: Person) -> Callable[[AppSession], object]:
    await person.press("ctrl+p", "Ctrl+P more")
    await person.press("m")
    await person.click("All models")
    return on("ModelsScreen")


TASKS = {
    "find how to quit": find_quit,
    "change the theme": change_theme,
    "set a dollar a day": set_a_dollar,
    "ask a stronger model": ask_stronger,
    "see what left": see_what_left,
    "continue an older talk": continue_a_talk,
    "copy a code block": copy_code,
    "reach the models of other programs": add_a_model,
}


@pytest.mark.parametrize("task", TASKS)
async def test_a_task_takes_three_keys_or_clicks(task: str, tmp_path: Path) -> None:
    act: Callable[[Person], Awaitable[Callable[[AppSession], object]]] = TASKS[task]
    async with open_app(tmp_path, code, cloud=remote_script()) as session:
        await session.ask("An older talk")
        person = Person(session)
        is_done = await act(person)
        await session.wait_until(lambda: is_done(session))
        assert person.count <= MOST


async def test_a_step_is_edited_with_two_keys(tmp_path: Path) -> None:
    plan = Plan((Step("small", "Draft it."), Step("small", "Check it.", ("1",))), (2,))
    async with open_app(tmp_path, code) as session:
        chat = session.chat
        chat.queue.send(QueuedPrompt(chat.context.chat, Prompt("Plan it"), plan=plan, preview=True))
        await session.wait_until(lambda: chat.question)
        person = Person(session)
        await person.press("tab", "Tab choose")
        await person.press("e", "e change")
        await session.wait_until(lambda: type(session.app.focused).__name__ == "StepEditor")


async def test_one_key_stops_everything(tmp_path: Path) -> None:
    def endless(request: Request) -> Iterable[Chunk | float]:
        for number in range(3000):
            yield Text(f"word{number} ")
            yield 0.02

    terms = {"policy": Policy.BUDGET}
    async with open_app(tmp_path, endless, terms=terms) as session:
        for text in ("one", "two", "three"):
            await session.send(text)
        await session.wait_until(lambda: "writing" in session.screen_text())
        person = Person(session)
        await person.press("escape", "Esc stop")
        await session.wait_until(lambda: not session.chat.queue.is_busy)
        assert len(session.chat.queue.waiting) == 2, "nothing that waits begins"
