"""What the endpoint asks of the history: a token's own runs, and what was said privately before."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from baton.core.errors import ConfigError
from baton.core.labels import Label
from baton.core.messages import Message, Prompt, Role, TurnStatus
from baton.core.ports import NEW, ConversationPosition, RecordedRun
from baton.core.text_match import (
    ANSWER_CHARS,
    MIN_ALONE_CHARS,
    Saying,
    fingerprint,
    label_by_sayings,
    plain_text,
    said_texts,
)
from baton.history import Store

SECRET = "My diagnosis is asthma-77. Reply OK."
ANSWER = "OK, I have written it down for you."
LONG = "The ferry to the island leaves from the eastern pier at nine, and I must not miss it."


async def say(
    store: Store,
    prompt: str,
    answer: str,
    label: Label = Label.LOCAL,
    client: str = "a",
    place: ConversationPosition = NEW,
) -> RecordedRun:
    begun = await store.begin(Prompt(prompt), place, label, client)
    await store.write(begun.answer, answer, TurnStatus.DONE)
    return begun


async def label_of(store: Store, *said: str, client: str = "b") -> Label:
    roles = (Role.USER, Role.ASSISTANT)
    texts = said_texts(Message(roles[n % 2], text) for n, text in enumerate(said))
    return label_by_sayings(await store.clients.sayings(texts), client)


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("baton.db*"))


async def test_a_token_finds_its_own_runs_by_their_whole_id_only(tmp_path: Path) -> None:
    store = Store(tmp_path / "baton.db")
    own, other = await say(store, "x", "y"), await say(store, "x", "y", client="b")
    person = await say(store, "x", "y", client="")
    for client, run in (("a", own.run), ("b", other.run)):
        found = await store.clients.run(run, client)
        assert found is not None
        assert (found.record.id, found.is_sole) == (run, True)
    for id in (own.run[:-1], own.run.upper() + " ", other.run, person.run, "", "%", "_" * 12):
        assert await store.clients.run(id, "a") is None
    assert await store.clients.run(person.run, "b") is None
    await store.hide(own.conversation)
    assert await store.clients.run(own.run, "a") is None
    await store.hide(own.conversation, undo=True)
    await say(store, "more", "z", client="", place=ConversationPosition(own.conversation))
    found = await store.clients.run(own.run, "a")
    assert found is not None
    assert not found.is_sole
    await store.aclose()


async def test_a_private_answer_is_recognised_while_it_is_written() -> None:
    store = Store(None)
    begun = await store.begin(Prompt("Hi."), NEW, Label.LOCAL, "a")
    await store.save_progress({begun.answer: ANSWER[:24]})
    assert await label_of(store, "Hi.", ANSWER, "Go on.") is Label.LOCAL
    await store.aclose()


@pytest.mark.parametrize("way", ["kept", "restarted", "purged", "hidden", "made private later"])
async def test_what_was_private_is_recognised(tmp_path: Path, way: str) -> None:
    store = Store(tmp_path / "baton.db")
    first = Label.CLOUD if way == "made private later" else Label.LOCAL
    begun = await say(store, SECRET, ANSWER, first)
    match way:
        case "restarted":
            await store.aclose()
            store = Store(tmp_path / "baton.db")
        case "purged":
            await store.purge(begun.conversation)
        case "hidden":
            await store.hide(begun.conversation)
        case "made private later":
            await store.relabel(begun.conversation, Label.LOCAL)
    brought = f"  {SECRET.upper()}\n", f"{ANSWER} And more.", "Go on."
    assert await label_of(store, *brought) is Label.LOCAL
    assert await label_of(store, SECRET, "Something else entirely, which is said.", "Go on.") is (
        Label.CLOUD if len(plain_text(SECRET)) < MIN_ALONE_CHARS else Label.LOCAL
    )
    await store.aclose()


async def test_what_is_private_no_more_may_go_anywhere(tmp_path: Path) -> None:
    store = Store(tmp_path / "baton.db")
    begun = await say(store, SECRET, ANSWER)
    await store.relabel(begun.conversation, Label.CLOUD)
    assert await label_of(store, SECRET, ANSWER, "Go on.") is Label.CLOUD
    await store.aclose()


async def test_an_older_history_is_made_recognisable(tmp_path: Path) -> None:
    path = tmp_path / "baton.db"
    store = Store(path)
    await say(store, LONG, ANSWER)
    await say(store, "open", "answer", Label.CLOUD)
    await store.aclose()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE turns SET fingerprint = NULL, opening = NULL, whole = NULL")
    store = Store(path)
    assert await label_of(store, f"Once more: {LONG}") is Label.LOCAL
    assert await label_of(store, "open", "answer", "Go on.") is Label.CLOUD
    await store.aclose()


async def test_what_isnt_kept_leaves_only_fingerprints(tmp_path: Path) -> None:
    path = tmp_path / "baton.db"
    store = Store(path)
    await store.clients.keep_private_marks([(SECRET, ANSWER), (LONG, "No.")], "a", Label.LOCAL)
    assert await label_of(store, SECRET, ANSWER, "Go on.") is Label.LOCAL
    assert await label_of(store, LONG) is Label.LOCAL
    assert await label_of(store, "Hello.") is Label.CLOUD
    await store.aclose()
    data = bytes_of(tmp_path)
    assert b"asthma" not in data.lower()


async def test_a_run_that_is_withdrawn_leaves_what_was_before_it(tmp_path: Path) -> None:
    path = tmp_path / "baton.db"
    store = Store(path)
    first = await say(store, "Before it", "An answer", Label.CLOUD)
    place = ConversationPosition(
        first.conversation,
        first.answer,
        earlier=(Message(Role.USER, "CANARY one"), Message(Role.ASSISTANT, "CANARY two")),
    )
    refused = await say(store, "CANARY three", "", Label.CLOUD, place=place)
    alone = await say(store, "CANARY four", "", Label.CLOUD)
    await store.clients.withdraw(refused.run)
    await store.clients.withdraw(alone.run)
    assert [turn.text for turn in await store.thread(first.conversation)] == [
        "Before it",
        "An answer",
    ]
    assert [one.id for one in await store.conversations()] == [first.conversation]
    await store.aclose()
    data = bytes_of(tmp_path)
    assert b"CANARY" not in data


async def test_a_private_prompt_that_is_withdrawn_stays_private() -> None:
    store = Store(None)
    first = await say(store, "Before it", "An answer", Label.CLOUD)
    place = ConversationPosition(first.conversation, first.answer)
    refused = await say(store, LONG, "", place=place)
    await store.clients.withdraw(refused.run)
    assert await label_of(store, LONG) is Label.LOCAL
    await store.aclose()


async def test_the_strictest_label_of_what_was_deleted_counts() -> None:
    store = Store(None)
    for label in (Label.LOCAL, Label.LAN):
        begun = await say(store, LONG, ANSWER, label)
        await store.purge(begun.conversation)
    assert await label_of(store, LONG) is Label.LOCAL
    await store.aclose()


async def test_a_program_brings_no_deleted_conversation_back() -> None:
    store = Store(None)
    begun = await say(store, "x", "y", Label.CLOUD)
    await store.hide(begun.conversation)
    place = ConversationPosition(begun.conversation, begun.answer)
    with pytest.raises(ConfigError, match="was deleted"):
        await store.begin(Prompt("more"), place, Label.CLOUD, "a")
    await store.begin(Prompt("more"), place, Label.CLOUD)
    assert len(await store.conversations()) == 1
    await store.aclose()


@pytest.mark.parametrize(
    "text",
    [
        '{{"result": "{}"}}'.format(LONG.replace(", ", ",\\n")),
        '{{"result": "{{\\"inner\\": \\"{}\\"}}"}}'.format(LONG.replace(", ", ",\\\\n")),
        "x" * 70_000 + LONG,
        (LONG[:40] + " ") * 150 + LONG,
    ],
)
async def test_a_private_text_is_recognised_within_others(text: str) -> None:
    store = Store(None)
    await say(store, LONG, ANSWER)
    for number in range(20):
        await say(store, f"{LONG} And so on, {number}.", ANSWER)
    assert await label_of(store, text) is Label.LOCAL
    assert await label_of(store, text.replace("island", "mountain")) is Label.CLOUD
    await store.aclose()


@given(st.text(), st.sampled_from(["\u200b", "\u00a0", " \n", "\t", "**", "...", "\u2019"]))
def test_spaces_and_signs_never_make_another_text(text: str, sign: str) -> None:
    spread = sign.join(text.split())
    assert plain_text(spread) == plain_text(text) or not plain_text(text).isalnum()


@given(st.text(min_size=ANSWER_CHARS * 3, alphabet="abc de"), st.integers(0, 60))
def test_an_answer_that_was_cut_is_the_same_answer(text: str, cut: int) -> None:
    part = text[: len(text) - cut]
    if len(plain_text(part)) >= ANSWER_CHARS:
        assert fingerprint(part, Role.ASSISTANT) == fingerprint(text, Role.ASSISTANT)


sayings = st.lists(
    st.builds(
        Saying, st.sampled_from("xyz"), st.sampled_from(["", "a", "b"]), st.sampled_from(Label)
    )
)


@given(sayings, st.sampled_from(["a", "b"]))
def test_own_sayings_count_and_of_those_the_strictest(said: list[Saying], client: str) -> None:
    label = label_by_sayings(said, client)
    own = [one for one in said if one.client == client]
    texts = {one.text for one in own}
    counted = [one.label for one in said if one.client == client or one.text not in texts]
    rank = [Label.LOCAL, Label.LAN, Label.CLOUD]
    assert label is min(counted, key=rank.index, default=Label.CLOUD)
