"""Compares designs of the plan: each is trained alone, for the same processor time and seeds.

    PYTHONPATH=app python scripts/training/conductor/ablation.py --out DIR [--minutes M] [--report]

Minutes are the processor's, all threads together: what else runs meanwhile takes nothing from a
design, and two seeds can be trained side by side, with one thread each.

A design says how a request is put to the model and what the model writes; all else is the same:
English requests of `texts/`, the base, the adapter, the batches. Requests of wordings that were
kept back, with random rosters, are then planned greedily, and a plan is worth what
plan_reward.py says. `--report` prints the table of what DIR holds, each design against `lines` on
the same requests, paired. A run that is there already isn't made again.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import gym
import plan_reward
import torch
import train
from grpo import SampledPlan, text_of, write
from intervals import bootstrap_interval
from learner import PROMPT, Learner, starter
from plan_reward import SampledRequest
from request_generator import COMPOUND, NONE, TEXT, TOOL, Example, Generator
from score_episodes import calibrated_difficulty
from torch.nn import functional
from train import EncodedExample, Piece

from baton.core.plan_types import KINDS, MAX_DRAWN_STEPS
from baton.core.planning.plan_lines import TOOL_HEADS

LANGUAGE = "en"
SEEDS = (1, 2)
MINUTES = 15.0
"""Of the processor, for each run."""
JUDGED, JUDGED_AT_ONCE = 150, 10
MOST_MODELS = 5
"""Of a roster that the model reads."""
PLANNED_EXAMPLES = 4000
"""What the learning rate's warm-up is a share of, as the minutes end a run."""
NEIGHBOUR = 0.15
"""The share of the target that a difficulty's neighbours have each, where targets are soft."""

DIGITS = "12345"
NAMES = "ABCDEFGH"


@dataclass(frozen=True)
class Request:
    """A request as the gym sees it, and its plan's lines."""

    drawn: SampledRequest
    lines: tuple[str, ...]


def requests(seed: int, held_out: bool) -> Iterator[Request]:
    """Yield English requests, each with a random roster; the same seed yields the same."""
    generator = Generator(seed, held_out=held_out)
    rng = random.Random(seed)
    rosters = gym.Rosters(rng)
    kinds = {TOOL: 40, NONE: 13, TEXT: 9, COMPOUND: 38}
    while True:
        kind = rng.choices(tuple(kinds), tuple(kinds.values()))[0]
        example = generator.draw(kind, LANGUAGE)
        if example is not None and (drawn := _draw_request(example, rosters)):
            yield Request(drawn, example.plan)


def _draw_request(example: Example, rosters: gym.Rosters) -> SampledRequest | None:
    while drawn := plan_reward.draw(example, rosters):
        if len(_models(drawn)) <= MOST_MODELS:
            break
    return drawn


def _models(drawn: SampledRequest) -> list[gym.Worker]:
    """Return a roster's models in the order in which the plan names them A, B, C."""
    return [worker for worker in drawn.episode.workers if not worker.is_tool]


# The designs

Spreads = Sequence[tuple[float, ...]]


class Lines:
    """What ships: lines with kind and difficulty, and code assigns the workers."""

    softness = 0.0

    def prompt(self, request: Request) -> str:
        """Return what the model reads."""
        return PROMPT.format(prompt=request.drawn.prompt)

    def plan(self, request: Request) -> list[list[Piece]]:
        """Return what the model is to write."""
        return [train.pieces(line) for line in request.lines]

    def worth(self, request: Request, text: str, spreads: Spreads) -> float:
        """Return the reward of what it wrote."""
        likely = [calibrated_difficulty(spread, 3) for spread in spreads]
        return plan_reward.reward(request.drawn, text, spreads=likely)


class SoftLines(Lines):
    """The same; a difficulty's neighbours are a little right, too."""

    softness = NEIGHBOUR


class Json(Lines):
    """The same plan as JSON."""

    def plan(self, request: Request) -> list[list[Piece]]:
        """Return an array with an object a part, one a line."""
        lines = []
        for line in request.lines:
            head, body, inputs = _split(line)
            counts = train.COPIED_WEIGHT if head not in TOOL_HEADS and body != "*" else 1.0
            quoted = json.dumps(body, ensure_ascii=False)
            after = f', "needs": [{inputs}]' if inputs else ""
            first = f'{{"head": "{head}", "text": {quoted[:2]}'
            lines.append([(first, 1.0), (quoted[2:], counts), (f"{after}}}", 1.0)])
        return lines

    def worth(self, request: Request, text: str, spreads: Spreads) -> float:
        """Return the reward of the lines that it stands for."""
        try:
            parts = [json.loads(line) for line in text.split("\n")]
            lines = [_step_line(p["head"], p["text"], p.get("needs", ())) for p in parts]
        except (ValueError, TypeError, KeyError, AttributeError):
            return plan_reward.UNREADABLE
        return super().worth(request, "\n".join(lines), spreads)


class Table(Lines):
    """The model reads a roster with a row for each kind, and writes a worker instead of a tag."""

    def prompt(self, request: Request) -> str:
        """Return the roster and the request."""
        return f"{self._roster(_models(request.drawn))}\n{super().prompt(request)}"

    def _roster(self, models: Sequence[gym.Worker]) -> str:
        def row(name: str, values: Sequence[float]) -> str:
            cells = (f"{NAMES[n]}{value:g}" for n, value in enumerate(values))
            return f"{name} {' '.join(cells)}"

        rows = [row("price", [model.price for model in models])]
        rows += [row(kind, [round(model.skills[kind]) for model in models]) for kind in KINDS]
        return "\n".join(rows)

    def plan(self, request: Request) -> list[list[Piece]]:
        """Return lines whose heads are tools and workers: those of the best plan."""
        names = {model.id: NAMES[n] for n, model in enumerate(_models(request.drawn))}
        steps = gym.best_split(request.drawn.episode)
        lines = []
        for line, step in zip(request.lines, steps, strict=True):
            head, body, inputs = _split(line)
            head = head if head in TOOL_HEADS else names.get(step.worker, NAMES[0])
            lines.append(train.pieces(_step_line(head, body, inputs.split(", ") if inputs else ())))
        return lines

    def worth(self, request: Request, text: str, spreads: Spreads) -> float:
        """Return the reward with the workers that it named."""
        models = _models(request.drawn)
        tool = next(worker.id for worker in request.drawn.episode.workers if worker.is_tool)
        named, lines = [], []
        for line in text.split("\n")[:MAX_DRAWN_STEPS]:
            head, body, inputs = _split(line)
            place = NAMES.find(head) if len(head) == 1 else -1
            if head in TOOL_HEADS:
                named.append(tool)
            elif 0 <= place < len(models):
                named.append(models[place].id)
                head = "chat3"
            else:
                return plan_reward.UNREADABLE
            lines.append(_step_line(head, body, inputs.split(", ") if inputs else ()))
        return plan_reward.reward(request.drawn, "\n".join(lines), assigner=_Named(named))


class Cards(Table):
    """The same, with a card for each worker instead of a table."""

    def _roster(self, models: Sequence[gym.Worker]) -> str:
        return "\n".join(
            f"{NAMES[n]}: price {model.price:g}, "
            + ", ".join(f"{kind} {round(model.skills[kind])}" for kind in KINDS)
            for n, model in enumerate(models)
        )


@dataclass(frozen=True)
class _Named:
    """Gives each part to the worker that the plan names."""

    workers: Sequence[str]

    def steps(self, episode: gym.Episode, texts: Sequence[str]) -> list[gym.Step]:
        """Return a step for each part."""
        return [
            gym.Step(worker, (number,), task.inputs)
            for number, (worker, task) in enumerate(
                zip(self.workers, episode.tasks, strict=True), start=1
            )
        ]


def _split(line: str) -> tuple[str, str, str]:
    head, _, rest = line.partition(": ")
    body, _, inputs = rest.partition(" <- ")
    return head, body, inputs


def _step_line(head: str, body: str, inputs: Sequence[object]) -> str:
    return f"{head}: {body}" + (f" <- {', '.join(map(str, inputs))}" if inputs else "")


DESIGNS: dict[str, Callable[[], Lines]] = {
    "lines": Lines,
    "json": Json,
    "soft": SoftLines,
    "table": Table,
    "cards": Cards,
}

# Training and judging


def encode_example(learner: Learner, design: Lines, request: Request) -> EncodedExample:
    """Return a request and its plan as a design has them."""
    found = train.encode(learner.tokenizer, design.prompt(request), design.plan(request))
    if not design.softness:
        return found
    digits = _digits(learner)
    soft = {}
    for place in _difficulties(learner, found.tokens, found.weights):
        level = digits.index(found.tokens[place])
        sides = [n for n in (level - 1, level + 1) if 0 <= n < len(digits)]
        shares = {digits[n]: design.softness for n in sides}
        soft[place] = {digits[level]: 1 - sum(shares.values()), **shares}
    return replace(found, soft=soft)


def _digits(learner: Learner) -> list[int]:
    """Return the tokens of the difficulties from 1 to 5."""
    return [learner.tokenizer.encode(digit)[-1] for digit in DIGITS]


def _difficulties(
    learner: Learner, tokens: Sequence[int], weights: Sequence[float]
) -> Iterator[int]:
    """Yield where a plan's tokens are difficulties: a digit right behind a kind."""
    digits = set(_digits(learner))
    start = next((n for n, weight in enumerate(weights) if weight), len(tokens))
    for place in range(start, len(tokens)):
        if tokens[place] in digits:
            before = learner.tokenizer.decode(tokens[start:place]).rpartition("\n")[2]
            if before.removeprefix('{"head": "') in KINDS:
                yield place


def train_design(learner: Learner, design: Lines, seed: int, minutes: float) -> int:
    """Train for so many minutes of the processor; return how many examples were read."""
    examples = (
        encode_example(learner, design, request) for request in requests(seed, held_out=False)
    )
    began, done = time.process_time(), 0
    for batch in train.batches(examples, random.Random(seed)):
        share = (time.process_time() - began) / (60 * minutes)
        if share >= 1:
            break
        loss, _ = train.loss_of(learner.model, batch)
        loss.backward()
        warm = done / (train.WARM_UP * PLANNED_EXAMPLES) + 0.02
        learner.step(min(1, warm, (1 - share) / train.DECAY))
        done += len(batch)
    return done


def judge(learner: Learner, design: Lines, count: int) -> list[float]:
    """Return what greedy plans are worth for requests kept back, the same for every design."""
    source = requests(10_000, held_out=True)
    judged = sorted((next(source) for _ in range(count)), key=lambda r: len(r.drawn.prompt))
    found = []
    for start in range(0, count, JUDGED_AT_ONCE):
        some = judged[start : start + JUDGED_AT_ONCE]
        read = [learner.tokenizer.encode(design.prompt(request)) for request in some]
        for request, (plan,) in zip(some, write(learner, read, 1, None), strict=True):
            found.append(design.worth(request, text_of(learner, plan), spreads(learner, plan)))
    return found


def spreads(learner: Learner, plan: SampledPlan) -> list[tuple[float, ...]]:
    """Return how likely each difficulty from 1 to 5 was, for each that a plan says."""
    tokens = (*plan.request, *plan.tokens)
    weights = [0.0] * len(plan.request) + [1.0] * len(plan.tokens)
    places = list(_difficulties(learner, tokens, weights))
    if not places:
        return []
    with torch.no_grad():
        hidden = learner.model.model(torch.tensor([tokens])).last_hidden_state[0]
        logits = learner.model.lm_head(hidden[[place - 1 for place in places]]).float()
    chances = functional.softmax(logits[:, _digits(learner)], -1)
    return [tuple(row) for row in chances.tolist()]


def run(args: argparse.Namespace, name: str, seed: int) -> None:
    """Train and judge one design with one seed, where that isn't done yet."""
    file = args.out / f"{name}-{seed}.json"
    if file.is_file():
        return
    design = DESIGNS[name]()
    learner = Learner(args.base, seed, args.threads)
    done = train_design(learner, design, seed, args.minutes)
    rewards = judge(learner, design, args.judge)
    row = {"design": name, "seed": seed, "minutes": args.minutes, "examples": done}
    file.write_text(json.dumps({**row, "rewards": rewards}) + "\n", encoding="utf-8")
    print(f"{name}, seed {seed}: {done} examples, {statistics.fmean(rewards):.3f}", flush=True)


def report(folder: Path) -> Iterator[str]:
    """Yield the table of a folder's runs as lines of Markdown."""
    rows = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    yield "| design | seed | examples | unreadable | reward | against lines, paired |"
    yield "|---|---|---|---|---|---|"
    plain = {row["seed"]: row["rewards"] for row in rows if row["design"] == "lines"}
    for row in rows:
        found, ahead = row["rewards"], ""
        if row["design"] != "lines" and row["seed"] in plain:
            pairs = zip(found, plain[row["seed"]], strict=True)
            differences = [mine - theirs for mine, theirs in pairs]
            low, high = bootstrap_interval(differences, row["seed"])
            ahead = f"{statistics.fmean(differences):+.3f} [{low:+.3f}, {high:+.3f}]"
        broken = sum(reward == plan_reward.UNREADABLE for reward in found) / len(found)
        yield (
            f"| {row['design']} | {row['seed']} | {row['examples']:,} | {broken:.0%} | "
            f"{statistics.fmean(found):.3f} | {ahead} |"
        )


def main() -> None:
    """Read the arguments, train and judge, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", type=Path, default=starter())
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--judge", type=int, default=JUDGED, help="how many requests")
    parser.add_argument("--report", action="store_true", help="train nothing")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for seed in () if args.report else args.seeds:
        for name in args.designs:
            run(args, name, seed)
    print("\n".join(report(args.out)))


if __name__ == "__main__":
    main()
