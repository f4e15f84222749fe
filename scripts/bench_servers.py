"""How much of several servers' speed one worker gets, and how much is left when one is killed.

    scripts/bench_servers            all figures (a minute)
    scripts/bench_servers killed     some of them

The servers are the tests' on loopback, each a process with real HTTP that writes so many tokens a
second in all its answers together. Calls go through gate, ledger and gateway. Each figure is a
share of what the servers that run can write, in the same run.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
import bench_local  # noqa: E402
from bench_local import Row  # noqa: E402

from baton.core.errors import BatonError  # noqa: E402
from baton.core.labels import Label  # noqa: E402
from baton.core.messages import (  # noqa: E402
    Card,
    Message,
    Request,
    RequestSent,
    Role,
    Text,
    Thinking,
    Usage,
)
from support.scripted_servers import ScriptedServer, start_servers  # noqa: E402

RATES = (100.0, 100.0, 50.0)
"""What each server writes, in tokens a second."""

MANY = (12.0,) * 20

SLOTS = 4
TOKENS = 50
SECONDS = 15.0
"""How long each of the two parts of a run takes."""

LEAST_SHARE = 0.9
ASKED = Request(
    (Message(Role.USER, "Tell me about lighthouses."),), max_tokens=TOKENS, label=Label.CLOUD
)


@dataclass
class Load:
    """What came of the calls: when each token came, and how the calls ended.

    `begun` is set with the first answer that is whole: the gateway and the other calls are at work.
    """

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    times: list[float] = field(default_factory=list)
    whole: int = 0
    cut: int = 0
    lost: int = 0
    moved: int = 0

    def speed(self, since: float, until: float) -> float:
        """Return the tokens a second that came in that time."""
        return sum(since <= at < until for at in self.times) / (until - since)


def bench_all() -> Iterator[Row]:
    """All servers run."""
    load, start, _ = asyncio.run(_run(RATES, ()))
    speed, sum_of = load.speed(start, start + SECONDS), sum(RATES)
    yield _row(f"{len(RATES)} servers, {len(RATES) * SLOTS} calls at once, tokens/s", speed, sum_of)


def bench_killed() -> Iterator[Row]:
    """One of them is killed in the midst of its answers; everything after that moment counts."""
    for killed in (0, 2):
        load, _, died = asyncio.run(_run(RATES, (killed,)))
        left = sum(RATES) - RATES[killed]
        speed = load.speed(died, died + SECONDS)
        yield _row(f"tokens/s from the kill of one that wrote {RATES[killed]:.0f} on", speed, left)
        yield _lost(load)


def bench_many() -> Iterator[Row]:
    """Twenty servers, of which three are killed at once."""
    killed = (0, 7, 19)
    load, start, died = asyncio.run(_run(MANY, killed))
    figure = f"{len(MANY)} servers, {len(MANY) * SLOTS} calls at once, tokens/s"
    yield _row(figure, load.speed(start, died), sum(MANY))
    left = sum(MANY) - sum(MANY[number] for number in killed)
    speed = load.speed(died, died + SECONDS)
    yield _row(f"tokens/s from the kill of {len(killed)} of them on", speed, left)
    yield _lost(load)


async def _run(rates: Sequence[float], killed: Sequence[int]) -> tuple[Load, float, float]:
    """Keep all slots busy; kill servers after a while. Return when it began, and when they died."""
    load = Load()
    with (
        tempfile.TemporaryDirectory() as folder,
        start_servers(Path(folder), rates, tokens=TOKENS) as servers,
    ):
        asking = asyncio.create_task(_keep_asking(Path(folder), servers, load))
        await load.begun.wait()
        start = time.monotonic()
        await asyncio.sleep(SECONDS)
        died = time.monotonic()
        for number in killed:
            servers[number].process.kill()
        await asyncio.sleep(SECONDS if killed else 0)
        asking.cancel()
        await asyncio.wait([asking])
    return load, start, died


async def _keep_asking(folder: Path, servers: Sequence[ScriptedServer], load: Load) -> None:
    from baton.core.permissions import PromptLimits, RunTerms
    from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
    from baton.money import Ledger
    from baton.workers.cloud import CloudWorker, Gateway, WorkerAddress

    async def forget(tally: CallUsage) -> None:
        pass

    ledger = Ledger(folder / "ledger.db")
    gateway = Gateway(
        ledger.sent,
        record_unsent=ledger.record_unsent,
        keys_file=folder / "keys.toml",
        environ={"PATH": "/usr/bin:/bin"},
    )
    card = Card("lab", "server", "lab", provider="server", model="kit-1", slots=SLOTS)
    addresses = [WorkerAddress(each.base_url, SLOTS, remote=False) for each in servers]
    worker = CloudWorker(card, gateway, addresses=addresses)
    purse = RunBudget(ledger, None, RunTerms(), PromptLimits(), "run", "session")

    async def ask_on() -> None:
        while True:
            await _ask(MeteredWorker(worker, purse, forget), load)

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(SLOTS * len(servers)):
                tasks.create_task(ask_on())
    finally:
        await gateway.aclose()
        await ledger.aclose()


async def _ask(worker: object, load: Load) -> None:
    from baton.core.run.metered_worker import MeteredWorker

    assert isinstance(worker, MeteredWorker)
    words, sent = 0, 0
    try:
        async with aclosing(worker.stream(ASKED)) as chunks:
            async for chunk in chunks:
                match chunk:
                    case Text(tokens=tokens) | Thinking(tokens=tokens):
                        words += tokens
                        load.times += [time.monotonic()] * tokens
                    case RequestSent():
                        sent += 1
                    case Usage():
                        load.whole += 1
                        load.begun.set()
    except BatonError:
        load.cut += words > 0
        load.lost += words == 0
    load.moved += sent > 1


def _lost(load: Load) -> Row:
    ended = f"{load.whole} whole, {load.cut} cut, {load.moved} moved"
    figure = "calls that ended without a word and an answer"
    return Row(figure, str(load.lost), ended, "", "none", load.lost == 0)


def _row(figure: str, speed: float, possible: float) -> Row:
    share = speed / possible
    return Row(
        figure, f"{speed:.0f}", f"{possible:.0f}", f"{share:.2f}x",
        f"at least {LEAST_SHARE:g}x", share >= LEAST_SHARE,
    )  # fmt: skip


BENCHES = {"all": bench_all, "killed": bench_killed, "many": bench_many}

if __name__ == "__main__":
    bench_local.main(sys.argv[1:], BENCHES)
