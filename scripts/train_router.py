"""Fits the router's heads on questions with known outcomes, and writes all that it needs to run.

    scripts/train_router --data DIR --out DIR --seed N

DIR holds files as scripts/routing_rows.py reads them. The encoder is copied from models/router, and
the task kinds are learned from models/router/kinds.csv as well. The same data and seed give the
same bytes. Most of the time goes into the texts' vectors; to train often on parts of the same
texts keeps them in a file:

    scripts/train_router --data DIR --out DIR --vectors FILE.npz

A router is tried on questions that it never saw: with a salt three in ten are left out, and
`scripts/lab/replay.py --router DIR --held-out SALT` runs just those.

    scripts/train_router --data DIR --out DIR --held-out SALT

The head of the answers' lengths alone is fitted again on the other heads that --out holds with

    scripts/train_router --data DIR --out DIR --lengths
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent / "training" / "router"))

import fit_first_stage
import routing_rows
from fit_heads import FOLDS, fit_kind_head, fit_length_head
from fit_second_stage import fit_second_stage
from fit_trust import HeldOut, Trust, fit_trust
from head_files import save_first_stage, save_kind_head, save_length_head, save_second_stage
from routing_rows import Rows
from routing_skills import skill_table

from baton.core.plan_types import KINDS
from baton.core.routing_types import Candidate
from baton.routing.child.first_stage import Basis, FirstStage, Floats, set_inputs
from baton.routing.child.router_model import DESIGN_COLUMNS, KindHead, LengthHead
from baton.routing.child.text_features import FEATURE_NAMES, WIDTH, Encoder, text_features

SHIPPED = Path(__file__).resolve().parent.parent / "models" / "router"
KINDS_FILE = SHIPPED / "kinds.csv"
ENCODER = ("encoder.onnx", "tokenizer.json")

Mask = NDArray[np.bool_]

KIND_OF = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"^(gsm|math|mgsm|agentverse-mgsm)|mathematics|algebra|statistics|econometrics", "math"),
        (r"logic|commonsense|moral|reason|puzzle|grid", "reasoning"),
        (r"code|crux|mbpp|humaneval|human_eval|programming", "code"),
        (r"^physics$|college_physics|high_school_physics|high_school_chemistry", "math"),
        (r"commongen|writing|\bstor(?:y|ies)", "writing"),
        (r"mt-?bench|chat|alpaca", "chat"),
        (r".", "knowledge"),
    )
)


UNSHOWN = re.compile(r"math-?l5|\bmath$")
"""Files whose questions may not be shipped, not even as vectors."""

SOME = 150
"""So many questions of each file show what kinds are like; all of them would outweigh the rest."""

USABLE = 0.35
"""A group in which not one of several workers reaches this says more of how it was graded."""

SEVERAL = 5

CHARS_PER_TOKEN = 3.0
"""Characters that count as a token. In the mean cl100k, o200k and Anthropic's older tokenizer
need 2.9 for the questions of MATH, and 4.1 to 4.3 for those of GSM8K and MMLU-Pro."""

BASE = re.compile(r"-base$")
"""Workers that write on after their answer, which makes them no use in a chat."""

PARTS = 3
"""So many parts are held out in turn, for stage B to see how good stage A is."""

DOMAIN_PARTS = 4
"""So many parts of the groups are left out in turn, to see what holds on new ones."""


def main() -> None:
    """Train, and say how long what took."""
    options = argparse.ArgumentParser(description="Fits the router's heads.")
    options.add_argument("--data", type=Path, required=True, help="questions with outcomes")
    options.add_argument("--out", type=Path, required=True, help="the folder to write")
    options.add_argument("--seed", type=int, default=0, help="of everything that is drawn")
    options.add_argument("--held-out", metavar="SALT", help="leave out what a bench is run on")
    options.add_argument("--lengths", action="store_true", help="fit only the answers' lengths")
    options.add_argument("--kinds", type=Path, default=KINDS_FILE, help="texts of known kinds")
    options.add_argument("--vectors", type=Path, help="keep the texts' vectors in this file")
    chosen = options.parse_args()
    began = time.monotonic()
    data = routing_rows.read_folder(chosen.data)
    if not data:
        raise SystemExit(f"There is no *.csv.gz in {chosen.data}.")
    if chosen.held_out is not None:
        data, _ = routing_rows.split(data, chosen.held_out)
    cache = VectorCache(chosen.vectors)
    for rows in data:
        cache.vectors(rows.texts)
    cache.keep()
    read = time.monotonic()
    if chosen.lengths:
        basis = FirstStage.load(chosen.out).basis
        save_length_head(length_head(data, cache, basis), chosen.out)
    else:
        train(data, chosen.out, chosen.seed, cache, chosen.kinds)
    count = sum(map(len, data))
    done = time.monotonic()
    print(f"{count} questions read in {read - began:.0f} s, fitted in {done - read:.1f} s")


def train(
    data: Sequence[Rows], out: Path, seed: int, cache: VectorCache, kinds_file: Path = KINDS_FILE
) -> None:
    """Fit everything and write the folder that RouterModel.load reads."""
    data = [usable(rows) for rows in data]
    samples = [fit_sample(rows, cache) for rows in data]
    heads = fit_first_stage.fit(samples, seed)
    parts = [Part.of(data, samples, heads.ways, parts_of(data, n)) for n in range(PARTS)]
    groups = [Part.of(data, samples, heads.ways, groups_of(data, n)) for n in range(DOMAIN_PARTS)]
    known, new = ([one for part in some for one in part.held_out()] for some in (parts, groups))
    trust = fit_trust(known, new)
    heads = with_trust(heads, trust)
    agreement = fit_second_stage(data, expected(data, parts, trust), seed, heads.abilities)
    out.mkdir(parents=True, exist_ok=True)
    for name in ENCODER:
        if not (out / name).exists():
            shutil.copyfile(SHIPPED / name, out / name)
    save_first_stage(heads, out)
    save_length_head(length_head(data, cache, heads.basis), out)
    save_second_stage(agreement, out)
    save_kind_head(kind_head([*examples(kinds_file), *some_of(data)], cache), out)
    skills = skill_table(
        [sample.name for sample in samples],
        [sample.kinds for sample in samples],
        [sample.quality for sample in samples],
    )
    (out / "skills.json").write_text(json.dumps(skills, indent=1) + "\n", "utf-8")


class VectorCache:
    """The texts' vectors: those in a file, and others as they are asked for."""

    def __init__(self, file: Path | None) -> None:
        self._file, self._encoder = file, Encoder(SHIPPED)
        self._stamp = hashlib.sha256((SHIPPED / ENCODER[0]).read_bytes()).hexdigest()
        self._known: dict[str, Floats] = {}
        if file is not None and file.exists():
            with np.load(file, allow_pickle=False) as kept:
                if str(kept["stamp"]) == self._stamp:
                    self._known = dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return a row for each text."""
        keys = [hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() for text in texts]
        for key, text in zip(keys, texts, strict=True):
            if key not in self._known:
                self._known[key] = self._encoder.vectors([text])[0]
        rows = [self._known[key] for key in keys]
        return np.array(rows, np.float64).reshape(-1, WIDTH)

    def keep(self) -> None:
        """Write the file."""
        if self._file is not None:
            keys = sorted(self._known)
            table = np.array([self._known[key] for key in keys], np.float32)
            np.savez(self._file, stamp=self._stamp, keys=np.array(keys), vectors=table)


def usable(rows: Rows) -> Rows:
    """Return the rows without the groups that no worker was found to be any good at."""
    groups, table = np.array(rows.groups), np.array(list(rows.quality.values()))
    kept = np.ones(len(rows), bool)
    for group in sorted(set(rows.groups)) if len(table) >= SEVERAL else ():
        own = groups == group
        reached = [
            float(np.nanmean(column)) for column in table[:, own] if not np.isnan(column).all()
        ]
        if len(reached) >= SEVERAL and max(reached) < USABLE:
            kept &= ~own
    return rows if kept.all() else rows.take(np.flatnonzero(kept))


def fit_sample(rows: Rows, cache: VectorCache) -> fit_first_stage.Sample:
    """Return what the fit needs of a file's rows."""
    lengths = [column for _, column in sorted(rows.lengths.items())]
    table = np.column_stack(lengths) if lengths else np.full((len(rows), 1), np.nan)
    known = ~np.isnan(table).all(axis=1)
    middle = np.full(len(rows), np.nan)
    middle[known] = np.nanmedian(table[known], axis=1)
    return fit_first_stage.Sample(
        rows.name,
        cache.vectors(rows.texts),
        figures(rows.texts),
        rows.groups,
        rows.quality,
        middle,
        np.array([KINDS.index(kind_of(group)) for group in rows.groups], np.int64),
        not UNSHOWN.search(rows.name),
    )


@dataclass(frozen=True)
class Answers:
    """Answers whose length is known: the row of its question, its worker, its tokens."""

    rows: NDArray[np.int64]
    workers: tuple[str, ...]
    tokens: Floats


def known_answers(rows: Rows) -> Answers:
    """Return the answers of a file whose length is known.

    One that was cut counts with the length at which it was: it has at least that. One of which
    nothing is visible is left out, as those of base models are.
    """
    found = []
    for worker, column in sorted(rows.lengths.items()):
        if not BASE.search(worker):
            found += [(row, worker, column[row]) for row in np.flatnonzero(column > 0)]
    places = np.array([row for row, _, _ in found], np.int64)
    characters = np.array([length for _, _, length in found], np.float64)
    return Answers(places, tuple(name for _, name, _ in found), characters / CHARS_PER_TOKEN)


def length_head(data: Sequence[Rows], cache: VectorCache, basis: Basis) -> LengthHead:
    """Fit the head of the answers' lengths; the same question is in the same part everywhere."""
    designs, places, tokens, parts = [], [], [], []
    first = 0
    for rows in data:
        answers = known_answers(rows)
        if len(answers.tokens):
            designs.append(basis.design(cache.vectors(rows.texts), figures(rows.texts)))
            places.append(first + answers.rows)
            tokens.append(answers.tokens)
            parts += [int(key_of(key), 16) % FOLDS for key in rows.qhash]
            first += len(rows)
    if not designs:
        empty = np.zeros((0, DESIGN_COLUMNS))
        return fit_length_head(empty, np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))
    return fit_length_head(
        np.vstack(designs), np.concatenate(places), np.concatenate(tokens), np.array(parts)
    )


def parts_of(data: Sequence[Rows], part: int) -> list[Mask]:
    """Return which questions are in a part of them; the same question is in the same everywhere."""
    return [np.array([int(key_of(key), 16) % PARTS == part for key in rows.qhash]) for rows in data]


def groups_of(data: Sequence[Rows], part: int) -> list[Mask]:
    """Return which questions are of the groups of a part; a set of one group is in the first."""
    found = []
    for rows in data:
        names = sorted(set(rows.groups))
        own = set(names[part::DOMAIN_PARTS])
        found.append(np.array([group in own for group in rows.groups], bool))
    return found


@dataclass(frozen=True)
class Part:
    """Stage A fitted without some questions, and those questions as it reads them, by set."""

    heads: FirstStage | None
    samples: Sequence[fit_first_stage.Sample]
    masks: Sequence[Mask]

    @classmethod
    def of(
        cls,
        data: Sequence[Rows],
        samples: Sequence[fit_first_stage.Sample],
        ways: fit_first_stage.Ways,
        masks: Sequence[Mask],
    ) -> Part:
        """Fit without some questions, and without the same ones of other sets."""
        hidden = {
            rows.qhash[n]
            for rows, out in zip(data, masks, strict=True)
            for n in np.flatnonzero(out)
        }
        rest = [
            one.take(np.array([key not in hidden for key in rows.qhash], bool))
            for rows, one in zip(data, samples, strict=True)
        ]
        rest = [one for one in rest if len(one.vectors) and one.workers]
        return cls(fit_first_stage.fit(rest, 0, ways) if rest else None, samples, masks)

    def held_out(self) -> Iterator[HeldOut]:
        """Return what the heads make of the questions of each set."""
        heads = self.heads
        places = {} if heads is None else {block.name: n for n, block in enumerate(heads.sets)}
        for one, out in zip(self.samples, self.masks, strict=True):
            if heads is None or not out.any():
                continue
            design = heads.basis.design(one.vectors[out], one.figures[out])
            reading = heads.read(design)
            place = places.get(one.name)
            seen = set_inputs(
                *heads.points.similarity(design), heads.points.origin, len(heads.sets)
            )
            # Where nothing of a set is known, that to which a text seems to belong has the say.
            most = reading.shares[:, :-1].argmax(axis=1) if place is None else place
            inputs = seen[np.arange(len(design)), most]
            if place is None:
                yield HeldOut(one.name, inputs)
            else:
                predicted = fit_first_stage.contrast(reading.tables[place])
                actual = fit_first_stage.contrast(one.take(out).table(heads.sets[place].workers))
                yield HeldOut(one.name, inputs, predicted, actual, reading.length)


def with_trust(heads: FirstStage, trust: Trust) -> FirstStage:
    """Return the heads believed as far as left-out domains say."""
    sets = tuple(replace(one, transfer=trust.transfer.get(one.name, 0.0)) for one in heads.sets)
    return replace(heads, trust=trust.head.astype(np.float32).astype(np.float64), sets=sets)


def expected(
    data: Sequence[Rows], parts: Sequence[Part], trust: Trust
) -> dict[str, dict[str, Floats]]:
    """Return by set and worker what stage A expects of each question, fitted on others."""
    found = {rows.name: {worker: np.zeros(len(rows)) for worker in rows.quality} for rows in data}
    for part in parts:
        heads = None if part.heads is None else with_trust(part.heads, trust)
        for one, out in zip(part.samples, part.masks, strict=True):
            if heads is None or not out.any():
                continue
            reading = heads.read(heads.basis.design(one.vectors[out], one.figures[out]))
            for worker, column in found[one.name].items():
                column[out] = heads.quality(reading, Candidate(worker))
    return found


def key_of(qhash: str) -> str:
    """Return letters that are a number, by whichever key the data name a question."""
    return hashlib.sha256(qhash.encode()).hexdigest()[:8]


def examples(file: Path) -> list[tuple[str, str]]:
    """Return the texts whose kind was written by hand; none where there is no such file."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return [(row["text"], row["kind"]) for row in csv.DictReader(lines) if row["kind"] in KINDS]


def some_of(data: Sequence[Rows]) -> list[tuple[str, str]]:
    """Return some questions of each file, spread over it, with the kind that their group names."""
    found = []
    for rows in data:
        every = max(1, len(rows) // SOME)
        pairs = zip(rows.texts[::every], rows.groups[::every], strict=True)
        found += [(text, kind_of(group)) for text, group in pairs]
    return found


def kind_head(known: Sequence[tuple[str, str]], cache: VectorCache) -> KindHead:
    """Fit the head that distinguishes kinds."""
    texts = [text for text, _ in known]
    places = np.array([KINDS.index(kind) for _, kind in known], np.int64)
    return fit_kind_head(texts, cache.vectors(texts), figures(texts), places)


def figures(texts: Sequence[str]) -> Floats:
    """Return the figures of each text."""
    return np.array([text_features(text) for text in texts], np.float64).reshape(
        -1, len(FEATURE_NAMES)
    )


def kind_of(group: str) -> str:
    """Return what kind of task a group of questions is."""
    return next(kind for pattern, kind in KIND_OF if pattern.search(group.casefold()))


if __name__ == "__main__":
    main()
