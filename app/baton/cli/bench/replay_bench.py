"""Recorded models with play money: what `baton bench` does with their answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from baton.bench import (
    Grader,
    PlayedQuestion,
    ReplayWorker,
    StrategyRow,
    baseline_rows,
    play_all,
    recorded_card,
)
from baton.cli.bench.base_bench import Bench, BenchOptions, Round, split_names
from baton.core.errors import ConfigError
from baton.core.hold_decision import MAX_AMOUNT_NANOS
from baton.core.ledger_types import HoldRequest, Policy, Scope, SpendingStyle
from baton.core.messages import Card, Purpose
from baton.core.money import TOKENS_PER_RATE, BilledTokens, Price, Rates
from baton.core.permissions import PromptLimits, RunTerms
from baton.core.plan.answer_grades import Dataset, Question
from baton.core.ports import Router
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.core.spending.pace_controller import Pacing
from baton.core.spending.usage_rate import UsageRate
from baton.history import Store
from baton.money import Ledger

if TYPE_CHECKING:
    from baton.routing import LearnedRouter


class ReplayBench(Bench):
    """Recorded models: money is play money, and a ceiling is part of what is measured."""

    def __init__(self, options: BenchOptions, dataset: Dataset) -> None:
        super().__init__(options, dataset)
        _refuse_unrecorded(options.strategies)
        for name in self.workers:
            if name not in dataset.recorded:
                raise ConfigError(
                    f"{dataset.name} holds no answers of {name!r}.",
                    f"It holds those of: {', '.join(dataset.recorded)}.",
                )
        paid = dict(_parse_price(text) for text in options.cloud)
        if strangers := [name for name in paid if name not in self.workers]:
            raise ConfigError(f"{strangers[0]!r} is not among the workers.", "Add it to --workers.")
        self.models: RecordedModels = {name: paid.get(name) for name in self.workers}
        rates = [(name, price.rates) for name, price in sorted(paid.items())]
        prices = [f"{name}@{rate.input},{rate.output}" for name, rate in rates]
        from baton.routing import shipped_folder

        self._folder = options.router or shipped_folder()
        self._terms = [*prices, f"router {_router_digest(self._folder)}"]
        self._router = load_router(self._folder)
        self._parts = _budget_shares(options)

    @property
    def rounds(self) -> Sequence[Round]:
        """Each strategy, then those that spend with a part of the money, if that is wanted."""
        always = max((row.cost for row in self.baselines()), default=0)
        return [
            Round(f"{name}, {part} %" if part else name, name, ceiling)
            for name in self.options.strategies
            for part in (0, *self._parts)
            if not part or name in SPENDING_STRATEGIES
            for ceiling in [always * part // 100 if part else self.budget]
        ]

    def terms(self, one: Round) -> str:
        """Return prices and router; the ceiling too, and the order in which it is spent."""
        # Where money is short, the order of the questions decides which ones get it.
        short = one.ceiling is not None
        order = [f"budget {one.ceiling}", f"seed {self.options.seed}"] if short else []
        return "; ".join([*self._terms, *order])

    def play(
        self, one: Round, questions: Sequence[Question], before: Sequence[PlayedQuestion]
    ) -> AsyncIterator[PlayedQuestion]:
        """Play questions by recorded models."""
        table = ReplaySetup(self.dataset, self.models, self._router, one.ceiling)
        return play_recorded(table, questions, one.strategy, before)

    async def __aexit__(self, *_: object) -> None:
        await self._router.aclose()

    def baselines(self) -> Sequence[StrategyRow]:
        """Return what each model reaches alone, and the oracle."""
        return baseline_rows(self.dataset, self.questions, recorded_cards(self.models))

    def remarks(self, rows: Sequence[StrategyRow]) -> Sequence[str]:
        """Say which router decided, and what recordings can't show."""
        lines = ["The answers are replayed, so seconds are Baton's own."]
        played = {row.name.partition(",")[0] for row in rows if not row.baseline}
        if played & {"hybrid", "route", "knn", "smoothie"}:
            lines.append(self._about_router())
        if "smoothie" in played:
            lines.append("smoothie compared short answers: recordings hold no more of the texts.")
        return lines

    def _about_router(self) -> str:
        if self.options.router is None:
            return (
                "Baton's own router decided, which may have been trained on these very questions: "
                "--router DIR --held-out SALT is the fair test."
            )
        if self.options.held_out is None:
            return f"The router in {self._folder} decided; whether it knew these is for you to say."
        return f"The router in {self._folder} decided, of questions held out by that salt."


def _refuse_unrecorded(strategies: Sequence[str]) -> None:
    """Refuse strategies for which the recordings hold nothing. Raises ConfigError."""
    if fresh := [name for name in strategies if name not in REPLAYABLE_STRATEGIES]:
        raise ConfigError(
            f"{fresh[0]} needs fresh texts, which recordings don't hold.",
            f"Replay some of: {', '.join(REPLAYABLE_STRATEGIES)}.",
        )


def _budget_shares(options: BenchOptions) -> tuple[int, ...]:
    """Return the parts of the money that --at names, in per cent. Raises ConfigError."""
    if options.at is None:
        return ()
    try:
        parts = tuple(int(part.strip(" %")) for part in split_names(options.at))
    except ValueError:
        parts = ()
    if not parts or not all(0 < part <= 100 for part in parts):
        raise ConfigError(f"--at {options.at!r} holds no per cents.", "Write --at 5,10,20.")
    if options.budget is not None:
        raise ConfigError("--at and --budget both say what it may cost.", "Leave one away.")
    return parts


def _router_digest(folder: Path) -> str:
    """Return what changes with a trained router."""
    import hashlib

    try:
        heads = b"".join(file.read_bytes() for file in sorted(folder.glob("heads.*")))
    except OSError as error:
        message = f"{folder} can't be read: {error.strerror}."
        raise ConfigError(message, "Check --router.") from error
    return hashlib.sha256(heads).hexdigest()[:12]


def _parse_price(text: str) -> tuple[str, Price]:
    """Return the model and the price that --cloud names. Raises ConfigError."""
    from baton.platform.settings import PriceSettings
    from baton.workers.cloud import price_of, snapshot

    name, at, rates = text.rpartition("@")
    if at and "," in rates:
        read, _, written = rates.partition(",")
        price = price_of("", PriceSettings(read.strip(), written.strip()))
    else:
        name = text
        listed = (model for model in snapshot().models if model.partition("/")[2] == name)
        price = next((found for model in listed if (found := price_of(model))), None)
    if price is None:
        raise ConfigError(
            f"The price of {name} is not known.",
            f"Give it in dollars per million tokens: --cloud {name}@IN,OUT",
        )
    return name, price


RecordedModels = Mapping[str, Price | None]
"""The models to replay, in the order in which they are listed; remote ones with a price."""

REPLAYABLE_STRATEGIES = ("single", "hybrid", "route", "knn", "cascade", "majority", "smoothie")
"""The strategies that only ask what was recorded: the questions themselves, once of each model."""

SPENDING_STRATEGIES = ("hybrid", "route", "knn", "cascade")
"""Those of them that may ask a remote worker."""

_WARM_SECONDS, _COLD_SECONDS = 10.0, 120.0
"""How many seconds the router may take: here it is no matter, and the rule mustn't stand in."""


@dataclass(frozen=True, slots=True)
class ReplaySetup:
    """What is played with: the recordings, who of them takes part, and who decides.

    The router stays open. The questions may cost up to `ceiling` in all.
    """

    dataset: Dataset
    models: RecordedModels
    router: Router
    ceiling: int | None = None


def recorded_cards(models: RecordedModels) -> list[Card]:
    """Return the cards of the models as they are replayed."""
    return [recorded_card(model, price) for model, price in models.items()]


class ReplayProgress:
    """How many of so many questions are done."""

    def __init__(self, count: int, done: int = 0) -> None:
        self.done = done
        self._count = count

    def __call__(self) -> float:
        """Return the share that is done, with the question that is at hand."""
        return (self.done + 1) / max(1, self._count)


@asynccontextmanager
async def replay_orchestra(
    table: ReplaySetup, progress: ReplayProgress, spent: int = 0
) -> AsyncIterator[Orchestra]:
    """Give an orchestra of recorded models that may spend up to a ceiling, without being asked.

    `spent` counts against it already. A ceiling is there to be used up by the last question.
    Nothing is kept.
    """
    ledger, store = Ledger.open(None), Store.open(None)
    ceilings = {Scope.MONTH: MAX_AMOUNT_NANOS if table.ceiling is None else table.ceiling}
    workers = {
        model: ReplayWorker(table.dataset, model, price) for model, price in table.models.items()
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
        if spent:
            await _book_spent(ledger, spent)
        yield Orchestra(services, next(iter(workers)), terms)
    finally:
        await ledger.aclose()
        await store.aclose()


def load_router(folder: Path) -> LearnedRouter:
    """Return the router in a folder. Raises ConfigError if it can't be used."""
    from baton.routing import LearnedRouter, ScorerLimits

    router = LearnedRouter(folder, limits=ScorerLimits(_WARM_SECONDS, _COLD_SECONDS, _COLD_SECONDS))

    def refuse(why: str) -> None:
        raise ConfigError(why, "Name a folder that scripts/train_router wrote: --router DIR")

    if router.warning:
        refuse(router.warning)
    router.on_warning = refuse
    return router


async def _book_spent(ledger: Ledger, amount: int) -> None:
    """Charge an amount that an earlier replay spent."""
    one = TOKENS_PER_RATE  # a nano-dollar for each token
    bill = HoldRequest(
        "", "", "earlier", "replay", "earlier", Purpose.ANSWER, Price(Rates(one, one, one, one)),
        amount, 0, {Scope.MONTH: MAX_AMOUNT_NANOS},
    )  # fmt: skip
    hold = await ledger.hold(bill)
    await ledger.settle(hold.call, BilledTokens(amount, 0))


async def play_recorded(
    table: ReplaySetup,
    questions: Sequence[Question],
    strategy: str,
    before: Sequence[PlayedQuestion] = (),
) -> AsyncIterator[PlayedQuestion]:
    """Play questions by recorded models, within a ceiling of which some is spent already.

    Where that forbids a call the strategy goes on without: it is part of what is measured.
    """
    spent = sum(one.cost for one in before)
    limits = PromptLimits(strategy=strategy, attended=False, keep=False)
    progress = ReplayProgress(len(before) + len(questions), len(before))
    async with replay_orchestra(table, progress, spent) as orchestra:
        grader = Grader(table.dataset.recorded)
        async for played in play_all(orchestra, questions, limits, grader):
            progress.done += 1
            yield played
