"""The router where it has never been: one source left out of a training at a time.

A source is a set of questions, a subject of MMLU-Pro or a task of LLMRouter. On each the router is
compared with the better of two rules that need no training: length and a random order before a
draft, votes and length after. How well its probabilities hold is measured here too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import routing_rows as rr
from numpy.typing import NDArray
from routing_pairs import GSM_B, MANY, MATH_B, PRO, SEEN, Pair
from routing_rows import Floats, Holdout, Rows

from baton.core.plan_types import KINDS
from baton.core.routing_types import Candidate
from baton.routing.child.router_model import RouterModel

MARGIN = 0.02
"""By so much the router may be behind the better rule."""

MIN_GAP = 0.05
"""With less between both workers an APGR is a quotient of next to nothing."""

SPLIT_BY_GROUP = (PRO, MANY)
"""Sets whose subjects or tasks are sources of their own."""

BEFORE_TOO = (GSM_B, MATH_B)
"""Pairs of drafts that are also scored before there is one."""

BINS = 10
ROUNDS = 1000


@dataclass(frozen=True)
class Source:
    """What is left out of a training, and the pairs that are compared on it."""

    name: str
    holdout: Holdout
    pairs: tuple[Pair, ...]


def sources(data: Sequence[Rows]) -> Iterator[Source]:
    """Return every source that the data hold."""
    for rows in data:
        pairs = [pair for pair in SEEN if pair.file == rows.name]
        pairs += [_before(pair) for pair in BEFORE_TOO if pair.file == rows.name]
        yield Source(rows.name, Holdout(0.0, files=frozenset({rows.name})), tuple(pairs))
        for group in sorted(set(rows.groups)) if rows.name in SPLIT_BY_GROUP else ():
            own = tuple(_within(pair, group) for pair in pairs)
            holdout = Holdout(0.0, groups=frozenset({f"{rows.name}:{group}"}))
            yield Source(f"{rows.name}: {group}", holdout, own)


def _before(pair: Pair) -> Pair:
    return Pair(pair.name.removesuffix("B") + "A", pair.file, pair.local, pair.cloud)


def _within(pair: Pair, group: str) -> Pair:
    return Pair(pair.name, pair.file, pair.local, pair.cloud, pair.mates, frozenset({group}))


@dataclass(frozen=True)
class Comparison:
    """How the router did on a source beside the better rule, with a paired interval."""

    source: str
    stage: str
    count: int
    gap: float
    ours: float
    rule: str
    theirs: float
    low: float
    high: float

    @classmethod
    def of(
        cls, source: str, score: Floats, rules: dict[str, Floats], weak: Floats, strong: Floats
    ) -> Comparison:
        """Compare a score with the best of some rules."""
        reached = {name: rr.apgr(rule, weak, strong) for name, rule in rules.items()}
        best = max(reached, key=reached.__getitem__)
        drawn = rr.bootstrap([score, rules[best]], weak, strong, ROUNDS)
        apart = drawn[:, 0] - drawn[:, 1]
        low, high = np.nanquantile(apart, [0.025, 0.975])
        return cls(
            source,
            "B" if "votes" in rules else "A",
            len(weak),
            float(strong.mean() - weak.mean()),
            rr.apgr(score, weak, strong),
            best,
            reached[best],
            float(low),
            float(high),
        )

    @property
    def verdict(self) -> str:
        """What the interval says of the margin."""
        if self.gap < MIN_GAP:
            return "no gap"
        if self.low > -MARGIN:
            return "holds"
        behind = self.ours - self.theirs
        return "worse" if self.high < -MARGIN else "open" if behind > -MARGIN else "open, behind"

    def line(self) -> str:
        """Return its row of the table."""
        return (
            f"| {self.source} | {self.stage} | {self.count} | {self.gap:+.2f} | "
            f"{self.rule} {self.theirs:.3f} | **{self.ours:.3f}** | "
            f"{self.low:+.3f} to {self.high:+.3f} | {self.verdict} |"
        )


COMPARISON_HEAD = (
    "| left out | stage | questions | gap | better rule | this | difference, 95 % | margin .02 |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def summary(found: Sequence[Comparison]) -> Iterator[str]:
    """Return a sentence for each stage: the mean difference on sources that have a gap."""
    for stage in "AB":
        own = [one for one in found if one.stage == stage and one.gap >= MIN_GAP]
        if own:
            apart = [one.ours - one.theirs for one in own]
            counts = {name: sum(one.verdict == name for one in own) for name in
                      ("holds", "open", "open, behind", "worse")}  # fmt: skip
            listed = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
            yield (
                f"Stage {stage}, {len(own)} sources with a gap of {MIN_GAP} or more: "
                f"{np.mean(apart):+.3f} against the better rule on average, {listed}."
            )


@dataclass
class Reliability:
    """Probabilities of a good answer and what came of them, with the kind of each question."""

    chances: list[float] = field(default_factory=list)
    outcomes: list[float] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def add(self, chances: Floats, outcomes: Floats, kinds: Sequence[str]) -> None:
        """Add those whose outcome is known."""
        known = ~np.isnan(outcomes)
        self.chances += chances[known].tolist()
        self.outcomes += outcomes[known].tolist()
        self.kinds += [kind for kind, use in zip(kinds, known, strict=True) if use]

    def error(self, kind: str = "") -> float:
        """Return the expected calibration error: of ten bins of one width."""
        chances, outcomes = self._of(kind)
        return calibration_error(chances, outcomes)

    def _of(self, kind: str) -> tuple[Floats, Floats]:
        own = np.array([not kind or one == kind for one in self.kinds], bool)
        return np.array(self.chances)[own], np.array(self.outcomes)[own]

    def lines(self, name: str) -> Iterator[str]:
        """Return the diagram as rows: in each bin how many, and how many of 100 were good."""
        kinds = [kind for kind in KINDS if kind in set(self.kinds)]
        for kind in ("", *kinds):
            chances, outcomes = self._of(kind)
            places = bins(chances)
            cells = []
            for place in range(BINS):
                own = places == place
                few = own.sum() < 50
                cells.append("" if few else f"{100 * outcomes[own].mean():.0f}")
            error = f"{calibration_error(chances, outcomes):.3f}"
            yield f"| {' | '.join((name, kind or 'all', str(len(chances)), error, *cells))} |"


RELIABILITY_HEAD = (
    "| where | kind | estimates | ECE | "
    + " | ".join(f".{place}" for place in range(BINS))
    + " |\n| --- | --- | --- | --- |"
    + " --- |" * BINS
)


def bins(chances: Floats) -> NDArray[np.int64]:
    """Return in which of BINS bins of one width each chance is."""
    return np.clip((chances * BINS).astype(np.int64), 0, BINS - 1)


def calibration_error(chances: Floats, outcomes: Floats) -> float:
    """Return the mean distance of chances and outcomes over the bins."""
    places = bins(chances)
    apart = 0.0
    for place in range(BINS):
        own = places == place
        if own.any():
            apart += abs(float(chances[own].sum() - outcomes[own].sum()))
    return apart / max(1, len(chances))


# Prompts of everyday life, as the starter model answered them

EVERYDAY = Path(__file__).resolve().parent / "training" / "router"
"""Holds everyday.jsonl (prompts with rules) and everyday_outcomes.jsonl (what came of them)."""

STARTER = Candidate("small", "SmolLM2-135M-Instruct", 0.135)


def everyday_lines(model: RouterModel, folder: Path = EVERYDAY) -> Iterator[str]:
    """Return by kind how many answers were right, and what was expected before; nothing if unknown.

    Only answers that the starter model wrote alone count.
    """
    prompts, outcomes = folder / "everyday.jsonl", folder / "everyday_outcomes.jsonl"
    if not (prompts.exists() and outcomes.exists()):
        return
    texts = {one["id"]: one["prompt"] for one in _json_lines(prompts)}
    found = [one for one in _json_lines(outcomes) if one["workers"] == [STARTER.id]]
    estimates = model.estimates([texts[one["id"]] for one in found], [STARTER])
    expected = np.array([one.quality[STARTER.id] for one in estimates])
    novelty = np.array([one.novelty for one in estimates])
    right = np.array([float(one["right"]) for one in found])
    kinds = np.array([one["kind"] for one in found])
    yield "| everyday prompts | answers | right | expected before the draft | ECE | novelty |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for kind in ("all", *(kind for kind in KINDS if kind in set(kinds))):
        own = kinds == kind if kind != "all" else np.ones(len(kinds), bool)
        yield (
            f"| {kind} | {own.sum()} | {100 * right[own].mean():.0f} % | "
            f"{100 * expected[own].mean():.0f} % | "
            f"{calibration_error(expected[own], right[own]):.3f} | {novelty[own].mean():.2f} |"
        )


def _json_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line]
