"""`baton bench`: figures on questions with known answers, for no more money than was agreed to."""

from __future__ import annotations

import json
import os
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from baton.cli.bench.bench_report import Plot, Point, draw_text
from baton.core.money import Price, Rates
from baton.routing import shipped_folder
from baton.workers.tools import sandbox
from support.command_line import Call
from support.fake_cloud import Cloud, Fault, Reply
from support.recordings import BIG, OTHER, SMALL, rows, write
from support.terminal import Terminal

pytestmark = pytest.mark.sampled(0.34)

MODELS = f"{SMALL},{OTHER},{BIG}"
PRICED = f"{BIG}@3,15"
ROUTER = shipped_folder()
COUNT = 16
"""How many questions are recorded."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def recordings(here: Path) -> Path:
    return write(here / "made.csv.gz", rows(COUNT))


def by_name(out: str) -> dict[str, dict[str, object]]:
    return {row["strategy"]: row for row in json.loads(out)["rows"]}


def test_recordings_are_replayed_as_they_were(call: Call, recordings: Path) -> None:
    done = call(
        "bench", str(recordings), "--workers", MODELS, "--cloud", PRICED, "--json",
        "--strategy", "single,cascade",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = by_name(done.out)
    table = rows(COUNT)
    for model in (SMALL, OTHER, BIG):
        right = sum(int(row[f"m:{model}"]) for row in table) / len(table)
        assert found[f"always {model}"]["accuracy"] == right
    assert found["single"]["accuracy"] == found[f"always {SMALL}"]["accuracy"]
    agreed = [row[f"p:{SMALL}"] == row[f"p:{OTHER}"] for row in table]
    cascade = found["cascade"]
    assert cascade["local_share"] == sum(agreed) / COUNT
    right = sum(
        int(row[f"m:{SMALL}" if same else f"m:{BIG}"])
        for row, same in zip(table, agreed, strict=True)
    )
    assert cascade["accuracy"] == right / COUNT
    assert cascade["calls_per_question"] == 2 + (1 - sum(agreed) / COUNT)
    assert found["oracle"]["accuracy"] == sum(
        any(row[f"m:{model}"] == "1" for model in (SMALL, OTHER, BIG)) for row in table
    ) / len(table)
    tokens = 7 + 6.0  # the system's text and the question; the longest have one more
    always = float(str(found[f"always {BIG}"]["cost_usd"]))
    assert always == pytest.approx(COUNT * (tokens * 3 + 50 * 15) / 1e6, rel=0.02)


def test_a_ceiling_is_part_of_what_is_replayed(call: Call, recordings: Path) -> None:
    done = call(
        "bench", str(recordings), "--workers", MODELS, "--cloud", PRICED, "--json",
        "--strategy", "cascade", "--budget", "0.008",
    )  # fmt: skip
    assert done.code == 0, done.err
    cascade = by_name(done.out)["cascade"]
    assert cascade["questions"] == COUNT
    assert 0 < float(str(cascade["cost_usd"])) <= 0.008
    assert cascade["refused"]


def test_a_trained_router_is_replayed_within_a_ceiling(call: Call, recordings: Path) -> None:
    done = call(
        "bench", str(recordings), "--workers", MODELS, "--cloud", PRICED, "--json", "--limit", "4",
        "--strategy", "route,knn,smoothie,hybrid", "--budget", "0.002",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = by_name(done.out)
    for name in ("route", "knn", "smoothie", "hybrid"):
        assert found[name]["graded"] == 4
        assert float(str(found[name]["cost_usd"])) <= 0.002
    assert found["smoothie"]["calls_per_question"] == 2
    remarks = " ".join(json.loads(done.out)["remarks"])
    assert "may have been trained on these very questions" in remarks
    assert "smoothie compared short answers" in remarks


@pytest.mark.sampled(0.34)
def test_a_curve_is_played_with_parts_of_the_money(
    call: Call, recordings: Path, here: Path
) -> None:
    words = ["bench", str(recordings), "--workers", MODELS, "--cloud", PRICED]
    words += ["--strategy", "single,cascade", "--at", "10,40 %"]
    done = call(*words, "--json", "--svg", "plot.svg")
    assert done.code == 0, done.err
    found = by_name(done.out)
    always = float(str(found[f"always {BIG}"]["cost_usd"]))
    curve = [found[name] for name in ("cascade, 10 %", "cascade, 40 %", "cascade")]
    costs = [float(str(row["cost_usd"])) for row in curve]
    assert "single, 10 %" not in found
    assert costs == sorted(costs)
    assert costs[0] <= 0.1 * always
    assert costs[1] <= 0.4 * always
    rights = [row["accuracy"] for row in curve]
    assert rights[0] < rights[2]  # type: ignore[operator]
    joined = [
        line for line in (here / "plot.svg").read_text().splitlines() if 'fill="none"' in line
    ]
    assert len(joined) == 1
    assert joined[0].count("L") == 2, "three points are joined"
    again = call(*words, "--json")
    assert again.out == done.out


@pytest.mark.parametrize("at", ["", "0", "101", "ten", "5;6"])
def test_parts_of_the_money_are_per_cents(call: Call, recordings: Path, at: str) -> None:
    done = call("bench", str(recordings), "--workers", MODELS, "--cloud", PRICED, "--at", at)
    assert (done.code, done.out) == (2, "")
    assert "holds no per cents" in done.err


def test_only_questions_that_a_router_never_saw(call: Call, recordings: Path, here: Path) -> None:
    words = ["bench", str(recordings), "--workers", SMALL, "--strategy", "single", "--json"]
    write(recordings, rows(40))
    for salt in ("a", "b"):
        done = call(*words, "--held-out", salt, "--router", str(ROUTER))
        assert done.code == 0, done.err
        count = by_name(done.out)["single"]["questions"]
        assert isinstance(count, int)
        assert 4 <= count <= 20, "about three in ten"
    write(here / "bare.csv.gz", [{**one, "qhash": ""} for one in rows(5)])
    done = call("bench", "bare.csv.gz", "--workers", SMALL, "--held-out", "a")
    assert (done.code, done.out) == (2, "")
    assert "no `qhash`" in done.err


def test_what_needs_fresh_texts_is_refused_before_anything_is_played(
    call: Call, recordings: Path, here: Path
) -> None:
    for name in ("vote", "reflect", "moa", "conductor", "ultra"):
        done = call("bench", str(recordings), "--workers", MODELS, "--strategy", f"single,{name}")
        assert (done.code, done.out) == (2, "")
        assert f"{name} needs fresh texts" in done.err
        assert "smoothie" in done.err
    assert not (here / "made.csv.gz.results.jsonl").exists()


def test_another_router_is_another_result(call: Call, recordings: Path, here: Path) -> None:
    words = ["bench", str(recordings), "--workers", SMALL, "--limit", "1", "--strategy", "single"]
    results = here / "made.csv.gz.results.jsonl"
    other = here / "other"
    shutil.copytree(ROUTER, other)
    (other / "heads.json").write_text((other / "heads.json").read_text() + "\n")
    for router, lines in ((ROUTER, 1), (other, 2), (ROUTER, 2)):
        assert call(*words, "--router", str(router)).code == 0
        assert results.read_bytes().count(b"\n") == lines
    (here / "empty").mkdir()
    done = call("bench", str(recordings), "--workers", MODELS, "--router", "empty")
    assert done.code == 2
    assert "The trained router isn't in" in done.err


def test_it_goes_on_where_it_was_broken_off(call: Call, recordings: Path, here: Path) -> None:
    words = ["bench", str(recordings), "--workers", MODELS, "--cloud", PRICED, "--json"]
    words += ["--strategy", "single,majority"]
    assert call(*words, "--limit", "5").code == 0
    results = here / "made.csv.gz.results.jsonl"
    first = results.read_bytes()
    assert first.count(b"\n") == 10
    results.write_bytes(first[:-20])  # broken off in the middle of a line
    done = call(*words, "--limit", "8")
    assert done.code == 0, done.err
    kept = first[: first.rstrip(b"\n").rfind(b"\n") + 1]
    assert results.read_bytes().startswith(kept)
    assert results.read_bytes().count(b"\n") == 16
    again = call(*words, "--limit", "8")
    assert results.read_bytes().count(b"\n") == 16
    assert again.out == done.out


def test_a_changed_dataset_is_not_mixed_with_the_old(call: Call, recordings: Path) -> None:
    words = ["bench", str(recordings), "--workers", SMALL, "--strategy", "single", "--limit", "2"]
    assert call(*words).code == 0
    write(recordings, rows(COUNT, seed=8))
    done = call(*words)
    assert done.code == 2
    assert "has changed" in done.err
    assert call(*words, "--out", "new.jsonl").code == 0


def test_the_table_fits_a_terminal_and_the_plot_is_svg(
    call: Call, recordings: Path, here: Path
) -> None:
    done = call(
        "bench", str(recordings), "--workers", MODELS, "--cloud", PRICED, "--svg", "plot.svg",
        "--strategy", "single,cascade",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    assert f"  c  always {BIG}" in done.out
    assert "random mixing reaches" in done.out
    tree = ET.parse(here / "plot.svg")
    texts = [element.text for element in tree.iter() if element.tag.endswith("text")]
    assert any(text and text.startswith("f   cascade: ") for text in texts)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--workers", " , "], "--workers names none"),
        (["--workers", SMALL, "--strategy", ","], "--strategy names none"),
        (["--workers", "nobody"], "no answers of 'nobody'"),
        (["--workers", SMALL, "--cloud", f"{BIG}@1,2"], "not among the workers"),
        (["--workers", BIG, "--cloud", BIG], "price of grand-1 is not known"),
        (["--workers", SMALL, "--strategy", "guess"], "no strategy 'guess'"),
        (["--workers", SMALL, "--out", "."], "can't be read"),
    ],
)
def test_what_cannot_be_benched_is_said(
    call: Call, recordings: Path, words: list[str], why: str
) -> None:
    done = call("bench", str(recordings), *words)
    assert (done.code, done.out) == (2, "")
    assert why in done.err


# Real workers


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


def test_real_money_is_asked_for_kept_to_and_gone_on_from(
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
        assert "may cost about" in few.err
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
    assert json.loads(usage.out)["usage"][0]["calls"] == 3  # the person's own ledger
    assert json.loads(call("history", "ls", "--json").out)["conversations"] == []


def terminal(*words: str) -> Terminal:
    return Terminal([sys.executable, "-I", "-m", "baton", "bench", *words], os.environ)


def test_at_a_terminal_the_person_is_asked_and_ctrl_c_keeps_what_was_played_and_settles_the_rest(
    call: Call, home: Path, here: Path, questions: Path
) -> None:
    words = [str(questions), "--workers", "far", "--strategy", "single", "--out", "out.jsonl"]
    with Cloud(prices={"": PRICE}, reply=Reply("The answer is 42.")) as cloud:
        configure(home, cloud)
        screen = terminal(*words)
        screen.wait_for("and stop at $3.32?")
        screen.answer("\r")
        assert screen.wait_end() == 1
        assert cloud.posts == 0
        cloud.next(None, Fault.STALL)
        screen = terminal(*words)
        screen.wait_for("Go on")
        screen.answer("y\r")
        screen.wait_for("1 of 3")
        screen.wait(lambda _: cloud.posts == 2)
        screen.send("\x03")
        assert screen.wait_end() == 130
    assert (here / "out.jsonl").read_bytes().count(b"\n") == 1
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
    played = [json.loads(line)["played"] for line in lines]
    scores = {one["question"]: one["score"] for one in played}
    assert scores == {"right": 1, "wrong": 0}, played


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


# The plot


def test_points_stand_where_their_figures_are() -> None:
    points = (Point("low", 0, 0.5, 0.4, 0.6, True), Point("high", 10**9, 0.9, 0.8, 1.0))
    drawn = draw_text(Plot("x", points, ((0, 0.5), (10**9, 0.9)))).splitlines()
    above = next(n for n, line in enumerate(drawn) if line.rstrip().endswith("b"))
    below = next(n for n, line in enumerate(drawn) if "|a" in line)
    assert above < below
    assert drawn[-1].endswith("$1")
    assert draw_text(Plot("empty", ())) == ""
