"""The head that says what kind of task a prompt is."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import fit_heads
import numpy as np
import pytest
from fit_heads import fit_kind_head
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from baton.core.plan_types import KINDS, Need
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
from baton.routing.child import RouterFileError
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
    TurnHead,
)
from baton.routing.child.text_features import FEATURE_NAMES, WIDTH, Encoder, text_features

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
    head.save(tmp_path)
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
    head.save(tmp_path)
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
    head.save(tmp_path)
    again = LengthHead.load(tmp_path)
    assert np.array_equal(again.worth, head.worth)
    first = (tmp_path / LENGTHS_FILE).read_bytes()
    again.save(tmp_path)
    assert (tmp_path / LENGTHS_FILE).read_bytes() == first
    assert len(first) < 4000


@pytest.mark.parametrize("damage", ["absent", "torn", "short", "nan", "infinite", "other"])
def test_a_broken_file_is_refused(tmp_path: Path, damage: str) -> None:
    file = tmp_path / LENGTHS_FILE
    LengthHead(np.ones(DESIGN_COLUMNS)).save(tmp_path)
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
    TurnHead(weights).save(tmp_path)
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
