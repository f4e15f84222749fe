"""Strategies replayed on recordings: as the models answered, for play money."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from plots import is_baseline, mixing_ends, random_mixing
from recordings import RecordedAnswer, Recordings
from replay import baseline_rows, recorded_grader

from baton.bench.graded_questions import Question
from baton.core.labels import Label
from baton.core.messages import Card
from baton.core.money import NANO, Price, Rates
from baton.core.plan_types import single_step_plan
from baton.core.view import RunView, StepView
from support.recordings import BIG, OTHER, SMALL, rows, write

COUNT = 16
"""How many questions are recorded."""

PRICE = Price(Rates(NANO, NANO, NANO, NANO))
HERE = Card("here", "local", "here", context=4096)
FAR = Card("far", "cloud", "far", Label.CLOUD, 4096, price=PRICE, provider="x", remote=True)
QUESTIONS = tuple(Question(str(n), f"Q{n}", "1", "number") for n in range(4))
RECORDINGS = Recordings(
    "made.csv",
    QUESTIONS,
    {},
    {
        "here": {str(n): RecordedAnswer(score, "1", 40) for n, score in enumerate((1, 0, 0, 0))},
        "far": {str(n): RecordedAnswer(score, "1", 40) for n, score in enumerate((1, 1, 1, 0))},
    },
)


def test_what_could_be_had_without_a_strategy() -> None:
    here, far, oracle = baseline_rows(RECORDINGS, QUESTIONS, [HERE, FAR])
    assert all(map(is_baseline, (here, far, oracle)))
    assert (here.name, here.accuracy, here.cost, here.local_share) == ("always here", 0.25, 0, 1)
    one = 1000 * (7 + 1 + 10)  # the system's text, the question, the answer
    assert (far.accuracy, far.cost, far.local_share) == (0.75, 4 * one, 0)
    # It pays where that helps: not for what is right here, nor where no worker is.
    assert (oracle.accuracy, oracle.cost, oracle.local_share) == (0.75, 2 * one, 0.5)
    found = [here, far, oracle]
    assert mixing_ends(found) == (here, far)
    assert random_mixing(found, 0) == 0.25
    assert random_mixing(found, 2 * one) == 0.5
    assert random_mixing(found, 9 * one) == 0.75
    assert random_mixing([here, oracle], one) is None


@pytest.mark.parametrize(("author", "score"), [("here", 0.0), ("stranger", 1.0)])
async def test_a_models_own_text_is_graded_as_it_was_recorded(author: str, score: float) -> None:
    plan = single_step_plan(author)
    step = StepView(1, plan.steps[0], author, "done", "1")
    view = RunView("finished", plan=plan, steps=(step,))
    assert await recorded_grader(RECORDINGS)(QUESTIONS[1], view) == (score, "")


def replay(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).resolve().parents[2] / "scripts" / "lab" / "replay.py"
    command = [sys.executable, "-P", str(script), str(file), "--workers", f"{SMALL},{OTHER},{BIG}"]
    command += ["--cloud", f"{BIG}@3,15", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_recordings_are_replayed_as_they_were(tmp_path: Path) -> None:
    table = rows(COUNT)
    file = write(tmp_path / "made.csv.gz", table)
    done = replay(file, "--strategy", "single,cascade", "--at", "10,40 %", "--svg",
                  str(tmp_path / "plot.svg"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines()[2:]:
        name, right, _, dollars, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        found[name] = (float(right.removesuffix(" %")) / 100, float(dollars.removeprefix("$")))
    for model in (SMALL, OTHER, BIG):
        share = sum(int(row[f"m:{model}"]) for row in table) / COUNT
        assert found[f"always {model}"][0] == pytest.approx(share, abs=1e-4)
    assert found["single"][0] == found[f"always {SMALL}"][0]
    same = [row[f"p:{SMALL}"] == row[f"p:{OTHER}"] for row in table]
    right_count = sum(
        int(row[f"m:{SMALL if agreed else BIG}"]) for row, agreed in zip(table, same, strict=True)
    )
    assert found["cascade"][0] == pytest.approx(right_count / COUNT, abs=1e-4)
    tokens = 7 + 6.0  # the system's text and the question; the longest have one more
    always = found[f"always {BIG}"][1]
    assert always == pytest.approx(COUNT * (tokens * 3 + 50 * 15) / 1e6, rel=0.02)
    assert found["cascade, 10 %"][1] <= 0.1 * always
    assert found["cascade, 40 %"][1] <= 0.4 * always
    assert "single, 10 %" not in found
    joined = [
        line for line in (tmp_path / "plot.svg").read_text().splitlines() if 'fill="none"' in line
    ]
    assert len(joined) == 1
    assert joined[0].count("L") == 2, "three points are joined"


def test_what_needs_fresh_texts_is_refused(tmp_path: Path) -> None:
    done = replay(write(tmp_path / "made.csv", rows(2)), "--strategy", "single,vote")
    assert done.returncode != 0
    assert "These need fresh texts: vote." in done.stderr
