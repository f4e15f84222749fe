"""Esc has one order everywhere: what is open closes, then what runs stops, then all the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from baton.core.messages import Chunk, Request, Text
from support.app_session import AppSession, open_app, remote_script, sorry, until


class SlowWorker:
    """Writes until it is stopped, never the same, which would be taken for a loop."""

    def __call__(self, request: Request) -> Iterable[Chunk | float]:
        for number in range(3000):
            yield Text(f"word{number} ")
            yield 0.01


def effects(session: AppSession) -> dict[str, object]:
    """Return all that Esc can change."""
    chat = session.chat
    return {
        "screen": session.screen_name,
        "menu": chat.context.menu.is_open,
        "runs": chat.queue.is_busy,
        "edits": chat.composer.editing is not None,
        "waiting": [pending.prompt.text for pending in chat.queue.waiting],
        "text": chat.composer.text,
        "focus": "prompt" if chat.composer.prompt.has_focus else "messages",
    }


async def escape(session: AppSession) -> dict[str, object]:
    """Press Esc, and return what it changed."""
    before = effects(session)
    await session.press("escape")
    if before["runs"] and before["screen"] == "ChatScreen" and not before["menu"]:
        await session.wait_for_answer()
    after = effects(session)
    return {name: value for name, value in after.items() if value != before[name]}


BEGINNINGS: dict[str, Callable[[AppSession], object]] = {
    "messages": lambda session: session.chat.transcript.focus(),
    "text": lambda session: session.chat.composer.put("half a word"),
    "edits": lambda session: session.chat.input.edit(),
    "menu": lambda session: session.app.action_menu(),
    "money": lambda session: session.chat.context.start(session.chat.budget.run_command, "budget"),
    "help": lambda session: session.app.action_help(),
}
STOP = {"runs": False}
TO_MESSAGES, TO_PROMPT = {"focus": "messages"}, {"focus": "prompt"}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("", [TO_MESSAGES, TO_PROMPT]),
        ("messages", [TO_PROMPT, TO_MESSAGES]),
        ("menu", [{"menu": False, **TO_PROMPT}, TO_MESSAGES]),
        ("runs", [STOP, TO_MESSAGES, TO_PROMPT]),
        ("runs messages", [STOP, TO_PROMPT]),
        ("runs menu", [{"menu": False, **TO_PROMPT}, STOP, TO_MESSAGES]),
        ("runs text", [STOP, TO_MESSAGES]),
        ("runs money", [{"screen": "ChatScreen"}, STOP, TO_MESSAGES]),
        ("runs help", [{"screen": "ChatScreen"}, STOP, TO_MESSAGES]),
        ("edits", [{"edits": False, "text": ""}, TO_MESSAGES]),
        ("runs edits", [STOP, {"edits": False, "text": ""}, TO_MESSAGES]),
        (
            "runs queued",
            [STOP, {"waiting": ["second"], "text": "third"}, {}],
        ),
        (
            "runs queued messages",
            [STOP, {"waiting": ["second"], "text": "third", **TO_PROMPT}, {}],
        ),
        (
            "runs queued edits",
            [STOP, {"edits": False, "text": ""}, {"waiting": ["second"], "text": "third"}],
        ),
    ],
)
async def test_the_order_of_escape(
    tmp_path: Path, state: str, expected: list[dict[str, object]]
) -> None:
    worker = SlowWorker()

    def script(request: Request) -> Iterable[Chunk | float]:
        if request.messages[-1].text == "zero":
            yield Text("done")
        else:
            yield from worker(request)

    async with open_app(tmp_path, script, size=(100, 24)) as session:
        await session.ask("zero")
        for name in state.split():
            if name == "runs":
                await session.send("first")
                await session.wait_until(lambda: "word" in session.screen_text())
            elif name == "queued":
                await session.send("second")
                await session.send("third")
            else:
                BEGINNINGS[name](session)
        screen = {"money": "MoneyScreen", "help": "HelpScreen"}.get(state.split(" ")[-1])
        await session.wait_until(lambda: screen in (None, effects(session)["screen"]))
        await session.settled()
        assert [await escape(session) for _ in expected] == expected


async def test_what_a_stop_left_is_given_back_one_prompt_at_a_time(tmp_path: Path) -> None:
    async with open_app(tmp_path, SlowWorker()) as session:
        for text in ("first", "second", "third"):
            await session.send(text)
        await session.wait_until(lambda: session.chat.queue.is_busy)
        given = []
        await escape(session)
        while session.chat.queue.waiting:
            await escape(session)
            given.append(session.chat.composer.text)
            session.chat.composer.put("")
        assert given == ["third", "second"]


@pytest.mark.parametrize("focus", ["prompt", "messages", "choice"])
async def test_escape_leaves_a_question_before_it_stops_the_answer(
    tmp_path: Path, focus: str
) -> None:
    """To leave it is to keep the local answer, so nothing is sent."""
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await session.send("help")
        await session.wait_until(lambda: session.chat.question)
        await session.send("next")
        if focus == "messages":
            session.chat.transcript.focus()
        elif focus == "choice":
            await session.press("tab")
        await session.press("escape")
        await session.wait_until(lambda: len(session.chat.transcript.turns) == 4)
        assert not session.asked
        assert session.chat.transcript.turns[1].text.startswith("I'm sorry")


async def test_escape_closes_a_screen_over_a_question(tmp_path: Path) -> None:
    asked: list[str] = []

    def helped(request: Request) -> Iterable[Chunk | float]:
        yield from until(lambda: asked)
        yield from sorry(request)

    async with open_app(tmp_path, helped, cloud=remote_script()) as session:
        await session.send("help")
        await session.press("f1")
        asked.append("now")
        await session.wait_until(lambda: session.chat.question)
        assert await escape(session) == {"screen": "ChatScreen"}
        assert session.chat.question, "it still waits"
