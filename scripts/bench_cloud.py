"""What gateway and ledger cost next to a bare HTTP stream, measured in turn on this machine.

    scripts/bench_cloud              all figures (a few minutes)
    scripts/bench_cloud first ledger some of them

The provider is the tests' cloud on loopback, in a process of its own. Both sides ask it the same,
in turn, so that a busy moment hits both.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
import bench_local  # noqa: E402
from answer_stream import stream_answer  # noqa: E402
from bench_local import PYTHON, Row, home, row  # noqa: E402

from baton.core.labels import Label  # noqa: E402
from baton.core.ledger_types import Hold, HoldRequest, Scope  # noqa: E402
from baton.core.messages import Card, Message, Request, Role, Text  # noqa: E402
from baton.core.money import NANO, BilledTokens, Price, Rates  # noqa: E402
from baton.money import Ledger  # noqa: E402
from support.terminal import Terminal  # noqa: E402

PRICE = Price(Rates(NANO, NANO, NANO, NANO))
ASKED = "Tell me about lighthouses."
AT_ONCE = 16
DIALECTS = ("openai", "responses", "anthropic", "gemini", "cohere", "server")
MODELS = {
    "openai": "openai/gpt-5-mini",
    "responses": "openai/gpt-5-codex",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "cohere": "cohere/command-a-03-2025",
    "server": "any",
}


class TimedLedger(Ledger):
    """Measures what comes before a request is sent: two commits, one for the hold."""

    seconds = 0.0

    async def hold_in_turn(self, bill: HoldRequest, ticket: int = 0) -> Hold | int:
        start = time.perf_counter()
        held = await super().hold_in_turn(bill, ticket)
        self.seconds += time.perf_counter() - start
        return held

    async def hold(self, bill: HoldRequest) -> Hold:
        start = time.perf_counter()
        held = await super().hold(bill)
        self.seconds += time.perf_counter() - start
        return held

    async def sent(self, call: str, destination: str, body: bytes) -> None:
        start = time.perf_counter()
        await super().sent(call, destination, body)
        self.seconds += time.perf_counter() - start


@contextmanager
def provider(rate: int, tokens: int) -> Iterator[str]:
    """Run the tests' cloud in a process of its own; give its address."""
    with tempfile.TemporaryDirectory() as folder:
        port, bills = Path(folder) / "port", Path(folder) / "bills"
        files = ["--port-file", str(port), "--bill-file", str(bills)]
        pace = ["--rate", str(rate), "--tokens", str(tokens)]
        code = (
            "import sys; sys.path.insert(0, sys.argv.pop(1));"
            " import support.fake_cloud as c\nc.main()"
        )
        command = [PYTHON, "-c", code, str(ROOT / "tests"), *files, *pace]
        with subprocess.Popen(command) as process:
            try:
                while not (port.exists() and port.read_text()):
                    time.sleep(0.05)
                yield f"http://127.0.0.1:{port.read_text()}"
            finally:
                process.terminate()


@asynccontextmanager
async def open_metered_worker(
    address: str, name: str
) -> AsyncIterator[Callable[[], Awaitable[list[float]]]]:
    """Give what asks that provider through gate, ledger and gateway.

    It returns the times of the pieces, and last how long the ledger took before the first.
    """
    from baton.core.permissions import PromptLimits, RunTerms
    from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
    from baton.workers.cloud import CloudWorker, Gateway
    from support.fake_cloud import BASES

    async def forget(tally: CallUsage) -> None:
        assert tally.usage is not None, "the call was not confirmed"

    with tempfile.TemporaryDirectory() as folder:
        ledger = TimedLedger(Path(folder) / "ledger.db")
        environ = {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "k" * 20}
        environ |= {"ANTHROPIC_API_KEY": "k" * 20, "GEMINI_API_KEY": "k" * 20}
        gateway = Gateway(ledger.sent, keys_file=Path(folder) / "keys.toml", environ=environ)
        kind = "server" if name == "server" else "cloud"
        provider = MODELS[name].partition("/")[0] if kind == "cloud" else name
        card = Card(
            name, kind, name, Label.CLOUD, price=PRICE, provider=provider, model=MODELS[name]
        )
        worker = CloudWorker(card, gateway, base_url=address + base(provider, BASES))
        purse = RunBudget(
            ledger, None, RunTerms({Scope.DAY: 10**6 * NANO}), PromptLimits(), "run", "session"
        )
        request = Request((Message(Role.USER, ASKED),), label=Label.CLOUD)

        async def ask() -> list[float]:
            start, times, before = time.perf_counter(), list[float](), 0.0
            ledger.seconds = 0.0
            async for chunk in MeteredWorker(worker, purse, forget).stream(request):
                if isinstance(chunk, Text) and chunk.text:
                    times.append(time.perf_counter() - start)
                    before = ledger.seconds if len(times) == 1 else before
            return [*times, before]

        try:
            await ask()  # starts the child
            yield ask
        finally:
            await worker.aclose()
            await gateway.aclose()
            await ledger.aclose()


def base(name: str, bases: object) -> str:
    """Return the path under which that provider is found."""
    assert isinstance(bases, dict)
    return f"/{name}{bases[name]}"


async def bare(client: httpx.AsyncClient) -> list[float]:
    """Ask with nothing in between: the times of the stream's pieces with text."""
    start, question = time.perf_counter(), [{"role": "user", "content": ASKED}]
    answer = await stream_answer(client, "any", question, max_tokens=4096)
    return [moment - start for moment in answer.times]


def bench_first() -> Iterator[Row]:
    """The first token, through everything that stands between, against a bare stream.

    What a commit takes is the disk's affair: half a millisecond, or eight on a busy one.
    """
    for name in DIALECTS:
        ours, theirs = asyncio.run(_compare(name, rate=500, tokens=8, rounds=60))
        mine = statistics.median(times[0] - times[-1] for times in ours) * 1000
        bare_one = statistics.median(times[0] for times in theirs) * 1000
        disk = statistics.median(times[-1] for times in ours) * 1000
        more = mine - bare_one
        figure = f"first token, {name}, p50, without {disk:.1f} ms of the ledger's two commits"
        yield Row(
            figure, f"{mine:.1f} ms", f"{bare_one:.1f} ms", f"+{more:.1f} ms",
            "at most +4 ms", more <= 4,
        )  # fmt: skip


def bench_speed() -> Iterator[Row]:
    """Tokens per second of a provider that writes 500 of them."""
    for name in DIALECTS:
        ours, theirs = asyncio.run(_compare(name, rate=500, tokens=1000, rounds=3))
        mine, bare_one = (
            statistics.median(999 / (times[999] - times[0]) for times in side)
            for side in (ours, theirs)
        )
        yield row(f"tokens/s at 500, {name}", mine, bare_one, 0.95, "", at_least=True)


async def _compare(
    name: str, rate: int, tokens: int, rounds: int
) -> tuple[list[list[float]], list[list[float]]]:
    ours, theirs = [], []
    with provider(rate, tokens) as address:
        async with (
            open_metered_worker(address, name) as ask,
            httpx.AsyncClient(base_url=f"{address}/openai/v1", trust_env=False) as client,
        ):
            await bare(client)
            for _ in range(rounds):
                ours.append(await ask())
                await asyncio.sleep(0.2)  # prompts don't come within milliseconds of each other
                theirs.append(await bare(client))
    return ours, theirs


def bench_ledger() -> Iterator[Row]:
    """Hold-and-settle pairs a second, on disk, into a month that has thousands already."""
    rates = asyncio.run(_pairs(4000))
    alone = asyncio.run(_pairs(500, at_once=1))
    yield row("ledger: pairs/s, 16 calls at once, against one", rates, alone, 2, "", at_least=True)


async def _pairs(count: int, at_once: int = AT_ONCE) -> float:
    from baton.core.messages import Purpose

    bill = HoldRequest(
        "run", "session", "gpt", "openai", "gpt", Purpose.ANSWER, PRICE, 1000, 1000,
        {Scope.DAY: 10**5 * NANO, Scope.MONTH: 10**5 * NANO},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.db")

        async def some(calls: int) -> None:
            for _ in range(calls):
                hold = await ledger.hold(bill)
                await ledger.settle(hold.call, BilledTokens(900, 900))

        for timed in (False, True):
            start = time.perf_counter()
            await asyncio.gather(*(some(count // at_once) for _ in range(at_once)))
            if timed:
                elapsed = time.perf_counter() - start
        await ledger.aclose()
    return count / elapsed


def bench_app() -> Iterator[Row]:
    """The app's first frame and its keys, while a gateway starts beside it and without one."""
    frames: dict[bool, list[float]] = {False: [], True: []}
    keys: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(7):
        for cloud in (False, True):
            frame, typed = _open_app(cloud)
            frames[cloud].append(frame)
            keys[cloud] += typed
    ours, without = (statistics.median(frames[cloud]) for cloud in (True, False))
    yield row("app: first frame, a gateway starting beside it", ours, without, 1.1, "s")
    ours, without = (statistics.median(keys[cloud]) * 1000 for cloud in (True, False))
    yield row("app: key to screen in its first 3 s, median", ours, without, 1.5, "ms")


def _open_app(cloud: bool) -> tuple[float, list[float]]:
    with home() as env:
        settings = Path(env["BATON_HOME"]) / "config" / "config.toml"
        settings.parent.mkdir(parents=True)
        budget = '[budget]\nday = "1"\n' if cloud else ""
        worker = '[[workers]]\nid = "gpt"\nkind = "cloud"\nmodel = "openai/gpt-5-mini"\n'
        settings.write_text(budget + worker)
        screen = Terminal([PYTHON, "-I", "-m", "baton"], env)
        frame = screen.wait_for("Ask anything")
        typed = [bench_local.key_time(screen, letter) for letter in bench_local.LETTERS[:40]]
        screen.close()
    return frame, typed


BENCHES = {
    "first": bench_first,
    "speed": bench_speed,
    "ledger": bench_ledger,
    "app": bench_app,
}

if __name__ == "__main__":
    bench_local.main(sys.argv[1:], BENCHES)
