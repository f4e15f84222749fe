"""What conducting is worth, end to end: compound tasks, real small models, a simulated cloud.

    scripts/bench_orchestration --out FILE                   runs what isn't there yet (hours)
    scripts/bench_orchestration --out FILE --report          the tables again, from that file
    scripts/bench_orchestration --out FILE --svg PLOT.svg    and the frontier of cost and accuracy

The tasks are those of scripts/training/conductor/held_out/live.jsonl, each part graded by a
pattern. The starter model and the tools really work. The cloud worker is simulated, on loopback and
through gate, ledger and gateway: it does a part well with the chance that the gym's outcome model
gives its stated skill, drawn once for each part, so that all ways meet the same luck. A ceiling is
what all tasks together may cost: each may spend what those before it left. (A day's budget would be
paced, and what comes of it would depend on the hour.) What the starter model answers to the same
messages is kept, and not written again for another ceiling.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import os
import random
import re
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts" / "training" / "conductor")]
sys.path.insert(0, str(ROOT / "scripts" / "lab"))
import gym  # noqa: E402
from intervals import bootstrap_interval  # noqa: E402
from plots import Plot, Point, draw_svg  # noqa: E402

from baton.core.messages import Chunk, Prompt, Request  # noqa: E402
from baton.core.money import NANO, Price, Rates, parse_usd  # noqa: E402
from baton.core.permissions import PromptLimits  # noqa: E402
from baton.core.plan_types import KINDS  # noqa: E402
from baton.core.ports import Worker  # noqa: E402
from baton.core.run.orchestra import Orchestra  # noqa: E402
from baton.core.view import RunView  # noqa: E402
from support.fake_cloud import Cloud, ReceivedRequest, Reply  # noqa: E402

TASKS = ROOT / "scripts" / "training" / "conductor" / "held_out" / "live.jsonl"
SKILL = 4.5
"""Of the cloud worker in every kind, from 0 to 5."""
IN_PRICE, OUT_PRICE = "15", "75"
"""US dollars per million tokens, as the dearest models cost in 2026."""
MAX_TOKENS = 200
SEED = 7
TOOLS = ("calculator", "units", "clock")
DAY = 1000
"""US dollars: no limit but that of a task."""
CEILINGS = ("0", "0.05", "0.2", "1")
CONFIG = f"""
conductor = "{{conductor}}"
[budget]
day = "{DAY}"
policy = "budget"
[[workers]]
id = "cloud"
kind = "server"
model = "kit-1"
base_url = "{{url}}"
privacy = "cloud"
price = {{{{ input = "{IN_PRICE}", output = "{OUT_PRICE}" }}}}
max_output = {MAX_TOKENS}
skills = {{{{ {", ".join(f"{kind} = {SKILL}" for kind in KINDS)} }}}}
"""


@dataclass(frozen=True)
class ComparedStrategy:
    """A strategy as it is compared: who conducts, and who answers by default."""

    name: str
    strategy: str
    worker: str
    conductor: str = ""
    is_free: bool = False


WAYS = (
    ComparedStrategy("hybrid, trained conductor", "hybrid", "small"),
    ComparedStrategy("hybrid, rule", "hybrid", "small", conductor="rule"),
    ComparedStrategy("single, local", "single", "small", is_free=True),
    ComparedStrategy("single, cloud", "single", "cloud"),
    ComparedStrategy("reflect, local", "reflect", "small", is_free=True),
    ComparedStrategy("moa", "moa", "small"),
    ComparedStrategy("trinity", "trinity", "small"),
)

# The simulated cloud worker


@dataclass(frozen=True)
class Task:
    """A compound request: its parts as the file states them."""

    id: str
    prompt: str
    parts: tuple[Mapping[str, Any], ...]

    @property
    def rights(self) -> list[bool]:
        """Whether the cloud worker does each part well, where it sees what the part needs."""
        return [
            _luck(self.id, number) < chance(part) for number, part in enumerate(self.parts, start=1)
        ]


def read_tasks(file: Path = TASKS) -> list[Task]:
    """Return the tasks of a file."""
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [Task(row["id"], row["prompt"], tuple(row["parts"])) for row in rows]


def chance(part: Mapping[str, Any]) -> float:
    """Return how likely the cloud worker does a part well, by the gym's outcome model."""
    difficulty = part["difficulty"]
    if part["tool"]:
        difficulty = min(4, 1 + sum(map(str.isdigit, part["text"])) // 3)
    worker = gym.Worker("cloud", "cloud", float(OUT_PRICE), 0, dict.fromkeys(KINDS, SKILL))
    return gym.success(worker, gym.Task(part["kind"], difficulty), 0)


def _luck(task: str, part: int) -> float:
    digest = hashlib.sha256(f"{SEED}:{task}:{part}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def reply_to(task: Task, message: str) -> str:
    """Return what the cloud worker writes: the parts that a message asks for, right or wrong.

    What it is asked stands behind the last fence; an instruction that names no part is about the
    whole message. A part that uses an earlier one is right only where that one's right result is
    seen or written along with it.
    """
    asked = message.rpartition("\n```\n")[2]
    parts = _asked_for(task, asked) or _asked_for(task, message)
    written: dict[int, str] = {}
    for number in parts:
        part, is_right = task.parts[number - 1], task.rights[number - 1]
        for needed in part["needs"]:
            pattern = task.parts[needed - 1]["pattern"]
            is_right = is_right and bool(re.search(pattern, written.get(needed, message)))
        written[number] = part["right"] if is_right else part["wrong"]
    return "\n\n".join(written.values()) or "I can't tell."


def _asked_for(task: Task, text: str) -> list[int]:
    there = set(_WORD.findall(text.casefold()))
    found = []
    for number, part in enumerate(task.parts, start=1):
        words = set(_WORD.findall(part["text"].casefold()))
        if len(words & there) >= MIN_SHARED * len(words):
            found.append(number)
    return found


_WORD = re.compile(r"\w+")
MIN_SHARED = 0.75
"""The share of a part's words that ask for it."""


def last_message(received: ReceivedRequest) -> str:
    """Return the newest message of a request."""
    content = received.json["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(piece["text"] for piece in content)


# Running


class CachedWorker:
    """Has a local worker answer what it was not asked before, and keeps what it wrote."""

    def __init__(self, worker: Worker) -> None:
        self._stream: Callable[[Request], AsyncGenerator[Chunk]] = worker.stream
        self._known: dict[object, list[Chunk]] = {}

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer as the worker does, or did."""
        key = (request.messages, request.max_tokens, request.temperature, request.seed)
        if key not in self._known:
            self._known[key] = [chunk async for chunk in self._stream(request)]
        for chunk in self._known[key]:
            yield chunk


@asynccontextmanager
async def orchestra_of(
    way: ComparedStrategy, url: str, known: dict[str, CachedWorker]
) -> AsyncIterator[Orchestra]:
    """Give a fresh Baton's orchestra with the starter model, the tools, and the cloud worker."""
    from baton.compose import compose
    from baton.platform.paths import find_paths
    from baton.platform.settings import load_settings

    with tempfile.TemporaryDirectory() as home:
        paths = find_paths({"BATON_HOME": home})
        paths.config.mkdir(parents=True)
        paths.config_file.write_text(CONFIG.format(conductor=way.conductor, url=url))
        baton = compose(load_settings(paths.config_file), paths, history=False)
        orchestra = baton.orchestra
        orchestra.configure(default=way.worker)
        small = orchestra.worker("small")
        remembered = known.setdefault("small", CachedWorker(small))
        small.stream = remembered.stream  # type: ignore[method-assign]
        try:
            yield orchestra
        finally:
            await baton.aclose()


async def run_task(
    orchestra: Orchestra, task: Task, way: ComparedStrategy, budget: int
) -> dict[str, Any]:
    """Run one task for at most `budget` nano-dollars.

    Return which parts are right, what it cost, and what each step was given.
    """
    limits = PromptLimits(
        seed=SEED, attended=False, keep=False, strategy=way.strategy, max_tokens=MAX_TOKENS,
        temperature=0.0, budget=budget,
    )  # fmt: skip
    view = RunView()
    async with orchestra.run(Prompt(task.prompt), limits=limits) as run:
        async for event in run:
            view = view.apply(event)
    found = [bool(re.search(part["pattern"], view.answer)) for part in task.parts]
    return {
        "id": task.id,
        "right": found,
        "cost": view.cost,
        "status": view.status,
        "calls": [call.worker for call in view.calls],
        "answer": view.answer,
        "steps": [
            {
                "worker": step.worker,
                "subtask": step.step.subtask,
                "access": step.step.access,
                "text": step.text,
            }
            for step in view.steps
        ],
    }


async def run_all(tasks: Sequence[Task], ways: Sequence[ComparedStrategy], out: Path) -> None:
    """Run each way under each ceiling, and append what isn't in the file yet."""
    done = {(row["way"], row["ceiling"], row["id"]): row for row in read_rows(out)}
    current: list[Task] = []

    def write(received: ReceivedRequest) -> Reply:
        return Reply(reply_to(current[0], last_message(received)))

    price = Price(Rates(parse_usd(IN_PRICE), parse_usd(OUT_PRICE), 0, 0))
    remembered: dict[str, CachedWorker] = {}
    with Cloud(prices={"": price}, write=write) as cloud, out.open("a", encoding="utf-8") as file:
        for way in ways:
            for ceiling in CEILINGS[:1] if way.is_free else CEILINGS:
                before = [done.get((way.name, ceiling, task.id)) for task in tasks]
                left = parse_usd(ceiling) - sum(row["cost"] for row in before if row)
                async with orchestra_of(way, cloud.base("server"), remembered) as orchestra:
                    for task, row in zip(tasks, before, strict=True):
                        if row is None:
                            current[:] = [task]
                            row = await run_task(orchestra, task, way, max(0, left))
                            left -= row["cost"]
                            row |= {"way": way.name, "ceiling": ceiling}
                            print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
                print(f"{way.name} at ${ceiling}", file=sys.stderr)


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Return what was run before."""
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


# What came of it


def report(rows: Sequence[Mapping[str, Any]], tasks: Sequence[Task]) -> Iterable[str]:
    """Yield the table of accuracy and cost as lines of Markdown, with paired intervals."""
    done = _by_way(rows, tasks)
    yield "| way | ceiling | parts right | 95 % | against the rule | cost | left this machine |"
    yield "|---|---|---|---|---|---|---|"
    for (way, ceiling), found in done.items():
        scores = [_score(row) for row in found]
        rule = [_score(row) for row in done.get(("hybrid, rule", ceiling), ())]
        ahead = ""
        if len(rule) == len(scores) and way != "hybrid, rule":
            ahead = _difference_text([a - b for a, b in zip(scores, rule, strict=True)])
        cost = sum(row["cost"] for row in found) / NANO
        away = sum("cloud" in row["calls"] for row in found) / len(found)
        low, high = bootstrap_interval(scores, SEED)
        yield (
            f"| {way} | ${ceiling} | {statistics.fmean(scores):.1%} | {low:.1%} to {high:.1%} | "
            f"{ahead} | ${cost:.3f} | {away:.0%} |"
        )


def cost_report(rows: Sequence[Mapping[str, Any]], tasks: Sequence[Task]) -> Iterable[str]:
    """Yield the table of what a way costs that gets as much right as another, with intervals.

    Between two ceilings of a way, cost and accuracy are taken to grow together evenly, as they do
    where a share of the tasks is run under each. What no ceiling reaches has no cost.
    """
    curves: dict[str, list[tuple[Sequence[float], Sequence[float]]]] = {}
    for (way, _), found in _by_way(rows, tasks).items():
        costs = [row["cost"] / NANO for row in found]
        curves.setdefault(way, []).append(([_score(row) for row in found], costs))
    curves = {way: points for way, points in curves.items() if len(points) > 1}
    yield "| parts right | " + " | ".join(curves) + " |"
    yield "|---" * (len(curves) + 1) + "|"
    drawn = random.Random(SEED)
    samples = [drawn.choices(range(len(tasks)), k=len(tasks)) for _ in range(RESAMPLES)]
    for level in LEVELS:
        cells = [_cost_cell(points, level, samples) for points in curves.values()]
        yield f"| {level:.0%} | " + " | ".join(cells) + " |"


LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)
RESAMPLES = 1000


def _cost_cell(
    points: Sequence[tuple[Sequence[float], Sequence[float]]],
    level: float,
    samples: Sequence[Sequence[int]],
) -> str:
    found = [
        cost_at(
            [
                (statistics.fmean(scores[n] for n in sample), sum(costs[n] for n in sample))
                for scores, costs in points
            ],
            level,
        )
        for sample in (range(len(points[0][0])), *samples)
    ]
    drawn = sorted(found[1:])
    low, high = drawn[RESAMPLES // 40], drawn[-1 - RESAMPLES // 40]
    return "never" if math.isinf(found[0]) else f"${found[0]:.3f} [{low:.3f}, {high:.3f}]"


def cost_at(points: Iterable[tuple[float, float]], level: float) -> float:
    """Return what an accuracy costs along points of accuracy and cost; infinity: none has it."""
    best = -math.inf
    before = (0.0, 0.0)
    for accuracy, cost in sorted(points, key=lambda point: point[1]):
        if accuracy >= level:
            if accuracy <= before[0]:
                return cost
            share = max(0.0, (level - before[0]) / (accuracy - before[0]))
            return before[1] + share * (cost - before[1])
        if accuracy > best:
            best, before = accuracy, (accuracy, cost)
    return math.inf


def _by_way(
    rows: Sequence[Mapping[str, Any]], tasks: Sequence[Task]
) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Return the rows of each way and ceiling that is whole, in the order of the tasks."""
    found: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["way"], row["ceiling"]), {})[row["id"]] = row
    return {
        key: [those[task.id] for task in tasks]
        for key, those in found.items()
        if all(task.id in those for task in tasks)
    }


def _score(row: Mapping[str, Any]) -> float:
    return statistics.fmean(row["right"])


def _difference_text(differences: Sequence[float]) -> str:
    low, high = bootstrap_interval(differences, SEED)
    return f"{statistics.fmean(differences):+.1%} [{low:+.1%}, {high:+.1%}]"


def parts_report(rows: Sequence[Mapping[str, Any]], tasks: Sequence[Task]) -> dict[str, str]:
    """Return how well the steps' texts serve the parts: covered, linked, none whole, none twice.

    A step covers a part if it holds three quarters of its words; a tool's does if its result
    is the part's result.
    """
    found = {row["id"]: row for row in rows}
    counted = dict.fromkeys(("covered", "dependences", "no step is the whole", "none twice"), 0)
    done = [task for task in tasks if task.id in found and len(task.parts) > 1]
    for task in done:
        steps = found[task.id]["steps"]
        covers = [_covers(task, step) for step in steps]
        all_parts = range(1, len(task.parts) + 1)
        doer = {part: n for n, parts in enumerate(covers, start=1) for part in parts}
        whole = any(len(parts) == len(task.parts) for parts in covers)
        counted["covered"] += set(doer) == set(all_parts) and not whole
        counted["no step is the whole"] += not whole
        counted["none twice"] += sum(map(len, covers)) == len(set().union(*covers))
        counted["dependences"] += all(
            part in doer
            and all(
                needed in covers[doer[part] - 1]
                or str(doer.get(needed, 0)) in steps[doer[part] - 1]["access"]
                for needed in task.parts[part - 1]["needs"]
            )
            for part in all_parts
        )
    return {name: f"{count} of {len(done)}" for name, count in counted.items()}


def _covers(task: Task, step: Mapping[str, Any]) -> set[int]:
    if step["worker"] in TOOLS:
        result = re.split("[=\u2248]", step["text"])[-1]
        return {
            number
            for number, part in enumerate(task.parts, start=1)
            if part["tool"] and re.search(part["pattern"], result)
        }
    return set(_asked_for(task, step["subtask"]))


def frontier(rows: Sequence[Mapping[str, Any]], tasks: Sequence[Task]) -> Plot:
    """Return the plot of accuracy over cost, a curve for each way."""
    points = []
    for (way, ceiling), found in _by_way(rows, tasks).items():
        scores = [_score(row) for row in found]
        low, high = bootstrap_interval(scores, SEED)
        cost = sum(row["cost"] for row in found)
        name = f"{way}, ceiling ${ceiling}"
        points.append(Point(name, cost, statistics.fmean(scores), low, high, curve=way))
    return Plot(f"{len(tasks)} compound tasks: parts right, over cost", tuple(points))


def main() -> None:
    """Read the arguments, run, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ways", help="only these, of: " + "; ".join(way.name for way in WAYS))
    parser.add_argument("--limit", type=int, help="only the first tasks")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--svg", type=Path)
    args = parser.parse_args()
    tasks = read_tasks()[: args.limit]
    if not args.report:
        wanted = args.ways.split("; ") if args.ways else [way.name for way in WAYS]
        os.environ.setdefault("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
        asyncio.run(run_all(tasks, [way for way in WAYS if way.name in wanted], args.out))
    rows = read_rows(args.out)
    print("\n".join([*report(rows, tasks), "", *cost_report(rows, tasks)]))
    conducted = [
        row for row in rows if (row["way"], row["ceiling"]) == (WAYS[0].name, CEILINGS[-1])
    ]
    print(parts_report(conducted, tasks))
    if args.svg:
        args.svg.write_text(draw_svg(frontier(rows, tasks)), encoding="utf-8")


if __name__ == "__main__":
    main()
