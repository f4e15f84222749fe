"""A run opened into its workflow, while it continues and afterwards; and who wrote which part."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core import events as ev
from baton.core.errors import WorkerError
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import (
    Chunk,
    Finish,
    Prompt,
    Purpose,
    Request,
    RequestSent,
    Text,
    TurnStatus,
    Usage,
)
from baton.core.plan_types import Need, Plan, Step
from baton.core.ports import NEW
from baton.history import Store
from baton.tui.screens.workflow_screen import StepScreen, WorkflowScreen
from baton.tui.widgets.answer import AnswerView
from support.app_session import GPT, AppSession, execute, open_app, remote_script

Script = Iterable[Chunk | BaseException | float]
BUDGET = {"policy": Policy.BUDGET}
PLAN = Plan(
    (
        Step("small", "Draft three days in Lisbon.", ("prompt",), Need("planning", 2)),
        Step("large", "Check distances and hours.", ("1",), Need("knowledge", 3), check=True),
        Step(
            "gpt", "Put it into a table in Portuguese.", ("prompt", "1", "2"), Need("translation")
        ),
    ),
    (1, 3),
)
TABLE = "| Dia | Manhã |\n|---|---|\n| 1 | Castelo |"


def draft(request: Request) -> Script:
    yield Text("Day 1: the castle. ")
    yield Text("Day 2: the river.")


def verify(request: Request) -> Script:
    yield Text("The castle opens at nine.")


async def to_workflow(session: AppSession) -> None:
    session.chat.transcript.focus()
    await session.press("w")
    await session.wait_until(lambda: type(session.app.screen) is WorkflowScreen)
    await session.settled()


async def test_the_workflow_shows_every_step_and_all_of_one(tmp_path: Path) -> None:
    async with open_app(
        tmp_path, draft, verify, cloud=remote_script(TABLE), terms=BUDGET
    ) as session:
        await execute(session, PLAN)
        await to_workflow(session)
        seen = session.screen_text()
        lines = [" ".join(line.split()) for line in seen.splitlines()]
        assert any(re.match(r"── 1 draft three days in \S+ SmolLM2 \S+ \S+ done", x) for x in lines)
        assert any(re.match(r"└──── 3 put .*←1,2 ▎gpt-5-mini", x) for x in lines)
        flat = " ".join(seen.split())
        assert "800 written · $0.002 · translation, difficulty 1 of 5; sees the prompt" in flat
        assert "| 1 | Castelo |" in flat, "the cursor is on the answer's last step"
        await session.press("k")
        await session.wait_until(lambda: "The castle opens at nine." in session.screen_text())
        assert "sees result 1" in session.screen_text()
        await session.press("up", "enter")
        await session.wait_until(lambda: type(session.app.screen) is StepScreen)
        await session.wait_until(
            lambda: "Day 1: the castle. Day 2: the river." in session.screen_text()
        )
        assert "Step 1: Draft three days in Lisbon." in session.screen_text()
        await session.press("enter")
        await session.press("w")
        assert session.app.screen is session.chat


async def test_a_side_panel_from_120_columns_on(tmp_path: Path) -> None:
    async with open_app(
        tmp_path, draft, verify, cloud=remote_script(), terms=BUDGET, size=(140, 40)
    ) as session:
        await execute(session, PLAN)
        await to_workflow(session)
        top = session.screen_text().splitlines()[0]
        assert top.startswith(" baton   Plan it")
        assert "│ Workflow" in top
        assert "Plan it" in session.screen_text().splitlines()[3], (
            "the conversation stays beside it"
        )


@pytest.mark.sampled(0.5)
async def test_the_lines_fit_a_terminal_that_was_resized(tmp_path: Path) -> None:
    async with open_app(tmp_path, draft, verify, cloud=remote_script(), terms=BUDGET) as session:
        await execute(session, PLAN)
        await to_workflow(session)
        for size in ((40, 10), (140, 40), (80, 24)):
            await session.pilot.resize_terminal(*size)
            await session.settled()
        assert "── 1 draft three days in" in session.screen_text()
        await session.pilot.resize_terminal(40, 10)
        await session.settled()
        await session.pilot.resize_terminal(140, 40)
        await session.wait_until(lambda: "1 draft three days in Lisbon " in session.screen_text())
        assert len(re.findall(r"[█·]{3} +done", session.screen_text())) == 3


async def test_it_fills_in_while_the_run_continues(tmp_path: Path) -> None:
    go = asyncio.Event()

    def gated(request: Request) -> Script:
        yield Text("Day 1: ")
        while not go.is_set():
            yield 0.02
        yield Text("the castle.")

    async with open_app(tmp_path, gated, verify, cloud=remote_script(), terms=BUDGET) as session:
        await execute(session, PLAN, wait=False)
        await session.wait_until(lambda: "Day 1:" in session.screen_text())
        await to_workflow(session)
        await session.wait_until(
            lambda: (
                "writing" in session.screen_text() and session.screen_text().count("waits for") == 2
            )
        )
        await session.wait_for_text("It wrote:")
        go.set()
        await session.wait_until(
            lambda: len(re.findall(r"[█·]{3} +done", session.screen_text())) == 3
        )
        await session.wait_for_text("From **far** away.")  # the cursor went along with the work
        await session.wait_for_answer()


async def test_until_the_answer_has_a_word_the_conversation_shows_how_far_it_is(
    tmp_path: Path,
) -> None:
    go = asyncio.Event()

    def gated(request: Request) -> Script:
        while not go.is_set():
            yield 0.02
        yield Text("Once upon a time.")

    async with open_app(tmp_path, draft, gated, cloud=remote_script(), terms=BUDGET) as session:
        await execute(session, replace(PLAN, answer=(3,)), wait=False)
        await session.wait_for_text("waits for 2")
        lines = session.screen_text().splitlines()
        assert "w details" in next(line for line in lines if "3 steps · 1 running" in line)
        assert "done" in next(line for line in lines if "1 draft three days" in line)
        assert "loading" in next(line for line in lines if "2 check dist" in line)
        go.set()
        await session.wait_for_answer()
        assert "waits for" not in session.screen_text()
        assert "▸ 1 SmolLM2 135M" in session.screen_text()
        assert "From far away." in session.screen_text()


async def test_the_newest_line_of_a_running_step_stands_under_it(tmp_path: Path) -> None:
    go = asyncio.Event()

    def gated(request: Request) -> Script:
        yield Text("Day 1: the castle.\nDay 2: the ri")
        while not go.is_set():
            yield 0.02
        yield Text("ver.")

    async with open_app(tmp_path, gated, verify, cloud=remote_script(), terms=BUDGET) as session:
        await execute(session, replace(PLAN, answer=(3,)), wait=False)
        await session.wait_for_text("│ Day 2: the ri▌")
        assert "Day 1: the castle." not in session.screen_text()
        go.set()
        await session.wait_for_answer()
        assert "▌" not in session.screen_text()


async def test_keys_are_quick_while_four_steps_write(tmp_path: Path) -> None:
    go = asyncio.Event()

    def gated(request: Request) -> Script:
        number = 0
        while not go.is_set():
            yield Text(f"word{number} ")
            yield 0.002
            number += 1

    steps = [Step("gpt", f"Write part {n}.", ("prompt",)) for n in range(1, 5)]
    steps.append(Step("gpt", "Join them.", ("1", "2", "3", "4")))
    card = replace(GPT, slots=4)
    async with open_app(tmp_path, cloud=gated, card=card, terms=BUDGET) as session:
        await execute(session, Plan(tuple(steps), (5,)), wait=False)
        await session.wait_until(lambda: session.screen_text().count("writing") >= 4)
        await session.press(*"typed meanwhile")
        assert session.chat.composer.text == "typed meanwhile"
        go.set()
        await session.wait_for_answer()


async def test_the_timeline_opens_and_folds_up(tmp_path: Path) -> None:
    async with open_app(tmp_path, draft, verify, cloud=remote_script(), terms=BUDGET) as session:
        await execute(session, replace(PLAN, answer=(3,)))
        await session.wait_for_text("▸ 1 SmolLM2 135M")
        session.chat.transcript.focus()
        await session.press("t")
        await session.wait_for_text("▾ ── 1 draft three days")
        conversation = session.chat.context.chat.id
        await session.press("t")
        await session.wait_until(lambda: "draft three days" not in session.screen_text())
        await session.press("ctrl+n")
        await session.chat.conversation.open(conversation)
        await session.wait_for_text("▸ 1 SmolLM2 135M")
        session.chat.transcript.focus()
        await session.press("k", "t")
        assert "▾" not in session.screen_text(), "a prompt has no steps"


async def test_the_pages_of_a_workflow(tmp_path: Path) -> None:
    async with open_app(
        tmp_path, draft, verify, cloud=remote_script(TABLE), terms=BUDGET, size=(100, 30)
    ) as session:
        await execute(session, replace(PLAN, answer=(3,)))
        await to_workflow(session)
        await session.press("right")
        await session.wait_for_text("[Compare]", "2 check distances and hours · Qwen 4B")
        assert "| 1 | Castelo |" in session.screen_text()
        assert "The castle opens at nine." in session.screen_text()
        await session.press("[")
        await session.wait_for_text("1 draft three days in Lisbon · SmolLM2 135M")
        assert "Day 1: the castle. Day 2: the river." in session.screen_line()
        await session.press("right")
        await session.wait_for_text(
            "[Sent]", "▎Step 3 sent 1,834 bytes to gpt-5-mini (api.openai.com)."
        )
        await session.press("right")
        await session.wait_for_text("[Why]", "You gave the plan.")
        await session.press("right")
        await session.wait_for_text("[Steps]", "1 draft three days")
        await session.pilot.click("PageTab:last-of-type")
        await session.wait_for_text("[Why]")


async def test_a_step_is_read_while_it_is_written(tmp_path: Path) -> None:
    go = asyncio.Event()

    def gated(request: Request) -> Script:
        yield Text("Day 1: ")
        while not go.is_set():
            yield 0.02
        yield Text("the castle.")

    async with open_app(tmp_path, gated) as session:
        await session.send("hello")
        await session.wait_until(lambda: "Day 1:" in session.screen_text())
        await to_workflow(session)
        await session.press("enter")
        await session.wait_until(lambda: "being written" in session.screen_text())
        go.set()
        await session.wait_until(lambda: "Day 1: the castle." in session.screen_text())
        await session.wait_until(lambda: "18 characters" in session.screen_text().splitlines()[-1])
        await session.wait_until(lambda: "being written" not in session.screen_text())


async def test_a_stored_run_draws_the_same_screen(tmp_path: Path) -> None:
    def broken(request: Request) -> Script:
        return [WorkerError("The worker can't check.", "")]

    plan = Plan((PLAN.steps[0], replace(PLAN.steps[1], optional=True), PLAN.steps[2]), (1, 3))
    async with open_app(
        tmp_path, draft, broken, cloud=remote_script(TABLE), terms=BUDGET
    ) as session:
        await execute(session, plan)
        await to_workflow(session)
        before = session.screen_text()
        await session.press("escape")
        conversation = session.chat.context.chat.id
        await session.press("ctrl+n")
        await session.wait_until(lambda: not session.chat.transcript.turns)
        await session.chat.conversation.open(conversation)
        await session.wait_until(lambda: session.chat.transcript.views[-1].summary.steps)
        await to_workflow(session)
        assert session.screen_text() == before


async def store_run(store: Store, *events: ev.Event, status: TurnStatus = TurnStatus.DONE) -> str:
    """Write a run down as if it had been run; return its conversation."""
    begun = await store.begin(Prompt("Plan it"), NEW, Label.CLOUD)
    await store.append(
        begun.run, ev.Started(begun.run, begun.conversation, begun.prompt, begun.answer)
    )
    for event in events:
        await store.append(begun.run, event)
    await store.write(begun.answer, "", status)
    return begun.conversation


ESC = "\x1b]52;c;AAAA\x07"


async def test_checks_skips_and_revisions_are_shown_and_nothing_is_obeyed(tmp_path: Path) -> None:
    store = Store(None)
    steps = (
        Step("small", f"Draft {ESC}it.", ("prompt", f"file:a{ESC}b.txt"), Need("code")),
        Step("gpt[b]x", "Improve it.", ("1",), Need("code", 4), optional=True),
        Step("small", "Fix what was wrong.", ("1", "2"), Need("code", 2)),
    )
    first, all_of_it = Plan(steps[:2], (2,)), Plan(steps, (3,))
    conversation = await store_run(
        store,
        ev.Routed("plan", f"It has {ESC}[bold]two tasks.", strategy="ultra"),
        ev.Planning("small"),
        ev.Called(
            0, "small", Purpose.PLAN, 30, 90, 0, 0, 0, True, 0.5, 0.1, 0, Finish.STOP, at=0.5
        ),
        ev.Planned(first, False, at=0.5),
        ev.StepStarted(1, "small", at=0.5),
        ev.StepFinished(1, Finish.LENGTH, f"def f(): {ESC}\n  return 17", at=2.6),
        ev.Checked(1, "code runs", ev.Verdict.RIGHT, at=2.7),
        ev.Checked(1, f"su{ESC}ms", ev.Verdict.WRONG, f"17 + 25 is {ESC}42", at=2.7),
        ev.Checked(1, "text", ev.Verdict.UNCHECKED, at=2.7),
        ev.StepSkipped(2, f"Only $0.001 {ESC}is left.", 12_000_000, at=2.8),
        ev.Planned(all_of_it, True, f"The sums were {ESC}wrong.", at=2.9),
        ev.StepStarted(3, "small", at=2.9),
        ev.StepFailed(3, "WorkerError", f"It {ESC}died.", at=3.0),
        ev.Failed("WorkerError", f"It {ESC}died.", "", at=3.0),
        status=TurnStatus.FAILED,
    )
    async with open_app(tmp_path, draft, store=store, size=(100, 40)) as session:
        await session.chat.conversation.open(conversation)
        await session.wait_until(lambda: session.chat.transcript.views[-1].summary.steps)
        await to_workflow(session)
        seen = session.screen_text()
        assert "\x1b" not in seen
        assert "\x07" not in seen
        flat = " ".join(seen.split())
        assert "[bold]two tasks." in flat
        assert "done, cut" in flat
        assert "gpt[b]x" in flat
        assert "failed" in flat
        await session.press("left")
        await session.wait_for_text("[Why]", "Then: The sums were \ufffd")
        assert "SmolLM2 135M planned." in session.screen_line()
        assert "\x1b" not in session.screen_text()
        await session.press("right")
        await session.press("k", "k", "k")
        await session.wait_until(
            lambda: "sees the prompt, file a" in " ".join(session.screen_text().split())
        )
        flat = " ".join(session.screen_text().split())
        assert "code runs: right" in flat
        assert "ms: wrong (17 + 25 is" in flat
        assert "not checked" in flat
        await session.press("j")
        await session.wait_until(lambda: "Only $0.001" in session.screen_text())
        assert "could have cost $0.02" in session.screen_line()
        await session.press("k", "enter")
        await session.wait_until(lambda: "return 17" in session.screen_text())
        assert "\x1b" not in session.screen_text()
    await store.aclose()


async def test_remote_parts_are_marked_and_local_ones_are_quiet(tmp_path: Path) -> None:
    async with open_app(
        tmp_path, draft, verify, cloud=remote_script(TABLE), terms=BUDGET
    ) as session:
        await execute(session, PLAN)
        await session.wait_until(lambda: "gpt-5-mini · $0.002" in session.screen_text())
        seen = session.screen_text()
        assert "Baton · 3 steps · 2 local, 1 cloud · " in seen
        head = next(line for line in seen.splitlines() if "3 steps" in line)
        assert "gpt-5-mini" not in head, "only its own part is its"
        day = next(line for line in seen.splitlines() if "Day 1" in line)
        row = next(line for line in seen.splitlines() if "Castelo" in line)
        assert "▎" not in day
        assert row.startswith(" ▎")
        assert session.chat.transcript.views[-1].source.endswith(TABLE)
        conversation = session.chat.context.chat.id
        await session.press("ctrl+n")
        await session.wait_until(lambda: "Castelo" not in session.screen_text())
        await session.chat.conversation.open(conversation)
        await session.wait_until(lambda: "gpt-5-mini · $0.002" in session.screen_text())
        await session.settled()
        again = session.screen_text().splitlines()
        assert next(line for line in again if "Castelo" in line) == row
        assert next(line for line in again if "3 steps" in line) == head


async def test_parts_that_are_written_side_by_side_stay_in_their_order(tmp_path: Path) -> None:
    go = asyncio.Event()

    def late(request: Request) -> Script:
        yield Text("Early ")
        while not go.is_set():
            yield 0.02
        yield Text("morning.")

    def night(request: Request) -> Script:
        yield RequestSent("api.openai.com", 10)
        yield Text("Late night.")
        yield Usage(10, 10, Finish.STOP)

    plan = Plan(
        (Step("small", "Mornings.", ("prompt",)), Step("gpt", "Nights.", ("prompt",))), (1, 2)
    )
    async with open_app(tmp_path, late, cloud=night, terms=BUDGET) as session:
        await execute(session, plan, wait=False)
        await session.wait_until(
            lambda: "Late night." in session.screen_text() and "Early" in session.screen_text()
        )
        go.set()
        await session.wait_for_answer()
        await session.wait_until(lambda: "Early morning." in session.screen_text())
        seen = session.screen_text()[session.screen_text().index("Early") :]
        assert seen.index("Early morning.") < seen.index("gpt-5-mini") < seen.index("Late night.")
        assert len(session.app.screen.query(AnswerView)) == 2
        assert session.chat.transcript.turns[-1].text == "Early morning.\n\nLate night."
