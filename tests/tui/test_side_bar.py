"""The side bar: what it shows, what can be done there, and where there is no room for it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from baton.core.ledger_types import HoldRequest, Policy, Scope
from baton.core.messages import Chunk, Purpose, Request, Text
from baton.core.money import FREE, NANO, BilledTokens
from baton.core.plan_types import Plan, Step
from baton.tui.chat.side_bar import SideBarView, WaitingList
from support.app_session import GPT, AppSession, execute, open_app, remote_script, until

WIDE = (140, 40)
PLAN = Plan((Step("small", "Draft three days."), Step("gpt", "Check the hours.", ("1",))), (2,))


def bar_text(session: AppSession) -> str:
    """Return what the side bar shows; "" where there is none."""
    bars = [bar for bar in session.app.screen.query(SideBarView) if bar.display]
    lines = session.screen_text().splitlines() if bars else []
    return "\n".join(line[bars[0].region.x :].rstrip() for line in lines)


async def shows(session: AppSession, *texts: str) -> None:
    await session.wait_until(lambda: all(text in bar_text(session) for text in texts))


async def test_it_shows_context_money_and_what_was_sent(tmp_path: Path) -> None:
    terms = {"policy": Policy.BUDGET}
    async with open_app(tmp_path, cloud=remote_script("Nine."), terms=terms, size=WIDE) as session:
        await shows(session, "Context", "no model yet", "today", "$0.00 of $2.00", "nothing")
        ledger = session.services.ledger
        bill = HoldRequest(
            "run", "chat", "gpt", "openai", "openai/gpt-5-mini", Purpose.ANSWER,
            GPT.price or FREE, 500, 1000, {Scope.DAY: 2 * NANO},
        )  # fmt: skip
        hold = await ledger.hold(bill)
        await ledger.sent(hold.call, "api.openai.com", b"x" * 1834)
        await ledger.settle(hold.call, BilledTokens(400, 800))
        await execute(session, PLAN)
        await shows(session, "$0.003 of $2.00", "gpt", "1.8 kB $0.002")


async def test_running_steps_are_listed_with_how_they_stand(tmp_path: Path) -> None:
    go_on: list[bool] = []

    def slow(request: Request) -> Iterable[Chunk | BaseException | float]:
        yield Text("Day 1.")
        yield from until(lambda: go_on)

    terms = {"policy": Policy.BUDGET}
    async with open_app(
        tmp_path, slow, cloud=remote_script("Nine."), terms=terms, size=WIDE
    ) as session:
        await execute(session, PLAN, wait=False)
        await shows(session, "1 draft three days", "writing", "2 check the hours", "waits for 1")
        go_on.append(True)
        await session.wait_for_answer()
        await session.wait_until(lambda: "Steps" not in bar_text(session))


async def test_a_prompt_that_waits_is_edited_and_removed_there(tmp_path: Path) -> None:
    go_on: list[bool] = []

    def slow(request: Request) -> Iterable[Chunk | BaseException | float]:
        yield Text("One.")
        yield from until(lambda: go_on)

    async with open_app(tmp_path, slow, size=WIDE) as session:
        for text in ("first", "second", "third", "fourth"):
            await session.send(text)
        await shows(session, "Waiting", "second", "third", "fourth")
        waiting = session.app.screen.query_one(WaitingList)
        waiting.focus()
        await session.press("down", "d")
        await session.wait_until(lambda: "third" not in bar_text(session))
        assert [p.prompt.text for p in session.chat.queue.waiting] == ["second", "fourth"]
        assert await session.pilot.click(waiting, offset=(3, 0))
        await session.wait_until(lambda: session.chat.composer.text == "second")
        assert session.chat.composer.prompt.has_focus
        assert [p.prompt.text for p in session.chat.queue.waiting] == ["fourth"]
        go_on.append(True)
        await session.wait_for_answer()
        sent = [turn.text for turn in session.chat.transcript.turns if turn.text != "One."]
        assert sent == ["first", "fourth"]


async def test_a_part_leads_to_the_screen_that_says_more(tmp_path: Path) -> None:
    async with open_app(tmp_path, size=WIDE) as session:
        await shows(session, "Money")
        bar = session.app.screen.query_one(SideBarView)
        rows = bar_text(session).splitlines()
        row = next(place for place, line in enumerate(rows) if "Money" in line)
        assert await session.pilot.click(offset=(bar.region.x + 4, row))
        await session.wait_until(lambda: session.screen_name == "MoneyScreen")


async def test_it_is_hidden_and_shown_by_its_key_and_that_is_remembered(tmp_path: Path) -> None:
    async with open_app(tmp_path, size=WIDE) as session:
        await shows(session, "Context")
        await session.press("ctrl+t")
        await session.wait_until(lambda: not bar_text(session))
        settings = session.services.config
        await session.wait_until(settings.exists)
        assert tomllib.loads(settings.read_text())["screen"]["side_bar"] is False
        await session.send("/side")
        await shows(session, "Context")
        await session.wait_until(
            lambda: tomllib.loads(settings.read_text())["screen"]["side_bar"] is True
        )


async def test_it_gives_way_in_a_narrow_window_and_beside_the_panel(tmp_path: Path) -> None:
    async with open_app(tmp_path, size=WIDE) as session:
        await session.ask("Hello")
        await shows(session, "Context")
        await session.press("escape", "w")
        await session.wait_until(lambda: session.screen_name == "WorkflowScreen")
        await session.wait_until(lambda: not session.chat.query_one(SideBarView).region)
        await session.press("escape")
        await shows(session, "Context")
        await session.pilot.resize_terminal(100, 30)
        await session.wait_until(lambda: not bar_text(session))
        await session.press("ctrl+t")
        await session.wait_for_text("the side bar needs 120 columns; this window has 100")
        await session.pilot.resize_terminal(*WIDE)
        await shows(session, "Context")
