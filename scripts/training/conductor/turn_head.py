"""Trains the head that says who speaks next, as what (`core.planning.turn_roles`): sep-CMA-ES.

    scripts/train_conductor --turns --out OUT --data DIR [--seed N]

An episode is a part of a request, a freshly drawn roster, and what the gym's outcome model says
of each worker. It is run turn by turn with noisy outcomes: what is written is right or wrong.
Notes of a good thinker raise the next worker's level by NOTES, those of a bad one lower it by a
third of that; a verifier finds a mistake with CHECK_STRENGTH times its own chance, and takes what
is right for wrong with FALSE_ALARM times its chance to fail; who writes again after a rejection
knows what is wrong, which raises its level by NOTES too, but one that failed before is half as
likely to do better. These numbers are assumed. The reward is 1 for right, less what the turns cost.

The optimiser is sep-CMA-ES (Ros and Hansen 2008) from the package cmaes; --random searches at
random with as many evaluations, to compare. DIR is the routing data.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import gym
import numpy as np
import real_texts
import templates
from numpy.typing import NDArray
from request_generator import TEXT, TOOL, Generator

from baton.core.plan_types import KINDS, Need
from baton.core.planning.turn_roles import (
    MAX_TURNS,
    POSITION_FEATURES,
    WORKER_FEATURES,
    TurnPosition,
    TurnRole,
    WorkerFacts,
    is_allowed,
    position_after,
    position_features,
    worker_features,
)
from baton.routing import shipped_folder
from baton.routing.child.router_model import TURN_SHAPE, TURNS_FILE, TurnHead
from baton.routing.child.text_features import WIDTH, Encoder, Vectors

Floats = NDArray[np.float64]

NOTES = 0.3
FALSE_ALARM = 0.3
MOST_WORKERS = 9
ROWS = WIDTH + POSITION_FEATURES
POPULATION = 32
SIGMA = 0.1
RANDOM_WIDTHS = (0.03, 0.1, 0.3)
"""How far a random search looks around the start."""

BATCH = 512
POOL = 6000
MISREAD = 0.15
"""How often the kind is believed to be another than it is; difficulties are off by one as often."""


@dataclass(frozen=True)
class Pool:
    """Episodes as arrays: a row each, a column for each worker (`there` where there is one)."""

    vectors: Floats
    needs: Floats
    chance: Floats
    cost: Floats
    figures: Floats
    there: NDArray[np.bool_]
    tools: NDArray[np.bool_]

    def some(self, rows: NDArray[np.int64]) -> Pool:
        """Return some of the episodes."""
        return Pool(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def draw_pool(
    texts: Sequence[tuple[str, gym.Task]], vectors: Floats, seed: int, weight: float
) -> Pool:
    """Return POOL episodes: texts with freshly drawn rosters."""
    rng = random.Random(seed)
    rosters = gym.Rosters(rng)
    curve = gym.Curve(cost_weight=weight)
    size = (POOL, MOST_WORKERS)
    pool = Pool(
        np.zeros((POOL, WIDTH)), np.zeros((POOL, POSITION_FEATURES)),
        np.zeros(size), np.zeros(size), np.zeros((*size, WORKER_FEATURES)),
        np.zeros(size, bool), np.zeros(size, bool),
    )  # fmt: skip
    for row in range(POOL):
        place = rng.randrange(len(texts))
        _, task = texts[place]
        believed = misread(task, rng)
        episode = gym.Episode((task,), rosters.draw())
        pool.vectors[row] = vectors[place]
        need = Need(believed.kind, round(believed.difficulty))
        pool.needs[row] = position_features(TurnPosition(), need)
        for column, worker in enumerate(episode.workers):
            read = gym.tokens_read(episode, [task])
            pool.chance[row, column] = gym.success(worker, task, read, curve)
            used = 0 if worker.is_tool else read + gym.WRITTEN_TOKENS[task.kind]
            pool.cost[row, column] = gym.cost(worker, used, curve)
            looks = worker_facts(worker, believed, read)
            pool.figures[row, column] = worker_features(looks, column, TurnPosition())
            pool.there[row, column], pool.tools[row, column] = True, worker.is_tool
    return pool


def misread(task: gym.Task, rng: random.Random) -> gym.Task:
    """Return a task as it may be believed to be."""
    kind = rng.choice(KINDS) if rng.random() < MISREAD else task.kind
    off = rng.choice((-1, 1)) if rng.random() < 2 * MISREAD else 0
    return replace(task, kind=kind, difficulty=min(5, max(1, task.difficulty + off)))


def worker_facts(worker: gym.Worker, believed: gym.Task, read: float) -> WorkerFacts:
    """Return what the head sees of a worker for a part as it is believed to be."""
    chance = gym.success(worker, believed, read)
    skill = 5.0 if worker.is_tool else worker.skills.get(believed.kind, gym.SKILLS_UNKNOWN)
    used = 0 if worker.is_tool else read + gym.WRITTEN_TOKENS[believed.kind]
    dollars = worker.price * used / 1_000_000
    return WorkerFacts(chance, skill, dollars, worker.kind == "cloud", worker.is_tool)


def rewards(weights: Floats, pool: Pool, rng: np.random.Generator) -> Floats:
    """Return the reward of each episode, run by the head with these weights."""
    rows = np.arange(len(pool.vectors))
    table = weights.reshape(ROWS, -1)
    from_text = pool.vectors @ table[:WIDTH]
    luck = rng.random((MAX_TURNS, len(rows)))
    thought, wrote = np.full(len(rows), -1), np.full(len(rows), -1)
    verified = np.full(len(rows), -1)
    rejected, right, over = (np.zeros(len(rows), bool) for _ in range(3))
    notes, spent = np.zeros(len(rows)), np.zeros(len(rows))
    failed = np.zeros((len(rows), MOST_WORKERS), bool)
    for turn in range(MAX_TURNS):
        state = pool.needs.copy()
        state[:, :MAX_TURNS] = 0
        state[:, turn] = 1
        state[:, MAX_TURNS : MAX_TURNS + 3] = np.stack([thought >= 0, wrote >= 0, rejected], 1)
        figures = pool.figures.copy()
        for offset, who in enumerate((thought, wrote, verified), start=WORKER_FEATURES - 3):
            figures[rows[who >= 0], who[who >= 0], offset] = 1
        left = (from_text + state @ table[WIDTH:]).reshape(
            len(rows), len(TurnRole), WORKER_FEATURES
        )
        scores = np.einsum("nrf,nwf->nrw", left, figures)
        scores[~_allowed_moves(pool, turn, thought, wrote, rejected)] = -np.inf
        flat = scores.reshape(len(rows), -1)
        move = flat.argmax(1)
        best = flat[rows, move]
        stands = (wrote >= 0) & ~rejected & (best <= 0)
        over |= stands | ~np.isfinite(best)
        role, who = move // MOST_WORKERS, move % MOST_WORKERS
        going = ~over
        spent += np.where(going, pool.cost[rows, who], 0)
        level = np.where(role == TurnRole.WORKER, notes, 0)
        chance = _shifted_chances(pool.chance[rows, who], level)
        chance = np.where((role == TurnRole.WORKER) & failed[rows, who], chance / 2, chance)
        is_good = luck[turn] < chance
        thinks, works, checks = (going & (role == kind) for kind in TurnRole)
        notes = np.where(thinks, np.where(is_good, NOTES, -NOTES / 3), notes)
        thought = np.where(thinks, who, thought)
        right = np.where(works, is_good, right)
        failed[rows[works & ~is_good], who[works & ~is_good]] = True
        wrote, verified = np.where(works, who, wrote), np.where(works, -1, verified)
        rejected &= ~works
        skilled = pool.chance[rows, who]
        finds = np.where(right, FALSE_ALARM * (1 - skilled), gym.CHECK_STRENGTH * skilled)
        rejects = checks & (luck[turn] < finds)
        verified = np.where(checks, who, verified)
        notes = np.where(rejects, NOTES, notes)
        rejected |= rejects
        over |= checks & ~rejects
    return right - spent


def _shifted_chances(chance: Floats, level: Floats) -> Floats:
    """Return chances of workers whose level is that much higher."""
    held = np.clip(chance, 1e-6, 1 - 1e-6)
    odds = np.log(held / (1 - held)) + gym.SLOPE * level
    return np.where(level == 0, chance, 1 / (1 + np.exp(-odds)))


def _allowed_moves(
    pool: Pool,
    turn: int,
    thought: NDArray[np.int64],
    wrote: NDArray[np.int64],
    rejected: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return which moves there are, as `turn_roles.is_allowed` says for one episode."""
    columns = np.arange(MOST_WORKERS)
    talkers = pool.there & ~pool.tools & (turn < MAX_TURNS - 1)
    works = pool.there & ((wrote < 0) | rejected)[:, None]
    thinks = talkers & ((thought < 0) & (wrote < 0))[:, None]
    checks = talkers & ((wrote >= 0) & ~rejected)[:, None] & (columns != wrote[:, None])
    return np.stack([thinks, works, checks], 1)


def read_texts(data: Path, seed: int, held_out: bool) -> Iterator[tuple[str, gym.Task]]:
    """Yield parts of requests and questions with their kinds and difficulties.

    Those kept back are of other wordings, and of other questions.
    """
    generator = Generator(seed, held_out=held_out)
    languages = list(templates.written_languages())
    rng = random.Random(seed)
    found = 0
    while found < POOL // 3:
        kind = TOOL if rng.random() < 0.2 else TEXT
        example = generator.draw(kind, rng.choice(languages))
        if example is None or len(example.plan) != 1:
            continue
        head = example.plan[0].partition(":")[0]
        if kind == TOOL:
            digits = sum(character.isdigit() for character in example.plan[0])
            task = gym.Task("calculation", min(4, 1 + digits // 3), computable=True)
        else:
            task = gym.Task(head[:-1], int(head[-1]))
        found += 1
        yield example.prompt, task
    questions = real_texts.read_texts(data)
    kept = [text for text in questions if (hash_of(text.prompt) < 0.2) == held_out]
    for text in rng.sample(kept, POOL // 6):
        yield text.prompt, gym.Task(text.kind, text.difficulty)


def hash_of(text: str) -> float:
    """Return a number from 0 to 1 that depends on the text alone."""
    import hashlib

    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32


def pool_of(data: Path, seed: int, held_out: bool, weight: float) -> Pool:
    """Return a pool of episodes, with the texts read by the router's encoder."""
    texts = list(read_texts(data, seed, held_out))
    vectors = Encoder(shipped_folder()).vectors([text for text, _ in texts]).astype(np.float64)
    return draw_pool(texts, vectors, seed, weight)


class Head:
    """Names the worker of each part of an episode, and who checks it, without any search."""

    def __init__(self, folder: Path | None = None) -> None:
        self._head = TurnHead.load(folder or shipped_folder())
        self._encoder = Encoder(folder or shipped_folder())

    def steps(self, episode: gym.Episode, texts: Sequence[str]) -> list[gym.Step]:
        """Return a step for each part, whose texts these are, then the checks."""
        vectors = self._encoder.vectors(texts)
        chosen = [
            self._moves(episode, task, vector)
            for task, vector in zip(episode.tasks, vectors, strict=True)
        ]
        steps = [
            gym.Step(moves[0], (number,), task.inputs)
            for number, (task, moves) in enumerate(zip(episode.tasks, chosen, strict=True), start=1)
        ]
        for number, (_, *checkers) in enumerate(chosen, start=1):
            steps += [gym.Step(name, (), (number,), number) for name in checkers]
        return steps

    def _moves(self, episode: gym.Episode, task: gym.Task, vector: Vectors) -> list[str]:
        """Return who works, and who verifies it if anybody does."""
        read = gym.tokens_read(episode, [task])
        workers = [worker_facts(worker, task, read) for worker in episode.workers]
        need = Need(task.kind, round(task.difficulty))
        position, names = TurnPosition(), []
        for role in (TurnRole.WORKER, TurnRole.VERIFIER):
            figures = [worker_features(worker, n, position) for n, worker in enumerate(workers)]
            scores = self._head.scores(vector, position_features(position, need), figures)
            allowed = [
                (score, place)
                for place, score in enumerate(scores[role])
                if is_allowed(role, place, position, workers)
            ]
            if role is TurnRole.VERIFIER and max(allowed, default=(0.0, 0))[0] <= 0:
                break
            place = max(allowed)[1]
            names.append(episode.workers[place].id)
            position = position_after(position, role, place)
        return names


def train(pool: Pool, generations: int, seed: int, log: Path, at_random: bool = False) -> Floats:
    """Return the weights that did best on average; each generation is a line of `log`."""
    from cmaes import SepCMA

    size = math.prod(TURN_SHAPE)
    rng = np.random.default_rng(seed)
    start = TurnHead.by_rule().weights.ravel()
    optimiser = SepCMA(mean=start, sigma=SIGMA, population_size=POPULATION, seed=seed)
    best, best_reward = start, -math.inf
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        for generation in range(generations):
            rows = rng.integers(0, len(pool.vectors), BATCH)
            some, luck = pool.some(rows), int(rng.integers(1 << 31))
            if at_random:
                widths = rng.choice(RANDOM_WIDTHS, (POPULATION, 1))
                tried = list(start + widths * rng.normal(size=(POPULATION, size)))
            else:
                tried = [optimiser.ask() for _ in range(POPULATION)]
            found = [float(rewards(one, some, np.random.default_rng(luck)).mean()) for one in tried]
            if at_random:
                place = int(np.argmax(found))
                kept = rewards(tried[place], pool, np.random.default_rng(1)).mean()
                if kept > best_reward:
                    best, best_reward = tried[place], float(kept)
            else:
                optimiser.tell([(one, -reward) for one, reward in zip(tried, found, strict=True)])
                best = optimiser.mean
            line = {
                "generation": generation,
                "reward": round(float(np.mean(found)), 4),
                "best": round(max(found), 4),
                "seconds": round(time.monotonic() - began, 1),
            }
            print(json.dumps(line), file=file, flush=True)
    return best


def alone(pool: Pool, how: str) -> Floats:
    """Return the expected reward of one worker that works once: the truly best, or by a rule."""
    value = np.where(pool.there, pool.chance - pool.cost, -np.inf)
    rows = np.arange(len(value))
    match how:
        case "best single":
            chosen = value.argmax(1)
        case "cheapest":
            chosen = np.where(pool.there & ~pool.tools, pool.cost, np.inf).argmin(1)
        case "likeliest":
            chosen = np.where(pool.there, pool.figures[:, :, 1], -1).argmax(1)
        case "priced":  # a rule of one line
            believed = pool.figures[:, :, 1] - pool.cost
            chosen = np.where(pool.there, believed, -np.inf).argmax(1)
        case _:
            chosen = np.random.default_rng(1).integers(0, pool.there.sum(1))
    found: Floats = value[rows, chosen]
    return found


def compare(pool: Pool, heads: dict[str, Floats], rounds: int = 8) -> Iterator[str]:
    """Yield what each reaches on episodes kept back, with 95 % bootstrap intervals, paired."""
    found = {
        name: alone(pool, name)
        for name in ("random", "cheapest", "likeliest", "priced", "best single")
    }
    for name, weights in heads.items():
        totals = [rewards(weights, pool, np.random.default_rng(n)) for n in range(rounds)]
        found[name] = np.mean(totals, axis=0)
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(pool.vectors), (1000, len(pool.vectors)))
    for name, values in found.items():
        low, high = np.quantile(values[drawn].mean(1), (0.025, 0.975))
        ahead = values - found["priced"]
        less, more = np.quantile(ahead[drawn].mean(1), (0.025, 0.975))
        yield (
            f"{name}: {values.mean():.4f} [{low:.4f}, {high:.4f}], against the rule with prices "
            f"{ahead.mean():+.4f} [{less:+.4f}, {more:+.4f}]"
        )


def main() -> None:
    """Read the arguments, train, compare, and write the head."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder; gets turns.npz")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--generations", type=int, default=1500)
    parser.add_argument(
        "--cost-weight",
        type=float,
        default=gym.COST_WEIGHT,
        help="what a dollar weighs in the reward",
    )
    parser.add_argument("--random", action="store_true", help="search at random instead")
    args = parser.parse_args()
    pool = pool_of(args.data, args.seed, False, args.cost_weight)
    args.out.mkdir(parents=True, exist_ok=True)
    log = args.out / "turns.jsonl"
    weights = train(pool, args.generations, args.seed, log, args.random)
    kept_back = pool_of(args.data, 1000 + args.seed, True, args.cost_weight)
    print("\n".join(compare(kept_back, {"start": TurnHead.by_rule().weights, "trained": weights})))
    head = weights.reshape(TURN_SHAPE).astype(np.float32)
    np.savez_compressed(args.out / TURNS_FILE, head=head)


if __name__ == "__main__":
    main()
