"""What is free and on this machine comes first, and what can't work is never offered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from baton.core import events as ev
from baton.core.errors import WorkerUnavailable
from baton.core.labels import Label
from baton.core.messages import Card
from baton.core.money import FREE
from baton.core.permissions import PromptLimits, RunTerms
from baton.core.planning.skill_estimates import stronger
from baton.presentation.answers import destination_text, summarise_answer
from support.scripted_plans import (
    OrchestraSession,
    StubWorker,
    answer_with,
    cloud,
    fail_with,
    open_orchestra,
)

STARTER = Card("small", "local", "SmolLM2 135M", parameters=135_000_000)
LAB = Card("lab", "server", "Qwen 7B", Label.LAN, price=FREE, model="qwen2.5:7b")
OTHER = replace(LAB, id="other", name="Llama 3B", model="llama3.2:3b")
UNCONFIRMED = replace(LAB, is_confirmed=False)
PLAIN, TALK = "What is the capital of Portugal?", "Hello there"
STRATEGIES = ("hybrid", "majority", "smoothie", "cascade", "route", "moa", "ultra")
DOWN = WorkerUnavailable("Qwen 7B can't be reached.", "Start it.")


class FaultyWorker(StubWorker):
    """A worker that knows that it can't work."""

    async def fault(self) -> str:
        return "There is no key."


def stub(card: Card, text: str) -> StubWorker:
    return StubWorker(card, answer_with(text))


def called(session: OrchestraSession) -> set[str]:
    return {name for name, worker in session.workers.items() if worker.requests}


def offers(session: OrchestraSession) -> list[str]:
    return [event.worker for event in session.events if isinstance(event, ev.Offered)]


async def test_what_the_starter_likely_gets_wrong_goes_to_a_free_worker_here_unasked() -> None:
    workers = stub(STARTER, "Madrid"), stub(OTHER, "Porto"), stub(LAB, "Lisbon"), stub(cloud(), "X")
    async with open_orchestra(*workers) as session:
        view = await session.execute(None, PLAIN)
        assert (view.answer, called(session)) == ("Lisbon", {"lab"})
        assert view.routed is not None
        assert "costs nothing" in view.routed.why
        assert not session.person.asked
        assert not offers(session)
        view = await session.execute(None, TALK)
        assert view.answer == "Madrid", "small talk stays with the starter"


@pytest.mark.parametrize("way", STRATEGIES)
async def test_every_strategy_takes_a_server_here_for_a_local_worker(way: str) -> None:
    workers = stub(STARTER, "It is 8."), stub(LAB, "It is 7."), stub(OTHER, "It is 7.")
    async with open_orchestra(*workers, ceiling=0) as session:
        view = await session.execute(
            None, "How many apples are 3 and 4?", PromptLimits(strategy=way)
        )
        assert "lab" in called(session)
        assert not session.person.asked
        if way not in ("cascade", "ultra"):
            assert "7" in view.answer


@pytest.mark.parametrize("mode", ["auto", "local"])
async def test_a_server_that_nobody_confirmed_is_asked_about_first(mode: str) -> None:
    async with open_orchestra(stub(STARTER, ""), stub(UNCONFIRMED, "Lisbon"), mode=mode) as session:
        view = await session.execute(None, PLAIN)
        assert [question.offer.card.id for question in session.person.asked if question.offer] == [
            "lab"
        ]
        assert (view.answer, called(session)) == ("", {"small"})


async def test_private_texts_go_to_a_server_here_only_where_that_is_written() -> None:
    private = PromptLimits(label=Label.LOCAL)
    for privacy, asked in ((Label.LAN, {"small"}), (Label.LOCAL, {"lab"})):
        workers = stub(STARTER, "Madrid"), stub(replace(LAB, privacy=privacy), "Lisbon")
        async with open_orchestra(*workers) as session:
            await session.execute(None, PLAIN, private)
            assert called(session) == asked


async def test_offline_a_server_here_still_answers() -> None:
    async with open_orchestra(stub(STARTER, "x"), stub(LAB, "Lisbon"), offline=True) as session:
        assert (await session.execute(None, PLAIN)).answer == "Lisbon"


async def test_the_next_worker_that_can_work_is_offered_instead_of_one_that_can_not() -> None:
    broken = FaultyWorker(cloud("gpt"), answer_with("X"))
    async with open_orchestra(
        stub(STARTER, ""), broken, stub(cloud("mock"), "Lisbon"), choice="once"
    ) as session:
        view = await session.execute(None, PLAIN)
        assert (view.answer, offers(session)) == ("Lisbon", ["mock"])
        assert not broken.requests


async def test_a_substitute_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton.core.run.step_executor.RETRY_SECONDS", 0.0)
    async with open_orchestra(StubWorker(LAB, fail_with(DOWN)), stub(OTHER, "Lisbon")) as session:
        view = await session.execute(None, PLAIN)
        assert view.answer == "Lisbon"
        assert view.substitutions == ("Qwen 7B can't be reached. other answers instead.",)
        notes = summarise_answer(view, {card.id: card for card in (LAB, OTHER)}).notes
        assert "other answers instead." in notes[0]


async def test_the_offer_names_worker_provider_and_address_beside_a_draft() -> None:
    far = replace(cloud("gpt"), name="gpt-5-mini", address="api.openai.com")
    async with open_orchestra(stub(STARTER, "I can't."), stub(far, "Lisbon")) as session:
        await session.execute(None, PLAIN)
        [question] = session.person.asked
        assert question.offer is not None
        assert destination_text(question.offer) == (
            "Leaves this machine for api.openai.com (worker gpt, openai):"
        )
        assert question.offer.draft == "I can't."


async def test_the_draft_stays_as_the_version_before_the_answer_from_the_cloud() -> None:
    async with open_orchestra(
        stub(STARTER, "I can't."), stub(cloud("gpt"), "Lisbon"), choice="once"
    ) as session:
        view = await session.execute(None, PLAIN)
        assert (view.answer, view.steps[0].text) == ("Lisbon", "I can't.")
        run = await session.record()
        first, second = await session.store.siblings(run.answer)
        assert second == run.answer
        draft = (await session.store.thread(run.conversation, first))[-1]
        assert (draft.text, draft.worker) == ("I can't.", "small")
        assert (await session.store.thread(run.conversation))[-1].text == "Lisbon"


async def test_a_draft_that_stays_is_not_a_second_version() -> None:
    async with open_orchestra(stub(STARTER, "I can't."), stub(cloud("gpt"), "Lisbon")) as session:
        await session.execute(None, PLAIN)
        run = await session.record()
        assert await session.store.siblings(run.answer) == (run.answer,)


def test_the_stronger_worker_is_the_free_one_here_before_any_for_money() -> None:
    roster, terms = (STARTER, cloud("gpt"), OTHER, LAB), RunTerms()
    assert stronger(STARTER, roster, Label.CLOUD, terms) == LAB
    assert stronger(LAB, roster, Label.CLOUD, terms) == cloud("gpt")
    assert stronger(STARTER, roster, Label.LOCAL, terms) is None
    peer = replace(STARTER, id="peer", parameters=360_000_000)
    assert stronger(STARTER, (STARTER, peer, cloud("gpt")), Label.CLOUD, terms) == cloud("gpt")
    assert stronger(STARTER, (STARTER, peer), Label.CLOUD, terms) == peer
