"""Recorded answers are given as their models gave them, and paid for as if they were asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from recordings import Recordings, read_recordings
from replay_worker import ReplayWorker

from baton.core.errors import WorkerError
from baton.core.labels import Label
from baton.core.ledger_types import Scope
from baton.core.messages import Chunk, Finish, Message, Request, RequestSent, Role, Text, Usage
from baton.core.money import Price, Rates
from baton.core.permissions import ANYTHING, RunTerms
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
from baton.money import Ledger
from support.recordings import BIG, OTHER, SMALL, row, write

PRICE = Price(Rates(10**9, 4 * 10**9, 10**9, 10**9))


@pytest.fixture
def recordings(tmp_path: Path) -> Recordings:
    table = [row("q1", 42, ("41", "", "42")), row("q2", 7, ("7", "-", "7"), length=8000)]
    return read_recordings(write(tmp_path / "made.csv", table))


async def answer_chunks(worker: ReplayWorker, text: str, cap: int | None = None) -> list[Chunk]:
    request = Request((Message(Role.USER, text),), max_tokens=cap)
    return [chunk async for chunk in worker.stream(request)]


async def test_a_recording_is_read_and_replayed(recordings: Recordings) -> None:
    asked = recordings.questions[0]
    assert (asked.kind, asked.answer) == ("number", "42")
    assert [recordings.answers[model]["q1"].score for model in (SMALL, OTHER, BIG)] == [0, 0, 1]
    chunks = await answer_chunks(ReplayWorker(recordings, SMALL), asked.prompt)
    as_long = "The answer is 41.".ljust(200)  # the length of an answer is a signal as well
    assert chunks == [Text(as_long, 50), Usage(6, 50, Finish.STOP, context=32768)]


async def test_a_recording_without_an_answer_has_a_text_without_one(recordings: Recordings) -> None:
    for question in recordings.questions:
        chunks = await answer_chunks(ReplayWorker(recordings, OTHER), question.prompt)
        assert isinstance(chunks[0], Text)
        assert not any(letter.isdigit() for letter in chunks[0].text)


async def test_a_cap_cuts_off_the_end_where_the_answer_stands(recordings: Recordings) -> None:
    chunks = await answer_chunks(
        ReplayWorker(recordings, SMALL), recordings.questions[1].prompt, cap=1999
    )
    assert isinstance(chunks[0], Text)
    assert "7" not in chunks[0].text
    assert chunks[-1] == Usage(6, 1999, Finish.LENGTH, context=32768)


async def test_asked_anything_else_it_has_nothing_to_say(recordings: Recordings) -> None:
    with pytest.raises(WorkerError, match="no recorded answer"):
        await answer_chunks(ReplayWorker(recordings, SMALL), "Are you sure?")


async def test_a_remote_worker_is_held_for_sent_and_settled(recordings: Recordings) -> None:
    worker = ReplayWorker(recordings, BIG, PRICE)
    assert worker.card.uses_gateway
    assert not ReplayWorker(recordings, SMALL).card.uses_gateway
    ledger, tallies = Ledger(None), []

    async def record(tally: CallUsage) -> None:
        tallies.append(tally)

    purse = RunBudget(ledger, None, RunTerms({Scope.DAY: 10**9}), ANYTHING, "run", "session")
    asked = Message(Role.USER, recordings.questions[0].prompt)
    request = Request((asked,), label=Label.CLOUD)
    chunks = [chunk async for chunk in MeteredWorker(worker, purse, record).stream(request)]
    assert isinstance(chunks[0], RequestSent)
    (charge,) = await ledger.charges("run")
    assert charge.charged == tallies[0].cost == 6 * 1000 + 50 * 4000  # as recorded, to the nano
    await ledger.aclose()


def test_the_size_is_read_from_the_name(recordings: Recordings) -> None:
    assert ReplayWorker(recordings, SMALL).card.parameters == 10**9
    assert ReplayWorker(recordings, BIG).card.parameters == 0
