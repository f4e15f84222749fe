"""What several steps cost next to one, and what strategies reach on recordings of real models.

    scripts/bench_conductor                            what needs no data (a minute)
    scripts/bench_conductor steps                      some of it
    scripts/bench_conductor replay --data FOLDER       strategies on the recordings in a folder
    scripts/bench_conductor replay --data FOLDER --markdown FILE --svg FOLDER

The folder (or BATON_ROUTING_DATA) holds zeroeval_gsm.csv.gz, zeroeval_mathl5.csv.gz and
mmlupro.csv.gz, anywhere below it; they are no part of Baton. Both sides of a comparison are
measured in turn, so that a busy moment hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
import bench_local  # noqa: E402
from bench_cloud import MODELS, PRICE, base, provider  # noqa: E402
from bench_local import Row, row  # noqa: E402

from baton.domain.chat import Card, Message, Prompt, Request, Role, Text  # noqa: E402
from baton.domain.events import Event  # noqa: E402
from baton.domain.grading import Dataset, Question  # noqa: E402
from baton.domain.labels import Label  # noqa: E402
from baton.domain.ledger import Policy, Scope  # noqa: E402
from baton.domain.money import NANO  # noqa: E402
from baton.domain.plan import Plan, Step  # noqa: E402
from baton.domain.prices import Price, Rates  # noqa: E402
from baton.domain.view import RunView  # noqa: E402
from baton.engine import bench  # noqa: E402
from baton.engine.orchestra import Orchestra  # noqa: E402
from baton.engine.policy import Limits, Terms  # noqa: E402
from baton.engine.ports import NEW  # noqa: E402

# Steps side by side


def bench_parallel() -> Iterator[Row]:
    """Four independent steps at a provider that takes a second for each, against one of them."""
    four, one = asyncio.run(_parallel(rounds=7))
    yield row("four independent cloud steps of 1 s, against one", four, one, 1.15, "s")


async def _parallel(rounds: int) -> tuple[float, float]:
    times: dict[int, list[float]] = {1: [], 4: []}
    with provider(rate=100, tokens=100) as address:
        async with _elsewhere(address) as orchestra:
            for number in range(rounds + 1):
                for count in (4, 1):
                    taken = await _timed(orchestra, _side_by_side(count))
                    if number:  # the first starts the child
                        times[count].append(taken)
    return statistics.median(times[4]), statistics.median(times[1])


def _side_by_side(count: int) -> Plan:
    steps = tuple(Step("openai", f"Do part {n + 1}.", ("prompt",)) for n in range(count))
    return Plan(steps, tuple(range(1, count + 1)))


async def _timed(orchestra: Orchestra, plan: Plan, events: list[Event] | None = None) -> float:
    start, view = time.perf_counter(), RunView()
    limits = Limits(attended=False)
    async with orchestra.play(Prompt("Do it."), limits=limits, plan=plan) as run:
        async for event in run:
            view = view.apply(event)
            if events is not None:
                events.append(event)
    taken = time.perf_counter() - start
    assert view.status == "finished", view
    assert len(view.calls) == len(plan.steps)
    return taken


@asynccontextmanager
async def _elsewhere(address: str) -> AsyncIterator[Orchestra]:
    """Give an orchestra whose one worker is at that address, with store and ledger on disk."""
    from baton.adapters.cloud import CloudWorker, Gateway
    from baton.adapters.ledger import Ledger
    from baton.adapters.store import Store
    from support.cloud import BASES

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        ledger, store = Ledger.open(home / "ledger.db"), Store.open(home / "baton.db")
        environ = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "k" * 20}
        gateway = Gateway(ledger.sent, keys_file=home / "keys.toml", environ=environ)
        card = Card(
            "openai", "cloud", "openai", Label.CLOUD, price=PRICE, provider="openai",
            model=MODELS["openai"], slots=4,
        )  # fmt: skip
        worker = CloudWorker(card, gateway, base_url=address + base("openai", BASES))
        terms = Terms({Scope.DAY: 10**6 * NANO}, Policy.BUDGET)
        orchestra = Orchestra({"openai": worker}, store, "openai", ledger=ledger, terms=terms)
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
    """A plan of five steps by scripted workers, store on disk, against the workers alone.

    What the disk takes of it is measured beside it: the same events, written by nobody but the
    store.
    """
    played, alone, written = asyncio.run(_steps(rounds=60))
    more, disk = ((part / STEPS) * 1000 for part in (played - alone, written))
    yield Row(
        f"engine, per step of a plan of five, store on disk ({disk:.2f} ms are the store's alone)",
        f"{played * 1000:.1f} ms",
        f"{alone * 1000:.1f} ms",
        f"+{more:.2f} ms",
        "at most +3 ms",
        more <= 3,
    )


async def _steps(rounds: int) -> tuple[float, float, float]:
    """Return the seconds of a run, of its workers alone, and of its events written alone."""
    from baton.adapters.scripted import ScriptedWorker
    from baton.adapters.store import Store
    from baton.domain.events import TRANSIENT

    worker = ScriptedWorker(lambda _: [0.002, *(Text("word ") for _ in range(WORDS))])
    name = worker.card.id
    steps = [Step(name, "Do part 1.", ("prompt",))]
    steps += [Step(name, f"Do part {n}.", ("prompt", str(n - 1))) for n in range(2, STEPS + 1)]
    plan = Plan(tuple(steps), (STEPS,))
    request = Request((Message(Role.USER, "Do it."),))
    times: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "baton.db")
        orchestra = Orchestra({name: worker}, store, name)
        events: list[Event] = []
        await _timed(orchestra, plan, events)
        kept = [event for event in events if not isinstance(event, TRANSIENT)]
        for _ in range(rounds):
            played = await _timed(orchestra, plan)
            start = time.perf_counter()
            for _ in range(STEPS):
                _ = [chunk async for chunk in worker.stream(request)]
            alone = time.perf_counter() - start
            begun = await store.begin(Prompt("Do it."), NEW, Label.LOCAL)
            start = time.perf_counter()
            for event in kept:
                await store.append(begun.run, event)
            times.append((played, alone, time.perf_counter() - start))
        await store.aclose()
    played, alone, written = (statistics.median(column) for column in zip(*times, strict=True))
    return played, alone, written


# Recordings


@dataclass(frozen=True)
class Recording:
    """Two models that could run here, the better one first, and one that costs money.

    `price` is in dollars per million tokens read and written. `reached` is what agreement alone
    does: so many questions went to the cloud, and so many were right. `sample` questions are drawn
    where there are very many.
    """

    file: str
    local: tuple[str, str]
    cloud: str
    price: tuple[float, float]
    reached: tuple[float, float] | None = None
    sample: int | None = None


RECORDINGS = {
    # Anthropic's list price of Claude 3.5 Sonnet, as litellm's price list has it (anthropic.
    # claude-3-5-sonnet-20241022-v2:0).
    "gsm": Recording(
        "zeroeval_gsm.csv.gz",
        ("gemma-2-9b-it", "llama-3.1-8b-instruct"),
        "claude-3-5-sonnet-20241022",
        (3.0, 15.0),
        (0.2053, 0.9612),
    ),
    # As litellm's price list has it (azure/o1-mini-2024-09-12). The recorded lengths leave out what
    # it thought, which is billed as well: in truth it is dearer.
    "mathl5": Recording(
        "zeroeval_mathl5.csv.gz",
        ("qwen2.5-7b-instruct", "llama-3.1-8b-instruct"),
        "o1-mini-2024-09-12",
        (1.1, 4.4),
        (0.7964, 0.8743),
    ),
    # Google's price of October 2024, up to 128,000 tokens; no list has it any more.
    "mmlupro": Recording(
        "mmlupro.csv.gz",
        ("llama-3.1-8b-instruct", "mistral-7b-instruct-v0.2"),
        "gemini-1.5-pro-002",
        (1.25, 5.0),
        sample=1000,
    ),
}

STRATEGIES = ("single", "majority", "cascade", "hybrid")
BUDGETS = (5, 10, 20, 40, 100)
"""What `hybrid` may spend, in per cent of what it costs to ask the cloud always."""

TABLES: list[str] = []
WHERE: dict[str, Path] = {}


def bench_replay() -> Iterator[Row]:
    """Every strategy that needs no fresh text, on every recording that is there."""
    for name, recording in RECORDINGS.items():
        file = next(WHERE["data"].rglob(recording.file), None)
        if file is None:
            print(f"{recording.file} is not there, so it is left out.", file=sys.stderr)
            continue
        yield from _replayed(name, recording, file)


def _replayed(name: str, recording: Recording, file: Path) -> Iterator[Row]:
    from baton.adapters.datasets import read_dataset
    from baton.cli import figures
    from baton.cli.plot import as_svg

    dataset = read_dataset(file)
    questions = list(dataset.questions)
    if recording.sample is not None:
        questions = random.Random(1).sample(questions, recording.sample)
    rows = asyncio.run(_rows(dataset, questions, recording))
    told = f"### {name}: {len(questions)} questions, {' and '.join(recording.local)} here"
    TABLES.append(f"{told}, {recording.cloud} in the cloud\n\n{figures.markdown(rows)}")
    if "svg" in WHERE:
        drawn = figures.plot(f"{name}: right, over what all questions cost", rows)
        (WHERE["svg"] / f"bench_{name}.svg").write_text(as_svg(drawn), "utf-8")
    hybrid = next(row for row in rows if row.name == "hybrid")
    chance = bench.mixed(rows, hybrid.cost) or 0.0
    yield _against(f"{name}: hybrid, against random mixing at its cost", hybrid.accuracy, chance)
    if recording.reached is not None:
        curve = _on_curve(rows, recording.reached, 1 - hybrid.local_share)
        yield _against(f"{name}: hybrid, against agreement alone", hybrid.accuracy, curve)


def _against(figure: str, ours: float, theirs: float) -> Row:
    holds = round(ours, 4) >= round(theirs, 4)
    return Row(
        figure,
        f"{ours * 100:.2f} %",
        f"{theirs * 100:.2f} %",
        f"{round((ours - theirs) * 100, 2) + 0.0:+.2f} points",
        "at least +0",
        holds,
    )


def _on_curve(rows: Sequence[bench.Row], reached: tuple[float, float], share: float) -> float:
    """Return what agreement alone reaches with this share of the questions in the cloud.

    Between always-local, its own point and always-cloud questions are mixed at random.
    """
    found = bench.ends(rows)
    assert found is not None
    points = [(0.0, found[0].accuracy), reached, (1.0, found[1].accuracy)]
    for (left, low), (right, high) in itertools.pairwise(points):
        if share <= right:
            return low + (share - left) / (right - left) * (high - low)
    return points[-1][1]


async def _rows(
    dataset: Dataset, questions: Sequence[Question], recording: Recording
) -> list[bench.Row]:
    from baton.cli.replaying import cards, replay

    read, written = (int(rate * NANO) for rate in recording.price)
    models: dict[str, Price | None] = dict.fromkeys(recording.local)
    models[recording.cloud] = Price(Rates(read, written, read, read))
    rows = list(bench.baselines(dataset, questions, cards(models)))
    always = next(row.cost for row in rows if row.name == bench.ALWAYS + recording.cloud)
    wanted: list[tuple[str, str, int | None]] = [(name, name, None) for name in STRATEGIES]
    wanted += [(f"hybrid, {part} % budget", "hybrid", always * part // 100) for part in BUDGETS]
    for title, strategy, ceiling in wanted:
        playing = replay(dataset, questions, models, strategy, ceiling)
        rows.append(bench.summed(title, [played async for played in playing]))
    return rows


BENCHES = {"parallel": bench_parallel, "steps": bench_steps, "replay": bench_replay}


def main() -> None:
    """Read what was typed, and run it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("benches", nargs="*", help=f"some of: {', '.join(BENCHES)}")
    parser.add_argument("--data", type=Path, default=os.environ.get("BATON_ROUTING_DATA"))
    parser.add_argument("--markdown", type=Path, help="where the replay's tables are written")
    parser.add_argument("--svg", type=Path, help="a folder for the replay's plots")
    typed = parser.parse_args()
    names = typed.benches or [name for name in BENCHES if name != "replay" or typed.data]
    if "replay" in names and typed.data is None:
        sys.exit("replay needs --data FOLDER (or BATON_ROUTING_DATA).")
    if typed.data is not None:
        WHERE["data"] = Path(typed.data)
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
