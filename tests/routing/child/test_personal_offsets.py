"""What a person's own answers teach, of any kind."""

from __future__ import annotations

import hashlib
import math
import random
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from baton.core.routing_types import Candidate, RatedAnswer, RefitResult
from baton.routing.child import RouterFileError
from baton.routing.child.personal_offsets import (
    APART_MOST,
    LEVEL_MORE,
    LEVEL_MOST,
    PersonalOffsets,
    SeenTexts,
    UnpersonalisedRouter,
    learn_offsets,
)
from baton.routing.child.second_stage import Floats

SMALL = Candidate("small", "llama-3.1-8b", 8.0)
OTHER = Candidate("other", "gemma-2-9b", 9.0)
BIG = Candidate("big", "gpt-4o", outside=True, dollars=10.0)
ALL = (SMALL, OTHER, BIG)

SUBJECTS = ("sums", "poems", "code", "history", "law", "letters")


def prompt(subject: str, number: int) -> str:
    """Return a prompt; the longer ones are harder."""
    return f"{subject} {number}: " + "and then " * (number % 20)


VARIED = [prompt(subject, number) for subject in SUBJECTS for number in range(100, 140)]


class HashedStage:
    """Texts by their first word and their length; what is expected falls with the length."""

    def read_texts(self, texts: Sequence[str]) -> SeenTexts:
        vectors = np.zeros((len(texts), 24))
        kinds = np.full((len(texts), 12), 0.02)
        for row, text in enumerate(texts):
            word = (text.split() or [""])[0].encode("utf-8", "replace")
            digest = hashlib.sha256(word).digest()
            vectors[row] = np.array([digest[k] / 128.0 - 1.0 for k in range(24)])
            vectors[row] /= np.linalg.norm(vectors[row]) + 1e-9
            kinds[row, digest[0] % 12] = 0.78
        figures = np.array([[min(4.0, len(text) / 60.0 - 1.5)] for text in texts]).reshape(-1, 1)
        return SeenTexts(vectors, figures, kinds)

    def expected_quality(self, texts: SeenTexts, candidate: Candidate) -> Floats:
        easy = {"small": 0.62, "other": 0.66, "big": 0.9}[candidate.id]
        slope = {"small": 0.2, "other": 0.18, "big": 0.05}[candidate.id]
        return np.clip(easy - slope * texts.figures[:, 0], 0.02, 0.98)


STAGE: UnpersonalisedRouter = HashedStage()


def sent_share(personal: PersonalOffsets) -> float:
    """Return the share of varied prompts that the engine's rule finds worth sending."""
    texts = STAGE.read_texts(VARIED)
    now = {c.id: personal.adjusted_quality(STAGE.expected_quality(texts, c), texts, c) for c in ALL}
    return float(((now["small"] < 0.5) & (now["big"] - now["small"] > 0.2)).mean())


def learn(rated: Sequence[RatedAnswer], folder: Path) -> tuple[RefitResult, PersonalOffsets]:
    target = folder / "learned.npz"
    learned = learn_offsets(STAGE, rated, target)
    assert target.exists() is learned.kept
    return learned, PersonalOffsets.load(target) if learned.kept else PersonalOffsets()


def rated_answers(
    count: int, good: object, worker: Candidate = SMALL, seed: int = 0
) -> list[RatedAnswer]:
    """Return labels of that many prompts; `good` is a value, or says one by subject and number."""
    dice = random.Random(seed)
    found = []
    for number in range(count):
        subject = SUBJECTS[dice.randrange(len(SUBJECTS))]
        value = good(subject, number, dice) if callable(good) else good
        found.append(RatedAnswer(prompt(subject, number), worker, float(value), at=1.7e9 + number))  # type: ignore[arg-type]
    return found


# It learns


def poems_are_bad(subject: str, number: int, dice: random.Random) -> float:
    return float(dice.random() < (0.15 if subject == "poems" else 0.85))


def test_it_learns_where_a_worker_is_bad(tmp_path: Path) -> None:
    learned, personal = learn(rated_answers(300, poems_are_bad), tmp_path)
    assert learned.kept
    assert learned.after < learned.before - 0.02
    assert learned.used == learned.held == 300
    poems = STAGE.read_texts([text for text in VARIED if text.startswith("poems")])
    rest = STAGE.read_texts([text for text in VARIED if not text.startswith("poems")])
    for texts, up in ((poems, False), (rest, True)):
        before = STAGE.expected_quality(texts, SMALL)
        after = personal.adjusted_quality(before, texts, SMALL)
        assert bool(after.mean() > before.mean()) is up
        assert np.array_equal(personal.adjusted_quality(before, texts, BIG), before)


def test_several_workers_are_learned_at_once(tmp_path: Path) -> None:
    both = rated_answers(100, poems_are_bad) + rated_answers(100, lambda s, n, d: s != "code", BIG)
    learned, personal = learn(both, tmp_path)
    assert learned.kept
    assert personal.workers == ("gpt-4o", "llama-3.1-8b")
    assert [note.split(":")[0] for note in learned.notes] == ["big", "small"]


def test_it_is_the_worker_by_any_name(tmp_path: Path) -> None:
    _, personal = learn(rated_answers(300, poems_are_bad), tmp_path)
    packed = Candidate("mine", "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf")
    texts = STAGE.read_texts(VARIED)
    before = STAGE.expected_quality(texts, SMALL)
    assert not np.array_equal(personal.adjusted_quality(before, texts, packed), before)


def test_chance_teaches_nothing(tmp_path: Path) -> None:
    kept = 0
    for seed in range(10):
        dice = np.random.default_rng(seed)
        texts = [prompt(SUBJECTS[number % 6], number) for number in range(120)]
        chances = STAGE.expected_quality(STAGE.read_texts(texts), SMALL)
        labels = [
            RatedAnswer(text, SMALL, float(dice.random() < chance))
            for text, chance in zip(texts, chances, strict=True)
        ]
        kept += learn_offsets(STAGE, labels, tmp_path / f"{seed}.npz").kept
    assert kept <= 3


def test_too_few_change_nothing(tmp_path: Path) -> None:
    for labels in ([], rated_answers(5, 0.0)):
        learned, _ = learn(labels, tmp_path)
        assert not learned.kept
        assert learned.notes


def test_the_same_labels_teach_the_same(tmp_path: Path) -> None:
    labels = rated_answers(100, poems_are_bad)
    first = learn_offsets(STAGE, labels, tmp_path / "a.npz")
    again = learn_offsets(STAGE, labels[::-1], tmp_path / "b.npz")
    assert first == again
    one, other = PersonalOffsets.load(tmp_path / "a.npz"), PersonalOffsets.load(tmp_path / "b.npz")
    assert np.array_equal(one.worth, other.worth)


# With any history


def _chaos(_: str, number: int, dice: random.Random) -> float:
    return (0.0, 1.0, math.nan, math.inf, -5.0, 7.0)[number % 6]


HISTORIES: dict[str, list[RatedAnswer]] = {
    "all thumbs down": rated_answers(500, 0.0),
    "all thumbs up": rated_answers(500, 1.0),
    "all down for local, all up for cloud": rated_answers(400, 0.0) + rated_answers(400, 1.0, BIG),
    "all up for local, all down for cloud": rated_answers(400, 1.0) + rated_answers(400, 0.0, BIG),
    "contradictory": rated_answers(300, 0.0) + rated_answers(300, 1.0),
    "at random": rated_answers(500, lambda s, n, d: d.random() < 0.5),
    "one prompt 10,000 times": [RatedAnswer("sums 1", SMALL, 0.0)] * 10_000,
    "one prompt 10,000 times among others": rated_answers(50, 1.0)
    + [RatedAnswer(prompt("sums", 3), SMALL, 0.0)] * 10_000,
    "empty texts": [RatedAnswer("", SMALL, 0.0), RatedAnswer(" \n", BIG, 1.0)] * 200,
    "huge texts": [RatedAnswer(f"law {n} " + "x" * 200_000, SMALL, 0.0) for n in range(20)],
    "one worker only, the cloud one": rated_answers(500, 0.0, BIG),
    "from the future, from the past": [
        RatedAnswer(prompt("code", n), SMALL, 0.0, at=(4e12, -1e12, math.nan, math.inf)[n % 4])
        for n in range(400)
    ],
    "weights of any kind": [
        RatedAnswer(
            prompt("code", n), SMALL, 0.0, weight=(math.nan, math.inf, -1.0, 1e300, 0.0)[n % 5]
        )
        for n in range(400)
    ],
    "any values": rated_answers(600, _chaos),
    "almost all down": rated_answers(600, lambda s, n, d: d.random() < 0.05),
    "almost all up": rated_answers(600, lambda s, n, d: d.random() < 0.95),
    "the hard ones up, the easy ones down": rated_answers(600, lambda s, n, d: float(n % 20 > 9)),
    "broken letters": [RatedAnswer(f"poems \ud800\x00 {n}", SMALL, 0.0) for n in range(60)],
}


@pytest.mark.parametrize("name", HISTORIES)
def test_no_history_sends_everything_to_the_cloud_or_nothing_ever(
    name: str, tmp_path: Path
) -> None:
    assert 0.1 < sent_share(PersonalOffsets()) < 0.9
    learned, personal = learn(HISTORIES[name], tmp_path)
    assert 0.0 < sent_share(personal) < 1.0
    assert math.isfinite(learned.before + learned.after)
    texts = STAGE.read_texts(VARIED)
    for worker in ALL:
        before = STAGE.expected_quality(texts, worker)
        after = personal.adjusted_quality(before, texts, worker)
        most = LEVEL_MOST + LEVEL_MORE + APART_MOST
        assert np.abs(after - before).max() <= most + 1e-9
        if len({one.good for one in HISTORIES[name]}) == 1:
            assert np.abs(after - before).max() <= LEVEL_MOST + 1e-6
            assert np.unique(after).size > 0.9 * np.unique(before).size


def test_one_prompt_however_often_counts_a_few_times(tmp_path: Path) -> None:
    few, _ = learn([RatedAnswer("sums 1", SMALL, 0.0)] * 10_000, tmp_path)
    assert not few.kept
    usual = rated_answers(100, poems_are_bad)
    often = usual + [RatedAnswer(prompt("sums", 3), SMALL, 0.0)] * 10_000
    texts = STAGE.read_texts(VARIED)
    before = STAGE.expected_quality(texts, SMALL)
    one, other = (learn(labels, tmp_path)[1] for labels in (usual, often))
    difference = one.adjusted_quality(before, texts, SMALL) - other.adjusted_quality(
        before, texts, SMALL
    )
    assert np.abs(difference).max() < 0.1


# Its file


def test_its_file_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "learned.npz"
    target.write_bytes(b"what was there")
    assert not learn_offsets(STAGE, rated_answers(5, 0.0), target).kept
    assert target.read_bytes() == b"what was there"
    assert learn_offsets(STAGE, rated_answers(300, poems_are_bad), target).kept
    assert [path.name for path in tmp_path.iterdir()] == ["learned.npz"]
    assert PersonalOffsets.load(target).workers == ("llama-3.1-8b",)
    assert not stat.S_IMODE(target.stat().st_mode) & 0o077
    with pytest.raises(OSError, match="nowhere"):
        learn_offsets(
            STAGE, rated_answers(300, poems_are_bad), tmp_path / "nowhere" / "learned.npz"
        )


@pytest.mark.parametrize("harm", ["empty", "half", "text", "other", "nan"])
def test_a_broken_file_is_distinguished(harm: str, tmp_path: Path) -> None:
    target = tmp_path / "learned.npz"
    assert learn_offsets(STAGE, rated_answers(300, poems_are_bad), target).kept
    whole = target.read_bytes()
    if harm == "nan":
        fitted = PersonalOffsets.load(target)
        PersonalOffsets(fitted.workers, fitted.level * np.nan, fitted.worth).save(target)
    elif harm == "other":
        np.savez(target, level=np.zeros(1))
    else:
        target.write_bytes({"empty": b"", "half": whole[: len(whole) // 2]}.get(harm, b"hello"))
    with pytest.raises(RouterFileError):
        PersonalOffsets.load(target)


def test_what_was_learned_on_another_encoder_moves_nothing(tmp_path: Path) -> None:
    _, personal = learn(rated_answers(300, poems_are_bad), tmp_path)
    texts = STAGE.read_texts(VARIED)
    other = SeenTexts(texts.vectors[:, :10], texts.figures, texts.kinds)
    before = STAGE.expected_quality(texts, SMALL)
    assert np.array_equal(personal.adjusted_quality(before, other, SMALL), before)
