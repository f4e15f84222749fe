"""The training command: it runs, repeats itself, and takes any data."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from baton.core.plan_types import KINDS
from baton.core.routing_types import Candidate
from baton.routing.child.first_stage import ARRAYS_FILE, METADATA_FILE, FirstStage
from baton.routing.child.router_model import RouterModel

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import routing_rows  # noqa: E402
import train_router  # noqa: E402
from score_router import rank  # noqa: E402

pytestmark = pytest.mark.sampled(0.34)

WRITTEN = (ARRAYS_FILE, METADATA_FILE, "agreement.json", "kinds.npz", "lengths.npz", "skills.json")

EASY = ("What is {} plus {}?", "Name a city that has {} bridges and {} parks.")
HARD = (
    "Prove in detail, step by step, that the sequence a(n) = {} n^2 - {} n is eventually monotone.",
    "Write a careful analysis of how {} firms in a market with {} customers set their prices.",
)


def write(folder: Path, name: str, count: int, workers: tuple[str, ...]) -> None:
    """Write questions of which the first worker gets the hard ones wrong."""
    rows = []
    for number in range(count):
        hard = number % 2
        text = (HARD if hard else EASY)[number // 2 % 2].format(number, number * 7 % 31)
        good = [int(not hard or place > 0) for place in range(len(workers))]
        rows.append((f"{name}-{number}", f"group{number // 2 % 2}", f"{name}{number}", text, *good))
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / f"{name}.csv.gz", "wt", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("id", "group", "qhash", "text", *(f"m:{worker}" for worker in workers)))
        table.writerows(rows)


def train(data: Path, out: Path, cache: Path, *more: str) -> str:
    """Run the command, and return what it says."""
    command = [sys.executable, "-I", str(ROOT / "scripts" / "train_router.py")]
    kinds = cache.with_name("kinds.csv")
    kinds.write_text("kind,text\n" + "".join(f"{kind},a text of {kind}\n" for kind in KINDS))
    options = ["--data", str(data), "--out", str(out), "--vectors", str(cache)]
    options += ["--kinds", str(kinds), *more]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shelf") / "vectors.npz"


def test_a_small_sample_twice(tmp_path: Path, cache: Path) -> None:
    write(tmp_path / "data" / "deep", "sums", 80, ("tiny-1b", "huge-70b"))
    said = train(tmp_path / "data", tmp_path / "one", cache, "--seed", "3")
    assert said.startswith("80 questions")
    train(tmp_path / "data", tmp_path / "two", cache, "--seed", "3")
    train(tmp_path / "data", tmp_path / "two", cache, "--lengths")
    for name in WRITTEN:
        one, two = ((tmp_path / folder / name).read_bytes() for folder in ("one", "two"))
        assert one == two, name
    model = RouterModel.load(tmp_path / "one")
    local, cloud = Candidate("tiny-1b"), Candidate("huge-70b", outside=True)
    texts = [part.format(1234, 9) for part in (*EASY, *HARD)]
    gain = rank(model, texts, local, cloud)
    assert gain[2:].min() > gain[:2].max() + 0.2
    skills = json.loads((tmp_path / "one" / "skills.json").read_text("utf-8"))
    assert skills


def test_no_data_is_said(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(AssertionError, match=r"There is no \*\.csv\.gz"):
        train(tmp_path, tmp_path / "out", cache)
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_other_files_workers_and_groups(tmp_path: Path, cache: Path) -> None:
    write(tmp_path / "data", "new", 300, ("somebody", "else-3b", "third-9b"))
    write(tmp_path / "data", "lonely", 30, ("alone-2b",))
    write(tmp_path / "data", "mathl5", 40, ("tiny-1b", "huge-70b"))
    for seed in ("0", "1"):
        train(tmp_path / "data", tmp_path / seed, cache, "--seed", seed)
    first, second = (RouterModel.load(tmp_path / seed) for seed in ("0", "1"))
    assert {block.name for block in first.first_stage.sets} == {"new", "lonely", "mathl5"}
    shown = {first.first_stage.sets[place].name for place in first.first_stage.points.origin}
    assert shown == {"new", "lonely"}
    pair = (Candidate("x"), Candidate("y-70b"))
    gains = [
        rank(model, [EASY[0].format(1, 2), HARD[0].format(3, 4)], *pair)
        for model in (first, second)
    ]
    assert np.isfinite(gains).all()


def test_what_no_worker_was_found_good_at_is_left_out() -> None:
    rows = routing_rows.from_columns("set", {
        "text": [f"question {n}" for n in range(8)],
        "group": ["graded oddly", "usual"] * 4,
        **{f"m:{n}": ["0.1", "0.9"] * 4 for n in range(5)},
    })  # fmt: skip
    assert set(train_router.usable(rows).groups) == {"usual"}
    few = replace(rows, quality=dict(list(rows.quality.items())[:2]))
    assert len(train_router.usable(few)) == 8, "two workers may both be bad at something"


def test_only_visible_answers_of_workers_that_chat_have_a_length() -> None:
    rows = routing_rows.from_columns("set", {
        "text": ["a", "b", "c"],
        "l:chats": ["300", "0", ""], "l:also": ["", "6000", "3"], "l:other-base": ["9", "9", "9"],
    })  # fmt: skip
    found = train_router.known_answers(rows)
    assert list(zip(found.workers, found.rows, found.tokens, strict=True)) == [
        ("also", 1, 2000.0),
        ("also", 2, 1.0),
        ("chats", 0, 100.0),
    ]


def test_longer_answers_are_expected_to_questions_like_those_that_had_them() -> None:
    texts = [part.format(n, n * 7 % 31) for n in range(12) for part in (*EASY, *HARD)]
    written = ["300", "300", "3000", "3000"] * 12
    rows = routing_rows.from_columns("set", {"text": texts, "l:huge-70b": written})
    basis = FirstStage.load(train_router.SHIPPED).basis
    cache = train_router.VectorCache(None)
    head = train_router.length_head([rows], cache, basis)
    new = [part.format(1234, 9) for part in (*EASY, *HARD)]
    most = head.p99(basis.design(cache.vectors(new), train_router.figures(new)))
    assert most[:2].max() < 400 < most[2:].min()
