"""Plans before they are run, the way to an answer, and continuing what was interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from baton.core.hold_decision import shown_rounded_up
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
from baton.core.ports import StepPrice
from baton.presentation.run_story import record_view
from baton.tui.app import BatonApp
from baton.tui.prompt_queue import QueuedPrompt
from baton.tui.screens.help_screen import HelpScreen
from baton.tui.widgets.plan_card import PlanCard
from baton.workers.scripted_worker import Script
from support.app_session import AppSession, execute, open_app, remote_script, saying

Said = Iterable[Chunk | BaseException | float]
BUDGET = {"policy": Policy.BUDGET}
PLAN = Plan(
    (
        Step("small", "Draft three days in Lisbon.", ("prompt",), Need("planning", 2)),
        Step("gpt", "Name three restaurants.", ("prompt",), Need("knowledge", 3)),
        Step("gpt", "Put it into a table in Portuguese.", ("1", "2"), Need("translation")),
    ),
    (3,),
)


SAY = saying("Herons wade.")


async def wait_for_card(session: AppSession) -> None:
    await session.wait_until(lambda: session.app.screen.query(PlanCard))
    await session.wait_until(lambda: "Run this plan?" in session.screen_text())


async def test_plan_shows_the_plan_before_anything_is_called(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY, size=(100, 30)) as session:
        await session.send("/plan Tell me of herons")
        await wait_for_card(session)
        flat = " ".join(session.screen_text().split())
        assert "1 step · 1 local" in flat
        assert (
            "SmolLM2 135M · local · sees the prompt, the conversation · its text is the answer"
            in flat
        )
        assert session.chat.composer.prompt.has_focus, "the card takes no focus by itself"
        await session.press("y", "space", "enter")  # typed ahead: a prompt, no choice
        assert session.app.screen.query(PlanCard)
        assert [p.prompt.text for p in session.chat.queue.waiting] == ["y "]
        await session.press("escape")  # takes the default, which is to stop
        await session.wait_for_answer()
        first = session.chat.transcript.turns[1]
        assert (first.status, first.text) == (TurnStatus.CANCELLED, "")
        assert session.chat.transcript.turns[-1].text == "Herons wade.", "what waited is run"


async def test_plan_alone_is_for_the_next_prompt_only(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY, size=(100, 30)) as session:
        await session.send("/plan")
        await session.wait_until(
            lambda: "local first · plan first" in session.screen_text().splitlines()[0]
        )
        await session.send("Tell me of herons")
        await wait_for_card(session)
        assert "plan first" not in session.screen_text().splitlines()[0]
        await session.press("tab", "right", "enter")
        await session.wait_for_answer()
        assert "Herons wade." in session.screen_text()
        await session.ask("And of storks?")
        assert len(session.chat.transcript.turns) == 4


async def test_a_plan_of_one_step_that_was_left_says_so_and_is_not_work(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.send("/plan Tell me of herons")
        await wait_for_card(session)
        await session.press("tab")
        keys = session.screen_text().splitlines()[-1]
        assert "Enter choose" in keys
        assert "Esc leave it" in keys
        assert "copy" not in keys, "who chooses has no message in mind"
        await session.press("escape")
        await session.wait_for_answer()
        assert "This plan was not run. r runs it." in session.screen_text()
        assert "not run" in session.screen_text().splitlines()[-1]
        assert " s" not in next(
            row for row in session.screen_text().splitlines() if "Baton " in row[:8]
        )
        await session.press("escape", "r")
        await session.wait_until(lambda: "Herons wade." in session.screen_text())
        assert "This plan was not run" not in session.screen_text()


async def test_a_prompt_of_several_lines_after_plan(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.send("/plan Tell me of herons\nand of storks")
        await wait_for_card(session)
        await session.press("escape")
        await session.wait_for_answer()
        assert session.chat.transcript.turns[0].text == "Tell me of herons\nand of storks"


async def preview_plan(session: AppSession, plan: Plan) -> None:
    """Have a plan of several steps shown, as a conductor would draw it."""
    pending = QueuedPrompt(session.chat.context.chat, Prompt("Plan it"), plan=plan, preview=True)
    session.chat.queue.send(pending)
    await wait_for_card(session)


async def test_the_card_names_workers_costs_and_what_each_sees(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY, cloud=remote_script(), size=(100, 40)) as session:
        await preview_plan(session, PLAN)
        seen = session.screen_text()
        flat = " ".join(seen.split())
        assert "3 steps · 1 local, 2 cloud" in flat
        assert "1 Draft three days in Lisbon." in flat
        assert "SmolLM2 135M · local · sees the prompt" in flat
        assert "about $0.002, at most $" in flat
        await session.press("tab", "down")
        await session.wait_for_text("gpt-5-mini · cloud · at most $0.005 · sees the prompt")
        await session.press("down")
        await session.wait_for_text("gpt-5-mini · cloud · at most about $", "result 1, result 2")
        await session.press("enter")
        await session.wait_for_answer()
        assert session.asked == []
        seen = " ".join(session.screen_text().split())
        assert "Plan of 3 steps kept, not run. c runs it; so does /continue." in seen
        assert "Stopped here" not in seen


async def test_the_plan_shows_what_the_gate_then_holds(tmp_path: Path) -> None:
    brief = Step("gpt", "Where to eat?", ("prompt",), Need("extraction"))
    plan = Plan((brief, Step("gpt", "Draft it.", ("prompt",)), PLAN.steps[0]), (2,))
    async with open_app(
        tmp_path, SAY, cloud=remote_script(), terms=BUDGET, size=(100, 40)
    ) as session:
        await preview_plan(session, plan)
        (card,) = session.app.screen.query(PlanCard)
        costs = [price.most for price in card.question.prices]
        assert costs[2] == 0
        await session.press("tab")
        for cost in costs[:2]:
            await session.wait_for_text(
                f"gpt-5-mini · cloud · at most {shown_rounded_up(cost or 0)} · sees"
            )
            await session.press("down")
        assert costs[0] != costs[1], "the text of a brief step has another cap"
        await session.press("right", "enter")
        await session.wait_for_answer()
        assert len(session.asked) == 2
        charges = await session.services.ledger.charges()
        assert sorted(charge.held for charge in charges) == sorted(c for c in costs if c)


async def test_a_plan_that_was_left_is_executed_later(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY, cloud=remote_script(), terms=BUDGET) as session:
        await preview_plan(session, PLAN)
        await session.press("escape")
        await session.wait_for_answer()
        await session.send("/continue")
        await session.wait_until(lambda: "3 steps · 1 local, 2 cloud" in session.screen_text())
        await session.wait_for_answer()
        assert "From far away." in session.screen_text()


async def test_an_interrupted_run_is_continued(tmp_path: Path) -> None:
    calls: list[str] = []

    def first(request: Request) -> Said:
        calls.append("first")
        yield Text("Castle, river.")

    def slow(request: Request) -> Said:
        calls.append("cloud")
        yield RequestSent("api.openai.com", 9)
        yield Text("Two ")
        if calls.count("cloud") == 1:
            yield 30.0
        yield Text("restaurants.")
        yield Usage(9, 9, Finish.STOP)

    plan = Plan((PLAN.steps[0], Step("gpt", "Where to eat?", ("1",))), (2,))
    async with open_app(tmp_path, first, cloud=slow, terms=BUDGET, size=(100, 30)) as session:
        await execute(session, plan, wait=False)
        await session.wait_until(lambda: "Two" in session.screen_text())
        await session.press("escape")
        await session.wait_for_answer()
        flat = " ".join(session.screen_text().split())
        assert "Stopped here. Interrupted after step 1 of 2. c continues from there; so" in flat
        await session.press("tab")
        await session.wait_until(lambda: "c continue" in session.screen_text().splitlines()[-1])
        await session.press("c")
        await session.wait_until(lambda: "Two restaurants." in session.screen_text())
        await session.wait_for_answer()
        assert calls == ["first", "cloud", "cloud"], "what was done is not done again"
        await session.wait_until(lambda: "2 of 2" in session.screen_text())
        await session.press("w")
        await session.wait_until(lambda: "kept from before" in session.screen_text())
        await session.press("escape", "c")
        assert session.chat.composer.text == "c", "there is nothing to go on with here"


async def test_nothing_is_continued_where_nothing_was_interrupted(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.ask("hello")
        await session.send("/continue")
        await session.wait_until(lambda: "was not interrupted" in session.screen_text())


async def test_why_says_what_baton_why_says(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY) as session:
        await session.send("/why")
        await session.wait_until(lambda: "there is no message here yet" in session.screen_text())
        await session.ask("hello")
        await session.send("/why")
        await session.wait_for_text(
            "It stayed on this machine (strategy hybrid):", "SmolLM2 135M (local) answered."
        )


async def test_modes_and_strategies_are_chosen_and_shown(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY, cloud=remote_script(), size=(100, 40)) as session:
        await session.send("/mode ultra")
        await session.wait_until(
            lambda: "local first · ultra" in session.screen_text().splitlines()[0]
        )
        await session.send("/mode fast")
        await session.wait_until(lambda: "There is no mode 'fast'." in session.screen_text())
        await session.send("/mode local")
        await session.wait_until(lambda: "local only" in session.screen_text().splitlines()[0])
        assert session.services.orchestra.terms.mode == "local"
        await session.send("/mode auto")
        await session.wait_until(lambda: "local first" in session.screen_text().splitlines()[0])
        await session.send("/strategy single")
        await session.wait_until(
            lambda: "local first · single" in session.screen_text().splitlines()[0]
        )
        await session.ask("hello")
        run = session.chat.transcript.turns[-1].run
        assert run is not None
        (routed,) = [
            event
            for event in (await session.services.store.runs.get(run)).events
            if type(event).__name__ == "Routed"
        ]
        assert getattr(routed, "strategy", "") == "single"
        await session.send("/strategy wrong")
        await session.wait_until(lambda: "There is no strategy 'wrong'." in session.screen_text())
        assert "/strategy alone lists them." in session.screen_text()
        await session.send("/strategy single1")
        await session.wait_until(lambda: "Did you mean single?" in session.screen_text())
        await session.send("/strategy auto")
        await session.wait_until(lambda: "single" not in session.screen_text().splitlines()[0])


async def test_local_mode_stops_what_could_still_leave(tmp_path: Path) -> None:
    def sorry(request: Request) -> Said:
        yield Text("I'm sorry, but I can't help with that.")

    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await session.send("hello")
        await session.wait_until(lambda: "Ask gpt-5-mini?" in session.screen_text())
        await session.chat.input.set_mode("local")
        await session.wait_for_answer()
        assert session.asked == []
        assert "Ask gpt-5-mini?" not in session.screen_text()


async def test_all_of_it_is_in_the_help(tmp_path: Path) -> None:
    async with open_app(tmp_path, SAY, size=(120, 220)) as session:
        await session.press("f1")
        await session.wait_until(lambda: type(session.app.screen) is HelpScreen)
        await session.wait_until(lambda: "/strategy NAME" in session.screen_text())
        for words in ("/plan TEXT", "/why", "/continue", "/mode", "continue an interrupted"):
            assert words in session.screen_text()


WRONG = """\
[[steps]]
task = "Draft two days in Lisbon."
sees = ["prompt", 3]
"""
EDITED = """\
[[steps]]
task = "Draft two days in Lisbon."
worker = "small"
sees = ["prompt"]
"""


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Be an editor that saves what is in `next-N.toml`, the first time N = 1."""
    script = tmp_path / "editor.sh"
    script.write_text(
        '#!/bin/sh\ncd "$(dirname "$0")"\n'
        'n=$(ls seen-* 2>/dev/null | wc -l); n=$((n + 1))\ncp "$1" "seen-$n.toml"\n'
        'cp "next-$n.toml" "$1"\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(script))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr(BatonApp, "suspend", lambda self: contextlib.nullcontext())
    return tmp_path


async def test_a_plan_is_edited_and_corrected_and_then_executed(
    tmp_path: Path, editor: Path
) -> None:
    (editor / "next-1.toml").write_text(WRONG)
    (editor / "next-2.toml").write_text(EDITED)
    async with open_app(tmp_path, SAY, cloud=remote_script(), size=(100, 30)) as session:
        await preview_plan(session, PLAN)
        await session.press("tab", "right", "right", "enter")
        await session.wait_until(lambda: "Continue editing" in session.screen_text())
        flat = " ".join(session.screen_text().replace("▌", "").split())
        assert "This plan can't be run." in flat
        assert "can't see step 3" in flat
        await session.press("tab", "right", "enter")
        await session.wait_until(lambda: "1 step · 1 local" in session.screen_text())
        assert len(session.chat.transcript.turns) == 2, "nothing is run before it is confirmed"
        assert session.chat.transcript.turns[1].text == ""
        await session.press("tab", "right", "enter")
        await session.wait_until(lambda: "Herons wade." in session.screen_text())
        await session.wait_for_answer()
        assert (editor / "seen-2.toml").read_text() == WRONG.rstrip("\n"), "nothing typed is lost"
        first = (editor / "seen-1.toml").read_text()
        assert "Put it into a table in Portuguese." in first
        assert session.chat.transcript.turns[0].text == "Plan it"
        run = record_view(
            await session.services.store.runs.get(session.chat.transcript.turns[1].run or "")
        )
        assert run.plan is not None
        assert [step.subtask for step in run.plan.steps] == ["Draft two days in Lisbon."]
        assert session.asked == []


async def test_an_edited_plan_may_be_left(tmp_path: Path, editor: Path) -> None:
    (editor / "next-1.toml").write_text("steps = 1")
    async with open_app(tmp_path, SAY, cloud=remote_script()) as session:
        await preview_plan(session, PLAN)
        await session.press("tab", "right", "right", "enter")
        await session.wait_until(lambda: "Continue editing" in session.screen_text())
        await session.press("escape")
        await session.wait_until(lambda: "Run this plan?" in session.screen_text())
        await session.press("escape")
        await session.wait_for_answer()
        assert len(session.chat.transcript.turns) == 2
        assert "kept, not run" in " ".join(session.screen_text().split())


ABORTS = {
    "unchanged": "true",
    "error": "sh -c 'echo x >> \"$0\"; exit 1'",
    "killed": "sh -c 'echo x >> \"$0\"; kill -9 $$'",
    "empty": "sh -c 'echo > \"$0\"'",
    "deleted": "rm",
    "missing": "/no/such/editor",
    "only saved": "touch",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ABORTS.values(), ids=ABORTS.keys())
async def test_an_editor_left_without_a_change_executes_and_spends_nothing(
    tmp_path: Path, editor: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("EDITOR", command)
    async with open_app(
        tmp_path, SAY, cloud=remote_script(), terms=BUDGET, size=(100, 30)
    ) as session:
        await preview_plan(session, PLAN)
        (card,) = session.app.screen.query(PlanCard)
        await session.press("tab", "right", "right", "enter")
        await session.wait_until(
            lambda: not card.is_attached and session.app.screen.query(PlanCard)
        )
        await wait_for_card(session)
        assert "3 steps · 1 local, 2 cloud" in session.screen_text()
        await session.press("escape")
        await session.wait_for_answer()
        assert [turn.text for turn in session.chat.transcript.turns] == ["Plan it", ""]
        assert session.asked == []


async def test_an_edited_plan_with_a_paid_step_waits_for_its_confirmation(
    tmp_path: Path, editor: Path
) -> None:
    (editor / "next-1.toml").write_text(EDITED.replace("small", "gpt"))
    async with open_app(
        tmp_path, SAY, cloud=remote_script(), terms=BUDGET, size=(100, 30)
    ) as session:
        await preview_plan(session, PLAN)
        await session.press("tab", "right", "right", "enter")
        await session.wait_until(lambda: "1 step · 1 cloud" in session.screen_text())
        assert "gpt-5-mini · cloud · at most $" in session.screen_line()
        assert session.asked == []
        await session.press("escape")
        await session.wait_for_answer()
        assert session.asked == []


async def test_what_waits_is_executed_after_the_edited_plan(tmp_path: Path, editor: Path) -> None:
    (editor / "next-1.toml").write_text(EDITED)
    async with open_app(tmp_path, SAY, cloud=remote_script()) as session:
        await preview_plan(session, PLAN)
        await session.send("and then")
        await session.press("tab", "right", "right", "enter")
        await session.wait_until(lambda: "1 step · 1 local" in session.screen_text())
        await session.press("tab", "right", "enter")
        await session.wait_for_answer()
        texts = [turn.text for turn in session.chat.transcript.turns]
        assert texts == ["Plan it", "Herons wade.", "and then", "Herons wade."]


async def test_a_workflow_of_ones_own_is_a_strategy(tmp_path: Path) -> None:
    from baton.core.planning.templates import parse_workflow

    drawn = parse_workflow(EDITED, "mine")
    async with open_app(tmp_path, SAY, size=(100, 30)) as session:
        session.services.orchestra.configure(templates=lambda: {"mine": drawn})
        await session.send("/strategy")
        await session.wait_for_text("> auto", "As the mode says.")
        await session.press("up")
        await session.wait_for_text("> mine")
        await session.press("escape")
        await session.send("/strategy mine")
        await session.wait_until(
            lambda: "local first · mine" in session.screen_text().splitlines()[0]
        )
        await session.ask("Two days, please")
        run = record_view(
            await session.services.store.runs.get(session.chat.transcript.turns[1].run or "")
        )
        assert run.routed is not None
        assert run.routed.strategy == "mine"
        assert run.plan is not None
        assert run.plan.steps[0].subtask == "Draft two days in Lisbon."


DRAWN = {
    "steps": [
        {"kind": "writing", "difficulty": 2, "sees": ["prompt"], "uses": [], "check": False,
         "task": "Write about herons."},
        {"kind": "translation", "difficulty": 2, "sees": [], "uses": [1], "check": False,
         "task": "Translate result 1 into Portuguese."},
    ],
    "answer": [1, 2],
}  # fmt: skip


def conductor_script(go: asyncio.Event) -> Script:
    """Return the script of a worker that draws a plan once it may, and does its steps."""

    def script(request: Request) -> Said:
        if request.purpose is Purpose.PLAN and "accept" not in request.messages[0].text:
            while not go.is_set():
                yield 0.02
            yield Text(json.dumps(DRAWN))
        elif request.shape is not None:
            yield Text('{"accept": true, "steps": [], "answer": []}')
        else:
            yield Text("Garças." if "Translate" in request.messages[-1].text else "Herons.")

    return script


async def test_a_drawn_plan_is_shown_as_it_is_drawn_asked_about_and_executed(
    tmp_path: Path,
) -> None:
    go = asyncio.Event()
    async with open_app(tmp_path, SAY, conductor_script(go), size=(100, 30)) as session:
        await session.send("/strategy conductor")
        await session.send("/plan Write about herons, then put it into Portuguese.")
        await session.wait_until(
            lambda: "Qwen 4B · planning" in session.screen_text().splitlines()[-1]
        )
        session.chat.transcript.focus()
        await session.press("w")
        await session.wait_until(lambda: "Qwen 4B is planning." in session.screen_text())
        await session.press("escape")
        go.set()
        await wait_for_card(session)
        seen = session.screen_text()
        assert "2 steps · 2 local" in seen
        assert "2 translate result 1 into Portuguese" in seen
        session.chat.composer.prompt.focus()
        await session.press("tab", "right", "enter")
        await session.wait_for_answer()
        await session.wait_until(lambda: "Garças." in session.screen_text())
        await session.wait_for_text("2 steps · 2 local")  # in the heading now
        assert session.chat.transcript.turns[-1].status is TurnStatus.DONE
        session.chat.transcript.focus()
        await session.press("w", "left")
        await session.wait_until(lambda: "Qwen 4B planned." in session.screen_text())


def shown_plan(session: AppSession) -> Plan:
    """Return the plan as it stands on the card."""
    (card,) = session.app.screen.query(PlanCard)
    return card.plan


async def test_a_step_is_dropped_given_away_and_reworded_on_the_card(tmp_path: Path) -> None:
    async with open_app(
        tmp_path, SAY, cloud=remote_script(), terms=BUDGET, size=(100, 40)
    ) as session:
        await preview_plan(session, PLAN)
        await session.press("tab", "down", "d")
        await session.wait_until(lambda: "2 steps · 1 local, 1 cloud" in session.screen_text())
        plan = shown_plan(session)
        assert [step.access for step in plan.steps] == [("prompt",), ("1", "prompt")]
        await session.press("w")
        await session.wait_for_text("▎gpt-5-mini cloud about $")
        await session.press("up", "enter")
        await session.wait_until(
            lambda: "2 steps · 2 local · costs nothing" in session.screen_text()
        )
        await session.press("e")
        await session.press("backspace", *"!", "enter")
        await session.wait_for_text("2 Put it into a table in Portuguese!")
        assert session.asked == []
        await session.press("right", "enter")
        await session.wait_until(lambda: "Herons wade." in session.screen_text())
        await session.wait_for_answer()
        run = record_view(
            await session.services.store.runs.get(session.chat.transcript.turns[1].run or "")
        )
        assert run.plan is not None
        assert [(step.worker, step.subtask) for step in run.plan.steps] == [
            ("small", "Draft three days in Lisbon."),
            ("small", "Put it into a table in Portuguese!"),
        ]
        assert session.asked == [], "the cloud step was given to a worker here"


async def test_a_changed_plan_that_is_left_executes_nothing(tmp_path: Path) -> None:
    async with open_app(
        tmp_path, SAY, cloud=remote_script(), terms=BUDGET, size=(100, 40)
    ) as session:
        await preview_plan(session, PLAN)
        await session.press("tab", "d")
        await session.wait_until(lambda: "2 steps · 2 cloud" in session.screen_text())
        await session.press("escape")
        await session.wait_for_answer()
        assert session.asked == []
        assert [turn.text for turn in session.chat.transcript.turns] == ["Plan it", ""]


async def test_a_step_is_left_as_it_is(tmp_path: Path) -> None:
    async with open_app(
        tmp_path, SAY, cloud=remote_script(), terms=BUDGET, size=(100, 40)
    ) as session:
        await preview_plan(session, PLAN)
        for keys in (("w", "down", "escape"), ("e", "x", "escape"), ("e", "ctrl+a", "escape")):
            (card,) = session.app.screen.query(PlanCard)
            card.query("ChoiceView").first().focus()
            await session.press(keys[0])
            await session.wait_until(partial(card.query, "WorkerMenu, StepEditor"))
            await session.press(*keys[1:])
            await session.wait_until(lambda: not session.app.screen.query("WorkerMenu, StepEditor"))
            assert session.app.screen.query(PlanCard), "Esc leaves the step, not the plan"
        assert shown_plan(session) == PLAN
        await session.press("escape")
        await session.wait_for_answer()


async def test_nothing_is_confirmed_while_a_change_is_not_shown_yet(tmp_path: Path) -> None:
    async with open_app(
        tmp_path, SAY, cloud=remote_script(), terms=BUDGET, size=(100, 40)
    ) as session:
        await preview_plan(session, PLAN)
        (card,) = session.app.screen.query(PlanCard)
        go, price_plan = asyncio.Event(), card.question.price_plan
        assert price_plan is not None

        async def slow(plan: Plan) -> tuple[StepPrice, ...]:
            await go.wait()
            return await price_plan(plan)

        card.question = replace(card.question, price_plan=slow)
        await session.press("tab", "right", "d", "enter")
        assert session.app.screen.query(PlanCard)
        go.set()
        await session.wait_until(lambda: "2 steps · 2 cloud" in session.screen_text())
        await session.press("enter")
        await session.wait_for_answer()
        assert len(session.asked) == 2
