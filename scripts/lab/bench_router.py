"""How good the router is on questions it never saw, next to chance, length, task and the best.

    scripts/bench_router --data DIR                    5 splits (half an hour, or more)
    scripts/bench_router --data DIR --quick            one split
    scripts/bench_router split budget --data DIR       some of it
    scripts/bench_router lengths --data DIR            answers within their p99
    scripts/bench_router domains --data DIR            one source left out at a time
    scripts/bench_router domains --data DIR --fast     in minutes, see below
    scripts/bench_router everyday --data DIR           everyday prompts, where they are there
    scripts/bench_router --data DIR --markdown FILE    the table as the README has it

DIR holds files as scripts/routing_rows.py reads them; they aren't part of Baton. For each seed a
new split is drawn, the project's own training runs on its visible part, and the rest is scored as
scripts/score_router does. Whole tasks, files and workers are left out of further trainings. What
the folder doesn't hold is left out of the table. With --fast only stage A is fitted again, and
stage B where a whole file is left out: what models/router says in a few dozen numbers (what each
way is worth, trust, stage B) is taken from there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "training" / "router"))

import fit_first_stage
import routing_rows as rr
from bench_router_domains import (
    COMPARISON_HEAD,
    RELIABILITY_HEAD,
    Comparison,
    Reliability,
    everyday_lines,
    sources,
    summary,
)
from fit_second_stage import fit_second_stage
from fit_trust import Trust
from routing_pairs import (
    GPT4O,
    GSM8K_A,
    LLAMA,
    MMLU_A,
    OF_UNSEEN_FILES,
    OF_UNSEEN_WORKERS,
    SEEN,
    UNSEEN_WORKERS,
    Pair,
    of_unseen_groups,
)
from routing_rows import Floats, Holdout, Rows
from score_router import Expected, candidate, expected, scores
from share_decider import share_decider
from train_router import (
    SHIPPED,
    VectorCache,
    fit_sample,
    kind_of,
    known_answers,
    train,
    usable,
    with_trust,
)

from baton.core.plan_types import KINDS
from baton.routing.child.router_model import KindHead, LengthHead, RouterModel
from baton.routing.child.second_stage import SecondStage, group_answers


@dataclass
class Figures:
    """The results of one row of the table, split by split."""

    ours: list[float] = field(default_factory=list)
    length: list[float] = field(default_factory=list)
    task: list[float] = field(default_factory=list)
    votes: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    ahead: list[Floats] = field(default_factory=list)
    over_votes: list[Floats] = field(default_factory=list)
    count: int = 0

    def add(self, score: Floats, rows: Rows, pair: Pair, seen: Sequence[Rows]) -> None:
        """Add a split."""
        weak, strong = rows.quality[pair.local], rows.quality[pair.cloud]
        length = np.log([max(1, len(text)) for text in rows.texts])
        self.ours.append(rr.apgr(score, weak, strong))
        self.length.append(rr.apgr(length, weak, strong))
        self.task.append(rr.apgr(by_task(pair, rows, seen), weak, strong))
        rules = [length]
        if team := pair.team(rows):
            rules.append(by_votes(rows, pair.local, team))
            self.votes.append(rr.apgr(rules[1], weak, strong))
        self.best.append(rr.apgr(strong - weak, weak, strong))
        self.calls.append(100 * rr.calls_for(score, weak, strong, 0.8))
        drawn = rr.bootstrap([score, *rules], weak, strong, rounds=400, seed=len(self.ours))
        self.ahead.append(drawn[:, 0] - drawn[:, 1])
        if team:
            self.over_votes.append(drawn[:, 0] - drawn[:, 2])
        self.count = max(self.count, len(rows))

    def line(self, pair: Pair) -> str:
        """Return its row of the table."""
        calls = f"{np.mean(self.calls):.0f} %"
        must = "" if pair.must is None else f"{pair.must:.2f}"
        must += "" if pair.calls is None else f", {pair.calls:.0f} %"
        spread = f" ± {np.std(self.ours):.3f}" if len(self.ours) > 1 else ""
        cells = (
            pair.name, str(self.count), f"**{np.mean(self.ours):.3f}**{spread}", calls, must,
            f"{np.mean(self.length):.3f}", f"{np.mean(self.task):.3f}",
            f"{np.mean(self.votes):.3f}" if self.votes else "", f"{np.mean(self.best):.2f}",
            _interval(self.ahead), _interval(self.over_votes),
        )  # fmt: skip
        return f"| {' | '.join(cells)} |"


def _interval(apart: Sequence[Floats]) -> str:
    """Return where 95 % of the resampled differences are, each averaged over the splits."""
    if not apart:
        return ""
    low, high = np.quantile(np.mean(np.stack(apart), axis=0), [0.025, 0.975])
    return f"{low:+.3f} to {high:+.3f}"


HEAD = (
    "| test | questions | APGR | calls for 80 % | must | length | task | votes | best possible "
    "| more than length, 95 % | more than votes, 95 % |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def by_task(pair: Pair, rows: Rows, seen: Sequence[Rows]) -> Floats:
    """Return the mean gain on each question's group, where that was seen."""
    known = next((one for one in seen if one.name == pair.file), None)
    if known is None or not {pair.local, pair.cloud} <= set(known.quality):
        return np.zeros(len(rows))
    gain = known.quality[pair.cloud] - known.quality[pair.local]
    groups = np.array(known.groups)
    means = {group: float(np.nanmean(gain[groups == group])) for group in set(known.groups)}
    return np.array([means.get(group, 0.0) for group in rows.groups])


def by_votes(rows: Rows, local: str, mates: Sequence[str]) -> Floats:
    """Return how few of the mates agree with the local worker: the rule without any training."""
    teams = zip(*(rows.answers[worker] for worker in (local, *mates)), strict=True)
    found = []
    for team in teams:
        first, *others = group_answers(team)
        found.append(-float(sum(other == first != 0 for other in others)))
    return np.array(found)


SHARE = 0.3


@dataclass(frozen=True)
class CarriedBudget:
    """A budget of 30 % of the calls, one prompt after the other, on a domain that is new.

    `used` is the share of calls at the end, `most` the largest share over a whole number of calls
    at any moment, `behind` how much better the best fixed threshold would have been, in points.
    """

    used: float
    most: float
    behind: float

    @classmethod
    def of(cls, score: Floats, weak: Floats, strong: Floats) -> CarriedBudget:
        """Let the controller decide on each."""
        decide = share_decider(SHARE)
        sent = np.array([decide(float(one)) for one in score], bool)
        over = sent.cumsum() - np.ceil(SHARE * np.arange(1, len(sent) + 1))
        best = rr.quality_at(score, weak, strong, SHARE)
        reached = float(np.where(sent, strong, weak).mean())
        return cls(float(sent.mean()), float(over.max()), 100 * (best - reached))


FEW = 100
"""Of fewer answers no share is shown."""


@dataclass
class LengthCoverage:
    """Answers to hidden questions, and which of them are no longer than expected at most.

    An entry of each for each answer: its split, set of questions, kind and worker, whether it was
    covered, and the tokens that were expected at most.
    """

    groups: dict[str, list[str]] = field(
        default_factory=lambda: {"kind": [], "set": [], "worker": []}
    )
    splits: list[int] = field(default_factory=list)
    within: list[bool] = field(default_factory=list)
    expected: list[int] = field(default_factory=list)

    def add(self, model: RouterModel, hidden: Sequence[Rows], seed: int) -> None:
        """Add the answers of a split."""
        for rows in hidden:
            answers = known_answers(rows)
            if not len(answers.tokens):
                continue
            most = np.array([one.tokens_p99 for one in model.estimates(rows.texts, ())])
            asked = answers.rows
            self.groups["kind"] += [kind_of(rows.groups[row]) for row in asked]
            self.groups["set"] += [rows.name] * len(asked)
            self.groups["worker"] += answers.workers
            self.splits += [seed] * len(asked)
            self.within += (answers.tokens <= most[asked]).tolist()
            self.expected += most[asked].tolist()

    def lines(self) -> Iterator[str]:
        """Return the table."""
        yield "| answers to hidden questions | how many | within the p99 | by split | median p99 |"
        yield "| --- | --- | --- | --- | --- |"
        everything = np.ones(len(self.within), bool)
        yield self._line("all", everything)
        for kind in KINDS:
            yield self._line(kind, np.array(self.groups["kind"]) == kind)
        for name in sorted(set(self.groups["set"])):
            yield self._line(f"set {name}", np.array(self.groups["set"]) == name)
        names = np.array(self.groups["worker"])
        shares = {
            name: float(np.array(self.within)[names == name].mean())
            for name in sorted(set(names))
            if (names == name).sum() >= FEW
        }
        for name in sorted(shares, key=shares.__getitem__)[:3]:
            yield self._line(f"worker {name} (one of the 3 least)", names == name)

    def _line(self, name: str, own: NDArray[np.bool_]) -> str:
        count = int(own.sum())
        if count < FEW:
            return f"| {name} | {count} | too few | | |"
        within, splits = np.array(self.within)[own], np.array(self.splits)[own]
        shares = [100 * float(within[splits == split].mean()) for split in sorted(set(splits))]
        return (
            f"| {name} | {count} | {100 * within.mean():.2f} % | {min(shares):.2f} to "
            f"{max(shares):.2f} % | {np.median(np.array(self.expected)[own]):.0f} |"
        )


PARTS = (
    "split", "lengths", "domains", "tasks", "workers", "files", "budget", "everyday", "speed"
)  # fmt: skip


# One training after the other


class Bench:
    """Trains on parts of the data and keeps what came out."""

    def __init__(self, data: Sequence[Rows], cache: VectorCache, is_fast: bool = False) -> None:
        self.data, self.cache, self.is_fast = data, cache, is_fast
        self.figures: dict[str, tuple[Pair, Figures]] = {}
        self.carried: dict[str, list[CarriedBudget]] = {}
        self.covered = LengthCoverage()
        self.compared: list[Comparison] = []
        self.reliable: dict[str, Reliability] = {}

    def model(self, visible: Sequence[Rows], seed: int) -> RouterModel:
        """Return what the project's training makes of that."""
        if self.is_fast:
            return fast_model(self.data, visible, seed, self.cache)
        with tempfile.TemporaryDirectory() as folder:
            train(visible, Path(folder), seed, self.cache)
            model = RouterModel.load(Path(folder))
        model._encoder = self.cache  # type: ignore[assignment]
        return model

    def run(self, seed: int, parts: Sequence[str]) -> None:
        """Measure one split and what is left out, as far as it is among the parts."""
        salt = f"bench {seed}"
        if {"split", "lengths"} & set(parts):
            self._train("split", salt, seed, Holdout(), SEEN if "split" in parts else ())
        if "domains" in parts and seed == 0:
            self.leave_out_sources(seed)
        if "tasks" in parts:
            unseen = of_unseen_groups(self.data, seed)
            groups = frozenset(f"{pair.file}:{group}" for pair in unseen for group in pair.groups)
            self._train("tasks", salt, seed, Holdout(groups=groups), unseen)
        if "workers" in parts:
            out = Holdout(workers=UNSEEN_WORKERS)
            self._train("workers", salt, seed, out, OF_UNSEEN_WORKERS)
        there = {rows.name for rows in self.data}
        for pair in OF_UNSEEN_FILES:
            if "files" in parts and pair.file in there:
                out = Holdout(0.0, files=frozenset({pair.file}))
                self._train(pair.file, salt, seed, out, [pair])
        if "budget" in parts:
            self.carry_to_new_set(seed)

    def _train(
        self, what: str, salt: str, seed: int, holdout: Holdout, pairs: Sequence[Pair]
    ) -> None:
        began = time.monotonic()
        visible, hidden = rr.split(self.data, salt, holdout)
        model = self.model(visible, seed)
        trained = time.monotonic()
        for pair in pairs:
            rows = pair.rows(hidden)
            if rows is not None:
                found = expected(model, rows, pair.local, pair.cloud, pair.team(rows))
                _, figures = self.figures.setdefault(pair.name, (pair, Figures()))
                figures.add(found.gain, rows, pair, visible)
                if what == "split":
                    self._compare_chances("in domain", found, rows, pair)
        if what == "split":
            self.covered.add(model, hidden, seed)
        if holdout.files:
            self._carry(f"all others to {what}", model, pairs[0], hidden, seed)
        done = time.monotonic()
        print(f"seed {seed}, {what}: trained in {trained - began:.0f} s, scored in "
              f"{done - trained:.0f} s", file=sys.stderr, flush=True)  # fmt: skip

    def leave_out_sources(self, seed: int) -> None:
        """Measure each source with a training that saw none of it."""
        for source in sources(self.data):
            visible, hidden = rr.split(self.data, "", source.holdout)
            model = self.model(visible, seed)
            for pair in source.pairs:
                rows = pair.rows(hidden)
                if rows is None:
                    continue
                team = pair.team(rows)
                found = expected(model, rows, pair.local, pair.cloud, team)
                weak, strong = rows.quality[pair.local], rows.quality[pair.cloud]
                rules = {"length": np.log([max(1, len(text)) for text in rows.texts])}
                if team:
                    rules["votes"] = by_votes(rows, pair.local, team)
                else:
                    rules["random"] = np.zeros(len(rows))
                one = Comparison.of(source.name, found.gain, rules, weak, strong)
                self.compared.append(one)
                print(one.line(), file=sys.stderr, flush=True)
                self._compare_chances("left out", found, rows, pair)

    def _compare_chances(self, where: str, found: Expected, rows: Rows, pair: Pair) -> None:
        kinds = [kind_of(group) for group in rows.groups]
        when = "after drafts" if pair.team(rows) else "before a draft"
        for worker, chances in ((pair.local, found.local), (pair.cloud, found.cloud)):
            which = "local" if worker == pair.local else "cloud"
            held = self.reliable.setdefault(f"{where}, {when}, {which}", Reliability())
            held.add(chances, rows.quality[worker], kinds)

    def carry_to_new_set(self, seed: int) -> None:
        """Measure a budget carried to another set of questions."""
        pair, prior = GSM8K_A, MMLU_A.file
        visible, _ = rr.split(self.data, f"bench {seed}")
        known = [rows for rows in visible if rows.name == prior]
        if known:
            self._carry("MMLU to GSM8K", self.model(known, seed), pair, self.data, seed)

    def _carry(
        self, name: str, model: RouterModel, pair: Pair, hidden: Sequence[Rows], seed: int
    ) -> None:
        rows = pair.rows(hidden)
        if rows is not None:
            rows = rows.take(np.random.default_rng(seed).permutation(len(rows)))
            score = scores(model, rows, pair.local, pair.cloud)
            found = CarriedBudget.of(score, rows.quality[pair.local], rows.quality[pair.cloud])
            self.carried.setdefault(name, []).append(found)


def fast_model(
    data: Sequence[Rows], visible: Sequence[Rows], seed: int, cache: VectorCache
) -> RouterModel:
    """Return the shipped router with stage A fitted on some questions, as --fast says."""
    shipped = RouterModel.load(SHIPPED)
    known = [usable(rows) for rows in visible]
    samples = [fit_sample(rows, cache) for rows in known]
    old = shipped.first_stage
    trust = Trust(old.trust, {block.name: block.transfer for block in old.sets})
    heads = with_trust(fit_first_stage.fit(samples, seed, old.ways), trust)
    agreement = SecondStage.load(SHIPPED)
    if {rows.name for rows in visible} != {rows.name for rows in data}:
        agreement = fit_second_stage(known, None, seed, heads.abilities)
    kinds, lengths = KindHead.load(SHIPPED), LengthHead.load(SHIPPED)
    return RouterModel(cache, heads, kinds, lengths, agreement)  # type: ignore[arg-type]


# How fast


def latency(folder: Path, texts: Sequence[str]) -> tuple[float, float]:
    """Return p50 and p95 of an estimate on one core, in milliseconds."""
    model = RouterModel.load(folder)
    workers = [candidate(LLAMA), candidate("qwen2.5-3b-instruct"), candidate(GPT4O, outside=True)]
    taken = []
    for number, text in enumerate(texts):
        began = time.perf_counter()
        model.estimate(text, workers)
        if number >= WARM:
            taken.append(1000 * (time.perf_counter() - began))
    low, high = np.quantile(taken, [0.5, 0.95])
    return float(low), float(high)


WARM, TIMED = 20, 400
TOKENS = (56, 72)


def of_64_tokens(folder: Path, data: Sequence[Rows]) -> list[str]:
    """Return questions of about 64 tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()  # the file wants 128 tokens of everything
    found: list[str] = []
    for rows in data:
        for text in rows.texts[:2000]:
            if 150 < len(text) < 500 and TOKENS[0] <= len(tokenizer.encode(text).ids) <= TOKENS[1]:
                found.append(text)
    return found[: WARM + TIMED]


# The tables


def tables(bench: Bench, speed: tuple[float, float] | None) -> Iterator[str]:
    """Return the lines of all tables."""
    if bench.figures:
        yield HEAD
        yield from (figures.line(pair) for pair, figures in bench.figures.values())
        yield ""
    if bench.carried:
        yield "| 30 % of calls, in a new domain | used | ever above | points behind the best |"
        yield "| --- | --- | --- | --- |"
        yield from (_line_of(name, found) for name, found in bench.carried.items())
        yield ""
    if bench.compared:
        yield COMPARISON_HEAD
        yield from (one.line() for one in bench.compared)
        yield ""
        yield from summary(bench.compared)
        yield ""
    if bench.reliable:
        yield RELIABILITY_HEAD
        for name, held in sorted(bench.reliable.items()):
            yield from held.lines(name)
        yield ""
    if bench.covered.within:
        yield from bench.covered.lines()
        yield ""
    if speed:
        yield (
            f"Stage A with everything in it, one core, prompts of about 64 tokens: p50 "
            f"{speed[0]:.1f} ms, p95 {speed[1]:.1f} ms (must: p95 15 ms)."
        )


def _line_of(name: str, found: Sequence[CarriedBudget]) -> str:
    used = [100 * one.used for one in found]
    above = sum(one.most > 0 for one in found)
    behind = [one.behind for one in found]
    return (
        f"| {name} | {min(used):.1f} to {max(used):.1f} % | {above or 'never'} "
        f"| {np.mean(behind):+.1f} (at most {max(behind):+.1f}) |"
    )


def main() -> None:
    """Measure, and print the tables."""
    options = argparse.ArgumentParser(description="Measures the router on what it never saw.")
    options.add_argument("--data", type=Path, required=True, help="questions with outcomes")
    options.add_argument("--seeds", type=int, default=5, help="how many splits are drawn")
    options.add_argument("--quick", action="store_true", help="one split only")
    options.add_argument("--fast", action="store_true", help="fit stage A only")
    options.add_argument("--vectors", type=Path, help="keep the texts' vectors in this file")
    options.add_argument("--markdown", type=Path, help="write the tables there too")
    options.add_argument("parts", nargs="*", help=f"some of: {', '.join(PARTS)} (else all)")
    chosen = options.parse_args()
    parts = chosen.parts or PARTS
    if unknown := sorted(set(parts) - set(PARTS)):
        options.error(f"there is no part {', '.join(unknown)}")
    data = rr.read_folder(chosen.data)
    if not data:
        raise SystemExit(f"There is no *.csv.gz in {chosen.data}.")
    cache = VectorCache(chosen.vectors)
    bench = Bench(data, cache, chosen.fast)
    for seed in range(1 if chosen.quick else chosen.seeds):
        bench.run(seed, parts)
        cache.keep()
        print("\n".join(tables(bench, None)), file=sys.stderr, flush=True)
    speed = latency(SHIPPED, of_64_tokens(SHIPPED, data)) if "speed" in parts else None
    lines = [*tables(bench, speed)]
    if "everyday" in parts:
        lines += everyday_lines(RouterModel.load(SHIPPED))
    text = "\n".join(lines)
    print(text)
    if chosen.markdown:
        chosen.markdown.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
