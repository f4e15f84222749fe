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
from baton.models.model_types import ExternalModel, ModelState
from baton.tui.recommendation_text import is_put_off, machine_text
from baton.tui.widgets.question_view import ChoiceView
from baton.workers.scripted_worker import ScriptedWorker
from support.app_library import GB, MACHINE, TALKER, shop_in, shopping
from support.app_session import Stage


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


def flat(stage: Stage) -> str:
    """Return what is on the screen as one line, however it is broken."""
    return " ".join(stage.see().split())


async def choose(stage: Stage, label: str) -> None:
    await stage.until(lambda: stage.chat.onboarding.choices)
    await stage.press("tab")
    for _ in range(3):
        if isinstance(stage.app.focused, ChoiceView) and stage.app.focused.choice.label == label:
            break
        await stage.press("right")
    await stage.press("enter")


async def test_a_new_person_is_shown_what_suits_their_machine(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    async with shopping(shop, tmp_path) as stage:
        seen = flat(stage)
        assert "Ready now: SmolLM2 135M" in seen
        assert (
            "Better for this machine (16 GB, 8 cores, no GPU): Scout 2B to draw plans, Talker 9B "
            "to chat. 7.0 GB, Apache-2.0." in seen
        )
        assert "Download in the background" in seen
        assert "(Tab to get here)" in seen
        assert stage.chat.composer.prompt.has_focus, "it takes no focus by itself"
        assert shop.model_source.begun == []
        assert shop.model_source.looked == [], "nothing connects before the person chose"


async def test_typing_ahead_downloads_nothing(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    async with shopping(shop, tmp_path, settle=False) as stage:
        await stage.press("enter", "enter", "h", "i", "enter")
        await stage.until(lambda: stage.chat.transcript.turns)
        await stage.answered()
        await stage.press("enter", "enter")
        await stage.app.workers.wait_for_complete()
        assert shop.model_source.begun == []
        assert list(shop.library.models()) == []


async def test_the_download_goes_on_while_the_starter_answers(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    shop.model_source.hold()
    async with shopping(shop, tmp_path) as stage:
        await choose(stage, "Download in the background")
        await stage.until(lambda: sorted(shop.model_source.begun) == ["scout-2b", "talker-9b"])
        await stage.shows("On the way: Scout 2B and Talker 9B (7.0 GB). Until then SmolLM2 135M")
        assert stage.chat.composer.prompt.has_focus
        await stage.until(lambda: "downloading 2 models" in stage.see().splitlines()[-1])
        await stage.ask("hello")
        assert stage.chat.transcript.turns[-1].worker == "small"
        shop.model_source.going.set()
        await stage.until(lambda: sorted(shop.joined) == ["scout-2b", "talker-9b"])
        await stage.shows("Talker 9B is here and answers from now on.")
        await stage.shows("`baton bench --conductor` measures whether it plans better")
        assert shop.conductor == "", "a download conducts only where the person says so"
        assert stage.chat.context.worker == "talker-9b"
        await stage.ask("hello again")
        assert stage.chat.transcript.turns[-1].worker == "talker-9b"


async def test_what_was_chosen_from_does_not_change_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.chat.onboarding.MEASURE_SECONDS", 600.0)
    shop = shop_in(tmp_path)
    shop.model_source.hold()
    async with shopping(shop, tmp_path, endless, settle=False) as stage:
        starter = stage.services.orchestra.worker("small")
        assert isinstance(starter, ScriptedWorker)
        await stage.until(lambda: starter.requests)
        await choose(stage, "Download in the background")
        await stage.until(lambda: len(shop.model_source.begun) == 2)
        await stage.app.workers.wait_for_complete()
        assert "Download in the background" not in stage.see()
        assert not any(shop.library.asked)


async def test_later_is_remembered(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    async with shopping(shop, tmp_path) as stage:
        await choose(stage, "Later")
        await stage.until(lambda: is_put_off(shop.state))
        await stage.until(lambda: "Download in the background" not in stage.see())
        await stage.ask("hello")
        await stage.app.workers.wait_for_complete()
        assert "Better for this machine" not in stage.see()
    async with shopping(shop, tmp_path) as stage:
        assert "Ready now" in stage.see()
        assert "Better for this machine" not in stage.see()
        await stage.send("/recommend")
        await stage.until(lambda: "Download in the background" in stage.see())
        assert shop.model_source.begun == []


async def test_choose_leads_to_the_models(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    async with shopping(shop, tmp_path) as stage:
        await choose(stage, "Choose")
        await stage.until(lambda: type(stage.app.screen).__name__ == "ModelsScreen")
        await stage.until(lambda: "recommended" in stage.see())
        await stage.until(lambda: "Enter downloads it: 5.7 GB, Apache-2.0." in stage.see())


async def test_the_measurement_is_given_up_for_a_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.chat.onboarding.MEASURE_SECONDS", 600.0)
    shop = shop_in(tmp_path)
    async with shopping(shop, tmp_path, endless, settle=False) as stage:
        starter = stage.services.orchestra.worker("small")
        assert isinstance(starter, ScriptedWorker)
        await stage.until(lambda: starter.requests)
        await stage.send("hello")
        await stage.until(lambda: "Good morning." in stage.see())
        assert not any(shop.library.asked), "no speed was ever known"


async def test_after_the_first_answer_it_is_offered_once_more(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    async with shopping(shop, tmp_path) as stage:
        await stage.ask("hello")
        await stage.until(lambda: stage.chat.onboarding.choices)
        assert "Better for this machine" in flat(stage)
        await stage.ask("hello again")
        await stage.app.workers.wait_for_complete()
        assert "Better for this machine" not in flat(stage), "twice is enough"


async def test_the_speed_is_told_once_it_is_known(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    async with shopping(shop, tmp_path, quick) as stage:
        await stage.until(lambda: "tokens/s" in flat(stage))
        assert [speed for speed in shop.library.asked if speed]


async def test_a_new_conversation_greets_only_once(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    async with shopping(shop, tmp_path) as stage:
        await stage.ask("hello")
        await stage.press("ctrl+n")
        await stage.until(lambda: not stage.chat.transcript.turns)
        await stage.app.workers.wait_for_complete()
        assert "Better for this machine" not in stage.see()


async def test_who_has_a_history_and_no_model_is_advised_once_and_not_greeted(
    tmp_path: Path,
) -> None:
    shop, store = shop_in(tmp_path), Store.open(None)
    async with shopping(shop, tmp_path, store=store) as stage:
        await stage.ask("hello")
    async with shopping(shop, tmp_path, store=store) as stage:
        await stage.shows("Better for this machine", "Download in the background")
        assert "Ready now" not in stage.see()
        await stage.ask("hello again")
        await stage.app.workers.wait_for_complete()
        assert "Better for this machine" not in stage.see()
        await stage.press("ctrl+n")
        await stage.until(lambda: not stage.chat.transcript.turns)
    async with shopping(shop, tmp_path, store=store) as stage:
        await choose(stage, "Later")
        await stage.until(lambda: is_put_off(shop.state))
    async with shopping(shop, tmp_path, store=store) as stage:
        assert "Better for this machine" not in stage.see()
    await store.aclose()


# Without a model that came along


async def test_without_any_model_a_set_is_offered_and_the_first_that_comes_answers(
    tmp_path: Path,
) -> None:
    shop = shop_in(tmp_path)
    shop.model_source.hold()
    async with shopping(shop, tmp_path, no_worker=True) as stage:
        await stage.shows("Nothing answers here yet: this Baton came without a model.")
        await stage.shows("What suits this machine (16 GB, 8 cores, no GPU): Scout 2B to draw")
        await stage.until(lambda: "no model yet" in stage.see().splitlines()[-1])
        assert "Ready now" not in stage.see()
        await choose(stage, "Download in the background")
        await stage.shows(
            "On the way: Scout 2B and Talker 9B (7.0 GB). The first that is here answers;"
        )
        shop.model_source.going.set()
        await stage.until(lambda: sorted(shop.joined) == ["scout-2b", "talker-9b"])
        await stage.shows("Talker 9B is here and answers from now on.")
        await stage.ask("hello")
        assert stage.chat.transcript.turns[-1].worker == "talker-9b"


async def test_a_prompt_without_a_worker_is_kept_and_the_offer_stays(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    shop.model_source.hold()
    async with shopping(shop, tmp_path, no_worker=True) as stage:
        await stage.send("What is a heron?")
        await stage.shows("There is no model yet that could answer; your prompt is kept.")
        assert stage.chat.composer.text == "What is a heron?"
        assert stage.chat.onboarding.advice is not None
        assert await stage.services.store.conversations() == []
        await choose(stage, "Download in the background")
        await stage.shows("On the way:")
        await stage.press("enter")
        await stage.shows("Enter sends it once one is.")
        shop.model_source.going.set()
        await stage.shows("Talker 9B is here and answers from now on.")
        stage.chat.composer.prompt.focus()
        await stage.press("enter")
        await stage.until(lambda: stage.chat.transcript.turns)
        await stage.answered()
        assert stage.chat.transcript.turns[0].text == "What is a heron?"
        assert stage.chat.composer.text == ""


async def test_the_same_is_not_said_at_each_enter(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    shop.model_source.hold()
    note = "There is no model yet that could answer"
    async with shopping(shop, tmp_path, no_worker=True) as stage:
        await stage.send("What is a heron?")
        await stage.shows(note)
        await stage.until(lambda: stage.chat.onboarding.choices)
        offer = stage.chat.onboarding.advice
        assert offer is not None
        assert not offer.has_class("-pointed")
        await stage.press("enter")
        await stage.until(lambda: offer.has_class("-pointed"))
        assert "Tab goes to the offer" in stage.see().splitlines()[-1]
        await stage.press("enter", "enter", "enter")
        await stage.until(lambda: stage.chat.composer.text == "What is a heron?")
        assert flat(stage).count(note) == 1
        assert stage.chat.composer.prompt.has_focus, "who typed ahead has chosen nothing"
        assert shop.model_source.begun == []
        await stage.until(lambda: not offer.has_class("-pointed"))

        await choose(stage, "Download in the background")
        await stage.shows("On the way:")
        stage.chat.composer.prompt.focus()
        await stage.press("enter")
        await stage.shows("Enter sends it once one is.")
        assert note not in flat(stage), "that isn't so any more"
        await stage.press("enter", "enter")
        await stage.until(lambda: "no model can answer yet" in stage.see().splitlines()[-1])
        assert flat(stage).count("Enter sends it once one is.") == 1
        assert stage.chat.composer.text == "What is a heron?"


async def test_what_was_said_just_now_is_not_said_twice(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    async with shopping(shop, tmp_path) as stage:
        for _ in range(3):
            await stage.send("/model nobody")
            await stage.shows("There is no worker 'nobody'")
        assert flat(stage).count("There is no worker 'nobody'") == 1
        await stage.send("/model somebody")
        await stage.shows("There is no worker 'somebody'")
        await stage.send("/model nobody")
        await stage.until(lambda: flat(stage).count("There is no worker 'nobody'") == 2)


async def test_without_any_model_later_leaves_a_line_that_says_how(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    async with shopping(shop, tmp_path, no_worker=True) as stage:
        await choose(stage, "Later")
        await stage.until(lambda: is_put_off(shop.state))
    async with shopping(shop, tmp_path, no_worker=True) as stage:
        await stage.shows("Nothing answers here yet", "/recommend shows this again")
        await stage.press("ctrl+l")
        await stage.until(lambda: type(stage.app.screen).__name__ == "ModelsScreen")
        await stage.shows("Talker 9B")


async def test_the_only_model_can_be_removed(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    held = shop.put(TALKER)
    async with shopping(shop, tmp_path, no_worker=True) as stage:
        stage.services.join(held)
        stage.chat.context.follow_default("")
        await stage.ask("hello")
        await stage.services.leave("talker-9b")
        stage.chat.context.follow_default("")
        await stage.until(lambda: "no model yet" in stage.see().splitlines()[-1])
        await stage.send("and now?")
        await stage.shows("There is no model yet that could answer")


async def test_who_has_a_model_is_offered_none(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    shop.put(TALKER)
    async with shopping(shop, tmp_path) as stage:
        assert "Ready now" in stage.see()
        assert "Download" not in stage.see()


async def test_offline_it_says_how_models_are_carried_over(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    shop.library.offline = True
    async with shopping(shop, tmp_path) as stage:
        seen = flat(stage)
        assert "Baton is offline" in seen
        assert "`baton models export DIR`" in seen
        assert "`baton models import DIR`" in seen
        assert "Download in the background" not in seen


@pytest.mark.sampled(0.5)
async def test_without_a_network_the_offer_stays_and_says_what_to_do(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    error = WorkerUnavailable("The hub could not be reached.", "Try again.")
    shop.model_source.errors = {"scout-2b": error, "talker-9b": error}
    async with shopping(shop, tmp_path) as stage:
        await choose(stage, "Download in the background")
        said = "Scout 2B and Talker 9B didn't come. The hub could not be reached. Try again."
        await stage.until(lambda: said in flat(stage))
        assert "`baton models import DIR` here" in flat(stage)
        assert shop.get("talker-9b").state is ModelState.COMING, "it can be gone on with"


async def test_what_to_do_without_a_network_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.chat.downloads.GROUP_FAILURES_SECONDS", 0.01)
    shop = shop_in(tmp_path)
    error = WorkerUnavailable("The hub could not be reached.", "Try again.")
    async with shopping(shop, tmp_path) as stage:
        await stage.chat.downloads.failed("Scout 2B", error)
        await stage.until(lambda: "Scout 2B didn't come. The hub could not be" in flat(stage))
        await stage.chat.downloads.failed("Talker 9B", error)
        await stage.until(lambda: "Talker 9B didn't come either." in flat(stage))
        await stage.chat.downloads.failed("Talker 9B", error)
        await stage.until(lambda: "Talker 9B didn't come. The hub could not be" in flat(stage))


async def test_models_of_other_programs_are_offered_in_a_line(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    shop.model_store.others = [
        ExternalModel(
            f"m{n}", tmp_path / f"m{n}.gguf", 4 * GB, "Ollama" if n else "LM\x1b[2J Studio"
        )
        for n in range(4)
    ]
    async with shopping(shop, tmp_path) as stage:
        seen = flat(stage)
        assert "Also found: 1 model of LM\ufffd[2J Studio and 3 of Ollama, 16.0 GB: Choose." in seen


async def test_nothing_is_offered_where_nothing_fits(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    shop.library.picks = ()
    async with shopping(shop, tmp_path) as stage:
        assert "No model of the catalogue that is better" in flat(stage)
        assert "Download in the background" not in stage.see()


async def test_leaving_while_the_machine_is_looked_at(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    never = asyncio.Event()

    async def look() -> None:
        await never.wait()

    shop.library.inspect_machine = look  # type: ignore[assignment]
    async with shopping(shop, tmp_path, settle=False) as stage:
        await stage.until(lambda: "Looking at this machine" in stage.see())
        await stage.ask("hello")
        assert "hello" in stage.see()


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
