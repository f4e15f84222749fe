"""What the packaged binary costs next to the checkout that it was built from, measured in turn.

    scripts/bench_binary                    all figures (some minutes), of what is in dist/
    scripts/bench_binary --runs 5 ask size  some of them, with fewer runs
    scripts/bench_binary --dist FOLDER      another folder's binaries

Every figure is a median of runs that alternate between the two sides, so that a busy moment hits
both. The checkout's llama.cpp is compiled for this very processor, the binary's for any. It ends
with 1 when a promise is missed.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "scripts")]
from bench_local import PYTHON, QUESTION, STORY, Row, home, in_turn, row, seconds  # noqa: E402

from support.terminal import Terminal  # noqa: E402

CHECKOUT = [PYTHON, "-I", "-m", "baton"]
MB = 1_000_000


@dataclass(frozen=True)
class Subject:
    """What is measured, and how often."""

    dist: Path
    runs: int

    @property
    def single(self) -> list[str]:
        return [str(self.dist / "baton")]

    @property
    def folder(self) -> list[str]:
        return [str(self.dist / "folder" / "baton" / "baton")]


def bench_ask(of: Subject) -> Iterator[Row]:
    """The whole process of one question, all unpacked and read once before."""
    with home() as env:
        single, folder, checkout = in_turn(
            of.runs,
            *(_ask(start, env) for start in (of.single, of.folder, CHECKOUT)),
        )
    yield row("warm `ask`: single file, against the checkout", single, checkout, 1.3, "s")
    yield row("warm `ask`: single file, against the folder build", single, folder, 1.3, "s")


def _ask(start: list[str], env: dict[str, str]) -> Callable[[], float]:
    return lambda: seconds([*start, "ask", "--temperature", "0", QUESTION], env)


def bench_version(of: Subject) -> Iterator[Row]:
    """What the launcher and its checks cost, where nearly nothing else is done."""
    with home() as env:
        single, folder = in_turn(
            of.runs * 2, *(_version(start, env) for start in (of.single, of.folder))
        )
    yield figure_row(
        "`--version`: what the launcher adds to the folder build", single - folder, "s"
    )


def _version(start: list[str], env: dict[str, str]) -> Callable[[], float]:
    return lambda: seconds([*start, "--version"], env)


def bench_frame(of: Subject) -> Iterator[Row]:
    """From the start of the process to the prompt on the screen."""
    with home() as env:
        single, folder, checkout = in_turn(
            of.runs, *(_frame(start, env) for start in (of.single, of.folder, CHECKOUT))
        )
    yield row("app's first frame: single file, against the checkout", single, checkout, 1.5, "s")
    yield row("app's first frame: single file, against the folder build", single, folder, 1.5, "s")


def _frame(start: list[str], env: dict[str, str]) -> Callable[[], float]:
    def measure() -> float:
        screen = Terminal(start, env)
        elapsed = screen.wait_for("Ask anything")
        screen.send("\x11")
        screen.wait_end(30)
        screen.close()
        return elapsed

    return measure


def bench_cold(of: Subject) -> Iterator[Row]:
    """The very first start, which unpacks; the file itself is in the system's memory by then."""

    def first(start: list[str]) -> float:
        with home() as env:
            return seconds([*start, "--version"], env)

    for start in (of.single, [str(of.dist / "baton-slim")]):
        name = Path(start[0]).name
        (took,) = in_turn(min(of.runs, 3), lambda start=start: first(start))  # type: ignore[misc]
        yield figure_row(f"first start of {name}, which unpacks it", took, "s")


def bench_speed(of: Subject) -> Iterator[Row]:
    """How fast the starter model writes 200 tokens, and reads: a portable build, a native one."""
    with home() as env:
        portable, native = in_turn(
            of.runs, *(_speed_measurement(start, env) for start in (of.single, CHECKOUT))
        )
    figure = "tokens/s: portable build, against one for this processor"
    yield row(figure, portable, native, 0.95, "", at_least=True)


def _speed_measurement(start: list[str], env: dict[str, str]) -> Callable[[], float]:
    flags = ["--max-tokens", "200", "--temperature", "0", "--json", "-q"]

    def measure() -> float:
        command = [*start, "ask", STORY, *flags]
        call = json.loads(subprocess.check_output(command, env=env))["calls"][0]
        writing: float = call["seconds"] - call["first_token_s"]
        return (int(call["tokens_out"]) - 1) / writing

    return measure


def bench_size(of: Subject) -> Iterator[Row]:
    """The files as they are downloaded."""
    for name, most in (("baton-slim", 150), ("baton", 250)):
        size = (of.dist / name).stat().st_size / MB
        must = f"at most {most} MB"
        yield Row(f"size of {name}", f"{size:.1f} MB", "", "", must, size <= most)


def figure_row(figure: str, value: float, unit: str) -> Row:
    """Say a measure that nothing was promised of."""
    return Row(figure, f"{value:.3f} {unit}", "", "", "", True)


BENCHES: dict[str, Callable[[Subject], Iterator[Row]]] = {
    "ask": bench_ask,
    "version": bench_version,
    "frame": bench_frame,
    "cold": bench_cold,
    "speed": bench_speed,
    "size": bench_size,
}


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="bench_binary", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--runs", type=int, default=11, help="how often each side is measured")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the binaries are")
    given = parser.parse_args()
    if unknown := set(given.names) - set(BENCHES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(BENCHES)}")
    if given.runs < 1:
        parser.error("--runs is at least 1")
    return given


def main() -> int:
    """Measure, and print the table as Markdown."""
    given = read_arguments()
    subject = Subject(given.dist.absolute(), given.runs)
    for file in (*subject.single, *subject.folder, str(subject.dist / "baton-slim")):
        if not Path(file).is_file():
            sys.exit(f"{file} is missing: scripts/build makes it.")
    cores = psutil.cpu_count(logical=False)
    print(f"{platform.machine()}, {cores} cores, medians of {subject.runs} runs in turn\n")
    print("| figure | binary | reference | ratio | must | |\n|---|---|---|---|---|---|")
    missed = False
    for name in given.names or BENCHES:
        for line in BENCHES[name](subject):
            verdict = "" if not line.must else "holds" if line.holds else "**missed**"
            cells = (line.figure, line.ours, line.theirs, line.ratio, line.must, verdict)
            print("| " + " | ".join(cells) + " |", flush=True)
            missed = missed or not line.holds
    sizes = subject.dist / "sizes.md"
    if sizes.is_file() and "size" in (given.names or BENCHES):
        print(f"\n{sizes.read_text(encoding='utf-8').strip()}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
