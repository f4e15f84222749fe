"""What a user did with answers: kept with them, gone with them, and what it says of workers."""

from __future__ import annotations

import copy
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from baton.core import events as ev
from baton.core.errors import ConfigError
from baton.core.history_types import AnswerSignals, Signal
from baton.core.labels import Label
from baton.core.messages import Finish, Prompt, TurnStatus
from baton.core.plan_types import Need, Plan, Step, direct_step
from baton.core.ports import ConversationPosition, RecordedRun
from baton.history import Store
from baton.history.feedback_store import answers_with_feedback
from baton.platform import sqlite
from support.store_conversations import ask


@pytest_asyncio.fixture
async def store() -> AsyncIterator[Store]:
    opened = Store(None)
    yield opened
    await opened.aclose()


async def record_replaced_run(
    store: Store, draft: str, answer: str, sent: bool = True
) -> RecordedRun:
    """Record a run whose local draft a remote worker replaced."""
    begun = await store.begin(Prompt("How many?"), ConversationPosition(), Label.CLOUD)
    ids = (begun.run, begun.conversation, begun.prompt, begun.answer)
    first = Plan((direct_step("small", (), Need("math", 3)),), (1,))
    grown = first.with_steps([direct_step("gpt", (), Need("math", 3))], (2,))
    events: list[ev.Event] = [
        ev.Started(*ids),
        ev.Planned(first, False, at=0.1),
        ev.StepStarted(1, "small", at=0.1),
        ev.StepFinished(1, Finish.STOP, draft, at=0.5),
        ev.Planned(grown, True, "It may be wrong.", at=0.6),
        ev.StepStarted(2, "gpt", at=0.6),
        *([ev.Sent(2, "gpt", "api.openai.com", 900, at=0.7)] if sent else []),
        ev.StepFinished(2, Finish.STOP, answer, at=1.5),
        ev.Finished(at=1.6),
    ]
    for event in events:
        await store.append(begun.run, event)
    await store.write(begun.answer, answer, TurnStatus.DONE, "gpt")
    return begun


async def answered(store: Store) -> list[AnswerSignals]:
    """Return the answers of which anything is known, newest first."""
    return await store.feedback._database.read(answers_with_feedback, 5_000)


@pytest.mark.parametrize("at", [1e300, -1e300, 1e12, -1.0])
async def test_a_time_that_cannot_be_is_not_a_time_at_which_help_was_weighed(
    store: Store, at: float
) -> None:
    for when in (0.5, at):  # an import may say anything
        begun = await ask(store)
        await store.append(begun.run, ev.Weighed("gpt", 0.3, 0.1, 1000, True, at=when))
    [known] = await store.runs.weighings()
    assert abs(known.at - time.time()) < 3600


async def test_private_answers_count_for_no_skill(store: Store) -> None:
    for label in Label:
        begun = await ask(store, label=label)
        step = direct_step("small", (), Need("math", 3))
        await store.append(begun.run, ev.Planned(Plan((step,), (1,)), at=0.1))
        await store.append(begun.run, ev.StepFinished(1, Finish.STOP, at=0.5))
        await store.feedback.rate(begun.answer, Signal.GOOD)
    assert [one.kind for one in await store.feedback.outcomes()] == ["math"]
    [cloud] = [c for c in await store.conversations() if c.label is Label.CLOUD]
    await store.relabel(cloud.id, Label.LOCAL)
    assert await store.feedback.outcomes() == []


async def test_a_prompt_for_which_help_was_weighed_twice_counts_once(store: Store) -> None:
    runs = [(await ask(store)).run for _ in range(2)]
    for run in runs:
        await store.append(run, ev.Weighed("gpt", 0.3, 0.5, 1000, False, at=0.1))
        await store.append(run, ev.Weighed("gpt", 0.9, 0.5, 1000, True, at=2.0))
        await store.append(run, ev.Weighed("lab", 0.2, 0.0, 0, True, at=3.0))  # it costs nothing
    assert [(one.gain, one.ok) for one in await store.runs.weighings()] == [(0.9, True)] * 2


async def test_all_that_a_user_can_do_is_kept_exported_and_imported(store: Store) -> None:
    answer, person = (await ask(store)).answer, set(Signal) - {Signal.AGREED, Signal.DIFFERED}
    for signal in person - {Signal.BAD}:
        await store.feedback.add_signal(answer, signal)
    other = (await ask(store)).answer
    await store.feedback.add_signal(other, Signal.BAD)
    document = await store.archive.export()
    other_store = Store(None)
    await other_store.archive.import_(document)
    found = await other_store.feedback.signals([answer, other])
    assert found == await store.feedback.signals([answer, other])
    assert {*found[answer], *found[other]} == person
    await other_store.aclose()


async def test_an_import_that_calls_an_answer_good_and_bad_is_refused(store: Store) -> None:
    await store.feedback.rate((await ask(store)).answer, Signal.GOOD)
    document = await store.archive.export()
    for turn in document["conversations"][0]["turns"]:
        if "signals" in turn:
            turn["signals"]["bad"] = 1.0
    other_store = Store(None)
    with pytest.raises(ConfigError, match="both good and bad"):
        await other_store.archive.import_(document)
    assert await other_store.conversations() == []
    await other_store.aclose()


async def test_a_thumb_can_be_changed_and_taken_back(store: Store) -> None:
    answer = (await ask(store)).answer
    await store.feedback.rate(answer, Signal.GOOD)
    assert list((await store.feedback.signals([answer]))[answer]) == [Signal.GOOD]
    await store.feedback.rate(answer, Signal.BAD)
    await store.feedback.add_signal(answer, Signal.COPIED)
    await store.feedback.add_signal(answer, Signal.COPIED)
    assert set((await store.feedback.signals([answer]))[answer]) == {Signal.BAD, Signal.COPIED}
    await store.feedback.rate(answer, None)
    assert list((await store.feedback.signals([answer]))[answer]) == [Signal.COPIED]


async def test_only_answers_can_be_judged(store: Store) -> None:
    begun = await ask(store)
    for turn in (begun.prompt, "nothing"):
        with pytest.raises(ConfigError, match="no answer"):
            await store.feedback.rate(turn, Signal.GOOD)
        with pytest.raises(ConfigError, match="no answer"):
            await store.feedback.add_signal(turn, Signal.COPIED)
    assert await store.feedback.signals([begun.prompt, "nothing"]) == {}


async def test_what_was_done_goes_with_the_conversation(tmp_path: Path) -> None:
    path = tmp_path / "baton.db"
    store = Store(path)
    begun, other = await ask(store), await ask(store)
    await store.feedback.rate(begun.answer, Signal.GOOD)
    await store.feedback.rate(other.answer, Signal.BAD)
    await store.hide(begun.conversation)
    assert [known.turn for known in await answered(store)] == [other.answer]
    await store.purge(begun.conversation)
    await store.aclose()
    connection = sqlite.connect(path)
    assert [row["turn"] for row in connection.execute("SELECT turn FROM signals")] == [other.answer]
    connection.close()


async def test_it_travels_with_an_export_but_is_not_another_word(store: Store) -> None:
    begun = await ask(store)
    before = await store.archive.export()
    assert "signals" not in before["conversations"][0]["turns"][1], "older Batons read it too"
    await store.feedback.rate(begun.answer, Signal.BAD)
    await store.feedback.add_signal(begun.answer, Signal.COPIED)
    after = await store.archive.export()
    assert (await store.archive.import_(before)).skipped == 1, "it is the same conversation"
    assert set((await store.feedback.signals([begun.answer]))[begun.answer]) == {"bad", "copied"}
    await store.purge(begun.conversation)
    assert (await store.archive.import_(after)).conversations == 1
    assert await store.archive.export() == after

    wrong = copy.deepcopy(after)
    wrong["conversations"][0]["turns"][0]["signals"] = {"good": 1.0}
    with pytest.raises(ConfigError, match="isn't an answer"):
        await store.archive.import_(wrong)
    wrong["conversations"][0]["turns"][0]["signals"] = {"agreed": 1.0}
    with pytest.raises(ConfigError, match="isn't an export"):
        await store.archive.import_(wrong)


async def test_an_export_comes_in_under_new_ids_with_what_was_done(store: Store) -> None:
    begun = await ask(store)
    await store.feedback.rate(begun.answer, Signal.GOOD)
    exported = await store.archive.export()
    exported["conversations"][0]["turns"][1]["text"] = "Lyon."
    assert (await store.archive.import_(exported)).conversations == 1
    assert [list(known.signals) for known in await answered(store)] == [[Signal.GOOD]] * 2


async def test_the_strongest_counts_and_of_those_the_last(store: Store) -> None:
    plan = Plan((direct_step("small", (), Need("code", 2)),), (1,))
    begun = await store.begin(Prompt("Write it"), ConversationPosition(), Label.CLOUD)
    await store.append(begun.run, ev.Planned(plan, at=0.1))
    await store.append(begun.run, ev.StepStarted(1, "small", at=0.1))
    await store.append(begun.run, ev.StepFinished(1, Finish.STOP, "", at=0.2))
    await store.append(begun.run, ev.Finished(at=0.3))
    await store.write(begun.answer, "x = 1", TurnStatus.DONE, "small")
    for signal, good, weight in (
        (Signal.EDITED, 0, 0.2),
        (Signal.COPIED, 1, 0.4),
        (Signal.AGAIN, 0, 0.4),
        (Signal.STRONGER, 0, 0.6),
        (Signal.GOOD, 1, 1.0),
    ):
        await store.feedback.add_signal(begun.answer, signal)
        [outcome] = await store.feedback.outcomes()
        assert (outcome.worker, outcome.kind, outcome.good) == ("small", "code", good)
        assert outcome.weight == pytest.approx(weight, abs=0.01)
        assert outcome.at == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize(
    ("draft", "answer", "found"),
    [
        ("So the answer is 18.", "It is 6 times 3.\n#### 18", Signal.AGREED),
        ("So the answer is 18.", "#### 20", Signal.DIFFERED),
        ("There were 18", "I count 20", None),
        ("So the answer is 18.", "I count 20", None),
        ("There were 18", "#### 20", None),
        ("Dear Ann, it was nice.", "Dear Ann, it was lovely.", None),
    ],
)
async def test_a_replaced_draft_is_judged_by_what_replaced_it(
    store: Store, draft: str, answer: str, found: Signal | None
) -> None:
    await record_replaced_run(store, draft, answer)
    await record_replaced_run(
        store, draft, answer, sent=False
    )  # both are local: neither is the better one
    known = [(known.worker, known.kind, list(known.signals)) for known in await answered(store)]
    assert known == ([("small", "math", [found])] if found else [])


async def test_a_thumb_on_what_replaced_a_draft_is_for_its_own_author(store: Store) -> None:
    begun = await record_replaced_run(store, "The answer is 5.", "The answer is 6.")
    await store.feedback.rate(begun.answer, Signal.GOOD)
    assert {(known.worker, *known.signals) for known in await answered(store)} == {
        ("gpt", Signal.GOOD),
        ("small", Signal.DIFFERED),
    }


@pytest.mark.parametrize("help_came", [True, False])
async def test_where_help_failed_the_draft_is_the_answer(store: Store, help_came: bool) -> None:
    """What a user says of it is said of the newest draft, even if others failed around it."""
    begun = await store.begin(Prompt("How many?"), ConversationPosition(), Label.CLOUD)
    steps = [direct_step("tiny", (), Need("code", 3)), direct_step("small", (), Need("math", 3))]
    steps.append(direct_step("gpt", (), Need("math", 3)))
    events: list[ev.Event] = [
        ev.Started(begun.run, begun.conversation, begun.prompt, begun.answer),
        ev.Planned(Plan((*steps,), (3,)), False, at=0.1),
        ev.StepFinished(1, Finish.STOP, "Five.", at=0.5),
        *([ev.StepFinished(2, Finish.STOP, "Six.", at=0.6)] if help_came else []),
        ev.StepFailed(3, "WorkerError", "It is down.", at=0.7),
        ev.Finished(at=0.8),
    ]
    for event in events:
        await store.append(begun.run, event)
    await store.write(begun.answer, "Six.", TurnStatus.DONE, "small")
    await store.feedback.rate(begun.answer, Signal.GOOD)
    [known] = await answered(store)
    assert (known.worker, known.kind, known.alone) == (
        "small",
        "math" if help_came else "code",
        True,
    )


async def test_an_answer_of_several_steps_grades_the_one_that_wrote_it(store: Store) -> None:
    plan = Plan(
        (
            Step("small", "List facts.", ("prompt",), Need("extraction", 2)),
            Step("large", "Write it.", ("1",), Need("writing", 3)),
        ),
        (2,),
    )
    begun = await store.begin(Prompt("Facts, written up"), ConversationPosition(), Label.CLOUD)
    await store.append(begun.run, ev.Planned(plan, at=0.1))
    for number, step in enumerate(plan.steps, start=1):
        await store.append(begun.run, ev.StepStarted(number, step.worker, at=0.1))
        await store.append(begun.run, ev.StepFinished(number, Finish.STOP, "text", at=0.2))
    await store.append(begun.run, ev.Finished(at=0.3))
    await store.write(begun.answer, "text", TurnStatus.DONE, "large")
    await store.feedback.rate(begun.answer, Signal.BAD)
    [known] = await answered(store)
    assert (known.worker, known.kind, known.alone) == ("large", "writing", False)
    [outcome] = await store.feedback.outcomes()
    assert outcome.weight == pytest.approx(0.5, abs=0.01), "others had a part in it"


async def test_of_two_that_should_write_the_answer_the_one_that_did_counts(store: Store) -> None:
    steps = (
        Step("small", "List facts.", ("prompt",), Need("extraction", 2)),
        Step("large", "Write it.", ("prompt",), Need("writing", 3)),
    )
    begun = await store.begin(Prompt("Facts, and a text"), ConversationPosition(), Label.CLOUD)
    for event in (
        ev.Planned(Plan(steps, (1, 2)), at=0.1),
        ev.StepFinished(1, Finish.STOP, "Facts.", at=0.2),
        ev.StepFailed(2, "WorkerError", "It is down.", at=0.3),
        ev.Finished(at=0.4),
    ):
        await store.append(begun.run, event)
    await store.write(begun.answer, "Facts.", TurnStatus.DONE, "small")
    await store.feedback.rate(begun.answer, Signal.GOOD)
    [known] = await answered(store)
    assert (known.worker, known.kind) == ("small", "extraction")


async def test_asking_again_after_a_stopped_answer_is_not_a_complaint(store: Store) -> None:
    begun = await store.begin(Prompt("Hello"), ConversationPosition(), Label.CLOUD)
    await store.write(begun.answer, "Half an", TurnStatus.CANCELLED, "small")
    await store.feedback.add_signal(begun.answer, Signal.AGAIN)
    assert await answered(store) == []
    await store.feedback.rate(begun.answer, Signal.BAD)
    assert [list(known.signals) for known in await answered(store)] == [[Signal.BAD]]


async def test_a_run_that_names_steps_it_does_not_have_is_not_an_obstacle(store: Store) -> None:
    begun = await ask(store)
    await store.append(begun.run, ev.StepFinished(99, Finish.STOP, "what?", at=0.2))
    await store.feedback.rate(begun.answer, Signal.GOOD)
    [known] = await answered(store)
    assert (known.worker, known.kind) == ("small", "")
    assert await store.feedback.outcomes() == []
