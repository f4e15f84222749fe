"""How fast a model comes and is verified, next to programs that do less, on this machine.

    scripts/bench_models              all: 2 GiB from the loopback hub, and what fits (minutes)
    scripts/bench_models --only transfer
                                      that alone; `fit` is bench_models_fit.py alone
    scripts/bench_models --quick      256 MiB, and one context; `--size` is any other
    scripts/bench_models --runs 7     more runs, on a machine that does other things too
    scripts/bench_models --folder X   on another disk (it needs room for three times the size)

Both sides fetch the same file from the same hub, through its redirect, in turn. Ours hashes what it
reads back from the file, and has it on the disk (fsync) before it is done; curl does neither. So
it is compared with curl where there is no disk (in /dev/shm), and on the disk with curl that is
followed by an fsync. Counted is what a running child process needs, and curl's own time: without
the start of a program on either side.

Why the body is read past httpx (`http_download.py`), measured with 2 GiB on two cores
of an AMD EPYC: `iter_raw` needs 2.0 to 3.9 s of processor time, `http.client` 0.8 to 1.1 s, the
stream below httpx 0.7 to 1.1 s. All together, with writing, reading back and hashing, a download
needs 3.5 s, of which 1.3 s are hashing; curl needs 2.2 s, and sha256sum 6.3 s. A download keeps two
threads busy and the hub a third: on a machine of two cores that does other things too, it is
slower next to curl than on an idle one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT / "scripts")]
from support.fake_hub import Hub  # noqa: E402

REPO, FILE = "bench/model", "model.gguf"
MUST_DOWNLOAD, MUST_HASH = 0.9, 0.8
PIECE = 16 << 20

FETCH = """
import sys, time
from pathlib import Path
from baton.download.child import hub_client, transfer
from baton.core.catalogue_types import ModelOffer, Source
repo, file, revision, size, sha256, target = sys.argv[1:]
offer = ModelOffer(Source(repo, file, revision), int(size), sha256)
web = hub_client.default_client()
start = time.perf_counter()
assert transfer.fetch(offer, Path(target), lambda step: None, lambda: False) == sha256
print(time.perf_counter() - start)
"""
DIGEST = """
import sys, time
from pathlib import Path
from baton.download.child.transfer import hash_file
start = time.perf_counter()
found = hash_file(Path(sys.argv[1]), lambda step: None, lambda: False)
print(time.perf_counter() - start, found)
"""


@dataclass(frozen=True)
class Row:
    """One line of the table, in seconds; `must` is how fast ours must be, theirs being 1.

    The ratio is the median of those of runs that followed each other.
    """

    figure: str
    ours: list[float]
    theirs: list[float]
    must: float | None

    def __str__(self) -> str:
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        pairs = zip(self.theirs, self.ours, strict=True)
        ratio = statistics.median(one / other for one, other in pairs)
        must = "" if self.must is None else f"{self.must}"
        holds = "" if self.must is None else "yes" if ratio >= self.must else "**no**"
        return f"| {self.figure} | {ours:.2f} s | {theirs:.2f} s | {ratio:.2f} | {must} | {holds} |"


def run(command: list[str], env: dict[str, str] | None = None) -> str:
    """Run a command to its end and return what it prints."""
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed: {done.stderr[-500:]}")
    return done.stdout


def in_turn(runs: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Take each measure `runs` times, in turn, with nothing left to be written to the disk."""
    columns: list[list[float]] = [[] for _ in measures]
    for _ in range(runs):
        for column, measure in zip(columns, measures, strict=True):
            os.sync()
            column.append(measure())
    return columns


def elapsed_seconds(work: Callable[[], object]) -> float:
    """Return how many seconds it takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def downloads(hub: Hub, size: int, folder: Path, memory: Path, runs: int) -> Iterator[Row]:
    """Ours against curl, where no disk slows anybody down, and where both must wait for it."""
    sha256, revision = hub.sha256(REPO, FILE), hub.repos[REPO].names["main"]
    address = f"{hub.url}/{REPO}/resolve/{revision}/{FILE}"
    env = {**os.environ, **hub.environ}

    def ours(folder: Path) -> float:
        target = folder / "ours" / FILE
        arguments = [REPO, FILE, revision, str(size), sha256, str(target)]
        took = float(run([sys.executable, "-P", "-c", FETCH, *arguments], env))
        target.unlink()
        return took

    def curl(folder: Path, *, settled: bool) -> float:
        path = folder / "theirs"
        took = float(run(["curl", "-sSfL", "-o", str(path), "-w", "%{time_total}", address]))
        took += elapsed_seconds(lambda: sync(path)) if settled else 0.0
        path.unlink()
        return took

    fetched, bare = in_turn(runs, lambda: ours(memory), lambda: curl(memory, settled=False))
    yield Row("download and verify, in memory, against `curl`", fetched, bare, MUST_DOWNLOAD)
    fetched, bare, settled = in_turn(
        runs,
        lambda: ours(folder),
        lambda: curl(folder, settled=False),
        lambda: curl(folder, settled=True),
    )
    yield Row(
        "the same until it is on the disk, against `curl`, `sync`", fetched, settled, MUST_DOWNLOAD
    )
    yield Row("the same against `curl` alone, which leaves it in memory", fetched, bare, None)


def sync(path: Path) -> None:
    """Return when a file is on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def hashes(source: Path, runs: int) -> Iterator[Row]:
    """Verifying a file that is in the system's cache, against `sha256sum`."""

    def ours() -> float:
        return float(run([sys.executable, "-P", "-c", DIGEST, str(source)]).split()[0])

    def theirs() -> float:
        return elapsed_seconds(lambda: run(["sha256sum", str(source)]))

    read, summed = in_turn(runs, ours, theirs)
    yield Row("verify, against `sha256sum`", read, summed, MUST_HASH)


def write_noise(path: Path, size: int) -> None:
    """Write a file that nothing can make smaller on its way."""
    with path.open("wb") as file:
        for at in range(0, size, PIECE):
            file.write(os.urandom(min(PIECE, size - at)))


def transfers(size: int, runs: int, folder: Path | None) -> Iterator[Row]:
    """Measure hashing and downloads with a file of that size."""
    with ExitStack() as stack:
        disk = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        memory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=in_memory(size))))
        hub = stack.enter_context(Hub())
        source = disk / "source"
        write_noise(source, size)
        hub.add(REPO, {FILE: source})
        if missing("sha256sum"):
            return
        yield from hashes(source, runs)
        if missing("curl"):
            return
        yield from downloads(hub, size, disk, memory, runs)


def in_memory(size: int) -> Path | None:
    """Return a folder in memory with room for a file, None where there is none."""
    folder = Path("/dev/shm")
    return folder if folder.is_dir() and shutil.disk_usage(folder).free > 2 * size else None


def missing(program: str) -> bool:
    """Whether a program isn't here, and say so."""
    if shutil.which(program) is not None:
        return False
    print(f"There is no {program} here, so nothing is compared with it.", file=sys.stderr)
    return True


def main() -> None:
    """Measure, and print each line as it is known."""
    parser = argparse.ArgumentParser(description="Measures what models need until they can run.")
    parser.add_argument("--only", choices=["transfer", "fit"], help="one part of it")
    parser.add_argument("--quick", action="store_true", help="256 MiB, and one context")
    parser.add_argument("--size", type=int, default=2048, help="of the file, in MiB")
    parser.add_argument("--runs", type=int, default=3, help="of each side, in turn")
    parser.add_argument("--folder", type=Path, help="where to measure; else the temporary folder")
    chosen = parser.parse_args()
    if chosen.only in (None, "transfer"):
        size = (256 if chosen.quick else chosen.size) << 20
        print(f"{size >> 20:,} MiB, {chosen.runs} runs of each side, medians\n")
        print("| figure | Baton | other | Baton's speed | must | holds |")
        print("|---|---|---|---|---|---|")
        for row in transfers(size, chosen.runs, chosen.folder):
            print(row, flush=True)
    if chosen.only in (None, "fit"):
        from bench_models_fit import main as fit

        print()
        fit(chosen.quick)


if __name__ == "__main__":
    main()
