"""`baton ask` as a user or a script calls it, with the real starter model."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from baton.cli.options import add_named_worker
from baton.core.labels import Label
from baton.core.messages import Prompt, Text
from baton.core.ports import ConversationPosition
from baton.history import Store
from baton.platform.paths import find_paths
from baton.platform.settings import Settings
from support.command_line import Call, Process
from support.sample_pdfs import write_pdf
from support.scripted_baton import Scripted, scripted
from support.stored_runs import BEGUN, store_run
from support.terminal import Terminal

__all__ = ["scripted"]

pytestmark = pytest.mark.local_model

CAPITAL = "What is the capital of France?"
BATON = [sys.executable, "-I", "-m", "baton"]
LONG = ["ask", "Write a very long story about a river.", "--max-tokens", "2000"]


def latest(call: Call) -> list[dict[str, str]]:
    """Return the latest conversation's turns."""
    [newest] = json.loads(call("history", "ls", "-n", "1", "--json").out)["conversations"]
    thread: list[dict[str, str]] = json.loads(call("history", "show", newest["id"], "--json").out)[
        "thread"
    ]
    return thread


@pytest.fixture
def unwarned(monkeypatch: pytest.MonkeyPatch) -> None:
    """No doubt is written beside an answer, however sure the router is of it."""
    monkeypatch.setenv("BATON_WARNINGS", "false")


@pytest.mark.usefixtures("unwarned")
def test_the_capital_of_france_and_of_spain(process: Process, call: Call, home: Path) -> None:
    first = process("ask", CAPITAL)
    assert (first.returncode, first.stderr) == (0, b"")
    assert b"Paris" in first.stdout
    assert first.stdout.endswith(b"\n")
    assert not first.stdout.endswith(b"\n\n")
    for path in (home, *home.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    second = call("ask", "-c", "And what is the capital of Spain?", "--json")
    shown = json.loads(second.out)
    assert (second.code, shown["status"], shown["error"]) == (0, "finished", None)
    turns = latest(call)
    assert [turn["text"] for turn in turns][::2] == [CAPITAL, "And what is the capital of Spain?"]
    assert turns[3]["text"] == shown["answer"]
    assert shown["calls"][0]["tokens_in"] > 30
    assert shown["run_id"] in call("trace").out


def test_a_doubt_stands_beside_the_answer_on_stderr_and_in_json(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather = "What's the weather in Lisbon today?"
    said = call("ask", weather, "--max-tokens", "2", "--no-stream")
    assert "No worker here can look up what is happening now" in said.err
    assert "look up" not in said.out
    assert "look up" not in call("ask", weather, "--max-tokens", "2", "-q").err
    again = call("ask", "-c", "And the weather in Porto today?", "--max-tokens", "2")
    assert "baton: Not looked up." in again.err
    monkeypatch.setenv("BATON_WARNINGS", "false")
    muted = call("ask", weather, "--max-tokens", "2")
    assert "look up" not in muted.err
    done = call("ask", weather, "--max-tokens", "2", "--json")
    [warning] = [w for w in json.loads(done.out)["warnings"] if w["kind"] != "incomplete"]
    assert warning["kind"] == "needs_current_data"
    assert set(warning) == {"kind", "message", "hint"}
    assert warning["hint"]


@pytest.mark.usefixtures("unwarned")
@pytest.mark.sampled(0.34)
def test_a_strategy_is_followed_and_shown(call: Call) -> None:
    done = call("ask", "--strategy", "vote", CAPITAL, "--json")
    shown = json.loads(done.out)
    assert (done.code, shown["route"]["strategy"]) == (0, "vote")
    assert len(shown["plan"]) > 1
    assert {step["worker"] for step in shown["plan"]} == {"small"}
    assert all(call["step"] in range(1, len(shown["plan"]) + 1) for call in shown["calls"])
    assert "Paris" in shown["answer"]
    assert "(strategy vote)" in call("why").out
    # A worker that is named with it is the one that answers, and needn't do so alone.
    done = call("ask", "-m", "small", "--strategy", "reflect", "--no-stream", CAPITAL)
    assert (done.code, done.err) == (0, "")
    assert "(strategy reflect)" in call("why").out


@pytest.mark.sampled(0.5)
def test_a_plan_is_drawn_and_then_run(call: Call) -> None:
    drawn = call("plan", CAPITAL)
    assert (drawn.code, drawn.err) == (0, "")
    way = drawn.out.rstrip().rsplit("Run it: baton ", 1)[1]
    assert "Paris" in call(*way.split()).out
    turns = latest(call)
    assert turns[0]["text"] == CAPITAL
    assert "Paris" in turns[1]["text"]


@pytest.mark.sampled(0.34)
def test_a_run_that_was_killed_continues(call: Call) -> None:
    asking = [*BATON, "ask", "--strategy", "vote", CAPITAL, "--events"]
    with subprocess.Popen(asking, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as it:
        assert it.stdout is not None
        for line in it.stdout:
            if b'"event": "StepFinished"' in line:
                it.kill()
                break
    trace = call("trace").out
    assert "· lost" in trace
    interrupted = re.search(r"Interrupted after step ([12]) of 3; `baton resume ", trace)
    assert interrupted  # another step may have ended before the kill
    shown = json.loads(call("resume", "--json").out)
    # What a model samples may run up to its length cap.
    assert {step["status"] for step in shown["plan"]} <= {"done", "cut"}
    assert {call["step"] for call in shown["calls"]} == set(range(int(interrupted[1]) + 1, 4))
    assert "Paris" in shown["answer"]


@pytest.mark.sampled(0.5)
def test_what_is_piped_in_goes_before_the_text_and_private_is_recorded(
    process: Process, call: Call, tmp_path: Path
) -> None:
    (tmp_path / "b.txt").write_text("beta @a.txt")
    words = ["Which letters?", "-f", str(tmp_path / "b.txt"), "--private", "--max-tokens", "2"]
    done = process("ask", "-m", "small", *words, piped="älpha\n".encode())
    assert done.returncode == 0
    [asked, _] = latest(call)
    assert (asked["text"], asked["label"]) == ("älpha\n\nWhich letters?", "local")
    assert call("history", "show", call("history", "ls").out.split()[0]).out.count("b.txt") == 1


@pytest.mark.parametrize(
    ("args", "piped", "message"),
    [
        ([], b"", "nothing to ask"),
        (["  \n"], b" \n ", "nothing to ask"),
        (["x"], b"Ol\xe9", "The piped text is not UTF-8 text (byte 2)"),
        (["x"], b"\0\1\2", "The piped text is not text"),
        (["x"], b"x" * (8 * 2**20 + 1), "More than 8.0 MB"),
        (["x", "-f", "/dev/zero"], b"", "not an ordinary file"),
        (["x", "-f", "/nowhere"], b"", "There is no file /nowhere"),
        (["x", "-m", "nobody"], b"", "There is no worker 'nobody'"),
        (["x", "-m", ""], b"", "-m names no worker"),
        (["x", "-c"], b"", "no conversation to continue"),
        (["x", "--continue="], b"", "There is no conversation ''"),
        (["x", "--continue", "beefbeef"], b"", "There is no conversation 'beefbeef'"),
        ([os.fsdecode(b"\xff")], b"", "The prompt is not UTF-8 text"),
    ],
)
def test_what_can_not_be_asked_is_one_sentence_and_code_2(
    scripted: Scripted, call: Call, args: list[str], piped: bytes, message: str
) -> None:
    scripted(small=None)
    done = call("ask", *args, piped=piped)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert message in done.err


def test_c_takes_no_value_and_continue_names_a_conversation(scripted: Scripted, call: Call) -> None:
    scripted(small=None)
    assert call("ask", "Say hello to Kyoto").code == 0
    first = json.loads(call("history", "ls", "--json").out)["conversations"][0]["id"]
    assert call("ask", "Second").code == 0
    for word in ("add", "9999", first):
        assert call("ask", "-c", word, "more detail").code == 0
        assert latest(call)[-2]["text"] == f"{word} more detail"
    for name in ("2", "say hello to kyoto", "KYOTO", first[:6]):
        assert call("ask", f"--continue={name}", name).code == 0
        call("ask", "--continue=Second", "x")  # the newest again
    thread = json.loads(call("history", "show", first, "--json").out)["thread"]
    assert len(thread) == 2 * 5
    for args in (["--continue=nope"], ["--continue=12"], ["--continue="], ["-c", "--continue=1"]):
        assert call("ask", *args, "x").code == 2
    assert len(json.loads(call("history", "ls", "--json").out)["conversations"]) == 2


def test_c_never_continues_the_conversation_of_a_program(scripted: Scripted, call: Call) -> None:
    async def begin() -> None:
        store = Store(find_paths().database)
        place = ConversationPosition(program="Claude Code")
        await store.begin(Prompt("Fix it"), place, Label.CLOUD, "token")
        await store.aclose()

    scripted(small=None)
    asyncio.run(begin())
    assert call("ask", "-c", "x").err.startswith("baton: There is no conversation to continue.")
    assert call("ask", "Mine").code == 0
    asyncio.run(begin())
    assert call("ask", "-c", "more").code == 0
    assert [turn["text"] for turn in latest(call)][::2] == ["Mine", "more"]


def test_at_its_deadline_an_answer_is_what_there_is(scripted: Scripted, call: Call) -> None:
    scripted(small=None)
    whole = call("ask", "Hello", "--deadline", "60", "--json")
    assert (whole.code, json.loads(whole.out)["warnings"]) == (0, [])
    scripted(small=lambda _: [Text("It is"), 60.0])
    done = call("ask", "Hello", "--deadline", "0.5")
    assert (done.code, done.out) == (0, "It is\n")
    assert "The 0.5 seconds were over, so this is what there was by then." in done.err
    shown = json.loads(call("ask", "Hello", "--deadline", "0.5", "--json").out)
    assert (shown["status"], shown["error"], shown["answer"]) == ("finished", None, "It is")
    assert shown["plan"][0]["status"] == "cut"
    [warning] = shown["warnings"]
    assert warning["kind"] == "deadline"
    assert latest(call)[-1]["status"] == "cut"
    none = call("ask", "Hello", "--deadline", "0.001")
    assert (none.code, none.out) == (6, "")
    assert "No text was there after 0.001 seconds." in none.err
    assert call("ask", "Hello", "--deadline", "0").code == 2


def sent_files(call: Call) -> dict[str, str]:
    """Return what was attached to the latest prompt."""
    return {file["name"]: file["text"] for file in latest(call)[-2]["files"]}  # type: ignore[index]


def test_words_after_f_are_files_as_long_as_they_are_there(
    scripted: Scripted, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(small=None)
    monkeypatch.chdir(tmp_path)
    for name in ("a.md", "b.py", "Makefile"):
        Path(name).write_text(f"this is {name}")
    done = call("ask", "-f", "a.md", "b.py", "What is this?", "b.py")
    assert (done.code, done.err.splitlines()) == (
        0,
        ["With a.md (12 B, about 3 tokens)", "With b.py (12 B, about 3 tokens)"],
    )
    assert set(sent_files(call)) == {"a.md", "b.py"}
    assert latest(call)[-2]["text"] == "What is this? b.py"
    cases = {
        ("-f", "a.md", "Makefile"): (["a.md"], "Makefile"),
        ("-f", "a.md", "missing.py", "?"): (["a.md"], "missing.py ?"),
        ("-f", "a.md", "./Makefile", "b.py", "-f", "b.py"): (["a.md", "Makefile", "b.py"], ""),
        ("--file", "a.md", "--", "b.py"): (["a.md"], "b.py"),
        ("--file=a.md", "b.py", "x"): (["a.md", "b.py"], "x"),
    }
    for args, (files, text) in cases.items():
        assert call("ask", *args).code == 0, args
        assert (list(sent_files(call))[: len(files)], latest(call)[-2]["text"]) == (files, text)
    assert call("ask", "-q", "-f", "a.md", "x").err == ""


def test_a_path_in_the_prompt_is_attached_unless_after_the_dashes(
    scripted: Scripted, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(small=None)
    monkeypatch.chdir(tmp_path)
    Path("notes.md").write_text("one and two")
    done = call("ask", "@notes.md", "summarise", "@nobody")
    assert (done.code, done.err) == (0, "With notes.md (11 B, about 3 tokens)\n")
    assert sent_files(call) == {"notes.md": "one and two"}
    call("ask", "-f", "notes.md", "Twice: @notes.md")
    assert list(sent_files(call)) == ["notes.md"]
    for piped, args in ((b"", ["--", "@notes.md"]), (b"@notes.md", ["Hello"])):
        assert call("ask", *args, piped=piped).err == ""
        assert sent_files(call) == {}


def test_a_named_file_that_is_not_there_is_said_and_the_prompt_is_asked(
    scripted: Scripted, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(small=None)
    monkeypatch.chdir(tmp_path)
    done = call("ask", "Summarise `@nots.md`", "--json")
    assert (done.code, sent_files(call)) == (0, {})
    assert done.err == "baton: There is no file nots.md. Check the path.\n"
    said = {"kind": "missing_file", "message": "There is no file nots.md."}
    assert json.loads(done.out)["warnings"] == [{**said, "hint": "Check the path."}]
    assert call("ask", "-q", "Summarise @nots.md").err == ""
    assert call("ask", "--", "Summarise @nots.md").err == ""


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nots.md", "There is no file nots.md."),
        ("./no", "There is no file ./no."),
        ("LICENSE", "LICENSE is in your prompt, and wasn't attached."),
        ("Explain", ""),
        ("Is a/b or nots.md meant?", ""),
    ],
)
def test_a_file_that_begins_the_prompt_is_said(
    scripted: Scripted,
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    word: str,
    said: str,
) -> None:
    scripted(small=None)
    monkeypatch.chdir(tmp_path)
    for name in ("a.md", "LICENSE"):
        Path(name).write_text("text")
    warnings = json.loads(call("ask", "-f", "a.md", word, "now", "--json").out)["warnings"]
    assert [warning["message"] for warning in warnings] == [said] * bool(said)


def test_a_file_named_in_several_ways_is_sent_once(
    scripted: Scripted, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(small=None)
    monkeypatch.chdir(tmp_path)
    Path("notes.md").write_text("one and two")
    Path("link.md").symlink_to("notes.md")
    ways = ("-f", "notes.md", "-f", "./notes.md", "-f", "link.md", f"--file={tmp_path}/notes.md")
    for args in ((*ways, "Hello"), (*ways, "Hello `@notes.md`"), ("Hello @./notes.md @link.md",)):
        assert call("ask", *args).code == 0
        assert list(sent_files(call).values()) == ["one and two"], args
    assert call("ask", "-f", "-", "-f", "-", "Hello", piped=b"text").code == 0
    assert sent_files(call) == {"piped text": "text"}


def test_many_files_are_summed_up_in_a_line(scripted: Scripted, call: Call, tmp_path: Path) -> None:
    scripted(small=None)
    files = [tmp_path / f"{number}.txt" for number in range(11)]
    for file in files:
        file.write_text("12345678")
    done = call("ask", "-f", *map(str, files), "--", "Hello")
    assert (done.code, done.err) == (0, "With 11 files (88 B, about 88 tokens)\n")


def test_what_a_pdf_lacks_is_said(scripted: Scripted, call: Call, tmp_path: Path) -> None:
    from pypdf import PdfWriter

    scripted(small=None)
    writer = PdfWriter(clone_from=write_pdf("Lisbon", tmp_path / "a.pdf"))
    writer.add_blank_page(300, 300)
    writer.write(tmp_path / "a.pdf")
    done = call("ask", "-f", str(tmp_path / "a.pdf"), "Hello", "--json")
    assert done.err.endswith("tokens); 1 page without text (2)\n")
    [warning] = json.loads(done.out)["warnings"]
    assert (warning["kind"], warning["message"]) == (
        "unreadable",
        "a.pdf has 1 page without text (2).",
    )


def test_colours_reach_no_worker_and_no_history(
    scripted: Scripted, call: Call, tmp_path: Path
) -> None:
    scripted(small=None)
    (tmp_path / "build.log").write_text("\x1b[31merror\x1b[m")
    piped = b"\x1b[1mdiff\x1b[m \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"
    done = call("ask", "-f", f"{tmp_path}/build.log", "--", "\x1b[32mWhy?\x1b[m", piped=piped)
    assert done.code == 0
    assert latest(call)[-2]["text"] == "diff link\n\nWhy?"
    assert sent_files(call) == {"build.log": "error"}


@pytest.mark.parametrize("args", [["-5+3"], ["-5 + 3"], ["-5", "+", "3"], ["-q", "-5+3"]])
def test_a_sum_may_begin_with_a_minus(call: Call, args: list[str]) -> None:
    done = call("ask", *args)
    assert (done.code, done.out.replace("\u2212", "-")) == (0, "-5 + 3 = -2\n")


def test_a_prompt_may_begin_as_a_list(scripted: Scripted, call: Call) -> None:
    scripted(small=None)
    for text in ("- milk\n- bread", "---\ntitle: x", "-√4", "--5"):
        assert call("ask", text, "--temperature", "0").code == 0
        assert latest(call)[-2]["text"] == text
    assert call("ask", "x", "--temperature", "-1").code == 2
    assert call("ask", "x", "-s", "-5 is cold").code == 0


def test_piped_text_is_attached_where_asked_for_or_too_long(scripted: Scripted, call: Call) -> None:
    scripted(small=None)
    done = call("ask", "-f", "-", "Which letter?", piped=b"alpha\n")
    assert (done.code, done.err) == (0, "With piped text (5 B, about 2 tokens)\n")
    assert sent_files(call) == {"piped text": "alpha"}
    assert latest(call)[-2]["text"] == "Which letter?"
    assert "Nothing was piped in" in call("ask", "-f", "-", "Which?").err


def test_piped_text_longer_than_a_worker_holds_is_read_in_pieces(call: Call) -> None:
    long = "The heron is grey. " * 3000
    planned = call("plan", "What colour is the heron?", "--json", piped=long.encode())
    assert (planned.code, planned.err) == (0, "With piped text (57.0 kB, about 14,250 tokens)\n")
    steps = json.loads(planned.out)["plan"]
    assert [step["access"] for step in steps if "file:piped text" in str(step["access"])]
    assert len(steps) > 2


@pytest.mark.sampled(0.5)
def test_a_prompt_of_a_megabyte_is_refused_and_kept(call: Call) -> None:
    done = call("ask", "--json", piped=b"word " * 200_000)
    assert done.code == 6
    shown = json.loads(done.out)
    assert (shown["status"], shown["error"]["type"]) == ("failed", "ContextTooLong")
    assert len(latest(call)[0]["text"]) == 1_000_000


@pytest.mark.sampled(1)
@pytest.mark.parametrize("content", [b"not a model at all", b"GGUF" + b"\xff" * 2000, None])
def test_what_is_not_a_model_is_one_sentence_and_code_5(
    call: Call, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "some.gguf"
    if content is not None:
        file.write_bytes(content)
    done = call("ask", "x", "-m", str(file))
    assert (done.code, done.out) == (5, "")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt-5-mini", "Did you mean openai/gpt-5-mini or"),
        ("claude-haiku-4-5", "Did you mean anthropic/claude-haiku-4-5 or"),
        ("gpt-oss-20b", "`baton models pull gpt-oss-20b` fetches"),
        ("google/gemini-2.5-flash", "Did you mean gemini/gemini-2.5-flash?"),
        ("moonshotai/kimi-k2.6", "Did you mean moonshot/kimi-k2.6?"),
        ("watsonx/granite", "doesn't ask the provider 'watsonx': it wants a"),
        ("vertex_ai/claude-opus-4-8", "only Gemini speaks a dialect"),
        (" google/gemini-2.5-flash ", "Did you mean gemini/gemini-2.5-flash?"),
    ],
)
def test_another_name_of_a_model_is_one_sentence_and_code_2(
    call: Call, name: str, message: str
) -> None:
    done = call("ask", "x", "-m", name)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert message in done.err


@pytest.mark.parametrize(
    "name", ["./nothing/here", "nothing/here", "google/mine.gguf", "google/it"]
)
def test_a_path_is_a_file_and_no_provider_s_model(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A file that is there comes before a provider of that name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "google").mkdir()
    (tmp_path / "google" / "it").write_bytes(b"not a model")
    done = call("ask", "x", "-m", name)
    assert (done.code, done.out) == (5, "")
    assert str(tmp_path / name) in done.err


@pytest.mark.sampled(0.5)
def test_json_into_a_closed_pipe_is_quiet_and_recorded(call: Call) -> None:
    command = f"'{sys.executable}' -I -m baton ask '{CAPITAL}' --json | head -c1"
    script = f"{command}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"{", b"")
    assert latest(call)[1]["status"] == "done"


@pytest.mark.sampled
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_the_text_and_leaves_no_child(call: Call, number: signal.Signals) -> None:
    with subprocess.Popen([*BATON, *LONG], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as it:
        assert it.stdout is not None
        seen = os.read(it.stdout.fileno(), 10)
        children = psutil.Process(it.pid).children(recursive=True)
        it.send_signal(number)
        seen += it.stdout.read()
    assert it.returncode == 128 + number
    assert children
    assert not psutil.wait_procs(children, timeout=30)[1]
    [_, answer] = latest(call)
    assert answer["status"] == "cancelled"
    assert answer["text"] == seen.decode().removesuffix("\n")


STARTED = """
import os, sys
from baton.cli import main
class ImportNotice:
    def find_spec(self, name, *_):
        if name == "baton.cli.root": os.write(2, b"on")
sys.meta_path.insert(0, ImportNotice())
main()
"""
"""Says on stderr when it has begun: before that, Ctrl+C is Python's."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pause", [0, 0.02, 0.05, 0.1, 0.2, 0.3])
def test_an_early_ctrl_c_is_heard_and_quiet(pause: float) -> None:
    with subprocess.Popen(
        [sys.executable, "-I", "-c", STARTED, *LONG],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as it:
        assert it.stderr is not None
        assert os.read(it.stderr.fileno(), 2) == b"on"
        time.sleep(pause)
        it.send_signal(signal.SIGINT)
        _, err = it.communicate(timeout=60)
    assert it.returncode == 130
    assert err in (b"", b"\n")  # click ends the line that the terminal began with ^C


def test_a_ctrl_c_that_a_library_swallows_is_heard() -> None:
    swallowing = f"""
import signal
from baton.cli import interrupts, main
interrupts.install_handler()
class InterruptOnDelete:
    def __del__(self): signal.raise_signal(signal.SIGINT)
InterruptOnDelete()
main({LONG!r})
"""
    done = subprocess.run([sys.executable, "-I", "-c", swallowing], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, b"", b"")


def test_a_full_disk_is_one_sentence(home: Path) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    done = subprocess.run(
        [*BATON, "ask", "x"],
        input=b"word " * 100_000,
        capture_output=True,
        preexec_fn=little_room,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1


@pytest.mark.sampled(0.5)
def test_a_home_that_can_not_be_written_is_one_sentence(call: Call, home: Path) -> None:
    home.mkdir()
    (home / "data").write_text("a file where the folder should be")
    done = call("ask", CAPITAL)
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    done = call("ask", CAPITAL, "--no-history")
    assert (done.code, "Paris" in done.out) == (0, True)
    assert [file.name for file in home.iterdir()] == ["data"]
    assert (home / "data").read_text() == "a file where the folder should be"


@pytest.mark.sampled(0.5)
def test_at_a_terminal_status_comes_and_goes_after_an_interrupted_plan_is_reported() -> None:
    run = store_run(*BEGUN)
    screen = Terminal([*BATON, "ask", "-c", CAPITAL], os.environ, 120, 24)
    assert screen.wait_end(30) == 0
    assert b"loading small" in screen.raw or b"reading prompt" in screen.raw
    assert "Paris" in screen.text
    assert "loading" not in screen.text
    assert screen.text.startswith(screen.text.strip()[0])
    assert "The answer before this one: Interrupted after step 2 of 4;" in screen.text
    assert f"`baton resume {run}` continues it." in screen.text.replace("\n", " ")


@pytest.mark.sampled(0.5)
def test_a_pipe_that_says_nothing_is_explained_and_can_be_left() -> None:
    command = f"sleep 30 | '{sys.executable}' -I -m baton ask -f - hello"
    screen = Terminal(["bash", "-c", command], os.environ, 80, 24)
    screen.wait_for("Reading piped text until it ends")
    screen.send("\x03")
    assert screen.wait_end() == 130


def test_workers_are_listed_shown_and_tested(call: Call) -> None:
    assert "* small" in call("workers", "ls").out
    card, *tools = json.loads(call("workers", "list", "--json").out)["workers"]
    assert {tool["kind"] for tool in tools} == {"tool"}
    assert (card["id"], card["default"], card["kind"]) == ("small", True, "local")
    assert "Note:" in call("workers", "show", "small").out
    assert call("workers", "test", "small").out.startswith("small works: ")
    assert call("workers", "show", "nobody").code == 2


@pytest.mark.sampled(0.5)
def test_the_doctor_finds_everything_well(call: Call) -> None:
    done = call("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(done.out)["checks"]}
    assert done.code == 0, done.out
    assert {c["state"] for c in checks.values()} <= {"ok", "warn"}
    assert checks["llama.cpp"]["text"].startswith("build ")
    assert "tokens" in checks["answer"]["text"]
    assert checks["conductor"]["text"] == "none configured, so Baton chooses who draws plans"


@pytest.mark.sampled(0.5)
def test_the_doctor_finds_what_is_broken(
    call: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_WORKER", "nobody")
    monkeypatch.setenv("BATON_CONDUCTOR", "smal")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    (home / "data").mkdir(parents=True)
    find_paths().database.write_bytes(b"not a database" * 100)
    done = call("doctor")
    assert done.code == 1
    broken = {line.split()[1] for line in done.out.splitlines() if line.startswith("broken")}
    assert broken == {"history", "answer", "conductor"}
    assert "There is no worker 'smal' (the setting `conductor`). Did you mean" in done.out
    assert find_paths().database.read_bytes() == b"not a database" * 100
    assert "canary" not in done.out + done.err


def test_blanks_around_a_models_name_are_left_out() -> None:
    settings, id = add_named_worker(Settings(), " openai/gpt-5-mini ")
    assert (id, settings.workers[-1].model) == ("openai/gpt-5-mini", "openai/gpt-5-mini")
