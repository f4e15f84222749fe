"""The head that tells what kind of task a prompt is."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fit_heads import fit_kind_head
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.core.plan.plan import KINDS
from baton.routing.child import RouterFileError
from baton.routing.child.linear_heads import KindHead
from baton.routing.child.text_features import FEATURE_NAMES, Encoder, text_features

HERE = Path(__file__).resolve().parent
SHIPPED = HERE.parents[2] / "models" / "router" / "kinds.csv"


def read(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["text"], row["kind"]) for row in csv.DictReader(file)]


EXAMPLES = read(SHIPPED)
HELD_OUT = read(HERE / "kinds_heldout.csv")


@pytest.fixture(scope="module")
def head() -> KindHead:
    """A head fitted on the words and figures alone, so that no encoder is needed."""
    return fitted(EXAMPLES)


def fitted(examples: list[tuple[str, str]]) -> KindHead:
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


def test_prompts_in_another_style_are_known_by_their_words(head: KindHead) -> None:
    found = [(chances(head, text), kind) for text, kind in HELD_OUT]
    right = [max(told, key=told.__getitem__) == kind for told, kind in found]
    sure = [ok for ok, (told, _) in zip(right, found, strict=True) if max(told.values()) > 0.5]
    assert np.mean(right) > 0.55, "the rule by key words has .28"
    assert len(sure) > 90
    assert np.mean(sure) > 0.75, "and where it is sure, it mostly is right"


def test_the_same_examples_make_the_same_head(head: KindHead, tmp_path: Path) -> None:
    few = EXAMPLES[::12]
    one, two = fitted(few), fitted(few)
    assert np.array_equal(one.worth, two.worth)
    head.save(tmp_path)
    kept = KindHead.load(tmp_path)
    text, _ = HELD_OUT[0]
    assert chances(kept, text) == pytest.approx(chances(head, text), abs=0.01)
    assert (tmp_path / "kinds.npz").stat().st_size < 150_000


@settings(max_examples=60)
@given(text=st.text(max_size=400))
def test_any_text_has_chances(head: KindHead, text: str) -> None:
    told = chances(head, text)
    assert tuple(told) == KINDS
    assert sum(told.values()) == pytest.approx(1.0)
    assert min(told.values()) >= 0.0


@pytest.mark.parametrize("text", ["", "?", " \n" * 1000, "\ud800", "x" * 1_000_000, "\x00" * 99])
def test_odd_prompts_have_chances_too(head: KindHead, text: str) -> None:
    assert sum(chances(head, text).values()) == pytest.approx(1.0)


def test_a_wish_at_the_end_of_a_long_text_is_seen(head: KindHead) -> None:
    pasted = "The old bridge will be closed for two years as its cables are rusty. " * 40
    told = chances(head, pasted + "\nTranslate this into French please")
    assert max(told, key=told.__getitem__) == "translation"


@pytest.mark.parametrize("damage", ["absent", "torn", "wide", "nan"])
def test_a_broken_file_is_told_of(head: KindHead, tmp_path: Path, damage: str) -> None:
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
    folder = SHIPPED.parent
    head, some = KindHead.load(folder), HELD_OUT[::2]
    texts = [text for text, _ in some]
    figures = np.array([text_features(text) for text in texts], np.float64)
    vectors = Encoder(folder).vectors(texts).astype(np.float64)
    found = head.chances(texts, vectors, figures)
    right = [KINDS[place] == kind for place, (_, kind) in zip(found.argmax(1), some, strict=True)]
    assert np.mean(right) > 0.7, "of all that is held out .77, with noise of .04"
