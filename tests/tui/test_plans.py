"""Plans before they are played, the way to an answer, and going on with what was interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable
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
from baton.core.plan.plan import Need, Plan, Step
from baton.tui.app import BatonApp
from baton.tui.prompt_queue import QueuedPrompt, record_view
from baton.tui.screens.help_screen import HelpScreen
from baton.tui.widgets.question_view import PlanCard
from baton.workers.scripted_worker import Script
from support.app_session import Stage, play, remote_script, staged

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


def say(request: Request) -> Said:
    yield Text("Herons wade.")


async def asked(stage: Stage) -> None:
    await stage.until(lambda: stage.app.screen.query(PlanCard))
    await stage.until(lambda: "Play this plan?" in stage.see())


async def test_plan_shows_the_plan_before_anything_is_called(tmp_path: Path) -> None:
    async with staged(tmp_path, say, size=(100, 30)) as stage:
        await stage.send("/plan Tell me of herons")
        await asked(stage)
        flat = " ".join(stage.see().split())
        assert "1 step · 1 local" in flat
        assert (
            "SmolLM2 135M · local · sees the prompt, the conversation · its text is the answer"
            in flat
        )
        assert stage.chat.composer.prompt.has_focus, "the card takes no focus by itself"
        await stage.press("y", "space", "enter")  # typed ahead: a prompt, no choice
        assert stage.app.screen.query(PlanCard)
        assert [p.prompt.text for p in stage.chat.queue.waiting] == ["y "]
        await stage.press("escape")  # takes the default, which is to stop
        await stage.answered()
        first = stage.chat.transcript.turns[1]
        assert (first.status, first.text) == (TurnStatus.CANCELLED, "")
        assert stage.chat.transcript.turns[-1].text == "Herons wade.", "what waited is played"


async def test_plan_alone_is_for_the_next_prompt_only(tmp_path: Path) -> None:
    async with staged(tmp_path, say, size=(100, 30)) as stage:
        await stage.send("/plan")
        await stage.until(lambda: "local first · plan first" in stage.see().splitlines()[0])
        await stage.send("Tell me of herons")
        await asked(stage)
        assert "plan first" not in stage.see().splitlines()[0]
        await stage.press("tab", "right", "enter")
        await stage.answered()
        assert "Herons wade." in stage.see()
        await stage.ask("And of storks?")
        assert len(stage.chat.transcript.turns) == 4


async def test_a_plan_of_one_step_that_was_left_says_so_and_is_no_work(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.send("/plan Tell me of herons")
        await asked(stage)
        await stage.press("tab")
        keys = stage.see().splitlines()[-1]
        assert "Enter choose" in keys
        assert "Esc leave it" in keys
        assert "copy" not in keys, "who chooses has no message in mind"
        await stage.press("escape")
        await stage.answered()
        assert "Nothing of this was played. r plays it." in stage.see()
        assert "not played" in stage.see().splitlines()[-1]
        assert " s" not in next(row for row in stage.see().splitlines() if "Baton " in row[:8])
        await stage.press("escape", "r")
        await stage.until(lambda: "Herons wade." in stage.see())
        assert "Nothing of this was played" not in stage.see()


async def test_a_prompt_of_several_lines_after_plan(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.send("/plan Tell me of herons\nand of storks")
        await asked(stage)
        await stage.press("escape")
        await stage.answered()
        assert stage.chat.transcript.turns[0].text == "Tell me of herons\nand of storks"


async def previewed(stage: Stage, plan: Plan) -> None:
    """Have a plan of several steps shown, as a conductor would draw it."""
    pending = QueuedPrompt(stage.chat.context.chat, Prompt("Plan it"), plan=plan, preview=True)
    stage.chat.queue.send(pending)
    await asked(stage)


async def test_the_card_names_workers_costs_and_what_each_sees(tmp_path: Path) -> None:
    async with staged(tmp_path, say, cloud=remote_script(), size=(100, 40)) as stage:
        await previewed(stage, PLAN)
        seen = stage.see()
        flat = " ".join(seen.split())
        assert "3 steps · 1 local, 2 cloud" in flat
        assert "1 Draft three days in Lisbon." in flat
        assert "gpt-5-mini · cloud · at most $0.005 · sees the prompt" in flat
        assert "gpt-5-mini · cloud · at most about $" in flat
        await stage.press("tab", "enter")
        await stage.answered()
        assert stage.asked == []
        seen = " ".join(stage.see().split())
        assert "Its plan of 3 steps was not played. c plays it; so does /continue." in seen
        assert "Stopped here" not in seen


async def test_the_plan_shows_what_the_gate_then_holds(tmp_path: Path) -> None:
    brief = Step("gpt", "Where to eat?", ("prompt",), Need("extraction"))
    plan = Plan((brief, Step("gpt", "Draft it.", ("prompt",)), PLAN.steps[0]), (2,))
    async with staged(tmp_path, say, cloud=remote_script(), terms=BUDGET, size=(100, 40)) as stage:
        await previewed(stage, plan)
        (card,) = stage.app.screen.query(PlanCard)
        costs = card.question.costs
        assert costs[2] == 0
        for cost in costs[:2]:
            assert (
                f"gpt-5-mini · cloud · at most {shown_rounded_up(cost or 0)} · sees" in stage.flat()
            )
        assert costs[0] != costs[1], "the text of a brief step has another cap"
        await stage.press("tab", "right", "enter")
        await stage.answered()
        assert len(stage.asked) == 2
        charges = await stage.services.ledger.charges()
        assert sorted(charge.held for charge in charges) == sorted(c for c in costs if c)


async def test_a_plan_that_was_left_is_played_later(tmp_path: Path) -> None:
    async with staged(tmp_path, say, cloud=remote_script(), terms=BUDGET) as stage:
        await previewed(stage, PLAN)
        await stage.press("escape")
        await stage.answered()
        await stage.send("/continue")
        await stage.until(lambda: "3 steps · 1 local, 2 cloud" in stage.see())
        await stage.answered()
        assert "From far away." in stage.see()


async def test_an_interrupted_run_is_gone_on_with(tmp_path: Path) -> None:
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
    async with staged(tmp_path, first, cloud=slow, terms=BUDGET, size=(100, 30)) as stage:
        await play(stage, plan, wait=False)
        await stage.until(lambda: "Two" in stage.see())
        await stage.press("escape")
        await stage.answered()
        flat = " ".join(stage.see().split())
        assert "Stopped here. Interrupted after step 1 of 2. c goes on from there; so" in flat
        await stage.press("tab")
        await stage.until(lambda: "c go on" in stage.see().splitlines()[-1])
        await stage.press("c")
        await stage.until(lambda: "Two restaurants." in stage.see())
        await stage.answered()
        assert calls == ["first", "cloud", "cloud"], "what was done is not done again"
        await stage.until(lambda: "2 of 2" in stage.see())
        await stage.press("w")
        await stage.until(lambda: "kept from before" in stage.see())
        await stage.press("escape", "c")
        assert stage.chat.composer.text == "c", "there is nothing to go on with here"


async def test_nothing_is_gone_on_with_where_nothing_was_interrupted(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.ask("hello")
        await stage.send("/continue")
        await stage.until(lambda: "was not interrupted" in stage.see())


async def test_why_is_one_sentence(tmp_path: Path) -> None:
    async with staged(tmp_path, say) as stage:
        await stage.send("/why")
        await stage.until(lambda: "there is no message here yet" in stage.see())
        await stage.ask("hello")
        await stage.send("/why")
        await stage.until(
            lambda: "Answered on this machine, by SmolLM2 135M (hybrid)" in stage.see()
        )


async def test_modes_and_strategies_are_chosen_and_shown(tmp_path: Path) -> None:
    async with staged(tmp_path, say, cloud=remote_script(), size=(100, 40)) as stage:
        await stage.send("/mode ultra")
        await stage.until(lambda: "local first · ultra" in stage.see().splitlines()[0])
        await stage.send("/mode fast")
        await stage.until(lambda: "There is no mode 'fast'." in stage.see())
        await stage.send("/mode local")
        await stage.until(lambda: "local only" in stage.see().splitlines()[0])
        assert stage.services.orchestra.terms.mode == "local"
        await stage.send("/mode auto")
        await stage.until(lambda: "local first" in stage.see().splitlines()[0])
        await stage.send("/strategy single")
        await stage.until(lambda: "local first · single" in stage.see().splitlines()[0])
        await stage.ask("hello")
        run = stage.chat.transcript.turns[-1].run
        assert run is not None
        (routed,) = [
            event
            for event in (await stage.services.store.runs.get(run)).events
            if type(event).__name__ == "Routed"
        ]
        assert getattr(routed, "strategy", "") == "single"
        await stage.send("/strategy wrong")
        await stage.until(lambda: "There is no strategy 'wrong'." in stage.see())
        assert "/strategy alone lists them." in stage.see()
        await stage.send("/strategy single1")
        await stage.until(lambda: "Did you mean single?" in stage.see())
        await stage.send("/strategy auto")
        await stage.until(lambda: "single" not in stage.see().splitlines()[0])


async def test_local_mode_stops_what_could_still_leave(tmp_path: Path) -> None:
    def sorry(request: Request) -> Said:
        yield Text("I'm sorry, but I can't help with that.")

    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await stage.send("hello")
        await stage.until(lambda: "Ask gpt-5-mini?" in stage.see())
        await stage.chat.plan.set_mode("local")
        await stage.answered()
        assert stage.asked == []
        assert "Ask gpt-5-mini?" not in stage.see()


async def test_all_of_it_is_in_the_help(tmp_path: Path) -> None:
    async with staged(tmp_path, say, size=(120, 130)) as stage:
        await stage.press("f1")
        await stage.until(lambda: type(stage.app.screen) is HelpScreen)
        await stage.until(lambda: "/strategy NAME" in stage.see())
        for words in ("/plan TEXT", "/why", "/continue", "/mode", "go on with an interrupted"):
            assert words in stage.see()


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
    """Be an editor that saves what lies in `next-N.toml`, the first time N = 1."""
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


async def test_a_plan_is_edited_and_mended_and_then_played(tmp_path: Path, editor: Path) -> None:
    (editor / "next-1.toml").write_text(WRONG)
    (editor / "next-2.toml").write_text(EDITED)
    async with staged(tmp_path, say, cloud=remote_script(), size=(100, 30)) as stage:
        await previewed(stage, PLAN)
        await stage.press("tab", "right", "right", "enter")
        await stage.until(lambda: "Go on editing" in stage.see())
        flat = " ".join(stage.see().replace("▌", "").split())
        assert "This plan can't be played." in flat
        assert "can't see step 3" in flat
        await stage.press("tab", "right", "enter")
        await stage.until(lambda: "1 step · 1 local" in stage.see())
        assert len(stage.chat.transcript.turns) == 2, "nothing is played before it is confirmed"
        assert stage.chat.transcript.turns[1].text == ""
        await stage.press("tab", "right", "enter")
        await stage.until(lambda: "Herons wade." in stage.see())
        await stage.answered()
        assert (editor / "seen-2.toml").read_text() == WRONG.rstrip("\n"), "nothing typed is lost"
        first = (editor / "seen-1.toml").read_text()
        assert "Put it into a table in Portuguese." in first
        assert stage.chat.transcript.turns[0].text == "Plan it"
        run = record_view(
            await stage.services.store.runs.get(stage.chat.transcript.turns[1].run or "")
        )
        assert run.plan is not None
        assert [step.subtask for step in run.plan.steps] == ["Draft two days in Lisbon."]
        assert stage.asked == []


async def test_an_edited_plan_may_be_left(tmp_path: Path, editor: Path) -> None:
    (editor / "next-1.toml").write_text("steps = 1")
    async with staged(tmp_path, say, cloud=remote_script()) as stage:
        await previewed(stage, PLAN)
        await stage.press("tab", "right", "right", "enter")
        await stage.until(lambda: "Go on editing" in stage.see())
        await stage.press("escape")
        await stage.until(lambda: "Play this plan?" in stage.see())
        await stage.press("escape")
        await stage.answered()
        assert len(stage.chat.transcript.turns) == 2
        assert "was not played" in " ".join(stage.see().split())


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
async def test_an_editor_left_without_a_change_plays_and_spends_nothing(
    tmp_path: Path, editor: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("EDITOR", command)
    async with staged(tmp_path, say, cloud=remote_script(), terms=BUDGET, size=(100, 30)) as stage:
        await previewed(stage, PLAN)
        (card,) = stage.app.screen.query(PlanCard)
        await stage.press("tab", "right", "right", "enter")
        await stage.until(lambda: not card.is_attached and stage.app.screen.query(PlanCard))
        await asked(stage)
        assert "3 steps · 1 local, 2 cloud" in stage.see()
        await stage.press("escape")
        await stage.answered()
        assert [turn.text for turn in stage.chat.transcript.turns] == ["Plan it", ""]
        assert stage.asked == []


async def test_an_edited_plan_with_a_paid_step_waits_for_its_confirmation(
    tmp_path: Path, editor: Path
) -> None:
    (editor / "next-1.toml").write_text(EDITED.replace("small", "gpt"))
    async with staged(tmp_path, say, cloud=remote_script(), terms=BUDGET, size=(100, 30)) as stage:
        await previewed(stage, PLAN)
        await stage.press("tab", "right", "right", "enter")
        await stage.until(lambda: "1 step · 1 cloud" in stage.see())
        assert "gpt-5-mini · cloud · at most $" in stage.flat()
        assert stage.asked == []
        await stage.press("escape")
        await stage.answered()
        assert stage.asked == []


async def test_what_waits_is_played_after_the_edited_plan(tmp_path: Path, editor: Path) -> None:
    (editor / "next-1.toml").write_text(EDITED)
    async with staged(tmp_path, say, cloud=remote_script()) as stage:
        await previewed(stage, PLAN)
        await stage.send("and then")
        await stage.press("tab", "right", "right", "enter")
        await stage.until(lambda: "1 step · 1 local" in stage.see())
        await stage.press("tab", "right", "enter")
        await stage.answered()
        texts = [turn.text for turn in stage.chat.transcript.turns]
        assert texts == ["Plan it", "Herons wade.", "and then", "Herons wade."]


async def test_a_workflow_of_ones_own_is_a_strategy(tmp_path: Path) -> None:
    from baton.core.plan.templates import parse_workflow

    drawn = parse_workflow(EDITED, "mine")
    async with staged(tmp_path, say, size=(100, 30)) as stage:
        stage.services.orchestra.configure(templates=lambda: {"mine": drawn})
        await stage.send("/strategy")
        await stage.until(lambda: "Workflows: mine." in stage.see())
        await stage.send("/strategy mine")
        await stage.until(lambda: "local first · mine" in stage.see().splitlines()[0])
        await stage.ask("Two days, please")
        run = record_view(
            await stage.services.store.runs.get(stage.chat.transcript.turns[1].run or "")
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


def conducting(go: asyncio.Event) -> Script:
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


async def test_a_drawn_plan_is_shown_as_it_is_drawn_asked_about_and_played(tmp_path: Path) -> None:
    go = asyncio.Event()
    async with staged(tmp_path, say, conducting(go), size=(100, 30)) as stage:
        await stage.send("/strategy conductor")
        await stage.send("/plan Write about herons, then put it into Portuguese.")
        await stage.until(lambda: "large · planning" in stage.see().splitlines()[-1])
        stage.chat.transcript.focus()
        await stage.press("w")
        await stage.until(lambda: "Qwen 4B is planning." in stage.see())
        await stage.press("escape")
        go.set()
        await asked(stage)
        seen = stage.see()
        assert "2 steps · 2 local" in seen
        assert "2  Translate result 1 into Portuguese." in seen
        stage.chat.composer.prompt.focus()
        await stage.press("tab", "right", "enter")
        await stage.answered()
        await stage.until(lambda: "Garças." in stage.see())
        await stage.shows("2 steps · 2 local")  # in the heading now
        assert stage.chat.transcript.turns[-1].status is TurnStatus.DONE
        stage.chat.transcript.focus()
        await stage.press("w")
        await stage.until(lambda: "Planned and checked by Qwen 4B" in stage.see())
