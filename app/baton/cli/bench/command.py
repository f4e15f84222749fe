"""`baton bench`: strategies compared on questions whose answers are known."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from baton.cli import interrupts
from baton.cli.completion import complete_worker
from baton.cli.error_report import report_error
from baton.cli.output import emit, emit_json
from baton.core.errors import BudgetExceeded, ConfigError
from baton.core.sanitiser import one_line
from baton.platform.durable_files import replace_file

if TYPE_CHECKING:
    from baton.bench import PlayedQuestion, StrategyRow
    from baton.cli.bench.base_bench import Bench

_EXAMPLES = """\b
A line of DATASET is a question, graded by its kind (number, choice, regex, parts, python, text):
  {"id": "1", "question": "What is 6 times 7?", "answer": 42, "kind": "number"}
  {"id": "2", "question": "6 * 7, and say hello", "answer": ["42", "(?i)hello"], "kind": "parts"}
  {"id": "3", "question": "Write f.", "kind": "python", "tests": "assert f() == 1"}
`system` and `choices` may be there. A .csv or .csv.gz holds recorded answers of real
models (columns id, text, answer and, for each model, m:NAME, p:NAME and l:NAME), which
are replayed: no model is loaded and nothing is sent.

\b
Examples:
  baton bench questions.jsonl --workers small,gpt --strategy single,hybrid --budget 0.50
  baton bench gsm.csv.gz --workers gemma-2-9b-it,gpt-4o --cloud gpt-4o@2.50,10
  baton bench gsm.csv.gz --workers gemma-2-9b-it,llama-3.1-8b-instruct,gpt-4o
    --cloud gpt-4o@2.50,10 --strategy cascade,hybrid,route --at 5,10,20 --svg curve.svg
  baton bench --history 30d --policy frugal,best --budget 0.10
  baton bench --conductor --workers qwen3.5-2b,qwen3.5-4b
"""

_HISTORY_OPTIONS = ("history", "policy", "budget", "as_json")
"""The options that go with --history."""

_CONDUCTOR_OPTIONS = ("conductor", "workers", "limit", "as_json")
"""The options that go with --conductor."""


@click.command(epilog=_EXAMPLES)
@click.argument("dataset", type=click.Path(path_type=Path), required=False)
@click.option(
    "--strategy", metavar="A,B", default="single,hybrid", show_default=True, help="What to compare."
)
@click.option(
    "--workers",
    metavar="X,Y",
    shell_complete=complete_worker,
    help="Who may be used; the first answers unless the strategy says otherwise.",
)
@click.option(
    "--cloud",
    metavar="NAME[@IN,OUT]",
    multiple=True,
    help="A replayed model that costs money, with its dollars per million tokens.",
)
@click.option(
    "--budget",
    metavar="USD",
    help="What all of it may cost; a replay's is play money. With --history, each day's ceiling.",
)
@click.option(
    "--history",
    metavar="SINCE",
    help="In place of DATASET: what your own prompts since a day (2026-11-01), or of the last days "
    "(30d), would have come to under another --policy or --budget. Nothing is sent or spent.",
)
@click.option(
    "--conductor",
    is_flag=True,
    help="In place of DATASET: who plans best of Baton's own conductor and your local models "
    "(--workers names some), on 60 built-in requests of which only the plans are drawn. A model "
    "that plans better conducts from then on, unless you have chosen who does.",
)
@click.option(
    "--policy",
    metavar="A,B",
    help="With --history: frugal, balanced, best.  [default: the one that is set]",
)
@click.option(
    "--at",
    metavar="P,Q",
    help="Play again with so many per cent of the dearest model's cost: a curve.  [ex.: 5,10,20]",
)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Only the first N questions.")
@click.option("--seed", metavar="N", type=int, help="Shuffle the questions, and seed the workers.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where each result is kept, and found again.  [default: DATASET.results.jsonl, here]",
)
@click.option(
    "--router",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A replay's router, as scripts/train_router writes it.  [default: Baton's own]",
)
@click.option(
    "--held-out",
    metavar="SALT",
    help="Only the questions that a router trained with that salt never saw.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--svg", metavar="FILE", type=click.Path(path_type=Path), help="Draw a plot as well.")
@click.pass_context
def bench(
    ctx: click.Context,
    /,
    dataset: Path | None,
    history: str | None,
    conductor: bool,
    policy: str | None,
    svg: Path | None,
    as_json: bool,
    **typed: Any,
) -> int:
    """Compare strategies on questions whose answers are known: accuracy, money, time.

    A bench that was broken off goes on where it was. Nothing goes into your history; real money
    counts against your ceilings like any other.
    """
    if history is not None:
        return _look_back(ctx, history, policy or "", as_json)
    if conductor:
        return _compare_conductors(ctx, typed["workers"] or "", typed["limit"], as_json)
    dataset = _require_dataset(dataset, typed["workers"], policy)

    from baton.bench import read_dataset
    from baton.cli.bench.base_bench import BenchOptions
    from baton.cli.bench.live_bench import LiveBench
    from baton.cli.bench.replay_bench import ReplayBench
    from baton.core.strategies import make_strategy

    options = BenchOptions(**typed)
    for name in options.strategies:
        make_strategy(name)  # says which ones there are
    interrupts.restore_default_handler()
    read = read_dataset(dataset)
    made: Bench = (ReplayBench if read.recorded else LiveBench)(options, read)
    return asyncio.run(_compare(made, as_json, svg))


def _look_back(ctx: click.Context, since: str, policy: str, as_json: bool) -> int:
    """Show what the person's own prompts would have come to. Raises ConfigError."""
    about = "--history, which looks at your own prompts"
    _refuse_others(ctx, _HISTORY_OPTIONS, about, "With it go --policy, --budget and --json.")
    from baton.cli.bench.history_bench import HistoryOptions, look_back

    return asyncio.run(look_back(HistoryOptions(since, policy, ctx.params["budget"], as_json)))


def _compare_conductors(ctx: click.Context, workers: str, limit: int | None, as_json: bool) -> int:
    """Show who plans best on the built-in requests. Raises ConfigError."""
    about = "--conductor, which has requests of its own"
    _refuse_others(ctx, _CONDUCTOR_OPTIONS, about, "With it go --workers, --limit and --json.")
    from baton.cli.bench.conductor_comparison import ConductorOptions, compare

    interrupts.restore_default_handler()
    return asyncio.run(compare(ConductorOptions(workers, limit, as_json)))


def _refuse_others(ctx: click.Context, allowed: Sequence[str], about: str, hint: str) -> None:
    """Refuse what was given on the command line besides the options that go together.

    Raises ConfigError.
    """
    for option in ctx.command.params:
        name = option.name or ""
        given = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if given and name not in allowed:
            shown = option.opts[-1] if isinstance(option, click.Option) else "A dataset"
            raise ConfigError(f"{shown} does not go with {about}.", hint)


def _require_dataset(dataset: Path | None, workers: str | None, policy: str | None) -> Path:
    """Return the dataset, if all is there that playing it needs. Raises ConfigError."""
    if policy is not None:
        raise ConfigError("--policy goes with --history.", "Leave it out, or add --history 30d.")
    if dataset is None:
        raise ConfigError(
            "A DATASET is missing.",
            "`baton bench --help` shows one; --history and --conductor need none.",
        )
    if workers is None:
        raise ConfigError("--workers is missing.", "Name who may be used: --workers small,gpt")
    return dataset


async def _compare(bench: Bench, as_json: bool, svg: Path | None) -> int:
    """Play each strategy; show the table even where money did not last."""
    from baton.bench import sum_row
    from baton.cli.bench.base_bench import show_progress

    stopped: BudgetExceeded | None = None
    rows = list(bench.baselines())
    async with bench:
        for this in bench.rounds:
            played: list[PlayedQuestion] = []
            try:
                async for one in bench.go_on(this):
                    played.append(one)
                    show_progress(this.title, len(played), len(bench.questions))
            except BudgetExceeded as error:
                stopped = bench.explained(error, this.title, len(played))
            rows.append(sum_row(this.title, played))
            if stopped is not None:
                break
    _show(bench, rows, as_json, svg)
    return 0 if stopped is None else report_error(stopped)


def _show(bench: Bench, rows: Sequence[StrategyRow], as_json: bool, svg: Path | None) -> None:
    from baton.cli.bench import bench_report
    from baton.cli.bench.bench_report import draw_svg, draw_text, legend

    drawn = bench_report.make_plot(bench.dataset.name, rows)
    if svg is not None and drawn.points:
        _write_svg(svg, draw_svg(drawn))
    if as_json:
        return emit_json(
            {
                "schema": bench_report.SCHEMA,
                "dataset": bench.dataset.name,
                "sha256": bench.dataset.digest,
                "workers": list(bench.workers),
                "replayed": bool(bench.dataset.recorded),
                "remarks": list(bench.remarks(rows)),
                "rows": [bench_report.row_object(row, rows) for row in rows],
            }
        )
    emit(bench_report.format_table(rows))
    for remark in bench_report.remarks(rows):
        emit(remark)
    for remark in bench.remarks(rows):
        emit(textwrap.fill(remark, 80, break_long_words=False))
    if any(point.cost for point in drawn.points):
        emit("\nright, over what all questions cost:\n" + draw_text(drawn))
        emit("\n".join(f"  {mark}  {one_line(point.name, 70)}" for mark, point in legend(drawn)))


def _write_svg(file: Path, text: str) -> None:
    try:
        replace_file(file, text)
    except OSError as error:
        raise ConfigError(f"{file} can't be written: {error.strerror}.", "Check --svg.") from error
