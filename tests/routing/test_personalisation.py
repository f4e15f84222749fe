"""Learning: what is handed on, what is kept of what comes back, and what a person sees of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from baton.core.errors import StoreError, WorkerError
from baton.core.history_types import AnswerSignals, Signal
from baton.core.routing_types import Candidate, RatedAnswer, RefitResult
from baton.routing.personalisation import (
    MAX_ANSWERS,
    MAX_EARLIER_VERSIONS,
    MIN_ANSWERS,
    STALE_SECONDS,
    LearnedVersions,
    Personaliser,
    forget,
    result_lines,
    undo,
)
from support.root_privileges import held_to_file_modes

SMALL = Candidate("small", "smollm2-135m", 0.135)
WORSE = RefitResult(12, 3, 0.2, 0.24, False, ("It did worse.",))


class KnownHistory:
    """A history in which so much is known of answers."""

    def __init__(self, *answers: AnswerSignals) -> None:
        self.answers = answers

    async def answered(self, limit: int) -> list[AnswerSignals]:
        return list(self.answers[:limit])

    async def signals_since(self, at: float) -> int:
        return sum(max(answer.signals.values()) > at for answer in self.answers)


def answers(count: int, signal: Signal = Signal.GOOD, worker: str = "small") -> list[AnswerSignals]:
    now = time.time()
    return [
        AnswerSignals(f"{n}", f"Prompt {n}", worker, {signal: now}, "chat") for n in range(count)
    ]


def write(target: Path, text: str) -> None:
    target.write_text(text)


class StubTrainer:
    """Writes the given result into the file, as if it had learned it."""

    def __init__(self, learned: RefitResult | None = None) -> None:
        self.learned = learned or RefitResult(12, 3, 0.2, 0.18, True, ("It trusts small more.",))
        self.seen: Sequence[RatedAnswer] = ()

    async def __call__(self, rated: Sequence[RatedAnswer], target: Path) -> RefitResult:
        self.seen = rated
        if self.learned.kept:
            write(target, f"numbers of {len(rated)} answers")
        return self.learned


@pytest.fixture
def versions(tmp_path: Path) -> LearnedVersions:
    return LearnedVersions(tmp_path / "router" / "learned.npz")


def make_personaliser(
    versions: LearnedVersions, trainer: StubTrainer, *known: AnswerSignals
) -> Personaliser:
    return Personaliser(KnownHistory(*known), lambda: [SMALL], trainer, versions)


async def test_too_few_answers_change_nothing(versions: LearnedVersions) -> None:
    trainer = StubTrainer()
    lesson = await make_personaliser(versions, trainer, *answers(MIN_ANSWERS - 1)).learn()
    assert not lesson.is_kept
    assert trainer.seen == ()
    assert not versions.file.parent.exists()
    lines = result_lines(lesson)
    assert (
        lines[0]
        == f"There are {MIN_ANSWERS - 1} answers to learn from: {MIN_ANSWERS - 1} you marked good."
    )
    assert f"It takes {MIN_ANSWERS}" in lines[1]
    assert "What counts: " in lines[2]
    gone = result_lines(
        await make_personaliser(versions, trainer, *answers(1, worker="gone")).learn()
    )
    assert gone[1] == "1 was written by tools or workers that are no longer here, and left out."
    [none, *_] = result_lines(await make_personaliser(versions, trainer).learn())
    assert none == "There is no answer to learn from yet."
    [one, *_] = result_lines(
        await make_personaliser(versions, trainer, *answers(1, Signal.COPIED)).learn()
    )
    assert one == "There is 1 answer to learn from: 1 you copied."


async def test_what_does_better_is_kept_and_can_be_taken_back(versions: LearnedVersions) -> None:
    trainer = StubTrainer()
    known = [*answers(8), *answers(4, Signal.AGAIN), *answers(3, worker="gone")]
    learning = make_personaliser(versions, trainer, *known)
    lesson = await learning.learn()
    assert lesson.is_kept
    assert (lesson.answers, lesson.left_out) == (12, 3)
    assert [(one.good, round(one.weight, 2)) for one in trainer.seen][7:9] == [(1, 1), (0, 0.4)]
    assert versions.file.read_text() == "numbers of 12 answers"
    assert result_lines(lesson) == [
        "There are 12 answers to learn from: 8 you marked good, 4 you wanted again.",
        "3 more were written by tools or workers that are no longer here, and left out.",
        "It trusts small more.",
        "Tried on 3 that it had not seen: its mistake is 0.180, and 0.200 as it came "
        "(0 is always right, 0.25 a coin toss).",
    ]
    assert await learning.count_new_answers() == 0
    await learning.learn()
    assert "counts again" in learning.undo()
    assert "as it came" in learning.undo()
    assert "nothing to undo" in undo(versions)
    await learning.learn()
    assert "as it came" in learning.forget()
    assert "nothing to forget" in forget(versions)
    assert list(versions.file.parent.iterdir()) == []


async def test_what_does_worse_is_not_kept(versions: LearnedVersions) -> None:
    before = await make_personaliser(versions, StubTrainer(), *answers(12)).learn()
    assert before.is_kept
    lesson = await make_personaliser(versions, StubTrainer(WORSE), *answers(20)).learn()
    assert not lesson.is_kept
    assert versions.file.read_text() == "numbers of 12 answers"
    assert result_lines(lesson)[-1] == "Nothing was changed: prompts go where they went before."
    assert list(versions.file.parent.iterdir()) == [versions.file]


async def test_a_look_keeps_nothing(versions: LearnedVersions) -> None:
    lesson = await make_personaliser(versions, StubTrainer(), *answers(12)).learn(dry=True)
    assert not lesson.is_kept
    assert result_lines(lesson)[-1] == "Nothing was kept: this was only a look."
    assert list(versions.file.parent.iterdir()) == []


async def test_a_trainer_that_fails_leaves_all_as_it_was(versions: LearnedVersions) -> None:
    await make_personaliser(versions, StubTrainer(), *answers(12)).learn()

    async def dying(rated: Sequence[RatedAnswer], target: Path) -> RefitResult:
        write(target, "half of it")
        raise WorkerError("The router crashed.")

    learning = Personaliser(KnownHistory(*answers(20)), lambda: [SMALL], dying, versions)
    with pytest.raises(WorkerError):
        await learning.learn()
    assert versions.file.read_text() == "numbers of 12 answers"
    assert list(versions.file.parent.iterdir()) == [versions.file]


async def test_only_the_newest_answers_are_looked_at(versions: LearnedVersions) -> None:
    trainer = StubTrainer()
    await make_personaliser(versions, trainer, *answers(MAX_ANSWERS + 50)).learn()
    assert len(trainer.seen) == MAX_ANSWERS


async def test_what_is_new_counts_from_the_last_time(versions: LearnedVersions) -> None:
    learning = make_personaliser(versions, StubTrainer(), *answers(12))
    assert await learning.count_new_answers() == 12
    await learning.learn()
    assert await learning.count_new_answers() == 0


def learn(versions: LearnedVersions, what: str) -> None:
    draft = versions.create_draft()
    draft.write_text(what)
    versions.keep(draft)
    versions.discard(draft)


def test_every_version_can_be_gone_back_to(versions: LearnedVersions) -> None:
    assert not versions.undo()
    for what in "abc":
        learn(versions, what)
    found = [versions.file.read_text()]
    while versions.undo():
        found.append(versions.file.read_text() if versions.learned_at is not None else "as it came")
    assert found == ["c", "b", "a", "as it came"]
    assert list(versions.file.parent.iterdir()) == []


def test_so_many_versions_are_kept_and_no_more(versions: LearnedVersions) -> None:
    for number in range(MAX_EARLIER_VERSIONS + 3):
        learn(versions, str(number))
    assert len(versions.earlier) == MAX_EARLIER_VERSIONS
    found = []
    while versions.learned_at is not None:
        found.append(versions.file.read_text())
        versions.undo()
    assert found == ["7", "6", "5", "4", "3", "2"]


def test_a_draft_begins_as_what_there_is_and_leaves_it_alone(versions: LearnedVersions) -> None:
    assert not versions.create_draft().exists(), (
        "so that the shipped heads are what it is compared with"
    )
    learn(versions, "a")
    os.utime(versions.file, (1.0, 1.0))
    draft = versions.create_draft()
    assert draft.read_text() == "a"
    assert not draft.stat().st_mode & 0o077
    draft.write_text("worse")
    versions.discard(draft)
    assert versions.file.read_text() == "a"
    learn(versions, "b")
    versions.undo()
    assert versions.learned_at == 1.0, "a router that runs sees by the time that it is another"


def test_forgetting_leaves_nothing(versions: LearnedVersions) -> None:
    assert versions.forget() == 0
    for what in "abc":
        learn(versions, what)
    versions.create_draft()
    assert versions.forget() == 3
    assert list(versions.file.parent.iterdir()) == []


def test_what_a_killed_baton_had_begun_is_removed_in_time(versions: LearnedVersions) -> None:
    learn(versions, "a")
    left, fresh = versions.create_draft(), versions.create_draft()
    os.utime(left, (left.stat().st_mtime - STALE_SECONDS - 60,) * 2)
    os.utime(fresh)
    versions.create_draft()
    assert not left.exists()
    assert fresh.exists()


def test_two_at_once_lose_nothing_but_the_earlier_ones_place(versions: LearnedVersions) -> None:
    learn(versions, "first")
    code = """
import sys
from pathlib import Path
from baton.routing.personalisation import LearnedVersions
versions = LearnedVersions(Path(sys.argv[1]))
for number in range(30):
    draft = versions.create_draft()
    draft.write_text(sys.argv[2] * 1000)
    versions.keep(draft)
    versions.discard(draft)
"""
    args = [sys.executable, "-c", code, str(versions.file)]
    both = [subprocess.Popen([*args, name]) for name in "xy"]
    assert [child.wait(60) for child in both] == [0, 0]
    for path in (versions.file, *versions.earlier):
        assert path.read_text() in ("x" * 1000, "y" * 1000)
    assert len(versions.earlier) == MAX_EARLIER_VERSIONS
    assert not list(versions.file.parent.glob("new-*"))


@held_to_file_modes()
def test_a_folder_that_takes_nothing_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="can't be kept"):
        LearnedVersions(tmp_path / "router" / "learned.npz").create_draft()


def test_a_file_in_the_folders_place_is_reported(tmp_path: Path) -> None:
    (tmp_path / "router").write_text("a file")
    with pytest.raises(StoreError, match="can't be kept"):
        LearnedVersions(tmp_path / "router" / "learned.npz").create_draft()
