"""`baton history` and `baton trace` on a real database."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
import sqlite3
import tracemalloc
from pathlib import Path

import pytest

from baton.cli import history
from baton.core.events import StepStarted
from baton.core.labels import Label
from baton.core.messages import Attachment, Prompt
from baton.core.permissions import PromptLimits
from baton.core.ports import ConversationPosition
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.core.sanitiser import sanitise
from baton.history import Store
from baton.platform.paths import find_paths
from baton.workers.scripted_worker import ScriptedWorker
from support.command_line import Call

HOSTILE = "heron \x1b]0;title\x07 \x9b31m \u202e \u200b \U000e0041 \u2028 end"


def hold_conversation(*prompts: str, label: Label = Label.CLOUD) -> str:
    """Hold a conversation with a worker that repeats what it hears; return the id."""

    async def talk() -> str:
        store = Store(find_paths().database)
        worker = ScriptedWorker()
        orchestra = Orchestra(Services({"scripted": worker}, store), "scripted")
        place = ConversationPosition()
        for text in prompts:
            prompt = Prompt(text, (Attachment("a.txt", "in the file", 11),))
            async with orchestra.run(prompt, place, PromptLimits(label)) as run:
                async for _ in run:
                    pass
            place = ConversationPosition(await store.latest())
        await store.aclose()
        assert place.conversation is not None
        return place.conversation

    return asyncio.run(talk())


def hold_program_conversation(program: str, text: str) -> str:
    """Begin a conversation of a program; return its id."""

    async def talk() -> str:
        store = Store(find_paths().database)
        place = ConversationPosition(program=program)
        begun = await store.begin(Prompt(text), place, Label.CLOUD, "token")
        await store.aclose()
        return begun.conversation

    return asyncio.run(talk())


def test_conversations_of_programs_are_listed_apart(call: Call) -> None:
    own = hold_conversation("heron of mine")
    theirs = hold_program_conversation("Claude Code", "<system-reminder>x</system-reminder>heron")
    listed = call("history", "ls")
    assert listed.out.startswith(f"{own}  1  ")
    assert theirs not in listed.out
    others, size = listed.err.splitlines()
    assert others == "Other programs have 1 conversation: --programs."
    assert re.fullmatch(r"The history takes [\d.]+ [kM]B on the disk\.", size)
    apart = call("history", "ls", "--programs")
    assert apart.out.startswith(f"{theirs}  Claude Code  ")
    assert apart.out.endswith("heron\n")
    assert (own in apart.out, apart.err) == (False, f"{size}\n")
    (found,) = json.loads(call("history", "ls", "--programs", "--json").out)["conversations"]
    assert (found["id"], found["program"]) == (theirs, "Claude Code")
    assert "heron  (Claude Code)" in call("history", "search", "heron").out
    assert "Claude Code" in call("history", "show", theirs).out
    assert call("history", "show", "1").out.splitlines()[1].startswith(own)
    assert call("history", "show", "2").code == 2


def test_an_empty_history_says_so(call: Call) -> None:
    assert call("history", "ls").err == "There are no conversations yet.\n"
    assert json.loads(call("history", "ls", "--json").out)["conversations"] == []
    assert call("history", "search", "x").err == "No message was found.\n"
    assert call("trace").code == 2


@pytest.mark.parametrize(
    "command",
    [
        ["history", "ls"],
        ["history", "ls", "--json"],
        ["history", "search", "heron"],
        ["history", "search", "heron", "--json"],
        ["history", "show", "ID"],
        ["history", "show", "ID", "--json"],
        ["trace"],
        ["trace", "--texts"],
        ["trace", "--json"],
        ["trace", "--otel"],
        ["why"],
    ],
    ids=" ".join,
)
def test_nothing_that_a_terminal_obeys_goes_into_a_pipe(call: Call, command: list[str]) -> None:
    id = hold_conversation(HOSTILE)
    done = call(*(id if word == "ID" else word for word in command))
    assert done.code == 0
    assert done.out == sanitise(done.out)


def test_json_is_exact_and_so_is_an_export(call: Call) -> None:
    id = hold_conversation(HOSTILE)
    assert json.loads(call("history", "show", id, "--json").out)["thread"][0]["text"] == HOSTILE
    assert HOSTILE in call("history", "export", id).out


@pytest.mark.parametrize("verb", ["ls", "list"])
def test_conversations_are_listed_newest_first(call: Call, verb: str) -> None:
    first = hold_conversation("Lisbon with kids", label=Label.LOCAL)
    second = hold_conversation("Tea in Kyoto", "And coffee?")
    lines = call("history", verb).out.splitlines()
    assert [line.split()[0] for line in lines] == [second, first]
    assert lines[0].endswith("Tea in Kyoto")
    assert lines[1].endswith("private")
    listed = json.loads(call("history", verb, "--json").out)["conversations"]
    assert [c["turns"] for c in listed] == [4, 2]


def test_a_conversation_is_named_by_number_title_or_id(call: Call) -> None:
    first = hold_conversation("Lisbon with kids")
    second = hold_conversation("Tea in Kyoto")
    names = {"1": second, "2": first, "lisbon WITH kids": first, "kyoto": second, first[:5]: first}
    for name, id in names.items():
        assert json.loads(call("history", "show", name, "--json").out)["id"] == id
    hold_conversation("Tea in Lisbon, Route 66")
    for name, reason in (
        ("66", "There is no"),
        ("tea", "More than one conversation"),
        ("nothing", "There is no"),
        ("", "no"),
    ):
        refused = call("history", "show", name)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert reason in refused.err


def test_ls_says_how_many_there_are_besides(call: Call) -> None:
    for number in range(3):
        hold_conversation(f"Question {number}")
    listed = call("history", "ls", "-n", "2")
    assert listed.out.count("\n") == 2
    assert listed.err.startswith("2 of 3 conversations; `-n 3` lists all.\n")
    shown = json.loads(call("history", "ls", "-n", "2", "--json").out)
    assert (len(shown["conversations"]), shown["total"]) == (2, 3)
    assert shown["disk_bytes"] >= find_paths().database.stat().st_size
    assert "`-n" not in call("history", "ls").err


def test_search_finds_what_was_said_for_any_query(call: Call) -> None:
    id = hold_conversation("Lisbon with kids")
    assert call("history", "search", "lisb").out.startswith(id)
    hits = json.loads(call("history", "search", "--json", "Lisbon").out)["matches"]
    assert {hit["role"] for hit in hits} == {"user", "assistant"}
    assert call("history", "search", 'AND " OR (*').code == 0


def test_show_prints_the_transcript(call: Call) -> None:
    id = hold_conversation("Lisbon with kids", "Shorter?")
    done = call("history", "show", id[:6])
    assert done.code == 0
    assert done.out.startswith(f"Lisbon with kids\n{id} · ")
    assert "You · file a.txt\nShorter?" in done.out
    assert [t["text"] for t in json.loads(call("history", "show", id, "--json").out)["thread"]][
        ::2
    ] == ["Lisbon with kids", "Shorter?"]
    assert call("history", "show", "nothing").code == 2


def test_rm_asks_the_user_or_wants_y(call: Call) -> None:
    id = hold_conversation("Lisbon with kids")
    refused = call("history", "rm", id)
    assert refused.code == 2
    assert "-y" in refused.err
    removed = call("history", "remove", "-y", id[:5], id).err
    assert removed.startswith("Removed 1 conversation. The history takes ")
    assert json.loads(call("history", "ls", "--json").out)["conversations"] == []
    assert b"Lisbon" not in find_paths().database.read_bytes()


@pytest.mark.parametrize("kept", ["baton.db", "ledger.db"])
def test_rm_names_the_damaged_files_that_keep_their_texts(call: Call, kept: str) -> None:
    id = hold_conversation("Lisbon with kids")
    file = find_paths().data / f"{kept}.broken-20260101-120000"
    file.write_bytes(b"Lisbon with kids")
    said_of_it = call("history", "rm", "-y", id).err
    assert "Removed 1 conversation." in said_of_it
    assert file.name in said_of_it
    assert "Delete" in said_of_it
    assert file.exists()


def test_export_and_import_lose_nothing(call: Call, home: Path, tmp_path: Path) -> None:
    hold_conversation("Lisbon with kids", label=Label.LOCAL)
    hold_conversation("Tea in Kyoto", "And coffee?")
    file = tmp_path / "all.json"
    assert call("history", "export", "-o", str(file)).code == 0
    exported = json.loads(file.read_text())
    home.rename(home.with_name("away"))
    done = call("history", "import", str(file))
    assert done.code == 0
    assert "2 conversations" in done.err
    again = call("history", "export", "--format", "json")
    assert json.loads(again.out) == exported
    assert "here already" in call("history", "import", "-", piped=again.out.encode()).err
    markdown = call("history", "export").out
    assert "Lisbon with kids" in markdown
    assert "And coffee?" in markdown


def test_a_markdown_export_keeps_turns_apart_and_is_read_back(
    call: Call, home: Path, tmp_path: Path
) -> None:
    hold_conversation("Say:\n```python\nwhile True:", "## You\n\nTitle\n===", "~~~~\n<!-- end")
    hold_conversation("Tea\r## in Kyoto")
    file = tmp_path / "all.md"
    assert call("history", "export", "-o", str(file)).code == 0
    written = file.read_bytes().decode()
    home.rename(home.with_name("away"))
    done = call("history", "import", str(file))
    assert (done.code, "2 conversations" in done.err) == (0, True)
    assert "here already" in call("history", "import", str(file)).err
    again = call("history", "export", "-o", str(tmp_path / "again.md"))
    assert again.code == 0
    read = (tmp_path / "again.md").read_bytes().decode()
    assert [sorted(text.removesuffix("\n").split("\n\n")) for text in (read, written)] == [
        sorted(written.removesuffix("\n").split("\n\n"))
    ] * 2


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", b"\xff", b"[" * 200_000, b'{"baton_export": 9}', b"# x\n\ny"]
)
def test_what_is_not_an_export_is_refused(call: Call, data: bytes) -> None:
    done = call("history", "import", "-", piped=data)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(("name", "why"), [("/dev/zero", "device"), ("huge", "too large")])
def test_what_may_never_end_is_not_imported(
    call: Call, tmp_path: Path, name: str, why: str
) -> None:
    file = tmp_path / name
    if not file.exists():
        file.touch()
        os.truncate(file, 10**12)
    done = call("history", "import", str(file))
    assert (done.code, done.out) == (2, "")
    assert why in done.err.lower()


def test_an_export_that_can_not_be_written_is_one_sentence(call: Call, tmp_path: Path) -> None:
    hold_conversation("Lisbon with kids")
    done = call("history", "export", "-o", str(tmp_path))
    assert done.code == 1
    assert "Is a directory" in done.err


def test_an_export_overwrites_only_with_force(call: Call, tmp_path: Path) -> None:
    hold_conversation("Lisbon with kids")
    file = tmp_path / "notes.md"
    file.write_text("mine")
    refused = call("history", "export", "-o", str(file))
    assert (refused.code, refused.err.count("\n"), file.read_text()) == (2, 1, "mine")
    assert call("history", "export", "-o", str(file), "--force").code == 0
    assert "Lisbon" in file.read_text()
    assert call("history", "export", "-o", "/dev/null").code == 0


def test_trace_shows_a_run(call: Call) -> None:
    hold_conversation("Lisbon with kids")
    text = call("trace").out
    for part in ("finished", "It goes local", "Step 1 is given to scripted", "called scripted"):
        assert part in text
    shown = json.loads(call("trace", "--json").out)
    assert shown["events"][-1]["event"] == "Finished"
    assert call("trace", shown["run_id"][:6]).out == text
    assert call("trace", "zzz").code == 2


def test_history_that_can_not_be_read_is_one_sentence(call: Call, home: Path) -> None:
    home.write_text("a file where the folder should be")
    done = call("history", "ls")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1


def test_a_damaged_history_is_reported_once_and_kept(call: Call) -> None:
    hold_conversation("Lisbon with kids")
    database = find_paths().database
    sqlite3.connect(database).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
    database.write_bytes(b"not a database at all" + database.read_bytes()[21:])
    done = call("history", "ls")
    assert done.code == 0
    assert done.err.startswith("baton: ")
    kept = [file for file in database.parent.iterdir() if file != database]
    assert any(b"not a database" in file.read_bytes() for file in kept)


def test_answers_are_rated_and_that_is_taken_back(call: Call) -> None:
    id = hold_conversation("Lisbon with kids", "Shorter?")
    [last, first] = [run["run_id"] for run in (_why(call, ""), _why(call, _first_run(id)))]
    assert last != first
    done = call("history", "rate", "good")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(f"The answer of run {last} is marked as good: ")
    assert call("history", "rate", "bad", first[:8]).code == 0
    lines = call("history", "show", id).out.splitlines()
    assert [line for line in lines if line.startswith("scripted · ")] == [
        "scripted · bad",
        "scripted · good",
    ]
    assert call("history", "rate", "none").err.startswith(f"The answer of run {last} is not marked")
    thread = json.loads(call("history", "show", id, "--json").out)["thread"]
    assert [turn["signals"] for turn in thread] == [[], ["bad"], [], []]
    assert call("history", "rate", "great").code == 2
    assert call("history", "rate", "good", "nothing").code == 2


def test_what_has_no_answer_can_not_be_rated(call: Call) -> None:
    assert call("history", "rate", "good").code == 2

    async def begin() -> None:
        store = Store(find_paths().database)
        await store.begin(Prompt("Hello"), ConversationPosition(), Label.CLOUD)
        await store.aclose()

    asyncio.run(begin())
    refused = call("history", "rate", "bad")
    assert refused.code == 2
    assert "no answer to judge" in refused.err


def _why(call: Call, run: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(call("why", *filter(None, [run]), "--json").out)
    return found


def _first_run(conversation: str) -> str:
    with sqlite3.connect(find_paths().database) as connection:
        query = "SELECT id FROM runs WHERE conversation = ? ORDER BY key"
        [found, *_] = connection.execute(query, [conversation]).fetchall()
    connection.close()
    return str(found[0])


# SQL and CSV


def test_query_prints_the_rows_in_four_forms(call: Call) -> None:
    id = hold_conversation("Lisbon with kids")
    sql = "SELECT conversation, role, parent FROM turns ORDER BY key LIMIT 1"
    row = {"conversation": id, "role": "user", "parent": None}
    assert json.loads(call("history", "query", sql).out)["rows"] == [row]
    assert json.loads(call("history", "query", "--json", sql).out)["rows"] == [row]
    assert json.loads(call("history", "query", "--ndjson", sql).out) == row
    assert call("history", "query", "--csv", sql).out == f"conversation,role,parent\n{id},user,\n"
    table = call("history", "query", "--table", sql).out.splitlines()
    assert [line.split() for line in table] == [["conversation", "role", "parent"], [id, "user"]]
    none = call("history", "query", "--table", f"{sql} OFFSET 9")
    assert (none.code, none.out, none.err) == (0, "", "The query returns no rows.\n")
    both = call("history", "query", "SELECT 1 AS a, x'ff' AS a")
    assert json.loads(both.out)["rows"] == [{"a": 1, "a_2": "ff"}]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("DELETE FROM turns", "would change the history"),
        ("UPDATE turns SET text = '' RETURNING id", "would change the history"),
        ("WITH a AS (SELECT 1) INSERT INTO drafts SELECT 'a', 'b'", "would change the history"),
        ("DROP TABLE turns", "would change the history"),
        ("SELECT 1; DELETE FROM turns", "can't be run"),
        ("SELECT FROM", "can't be run"),
        ("SELECT * FROM nothing", "can't be run"),
        ("SELECT load_extension('x')", "can't be run"),
        ("ATTACH 'other.db' AS other", "returns no rows"),
        ("VACUUM INTO 'other.db'", "returns no rows"),
        ("BEGIN", "returns no rows"),
        (" pragma journal_mode = DELETE", "A PRAGMA is not run"),
        ("", "returns no rows"),
    ],
)
def test_query_changes_nothing(call: Call, sql: str, why: str) -> None:
    id = hold_conversation("Lisbon with kids")
    before = call("history", "show", id, "--json").out
    done = call("history", "query", sql)
    assert (done.code, done.out) == (2, "")
    assert why in done.err
    assert call("history", "show", id, "--json").out == before
    assert not list(find_paths().data.glob("*other*"))


@pytest.mark.parametrize("form", ["--table", "--csv", "--json", "--ndjson"])
def test_query_shows_no_terminal_codes(
    call: Call, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    hold_conversation(HOSTILE)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    out = call("history", "query", form, "SELECT text FROM turns").out
    assert "heron" in out
    assert sanitise(out) == out


def test_a_cell_that_a_spreadsheet_would_run_is_text(call: Call) -> None:
    formulas = ["=1+1", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", "\u3000=1"]  # noqa: RUF001
    hold_conversation(*formulas, "1 = 1", "'quoted'")
    rows = list(csv.DictReader(io.StringIO(call("history", "export", "--csv").out, newline="")))
    expected = [*(f"'{formula}" for formula in formulas), "1 = 1", "'quoted'"]
    assert [row["text"] for row in rows][::2] == expected
    sql = "SELECT '=1+1' AS a, -5 AS b, x'3d31' AS c, text AS d FROM turns WHERE text = '@SUM(A1)'"
    assert call("history", "query", "--csv", sql).out == "a,b,c,d\n'=1+1,-5,3d31,'@SUM(A1)\n"
    assert "=1+1" in call("history", "query", "--json", sql).out
    assert call("history", "query", "--csv", "SELECT 1 AS '=a'").out == "'=a\n1\n"


def test_export_writes_a_csv_line_for_each_message(call: Call, tmp_path: Path) -> None:
    id = hold_conversation("Lisbon, with kids\nand a dog", "Shorter?")
    printed = call("history", "export", "--csv").out
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [row["text"] for row in rows][::2] == ["Lisbon, with kids\nand a dog", "Shorter?"]
    assert {row["conversation"] for row in rows} == {id}
    assert [row["role"] for row in rows] == ["user", "assistant"] * 2
    assert [row["parent"] for row in rows] == ["", *(row["id"] for row in rows[:-1])]
    file = tmp_path / "all.csv"
    assert call("history", "export", "-o", str(file)).code == 0
    assert file.read_text() == printed
    assert call("history", "export", "--format", "csv", id[:6]).out == printed
    assert call("history", "export", "--csv", "--format", "json").code == 2


@pytest.mark.parametrize("form", ["csv", "json"])
async def test_an_export_holds_the_events_of_one_conversation_at_a_time(form: str) -> None:
    store = Store(None)
    for _ in range(30):
        begun = await store.begin(Prompt("Hello"), ConversationPosition(), Label.CLOUD)
        for _ in range(100):
            await store.append(begun.run, StepStarted(1, "small"))
    whole = len(await history._export_text(store, (), "json"))
    tracemalloc.start()
    await history._export_text(store, (), form)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await store.aclose()
    assert peak < 4 * whole
