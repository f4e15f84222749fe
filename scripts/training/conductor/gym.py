"""The gym: episodes with freshly drawn rosters, what a plan is worth in them, and the best plan.

The outcome model is that of the first experiment: a worker succeeds with sigmoid(1.7 (skill -
difficulty) + 1.4); a dollar, a step and a context that is too small cost. Rewards are expected
ones; `outcome` draws a noisy one. The model never sees skill numbers that the roster doesn't state.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from baton.core.plan_types import KINDS

SLOPE, OFFSET = 1.7, 1.4
STEP_COST = 0.015
COST_WEIGHT = 20.0
"""What a dollar weighs in the reward: 0.02 for a thousand tokens at a dollar a million."""
CONTEXT_FACTOR, MERGE_FACTOR, BLIND_FACTOR = 0.05, 0.88, 0.25
CHECK_STRENGTH = 0.7
TOOL_SUCCESS, TOOL_MISUSE = 0.98, 0.01
MIN_CHECK_GAIN = 0.03

SKILLS_UNKNOWN = 1.0
"""The skill, from 0 to 5, of a worker for a kind that its card doesn't name."""

WRITTEN_TOKENS: Mapping[str, int] = {
    "math": 500, "calculation": 60, "code": 500, "knowledge": 250, "reasoning": 400,
    "writing": 350, "rewriting": 200, "summary": 200, "extraction": 150, "translation": 120,
    "planning": 400, "chat": 100,
}  # fmt: skip
"""How much a step of each kind writes, in tokens."""


@dataclass(frozen=True)
class Worker:
    """A worker as an episode states it: `price` in US dollars per million tokens."""

    id: str
    kind: str
    price: float
    context_k: float
    skills: Mapping[str, float]

    @property
    def is_tool(self) -> bool:
        """Whether it computes instead of writing."""
        return self.kind == "tool"


@dataclass(frozen=True)
class Task:
    """One part of a request; `inputs` are earlier parts, from 1.

    `spread` is how likely each difficulty from 1 to 5 is, where it is only believed, and `kinds`
    how likely each kind is.
    """

    kind: str
    difficulty: float
    inputs: tuple[int, ...] = ()
    reads_attachment: bool = False
    computable: bool = False
    spread: tuple[float, ...] = ()
    kinds: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Step:
    """A step that does some parts, or `checks` an earlier step (from 1)."""

    worker: str
    parts: tuple[int, ...]
    inputs: tuple[int, ...] = ()
    checks: int = 0


@dataclass(frozen=True)
class Episode:
    """A request's parts, how long it is, and who is there."""

    tasks: tuple[Task, ...]
    workers: tuple[Worker, ...]
    prompt_tokens: int = 60
    attachment_tokens: int = 0
    id: str = ""


@dataclass(frozen=True)
class Curve:
    """The outcome model's constants, so that they can be perturbed."""

    slope: float = SLOPE
    cost_weight: float = COST_WEIGHT


CURVE = Curve()
BELIEVED = Curve(cost_weight=1.7 * COST_WEIGHT)
"""By which workers are chosen where kinds and difficulties are only believed: the highest of
several guesses is mostly too high a guess, so a dearer worker must be better by more."""


def success(worker: Worker, task: Task, read: float, curve: Curve = CURVE) -> float:
    """Return how likely a worker does a part well that reads so many tokens."""
    if worker.is_tool:
        return TOOL_SUCCESS if task.computable else TOOL_MISUSE
    kinds = task.kinds or ((task.kind, 1.0),)
    skills = [(worker.skills.get(kind, SKILLS_UNKNOWN), share) for kind, share in kinds]
    spread = tuple(enumerate(task.spread, start=1)) or ((task.difficulty, 1.0),)
    chance = sum(
        share * likely / (1 + math.exp(-(curve.slope * (skill - difficulty) + OFFSET)))
        for skill, share in skills
        for difficulty, likely in spread
    )
    fits = worker.context_k <= 0 or read + WRITTEN_TOKENS[task.kind] <= 1000 * worker.context_k
    return chance if fits else chance * CONTEXT_FACTOR


def cost(worker: Worker, tokens: float, curve: Curve = CURVE) -> float:
    """Return what a step costs in the reward."""
    return STEP_COST + curve.cost_weight * worker.price * tokens / 1_000_000


def tokens_read(episode: Episode, tasks: Iterable[Task]) -> float:
    """Return how many tokens a step that does these parts reads."""
    tasks = list(tasks)
    read = episode.prompt_tokens * len(tasks) / len(episode.tasks)
    for task in tasks:
        read += sum(WRITTEN_TOKENS[episode.tasks[n - 1].kind] for n in task.inputs)
    return read + (episode.attachment_tokens if any(t.reads_attachment for t in tasks) else 0)


def reward(episode: Episode, steps: Sequence[Step], curve: Curve = CURVE) -> float:
    """Return a plan's expected reward; a part that no step does has none."""
    chances, spent = prospects(episode, steps, curve)
    return _mean_success(episode, chances) - spent


def outcome(
    episode: Episode, steps: Sequence[Step], rng: random.Random, curve: Curve = CURVE
) -> float:
    """Return a drawn reward: every part goes well or it doesn't. Its mean is `reward`."""
    chances, spent = prospects(episode, steps, curve)
    drawn = {part: float(rng.random() < chance) for part, chance in chances.items()}
    return _mean_success(episode, drawn) - spent


def _mean_success(episode: Episode, chances: Mapping[int, float]) -> float:
    total = 0.0
    for number, task in enumerate(episode.tasks, 1):
        parents = math.prod(chances.get(n, 0.0) for n in task.inputs)
        total += chances.get(number, 0.0) * parents
    return total / len(episode.tasks)


def prospects(
    episode: Episode, steps: Sequence[Step], curve: Curve = CURVE
) -> tuple[Mapping[int, float], float]:
    """Return how likely each part goes well, and what the steps cost."""
    workers = {worker.id: worker for worker in episode.workers}
    doer = {part: number for number, step in enumerate(steps, 1) for part in step.parts}
    chances: dict[int, float] = {}
    spent = 0.0
    for number, step in enumerate(steps, start=1):
        worker = workers[step.worker]
        parts = steps[step.checks - 1].parts if step.checks else step.parts
        done = [episode.tasks[part - 1] for part in parts]
        read = tokens_read(episode, done)
        written = sum(WRITTEN_TOKENS[task.kind] for task in done)
        spent += cost(worker, 0 if worker.is_tool else read + written, curve)
        for part, task in zip(parts, done, strict=True):
            chance = success(worker, task, read, curve)
            if step.checks:
                before = chances.get(part, 0.0)
                chances[part] = 1 - (1 - before) * (1 - CHECK_STRENGTH * chance)
                continue
            sees = {number, *step.inputs}
            blind = any(doer.get(n) not in sees for n in task.inputs)
            chances[part] = (
                chance * MERGE_FACTOR ** (len(done) - 1) * (BLIND_FACTOR if blind else 1)
            )
    return chances, spent


def best_plan(
    episode: Episode, curve: Curve = CURVE, checks: bool = True
) -> tuple[list[Step], float]:
    """Return the plan with the highest expected reward, and that reward.

    Exact for up to four parts: each part alone or all parts in one step, each by any worker, each
    checked by one other worker or not.
    """
    best: list[Step] = []
    best_reward = -math.inf
    for steps in _plans(episode, curve, checks):
        found = reward(episode, steps, curve)
        if found > best_reward:
            best, best_reward = steps, found
    return best, best_reward


def best_split(episode: Episode, curve: Curve = CURVE) -> list[Step]:
    """Return the best plan of those with a step for each part and no checks."""
    plans = _split_plans(episode, curve, False)
    return max(plans, key=lambda steps: reward(episode, steps, curve))


def _plans(episode: Episode, curve: Curve, checks: bool) -> Iterator[list[Step]]:
    everything = tuple(range(1, len(episode.tasks) + 1))
    for worker in episode.workers:
        yield from _checked_plans(episode, [Step(worker.id, everything)], curve, checks)
    if len(everything) > 1:
        yield from _split_plans(episode, curve, checks)


def _split_plans(episode: Episode, curve: Curve, checks: bool) -> Iterator[list[Step]]:
    """Yield plans of a step a part: parts without dependence choose their worker alone."""
    free = [n for n in range(1, len(episode.tasks) + 1) if not _is_linked(episode, n)]
    fixed = {n: _alone(episode, n, curve) for n in free}
    linked = [n for n in range(1, len(episode.tasks) + 1) if n not in fixed]
    options = [_useful(episode, n, curve) for n in linked]
    for names in itertools.product(*options):
        chosen = {**fixed, **dict(zip(linked, names, strict=True))}
        steps = [
            Step(chosen[n], (n,), task.inputs) for n, task in enumerate(episode.tasks, start=1)
        ]
        yield from _checked_plans(episode, steps, curve, checks)


def _is_linked(episode: Episode, number: int) -> bool:
    return bool(episode.tasks[number - 1].inputs) or any(
        number in task.inputs for task in episode.tasks
    )


def _alone(episode: Episode, number: int, curve: Curve) -> str:
    return max(episode.workers, key=lambda w: _value(episode, number, w, curve)).id


def _value(episode: Episode, number: int, worker: Worker, curve: Curve) -> float:
    task = episode.tasks[number - 1]
    read = tokens_read(episode, [task])
    used = 0 if worker.is_tool else read + WRITTEN_TOKENS[task.kind]
    chance = success(worker, task, read, curve)
    return chance / len(episode.tasks) - cost(worker, used, curve)


def _useful(episode: Episode, number: int, curve: Curve) -> list[str]:
    """Return the workers of a part that no other one beats in both chance and cost."""
    task = episode.tasks[number - 1]
    read = tokens_read(episode, [task])
    known = []
    for worker in episode.workers:
        used = 0 if worker.is_tool else read + WRITTEN_TOKENS[task.kind]
        known.append((worker.id, success(worker, task, read, curve), cost(worker, used, curve)))
    return [
        id for id, chance, price in known if not any(c > chance and p <= price for _, c, p in known)
    ]


def _checked_plans(
    episode: Episode, steps: list[Step], curve: Curve, checks: bool
) -> Iterator[list[Step]]:
    """Yield a plan, and where it gains enough, the same plan with a check of its weakest step."""
    yield steps
    if not checks:
        return
    plain = reward(episode, steps, curve)
    found = list(steps)
    for number, step in enumerate(steps, start=1):
        if len(step.parts) == 1 and episode.tasks[step.parts[0] - 1].computable:
            continue
        options = [
            [*found, Step(worker.id, (), (number,), number)]
            for worker in episode.workers
            if worker.id != step.worker and not worker.is_tool
        ]
        better = max(options, key=lambda plan: reward(episode, plan, curve), default=found)
        if reward(episode, better, curve) > reward(episode, found, curve) + MIN_CHECK_GAIN:
            found = better
    if reward(episode, found, curve) > plain:
        yield found


PRICES = (0.0, 0.0, 0.05, 0.15, 0.3, 0.6, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)


@dataclass
class Rosters:
    """Draws rosters: 2 to 8 workers whose order says nothing, prices and skills apart."""

    rng: random.Random = field(default_factory=random.Random)

    def draw(self) -> tuple[Worker, ...]:
        """Return a roster with a free worker, and sometimes a calculator."""
        count = self.rng.randint(2, 8)
        workers = [self._model(number) for number in range(count)]
        if all(worker.price for worker in workers):
            workers[0] = replace(workers[0], kind="local", price=0.0)
        if self.rng.random() < 0.6:
            skills = {"calculation": 5.0}
            workers.append(Worker("calculator", "tool", 0.0, 0.0, skills))
        self.rng.shuffle(workers)
        return tuple(workers)

    def _model(self, number: int) -> Worker:
        rng = self.rng
        price = rng.choice(PRICES)
        general = rng.uniform(0.8, 3.0) + (0.5 * math.log10(1 + 10 * price) if price else 0)
        general += rng.gauss(0, 0.5)
        skills = {kind: round(min(5, max(0, rng.gauss(general, 0.9))), 1) for kind in KINDS}
        name = f"{rng.choice(_NAMES)}-{number}{rng.choice('abcdefgh')}"
        context = rng.choice((2, 4, 8, 16, 32, 128, 200))
        return Worker(name, "cloud" if price else "local", price, context, skills)


_NAMES = ("atlas", "birch", "cobalt", "dune", "ember", "fjord", "grove", "heron", "iris", "jade")
