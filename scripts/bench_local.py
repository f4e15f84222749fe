"""How fast Baton is next to bare programs that do the same, measured in turn on this machine.

    scripts/bench_local              all figures (a few minutes; needs the network once, for `llm`)
    scripts/bench_local ask speed    some of them

Every figure is a median (or a 95th percentile, where it says so) of runs that alternate between the
two sides, so that a busy moment hits both.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))
from baton.workers.local import starter  # noqa: E402
from support.terminal import Terminal  # noqa: E402

PYTHON = sys.executable
QUESTION = "What is the capital of France?"
STORY = "Write a long story about a lighthouse keeper and the sea."


@dataclass(frozen=True)
class Row:
    """One line of the table; `must` is the promise, as the README repeats it."""

    figure: str
    ours: str
    theirs: str
    ratio: str
    must: str
    holds: bool


MODEL = str(starter().path)
SYSTEM = starter().card.system

BARE_ASK = f"""
from llama_cpp import Llama
threads = {psutil.cpu_count(logical=False)}
llm = Llama({MODEL!r}, n_ctx=2048, n_threads=threads, n_threads_batch=threads, verbose=False)
messages = [dict(role="system", content={SYSTEM!r}), dict(role="user", content={QUESTION!r})]
answer = llm.create_chat_completion(messages, temperature=0, repeat_penalty=1.1)
print(answer["choices"][0]["message"]["content"])
"""

BARE_LOOP = f"""
import time
from llama_cpp import Llama
threads = {psutil.cpu_count(logical=False)}
llm = Llama({MODEL!r}, n_ctx=2048, n_threads=threads, n_threads_batch=threads, verbose=False)
messages = [dict(role="system", content={SYSTEM!r}), dict(role="user", content={STORY!r})]
how = dict(temperature=0, repeat_penalty=1.1, max_tokens=200, stream=True)
stream = llm.create_chat_completion(messages, **how)
times = [time.perf_counter() for chunk in stream if "content" in chunk["choices"][0]["delta"]]
print((len(times) - 1) / (times[-1] - times[0]))
"""

SIXTY_TOKENS = (
    "A farmer has 17 sheep, and all but nine of them run away during a storm. Two days later three"
    " of those that ran away come back on their own. How many sheep does the farmer have now, and"
    " how many are still missing? Explain your reasoning in two short sentences."
)

LETTERS = [chr(code) for code in (*range(0x10D0, 0x10F1), *range(0x0531, 0x0557))]
"""Georgian and Armenian ones, which the starter model doesn't write."""

EMPTY_APP = """
from textual.app import App
from textual.widgets import Label
class Empty(App):
    def compose(self):
        yield Label("Ask anything")
Empty().run()
"""


@contextmanager
def home() -> Iterator[dict[str, str]]:
    """Give an environment with an empty home of Baton's own."""
    with tempfile.TemporaryDirectory() as folder:
        yield {**os.environ, "BATON_HOME": folder, "TERM": "xterm-256color"}


def seconds(command: list[str], env: dict[str, str]) -> float:
    """Run a command to its end and return how long that took."""
    start = time.perf_counter()
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    elapsed = time.perf_counter() - start
    if done.returncode or not done.stdout.strip():
        sys.exit(f"{command[:3]} failed: {done.stdout[-300:]} {done.stderr[-300:]}")
    return elapsed


def in_turn(times: int, *measures: Callable[[], float]) -> list[float]:
    """Take each measure once to warm up, then `times` times in turn; return their medians."""
    rounds = [[measure() for measure in measures] for _ in range(times + 1)][1:]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def bench_ask() -> Iterator[Row]:
    """The whole process of one question, against a bare script and against `llm`."""
    llm = llm_environment()
    with home() as env:
        ours, bare, theirs = in_turn(
            10,
            lambda: seconds([str(ROOT / "scripts/baton"), "ask", "--no-daemon", QUESTION], env),
            lambda: seconds([PYTHON, "-I", "-c", BARE_ASK], env),
            lambda: seconds([llm, "-m", "SmolLM2", "-s", SYSTEM, "-n", QUESTION], env),
        )
    yield row("`ask`, whole process, against a bare script", ours, bare, 1.3, "s")
    yield row("`ask`, whole process, against `llm`", ours, theirs, 1.0, "s")


def llm_environment() -> str:
    """Return the `llm` command of an environment of its own, made at first use."""
    folder = ROOT / ".venv" / "bench-llm"
    command = folder / "bin" / "llm"
    if not command.exists():
        print("Installing `llm` into an environment of its own ...", file=sys.stderr)
        subprocess.run([PYTHON, "-m", "venv", folder], check=True)
        site = next((folder / "lib").glob("python*")) / "site-packages"
        # The compiled llama.cpp and the weights are ours: the same on both sides.
        (site / "shared.pth").write_text(str(Path(psutil.__file__).parents[1]) + "\n")
        install = [str(folder / "bin/pip"), "install", "-q", "llm==0.36"]
        subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
    return str(command)


def bench_speed() -> Iterator[Row]:
    """Tokens per second through runner, engine and `--json`, against a bare loop."""

    def ours() -> float:
        command = [PYTHON, "-I", "-m", "baton", "ask", STORY, "--max-tokens", "200", "--json", "-q"]
        calls = json.loads(subprocess.check_output(command, env=env))["calls"]
        (call,) = (call for call in calls if call["purpose"] == "answer")
        writing: float = call["seconds"] - call["first_token_s"]
        return (int(call["tokens_out"]) - 1) / writing

    def bare() -> float:
        return float(subprocess.check_output([PYTHON, "-I", "-c", BARE_LOOP]))

    with home() as env:
        mine, theirs = in_turn(7, ours, bare)
    yield row("tokens/s, against a bare loop, 200 tokens", mine, theirs, 0.97, "", at_least=True)


def bench_turns() -> Iterator[Row]:
    """The first token at turn 20 of a conversation, against turn 2."""
    rounds = [asyncio.run(_first_tokens()) for _ in range(3)]
    second = statistics.median(first[1] for first in rounds)
    twentieth = statistics.median(first[19] for first in rounds)
    yield row("first token at turn 20, against turn 2", twentieth, second, 1.5, "s")


async def _first_tokens() -> list[float]:
    from baton.compose import compose
    from baton.core.events import Called, Started
    from baton.core.messages import Prompt
    from baton.core.permissions import PromptLimits
    from baton.core.ports import ConversationPosition
    from baton.platform.paths import find_paths
    from baton.platform.settings import Settings

    with home() as env:
        baton = compose(Settings(), find_paths(env), history=False)
        place, times = ConversationPosition(), []
        for turn in range(20):
            prompt = Prompt(f"Tell me one short fact about the number {turn}.")
            async with baton.orchestra.run(prompt, place, PromptLimits(max_tokens=24)) as run:
                async for event in run:
                    if isinstance(event, Started):
                        place = ConversationPosition(event.conversation)
                    if isinstance(event, Called):
                        assert event.first_token is not None
                        times.append(event.first_token)
        await baton.aclose()
    return times


def bench_memory() -> Iterator[Row]:
    """Resident memory of the front process while it answers, at its highest."""
    with home() as env:
        command = [PYTHON, "-I", "-m", "baton", "ask", STORY, "--max-tokens", "150", "-q"]
        ask = psutil.Popen(command, env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        yield limit("front process while answering, `ask`", _highest_memory(ask), 90)
        ask.communicate()
        screen = Terminal([PYTHON, "-I", "-m", "baton"], env)
        screen.wait_for("Ask anything")
        screen.send(STORY + "\r")
        screen.wait_for("tokens/s")
        yield limit("front process while answering, app", _highest_memory(screen.process, 4), 90)
        screen.close()


def _highest_memory(process: psutil.Process, longest: float = 20) -> float:
    highest, end = 0.0, time.monotonic() + longest
    while time.monotonic() < end:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                break
            highest = max(highest, process.memory_info().rss / 1e6)
        except psutil.Error:
            break
        time.sleep(0.02)
    return highest


def bench_first_frame() -> Iterator[Row]:
    """From the start of the process to the prompt on the screen, against an empty Textual app."""

    def first_frame(command: list[str]) -> float:
        with home() as env:
            screen = Terminal(command, env)
            elapsed = screen.wait_for("Ask anything")
            screen.close()
        return elapsed

    ours, empty = in_turn(
        7,
        lambda: first_frame([PYTHON, "-I", "-m", "baton"]),
        lambda: first_frame([PYTHON, "-I", "-c", EMPTY_APP]),
    )
    yield row("app: first frame, against an empty Textual app", ours, empty, 1.8, "s")


def bench_keys() -> Iterator[Row]:
    """From a key to its letter on the screen, while text streams into a long conversation.

    The model that streams leaves the app as much of the processor as others do: so it is compared
    with a short conversation, and by the processor's time.
    """
    rounds = [[_streaming_keys(turns) for turns in (5_000, 20)] for _ in range(3)]
    long, short = (
        [*map(statistics.median, zip(*side, strict=True))] for side in zip(*rounds, strict=True)
    )
    figure = "app: key to screen, p95, streaming into 5,000 messages, against 20"
    yield row(figure, long[0], short[0], 1.5, "ms")
    figure = "app: its processor's time in a second, the same"
    yield row(figure, long[1], short[1], 1.2, "ms")
    with tempfile.TemporaryDirectory() as folder:
        program = str(ROOT / "tests" / "support" / "streaming_app.py")
        screen = Terminal([PYTHON, "-P", program, folder], os.environ)
        screen.wait(lambda shown: shown.count("writing") >= 4)
        times = [key_time(screen, letter) for letter in LETTERS]
        screen.close()
    p95 = sorted(times)[int(len(times) * 0.95)] * 1000
    yield limit("app: key to screen, p95, four steps writing into the picture", p95, 16, "ms")


def _streaming_keys(turns: int) -> tuple[float, float]:
    """Return the p95 of a key, and the app's processor time in a second, in ms."""
    with home() as env:
        asyncio.run(_fill(env, turns))
        screen = Terminal([PYTHON, "-I", "-m", "baton"], env)
        screen.wait_for("Ask anything")
        screen.send("\x13")  # Ctrl+S: conversations
        screen.wait_for("Enter open")
        screen.send("\r")
        screen.wait_for(f"answer {turns // 2 - 1}")
        screen.send(STORY + "\r")
        screen.wait_for("tokens/s")
        start, before = time.perf_counter(), sum(screen.process.cpu_times()[:2])
        times = [key_time(screen, letter) for letter in LETTERS]
        used = sum(screen.process.cpu_times()[:2]) - before
        share = used / (time.perf_counter() - start)
        screen.close()
    return sorted(times)[int(len(times) * 0.95)] * 1000, share * 1000


def key_time(screen: Terminal, letter: str) -> float:
    """Type a letter that stands nowhere yet. Bytes are compared, as an emulator would cost time."""
    screen.skim(0.06)  # pause as a typist does
    start = time.perf_counter()
    screen.send(letter)
    if not screen.skim(5, until=letter.encode()):
        sys.exit(f"The key {letter} never reached the screen.")
    return time.perf_counter() - start


async def _fill(env: dict[str, str], turns: int) -> None:
    from baton.core.events import Finished
    from baton.core.labels import Label
    from baton.core.messages import Message, Prompt, Role, TurnStatus
    from baton.core.ports import ConversationPosition
    from baton.history import Store
    from baton.platform.paths import find_paths

    store, pairs = Store(find_paths(env).database), turns // 2
    said = [(f"Question {n}?", f"This is answer {n}, *in* `Markdown`.") for n in range(pairs)]
    roles = Role.USER, Role.ASSISTANT
    *earlier, _, _ = (Message(*one) for pair in said for one in zip(roles, pair, strict=True))
    asked, answered = said[-1]
    place = ConversationPosition(earlier=tuple(earlier))
    run = await store.begin(Prompt(asked), place, Label.LOCAL)
    await store.write(run.answer, answered, TurnStatus.DONE, "scripted")
    await store.append(run.run, Finished(at=1.0))
    await store.rename(run.conversation, "Long talk")
    # The worker couldn't hold it all, and would ask.
    await store.trim(run.conversation, (await store.thread(run.conversation))[-2].id)
    await store.aclose()


def bench_router() -> Iterator[Row]:
    """From a prompt to its route and back, through the child, all of it on one core."""
    mine = psutil.Process()
    cores = mine.cpu_affinity() if hasattr(mine, "cpu_affinity") else []
    if cores:
        mine.cpu_affinity(cores[-1:])
    times = asyncio.run(_routes(400))
    if cores:
        mine.cpu_affinity(cores)
    figure = "router: 64 tokens, from the prompt to its route, one core, p95"
    yield limit(figure, times[int(len(times) * 0.95)], 15, "ms")


async def _routes(count: int) -> list[float]:
    """Return how many milliseconds each of so many routes took, sorted."""
    from baton.core.labels import Label
    from baton.core.messages import Card, Role, Turn, TurnStatus
    from baton.core.plan_types import Material
    from baton.routing import LearnedRouter, ScorerLimits

    roster = [
        Card("small", "local", "Small", model="qwen2.5-7b"),
        Card("far", "cloud", "Far", privacy=Label.CLOUD, model="openai/gpt-4o"),
    ]
    router = LearnedRouter(limits=ScorerLimits(warm=10, cold=60))
    times = []
    for number in range(count + 1):
        text = f"{SIXTY_TOKENS} {number}"
        turn = Turn("t", "c", None, Role.USER, text, TurnStatus.DONE, Label.CLOUD, 0.0)
        start = time.perf_counter()
        route = await router.route(Material((turn,)), roster)
        times.append((time.perf_counter() - start) * 1000)
        assert route.estimate is not None
    await router.aclose()
    return sorted(times[1:])


def row(
    figure: str, ours: float, theirs: float, must: float, unit: str, *, at_least: bool = False
) -> Row:
    """Compare two measures by their ratio."""
    ratio = ours / theirs
    holds = ratio >= must if at_least else ratio <= must
    word = "at least" if at_least else "at most"
    digits = ".0f" if ours > 20 else ".3f"
    return Row(
        figure,
        f"{ours:{digits}} {unit}".strip(),
        f"{theirs:{digits}} {unit}".strip(),
        f"{ratio:.2f}x",
        f"{word} {must:g}x",
        holds,
    )


def limit(figure: str, value: float, most: float, unit: str = "MB") -> Row:
    """Compare a measure with a limit."""
    return Row(figure, f"{value:.0f} {unit}", "", "", f"at most {most:g} {unit}", value <= most)


Benches = Mapping[str, Callable[[], Iterator[Row]]]

BENCHES: Benches = {
    "ask": bench_ask,
    "speed": bench_speed,
    "turns": bench_turns,
    "memory": bench_memory,
    "frame": bench_first_frame,
    "keys": bench_keys,
    "router": bench_router,
}


def main(names: list[str], benches: Benches = BENCHES) -> None:
    """Run the named benches (all without names) and print their table as Markdown."""
    unknown = set(names) - set(benches)
    if unknown:
        sys.exit(f"Unknown: {', '.join(unknown)}. Known: {', '.join(benches)}.")
    print_rows(line for name in names or benches for line in benches[name]())


def print_rows(rows: Iterable[Row]) -> None:
    """Print a table as Markdown, each line as soon as it is known."""
    cores = psutil.cpu_count(logical=False)
    print(f"{platform.machine()}, {cores} cores, Python {platform.python_version()}\n")
    print("| figure | Baton | reference | ratio | must | |\n|---|---|---|---|---|---|")
    for line in rows:
        verdict = ("holds" if line.holds else "**missed**") if line.must else ""
        cells = (line.figure, line.ours, line.theirs, line.ratio, line.must, verdict)
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
