"""The first start: what is offered, when it is looked for, and that typing always wins."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.errors import WorkerUnavailable
from baton.core.machine import Gpu, Hardware
from baton.core.messages import Chunk, Request, Text
from baton.history import Store
from baton.models.ports import ExternalModel, ModelState
from baton.tui.chat.onboarding import is_put_off, machine_text
from baton.tui.widgets.question_view import ChoiceView
from baton.workers.scripted_worker import ScriptedWorker
from baton.workers.tools import build_tools
from support.app_library import GB, MACHINE, TALKER, new_library_setup, open_app_with_library
from support.app_session import AppSession


def quick(request: Request) -> Iterable[Chunk | BaseException | float]:
    """Write a word every few milliseconds, as the starter model does."""
    for _ in range(40):
        yield Text("word ")
        yield 0.01


def endless(request: Request) -> Iterable[Chunk | BaseException | float]:
    """Be asked for a measurement that takes for ever; answer prompts at once."""
    if request.messages[-1].text == "hello":
        yield Text("Good morning.")
        return
    while True:
        yield Text("word ")
        yield 0.01


async def choose(session: AppSession, label: str) -> None:
    await session.wait_until(lambda: session.chat.onboarding.choices)
    await session.press("tab")
    while session.chat.query("RecentRow:focus"):
        await session.press("tab")
    for _ in range(3):
        if (
            isinstance(session.app.focused, ChoiceView)
            and session.app.focused.choice.label == label
        ):
            break
        await session.press("right")
    await session.press("enter")


async def test_a_new_user_is_shown_what_suits_their_machine(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    async with open_app_with_library(library_setup, tmp_path) as session:
        seen = session.screen_line()
        assert "Models SmolLM2 135M: tiny, good for a first try, often wrong" in seen
        assert (
            "Better for this machine (16 GB, 8 cores, no GPU): Scout 2B to draw plans, Talker 9B "
            "to chat. 7.0 GB, Apache-2.0." in seen
        )
        assert "Download in the background" in seen
        assert "(Tab to get here)" in seen
        assert session.chat.composer.prompt.has_focus, "it takes no focus by itself"
        assert library_setup.model_source.begun == []
        assert library_setup.model_source.looked == [], "nothing connects before the user chose"


async def test_typing_ahead_downloads_nothing(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    async with open_app_with_library(library_setup, tmp_path, settle=False) as session:
        await session.press("enter", "enter", "h", "i", "enter")
        await session.wait_until(lambda: session.chat.transcript.turns)
        await session.wait_for_answer()
        await session.press("enter", "enter")
        await session.settled()
        assert library_setup.model_source.begun == []
        assert list(library_setup.library.models()) == []


async def test_the_download_continues_while_the_starter_answers(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    library_setup.model_source.hold()
    async with open_app_with_library(library_setup, tmp_path) as session:
        await choose(session, "Download in the background")
        await session.wait_until(
            lambda: sorted(library_setup.model_source.begun) == ["scout-2b", "talker-9b"]
        )
        await session.wait_for_text(
            "On the way: Scout 2B and Talker 9B (7.0 GB). Until then SmolLM2 135M"
        )
        assert session.chat.composer.prompt.has_focus
        await session.wait_until(
            lambda: "downloading 2 models" in session.screen_text().splitlines()[-1]
        )
        await session.ask("hello")
        assert session.chat.transcript.turns[-1].worker == "small"
        library_setup.model_source.going.set()
        await session.wait_until(lambda: sorted(library_setup.joined) == ["scout-2b", "talker-9b"])
        await session.wait_for_text("Talker 9B is here and answers from now on.")
        await session.wait_for_text("`baton bench --conductor` measures whether it plans better")
        assert library_setup.conductor == "", "a download conducts only where the user says so"
        assert session.chat.context.worker == "talker-9b"
        await session.ask("hello again")
        assert session.chat.transcript.turns[-1].worker == "talker-9b"


async def test_what_was_chosen_from_does_not_change_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.chat.onboarding.MEASURE_SECONDS", 600.0)
    library_setup = new_library_setup(tmp_path)
    library_setup.model_source.hold()
    async with open_app_with_library(library_setup, tmp_path, endless, settle=False) as session:
        starter = session.services.orchestra.worker("small")
        assert isinstance(starter, ScriptedWorker)
        await session.wait_until(lambda: starter.requests)
        await choose(session, "Download in the background")
        await session.wait_until(lambda: len(library_setup.model_source.begun) == 2)
        await session.settled()
        assert "Download in the background" not in session.screen_text()
        assert not any(library_setup.library.asked)


async def test_later_is_remembered(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    async with open_app_with_library(library_setup, tmp_path) as session:
        await choose(session, "Later")
        await session.wait_until(lambda: is_put_off(library_setup.state))
        await session.wait_until(lambda: "Download in the background" not in session.screen_text())
        await session.ask("hello")
        await session.settled()
        assert "Better for this machine" not in session.screen_text()
    async with open_app_with_library(library_setup, tmp_path) as session:
        assert "Models     SmolLM2 135M" in session.screen_text()
        assert "Better for this machine" not in session.screen_text()
        await session.send("/recommend")
        await session.wait_until(lambda: "Download in the background" in session.screen_text())
        assert library_setup.model_source.begun == []


async def test_choose_leads_to_the_models(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    async with open_app_with_library(library_setup, tmp_path) as session:
        await choose(session, "Choose")
        await session.wait_until(lambda: session.screen_name == "ModelsScreen")
        await session.wait_until(lambda: "recommended" in session.screen_text())
        await session.wait_until(
            lambda: "Enter downloads it: 5.7 GB, Apache-2.0." in session.screen_text()
        )


async def test_the_measurement_is_given_up_for_a_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.chat.onboarding.MEASURE_SECONDS", 600.0)
    library_setup = new_library_setup(tmp_path)
    async with open_app_with_library(library_setup, tmp_path, endless, settle=False) as session:
        starter = session.services.orchestra.worker("small")
        assert isinstance(starter, ScriptedWorker)
        await session.wait_until(lambda: starter.requests)
        await session.send("hello")
        await session.wait_until(lambda: "Good morning." in session.screen_text())
        assert not any(library_setup.library.asked), "no speed was ever known"


async def test_after_the_first_answer_it_is_offered_once_more(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    async with open_app_with_library(library_setup, tmp_path) as session:
        await session.ask("hello")
        await session.wait_until(lambda: session.chat.onboarding.choices)
        assert "Better for this machine" in session.screen_line()
        await session.ask("hello again")
        await session.settled()
        assert "Better for this machine" not in session.screen_line(), "twice is enough"


async def test_the_speed_is_shown_once_it_is_known(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    async with open_app_with_library(library_setup, tmp_path, quick) as session:
        await session.wait_until(lambda: "tokens/s" in session.screen_line())
        assert [speed for speed in library_setup.library.asked if speed]


async def test_a_new_conversation_greets_only_once(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    async with open_app_with_library(library_setup, tmp_path) as session:
        await session.ask("hello")
        await session.press("ctrl+n")
        await session.wait_until(lambda: not session.chat.transcript.turns)
        await session.settled()
        assert "Better for this machine" not in session.screen_text()


async def test_who_has_a_history_and_no_model_is_advised_once(
    tmp_path: Path,
) -> None:
    library_setup, store = new_library_setup(tmp_path), Store(None)
    async with open_app_with_library(library_setup, tmp_path, store=store) as session:
        await session.ask("hello")
    async with open_app_with_library(library_setup, tmp_path, store=store) as session:
        await session.wait_for_text("Better for this machine", "Download in the background")
        await session.ask("hello again")
        await session.settled()
        assert "Better for this machine" not in session.screen_text()
        await session.press("ctrl+n")
        await session.wait_until(lambda: not session.chat.transcript.turns)
    async with open_app_with_library(library_setup, tmp_path, store=store) as session:
        await choose(session, "Later")
        await session.wait_until(lambda: is_put_off(library_setup.state))
    async with open_app_with_library(library_setup, tmp_path, store=store) as session:
        assert "Better for this machine" not in session.screen_text()
    await store.aclose()


# Without a model that came along


async def test_without_any_model_a_set_is_offered_and_the_first_that_comes_answers(
    tmp_path: Path,
) -> None:
    library_setup = new_library_setup(tmp_path)
    library_setup.model_source.hold()
    async with open_app_with_library(library_setup, tmp_path, no_worker=True) as session:
        await session.wait_for_text("Models none here yet; Ctrl+L shows what suits this machine")
        await session.wait_for_text(
            "What suits this machine (16 GB, 8 cores, no GPU): Scout 2B to draw"
        )
        await session.wait_until(lambda: "no model yet" in session.screen_text().splitlines()[-1])
        await choose(session, "Download in the background")
        await session.wait_for_text(
            "On the way: Scout 2B and Talker 9B (7.0 GB). The first that is here answers;"
        )
        library_setup.model_source.going.set()
        await session.wait_until(lambda: sorted(library_setup.joined) == ["scout-2b", "talker-9b"])
        await session.wait_for_text("Talker 9B is here and answers from now on.")
        await session.ask("hello")
        assert session.chat.transcript.turns[-1].worker == "talker-9b"


async def test_a_prompt_without_a_worker_is_kept_and_the_offer_stays(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    library_setup.model_source.hold()
    async with open_app_with_library(library_setup, tmp_path, no_worker=True) as session:
        await session.send("What is a heron?")
        await session.wait_for_text("There is no model yet that could answer; your prompt is kept.")
        assert session.chat.composer.text == "What is a heron?"
        assert session.chat.onboarding.advice is not None
        assert await session.services.store.conversations() == []
        await choose(session, "Download in the background")
        await session.wait_for_text("On the way:")
        await session.press("enter")
        await session.wait_for_text("Enter sends it once one is.")
        library_setup.model_source.going.set()
        await session.wait_for_text("Talker 9B is here and answers from now on.")
        session.chat.composer.prompt.focus()
        await session.press("enter")
        await session.wait_until(lambda: session.chat.transcript.turns)
        await session.wait_for_answer()
        assert session.chat.transcript.turns[0].text == "What is a heron?"
        assert session.chat.composer.text == ""


async def test_a_sum_needs_no_model(tmp_path: Path) -> None:
    async with open_app_with_library(
        new_library_setup(tmp_path), tmp_path, no_worker=True
    ) as session:
        for tool in build_tools().values():
            session.services.orchestra.add(tool)
        await session.ask("2+3")
        assert session.chat.transcript.turns[-1].worker == "calculator"
        await session.wait_for_text("2 + 3 = 5")
        await session.ask("5 km in miles")
        await session.wait_for_text("3.107 miles")
        await session.send("What is a heron?")
        await session.wait_for_text("There is no model yet that could answer; your prompt is kept.")


async def test_the_same_is_not_said_at_each_enter(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    library_setup.model_source.hold()
    note = "There is no model yet that could answer"
    async with open_app_with_library(library_setup, tmp_path, no_worker=True) as session:
        await session.send("What is a heron?")
        await session.wait_for_text(note)
        await session.wait_until(lambda: session.chat.onboarding.choices)
        offer = session.chat.onboarding.advice
        assert offer is not None
        assert not offer.has_class("-pointed")
        await session.press("enter")
        await session.wait_until(lambda: offer.has_class("-pointed"))
        assert "Tab goes to the offer" in session.screen_text().splitlines()[-1]
        await session.press("enter", "enter", "enter")
        await session.wait_until(lambda: session.chat.composer.text == "What is a heron?")
        assert session.screen_line().count(note) == 1
        assert session.chat.composer.prompt.has_focus, "who typed ahead has chosen nothing"
        assert library_setup.model_source.begun == []
        await session.wait_until(lambda: not offer.has_class("-pointed"))

        await choose(session, "Download in the background")
        await session.wait_for_text("On the way:")
        session.chat.composer.prompt.focus()
        await session.press("enter")
        await session.wait_for_text("Enter sends it once one is.")
        assert note not in session.screen_line(), "that isn't so any more"
        await session.press("enter", "enter")
        await session.wait_until(
            lambda: "no model can answer yet" in session.screen_text().splitlines()[-1]
        )
        assert session.screen_line().count("Enter sends it once one is.") == 1
        assert session.chat.composer.text == "What is a heron?"


async def test_what_was_said_just_now_is_not_said_twice(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    async with open_app_with_library(library_setup, tmp_path) as session:
        for _ in range(3):
            await session.send("/model nobody")
            await session.wait_for_text("There is no worker 'nobody'")
        assert session.screen_line().count("There is no worker 'nobody'") == 1
        await session.send("/model somebody")
        await session.wait_for_text("There is no worker 'somebody'")
        await session.send("/model nobody")
        await session.wait_until(
            lambda: session.screen_line().count("There is no worker 'nobody'") == 2
        )


async def test_without_any_model_later_leaves_a_line_that_says_how(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    async with open_app_with_library(library_setup, tmp_path, no_worker=True) as session:
        await choose(session, "Later")
        await session.wait_until(lambda: is_put_off(library_setup.state))
    async with open_app_with_library(library_setup, tmp_path, no_worker=True) as session:
        await session.wait_for_text("Models none here yet; Ctrl+L shows what suits this machine")
        await session.press("ctrl+l")
        await session.wait_until(lambda: session.screen_name == "ModelsScreen")
        await session.wait_for_text("Talker 9B")


async def test_the_only_model_can_be_removed(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    held = library_setup.put(TALKER)
    async with open_app_with_library(library_setup, tmp_path, no_worker=True) as session:
        session.services.add_model(held)
        session.chat.context.follow_default("")
        await session.ask("hello")
        await session.services.remove_worker("talker-9b")
        session.chat.context.follow_default("")
        await session.wait_until(lambda: "no model yet" in session.screen_text().splitlines()[-1])
        await session.send("and now?")
        await session.wait_for_text("There is no model yet that could answer")


async def test_who_has_a_model_is_offered_none(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    library_setup.put(TALKER)
    async with open_app_with_library(library_setup, tmp_path) as session:
        assert "Models     SmolLM2 135M" in session.screen_text()
        assert "Download" not in session.screen_text()


async def test_offline_it_says_how_models_are_carried_over(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    library_setup.library.offline = True
    async with open_app_with_library(library_setup, tmp_path) as session:
        seen = session.screen_line()
        assert "Baton is offline" in seen
        assert "`baton models export DIR`" in seen
        assert "`baton models import DIR`" in seen
        assert "Download in the background" not in seen


async def test_without_a_network_the_offer_stays_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.chat.downloads.GROUP_FAILURES_SECONDS", 0.3)
    library_setup = new_library_setup(tmp_path)
    error = WorkerUnavailable("The hub could not be reached.", "Try again.")
    library_setup.model_source.errors = {"scout-2b": error, "talker-9b": error}
    async with open_app_with_library(library_setup, tmp_path) as session:
        await choose(session, "Download in the background")
        said = "Scout 2B and Talker 9B: download stopped. The hub could not be reached. Try again."
        await session.wait_until(lambda: said in session.screen_line())
        assert "`baton models import DIR` here" in session.screen_line()
        assert library_setup.get("talker-9b").state is ModelState.COMING, "it can be continued"


async def test_what_to_do_without_a_network_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.chat.downloads.GROUP_FAILURES_SECONDS", 0.01)
    library_setup = new_library_setup(tmp_path)
    error = WorkerUnavailable("The hub could not be reached.", "Try again.")
    async with open_app_with_library(library_setup, tmp_path) as session:
        await session.chat.downloads.failed("Scout 2B", error)
        await session.wait_until(
            lambda: "Scout 2B: download stopped. The hub could not be" in session.screen_line()
        )
        await session.chat.downloads.failed("Talker 9B", error)
        await session.wait_until(
            lambda: "Talker 9B: download stopped, too." in session.screen_line()
        )
        await session.chat.downloads.failed("Talker 9B", error)
        await session.wait_until(
            lambda: "Talker 9B: download stopped. The hub could not be" in session.screen_line()
        )


async def test_models_of_other_programs_are_offered_in_a_line(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    library_setup.model_store.others = [
        ExternalModel(
            f"m{n}", tmp_path / f"m{n}.gguf", 4 * GB, "Ollama" if n else "LM\x1b[2J Studio"
        )
        for n in range(4)
    ]
    async with open_app_with_library(library_setup, tmp_path) as session:
        seen = session.screen_line()
        assert "Also found: 1 model of LM\ufffd[2J Studio and 3 of Ollama, 16.0 GB: Choose." in seen


async def test_nothing_is_offered_where_nothing_fits(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    library_setup.library.picks = ()
    async with open_app_with_library(library_setup, tmp_path) as session:
        assert "No model of the catalogue that is better" in session.screen_line()
        assert "Download in the background" not in session.screen_text()


async def test_leaving_while_the_machine_is_looked_at(tmp_path: Path) -> None:
    library_setup = new_library_setup(tmp_path)
    never = asyncio.Event()

    async def look() -> None:
        await never.wait()

    library_setup.library.inspect_machine = look  # type: ignore[assignment]
    async with open_app_with_library(library_setup, tmp_path, settle=False) as session:
        await session.wait_until(lambda: "Looking at this machine" in session.screen_text())
        await session.ask("hello")
        assert "hello" in session.screen_text()


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (MACHINE, "16 GB, 8 cores, no GPU"),
        (replace(MACHINE, memory=GB, cores=1), "1 GB, 1 core, no GPU"),
        (
            replace(MACHINE, gpus=(Gpu("RTX\x1b 4090", 20 * GB, 24 * 2**30),)),
            "16 GB, 8 cores, RTX\ufffd 4090 with 24 GB",
        ),
        (replace(MACHINE, battery=0.5, plugged=False), "16 GB, 8 cores, no GPU, on battery"),
        (replace(MACHINE, battery=0.5), "16 GB, 8 cores, no GPU"),
    ],
)
def test_a_machine_in_words(machine: Hardware, words: str) -> None:
    assert machine_text(machine) == words
