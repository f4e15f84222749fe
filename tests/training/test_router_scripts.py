"""The scripts by which the router is trained and judged."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import routing_rows as rr  # noqa: E402
from bench_router import CarriedBudget, Figures, LengthCoverage, of_64_tokens  # noqa: E402
from routing_pairs import Pair  # noqa: E402

from baton.core.routing_types import Estimate  # noqa: E402

pytestmark = pytest.mark.sampled(0.34)

ODD = frozenset({"odd"})


def write(path: Path, table: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def questions(prefix: str, count: int) -> list[dict[str, str]]:
    return [
        {
            "id": f"{prefix}-{number}",
            "group": ("odd", "even")[number % 2 == 0],
            "qhash": f"h{number}",
            "text": f"How much is {number} and {prefix}?",
            "m:small": str(int(number % 3 == 0)),
            "m:big": "1" if number % 5 else "",
            "p:small": str(number),
            "l:small": str(10 + number),
        }
        for number in range(count)
    ]


def test_what_is_missing_is_missing(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "sums.csv.gz", questions("sums", 10))
    write(tmp_path / "bare.csv.gz", [{"text": 'One, "two"\nthree'}, {"text": "Four"}])
    bare, sums = rr.read_folder(tmp_path)
    assert (bare.name, sums.name) == ("bare", "sums")
    assert bare.texts[0] == 'One, "two"\nthree'
    assert bare.qhash[0] != bare.qhash[1]
    assert bare.quality == {}
    assert np.isnan(sums.quality["big"]).tolist() == [n % 5 == 0 for n in range(10)]
    assert "big" not in sums.answers
    assert sums.answers["small"][7] == "7"
    assert sums.lengths["small"][3] == 13.0
    assert len(sums.known("big")) == 8


def test_a_file_that_is_not_a_table_of_questions_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "x.csv.gz", [{"id": "1"}])
    with pytest.raises(ValueError, match="no column `text`"):
        rr.read_rows(tmp_path / "x.csv.gz")


def test_no_question_is_on_both_sides(tmp_path: Path) -> None:
    write(tmp_path / "a.csv.gz", questions("a", 400))
    write(tmp_path / "b.csv.gz", questions("b", 300))
    data = rr.read_folder(tmp_path)
    visible, hidden = rr.split(data, "one")
    assert sum(map(len, visible)) + sum(map(len, hidden)) == 700
    assert not {k for r in visible for k in r.qhash} & {k for r in hidden for k in r.qhash}
    assert 80 < len(hidden[0]) < 160
    again, _ = rr.split(data, "one")
    other, _ = rr.split(data, "two")
    assert again[0].ids == visible[0].ids != other[0].ids


def test_whole_groups_files_and_workers_are_held_out(tmp_path: Path) -> None:
    write(tmp_path / "a.csv.gz", questions("a", 50))
    write(tmp_path / "b.csv.gz", questions("b", 100))
    data = rr.read_folder(tmp_path)
    files = frozenset({"a"})
    visible, hidden = rr.split(data, "s", rr.Holdout(0.0, files, workers=frozenset({"big"})))
    assert [rows.name for rows in visible] == ["b"]
    assert set(visible[0].ids) == {f"b-{n}" for n in range(50, 100)}  # the others are also in a
    assert "big" not in visible[0].quality
    assert "big" in hidden[0].quality
    visible, hidden = rr.split(data, "s", rr.Holdout(0.0, groups=frozenset({"b:odd"})))
    assert {group for rows in visible for group in rows.groups} == {"even"}
    visible, hidden = rr.split(data, "s", rr.Holdout(0.0))
    assert hidden == ()


def brute(score: np.ndarray, weak: np.ndarray, strong: np.ndarray) -> tuple[list[float], ...]:
    """Return the curve by trying every number of calls, ties in every order's mean."""
    n = len(score)
    shares, closed = [0.0], [0.0]
    for threshold in sorted(set(score.tolist()), reverse=True):
        sent = score >= threshold
        shares.append(sent.sum() / n)
        mixed = np.where(sent, strong, weak).mean()
        closed.append((mixed - weak.mean()) / (strong.mean() - weak.mean()))
    return shares, closed


@pytest.mark.parametrize("seed", range(8))
def test_the_figures_are_those_of_a_brute_force(seed: int) -> None:
    dice = np.random.default_rng(seed)
    weak = (dice.random(200) < 0.4).astype(float)
    strong = (dice.random(200) < 0.8).astype(float)
    score = dice.integers(0, (5, 1000)[seed % 2], 200) + (strong - weak) * 2.0
    shares, closed = brute(score, weak, strong)
    steps = zip(pairwise(shares), pairwise(closed), strict=True)
    area = sum((a + b) / 2 * (y - x) for (x, y), (a, b) in steps)
    assert rr.apgr(score, weak, strong) == pytest.approx(area)
    for part in (0.5, 0.8):
        fine = np.linspace(0, 1, 100_001)
        reached = fine[np.argmax(np.interp(fine, shares, closed) >= part - 1e-9)]
        assert rr.calls_for(score, weak, strong, part) == pytest.approx(reached, abs=2e-5)
    mixed = weak.mean() + np.interp(0.3, shares, closed) * (strong.mean() - weak.mean())
    assert rr.quality_at(score, weak, strong, 0.3) == pytest.approx(mixed)


def test_the_ends_of_the_figures() -> None:
    dice = np.random.default_rng(1)
    weak = (dice.random(4000) < 0.5).astype(float)
    strong = (dice.random(4000) < 0.7).astype(float)
    assert rr.apgr(np.zeros(4000), weak, strong) == pytest.approx(0.5)
    assert rr.calls_for(np.zeros(4000), weak, strong, 0.8) == pytest.approx(0.8)
    best = rr.apgr(strong - weak, weak, strong)
    assert best > 1 > rr.apgr(dice.random(4000), weak, strong)
    assert rr.apgr(weak - strong, weak, strong) == pytest.approx(1 - best)


def test_the_bootstrap_resamples_questions_in_pairs() -> None:
    dice = np.random.default_rng(3)
    weak = (dice.random(300) < 0.5).astype(float)
    strong = (dice.random(300) < 0.8).astype(float)
    score = strong - weak + dice.normal(0, 1, 300)
    drawn = rr.bootstrap([score, score * 2, -score], weak, strong, rounds=200)
    assert np.array_equal(drawn[:, 0], drawn[:, 1])
    assert drawn[:, 0] + drawn[:, 2] == pytest.approx(np.ones(200))
    low, high = np.quantile(drawn[:, 0], [0.025, 0.975])
    assert low < rr.apgr(score, weak, strong) < high
    first = np.random.default_rng(0).integers(0, 300, 300)
    assert drawn[0, 0] == pytest.approx(rr.apgr(score[first], weak[first], strong[first]))


# Scoring

MODEL = ROOT / "models" / "router"


def table(count: int = 12) -> list[dict[str, str]]:
    found = []
    for number, row in enumerate(questions("sums", count)):
        drafts = {"p:mate": str(number + number % 2), "l:mate": "40", "p:third": str(number)}
        found.append(row | drafts | {"m:mate": "1", "answer": str(number)})
    return found


def score_rows(folder: Path, rows: list[dict[str, str]], *more: str) -> list[tuple[str, float]]:
    write(folder / "rows.csv.gz", rows)
    out = folder / "scores.csv"
    files = ["--model", MODEL, "--rows", folder / "rows.csv.gz", "--out", out]
    pair = ["--local", "small", "--cloud", "openai/gpt-4o"]
    result = call(*map(str, files), *pair, *more)
    assert result.returncode == 0, result.stderr
    with out.open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["id", "score"]
    return [(id_, float(score)) for id_, score in lines]


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "score_router.py", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("mates", ["", "mate,third"])
def test_no_outcome_is_looked_at(mates: str, tmp_path: Path) -> None:
    more = ["--mates", mates] if mates else []
    rows = table()
    known = score_rows(tmp_path, rows, *more)
    assert [id_ for id_, _ in known] == [row["id"] for row in rows]
    assert len({score for _, score in known}) > 1
    shuffled = [
        row | {"m:small": str(number % 2), "m:big": "0", "m:mate": "x", "answer": "no",
               "group": "?", "qhash": "?", "m:gpt-4o": "1", "p:gpt-4o": "no", "l:gpt-4o": "9"}
        for number, row in enumerate(rows)
    ]  # fmt: skip
    assert score_rows(tmp_path, shuffled, *more) == known
    if not mates:
        for row in rows:
            del row["p:small"], row["l:small"]
        assert score_rows(tmp_path, rows, *more) == known


def test_a_question_is_scored_as_if_it_came_alone(tmp_path: Path) -> None:
    rows = table()
    known = score_rows(tmp_path, rows, "--mates", "mate")
    assert score_rows(tmp_path, rows[5:6], "--mates", "mate") == known[5:6]
    assert score_rows(tmp_path, rows[::-1], "--mates", "mate") == known[::-1]


def test_drafts_that_agree_are_kept_here(tmp_path: Path) -> None:
    scores = dict(score_rows(tmp_path, table(), "--mates", "mate,third"))
    agreeing = [scores[f"sums-{number}"] for number in range(0, 12, 2)]
    apart = [scores[f"sums-{number}"] for number in range(1, 12, 2)]
    assert max(agreeing) < min(apart)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--mates", "nobody"], "has no answers of nobody"),
        (["--model", "nowhere"], "nowhere"),
        (["--rows", "nothing.csv.gz"], "nothing.csv.gz"),
    ],
)
def test_what_is_missing_is_reported_in_a_sentence(
    more: list[str], why: str, tmp_path: Path
) -> None:
    write(tmp_path / "rows.csv.gz", table(3))
    files = ["--model", str(MODEL), "--rows", str(tmp_path / "rows.csv.gz")]
    known = ["--local", "small", "--cloud", "big", "--out", str(tmp_path / "out.csv")]
    result = call(*files, *known, *more)
    assert result.returncode == 2
    assert result.stdout == ""
    assert why in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out.csv").exists()


def test_a_file_that_is_none_is_reported_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(b"no archive")
    files = ["--model", str(MODEL), "--rows", str(tmp_path / "rows.csv.gz")]
    result = call(*files, "--local", "a", "--cloud", "b", "--out", str(tmp_path / "out.csv"))
    assert (result.returncode, len(result.stderr.strip().splitlines())) == (2, 1)


# The bench


@pytest.mark.long
def test_the_bench_trains_on_one_part_and_measures_the_other(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    rows = [
        {
            "id": str(number),
            "group": ("sums", "names")[number % 2],
            "qhash": f"q{number}",
            "text": ("Add the numbers ", "Who was ")[number % 2] + "x" * int(dice.integers(60)),
            "m:mixtral-8x7b": str(int(dice.random() < 0.5)),
            "m:gpt-4-1106": str(int(dice.random() < 0.9)),
        }
        for number in range(120)
    ]
    write(tmp_path / "data" / "routellm_mmlu.csv.gz", rows)
    result = subprocess.run(
        [sys.executable, ROOT / "scripts" / "lab" / "bench_router.py", "split", "--quick",
         "--data", tmp_path / "data", "--markdown", tmp_path / "table.md"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    header, _, line, *rest = (tmp_path / "table.md").read_text().splitlines()
    assert header.startswith("| test | questions | APGR |")
    name, count, reached = (cell.strip() for cell in line.split("|")[1:4])
    assert name == "MMLU, Mixtral to GPT-4, A"
    assert 20 <= int(count) <= 55
    assert 0 <= float(reached.strip("*")) <= 1.5
    assert rest[0] == ""
    assert rest[1].startswith("| where | kind | estimates | ECE |")


def test_a_pair_is_measured_on_its_own_questions(tmp_path: Path) -> None:
    write(tmp_path / "a.csv.gz", table(40))
    (rows,) = rr.read_folder(tmp_path)
    pair = Pair("it", "a", "small", "big", ("nobody", "third", "mate", "small"), groups=ODD)
    found = pair.rows([rows])
    assert found is not None
    assert set(found.groups) == ODD
    assert not np.isnan(found.quality["big"]).any()
    assert pair.team(found) == ("third", "mate")
    assert replace(pair, cloud="nobody").rows([rows]) is None
    assert replace(pair, groups=frozenset({"none"})).rows([rows]) is None


def test_speed_is_measured_on_questions_of_about_64_tokens() -> None:
    texts = ["How many sheep are left of 17? " * count for count in (1, 5, 7, 20)]
    rows = rr.from_columns("a", {"text": texts})
    assert of_64_tokens(MODEL, [rows]) == [texts[2]]


def test_the_coverage_of_lengths_is_shown_by_kind_set_and_worker() -> None:
    """150 questions with two answers each; half of one worker's are longer than expected."""

    class FixedEstimator:
        def estimates(self, texts: Sequence[str], _: object) -> list[Estimate]:
            return [Estimate({}, {}, {}, tokens_p99=100) for _ in texts]

    short, long = ["30"] * 150, ["30", "3000"] * 75
    columns = {"text": ["How many?"] * 150, "group": ["gsm8k"] * 150}
    rows = rr.from_columns("sums", columns | {"l:one": short, "l:two": long, "l:x-base": long})
    covered = LengthCoverage()
    covered.add(FixedEstimator(), [rows], 0)  # type: ignore[arg-type]
    _, _, *lines = covered.lines()
    assert "| all | 300 | 75.00 % | 75.00 to 75.00 % | 100 |" in lines
    assert "| math | 300 | 75.00 % | 75.00 to 75.00 % | 100 |" in lines
    assert "| writing | 0 | too few | | |" in lines
    assert "| set sums | 300 | 75.00 % | 75.00 to 75.00 % | 100 |" in lines
    assert [line for line in lines if "worker" in line] == [
        "| worker two (one of the 3 least) | 150 | 50.00 % | 50.00 to 50.00 % | 100 |",
        "| worker one (one of the 3 least) | 150 | 100.00 % | 100.00 to 100.00 % | 100 |",
    ]


def test_a_line_of_the_table_holds_what_was_measured() -> None:
    dice = np.random.default_rng(0)
    weak, strong = (dice.random(300) < 0.5).astype(float), (dice.random(300) < 0.8).astype(float)
    columns = {"text": ["x" * n for n in range(300)], "group": ["even", "odd"] * 150}
    rows = replace(rr.from_columns("a", columns), quality={"small": weak, "big": strong})
    pair, figures = Pair("it", "a", "small", "big", must=0.7, calls=50.0), Figures()
    figures.add(strong - weak, rows, pair, [rows])
    assert figures.ours == figures.best
    assert figures.task[0] == pytest.approx(0.5, abs=0.1)
    cells = [cell.strip() for cell in figures.line(pair).split("|")[1:-1]]
    assert cells[:2] == ["it", "300"]
    assert float(cells[2].strip("*")) == pytest.approx(figures.best[0], abs=1e-3)
    assert "0.70, 50 %" in cells


def test_a_budget_is_never_passed_in_a_new_domain() -> None:
    dice = np.random.default_rng(1)
    weak, strong = (dice.random(900) < 0.5).astype(float), (dice.random(900) < 0.8).astype(float)
    score = strong - weak + dice.normal(0, 1, 900)
    for shifted in (score, score * 1e-6 - 5, np.zeros(900), np.sort(score)):
        found = CarriedBudget.of(shifted, weak, strong)
        assert found.used <= 0.3
        assert found.most <= 0
    assert CarriedBudget.of(score, weak, strong).used > 0.25
