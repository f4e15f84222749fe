"""How fast workers write here and when they were last asked, by the history."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import example, given, strategies as st

from baton.core import events as ev
from baton.core.labels import Label
from baton.core.ledger_types import UsageRow
from baton.core.messages import Finish, Prompt, Purpose, Role, TurnStatus
from baton.core.ports import ConversationPosition
from baton.core.sanitiser import sanitise
from baton.history import Store
from support.store_conversations import ask, marked_lines


@pytest_asyncio.fixture
async def store() -> AsyncIterator[Store]:
    opened = Store(None)
    yield opened
    await opened.aclose()


async def record_call(
    store: Store,
    worker: str,
    tokens: int,
    seconds: float,
    first_token: float | None = 1.0,
    at: float = 5.0,
) -> None:
    begun = await store.begin(Prompt("Hello"), ConversationPosition(), Label.CLOUD)
    call = ev.Called(
        1, worker, Purpose.STEP, 30, tokens, 0, 0, 0, True, seconds, first_token, 0.5,
        Finish.STOP, at=at)  # fmt: skip
    await store.append(begun.run, call)
    await store.append(begun.run, ev.Finished(at=at))


async def test_calls_that_cost_nothing_are_counted_by_worker(store: Store) -> None:
    await record_call(store, "small", 101, 3.0)
    await record_call(store, "small", 51, 2.0)
    assert await store.runs.local_usage("worker") == [UsageRow("small", 2, 60, 152, 0, 0)]


async def test_speed_is_what_was_written_after_the_first_token(store: Store) -> None:
    await record_call(store, "small", 101, 3.0)
    await record_call(store, "small", 51, 2.0)
    [(worker, (speed, last))] = (await store.runs.worker_usage()).items()
    assert worker == "small"
    assert speed == pytest.approx(150 / 3.0)
    assert abs(last - time.time()) < 60


async def test_a_call_that_wrote_next_to_nothing_says_nothing_of_speed(store: Store) -> None:
    await record_call(store, "small", 3, 1.001)
    await record_call(store, "cut", 40, 2.0, first_token=None)
    assert [speed for speed, _ in (await store.runs.worker_usage()).values()] == [None, None]


async def test_the_newest_calls_count_since_a_machine_may_change(store: Store) -> None:
    for _ in range(3):
        await record_call(store, "small", 11, 11.0)
    for _ in range(20):
        await record_call(store, "small", 101, 2.0)
    assert (await store.runs.worker_usage())["small"][0] == pytest.approx(100.0)


@pytest.mark.parametrize("at", [1e300, -1e300, 1e12])
async def test_an_import_may_say_anything(store: Store, at: float) -> None:
    await record_call(store, "small", 10**9, 1e-9, 0.0, at=at)
    [(speed, last)] = (await store.runs.worker_usage()).values()
    assert speed is None
    assert 0 < last <= time.time()


async def test_nothing_was_asked_yet(store: Store) -> None:
    assert await store.runs.worker_usage() == {}


async def test_the_newest_turns_with_all_words_are_found(store: Store) -> None:
    first = await ask(store, "Where is the Louvre?", "First line.\nIn Paris, of course.\nBye.")
    second = await ask(store, "And Versailles?", "Near Paris.")
    assert await marked_lines(store, "paris") == ["Near [Paris].", "In [Paris], of course."]
    assert await marked_lines(store, "course PARIS") == ["In [Paris], of [course]."]
    assert await marked_lines(store, "where louv") == ["[Where] is the [Louvre]?"]
    assert await marked_lines(store, "louv where") == ["[Where] is the [Louv]re?"]
    assert await marked_lines(store, "louvre when") == []
    hit, _ = await store.search("paris")
    assert (hit.conversation, hit.turn, hit.role, hit.title) == (
        second.conversation,
        second.answer,
        Role.ASSISTANT,
        "And Versailles?",
    )
    assert [hit.conversation for hit in await store.search("paris", limit=1)] == [
        second.conversation
    ]
    assert first.conversation != second.conversation


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("cafe", "Le Café noir"),
        ("CAFÉ", "le cafe noir"),
        ("naïve", "a NAIVE plan"),
        ("don't", "I don't know"),
        ("c++", "written in C++ today"),
        ("foo.bar", "call foo.bar(1)"),
        ("größe", "Die GRÖSSE, die Größe"),
        ("привет", "Привет, мир"),
        ("東京", "東京 は 大きい"),
        ("AND", "this and that"),
        ('"quoted"', 'a "quoted" word'),
        ("x_y", "let x_y = 1"),
    ],
)
async def test_words_are_found_however_they_are_written(
    store: Store, query: str, text: str
) -> None:
    await ask(store, text, "nothing here")
    assert len(await store.search(query)) == 1


async def test_a_title_is_found_too(store: Store) -> None:
    begun = await ask(store, "some question", "some answer")
    await ask(store, "another", "answer")
    await store.rename(begun.conversation, "Holiday in Norway")
    [hit] = await store.search("norw")
    assert (hit.conversation, hit.turn) == (begun.conversation, begun.answer)
    assert await marked_lines(store, "norw") == ["Holiday in [Norway]"]
    await store.rename(begun.conversation, "Holiday in Sweden")
    assert await store.search("norw") == []


async def test_an_answer_is_found_once_it_is_no_longer_being_written(store: Store) -> None:
    begun = await store.begin(Prompt("x"), ConversationPosition(), Label.CLOUD)
    await store.write(begun.answer, "halfway", TurnStatus.STREAMING)
    assert await store.search("halfway") == []
    await store.write(begun.answer, "halfway there", TurnStatus.CANCELLED)
    assert await marked_lines(store, "halfway") == ["[halfway] there"]
    await store.write(begun.answer, "somewhere else", TurnStatus.DONE)
    assert await store.search("halfway") == []
    await store.write(begun.answer, "once more", TurnStatus.STREAMING)
    assert await store.search("somewhere") == []


async def test_long_lines_are_cut_around_the_match(store: Store) -> None:
    await ask(store, "before " * 500 + "needle " + "after " * 100_000, "")
    [hit] = await store.search("needle")
    assert (hit.snippet[0], hit.snippet[-1]) == ("…", "…")
    assert len(hit.snippet) < 250
    [(start, end)] = hit.spans
    assert hit.snippet[start:end] == "needle"


async def test_a_match_over_two_lines_ends_with_the_first(store: Store) -> None:
    await ask(store, "one foo\nbar two", "")
    assert await marked_lines(store, '"foo bar"') == ["one [foo]"]
    assert await marked_lines(store, '"bar foo"') == []


query_text = st.text() | st.text(st.sampled_from(list("ab \"'*^:(){}+-.\0\ud800\nANDOR")))


@given(query=query_text)
@example("\0")
@example('"')
@example("a*" * 3000)
@example("a AND OR NOT NEAR(")
@example("." * 5000)
def test_no_query_is_a_syntax_error(query: str) -> None:
    async def main() -> None:
        store = Store(None)
        await ask(store, "a b AB ba", "b")
        await store.search(query)
        await store.aclose()

    asyncio.run(main())


words = st.text(st.sampled_from("abcXYZéßжñ0179"), min_size=1, max_size=8)


@given(st.lists(words, min_size=1, max_size=8), st.data())
def test_all_that_was_said_is_found_again(said: list[str], data: st.DataObject) -> None:
    glue = st.sampled_from([" ", "\n", ", ", "\t", "\r\n", " \x1b[2J ", "\u2028", " … "])
    text = "".join(word + data.draw(glue) for word in said)
    query = data.draw(st.lists(st.sampled_from(said), min_size=1, max_size=3))
    query[-1] = query[-1][: data.draw(st.integers(1, len(query[-1])))]

    async def main() -> None:
        store = Store(None)
        await ask(store, text, "")
        [hit] = await store.search(" ".join(query))
        assert hit.spans
        assert hit.snippet == sanitise(hit.snippet)
        assert "\n" not in hit.snippet
        for start, end in hit.spans:
            assert hit.snippet[start:end].strip()
        await store.aclose()

    asyncio.run(main())
