# ruff: noqa: RUF001 (that signs are alike is what is tested)
"""Search: signs, parts of words, every script; what stands first, what is shown, what it leaves."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path

import pytest
from hypothesis import assume, given, strategies as st

from baton.core.folded_search import SearchQuery, fold
from baton.core.labels import Label
from baton.core.messages import Prompt, TurnStatus
from baton.core.ports import NEW
from baton.history import Store, search
from baton.platform import sqlite
from support.store_conversations import ask, marked_lines


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("评审", "明天下午三点开项目[评审]会议"),
        ("会议", "明天下午三点开项目评审[会议]"),
        ("会", "明天下午三点开项目评审[会]议"),
        ("検索", "[検索]のテストをする"),
        ("テスト", "検索の[テスト]をする"),
        ("の", "検索[の]テストをする"),
        ("검색", "[검색]을 시험합니다"),
        ("시험", "검색을 [시험]합니다"),
        ("시", "검색을 [시]험합니다"),
        ("ไทย", "ประเทศ[ไทย]สวยงาม"),
        ("ท", "ประเ[ท]ศไ[ท]ยสวยงาม"),
        ("भाषा", "हिन्दी [भाषा]"),
        ("gen", "重跑[gen]-itgc后"),
        ("itgc后", "重跑gen-[itgc后]"),
        ("schiff", "Die Dampf[schiff]fahrt"),
        ("FAHRT", "Die Dampfschiff[fahrt]"),
        ("py", "a num[py] array"),
        ("strasse", "Haupt[straße] 5"),
        ("fine", "the [ﬁne] print"),
        ("ﬁne", "the [fine] print"),
        ("full", "[ＦＵＬＬ] width"),
        ("テスト", "[ﾃｽﾄ] of half width"),
        ("cafe", "le [cafe\u0301] noir"),
        ("don't", "I [don’t] know"),
        ("C++", "I write [C++] daily"),
        ("c#", "I write [C#] daily"),
        (".NET", "for [.NET] and"),
        ("a/b", "an [a/b] test"),
        ("++", "i[++];"),
        ("#", "issue [#]5"),
        ("€", "20 [€] off"),
        ("__init__", "def [__init__](self):"),
        ("🦀", "a [🦀] there"),
        ("louvre?", "Where is the [Louvre]"),
        ('"two lines"', "of [two]"),
    ],
)
async def test_it_is_found_wherever_it_stands(store: Store, query: str, marked: str) -> None:
    text = marked.replace("[", "").replace("]", "")
    await ask(store, text + "\nlines of other things" * (query == '"two lines"'), "nothing")
    await ask(store, "Der Rest, c. und a b", "ich, 我, と, 나, ก, ग, café")
    assert marked in await marked_lines(store, query)


@pytest.mark.parametrize("query", ["C++", "C#", "++", ".NET", "a/b", "评会", "schifffahrten", '"'])
async def test_what_is_not_there_is_not_found(store: Store, query: str) -> None:
    await ask(store, "a c word, café, b. net a b", "评审 会议 schifffahrt + +")
    assert await store.search(query) == []


async def test_whole_words_come_before_parts_and_the_newest_first(store: Store) -> None:
    for text in ("an art", "a smart start", "the artist", "party"):
        await ask(store, text, "-")
    assert await marked_lines(store, "art") == [
        *("the [artist]", "an [art]"),  # and the title of each is not another hit
        *("p[art]y", "a sm[art] st[art]"),
    ]
    assert [hit.snippet for hit in await store.search("art", limit=3)][-1] == "party"


async def test_the_line_with_the_most_words_is_shown(store: Store) -> None:
    await ask(store, "-", "The red one.\nA red heron there.\nThe heron.")
    assert await marked_lines(store, "heron red") == ["A [red] [heron] there."]


async def test_a_title_is_found_by_parts_of_its_words(store: Store) -> None:
    begun = await ask(store, "question", "answer")
    await store.rename(begun.conversation, "Urlaubsplanung 会议")
    for query in ("planung", "会"):
        [hit] = await store.search(query)
        assert (hit.conversation, hit.turn) == (begun.conversation, begun.answer)
    await store.rename(begun.conversation, "Other")
    assert await store.search("planung") == []


texts = st.text(
    st.sampled_from("aAbßéﬁİσς 会議評かガｶ검색ไท้ยहि+#/_.,'\"-\n🦀"), min_size=1, max_size=12
)


@given(st.lists(texts, min_size=1, max_size=3), st.data())
def test_every_part_of_every_text_is_found_and_shown(said: list[str], data: st.DataObject) -> None:
    text = "".join(said)
    first = data.draw(st.integers(0, len(text) - 1))
    typed = text[first : data.draw(st.integers(first + 1, min(len(text), first + 6)))]
    query = SearchQuery.of(typed)
    assume(query.parts and query.is_in(fold(text)))  # a mark alone may change what is before it

    async def main() -> None:
        store = Store(None)
        await ask(store, text, "")
        hits = [hit for hit in await store.search(typed) if hit.snippet]
        assert hits
        for hit in hits:
            assert hit.spans
            for start, end in hit.spans:
                assert 0 <= start < end <= len(hit.snippet)
        await store.aclose()

    asyncio.run(main())


def all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())


@pytest.mark.parametrize("way", ["purge", "withdraw"])
async def test_nothing_of_what_is_removed_stays_in_the_index(tmp_path: Path, way: str) -> None:
    store = Store(tmp_path / "baton.db")
    kept = [await ask(store, f"filler {number}", "lorem ipsum") for number in range(60)]
    assert await store.search("filler")
    gone = await store.begin(Prompt("Qvxjk 鱻龘 ⁂", ()), NEW, Label.CLOUD, "a")
    await store.write(gone.answer, "Wzqpf", TurnStatus.DONE)
    for query in ("vxj", "鱻", "龘", "zqp", "⁂"):
        assert await store.search(query)
    marks = [gram.encode() for gram in ("vxj", "xjk", "鱻龘", "龘", "zqp", "⁂")]
    assert all(mark in all_bytes(tmp_path) for mark in marks)
    if way == "purge":
        await store.purge(gone.conversation)
    else:
        await store.clients.withdraw(gone.run)
    assert [mark for mark in marks if mark in all_bytes(tmp_path)] == []
    assert len(await store.search("filler 59")) == 1
    assert kept
    await store.aclose()


async def test_an_older_history_is_found_by_parts_of_words(tmp_path: Path) -> None:
    """The history of the last Baton with words in its index: what it held is in the new one."""
    path = tmp_path / "baton.db"
    sqlite.create_database_file(path)
    old = sqlite.open_database(path, older_migrations())
    old.execute(
        "INSERT INTO conversations (id, title, label, created, updated) "
        "VALUES ('aaaaaaaaaaaa', 'Fahrplan', 'cloud', 1, 1)"
    )
    turns = [(1, "done", "项目评审会议"), (2, "streaming", "Dampfschiff")]
    for key, status, text in turns:
        old.execute(
            "INSERT INTO turns (key, id, conversation, role, text, status, label, created, worker)"
            " VALUES (?, ?, 'aaaaaaaaaaaa', 'assistant', ?, ?, 'cloud', 1, '')",
            [key, f"{key:012}", text, status],
        )
    old.close()
    store = Store(path)
    assert [hit.snippet for hit in await store.search("评审")] == ["项目评审会议"]
    assert [hit.title for hit in await store.search("plan")] == ["Fahrplan"]
    assert await store.search("schiff") == []
    await store.aclose()


def older_migrations() -> tuple[sqlite.Migration, ...]:
    from baton.history.schema import MIGRATIONS

    names = [one.name for one in MIGRATIONS]
    return MIGRATIONS[: names.index("0011_search_by_grams")]


async def test_the_index_takes_at_most_three_times_the_texts(tmp_path: Path) -> None:
    """On texts as short as messages are; figures of 100,000 are in docs/lab/performance.md."""
    store = Store(tmp_path / "baton.db")
    paragraphs = inspect.getsource(json).split("\n\n")
    for paragraph in paragraphs * 2:
        await ask(store, paragraph, "-")
    await store.search("x")
    connection = sqlite.connect(tmp_path / "baton.db")
    [texts_size] = connection.execute("SELECT sum(length(text)) FROM turns").fetchone()
    [index_size] = connection.execute("SELECT sum(length(block)) FROM search_grams_data").fetchone()
    assert index_size <= 3 * texts_size
    connection.close()
    await store.aclose()


def test_a_query_longer_than_any_text_is_cut() -> None:
    assert len(SearchQuery.of("ab " * 3000).parts) == 32
    assert search.match_expression(SearchQuery.of("x" * 5000)).count('"') <= 128


async def test_another_baton_writes_while_a_large_history_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first search after an import or an update indexes everything, in parts."""
    monkeypatch.setattr(search, "_BATCH", 20)
    store, other = Store(tmp_path / "baton.db"), Store(tmp_path / "baton.db")
    for number in range(60):
        await ask(store, f"question {number}", f"answer {number}")
    added = search.index_pending
    batches: list[int] = []

    def index_pending(connection: sqlite.Connection) -> None:
        added(connection)
        batches.append(connection.execute("SELECT count(*) FROM search_pending").fetchone()[0])

    monkeypatch.setattr(search, "index_pending", index_pending)
    found, begun = await asyncio.gather(store.search("nswer 5"), ask(other, "meanwhile", "yes"))
    assert len(batches) >= 9, "three for each prompt, answer and title"
    assert {hit.snippet for hit in found} >= {"answer 5", "answer 59"}
    assert [hit.turn for hit in await other.search("anwhil")] == [begun.prompt]
    await store.aclose()
    await other.aclose()
