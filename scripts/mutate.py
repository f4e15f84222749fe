"""Mutation testing: change the code in one place, run the tests of that module, count who notices.

    scripts/mutate semantic              changes of meaning, by hand (tests/mutants/semantic.toml)
    scripts/mutate semantic C5 N01       some of them
    scripts/mutate drawn --count 300     changes that the operators below make, drawn with --seed
    scripts/mutate drawn --list          shows what would be drawn, runs nothing

Why not a library: mutmut chooses the mutant by an environment variable, and Baton starts its
children with an environment of their own, so a mutant there would never run. cosmic-ray needs a
package without a wheel, which scripts/setup.py doesn't install, and has one test command for all;
here each module has its own tests (tests/mutants/modules.toml), which makes 300 runs affordable.

Every run happens in a copy of the checkout; the checkout itself is not touched. A mutant is noticed
if a test fails, if nothing can be collected, or if the tests take three times as long as they did
without it. The exit status is 1 if less than 90 % were noticed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MUTANTS = ROOT / "tests" / "mutants"
SEED = 16
LEAST_NOTICED = 0.9
MOST_EXCUSED = 0.05
LONGEST_SECONDS = 900.0
PYTEST_FAILED, PYTEST_UNUSABLE, PYTEST_NO_TESTS = 1, 4, 5


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: `old`, which stands once in `file` (relative to the checkout), becomes `new`.

    `harm` says what a user would suffer, or how the changed line reads.
    """

    id: str
    file: str
    old: str
    new: str
    harm: str

    def apply(self, source: str) -> str:
        """Return the changed source. Raises ValueError where `old` doesn't stand there once."""
        if (count := source.count(self.old)) != 1:
            raise ValueError(f"{self.id}: {self.file} holds {self.old[:60]!r} {count} times")
        return source.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant: "noticed", "survived" or "excused"; `by` is the test that failed."""

    id: str
    file: str
    harm: str
    outcome: str
    by: str
    seconds: float


def semantic_mutants(ids: Sequence[str] = ()) -> list[Mutant]:
    """Return the changes written by hand; with `ids`, only those."""
    with (MUTANTS / "semantic.toml").open("rb") as file:
        table = tomllib.load(file)["mutant"]
    mutants = [Mutant(m["id"], m["file"], m["old"], m["new"], m["harm"]) for m in table]
    if unknown := set(ids) - {mutant.id for mutant in mutants}:
        raise SystemExit(f"There is no mutant {', '.join(sorted(unknown))}.")
    return [mutant for mutant in mutants if not ids or mutant.id in ids]


def modules(*, drawn: bool = False) -> dict[str, list[str]]:
    """Return modules with the tests that should notice a change; `drawn`: only drawn ones."""
    with (MUTANTS / "modules.toml").open("rb") as file:
        groups = tomllib.load(file)["group"]
    groups = [group for group in groups if group.get("drawn", True) or not drawn]
    return {
        str(path.relative_to(ROOT)): group["tests"]
        for group in groups
        for pattern in group["modules"]
        for path in sorted(ROOT.glob(pattern))
        if path.name != "__init__.py"
    }


def excuses() -> dict[tuple[str, str], str]:
    """Return why a drawn mutant is equivalent, by its file and how the changed line reads."""
    with (MUTANTS / "modules.toml").open("rb") as file:
        listed = tomllib.load(file).get("equivalent", [])
    return {(entry["file"], entry["line"]): entry["why"] for entry in listed}


def drawn_mutants(count: int, seed: int) -> list[Mutant]:
    """Draw lines of the modules that promises rest on, and one possible mutant of each line.

    A line's lot follows from the seed and its own text (sampling with permanent random numbers,
    Ohlsson 1995): a change of other lines draws no others, and a smaller draw is a part of
    a larger one.
    """
    drawn: list[tuple[bytes, Mutant]] = []
    for file in modules(drawn=True):
        texts = (ROOT / file).read_text("utf-8").splitlines()
        places: dict[int, list[Mutant]] = {}
        for line, mutant in tool_mutants(file):
            places.setdefault(line, []).append(mutant)
        seen: Counter[str] = Counter()
        for line, mutants in sorted(places.items()):
            text = texts[line - 1].strip()
            lot = partial(_lot, seed, file, text, seen[text])
            seen[text] += 1
            drawn.append((lot(), min(mutants, key=lambda m: lot(m.id.rpartition(":")[2], m.harm))))
    drawn.sort(key=lambda pair: pair[0])
    return [mutant for _, mutant in drawn[:count]]


def _lot(*parts: object) -> bytes:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


def tool_mutants(file: str) -> Iterator[tuple[int, Mutant]]:
    """Yield all mutants of a file that the operators below can make, each with its line."""
    text = Text((ROOT / file).read_text("utf-8"))
    for node in _nodes_that_run(ast.parse(text.source)):
        line = getattr(node, "lineno", 0)
        for operator, changed in _changes(node, text):
            if changed != text.source:
                id = f"{file.removeprefix('app/baton/')}:{line}:{node.col_offset}:{operator}"
                shown = changed.splitlines()[line - 1].strip()
                if operator == "drop statement":
                    shown = f"without {text.of(node).splitlines()[0]}"
                yield line, Mutant(id, file, text.source, changed, shown)


def _nodes_that_run(tree: ast.Module) -> Iterator[Any]:
    """Yield the nodes within functions, without annotations: what a module defines at its top are
    names and tuning values, of which 61 is as good as 60.
    """
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                yield from _within(statement)


def _within(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return  # walked by itself
    yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name != "annotation":
                yield from _within(child)


class Text:
    """A source, parts of which can be replaced by their nodes."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._raw = source.encode()
        self._starts = [0]
        for line in self._raw.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def of(self, node: Any) -> str:
        """Return a node's text."""
        start, end = self._span(node)
        return self._raw[start:end].decode()

    def with_node(self, node: Any, new: str) -> str:
        """Return the source with other text for a node."""
        start, end = self._span(node)
        return self._replace(start, end, new)

    def with_between(self, left: Any, right: Any, new: str) -> str:
        """Return the source with other text between two neighbours: their operator."""
        between = self._raw[self._span(left)[1] : self._span(right)[0]].decode()
        opened = between[: len(between) - len(between.lstrip(") \n"))]
        closed = between[len(between.rstrip("( \n")) :]
        return self._replace(self._span(left)[1], self._span(right)[0], f"{opened} {new} {closed}")

    def _span(self, node: Any) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _replace(self, start: int, end: int, new: str) -> str:
        return (self._raw[:start] + new.encode() + self._raw[end:]).decode()


_COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_SUMS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.Mod: "//",
}
_OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}


def _changes(node: Any, text: Text) -> Iterator[tuple[str, str]]:
    """Yield what can be changed in one node: the operator's name, and the changed source."""
    if isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp):
        yield from _other_signs(node, text)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield "other bool", text.with_node(node, str(not node.value))
        elif isinstance(node.value, int):
            yield "other number", text.with_node(node, str(node.value + 1))
    elif isinstance(node, ast.stmt):
        yield from _other_steps(node, text)
    else:
        yield from _other_values(node, text)


def _other_signs(
    node: ast.Compare | ast.BoolOp | ast.BinOp, text: Text
) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Compare(left=left, ops=[only], comparators=[right]):
            for sign in _COMPARISONS[type(only)]:
                yield f"compare {sign}", text.with_between(left, right, sign)
        case ast.BoolOp(op=joined, values=[first, second]):
            other = "or" if isinstance(joined, ast.And) else "and"
            yield other, text.with_between(first, second, other)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SUMS:
            if not isinstance(left, ast.Constant | ast.JoinedStr):  # texts that are joined
                other = _SUMS[type(sign)]
                yield f"compute {other}", text.with_between(left, right, other)


def _other_steps(node: ast.stmt, text: Text) -> Iterator[tuple[str, str]]:
    match node:
        case ast.If(test=test) | ast.While(test=test):
            yield "condition", text.with_node(test, f"(not ({text.of(test)}))")
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "drop statement", text.with_node(node, "pass")
        case ast.Raise() | ast.AugAssign() | ast.Delete():
            yield "drop statement", text.with_node(node, "pass")
        case ast.Break():
            yield "continue", text.with_node(node, "continue")
        case ast.Continue():
            yield "break", text.with_node(node, "break")


def _other_values(node: ast.AST, text: Text) -> Iterator[tuple[str, str]]:
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "drop not", text.with_node(node, f"({text.of(operand)})")
        case ast.IfExp(test=test):
            yield "condition", text.with_node(test, f"(not ({text.of(test)}))")
        case ast.Call(func=ast.Name(id=name) as called) if name in _OPPOSITES:
            yield "opposite", text.with_node(called, _OPPOSITES[name])


class Copies:
    """Copies of the checkout in which one run at a time may change files."""

    def __init__(self, folder: Path, count: int) -> None:
        self._free: queue.Queue[Path] = queue.Queue()
        for number in range(count):
            copy = folder / f"checkout-{number}" / ROOT.name
            for file in tracked_files():
                target = copy / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, target)
            (copy / ".venv").symlink_to(ROOT / ".venv", target_is_directory=True)
            shared = ROOT.parent / "shared"
            if shared.exists():
                (copy.parent / "shared").symlink_to(shared, target_is_directory=True)
            self._free.put(copy)

    @contextmanager
    def one(self) -> Iterator[Path]:
        """Lend a copy that no other run uses."""
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


def tracked_files() -> list[str]:
    """Return what git tracks, and what is new and not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def run_tests(copy: Path, tests: Sequence[str], seconds: float) -> tuple[bool, str, list[str]]:
    """Run tests up to the first that fails; return whether all passed, which one failed, and what
    pytest said.
    """
    python = copy / ".venv" / "bin" / "python"
    options = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", "-rfE", "--tb=short"]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            [python, "-P", "-m", "pytest", *options, *tests],
            cwd=copy,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False, "the tests took too long", []
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        said = output.read().splitlines()
    if status in (PYTEST_UNUSABLE, PYTEST_NO_TESTS):
        raise SystemExit("\n".join(["pytest can't run these tests:", *tests, *said[-5:]]))
    failed = [
        line.split(" - ")[0] for line in said if line.startswith(("FAILED tests", "ERROR tests"))
    ]
    return status == 0, failed[0].partition(" ")[2] if failed else f"status {status}", said


class Trials:
    """Runs mutants, each in a copy, against the tests of its module."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._tests = modules()
        self._excuses = excuses()
        self._baselines: dict[tuple[str, ...], float] = {}
        self._measuring = threading.Lock()

    def run(self, mutant: Mutant) -> Result:
        """Try one mutant. Ends the program where its tests fail without it."""
        began = time.monotonic()
        if why := self._excuses.get((mutant.file, mutant.harm)):
            return self._result(mutant, "excused", why, began)
        tests = self._tests.get(mutant.file)
        if tests is None:
            raise SystemExit(f"tests/mutants/modules.toml names no tests for {mutant.file}.")
        limit = 60 + 3 * self._baseline(tuple(tests))
        with self._copies.one() as copy, changed_file(copy / mutant.file, mutant):
            passed, by, _ = run_tests(copy, tests, limit)
        return self._result(
            mutant, "survived" if passed else "noticed", "" if passed else by, began
        )

    def _baseline(self, tests: tuple[str, ...]) -> float:
        """Return how many seconds these tests take without a mutant."""
        with self._measuring:
            if tests not in self._baselines:
                for _ in range(2):  # a machine under load may fail one of hundreds of tests once
                    with self._copies.one() as copy:
                        began = time.monotonic()
                        passed, by, said = run_tests(copy, tests, LONGEST_SECONDS)
                    if passed:
                        break
                else:
                    why = f"Without any mutant {by} fails, so nothing can be measured."
                    raise SystemExit("\n".join([*said[-40:], why]))
                self._baselines[tests] = time.monotonic() - began
            return self._baselines[tests]

    def _result(self, mutant: Mutant, outcome: str, by: str, began: float) -> Result:
        seconds = round(time.monotonic() - began, 1)
        return Result(mutant.id, mutant.file, mutant.harm, outcome, by, seconds)


@contextmanager
def changed_file(path: Path, mutant: Mutant) -> Iterator[None]:
    """Change a file, and restore it."""
    source = path.read_text("utf-8")
    path.write_text(mutant.apply(source), "utf-8")
    try:
        yield
    finally:
        path.write_text(source, "utf-8")


def run_all(mutants: Iterable[Mutant], jobs: int) -> list[Result]:
    """Try all mutants, some side by side, and show each result."""
    with tempfile.TemporaryDirectory(prefix="baton-mutants-") as folder:
        trials = Trials(Copies(Path(folder), jobs))
        results = []
        with ThreadPoolExecutor(jobs) as pool:
            for result in pool.map(trials.run, mutants):
                results.append(result)
                by = f"  {result.by}" if result.by else f"  {result.harm}"
                print(f"{result.outcome:9}{result.id}  ({result.seconds} s){by}", flush=True)
        return results


def noticed_share(results: Sequence[Result]) -> float:
    """Return which part of the mutants that aren't equivalent was noticed."""
    counted = [result for result in results if result.outcome != "excused"]
    return sum(r.outcome == "noticed" for r in counted) / max(1, len(counted))


def report(results: Sequence[Result]) -> str:
    """Return the counts, and a warning where too many are excused."""
    excused = sum(result.outcome == "excused" for result in results)
    survived = [result.id for result in results if result.outcome == "survived"]
    lines = [
        f"{len(results)} mutants, {excused} equivalent, {len(survived)} survived:"
        f" {noticed_share(results):.1%} noticed."
    ]
    if excused > MOST_EXCUSED * len(results):
        lines.append(f"More than {MOST_EXCUSED:.0%} are excused as equivalent.")
    return "\n".join(lines)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="scripts/mutate",
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=("semantic", "drawn"))
    parser.add_argument("ids", nargs="*", help="only these")
    parser.add_argument("--count", type=int, default=300, help="how many to draw (300)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the drawing ({SEED})")
    parser.add_argument("--jobs", type=int, default=2, help="how many run side by side (2)")
    parser.add_argument("--in", dest="within", default="", help="only files whose path holds this")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to a file")
    return parser.parse_intermixed_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit status."""
    options = _options(arguments)
    if options.kind == "semantic":
        mutants = semantic_mutants(options.ids)
    else:
        mutants = drawn_mutants(options.count, options.seed)
        mutants = [m for m in mutants if not options.ids or m.id in options.ids]
    mutants = [mutant for mutant in mutants if options.within in mutant.file]
    if options.list:
        print("\n".join(f"{mutant.id}  {mutant.harm}" for mutant in mutants))
        return 0
    results = run_all(mutants, options.jobs)
    print(report(results))
    if options.json:
        rows: list[dict[str, Any]] = [asdict(result) for result in results]
        options.json.write_text(json.dumps(rows, indent=1), "utf-8")
    return 0 if noticed_share(results) >= LEAST_NOTICED else 1


if __name__ == "__main__":
    sys.exit(main())
