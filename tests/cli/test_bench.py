"""`baton bench`: figures on questions with known answers, for no more money than was agreed to."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from baton.core.money import Price, Rates
from baton.workers.tools import sandbox
from support.command_line import Call
from support.fake_cloud import Cloud, Fault, Reply
from support.terminal import Terminal

pytestmark = pytest.mark.sampled(0.34)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def by_name(out: str) -> dict[str, dict[str, object]]:
    return {row["strategy"]: row for row in json.loads(out)["rows"]}


CONFIG = """
[[workers]]
id = "far"
kind = "server"
model = "kit-1"
base_url = "{url}"
privacy = "cloud"
price = {{ input = "1000", output = "1000" }}
max_output = 300
[[workers]]
id = "other"
kind = "server"
model = "kit-1"
base_url = "{url}"
"""
PRICE = Price(Rates(10**12, 10**12, 10**12, 10**12))

QUESTIONS = [
    {"id": "n", "question": "How many?", "answer": 42, "kind": "number"},
    {"id": "c", "question": "Which?", "answer": "B", "kind": "choice", "choices": ["x", "y"]},
    {"id": "r", "question": "Where?", "answer": "(?i)lis+bon", "kind": "regex"},
]


@pytest.fixture
def questions(here: Path) -> Path:
    file = here / "questions.jsonl"
    file.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    return file


def configure(home: Path, cloud: Cloud) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text(CONFIG.format(url=cloud.base("server")))


def test_real_money_needs_a_budget_that_is_kept(
    call: Call, home: Path, here: Path, questions: Path
) -> None:
    words = ["bench", str(questions), "--workers", "far", "--strategy", "single", "--json"]
    with Cloud(prices={"": PRICE}, reply=Reply("The answer is 42. ", tokens=200)) as cloud:
        configure(home, cloud)
        unasked = call(*words)
        assert unasked.code == 2
        assert "--budget" in unasked.err
        assert cloud.posts == 0
        few = call(*words, "--budget", "1.5")
        assert few.code == 4, few.err
        assert "Stopped at 1 of 3 questions of single" in few.err
        assert (cloud.posts, by_name(few.out)["single"]["questions"]) == (1, 1)
        more = call(*words, "--budget", "50")
        assert more.code == 0, more.err
        cloud.quiet()
        assert cloud.posts == 3  # the first was not asked again
    row = by_name(more.out)["single"]
    assert (row["questions"], row["graded"], row["local_share"]) == (3, 3, 0)
    assert row["accuracy"] == pytest.approx(1 / 3)
    assert float(str(row["cost_usd"])) == cloud.billed / 1e9
    usage = call("usage", "--json")
    assert json.loads(usage.out)["usage"][0]["calls"] == 3  # the user's own ledger
    assert json.loads(call("history", "ls", "--json").out)["conversations"] == []


def terminal(*words: str) -> Terminal:
    return Terminal([sys.executable, "-I", "-m", "baton", "bench", *words], os.environ)


def test_ctrl_c_keeps_what_was_run_and_settles_the_rest(
    call: Call, home: Path, here: Path, questions: Path
) -> None:
    words = [str(questions), "--workers", "far", "--strategy", "single", "--out", "out.jsonl"]
    with Cloud(prices={"": PRICE}, reply=Reply("The answer is 42.")) as cloud:
        configure(home, cloud)
        cloud.next(None, Fault.STALL)
        screen = terminal(*words, "--budget", "5")
        screen.wait_for("1 of 3")
        screen.wait(lambda _: cloud.posts == 2)
        screen.send("\x03")
        assert screen.wait_end() == 130
    assert len((here / "out.jsonl").read_bytes().splitlines()) == 1
    (day,) = json.loads(call("usage", "--json").out)["usage"]
    assert (day["calls"], day["unconfirmed_usd"] != "0") == (2, True)


@pytest.mark.skipif(not sandbox(), reason="nothing executes code safely here")
def test_code_is_graded_by_its_tests(call: Call, home: Path, here: Path) -> None:
    file = here / "code.jsonl"
    asked = {"question": "Write f.", "kind": "python"}
    tests = {"right": "assert f() == 1", "wrong": "assert f() == 2"}
    lines = [json.dumps({"id": name, "tests": test, **asked}) for name, test in tests.items()]
    file.write_text("\n".join(lines))
    words = ["bench", str(file), "--workers", "other", "--strategy", "single", "--out", "out.jsonl"]
    with Cloud(reply=Reply("```python\ndef f():\n    return 1\n```")) as cloud:
        configure(home, cloud)
        done = call(*words)
    assert done.code == 0, done.err
    lines = (here / "out.jsonl").read_text().splitlines()
    results = [json.loads(line)["result"] for line in lines]
    scores = {one["question"]: one["score"] for one in results}
    assert scores == {"right": 1, "wrong": 0}, results


def test_code_is_not_executed_where_nothing_does_it_safely(
    call: Call, home: Path, here: Path
) -> None:
    file = here / "code.jsonl"
    asked = {"id": "p", "question": "Write f.", "kind": "python", "tests": "assert f() == 1"}
    file.write_text(json.dumps(asked) + "\n")
    words = ["bench", str(file), "--workers", "other", "--strategy", "single"]
    with Cloud(reply=Reply("```python\ndef f(): return 1\n```")) as cloud:
        configure(home, cloud)
        (home / "config" / "config.toml").write_text(
            "tools = false\n" + (home / "config" / "config.toml").read_text()
        )
        done = call(*words)
    assert done.code == 0, done.err
    assert "1 of 1 could not be graded" in done.out


def test_other_workers_are_not_used(call: Call, home: Path, questions: Path) -> None:
    with Cloud(prices={"": PRICE}, reply=Reply("I cannot answer that.")) as cloud:
        configure(home, cloud)
        words = ["--workers", "other", "--strategy", "hybrid", "--limit", "1", "--json"]
        done = call("bench", str(questions), *words)
        assert done.code == 0, done.err
        cloud.quiet()
        assert cloud.posts >= 1
    (day,) = json.loads(call("usage", "--json").out)["usage"]
    assert day["charged_usd"] == "0"


def test_it_continues_where_it_was_broken_off(
    call: Call, home: Path, here: Path, questions: Path
) -> None:
    words = ["bench", str(questions), "--workers", "other", "--strategy", "single", "--json"]
    with Cloud(reply=Reply("The answer is 42.")) as cloud:
        configure(home, cloud)
        assert call(*words, "--limit", "2").code == 0
        results = here / "questions.jsonl.results.jsonl"
        results.write_bytes(results.read_bytes()[:-20])  # broken off in the middle of a line
        done = call(*words)
        assert done.code == 0, done.err
        assert cloud.posts == 4
        again = call(*words)
        assert (again.out, cloud.posts) == (done.out, 4)


def test_changed_questions_are_not_mixed_with_the_old(
    call: Call, home: Path, questions: Path
) -> None:
    words = ["bench", str(questions), "--workers", "other", "--strategy", "single"]
    with Cloud(reply=Reply("The answer is 42.")) as cloud:
        configure(home, cloud)
        assert call(*words).code == 0
        questions.write_text(questions.read_text().replace("Where?", "Where is it?"))
        done = call(*words)
        assert done.code == 2
        assert "have changed" in done.err
        shown = call(*words, "--out", "new.jsonl")
    assert shown.code == 0
    assert max(map(len, shown.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "--workers is empty"),
        (["--workers", " , "], "--workers is empty"),
        (["--workers", "other", "--strategy", ","], "--strategy is empty"),
        (["--workers", "nobody"], "no worker 'nobody'"),
        (["--workers", "other,nobody"], "no worker 'nobody'"),
        (["--workers", "other", "--strategy", "guess"], "no strategy 'guess'"),
        (["--workers", "other", "--out", "."], "can't be read"),
    ],
)
def test_what_cannot_be_benched_is_said(
    call: Call, home: Path, questions: Path, words: list[str], why: str
) -> None:
    with Cloud() as cloud:
        configure(home, cloud)
        done = call("bench", str(questions), *words)
    assert (done.code, done.out) == (2, "")
    assert why in done.err
