"""Strategies on recorded answers of real models, with play money: no model is loaded.

    replay.py FILE.csv.gz --workers gemma-2-9b-it,gpt-4o --cloud gpt-4o@2.50,10
    replay.py FILE.csv.gz --workers ... --cloud ... --strategy cascade,hybrid,route --at 5,10,20
    replay.py FILE.csv.gz --workers ... --cloud ... --router DIR --held-out SALT --svg curve.svg

The first worker answers unless a strategy says otherwise; --cloud gives the dollars per million
tokens of those that cost money. --at runs what spends again, for so many per cent of what it costs
to ask the dearest model always. Baton's own router may have been trained on the very questions:
--router DIR, as scripts/train_router --held-out SALT writes it, and --held-out SALT is the fair
test. Where money is short, the order of the questions decides which ones get it (--seed).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from plots import ALWAYS_PREFIX, ORACLE, draw_svg, format_markdown, make_plot
from recordings import Recordings, read_recordings, recorded_tokens
from replay_worker import ReplayWorker, recorded_card

from baton.bench.graded_questions import Question
from baton.bench.strategy_bench import (
    Grade,
    QuestionResult,
    StrategyRow,
    grader,
    run_questions,
)
from baton.core.errors import ConfigError
from baton.core.hold_decision import MAX_AMOUNT_NANOS
from baton.core.ledger_types import Policy, Scope, SpendingStyle
from baton.core.messages import Card
from baton.core.money import (
    FREE,
    NANO,
    BilledTokens,
    Price,
    Rates,
    parse_usd,
)
from baton.core.permissions import PromptLimits, RunTerms
from baton.core.ports import Router
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.core.spending.pace_controller import Pacing, UsageRate
from baton.core.view import RunView
from baton.history import Store
from baton.money import Ledger
from baton.routing import LearnedRouter, ScorerLimits, shipped_folder

RecordedModels = Mapping[str, Price | None]
"""The models to replay, in the order in which they are listed; remote ones with a price."""

REPLAYABLE_STRATEGIES = ("single", "hybrid", "route", "knn", "cascade", "majority", "smoothie")
"""The strategies that only ask what was recorded: the questions themselves, once of each model."""

SPENDING_STRATEGIES = ("hybrid", "route", "knn", "cascade")
"""Those of them that may ask a remote worker."""

_WARM_SECONDS, _COLD_SECONDS = 10.0, 120.0
"""How many seconds the router may take: here it doesn't matter, and the rule mustn't stand in."""


@dataclass(frozen=True, slots=True)
class ReplaySetup:
    """The recordings, which of their models take part, and who decides.

    The router stays open. The questions may cost up to `ceiling` in all.
    """

    recordings: Recordings
    models: RecordedModels
    router: Router
    ceiling: int | None = None


def recorded_cards(models: RecordedModels) -> list[Card]:
    """Return the cards of the models as they are replayed."""
    return [recorded_card(model, price) for model, price in models.items()]


class ReplayProgress:
    """How many of so many questions are done."""

    def __init__(self, count: int) -> None:
        self.done = 0
        self._count = count

    def __call__(self) -> float:
        """Return the share that is done, with the question that is at hand."""
        return (self.done + 1) / max(1, self._count)


@asynccontextmanager
async def replay_orchestra(
    table: ReplaySetup, progress: ReplayProgress
) -> AsyncIterator[Orchestra]:
    """Give an orchestra of recorded models that may spend up to a ceiling, without being asked.

    A ceiling is there to be used up by the last question. Nothing is kept.
    """
    ledger, store = Ledger(None), Store(None)
    ceilings = {Scope.MONTH: MAX_AMOUNT_NANOS if table.ceiling is None else table.ceiling}
    workers = {
        model: ReplayWorker(table.recordings, model, price) for model, price in table.models.items()
    }
    terms = RunTerms(ceilings, Policy.BUDGET)
    thrift = SpendingStyle.BALANCED if table.ceiling is None else SpendingStyle.BEST
    services = Services(
        workers,
        store,
        ledger,
        router=table.router,
        pacer=Pacing(thrift, rhythm=UsageRate(progress)),
    )
    try:
        yield Orchestra(services, next(iter(workers)), terms)
    finally:
        await ledger.aclose()
        await store.aclose()


def load_router(folder: Path) -> LearnedRouter:
    """Return the router in a folder. Raises ConfigError if it can't be used."""
    router = LearnedRouter(folder, limits=ScorerLimits(_WARM_SECONDS, _COLD_SECONDS, _COLD_SECONDS))

    def refuse(why: str) -> None:
        raise ConfigError(why, "Name a folder that scripts/train_router wrote: --router DIR")

    if router.warning:
        refuse(router.warning)
    router.on_warning = refuse
    return router


async def run_recorded(
    table: ReplaySetup, questions: Sequence[Question], strategy: str
) -> AsyncIterator[QuestionResult]:
    """Run questions by recorded models, within a ceiling.

    Where that forbids a call the strategy goes without: it is part of what is measured.
    """
    limits = PromptLimits(strategy=strategy, attended=False, keep=False)
    progress = ReplayProgress(len(questions))
    async with replay_orchestra(table, progress) as orchestra:
        grade = recorded_grader(table.recordings)
        async for result in run_questions(orchestra, questions, limits, grade):
            progress.done += 1
            yield result


def recorded_grader(recordings: Recordings) -> Grade:
    """Return what grades an answer as it was recorded, where it is one worker's own text."""
    by_text = grader()

    async def grade(question: Question, view: RunView) -> tuple[float | None, str]:
        recorded = recordings.answers.get(answer_author(view), {}).get(question.name)
        if view.status != "finished" or recorded is None or not view.answer.strip():
            return await by_text(question, view)
        # A recording whose end a cap cut off says nothing any more.
        return (0.0, "The answer was cut at its cap.") if view.is_cut else (recorded.score, "")

    return grade


def answer_author(view: RunView) -> str:
    """Return whose own text the answer is, or ""."""
    answer = view.plan.answer if view.plan is not None else ()
    return view.steps[answer[0] - 1].worker if len(answer) == 1 else ""


# What recordings show without any strategy


def baseline_rows(
    recordings: Recordings, questions: Sequence[Question], cards: Sequence[Card]
) -> list[StrategyRow]:
    """Return the rows of these workers from the recordings: each alone, and the oracle."""
    by_card = {
        card.id: [_recorded_result(recordings, question, card) for question in questions]
        for card in cards
    }
    best = [
        max(same, key=lambda one: (one.score or 0.0, -one.cost))
        for same in zip(*by_card.values(), strict=True)
    ]
    alone = [StrategyRow(ALWAYS_PREFIX + name, results) for name, results in by_card.items()]
    return [*alone, StrategyRow(ORACLE, best)]


def _recorded_result(recordings: Recordings, question: Question, card: Card) -> QuestionResult:
    recorded = recordings.answers[card.id][question.name]
    read = recorded_tokens(card.system) + recorded_tokens(question.prompt)
    cost = (card.price or FREE).cost(BilledTokens(read, recorded.tokens))
    return QuestionResult(
        question.name, recorded.score, read, recorded.tokens, cost, 0.0, 1, int(card.remote)
    )


# The command


async def replay(args: argparse.Namespace) -> list[StrategyRow]:
    """Return the rows of the models alone, and of each strategy. Raises ConfigError."""
    recordings = read_recordings(args.file)
    questions = list(recordings.questions)
    if args.seed is not None:
        random.Random(args.seed).shuffle(questions)
    if args.held_out is not None:
        questions = [one for one in questions if recordings.is_held_out(one, args.held_out)]
    questions = questions[: args.limit]
    prices = dict(map(_named_price, args.cloud))
    models = {name: prices.get(name) for name in args.workers.split(",")}
    if unknown := ({*models} | {*prices}) - recordings.answers.keys():
        raise ConfigError(f"{args.file} holds no answers of {', '.join(sorted(unknown))}.")
    strategies = args.strategy.split(",")
    if fresh := set(strategies) - set(REPLAYABLE_STRATEGIES):
        raise ConfigError(f"These need fresh texts: {', '.join(sorted(fresh))}.")
    rows = baseline_rows(recordings, questions, recorded_cards(models))
    always = max(row.cost for row in rows)
    budget = None if args.budget is None else parse_usd(args.budget)
    shares = [int(share.strip(" %")) for share in args.at.split(",") if share]
    router = load_router(args.router)
    try:
        for name in strategies:
            ceilings = {name: budget}
            if name in SPENDING_STRATEGIES:
                ceilings |= {f"{name}, {share} %": always * share // 100 for share in shares}
            for title, ceiling in ceilings.items():
                table = ReplaySetup(recordings, models, router, ceiling)
                results = [one async for one in run_recorded(table, questions, name)]
                rows.append(StrategyRow(title, results))
    finally:
        await router.aclose()
    return rows


def _named_price(text: str) -> tuple[str, Price]:
    """Return the model and the price in NAME@IN,OUT."""
    name, _, rates = text.rpartition("@")
    read, written = (int(float(rate) * NANO) for rate in rates.split(","))
    return name, Price(Rates(read, written, read, read))


def main() -> None:
    """Read what was typed, replay, and print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("file", type=Path)
    parser.add_argument("--workers", required=True, metavar="X,Y")
    parser.add_argument("--cloud", action="append", default=[], metavar="NAME@IN,OUT")
    parser.add_argument("--strategy", default="single,hybrid", metavar="A,B")
    parser.add_argument("--budget", metavar="USD", help="what a strategy may cost")
    parser.add_argument("--at", default="", metavar="P,Q", help="again for so many per cent")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N questions")
    parser.add_argument("--seed", type=int, metavar="N", help="shuffle the questions")
    parser.add_argument("--router", type=Path, default=shipped_folder(), metavar="DIR")
    parser.add_argument("--held-out", metavar="SALT", help="only questions held out by that salt")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw a plot as well")
    args = parser.parse_args()
    rows = asyncio.run(replay(args))
    print(format_markdown(rows))
    if args.svg is not None:
        args.svg.write_text(draw_svg(make_plot(args.file.name, rows)), encoding="utf-8")


_Raw = argparse.RawDescriptionHelpFormatter


if __name__ == "__main__":
    main()
