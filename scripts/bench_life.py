"""What a long history costs, a day with the app open, and how fast commands start.

    scripts/bench_life                             all tables for 100,000 messages (half an hour)
    scripts/bench_life search commands             some of them
    scripts/bench_life commands --messages 1000000 another number of messages
    scripts/bench_life day --prompts 5000          a longer day

One conversation has 10,000 prompts with their answers, the others have 80 messages each; see
long_history.py. With --home FOLDER they are made there and kept for the next time.

`commands` and `app` measure each figure in turn in the long history and in one of 160 messages:
the ratio says what the length costs. What reads or writes everything (`history export` and such)
has no limit: it is only reported. Times are those of the processor, so that a busy machine counts
less, but for `start` and for the app's first frame.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pysqlite3

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
from bench_local import Row, limit, print_rows, row  # noqa: E402
from long_history import HAN, LAST_WORDS, LONG, LONG_TITLE, fill_home, multiply  # noqa: E402

from baton.core.folded_search import SearchQuery  # noqa: E402
from baton.core.labels import Label  # noqa: E402
from baton.core.messages import Prompt  # noqa: E402
from baton.core.ports import ConversationPosition  # noqa: E402
from baton.history import Store  # noqa: E402
from baton.history.search import match_expression  # noqa: E402
from baton.platform.paths import Paths, find_paths  # noqa: E402
from baton.platform.sqlite import check_stamp  # noqa: E402
from support.terminal import Terminal  # noqa: E402

PYTHON = sys.executable
MADE_MESSAGES = 100_000
"""So many messages are imported; beyond, there are copies of them."""

SEARCH_ROUNDS, COMMAND_ROUNDS, START_ROUNDS = 20, 5, 15
MUST_START, MUST_COMMAND, MUST_SEARCH_MS, MUST_OPEN_MS = 1.5, 1.5, 50.0, 10.0
MUST_APP, MUST_APP_MB, MUST_INDEX = 2.0, 150.0, 3.0
MUST_DAY_MB, MUST_DAY_RATIO = 10.0, 1.05

QUERIES = {
    "a very common word": "the",
    "its first letter": "t",
    "its first two letters": "th",
    "two common words": "the of",
    "five common words": "the of and is a",
    "a common and a rare word": "the walrus",
    "a word with punctuation": "don't",
    "a rare word": "metaclass",
    "nothing to be found": "zyzzyva",
    "nothing, of common parts": "therationing",
    "a part of words": "class",
    "a part that begins no word": "etaclas",
    "two letters within words": "gh",
    "signs": "__init__",
    "a common and a sign": "C++",
    "one Chinese character": chr(HAN + 40),
    "a common one": chr(HAN),
    "two": chr(HAN + 40) + chr(HAN + 7),
    "four": "".join(chr(HAN + at) for at in (40, 7, 11, 3)),
    "two of which there are none": chr(HAN + 5000) + chr(HAN),
}

LOOKUPS: tuple[tuple[str, ...], ...] = (
    ("history", "ls"),
    ("history", "search", "walrus"),
    ("why",),
    ("trace",),
    ("budget", "show"),
    ("egress", "ls"),
)
REPORTS: tuple[tuple[str, ...], ...] = (
    ("usage",),
    ("usage", "--since", "7d"),
    ("history", "show", LONG_TITLE),
    ("history", "export", LONG_TITLE),
    ("history", "export", "--csv"),
    ("history", "export", "--format", "json"),
)
STARTS = (("--version",), ("models", "ls"), ("history", "ls"), ("budget", "show"))


@dataclass(frozen=True)
class Histories:
    """The home with the long history, and one with a short one."""

    long: Path
    short: Path

    @property
    def paths(self) -> Paths:
        return find_paths(environment(self.long))


@dataclass(frozen=True)
class Used:
    """What a command took: seconds by the clock and of the processor, and memory at its highest."""

    seconds: float
    processor: float
    megabytes: float


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "BATON_HOME": str(home), "TERM": "xterm-256color"}


def measure(command: list[str], home: Path) -> Used:
    """Run a command to its end."""
    start = time.perf_counter()
    with Path(os.devnull).open("r+b") as nothing, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, env=environment(home), stdin=nothing, stdout=nothing, stderr=errors
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        if status:
            errors.seek(0)
            sys.exit(f"{command} failed: {errors.read().decode()[-500:]}")
    seconds = time.perf_counter() - start
    return Used(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000)


def baton(*words: str) -> list[str]:
    return [PYTHON, "-I", "-m", "baton", *words]


def in_turn(rounds: int, *measures: Callable[[], Used]) -> list[list[Used]]:
    """Take each measure once to warm up, then so many times in turn; return each one's results."""
    taken = [[one() for one in measures] for _ in range(rounds + 1)][1:]
    return [list(column) for column in zip(*taken, strict=True)]


def median(used: list[Used], name: str) -> float:
    return float(statistics.median(getattr(one, name) for one in used))


def median_ratio(ours: list[Used], theirs: list[Used], name: str) -> float:
    """Return the median of the ratios of each round."""
    pairs = zip(ours, theirs, strict=True)
    return float(statistics.median(getattr(a, name) / getattr(b, name) for a, b in pairs))


def report(figure: str, value: str) -> Row:
    """Return a row without a limit."""
    return Row(figure, value, "", "", "", holds=True)


# The start of commands


def bench_start(histories: Histories) -> Iterator[Row]:
    """The whole process of commands, against one that imports SQLite and JSON."""
    bare = [PYTHON, "-I", "-c", "import sqlite3, json"]
    commands = [bare, [PYTHON, "-I", "-c", "pass"], *(baton(*words) for words in STARTS)]
    theirs, interpreter, *ours = in_turn(
        START_ROUNDS,
        *(lambda c=c: measure(c, histories.short) for c in commands),
    )
    yield _start_row("the interpreter alone (`pass`)", interpreter, theirs, must=False)
    for words, used in zip(STARTS, ours, strict=True):
        yield _start_row(f"`baton {' '.join(words)}`", used, theirs)


def _start_row(figure: str, ours: list[Used], theirs: list[Used], *, must: bool = True) -> Row:
    ratio = median_ratio(ours, theirs, "seconds")
    processor = median_ratio(ours, theirs, "processor")
    return Row(
        figure,
        f"{median(ours, 'seconds'):.3f} s",
        f"{median(theirs, 'seconds'):.3f} s",
        f"{ratio:.2f}x, processor {processor:.2f}x",
        f"at most {MUST_START:g}x" if must else "",
        ratio <= MUST_START,
    )


# Search and opening


def bench_search(histories: Histories) -> Iterator[Row]:
    """Size of the file and of its index; each query next to the bare one on the same index."""
    return _in_loop(_search(histories.paths.database))


def _in_loop(rows: Any) -> Iterator[Row]:
    """Iterate over the rows of an asynchronous generator."""
    with asyncio.Runner() as runner:
        while (one := runner.run(anext(rows, None))) is not None:
            yield one


async def _search(path: Path) -> Any:
    store = Store(path)
    first = await milliseconds(lambda: store.search("x"))
    yield report("the first search, which makes the index", f"{first / 1000:.1f} s")
    bare = pysqlite3.connect(path)
    turns, texts = bare.execute("SELECT count(*), sum(octet_length(text)) FROM turns").fetchone()
    size = store.archive.disk_bytes
    yield report(
        f"history of {turns:,} messages", f"{size / 1e6:.0f} MB, {size / turns:.0f} B each"
    )
    index = bare.execute("SELECT sum(length(block)) FROM search_grams_data").fetchone()[0]
    index += bare.execute("SELECT sum(8 + length(sz)) FROM search_grams_docsize").fetchone()[0]
    yield row("index, against the texts", index / 1e6, texts / 1e6, MUST_INDEX, "MB")
    query = (
        "SELECT key, text FROM search_grams JOIN turns ON key = search_grams.rowid "
        "WHERE search_grams MATCH ? ORDER BY search_grams.rowid DESC LIMIT 50"
    )
    for name, text in QUERIES.items():

        async def plain(expression: str = match_expression(SearchQuery.of(text))) -> object:
            return bare.execute(query, [expression]).fetchall()

        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(SEARCH_ROUNDS):
            ours.append(await milliseconds(lambda text=text: store.search(text)))  # type: ignore[misc]
            theirs.append(await milliseconds(plain))
        found = len(await store.search(text))
        yield _p95(f"search: {name} ({found} shown)", ours, theirs, MUST_SEARCH_MS)
    bare.close()
    await store.aclose()

    async def opening() -> None:
        store = Store(path)
        assert store.warning == ""
        await store.latest()
        await store.aclose()

    async def bare_opening() -> None:
        connection = pysqlite3.connect(path)
        connection.execute("SELECT id FROM conversations ORDER BY updated DESC LIMIT 1").fetchone()
        connection.close()

    both = [
        (await milliseconds(opening), await milliseconds(bare_opening))
        for _ in range(SEARCH_ROUNDS)
    ]
    usual, theirs = (list(times) for times in zip(*both, strict=True))
    yield _p95("open, read, close", usual, theirs, MUST_OPEN_MS)
    os.utime(check_stamp(path), (0, 0))
    daily = await milliseconds(opening)
    yield report("the same with the check of once a day", f"{daily:.0f} ms")


def _p95(figure: str, ours: list[float], theirs: list[float], must: float) -> Row:
    value, other = sorted(ours)[int(len(ours) * 0.95)], statistics.median(theirs)
    middle = statistics.median(ours)
    return Row(
        f"{figure}, p95 (median)",
        f"{value:.1f} ms ({middle:.1f})",
        f"{other:.1f} ms",
        f"{middle / other:.1f}x",
        f"at most {must:g} ms",
        value <= must,
    )


async def milliseconds(work: Callable[[], Awaitable[object]]) -> float:
    """Return how many milliseconds of the processor it takes."""
    start = time.process_time()
    await work()
    return (time.process_time() - start) * 1000


# Commands


def bench_commands(histories: Histories) -> Iterator[Row]:
    """Commands in the long history, against the short one."""
    for words in LOOKUPS:
        ours, theirs = _both(histories, words, COMMAND_ROUNDS)
        ratio = median_ratio(ours, theirs, "processor")
        yield Row(
            f"`baton {' '.join(words)}`",
            _used_text(ours),
            _used_text(theirs),
            f"{ratio:.2f}x",
            f"at most {MUST_COMMAND:g}x",
            ratio <= MUST_COMMAND,
        )
    for words in REPORTS:
        ours, theirs = _both(histories, words, 1)
        name = f"`baton {' '.join(words)}`"
        yield Row(name, _used_text(ours), _used_text(theirs), "", "", holds=True)
    yield from _changes(histories)


def _both(histories: Histories, words: tuple[str, ...], rounds: int) -> list[list[Used]]:
    command = baton(*words)
    return in_turn(
        rounds,
        lambda: measure(command, histories.long),
        lambda: measure(command, histories.short),
    )


def _changes(histories: Histories) -> Iterator[Row]:
    """What changes the history, in a copy of it."""
    with tempfile.TemporaryDirectory(dir=histories.long.parent) as folder:
        copy, new, file = (Path(folder) / name for name in ("copy", "new", "all.json"))
        shutil.copytree(histories.long, copy)
        for words in (
            ("history", "rm", "-y", "Conversation 3"),
            ("history", "rm", "-y", LONG_TITLE),
        ):
            used = measure(baton(*words), copy)
            yield report(f"`baton {' '.join(words)}`", _used_text([used]))
        measure(baton("history", "export", "-o", str(file)), histories.long)
        if file.stat().st_size < 10**9:  # more isn't taken
            used = measure(baton("history", "import", str(file)), new)
            size = f"{file.stat().st_size / 1e6:.0f} MB"
            yield report(f"`baton history import` of all, {size}", _used_text([used]))


def _used_text(used: list[Used]) -> str:
    return f"{median(used, 'processor'):.2f} s, {median(used, 'megabytes'):.0f} MB"


# The app


def bench_app(histories: Histories) -> Iterator[Row]:
    """The app opens the latest conversation: the long one, and a short one in the short history."""

    def opening(home: Path) -> Used:
        with closing(Terminal(baton("-c"), environment(home))) as screen:
            seconds = screen.wait_for(LAST_WORDS)
            screen.skim(1.0)
            processor = sum(screen.process.cpu_times()[:2])
            memory = screen.process.memory_info().rss / 1e6
        return Used(seconds, processor, memory)

    ours, theirs = in_turn(
        COMMAND_ROUNDS, lambda: opening(histories.long), lambda: opening(histories.short)
    )
    ratio = median_ratio(ours, theirs, "seconds")
    yield Row(
        f"`baton -c`: {LONG:,} turns on the screen, against a short conversation",
        f"{median(ours, 'seconds'):.2f} s",
        f"{median(theirs, 'seconds'):.2f} s",
        f"{ratio:.2f}x",
        f"at most {MUST_APP:g}x",
        ratio <= MUST_APP,
    )
    yield limit("memory of the front then", median(ours, "megabytes"), MUST_APP_MB)
    yield report("the same, short conversation", f"{median(theirs, 'megabytes'):.0f} MB")
    long, short = asyncio.run(_begin(histories.paths.database))
    figure = "recording a prompt there, and reading what is sent with it"
    yield Row(figure, f"{long:.0f} ms", f"{short:.1f} ms", f"{long / short:.0f}x", "", holds=True)


async def _begin(database: Path) -> tuple[float, float]:
    """Return milliseconds to record a prompt in the long conversation, and in a new one."""
    with tempfile.TemporaryDirectory(dir=database.parent) as folder:
        path = Path(shutil.copy(database, folder))
        store = Store(path)
        places = [ConversationPosition(await store.latest()), ConversationPosition()]
        times = []
        for place in places:
            taken = [
                await milliseconds(lambda p=place: store.begin(Prompt("More?"), p, Label.CLOUD))  # type: ignore[misc]
                for _ in range(5)
            ]
            times.append(statistics.median(taken))
        await store.aclose()
    return times[0], times[1]


# A day


def bench_day(histories: Histories, prompts: int = 2000) -> Iterator[Row]:
    """The app stays open; see day_of_use.py."""
    command = [PYTHON, "-I", str(ROOT / "scripts/day_of_use.py"), str(prompts)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as day:
        assert day.stdout is not None
        looks = [json.loads(line) for line in day.stdout]
    if day.returncode:
        sys.exit("The day ended early.")
    first, last = looks[len(looks) // 4], looks[-1]
    since = f"after {last['prompts']:,} prompts, against {first['prompts']:,}"
    grown = last["megabytes"] - first["megabytes"]
    yield Row(
        f"memory of the front {since}",
        f"{last['megabytes']:.0f} MB",
        f"{first['megabytes']:.0f} MB",
        f"{grown:+.0f} MB",
        f"at most {MUST_DAY_MB:+g} MB",
        grown <= MUST_DAY_MB,
    )
    for name in ("objects", "widgets", "tasks", "threads", "files"):
        ratio = last[name] / first[name]
        yield Row(
            f"{name} {since}",
            f"{last[name]:,}",
            f"{first[name]:,}",
            f"{ratio:.2f}x",
            f"at most {MUST_DAY_RATIO:g}x",
            ratio <= MUST_DAY_RATIO,
        )
    yield report("processor time of a prompt", f"{last['processor']:.2f} s")


BENCHES: dict[str, Callable[..., Iterator[Row]]] = {
    "start": bench_start,
    "search": bench_search,
    "commands": bench_commands,
    "app": bench_app,
    "day": bench_day,
}


def prepare(folder: Path, messages: int) -> Histories:
    """Make both histories, unless they are there."""
    histories = Histories(folder / f"long-{messages}", folder / "short")
    for home, count, long in ((histories.long, messages, LONG), (histories.short, 160, 40)):
        paths = find_paths(environment(home))
        if not paths.database.exists():
            home.mkdir(parents=True, exist_ok=True)
            fill_home(paths, min(count, MADE_MESSAGES), long)
            multiply(paths.database, count // MADE_MESSAGES)
        # Once, so that a first use, the index and the check of the day aren't measured.
        for words in (("history", "search", "x"), ("models", "ls")):
            measure(baton(*words), home)
    return histories


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []])
    parser.add_argument("--messages", type=int, default=MADE_MESSAGES)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--home", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        histories = prepare(asked.home or Path(folder), asked.messages)
        for name in asked.names or BENCHES:
            more = {"prompts": asked.prompts} if name == "day" else {}
            print_rows(BENCHES[name](histories, **more))
            print()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
