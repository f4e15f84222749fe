"""What several steps cost next to one, and what strategies reach on recordings of real models.

    scripts/bench_conductor                            what needs no data (a minute)
    scripts/bench_conductor steps                      some of it
    scripts/bench_conductor replay --data FOLDER       strategies on the recordings in a folder
    scripts/bench_conductor replay --data FOLDER --markdown FILE --svg FOLDER
    scripts/bench_conductor replay --data FOLDER --salts 1,2,3 --vectors FILE.npz

The folder (or BATON_ROUTING_DATA) holds zeroeval_gsm.csv.gz, zeroeval_mathl5.csv.gz and
mmlupro.csv.gz, anywhere below it; they aren't part of Baton. For each salt three questions in ten
are held out, a router is trained on all others (of every file there is), and the strategies run
those it never saw. Both sides of a comparison are measured in turn, so that a busy moment hits
both.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "lab"), str(ROOT / "scripts"), str(ROOT / "tests")]
import bench_local  # noqa: E402
from bench_cloud import MODELS, PRICE, base, provider  # noqa: E402
from bench_local import Row, row  # noqa: E402
from plots import (  # noqa: E402
    ALWAYS_PREFIX,
    draw_svg,
    format_markdown,
    make_plot,
    mixing_ends,
    random_mixing,
)
from recordings import Recordings, read_recordings  # noqa: E402
from replay import (  # noqa: E402
    ReplaySetup,
    baseline_rows,
    load_router,
    recorded_cards,
    run_recorded,
)

from baton.bench.graded_questions import Question  # noqa: E402
from baton.bench.strategy_bench import StrategyRow  # noqa: E402
from baton.core.events import Event  # noqa: E402
from baton.core.labels import Label  # noqa: E402
from baton.core.ledger_types import Policy, Scope  # noqa: E402
from baton.core.messages import Card, Message, Prompt, Request, Role, Text  # noqa: E402
from baton.core.money import NANO, Price, Rates  # noqa: E402
from baton.core.permissions import PromptLimits, RunTerms  # noqa: E402
from baton.core.plan_types import Plan, Step  # noqa: E402
from baton.core.ports import NEW  # noqa: E402
from baton.core.run.orchestra import Orchestra  # noqa: E402
from baton.core.run.run_context import Services  # noqa: E402
from baton.core.view import RunView  # noqa: E402

# Steps side by side


def bench_parallel() -> Iterator[Row]:
    """Four independent steps at a provider that takes a second for each, against one of them."""
    four, one = asyncio.run(_parallel(rounds=7))
    yield row("four independent cloud steps of 1 s, against one", four, one, 1.15, "s")


async def _parallel(rounds: int) -> tuple[float, float]:
    times: dict[int, list[float]] = {1: [], 4: []}
    with provider(rate=100, tokens=100) as address:
        async with _cloud_orchestra(address) as orchestra:
            for number in range(rounds + 1):
                for count in (4, 1):
                    taken = await _run_seconds(orchestra, _side_by_side(count))
                    if number:  # the first starts the child
                        times[count].append(taken)
    return statistics.median(times[4]), statistics.median(times[1])


def _side_by_side(count: int) -> Plan:
    steps = tuple(Step("openai", f"Do part {n + 1}.", ("prompt",)) for n in range(count))
    return Plan(steps, tuple(range(1, count + 1)))


async def _run_seconds(
    orchestra: Orchestra, plan: Plan, events: list[Event] | None = None
) -> float:
    start, view = time.perf_counter(), RunView()
    limits = PromptLimits(attended=False)
    async with orchestra.run(Prompt("Do it."), limits=limits, plan=plan) as run:
        async for event in run:
            view = view.apply(event)
            if events is not None:
                events.append(event)
    taken = time.perf_counter() - start
    assert view.status == "finished", view
    assert len(view.calls) == len(plan.steps)
    return taken


@asynccontextmanager
async def _cloud_orchestra(address: str) -> AsyncIterator[Orchestra]:
    """Give an orchestra whose one worker is at that address, with store and ledger on disk."""
    from baton.history import Store
    from baton.money import Ledger
    from baton.workers.cloud import CloudWorker, Gateway
    from support.fake_cloud import BASES

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        ledger, store = Ledger(home / "ledger.db"), Store(home / "baton.db")
        environ = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "k" * 20}
        gateway = Gateway(ledger.sent, keys_file=home / "keys.toml", environ=environ)
        card = Card(
            "openai", "cloud", "openai", Label.CLOUD, price=PRICE, provider="openai",
            model=MODELS["openai"], slots=4,
        )  # fmt: skip
        worker = CloudWorker(card, gateway, base_url=address + base("openai", BASES))
        terms = RunTerms({Scope.DAY: 10**6 * NANO}, Policy.BUDGET)
        orchestra = Orchestra(Services({"openai": worker}, store, ledger=ledger), "openai", terms)
        try:
            yield orchestra
        finally:
            await orchestra.aclose()
            await gateway.aclose()
            await ledger.aclose()
            await store.aclose()


# What the engine adds to a step

STEPS = 5
WORDS = 40


def bench_steps() -> Iterator[Row]:
    """A plan of five steps by scripted workers, store on disk, but for what the workers take.

    Beside it the same events are written by the store alone, each on disk before the next.
    """
    measured, alone, written = asyncio.run(_steps(rounds=60))
    more, disk = ((part / STEPS) * 1000 for part in (measured - alone, written))
    yield Row(
        "engine, per step of a plan of five, against its events stored one by one",
        f"{more:.2f} ms",
        f"{disk:.2f} ms",
        f"{more / disk:.2f}x",
        "at most 3 ms, or 1x where the disk is slower than that",
        more <= max(3, disk),
    )


async def _steps(rounds: int) -> tuple[float, float, float]:
    """Return the seconds of a run, of its workers alone, and of its events written alone."""
    from baton.core.events import TRANSIENT
    from baton.history import Store
    from baton.workers.scripted_worker import ScriptedWorker

    worker = ScriptedWorker(lambda _: [0.002, *(Text("word ") for _ in range(WORDS))])
    name = worker.card.id
    steps = [Step(name, "Do part 1.", ("prompt",))]
    steps += [Step(name, f"Do part {n}.", ("prompt", str(n - 1))) for n in range(2, STEPS + 1)]
    plan = Plan(tuple(steps), (STEPS,))
    request = Request((Message(Role.USER, "Do it."),))
    times: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "baton.db")
        orchestra = Orchestra(Services({name: worker}, store), name)
        events: list[Event] = []
        await _run_seconds(orchestra, plan, events)
        kept = [event for event in events if not isinstance(event, TRANSIENT)]
        for _ in range(rounds):
            measured = await _run_seconds(orchestra, plan)
            start = time.perf_counter()
            for _ in range(STEPS):
                _ = [chunk async for chunk in worker.stream(request)]
            alone = time.perf_counter() - start
            begun = await store.begin(Prompt("Do it."), NEW, Label.LOCAL)
            start = time.perf_counter()
            for event in kept:
                await store.append(begun.run, event)
            times.append((measured, alone, time.perf_counter() - start))
        await store.aclose()
    measured, alone, written = (statistics.median(column) for column in zip(*times, strict=True))
    return measured, alone, written


# Recordings


@dataclass(frozen=True)
class Recording:
    """Three models that could run here, the default first, and one that costs money.

    `price` is in dollars per million tokens read and written. `sample` questions are drawn where
    there are very many.
    """

    file: str
    local: tuple[str, str, str]
    cloud: str
    price: tuple[float, float]
    sample: int | None = None


RECORDINGS = {
    # Anthropic's list price of Claude 3.5 Sonnet, as litellm's price list has it (anthropic.
    # claude-3-5-sonnet-20241022-v2:0).
    "gsm": Recording(
        "zeroeval_gsm.csv.gz",
        ("gemma-2-9b-it", "llama-3.1-8b-instruct", "yi-1.5-9b-chat"),
        "claude-3-5-sonnet-20241022",
        (3.0, 15.0),
    ),
    # As litellm's price list has it (azure/o1-mini-2024-09-12). The recorded lengths leave out what
    # it thought, which is billed as well: in truth it is dearer.
    "mathl5": Recording(
        "zeroeval_mathl5.csv.gz",
        ("qwen2.5-7b-instruct", "llama-3.1-8b-instruct", "qwen2.5-3b-instruct"),
        "o1-mini-2024-09-12",
        (1.1, 4.4),
    ),
    # Google's price of October 2024, up to 128,000 tokens; no list has it any more.
    "mmlupro": Recording(
        "mmlupro.csv.gz",
        ("llama-3.1-8b-instruct", "mistral-7b-instruct-v0.2", "qwen1.5-7b-chat"),
        "gemini-1.5-pro-002",
        (1.25, 5.0),
        sample=200,
    ),
}

FREE = ("single", "majority", "smoothie")
PAID = ("cascade", "hybrid", "route", "knn")
BUDGETS = (5, 10, 20, 40)
"""What those may spend, in per cent of what it costs to ask the cloud always; and without limit."""

ORDERS = 2
"""In so many orders of the questions: where money is short, the order says which ones get it."""

TABLES: list[str] = []
WHERE: dict[str, Path] = {}
SALTS = ["1"]


def bench_replay() -> Iterator[Row]:
    """Every strategy that needs no fresh text, on every recording that is there."""
    with tempfile.TemporaryDirectory() as folder:
        routers = {salt: _train_router(salt, Path(folder) / str(n)) for n, salt in enumerate(SALTS)}
        for name, recording in RECORDINGS.items():
            file = next(WHERE["data"].rglob(recording.file), None)
            if file is None:
                print(f"{recording.file} is not there, so it is left out.", file=sys.stderr)
                continue
            yield from _replay_rows(name, recording, file, routers)


def _train_router(salt: str, out: Path) -> Path:
    """Return the folder of a router that was trained on what that salt doesn't hold out."""
    command = [sys.executable, str(ROOT / "scripts/train_router.py"), "--data", str(WHERE["data"])]
    command += ["--out", str(out), "--held-out", salt]
    if "vectors" in WHERE:
        command += ["--vectors", str(WHERE["vectors"])]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return out


def _replay_rows(
    name: str, recording: Recording, file: Path, routers: Mapping[str, Path]
) -> Iterator[Row]:
    recordings = read_recordings(file)
    parts = [_part(recordings, recording, salt) for salt in routers]
    tables = [
        asyncio.run(_rows(recordings, questions, recording, router))
        for questions, router in zip(parts, routers.values(), strict=True)
    ]
    rows = [_sum_of_rows(same) for same in zip(*tables, strict=True)]
    count = sum(map(len, parts))
    heading = f"### {name}: {count} questions held out, {', '.join(recording.local)} here"
    TABLES.append(f"{heading}, {recording.cloud} in the cloud\n\n{format_markdown(rows)}")
    if "svg" in WHERE:
        drawn = make_plot(f"{name}: right, over what all questions cost", rows)
        (WHERE["svg"] / f"bench_{name}.svg").write_text(draw_svg(drawn), "utf-8")
    hybrid = [one for one in rows if one.name.startswith("hybrid")]
    for one in hybrid:
        yield _against(
            f"{name}: {one.name}, against random mixing", one, _mixing_share(rows, one.cost)
        )
    for one in hybrid:
        curve = _on_curve(rows, "cascade", one.cost)
        yield _against(f"{name}: {one.name}, against cascade at its cost", one, curve)
    yield _between(name, rows)


def _part(recordings: Recordings, recording: Recording, salt: str) -> list[Question]:
    """Return the questions that are run for a salt."""
    questions = [
        question for question in recordings.questions if recordings.is_held_out(question, salt)
    ]
    random.Random(1).shuffle(questions)
    return questions[: recording.sample]


def _sum_of_rows(same: Sequence[StrategyRow]) -> StrategyRow:
    """Add up the rows of one strategy, or of one worker, in all parts."""
    return StrategyRow(same[0].name, [result for row in same for result in row.results])


def _against(figure: str, ours: StrategyRow, theirs: float) -> Row:
    more = round((ours.accuracy - theirs) * 100, 2)
    return Row(
        figure,
        f"{ours.accuracy * 100:.2f} %",
        f"{theirs * 100:.2f} %",
        f"{more + 0.0:+.2f} points",
        "at least +0",
        more >= 0,
    )


def _mixing_share(rows: Sequence[StrategyRow], cost: int) -> float:
    return random_mixing(rows, cost) or 0.0


def _on_curve(rows: Sequence[StrategyRow], strategy: str, cost: float) -> float:
    """Return what a strategy reaches at that cost, between the points at which it was run.

    Below and above those it is mixed at random with always-local and always-cloud.
    """
    found = mixing_ends(rows)
    assert found is not None
    measured = [row for row in rows if row.name.partition(",")[0] == strategy]
    points = sorted((row.cost, row.accuracy) for row in (found[0], *measured, found[1]))
    for (left, low), (right, high) in itertools.pairwise(points):
        if left <= cost <= right and right > left:
            return low + (cost - left) / (right - left) * (high - low)
    return points[-1][1]


def _between(name: str, rows: Sequence[StrategyRow]) -> Row:
    """Compare both curves over all costs at which `cascade` can be run."""
    most = next(row.cost for row in rows if row.name == "cascade")
    costs = [most * step / 100 for step in range(5, 101, 5)]
    ours, theirs = (
        statistics.mean(_on_curve(rows, strategy, cost) for cost in costs)
        for strategy in ("hybrid", "cascade")
    )
    return Row(
        f"{name}: hybrid, against cascade, mean over all costs",
        f"{ours * 100:.2f} %",
        f"{theirs * 100:.2f} %",
        f"{(ours - theirs) * 100:+.2f} points",
        "at least +0",
        ours >= theirs,
    )


async def _rows(
    recordings: Recordings, questions: Sequence[Question], recording: Recording, router: Path
) -> list[StrategyRow]:
    read, written = (int(rate * NANO) for rate in recording.price)
    models: dict[str, Price | None] = dict.fromkeys(recording.local)
    models[recording.cloud] = Price(Rates(read, written, read, read))
    orders = [list(questions) for _ in range(ORDERS)]
    for number, order in enumerate(orders[1:], start=1):
        random.Random(number).shuffle(order)
    rows = [_often(row) for row in baseline_rows(recordings, questions, recorded_cards(models))]
    always = next(row.cost for row in rows if row.name == ALWAYS_PREFIX + recording.cloud) // ORDERS
    wanted: list[tuple[str, str, int | None]] = [(name, name, None) for name in (*FREE, *PAID)]
    wanted += [
        (f"{name}, {part} %", name, always * part // 100) for name in PAID for part in BUDGETS
    ]
    loaded = load_router(router)
    for title, strategy, ceiling in wanted:
        table = ReplaySetup(recordings, models, loaded, ceiling)
        if ceiling is None:
            measured = [one async for one in run_recorded(table, questions, strategy)]
            rows.append(_often(StrategyRow(title, measured)))
            continue
        measured = [one for order in orders async for one in run_recorded(table, order, strategy)]
        rows.append(StrategyRow(title, measured))
    await loaded.aclose()
    return rows


def _often(row: StrategyRow) -> StrategyRow:
    """Count what is the same in every order as often as there are orders."""
    return _sum_of_rows([row] * ORDERS)


BENCHES = {"parallel": bench_parallel, "steps": bench_steps, "replay": bench_replay}


def main() -> None:
    """Read what was typed, and run it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("benches", nargs="*", help=f"some of: {', '.join(BENCHES)}")
    parser.add_argument("--data", type=Path, default=os.environ.get("BATON_ROUTING_DATA"))
    parser.add_argument("--markdown", type=Path, help="where the replay's tables are written")
    parser.add_argument("--salts", help="comma-separated: a split of the questions for each")
    parser.add_argument("--vectors", type=Path, help="where the texts' vectors are kept")
    parser.add_argument("--svg", type=Path, help="a folder for the replay's plots")
    typed = parser.parse_args()
    names = typed.benches or [name for name in BENCHES if name != "replay" or typed.data]
    if "replay" in names and typed.data is None:
        sys.exit("replay needs --data FOLDER (or BATON_ROUTING_DATA).")
    if typed.data is not None:
        WHERE["data"] = Path(typed.data)
    if typed.vectors is not None:
        WHERE["vectors"] = typed.vectors
    if typed.salts:
        SALTS[:] = typed.salts.split(",")
    if typed.svg is not None:
        typed.svg.mkdir(parents=True, exist_ok=True)
        WHERE["svg"] = typed.svg
    bench_local.main(names, BENCHES)
    tables = "\n\n".join(TABLES)
    print(f"\n{tables}" if tables else "")
    if typed.markdown is not None:
        typed.markdown.write_text(tables + "\n", "utf-8")


if __name__ == "__main__":
    main()
