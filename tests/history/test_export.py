"""Exports lose nothing, and imports overwrite nothing."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given, strategies as st

from baton.core.errors import ConfigError
from baton.core.events import Called, Cancelled, Event, Failed, Finished, Routed, Started
from baton.core.labels import Label
from baton.core.messages import Attachment, Finish, Prompt, Purpose, TurnStatus
from baton.core.ports import ConversationPosition
from baton.history import ImportResult, Store
from support.store_conversations import ask


@pytest_asyncio.fixture
async def store() -> AsyncIterator[Store]:
    opened = Store(None)
    yield opened
    await opened.aclose()


texts = st.text(max_size=30) | st.sampled_from(["\0", "a\0b", "\ud800", "\u202e", "'\"\\", "😀"])
labels = st.sampled_from(Label)
files = st.builds(Attachment, texts, texts, st.integers(0, 1 << 40), labels)
terminals: st.SearchStrategy[Event] = st.sampled_from(
    [Finished(at=2.5), Cancelled(at=2.0), Failed("X", "\udfff", "", at=1.0)]
)


async def anything(store: Store, data: st.DataObject) -> None:
    """Have a few conversations, with branches, in which anything may happen."""
    turns: list[tuple[str, str, str]] = []
    for _ in range(data.draw(st.integers(1, 8))):
        place = ConversationPosition()
        continues = data.draw(st.booleans())
        if turns and continues:
            conversation, asked, answered = data.draw(st.sampled_from(turns))
            places = [
                ConversationPosition(conversation),
                ConversationPosition(conversation, after=answered),
                ConversationPosition(conversation, again=asked),
                ConversationPosition(conversation, after=""),
            ]
            place = data.draw(st.sampled_from(places))
        prompt = Prompt(
            data.draw(texts),
            tuple(data.draw(st.lists(files, max_size=2))),
            data.draw(st.none() | texts),
        )
        begun = await store.begin(prompt, place, data.draw(labels))
        turns.append((begun.conversation, begun.prompt, begun.answer))
        ids = (begun.run, begun.conversation, begun.prompt, begun.answer)
        await store.append(begun.run, Started(*ids, at=0.25))
        await store.append(begun.run, Routed("local", data.draw(texts), {"x": 0.125}, at=0.5))
        await store.append(
            begun.run,
            Called(1, "w", Purpose.STEP, 1, 2, 3, 4, 5, False, 0.5, None, 0.0, Finish.LENGTH, at=1),
        )
        status = data.draw(st.sampled_from([s for s in TurnStatus if s != "streaming"]))
        await store.write(begun.answer, data.draw(texts), status, data.draw(texts))
        await store.append(begun.run, data.draw(terminals))
    await store.rename(turns[0][0], data.draw(texts))
    await store.relabel(turns[-1][0], data.draw(labels))
    await store.trim(turns[-1][0], turns[-1][1])
    await store.select(data.draw(st.sampled_from(turns))[1])


@pytest.mark.sampled(0.5)
@given(st.data())
def test_an_export_is_the_whole_of_it(data: st.DataObject) -> None:
    async def main() -> None:
        here, there = Store(None), Store(None)
        await anything(here, data)
        document = await here.archive.export()
        text = json.dumps(document)
        imported = await there.archive.import_(json.loads(text))
        assert imported.conversations == len(document["conversations"])
        assert imported.skipped == 0
        assert await there.archive.export() == document
        for conversation in await here.conversations():
            assert await there.conversation(conversation.id) == conversation
            assert await there.thread(conversation.id) == await here.thread(conversation.id)
        for run in await here.runs.newest():
            assert await there.runs.get(run.id) == await here.runs.get(run.id)
        again = await there.archive.import_(document)
        assert again == ImportResult(0, 0, imported.conversations)
        assert await there.archive.export() == document
        await here.aclose()
        await there.aclose()

    asyncio.run(main())


async def test_a_conversation_that_continued_is_not_overwritten(store: Store) -> None:
    begun = await ask(store)
    old = await store.archive.export()
    await ask(store, "And of Italy?", "Rome.", ConversationPosition(begun.conversation))
    newer = await store.archive.export()
    assert await store.archive.import_(old) == ImportResult(0, 0, 1)  # all of it is there
    other_store = Store(None)
    await other_store.archive.import_(old)
    assert await other_store.archive.import_(newer) == ImportResult(
        1, 4, 0
    )  # a copy, under new ids
    assert len(await other_store.conversations()) == 2
    for conversation in await other_store.conversations():
        run = await other_store.runs.last(conversation.id)
        assert run is not None
        assert isinstance(run.events[0], Started)
        assert run.events[0].conversation == conversation.id
        assert {run.prompt, run.answer} <= {
            turn.id for turn in await other_store.thread(conversation.id)
        }
    await other_store.aclose()


async def test_importing_brings_a_deleted_conversation_back(store: Store) -> None:
    begun = await ask(store)
    document = await store.archive.export([begun.conversation])
    await store.hide(begun.conversation)
    assert (await store.archive.export())["conversations"] == []
    assert await store.archive.import_(document) == ImportResult(1, 0, 0)
    assert await store.latest() == begun.conversation


async def test_imports_keep_their_place_in_time(store: Store) -> None:
    await ask(store, "old orange")
    document = await store.archive.export()
    other_store = Store(None)
    newer = await ask(other_store, "new orange")
    await other_store.archive.import_(document)
    assert (await other_store.search("orange"))[0].conversation == newer.conversation
    assert await other_store.runs.recent_prompts() == ["old orange", "new orange"]
    await other_store.aclose()


async def test_what_was_in_progress_in_another_store_is_lost_here(store: Store) -> None:
    begun = await store.begin(Prompt("x"), ConversationPosition(), Label.CLOUD)
    await store.write(begun.answer, "half", TurnStatus.STREAMING)
    other_store = Store(None)
    await other_store.archive.import_(await store.archive.export())
    assert (await other_store.thread(begun.conversation))[-1].status is TurnStatus.LOST
    assert (await other_store.runs.get(begun.run)).status == "lost"
    await other_store.aclose()


def turn(document: Any, index: int = 0) -> Any:
    return document["conversations"][-1]["turns"][index]


def run(document: Any) -> Any:
    return document["conversations"][-1]["runs"][0]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.update(baton_export=2),
        lambda d: d.pop("conversations"),
        lambda d: d.update(extra=1),
        lambda d: turn(d).update(text=None),
        lambda d: turn(d).update(label="secret"),
        lambda d: turn(d).update(role="system"),
        lambda d: turn(d).update(role="root"),
        lambda d: turn(d).update(id="../../etc"),
        lambda d: turn(d).update(created=-1),
        lambda d: turn(d).update(created=1e300),
        lambda d: turn(d).update(parent=turn(d, 1)["id"]),
        lambda d: turn(d, 1).update(id=turn(d)["id"]),
        lambda d: turn(d, 1).update(run="0123456789ab"),
        lambda d: turn(d).update(files=[{"name": "", "text": "", "size": 1 << 70, "label": "lan"}]),
        lambda d: run(d).update(answer="0123456789ab"),
        lambda d: run(d)["events"][0].update(kind="Exploded"),
        lambda d: run(d)["events"][0]["data"].pop("at"),
        lambda d: run(d)["events"][0]["data"].update(at=float("nan")),
        lambda d: d["conversations"][-1].update(head="0123456789ab"),
        lambda d: d["conversations"][-1]["runs"].append(run(d)),
    ],
)
async def test_a_bad_document_is_one_sentence_and_imports_nothing(
    store: Store, spoil: Callable[[Any], object]
) -> None:
    await ask(store)
    await ask(store)
    document = copy.deepcopy(await store.archive.export())
    spoil(document)
    other_store = Store(None)
    with pytest.raises(ConfigError) as caught:
        await other_store.archive.import_(document)
    assert "\n" not in str(caught.value)
    assert "Nothing was imported." in str(caught.value)
    assert await other_store.conversations() == []
    await other_store.aclose()


@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_anything_else_is_refused(data: object) -> None:
    async def main() -> None:
        store = Store(None)
        with pytest.raises(ConfigError):
            await store.archive.import_(data)
        await store.aclose()

    asyncio.run(main())


async def test_only_what_exists_is_exported(store: Store) -> None:
    with pytest.raises(ConfigError):
        await store.archive.export(["nothing"])
    assert await store.archive.export() == {"baton_export": 1, "conversations": []}


async def test_any_number_of_conversations_may_bear_the_same_time(store: Store) -> None:
    await ask(store)
    [document] = (await store.archive.export())["conversations"]
    at = document["created"]
    for number in range(150):
        text = json.dumps(document)
        for old in (document["id"], *(turn["id"] for turn in document["turns"])):
            text = text.replace(old, f"{number:04x}{old[4:]}")
        text = text.replace(document["runs"][0]["id"], f"{number:012x}")
        await store.archive.import_({"baton_export": 1, "conversations": [json.loads(text)]})
    listed = await store.conversations()
    assert len(listed) == 151
    assert {conversation.created for conversation in listed} == {at}
