"""Recorded answers are given as their models gave them, and paid for as if they were asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from baton.bench.datasets import read_dataset
from baton.bench.replay_worker import ReplayWorker
from baton.bench.strategy_bench import BenchSetting, PlayedQuestion, ResultsFile
from baton.core.errors import ConfigError, WorkerError
from baton.core.labels import Label
from baton.core.ledger_types import Scope
from baton.core.messages import Chunk, Finish, Message, Request, RequestSent, Role, Text, Usage
from baton.core.money import Price, Rates
from baton.core.permissions import ANYTHING, RunTerms
from baton.core.plan.answer_grades import Dataset
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
from baton.money import Ledger
from support.recordings import BIG, OTHER, SMALL, row, rows, write

PRICE = Price(Rates(10**9, 4 * 10**9, 10**9, 10**9))


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    table = [row("q1", 42, ("41", "", "42")), row("q2", 7, ("7", "-", "7"), length=8000)]
    return read_dataset(write(tmp_path / "made.csv", table))


async def answer_chunks(worker: ReplayWorker, text: str, cap: int | None = None) -> list[Chunk]:
    request = Request((Message(Role.USER, text),), max_tokens=cap)
    return [chunk async for chunk in worker.stream(request)]


async def test_a_recording_is_read_and_replayed(dataset: Dataset) -> None:
    asked = dataset.questions[0]
    assert (asked.kind, asked.answer) == ("number", "42")
    assert [dataset.recorded[model]["q1"].score for model in (SMALL, OTHER, BIG)] == [0, 0, 1]
    chunks = await answer_chunks(ReplayWorker(dataset, SMALL), asked.prompt)
    as_long = "The answer is 41.".ljust(200)  # the length of an answer is a signal as well
    assert chunks == [Text(as_long, 50), Usage(6, 50, Finish.STOP, context=32768)]


async def test_a_recording_without_an_answer_has_a_text_without_one(dataset: Dataset) -> None:
    for question in dataset.questions:
        chunks = await answer_chunks(ReplayWorker(dataset, OTHER), question.prompt)
        assert isinstance(chunks[0], Text)
        assert not any(letter.isdigit() for letter in chunks[0].text)


async def test_a_cap_cuts_off_the_end_where_the_answer_stands(dataset: Dataset) -> None:
    chunks = await answer_chunks(
        ReplayWorker(dataset, SMALL), dataset.questions[1].prompt, cap=1999
    )
    assert isinstance(chunks[0], Text)
    assert "7" not in chunks[0].text
    assert chunks[-1] == Usage(6, 1999, Finish.LENGTH, context=32768)


async def test_asked_anything_else_it_has_nothing_to_say(dataset: Dataset) -> None:
    with pytest.raises(WorkerError, match="no recorded answer"):
        await answer_chunks(ReplayWorker(dataset, SMALL), "Are you sure?")


async def test_a_remote_worker_is_held_for_sent_and_settled(dataset: Dataset) -> None:
    worker = ReplayWorker(dataset, BIG, PRICE)
    assert worker.card.uses_gateway
    assert not ReplayWorker(dataset, SMALL).card.uses_gateway
    ledger, tallies = Ledger.open(None), []

    async def record(tally: CallUsage) -> None:
        tallies.append(tally)

    purse = RunBudget(ledger, None, RunTerms({Scope.DAY: 10**9}), ANYTHING, "run", "session")
    asked = Message(Role.USER, dataset.questions[0].prompt)
    request = Request((asked,), label=Label.CLOUD)
    chunks = [chunk async for chunk in MeteredWorker(worker, purse, record).stream(request)]
    assert isinstance(chunks[0], RequestSent)
    (charge,) = await ledger.charges("run")
    assert charge.charged == tallies[0].cost == 6 * 1000 + 50 * 4000  # as recorded, to the nano
    await ledger.aclose()


def test_the_size_is_read_from_the_name(dataset: Dataset) -> None:
    assert ReplayWorker(dataset, SMALL).card.parameters == 10**9
    assert ReplayWorker(dataset, BIG).card.parameters == 0


def test_packed_or_not_it_is_the_same_data(tmp_path: Path) -> None:
    table = rows(20)
    plain = read_dataset(write(tmp_path / "a.csv", table))
    packed = read_dataset(write(tmp_path / "a.csv.gz", table))
    assert plain.questions == packed.questions
    assert plain.recorded == packed.recorded


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.jsonl", b"", "holds no question"),
        ("a.jsonl", b'{"id": 1, "question": "?", "answer": 1, "kind": "guess"}', "no kind"),
        ("a.jsonl", b'{"id": 1, "question": "?", "answer": "x", "kind": "number"}', "no number"),
        ("a.jsonl", b'{"id": 1, "question": "?", "answer": "12", "kind": "choice"}', "no letter"),
        ("a.jsonl", b'{"id": 1, "question": "?", "answer": "(", "kind": "regex"}', "regular"),
        (
            "a.jsonl",
            b'{"id": 1, "question": "?", "answer": ["1", "("], "kind": "parts"}',
            "regular",
        ),
        ("a.jsonl", b'{"id": 1, "question": "?", "answer": [], "kind": "parts"}', "missing"),
        ("a.jsonl", b'{"id": 1, "question": "?", "answer": "1", "kind": "parts"}', "a list"),
        ("a.jsonl", b'{"id": 1, "question": "?", "answer": ["1"], "kind": "regex"}', "a list"),
        ("a.jsonl", b'{"id": 1, "question": "?", "kind": "python"}', "needs tests"),
        ("a.jsonl", b'{"id": 1, "question": "?", "kind": "number"}', "missing"),
        ("a.jsonl", b'\n{"id": 1, "question": "?", "reply": "1"}', "Line 2"),
        ("a.jsonl", b'{"id":1,"question":"?","answer":"1"}\n' * 2, "two questions '1'"),
        ("a.jsonl", b"\xff\xfe", "UTF-8"),
        ("a.csv", b"id,text\n1,2\n", "no recorded answers"),
        ("a.csv", b"id,text,m:x\n1,2,maybe\n", "Line 2"),
        ("a.csv", b"id,text,m:x\n1,2\n", "Line 2"),
        ("a.csv.gz", b"not packed", "unpacked"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, name: str, content: bytes, why: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=why):
        read_dataset(tmp_path / name)


def test_the_same_text_is_asked_once(tmp_path: Path) -> None:
    twice = row("q1", 42, ("41", "42", "42"))
    table = [twice, {**twice, "id": "again", f"p:{SMALL}": "43"}, *rows(3)]
    dataset = read_dataset(write(tmp_path / "made.csv", table))
    assert [question.id for question in dataset.questions] == ["q1", "q0", "q2"]
    assert dataset.recorded[SMALL]["q1"].answer == "41"


SETTING = BenchSetting("made.csv", "0123", "single", ("a", "b"))


def test_results_are_found_again_even_after_a_broken_end(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "results.jsonl")
    assert results.played_before(SETTING) == {}
    one, two = (
        PlayedQuestion("q1", 1.0, 7, 50, 2, 0.1, 1),
        PlayedQuestion("q2", None, note="no sandbox"),
    )
    results.append(SETTING, one)
    with results.path.open("ab") as file:
        file.write(results.path.read_bytes()[:40])  # a write that was broken off
    assert results.played_before(SETTING) == {"q1": one}
    results.append(SETTING, two)
    assert results.played_before(SETTING) == {"q1": one, "q2": two}
    other = BenchSetting("made.csv", "0123", "single", ("b", "a"))
    assert results.played_before(other) == {}


def test_a_changed_dataset_is_noticed(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "results.jsonl")
    results.append(SETTING, PlayedQuestion("q1", 1.0))
    with pytest.raises(ConfigError, match=r"made\.csv has changed"):
        results.played_before(BenchSetting("made.csv", "4567", "hybrid", ("a",)))


@pytest.mark.parametrize(
    "content",
    [b"my notes", b"my notes\n", b'{"setting": 1}\n', b"{}\n", b'{"setting":{"dataset":"\xff"}}\n'],
)
def test_another_owners_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="no result of a bench"):
        ResultsFile(file).played_before(SETTING)
    assert file.read_bytes() == content
