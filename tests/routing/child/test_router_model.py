"""The shipped router as the scorer asks it."""

from __future__ import annotations

import csv
import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import fit_heads
import numpy as np
import pytest
from fit_heads import fit_kind_head
from head_files import save_kind_head, save_length_head
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from baton.core.plan_types import KINDS, Need
from baton.core.planning.token_estimates import TOKENS_P99
from baton.core.planning.turn_roles import (
    POSITION_FEATURES,
    WORKER_FEATURES,
    TurnPosition,
    TurnRole,
    WorkerFacts,
    position_features,
    scores_by_rule,
    worker_features,
)
from baton.core.routing_types import Candidate, Draft, Estimate
from baton.routing.child.first_stage import Floats, Places
from baton.routing.child.router_model import (
    DESIGN_COLUMNS,
    LENGTHS_FILE,
    POSITION,
    ROLES,
    TURN_SHAPE,
    TURNS_FILE,
    WORKER,
    KindHead,
    LengthHead,
    RouterFileError,
    RouterModel,
    SeenTexts,
    TurnHead,
)
from baton.routing.child.text_features import FEATURE_NAMES, WIDTH, Encoder, text_features

SHIPPED = Path(__file__).resolve().parents[3] / "models" / "router"
FILES = (
    "encoder.onnx", "tokenizer.json", "heads.json", "heads.npz", "kinds.npz", "lengths.npz",
    "agreement.json",
)  # fmt: skip

LOCAL = Candidate("local", "Llama-3.1-8B-Instruct-Q4_K_M.gguf", 8.0)
CLOUD = Candidate("cloud", "gpt-4o-2024-08-06", outside=True, dollars=10.0)
UNKNOWN = Candidate("unknown")
EVERYONE = (LOCAL, CLOUD, UNKNOWN)


@pytest.fixture(scope="module")
def model() -> RouterModel:
    return RouterModel.load(SHIPPED)


def check(found: Estimate) -> None:
    """Assert what holds of any estimate."""
    assert set(found.kinds) == set(KINDS)
    assert sum(found.kinds.values()) == pytest.approx(1.0)
    for chances in (found.kinds, found.quality, found.nearby):
        assert all(0.0 <= chance <= 1.0 for chance in chances.values())
    assert set(found.quality) == set(found.gain) == {one.id for one in EVERYONE}
    assert all(-1.0 <= gain <= 1.0 for gain in found.gain.values())
    assert found.gain[LOCAL.id] == 0.0
    assert 0.0 <= found.novelty <= 1.0
    assert found.tokens >= 1
    assert 16 <= found.tokens_p99 <= 8192


@given(st.text(st.characters(codec=None), max_size=400))
@settings(max_examples=30, deadline=None)
def test_any_text_has_an_estimate(model: RouterModel, text: str) -> None:
    check(model.estimate(text, EVERYONE))


@pytest.mark.parametrize("text", ["", "?", "\0", "\ud800", "a" * 1_000_000, "字。" * 500_000])
def test_extreme_texts(model: RouterModel, text: str) -> None:
    check(model.estimate(text, EVERYONE))


def test_an_estimate_twice_is_the_same(model: RouterModel) -> None:
    text = "How many primes are there below 100?"
    assert model.estimate(text, EVERYONE) == RouterModel.load(SHIPPED).estimate(text, EVERYONE)


def test_texts_are_estimated_together_as_one_by_one(model: RouterModel) -> None:
    texts = ["Translate 'good morning' into Welsh.", "What is 3 + 4?", ""]
    single = [model.estimate(text, EVERYONE).gain[CLOUD.id] for text in texts]
    together = [one.gain[CLOUD.id] for one in model.estimates(texts, EVERYONE)]
    np.testing.assert_allclose(together, single, atol=1e-5)


def test_gain_and_quality_point_the_same_way(model: RouterModel) -> None:
    """On questions of many kinds; each is predicted by itself, so they are not equal."""
    texts = [
        "Hello!",
        "Let G be a finite group of order 45. Show that it is abelian.",
        "Write a limerick about a lighthouse keeper.",
        "A farmer has 17 sheep and all but 9 die. How many are left?",
        "Which enzyme unwinds DNA?\nA. Ligase\nB. Helicase\nC. Primase\nD. Polymerase",
    ]
    for text in texts:
        found = model.estimate(text, EVERYONE)
        assert found.gain[CLOUD.id] == pytest.approx(
            found.quality[CLOUD.id] - found.quality[LOCAL.id], abs=0.25
        )
    mean = np.mean([model.estimate(text, EVERYONE).gain[CLOUD.id] for text in texts])
    assert mean > 0.0


def test_hard_arithmetic_gains_more_than_a_simple_one(model: RouterModel) -> None:
    easy = "Tom has 3 apples and buys 2 more. How many apples does he have?"
    hard = (
        "A tank is filled by two pipes in 12 and 15 hours and emptied by a third in 20 hours. The"
        " first two are opened at 8 o'clock, the third two hours later, and the second is closed"
        " for an hour at noon. After the tank was full, a fifth of it leaks each hour. At what time"
        " is it half full again, and how much would each pipe have brought in by then?"
    )
    pair = (Candidate("mixtral-8x7b"), Candidate("gpt-4-1106"))
    first, second = (one.gain["gpt-4-1106"] for one in model.estimates([easy, hard], pair))
    assert second > first


def test_the_longest_answer_is_estimated_for_measured_workers_and_usual_for_the_rest(
    model: RouterModel,
) -> None:
    def expected(text: str) -> int:
        return model.estimate(text, []).tokens_p99

    choice = "Which enzyme unwinds DNA?\nA. Ligase\nB. Helicase\nC. Primase\nD. Polymerase"
    assert expected(choice) < 1000 < expected("Explain how DNA is copied in a cell.")
    simple = "Tom has 3 apples and buys 2 more. How many apples does he have?"
    hard = "Find all positive integers $n$ such that $n^4 + 4^n$ is prime. Prove your answer."
    assert expected(simple) < 1000 < expected(hard)
    essay = "Write an essay about the causes and the consequences of the French Revolution."
    assert expected(essay) > 2500


def test_the_fitted_length_counts_as_far_as_a_text_is_known(model: RouterModel) -> None:
    seen = model.read_texts(["Which enzyme unwinds DNA?\nA. Ligase\nB. Helicase\nC. Primase"])
    reading = model._read(seen)
    fitted = float(model._lengths.p99(model._design(seen))[0])
    usual = float(seen.kinds[0] @ np.array([TOKENS_P99[kind] for kind in KINDS]))

    def expected(novelty: float, row: SeenTexts = seen) -> float:
        shares = np.zeros_like(reading.shares)
        shares[:, -1] = novelty
        return float(model._tokens_p99(row, replace(reading, shares=shares))[0])

    assert expected(0.0) == pytest.approx(fitted)
    assert expected(1.0) == pytest.approx(usual)
    assert fitted < expected(0.5) < usual
    free = model.read_texts(["Which enzyme unwinds DNA, and how does it do so?"])
    sure = free.kinds[0][KINDS.index("math")]
    assert sure < 0.2
    assert expected(0.0, free) > 0.8 * TOKENS_P99["knowledge"], "no such answer was measured"


def test_no_candidates(model: RouterModel) -> None:
    found = model.estimate("Hello", [])
    assert found.quality == {}
    assert found.gain == {}


def test_likeness_and_vectors(model: RouterModel) -> None:
    table = model.likeness(["The cat sat down.", "A cat was sitting.", "Tax law of 1986"])
    assert [row[place] for place, row in enumerate(table)] == pytest.approx([1.0] * 3, abs=1e-4)
    assert table[0][1] > table[0][2]
    assert model.vectors(["a", "b"]).shape == (2, WIDTH)
    assert model.likeness([]) == []


def test_drafts_are_judged(model: RouterModel) -> None:
    drafts = [Draft("local", "It is 12.", "12", 9), Draft("unknown", "So, 12.", "12", 8)]
    judged = model.judge("What is 3 * 4?", EVERYONE, drafts, None)
    assert len(judged.quality) == 2
    assert judged.agreement == 1.0
    assert all(math.isfinite(gain) for gain in judged.gain.values())


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_folder_with_a_broken_file_is_refused(tmp_path: Path, name: str, damage: str) -> None:
    for own in FILES:
        if own != name:
            (tmp_path / own).symlink_to(SHIPPED / own)
    if damage == "cut":
        shutil.copyfile(SHIPPED / name, tmp_path / name)
        with (tmp_path / name).open("r+b") as file:
            file.truncate((SHIPPED / name).stat().st_size // 2)
    elif damage == "other":
        (tmp_path / name).write_bytes(b"\x00\xff{}")
    with pytest.raises(RouterFileError):
        RouterModel.load(tmp_path)


def test_no_question_of_the_mathematics_set_is_shipped(model: RouterModel) -> None:
    names = [block.name for block in model.first_stage.sets]
    shown = {names[place] for place in model.first_stage.points.origin}
    assert "zeroeval_mathl5" in names
    assert shown == set(names) - {"zeroeval_mathl5"}
    assert sum((SHIPPED / name).stat().st_size for name in FILES[2:]) < 3_500_000


# Its linear heads


HERE = Path(__file__).resolve().parent
LABELLED = HERE.parents[2] / "models" / "router" / "kinds.csv"


def read_kinds(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["text"], row["kind"]) for row in csv.DictReader(file)]


EXAMPLES = read_kinds(LABELLED)
HELD_OUT = read_kinds(HERE / "kinds_heldout.csv")


@pytest.fixture(scope="module")
def head() -> KindHead:
    """A head fitted on the words and figures alone, so that no encoder is needed."""
    return fit_head(EXAMPLES)


def fit_head(examples: list[tuple[str, str]]) -> KindHead:
    texts = [text for text, _ in examples]
    figures = np.array([text_features(text) for text in texts], np.float64)
    places = np.array([KINDS.index(kind) for _, kind in examples])
    return fit_kind_head(texts, np.zeros((len(texts), 1)), figures, places)


def chances(head: KindHead, text: str) -> dict[str, float]:
    [row] = head.chances([text], np.zeros((1, 1)), np.array([text_features(text)], np.float64))
    return dict(zip(KINDS, row.tolist(), strict=True))


def test_the_examples_are_many_different_and_of_every_kind() -> None:
    counts = Counter(kind for _, kind in EXAMPLES)
    assert set(counts) == set(KINDS)
    assert min(counts.values()) >= 90
    texts = [text for text, _ in (*EXAMPLES, *HELD_OUT)]
    assert len(set(texts)) == len(texts), "what is held out was not fitted on"
    assert Counter(Counter(kind for _, kind in HELD_OUT).values()) == {20: 12}
    foreign = [text for text, _ in EXAMPLES if not text.isascii()]
    assert len(foreign) > 250


@pytest.mark.sampled(0.5)
def test_prompts_in_another_style_are_known_by_their_words(head: KindHead) -> None:
    found = [(chances(head, text), kind) for text, kind in HELD_OUT]
    right = [max(likely, key=likely.__getitem__) == kind for likely, kind in found]
    sure = [ok for ok, (likely, _) in zip(right, found, strict=True) if max(likely.values()) > 0.5]
    assert np.mean(right) > 0.55, "the rule by key words has .28"
    assert len(sure) > 90
    assert np.mean(sure) > 0.75, "and where it is sure, it mostly is right"


def test_the_same_examples_make_the_same_head(head: KindHead, tmp_path: Path) -> None:
    few = EXAMPLES[::12]
    one, two = fit_head(few), fit_head(few)
    assert np.array_equal(one.worth, two.worth)
    save_kind_head(head, tmp_path)
    kept = KindHead.load(tmp_path)
    text, _ = HELD_OUT[0]
    assert chances(kept, text) == pytest.approx(chances(head, text), abs=0.01)
    assert (tmp_path / "kinds.npz").stat().st_size < 150_000


@settings(max_examples=60)
@given(text=st.text(max_size=400))
def test_any_text_has_chances(head: KindHead, text: str) -> None:
    likely = chances(head, text)
    assert tuple(likely) == KINDS
    assert sum(likely.values()) == pytest.approx(1.0)
    assert min(likely.values()) >= 0.0


@pytest.mark.parametrize("text", ["", "?", " \n" * 1000, "\ud800", "x" * 1_000_000, "\x00" * 99])
def test_odd_prompts_have_chances_too(head: KindHead, text: str) -> None:
    assert sum(chances(head, text).values()) == pytest.approx(1.0)


def test_a_wish_at_the_end_of_a_long_text_is_seen(head: KindHead) -> None:
    pasted = "The old bridge will be closed for two years as its cables are rusty. " * 40
    likely = chances(head, pasted + "\nTranslate this into French please")
    assert max(likely, key=likely.__getitem__) == "translation"


@pytest.mark.parametrize("damage", ["absent", "torn", "wide", "nan"])
def test_a_broken_file_is_reported(head: KindHead, tmp_path: Path, damage: str) -> None:
    save_kind_head(head, tmp_path)
    file = tmp_path / "kinds.npz"
    match damage:
        case "absent":
            file.unlink()
        case "torn":
            file.write_bytes(file.read_bytes()[:500])
        case "wide":
            np.savez(file, centre=head.centre, scale=head.scale, worth=head.worth[:, :5])
        case _:
            np.savez(file, centre=head.centre * np.nan, scale=head.scale, worth=head.worth)
    with pytest.raises(RouterFileError):
        KindHead.load(tmp_path)


def test_figures_are_as_many_as_the_head_was_fitted_on(head: KindHead) -> None:
    assert head.centre.shape == head.scale.shape == (len(FEATURE_NAMES),)


def test_the_shipped_head_knows_kinds_in_any_style() -> None:
    folder = LABELLED.parent
    head, some = KindHead.load(folder), HELD_OUT[::2]
    texts = [text for text, _ in some]
    figures = np.array([text_features(text) for text in texts], np.float64)
    vectors = Encoder(folder).vectors(texts).astype(np.float64)
    found = head.chances(texts, vectors, figures)
    right = [KINDS[place] == kind for place, (_, kind) in zip(found.argmax(1), some, strict=True)]
    assert np.mean(right) > 0.7, "of all that is held out .77, with noise of .04"


SHIPPED = Path(__file__).resolve().parents[3] / "models" / "router"
ANSWERS = 12
"""To each question of a sample."""


def sample(count: int, seed: int, columns: int = 40) -> tuple[Floats, Places, Floats, Places]:
    """Return answers whose length and whose spread depend on two columns of the design."""
    dice = np.random.default_rng(seed)
    design = np.hstack([np.ones((count, 1)), dice.normal(size=(count, columns))])
    questions = np.repeat(np.arange(count), ANSWERS)
    middle, spread = design[questions, 1], 0.3 + 0.1 * np.tanh(design[questions, 2])
    logs = 5.0 + 0.5 * middle + spread * dice.normal(size=len(questions))
    return design, questions, np.expm1(logs), np.arange(count) % fit_heads.FOLDS


@pytest.mark.parametrize("seed", range(3))
def test_99_of_100_answers_to_new_questions_are_no_longer(seed: int) -> None:
    head = fit_heads.fit_length_head(*sample(500, seed))
    design, questions, tokens, _ = sample(2000, seed + 10)
    most = head.p99(design)
    assert 0.98 <= (tokens <= most[questions]).mean() <= 0.995
    longer = design[:, 1] > 1
    assert most[longer].mean() > 1.5 * most[~longer].mean(), "and not by one figure for all"


def test_without_the_calibration_a_fit_covers_too_few() -> None:
    """Else what raises it would be for nothing."""
    design, questions, tokens, parts = sample(150, 0, columns=100)
    fitted = fit_heads._fit_quantile(design, questions, np.log1p(tokens))
    raised = fit_heads.fit_length_head(design, questions, tokens, parts)
    new, asked, written, _ = sample(2000, 1, columns=100)
    bare = (written <= LengthHead(fitted).p99(new)[asked]).mean()
    assert bare < 0.975 < (written <= raised.p99(new)[asked]).mean()


def test_without_answers_nothing_is_called_short() -> None:
    none = np.zeros(0, np.int64)
    head = fit_heads.fit_length_head(np.zeros((0, DESIGN_COLUMNS)), none, np.zeros(0), none)
    assert head.p99(np.ones((1, DESIGN_COLUMNS))) == pytest.approx([8192.0])


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    head = LengthHead(dice.normal(size=DESIGN_COLUMNS).astype(np.float32).astype(np.float64) / 64)
    save_length_head(head, tmp_path)
    again = LengthHead.load(tmp_path)
    assert np.array_equal(again.worth, head.worth)
    first = (tmp_path / LENGTHS_FILE).read_bytes()
    save_length_head(again, tmp_path)
    assert (tmp_path / LENGTHS_FILE).read_bytes() == first
    assert len(first) < 4000


@pytest.mark.parametrize("damage", ["absent", "torn", "short", "nan", "infinite", "other"])
def test_a_broken_file_is_refused(tmp_path: Path, damage: str) -> None:
    file = tmp_path / LENGTHS_FILE
    save_length_head(LengthHead(np.ones(DESIGN_COLUMNS)), tmp_path)
    match damage:
        case "absent":
            file.unlink()
        case "torn":
            file.write_bytes(file.read_bytes()[:300])
        case "short":
            np.savez(file, worth=np.ones(DESIGN_COLUMNS - 1))
        case "nan" | "infinite":
            np.savez(file, worth=np.full(DESIGN_COLUMNS, np.nan if damage == "nan" else np.inf))
        case _:
            np.savez(file, something=np.ones(DESIGN_COLUMNS))
    with pytest.raises(RouterFileError):
        LengthHead.load(tmp_path)


WILD = hnp.arrays(np.float64, (3, DESIGN_COLUMNS), elements=st.floats(width=64), fill=st.floats())


@settings(max_examples=60, deadline=None)
@given(WILD)
def test_any_figures_have_a_length(design: Floats) -> None:
    with np.errstate(all="ignore"):
        most = LengthHead.load(SHIPPED).p99(design)
    assert np.isfinite(most).all()
    assert ((most >= 15.9) & (most <= 8192.1)).all()
    unknown = np.isnan(design).any(axis=1)
    assert (most[unknown] > 8191).all(), "what is unknown is not called short"


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_a_larger_sum_is_never_a_shorter_answer(one: float, two: float) -> None:
    head = LengthHead(np.array([1.0]))
    shorter, longer = head.p99(np.array([[min(one, two)], [max(one, two)]]))
    assert shorter <= longer


VECTOR = np.zeros(WIDTH, np.float32)


def test_the_engine_gives_as_many_figures_as_the_head_takes() -> None:
    assert (len(TurnRole), POSITION_FEATURES, WORKER_FEATURES) == (ROLES, POSITION, WORKER)


def test_without_a_file_it_is_the_rule(tmp_path: Path) -> None:
    workers = [WorkerFacts(0.2, 1.0, 0.0), WorkerFacts(0.8, 4.0, 0.01, remote=True)]
    figures = [worker_features(worker, n, TurnPosition()) for n, worker in enumerate(workers)]
    position = position_features(TurnPosition(), Need("chat", 1))
    scores = TurnHead.load(tmp_path).scores(VECTOR, position, figures)
    assert np.allclose(scores, scores_by_rule(figures))
    assert scores[TurnRole.WORKER][1] < 0.8, "the price counts"


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).normal(size=TURN_SHAPE)
    np.savez_compressed(tmp_path / TURNS_FILE, head=weights)
    assert np.allclose(TurnHead.load(tmp_path).weights, weights, atol=1e-6)


@pytest.mark.parametrize("broken", [b"", b"PK", b"\x93NUMPY"])
def test_a_broken_file_is_named(tmp_path: Path, broken: bytes) -> None:
    (tmp_path / TURNS_FILE).write_bytes(broken)
    with pytest.raises(RouterFileError, match=TURNS_FILE):
        TurnHead.load(tmp_path)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    for weights in (np.zeros((2, 3)), np.full(TURN_SHAPE, np.nan)):
        np.savez(tmp_path / TURNS_FILE, head=weights)
        with pytest.raises(RouterFileError, match=r"another format|broken"):
            TurnHead.load(tmp_path)
