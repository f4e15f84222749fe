"""Which learner predicts a user's next answers better, from the same marks.

    .venv/bin/python -P scripts/lab/compare_learners.py --data DIR --vectors FILE.npz

A simulated user asks questions with known outcomes (scripts/routing_rows.py), one after the other.
Workers answer them, the default one most often, and the outcome is the mark; one mark in ten is
wrong. After N marks each learner says of the user's next prompts how likely each worker is right.
The router that it starts from never saw these questions (`known`), their whole set (`new set`) or
these workers (`new worker`). `everyday` are the answers of the starter model to everyday prompts.

Printed are, averaged over users: the log loss and the AUROC of "this answer is right" over all
workers, the APGR of the gain between the default worker and the best one, and how good the answers
are if for each prompt the worker with the best chance is asked ("choice").
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "training" / "router"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import routing_rows as rr
from bench_router import fast_model
from ridge_regression import fit_offsets, rows_of
from routing_pairs import GPT4O, LLAMA, MANY, NEMOTRON, PRO, QWEN
from routing_rows import Floats, Holdout, Rows
from train_router import SHIPPED, VectorCache

from baton.core.history_types import GradedAnswer
from baton.core.labels import Label
from baton.core.messages import Card, Role, Turn, TurnStatus
from baton.core.model_names import matching_model
from baton.core.plan_types import Material, Need
from baton.core.planning.assignment import success_chance
from baton.core.planning.skill_table import Scores, _are_similar, skill_levels
from baton.core.routing_types import Candidate, Estimate
from baton.core.run.rule_router import routed
from baton.routing.child.router_model import RouterModel
from baton.routing.learned_router import candidate
from baton.routing.scorer_process import read_scores

SCRIPTS = Path(__file__).resolve().parents[1]

COUNTS = (20, 50, 100, 200)
"""After how many marks is compared."""

TESTED = 400
"""How many next prompts of a user are predicted."""

DEFAULT_SHARE = 0.6
"""How many of the marked answers the default worker wrote; the others wrote as many each."""

WRONG_MARKS = 0.1

PRO_ROSTER = (LLAMA, "mixtral-8x7b-instruct", "qwen1.5-7b-chat", "gemini-1.5-pro-002")
MANY_ROSTER = (QWEN, LLAMA, "gemma-2-9b-it", NEMOTRON)
NEW_WORKERS = frozenset({LLAMA, QWEN, "gemma-2-9b-it", GPT4O, "mixtral-8x7b-instruct"})
"""Left out of the training of `new worker`: all of MANY_ROSTER but the best, two of PRO_ROSTER."""


@dataclass(frozen=True)
class Prompts:
    """Questions of one user in the order of asking, and what of them is known before any mark."""

    texts: tuple[str, ...]
    quality: Floats
    """How good each worker's answer is, 0 to 1: a row for each question, a column a worker."""
    needs: tuple[Need, ...]
    before: tuple[Estimate, ...]


@dataclass(frozen=True)
class Mark:
    """One marked answer: the place of its question and of its worker, and whether it is good."""

    row: int
    worker: int
    good: float


@dataclass(frozen=True)
class Setting:
    """A router and the workers of a user; the first is the default one, the last the best."""

    name: str
    model: RouterModel
    cards: tuple[Card, ...]
    scores: Scores
    rows: Rows

    def candidates(self, own: Sequence[GradedAnswer]) -> list[Candidate]:
        """Return the workers as the router sees them after some of the user's own answers."""
        return [
            candidate(replace(card, skills=skill_levels(card, self.scores, own)))
            for card in self.cards
        ]


@dataclass(frozen=True)
class Predicted:
    """What a learner says of prompts: each worker's chance, and the gain of the best one."""

    chances: Floats
    gain: Floats


Learner = Callable[[Setting, Prompts, Sequence[Mark], Sequence[int]], Predicted]
"""Returns what is expected of the prompts at some places, after some marks."""


def main() -> None:
    """Compare, and print a table for each setting and one of all."""
    options = argparse.ArgumentParser(description="Compares learners on a user's marks.")
    options.add_argument("--data", type=Path, required=True, help="questions with outcomes")
    options.add_argument("--vectors", type=Path, help="keep the texts' vectors in this file")
    options.add_argument("--users", type=int, default=5, help="how many users of each setting")
    chosen = options.parse_args()
    cache = VectorCache(chosen.vectors)
    found: dict[tuple[str, int, str], list[Figures]] = defaultdict(list)
    for setting in settings(rr.read_folder(chosen.data), cache):
        for seed in range(chosen.users):
            for count, name, figures in compare(setting, seed):
                found[setting.name, count, name].append(figures)
        print("\n".join(table(found, setting.name)), flush=True)
    print("\n".join(table(found, "")))


def settings(data: Sequence[Rows], cache: VectorCache) -> Iterator[Setting]:
    """Return what is compared; each router is fitted without what its users ask, or of whom."""
    shipped = read_scores(SHIPPED)
    for where, holdout in (
        ("known", Holdout()),
        ("new set", None),
        ("new worker", Holdout(workers=NEW_WORKERS)),
    ):
        fitted: dict[Holdout, RouterModel] = {}
        for file, roster in ((PRO, PRO_ROSTER), (MANY, MANY_ROSTER)):
            out = holdout or Holdout(0.0, files=frozenset({file}))
            visible, hidden = rr.split(data, "learners", out)
            rows = next(rows for rows in hidden if rows.name == file).known(*roster)
            if out not in fitted:
                fitted[out] = fast_model(data, visible, 0, cache)
                cache.keep()
            model = fitted[out]
            scores = {
                name: kinds
                for name, kinds in shipped.items()
                if not matching_model(name, out.workers)
            }
            yield Setting(f"{where}: {file}", model, tuple(map(card, roster)), scores, rows)
    yield everyday(shipped, cache)


def card(worker: str) -> Card:
    """Return a worker of which nothing is known but its name."""
    is_remote = worker in (NEMOTRON, "gemini-1.5-pro-002")
    return Card(worker, "cloud" if is_remote else "local", worker, model=worker, remote=is_remote)


def everyday(scores: Scores, cache: VectorCache) -> Setting:
    """Return the starter model's answers to everyday prompts, with the router as shipped."""
    folder = SCRIPTS / "training" / "router"
    lines = {
        name: [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines() if line]
        for name in ("everyday.jsonl", "everyday_outcomes.jsonl")
    }
    texts = {one["id"]: one["prompt"] for one in lines["everyday.jsonl"]}
    alone = [one for one in lines["everyday_outcomes.jsonl"] if one["workers"] == ["small"]]
    rows = rr.from_columns(
        "everyday",
        {
            "text": [texts[one["id"]] for one in alone],
            "m:small": [str(float(one["right"])) for one in alone],
        },
    )
    model = RouterModel.load(SHIPPED)
    model._encoder = cache  # type: ignore[assignment]
    starter = Card("small", "local", "SmolLM2 135M", parameters=135_000_000,
                   model="SmolLM2-135M-Instruct")  # fmt: skip
    return Setting("everyday", model, (starter,), scores, rows)


def compare(setting: Setting, seed: int) -> Iterator[tuple[int, str, Figures]]:
    """Return for one user what each learner reaches after each number of marks."""
    random = np.random.default_rng(seed)
    began = time.monotonic()
    prompts = ask(setting, random)
    marks = [*mark(prompts, random)]
    for count in COUNTS:
        tested = range(max(COUNTS), len(prompts.texts))
        if len(tested) < 100:
            tested = range(count, len(prompts.texts))
        if len(tested) < 50:
            continue
        for name, learner in LEARNERS.items():
            predicted = learner(setting, prompts, marks[:count], tested)
            yield count, name, Figures.of(predicted, prompts.quality[list(tested)])
    print(f"{setting.name}, user {seed}: {time.monotonic() - began:.0f} s", file=sys.stderr)


def ask(setting: Setting, random: np.random.Generator) -> Prompts:
    """Return the prompts of a user, and what the router as shipped expects of them."""
    order = random.permutation(len(setting.rows))[: max(COUNTS) + TESTED]
    rows = setting.rows.take(order)
    before = setting.model.estimates(rows.texts, setting.candidates(()))
    quality = np.column_stack([rows.quality[card.id] for card in setting.cards])
    needs = []
    for text, estimate in zip(rows.texts, before, strict=True):
        turn = Turn("t", "c", None, Role.USER, text, TurnStatus.DONE, Label.CLOUD, 0.0)
        needs.append(routed(Material((turn,)), setting.cards, estimate).need)
    return Prompts(rows.texts, quality, tuple(needs), tuple(before))


def mark(prompts: Prompts, random: np.random.Generator) -> Iterator[Mark]:
    """Give the marks in the order of asking."""
    workers = prompts.quality.shape[1]
    for row in range(min(max(COUNTS), len(prompts.texts))):
        is_default = workers == 1 or random.random() < DEFAULT_SHARE
        worker = 0 if is_default else int(random.integers(1, workers))
        good = float(prompts.quality[row, worker] >= 0.5)
        yield Mark(row, worker, 1.0 - good if random.random() < WRONG_MARKS else good)


# Measuring


@dataclass(frozen=True)
class Figures:
    """How good a prediction was."""

    loss: float
    auroc: float
    apgr: float
    choice: float

    @classmethod
    def of(cls, predicted: Predicted, quality: Floats) -> Figures:
        """Compare what was expected with what came."""
        chances = np.clip(predicted.chances, 0.01, 0.99)
        loss = -(quality * np.log(chances) + (1 - quality) * np.log(1 - chances)).mean()
        first, last = quality[:, 0], quality[:, -1]
        several = quality.shape[1] > 1
        best = predicted.chances.argmax(axis=1)
        return cls(
            float(loss),
            auroc(predicted.chances.ravel(), quality.ravel() >= 0.5),
            rr.apgr(predicted.gain, first, last) if several else math.nan,
            float(quality[np.arange(len(best)), best].mean()) if several else math.nan,
        )


def auroc(score: Floats, right: np.typing.NDArray[np.bool_]) -> float:
    """Return how likely a right answer has the higher score of a right and a wrong one."""
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    good, bad = int(right.sum()), int((~right).sum())
    return float((rank[right].sum() - good * (good + 1) / 2) / max(1, good * bad))


def table(found: Mapping[tuple[str, int, str], Sequence[Figures]], setting: str) -> Iterator[str]:
    """Return a table of one setting; of the mean over all of several workers with ""."""
    yield f"\n{setting or 'mean of all settings with several workers'}\n"
    yield "| marks | learner | log loss | AUROC | APGR | choice |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for count in COUNTS:
        for name in LEARNERS:
            own = [
                one
                for (where, marks, learner), figures in found.items()
                if (marks, learner) == (count, name)
                and (where == setting or (not setting and where != "everyday"))
                for one in figures
            ]
            if own:
                cells = [
                    f"{np.mean([getattr(one, key) for one in own]):.3f}"
                    for key in ("loss", "auroc", "apgr", "choice")
                ]
                yield f"| {count} | {name} | {' | '.join(cells)} |"


# The learners


def graded(setting: Setting, prompts: Prompts, marks: Sequence[Mark]) -> list[GradedAnswer]:
    """Return marks as the history gives them to the table of skills."""
    return [
        GradedAnswer(setting.cards[one.worker].id, prompts.needs[one.row].kind, one.good, 1.0, 0.0)
        for one in marks
    ]


def estimated(
    setting: Setting, prompts: Prompts, places: Sequence[int], own: Sequence[GradedAnswer] = ()
) -> Predicted:
    """Return what the router expects, with skills by the user's own answers."""
    texts = [prompts.texts[place] for place in places]
    return from_estimates(setting, setting.model.estimates(texts, setting.candidates(own)))


def from_estimates(setting: Setting, found: Sequence[Estimate]) -> Predicted:
    """Return what estimates say."""
    ids = [card.id for card in setting.cards]
    return Predicted(
        np.array([[one.quality[id_] for id_ in ids] for one in found]),
        np.array([one.gain[ids[-1]] for one in found]),
    )


def neither(
    setting: Setting, prompts: Prompts, marks: Sequence[Mark], places: Sequence[int]
) -> Predicted:
    """The router as shipped."""
    return from_estimates(setting, [prompts.before[place] for place in places])


def skill_estimates(
    setting: Setting, prompts: Prompts, marks: Sequence[Mark], places: Sequence[int]
) -> Predicted:
    """The table of skills, which the router reads of models that were never measured."""
    return estimated(setting, prompts, places, graded(setting, prompts, marks))


def offsets(
    setting: Setting, prompts: Prompts, marks: Sequence[Mark], places: Sequence[int]
) -> Predicted:
    """The ridge regression, once it was asked to learn."""
    return with_offsets(setting, prompts, marks, places, ())


def both(
    setting: Setting, prompts: Prompts, marks: Sequence[Mark], places: Sequence[int]
) -> Predicted:
    """The ridge regression and the table of skills."""
    return with_offsets(setting, prompts, marks, places, graded(setting, prompts, marks))


def with_offsets(
    setting: Setting,
    prompts: Prompts,
    marks: Sequence[Mark],
    places: Sequence[int],
    own: Sequence[GradedAnswer],
) -> Predicted:
    """Return what the router expects with offsets fitted on the marks."""
    rows = [one.row for one in marks]
    marked, found = (estimated(setting, prompts, at, own) for at in (rows, places))
    seen, new = (
        setting.model.read_texts([prompts.texts[place] for place in at]) for at in (rows, places)
    )
    chances = found.chances.copy()
    for column in range(len(setting.cards)):
        mine = [number for number, one in enumerate(marks) if one.worker == column]
        good = np.array([marks[number].good for number in mine])
        learned = fit_offsets(rows_of(seen, mine), marked.chances[mine, column], good)
        if learned is not None:
            chances[:, column] = learned.adjusted(found.chances[:, column], new)
    return moved(found, chances)


def moved(found: Predicted, chances: Floats) -> Predicted:
    """Return other chances, with the gain as far moved as they are."""
    apart = chances - found.chances
    return Predicted(chances, found.gain + apart[:, -1] - apart[:, 0])


def table_alone(
    setting: Setting, prompts: Prompts, marks: Sequence[Mark], places: Sequence[int]
) -> Predicted:
    """The table of skills without a router's estimate, as steps of plans are assigned by it."""
    own = graded(setting, prompts, marks)
    cards = [
        replace(card, skills=skill_levels(card, setting.scores, own)) for card in setting.cards
    ]
    chances = np.array([[success_chance(c, prompts.needs[p]) for c in cards] for p in places])
    return Predicted(chances, chances[:, -1] - chances[:, 0])


def sized_alone(
    setting: Setting, prompts: Prompts, marks: Sequence[Mark], places: Sequence[int]
) -> Predicted:
    """The same before any mark."""
    return table_alone(setting, prompts, (), places)


def shifted(
    setting: Setting, prompts: Prompts, marks: Sequence[Mark], places: Sequence[int]
) -> Predicted:
    """The router's estimates, moved by kind as a Beta posterior of the marks says (not built)."""
    found = neither(setting, prompts, marks, places)
    odds = logit(found.chances)
    for column, card in enumerate(setting.cards):
        own = [one for one in marks if one.worker == column]
        shift = {}
        for kind in {prompts.needs[one.row].kind for one in own}:
            of_kind = [one for one in own if prompts.needs[one.row].kind == kind]
            count = min(len(of_kind), MAX_COUNT)
            usual = np.mean([prompts.before[one.row].quality[card.id] for one in of_kind])
            good = np.mean([one.good for one in of_kind])
            after = (PRIOR_COUNT * usual + count * good) / (PRIOR_COUNT + count)
            shift[kind] = float(np.diff(logit(np.array([usual, after])))[0])
        for row, place in enumerate(places):
            kind = prompts.needs[place].kind
            carried = sum(
                (0.25 if _are_similar(kind, other) else 0.08) * by
                for other, by in shift.items()
                if other != kind
            )
            odds[row, column] += shift.get(kind, 0.0) + min(0.8, max(-0.8, carried))
    return moved(found, 1 / (1 + np.exp(-odds)))


PRIOR_COUNT, MAX_COUNT = 8.0, 40
"""How many marks the router's estimate is worth, and how many of one kind count at most."""


def logit(chance: Floats) -> Floats:
    """Return bounded log-odds."""
    held = np.clip(chance, 0.02, 0.98)
    return np.asarray(np.log(held / (1 - held)))


LEARNERS: dict[str, Learner] = {
    "neither": neither,
    "table of skills": skill_estimates,
    "ridge regression": offsets,
    "both": both,
    "shifted estimates": shifted,
    "no router, no marks": sized_alone,
    "no router, table of skills": table_alone,
}


if __name__ == "__main__":
    main()
