"""Looks for input that breaks a reader of strangers' bytes: `scripts/fuzz [TARGET...]`.

Coverage of the readers guides it (atheris, which is libFuzzer: Linux, Python 3.11 to 3.13). The
targets and what must hold of them stand in support/fuzz_targets.py. Each runs in a process of its
own, with at most 10 s and 1 GB for one input. Inputs that reach new code are kept in
build/fuzz/TARGET for the next time; one that breaks something is in build/fuzz/TARGET.broken, and
belongs into FOUND of tests/support/fuzz_targets.py.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "fuzz"
MOST_SECONDS, MOST_MEGABYTES, MOST_BYTES = 10, 1024, 65536


def main() -> int:
    """Run the targets that were named, or all; return 1 if something broke."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all, if none is named")
    parser.add_argument("--minutes", type=float, default=60, help="for each target (60)")
    parser.add_argument("--seed", type=int, default=0, help="0 is another each time (0)")
    parser.add_argument("--list", action="store_true", help="list the targets")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        fuzz(options.targets[0], options.minutes, options.seed)
    sys.path.insert(0, str(ROOT / "tests"))
    from support.fuzz_targets import TARGETS

    if options.list:
        print(*TARGETS, sep="\n")
        return 0
    if unknown := set(options.targets) - TARGETS.keys():
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    broken = [name for name in options.targets or TARGETS if run(name, options)]
    return int(bool(broken))


def run(name: str, options: argparse.Namespace) -> bool:
    """Fuzz one target in a process of its own; return whether something broke."""
    command = [sys.executable, "-P", __file__, name, "--one"]
    command += [f"--minutes={options.minutes}", f"--seed={options.seed}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = done.stdout.splitlines()
    if done.returncode:
        print(*lines[-40:], sep="\n")
    runs = next((line for line in reversed(lines) if "stat::number_of_executed" in line), "? ?")
    cover = next((word for line in reversed(lines) for word in _coverage_words(line)), "?")
    newest = next((line.split()[0] for line in reversed(lines) if "\tNEW " in line), "#0")
    broke = "BROKE" if done.returncode else "held"
    print(
        f"{name}: {broke}, {options.minutes:g} min, {runs.split()[-1]} inputs, cover {cover},"
        f" last grown at input {newest}",
        flush=True,
    )
    return done.returncode != 0


def _coverage_words(line: str) -> list[str]:
    words = line.split()
    return [words[words.index("cov:") + 1]] if "cov:" in words[:-1] else []


def fuzz(name: str, minutes: float, seed: int) -> None:
    """Fuzz one target in this process, which ends with that."""
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

    sys.path.insert(0, str(ROOT / "tests"))
    with atheris.instrument_imports(include=["baton"]):
        from support import fuzz_targets

    corpus, broken = FOLDER / name, FOLDER / f"{name}.broken"
    for folder in (corpus, broken):
        folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate((*fuzz_targets.SEEDS[name], *fuzz_targets.FOUND.get(name, ()))):
        (corpus / f"seed{number}").write_bytes(data)
    settings = {
        "max_total_time": int(minutes * 60),
        "timeout": MOST_SECONDS,
        "rss_limit_mb": MOST_MEGABYTES,
        "max_len": MOST_BYTES,
        "artifact_prefix": f"{broken}/",
        "print_final_stats": 1,
    }

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        other = fuzz_targets.change_json(data, chance) if chance.random() < 0.5 else data
        return other if other != data else bytes(atheris.Mutate(data, most))

    arguments = [f"-{key}={value}" for key, value in settings.items()]
    if seed:
        arguments.append(f"-seed={seed}")
    atheris.Setup(
        [sys.argv[0], *arguments, str(corpus)], fuzz_targets.TARGETS[name], custom_mutator=mutate
    )
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
