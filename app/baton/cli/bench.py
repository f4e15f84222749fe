"""`baton bench`: strategies, spending and conductors compared, on questions or on your history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from baton.cli import interrupts
from baton.cli.error_report import report_error
from baton.cli.options import add_named_worker, complete_worker
from baton.cli.output import emit, emit_document, notify, show_progress
from baton.cli.stores import format_columns
from baton.core.errors import BatonError, BudgetExceeded, ConfigError
from baton.core.money import FREE, NANO, format_usd, parse_usd
from baton.core.sanitiser import one_line
from baton.platform.paths import find_paths
from baton.platform.settings import LocalWorkerSettings, load_settings

if TYPE_CHECKING:
    from baton.bench import ConductorRow, Question, QuestionResult, StrategyRow
    from baton.compose import Baton
    from baton.core.messages import Card

_EXAMPLES = """\b
A line of QUESTIONS is a question, graded by its kind (number, choice, regex, parts, python, text):
  {"id": "1", "question": "What is 6 times 7?", "answer": 42, "kind": "number"}
  {"id": "2", "question": "6 * 7, and say hello", "answer": ["42", "(?i)hello"], "kind": "parts"}
  {"id": "3", "question": "Write f.", "kind": "python", "tests": "assert f() == 1"}
`system` and `choices` may be there.

\b
Examples:
  baton bench questions.jsonl --workers small,gpt --strategy single,hybrid --budget 0.50
  baton bench --history 30d --policy frugal,best --budget 0.10
  baton bench --conductor --workers qwen3.5-2b,qwen3.5-4b
"""

_OPTIONS = {
    "history": ("policy", "budget"),
    "conductor": ("workers", "limit"),
    "questions": ("strategy", "workers", "budget", "limit", "seed", "out"),
}
"""What is compared, and the options that go with it besides --json."""


@click.command(epilog=_EXAMPLES)
@click.argument("questions", type=click.Path(path_type=Path), required=False)
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
    "--budget", metavar="USD", help="What all of it may cost. With --history, each day's ceiling."
)
@click.option(
    "--history",
    metavar="SINCE",
    help="In place of QUESTIONS: what another --policy or --budget would have changed for your own "
    "prompts since a day (2026-11-01), or of the last days (30d). Nothing is sent or spent.",
)
@click.option(
    "--conductor",
    is_flag=True,
    help="In place of QUESTIONS: who plans best of Baton's own conductor and your local models "
    "(--workers names some), on 60 built-in requests of which only the plans are drawn. A model "
    "that plans better conducts from then on, unless you have chosen who does.",
)
@click.option(
    "--policy",
    metavar="A,B",
    help="With --history: frugal, balanced, best.  [default: the one that is set]",
)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Only the first N questions.")
@click.option("--seed", metavar="N", type=int, help="Random seed, for repeatable answers.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where each result is kept, and found again.  [default: QUESTIONS.results.jsonl, here]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def bench(ctx: click.Context, /, as_json: bool, **options: Any) -> int:
    """Compare strategies on questions whose answers are known: accuracy, money, time.

    An interrupted bench continues where it stopped. Nothing goes into your history; real money
    counts against your ceilings like any other.
    """
    mode = next((name for name in _OPTIONS if options[name]), None)
    if mode is None:
        raise ConfigError(
            "A file of QUESTIONS is missing.",
            "`baton bench --help` shows one; --history and --conductor need none.",
        )
    _refuse_others(ctx, mode)
    chosen = {name: options[name] for name in (mode, *_OPTIONS[mode]) if name != "conductor"}
    if mode == "history":
        from baton.cli.bench_history import compare_paces

        paces = _split_names(options["policy"])
        return asyncio.run(compare_paces(options["history"], paces, options["budget"], as_json))
    interrupts.restore_default_handler()
    if mode == "conductor":
        return asyncio.run(_compare_conductors(**chosen, as_json=as_json))
    return asyncio.run(_compare_strategies(_BenchOptions(**chosen), as_json))


def _refuse_others(ctx: click.Context, mode: str) -> None:
    """Refuse what was given on the command line besides the options that go together.

    Raises ConfigError.
    """
    for option in ctx.command.params:
        name = option.name or ""
        given = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if given and name not in (mode, *_OPTIONS[mode], "as_json"):
            shown = option.opts[-1] if isinstance(option, click.Option) else "A file of questions"
            raise ConfigError(
                f"{shown} can't be combined with {'' if mode == 'questions' else '--'}{mode}.",
                f"Options that can: {', '.join('--' + one for one in _OPTIONS[mode])}, --json.",
            )


def _split_names(text: str | None) -> tuple[str, ...]:
    """Return the words between commas, each once."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, (text or "").split(",")))))


# Strategies


@dataclass(frozen=True, slots=True)
class _BenchOptions:
    questions: Path
    strategy: str
    workers: str | None
    budget: str | None
    limit: int | None
    seed: int | None
    out: Path | None


async def _compare_strategies(options: _BenchOptions, as_json: bool) -> int:
    """Run each strategy; show the table even where money did not last. Raises ConfigError."""
    from baton.bench import ResultsFile, StrategyRow, read_dataset
    from baton.core.strategies import make_strategy

    dataset = read_dataset(options.questions)
    questions = dataset.questions[: options.limit]
    strategies = _required_names("strategy", options.strategy, "single,hybrid")
    for name in strategies:
        make_strategy(name)  # raises for an unknown one, with those that there are
    workers, baton = _compose_workers(_required_names("workers", options.workers, "small,gpt"))
    path = options.out or Path(f"{dataset.name}.results.jsonl")
    file = ResultsFile(path, dataset.digest, workers)
    rows: list[StrategyRow] = []
    stopped: BudgetExceeded | None = None
    async with aclosing(baton):
        earlier = [file.results(name) for name in strategies]
        left = _budget(options.budget, [baton.orchestra.worker(name).card for name in workers])
        if left is not None:
            left -= sum(one.cost for results in earlier for one in results.values())
        for name, results in zip(strategies, earlier, strict=True):
            row = StrategyRow(name, [results[q.name] for q in questions if q.name in results])
            rows.append(row)
            rest = [question for question in questions if question.name not in results]
            try:
                async for one in _run(baton, name, rest, options.seed, left):
                    file.append(name, one)
                    row.results.append(one)
                    left = None if left is None else left - one.cost
                    show_progress(name, len(row.results), len(questions))
            except BudgetExceeded as error:
                stopped = BudgetExceeded(
                    f"Stopped at {len(row.results)} of {len(questions)} questions of {name}: "
                    f"{error.message} All results are kept in {path}.",
                    error.hint or "The same command continues once more may be spent (--budget).",
                )
                break
    if as_json:
        emit_document(
            dataset=dataset.name,
            sha256=dataset.digest,
            workers=workers,
            rows=[_row_object(row) for row in rows],
        )
    else:
        emit(format_columns([_COLUMNS, *map(_cells, rows)]))
        for remark in _remarks(rows):
            emit(remark)
    return 0 if stopped is None else report_error(stopped)


def _required_names(option: str, text: str | None, example: str) -> tuple[str, ...]:
    """Return the names that an option lists. Raises ConfigError for none."""
    if names := _split_names(text):
        return names
    raise ConfigError(f"--{option} is empty.", f"For example: --{option} {example}.")


def _compose_workers(names: Sequence[str]) -> tuple[tuple[str, ...], Baton]:
    """Return the ids of the named workers, and a Baton with them alone, the first as default."""
    from baton.compose import compose

    paths = find_paths()
    settings, ids = load_settings(paths.config_file), []
    for name in names:
        settings, known = add_named_worker(settings, name)
        ids.append(known or name)
    baton = compose(settings, paths, history=False, only=ids)
    baton.orchestra.configure(default=ids[0])
    return tuple(ids), baton


def _budget(typed: str | None, cards: Sequence[Card]) -> int | None:
    """Return what all questions may cost in nano-dollars, None where no worker costs anything.

    Raises ConfigError where that isn't set.
    """
    paid = [card.id for card in cards if not (card.price or FREE).is_free]
    if not paid:
        return None
    if typed is None:
        raise ConfigError(
            f"{paid[0]} costs money, and nothing was sent.",
            "Set what all questions and strategies may cost: --budget 0.50",
        )
    return parse_usd(typed)


def _run(
    baton: Baton, strategy: str, questions: Sequence[Question], seed: int | None, budget: int | None
) -> AsyncIterator[QuestionResult]:
    """Run questions by the user's workers. Raises BudgetExceeded where money doesn't last."""
    from baton.bench import code_executor, grader, run_questions
    from baton.core.permissions import PromptLimits

    orchestra = baton.orchestra
    has_python = any(card.is_tool and card.id == "python" for card in orchestra.roster)
    grade = grader(code_executor(orchestra.worker("python")) if has_python else None)
    limits = PromptLimits(seed=seed, attended=False, keep=False, strategy=strategy)
    return run_questions(orchestra, questions, limits, grade, budget)


_COLUMNS = ["strategy", "right", "95 %", "tokens", "dollars", "seconds", "calls", "local"]
"""Tokens, seconds and calls are per question, dollars for all."""


def _cells(row: StrategyRow) -> list[str]:
    low, high = row.interval
    return [
        one_line(row.name, 24),
        f"{row.accuracy * 100:.1f} %" if row.graded else "-",
        f"{low * 100:.1f}-{high * 100:.1f}" if row.graded else "-",
        f"{row.mean(lambda one: one.tokens_in + one.tokens_out):,.0f}",
        f"${row.cost / NANO:,.4f}" if row.cost else "$0",
        f"{row.mean(lambda one: one.seconds):.2f}",
        f"{row.mean(lambda one: one.calls):.2f}",
        f"{row.local_share * 100:.0f} %",
    ]


def _remarks(rows: Sequence[StrategyRow]) -> Iterator[str]:
    """Yield what the table doesn't show."""
    for row in rows:
        if missing := len(row.results) - len(row.graded):
            yield f"{row.name}: {missing} of {len(row.results)} could not be graded."
        if row.refused:
            yield f"{row.name}: {row.refused} times the ceiling forbade a call."


def _row_object(row: StrategyRow) -> dict[str, Any]:
    """Return a row as `--json` prints it; the names are fixed."""
    low, high = row.interval
    return {
        "strategy": row.name,
        "questions": len(row.results),
        "graded": len(row.graded),
        "accuracy": row.accuracy if row.graded else None,
        "low": low,
        "high": high,
        "tokens_in": sum(one.tokens_in for one in row.results),
        "tokens_out": sum(one.tokens_out for one in row.results),
        "cost_usd": format_usd(row.cost),
        "seconds": round(sum(one.seconds for one in row.results), 3),
        "calls_per_question": row.mean(lambda one: one.calls),
        "local_share": row.local_share,
        "refused": row.refused,
    }


# Conductors


TRAINED_NAME = "Baton's own"
"""The name of the trained conductor where workers are named by their ids."""


async def _compare_conductors(workers: str | None, limit: int | None, as_json: bool) -> int:
    """Have each conductor plan the episodes, show the table, and let the best one conduct.

    Raises ConfigError for a worker that isn't here, isn't local, or can't conduct.
    """
    from baton.bench import ConductorRow, draw_plans, read_episodes
    from baton.compose import compose
    from baton.core.catalogue_types import ModelRole

    paths = find_paths()
    settings = load_settings(paths.config_file)
    local = tuple(one for one in settings.workers if isinstance(one, LocalWorkerSettings))
    # They are compared also where the user wants no model to plan.
    alone = msgspec.structs.replace(settings, workers=local, conductor="", offline=True)
    every = read_episodes()
    episodes = every[:limit]
    rows: list[ConductorRow] = []
    failures: list[str] = []
    async with aclosing(compose(alone, paths, history=False)) as baton:
        for name in _candidates(baton, _split_names(workers)):
            plans = []
            try:
                async for one in draw_plans(baton.orchestra, name, episodes):
                    plans.append(one)
                    show_progress(name or TRAINED_NAME, len(plans), len(episodes))
                rows.append(ConductorRow(name, plans))
            except BatonError as error:
                failures.append(f"{name or TRAINED_NAME} could not be tried: {error.message}")
        now = settings.conductor
        best, verdict = _verdict(rows, now, is_whole=len(episodes) == len(every))
        if best != now:
            baton.assign(best, [ModelRole.CONDUCTOR])
    for failure in failures:
        notify(failure)
    if as_json:
        emit_document(
            status="finished" if rows else "failed",
            rows=[_conductor_object(row) for row in rows],
            conductor=best,
            changed=best != now,
            said=verdict,
            failures=failures,
        )
    elif rows:
        emit(format_columns([_CONDUCTOR_COLUMNS, *map(_conductor_cells, rows)]))
        emit(verdict)
    else:
        notify("No model here could draw plans.")
    return 0 if rows else 1


def _candidates(baton: Baton, named: Sequence[str]) -> list[str]:
    """Return who is compared: the trained conductor (""), then the named workers or all able ones.

    Raises ConfigError.
    """
    from baton.core.planning.conductor import can_conduct

    orchestra = baton.orchestra
    for name in named:
        if orchestra.worker(name).card.is_tool:
            raise ConfigError(f"{name} is a tool, and tools draw no plans.", "Name local models.")
    able = [c.id for c in orchestra.roster if not c.uses_gateway and can_conduct(c)]
    return [*([""] if orchestra.services.trained is not None else []), *(named or able)]


def _verdict(rows: Sequence[ConductorRow], now: str, *, is_whole: bool) -> tuple[str, str]:
    """Return who conducts from now on, and a sentence on why.

    It is whom the settings name (`now`), else who scored best; only a score above the trained
    conductor's, on all episodes, changes the settings.
    """
    trained = next((row for row in rows if not row.conductor), None)
    best = max((row for row in rows if row.conductor), key=lambda row: row.score, default=None)
    if best is None:
        return now, ""
    if trained is None:
        return now, "Baton's own conductor isn't here, so no setting is changed."
    name, text = "none", "No model plans better here than Baton's own conductor"
    if is_better := best.score > trained.score:
        name = one_line(best.conductor)
        figures = f"{best.score:.2f} against {trained.score:.2f}"
        text = f"{name} plans better here than Baton's own conductor ({figures})"
    if is_better and now == best.conductor:
        return now, f"{text}, and conducts already."
    if now:
        change = f"`baton models role conductor {name}` changes"
        return now, f"{text}; your setting `conductor` stays {one_line(now)}, which {change}."
    if not is_better:
        return now, f"{text}, which still plans."
    if not is_whole:
        return now, f"{text}; only all episodes, without --limit, change who plans."
    undo = "`baton models role conductor none` undoes that"
    return best.conductor, f"{text} and conducts from now on; {undo}."


_CONDUCTOR_COLUMNS = ["conductor", "score", "95 %", "seconds"]


def _conductor_cells(row: ConductorRow) -> list[str]:
    low, high = row.interval
    name = one_line(row.conductor, 24) or TRAINED_NAME
    return [name, f"{row.score:.2f}", f"{low:.2f}-{high:.2f}", f"{row.seconds:.2f}"]


def _conductor_object(row: ConductorRow) -> dict[str, Any]:
    """Return a row as `--json` prints it; the names are fixed."""
    low, high = row.interval
    return {
        "conductor": row.conductor or None,
        "episodes": len(row.plans),
        "score": row.score,
        "low": low,
        "high": high,
        "seconds": round(row.seconds, 3),
    }
