"""What `baton bench` plays: recorded models with play money, or the person's own workers."""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from baton.adapters.results import Results, Setting
from baton.cli.output import talk
from baton.domain.chat import Message, Purpose, Request, Role, Text, about_tokens, fenced
from baton.domain.errors import BudgetExceeded, ConfigError
from baton.domain.money import NANO, parse_usd, show_usd
from baton.domain.prices import FREE, Price, Used
from baton.engine.bench import Grader, Played, Row, baselines, play_all

if TYPE_CHECKING:
    from baton.cli.replaying import Recordings
    from baton.compose import Baton
    from baton.domain.chat import Card
    from baton.domain.grading import Dataset, Question
    from baton.engine.bench import Execute
    from baton.engine.ports import Worker

_ONCE = ("single", "majority", "smoothie", "cascade", "hybrid", "route", "knn")
_CALLS = {**dict.fromkeys(_ONCE, 1), "moa": 2, "reflect": 3, "vote": 5}
_MANY = 6
"""How many calls of a paid worker a question may take, about; so many for strategies that plan."""

_TOKENS = 500
"""How long an answer is taken to be before anything is known."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was typed, as click hands it over."""

    strategy: str
    workers: str
    cloud: tuple[str, ...] = ()
    budget: str | None = None
    limit: int | None = None
    seed: int | None = None
    out: Path | None = None
    router: Path | None = None
    held_out: str | None = None

    @property
    def strategies(self) -> tuple[str, ...]:
        """The names of the strategies."""
        return _listed(self.strategy)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))


class Bench:
    """A dataset being played: what is there already is not played again."""

    terms = ""

    def __init__(self, options: Options, dataset: Dataset) -> None:
        self.options = options
        self.dataset = dataset
        self.workers = _listed(options.workers)
        self.results = Results(options.out or Path(f"{dataset.name}.results.jsonl"))
        questions = list(dataset.questions)
        if options.seed is not None:
            random.Random(options.seed).shuffle(questions)
        if options.held_out is not None:
            questions = _held_out(questions, options.held_out)
        self.questions: Sequence[Question] = questions[: options.limit]
        self.budget = None if options.budget is None else parse_usd(options.budget)

    def setting(self, strategy: str) -> Setting:
        """Return what results of a strategy belong to."""
        return Setting(self.dataset.name, self.dataset.digest, strategy, self.workers, self.terms)

    def done(self, strategy: str) -> list[Played]:
        """Return what is there already of the questions, in the file's order."""
        wanted = {question.id for question in self.questions}
        found = self.results.of(self.setting(strategy))
        return [played for name, played in found.items() if name in wanted]

    async def go_on(self, strategy: str) -> AsyncIterator[Played]:
        """Give what was played before, then play the rest and keep it."""
        before = self.done(strategy)
        for played in before:
            yield played
        known = {played.question for played in before}
        rest = [question for question in self.questions if question.id not in known]
        if rest:
            setting = self.setting(strategy)
            async for played in self.play(strategy, rest, before):
                self.results.add(setting, played)
                yield played

    def play(
        self, strategy: str, questions: Sequence[Question], before: Sequence[Played]
    ) -> AsyncIterator[Played]:
        """Play questions. Raises BudgetExceeded where money doesn't last."""
        raise NotImplementedError

    def baselines(self) -> Sequence[Row]:
        """Return what is known without playing."""
        return ()

    def remarks(self, rows: Sequence[Row]) -> Sequence[str]:
        """Return what is to be said besides the figures."""
        return ()

    def explained(self, error: BudgetExceeded, strategy: str, done: int) -> BudgetExceeded:
        """Say where the bench stopped, and what to do."""
        return BudgetExceeded(
            f"Stopped at {done} of {len(self.questions)} questions of {strategy}: {error.message} "
            f"All results are kept in {self.results.path}.",
            "The same command goes on from there once more may be spent (--budget).",
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def _held_out(questions: Sequence[Question], salt: str) -> list[Question]:
    """Return the questions that a router trained with that salt never saw. Raises ConfigError."""
    from baton.domain.grading import is_held_out

    if not all(question.key for question in questions):
        raise ConfigError(
            "It can't be told which questions a router was trained on: they have no `qhash`.",
            "Leave --held-out away.",
        )
    if found := [question for question in questions if is_held_out(question, salt)]:
        return found
    raise ConfigError("No question is left.", "Name another salt, or leave --held-out away.")


class Replay(Bench):
    """Recorded models: money is play money, and a ceiling is part of what is measured."""

    def __init__(self, options: Options, dataset: Dataset) -> None:
        super().__init__(options, dataset)
        _refuse_fresh(options.strategies)
        for name in self.workers:
            if name not in dataset.recorded:
                raise ConfigError(
                    f"{dataset.name} holds no answers of {name!r}.",
                    f"It holds those of: {', '.join(dataset.recorded)}.",
                )
        paid = dict(_priced(text) for text in options.cloud)
        if strangers := [name for name in paid if name not in self.workers]:
            raise ConfigError(f"{strangers[0]!r} is not among the workers.", "Add it to --workers.")
        self.models: Recordings = {name: paid.get(name) for name in self.workers}
        rates = [(name, price.rates) for name, price in sorted(paid.items())]
        prices = [f"{name}@{rate.input},{rate.output}" for name, rate in rates]
        # Where money is short, the order of the questions decides which ones get it.
        order = [] if self.budget is None else [f"budget {self.budget}", f"seed {options.seed}"]
        from baton.adapters.router import shipped

        self._router = options.router or shipped()
        mind = [f"router {_digest(self._router)}"]
        self.terms = "; ".join([*prices, *order, *mind])

    def play(
        self, strategy: str, questions: Sequence[Question], before: Sequence[Played]
    ) -> AsyncIterator[Played]:
        """Play questions by recorded models."""
        from baton.cli.replaying import Table, replay

        table = Table(self.dataset, self.models, self._router, self.budget)
        return replay(table, questions, strategy, before)

    def baselines(self) -> Sequence[Row]:
        """Return what each model reaches alone, and the oracle."""
        from baton.cli.replaying import cards

        return baselines(self.dataset, self.questions, cards(self.models))

    def remarks(self, rows: Sequence[Row]) -> Sequence[str]:
        """Say which router decided, and what recordings can't show."""
        told = ["The answers are replayed, so seconds are Baton's own."]
        played = {row.name for row in rows if not row.baseline}
        if played & {"hybrid", "route", "knn", "smoothie"}:
            told.append(self._about_router())
        if "smoothie" in played:
            told.append("smoothie compared short answers: recordings hold no more of the texts.")
        return told

    def _about_router(self) -> str:
        if self.options.router is None:
            return (
                "Baton's own router decided, which may have been trained on these very questions: "
                "--router DIR --held-out SALT is the fair test."
            )
        if self.options.held_out is None:
            return f"The router in {self._router} decided; whether it knew these is for you to say."
        return f"The router in {self._router} decided, of questions held out by that salt."


def _refuse_fresh(strategies: Sequence[str]) -> None:
    """Refuse strategies for which the recordings hold nothing. Raises ConfigError."""
    from baton.cli.replaying import REPLAYABLE

    if fresh := [name for name in strategies if name not in REPLAYABLE]:
        raise ConfigError(
            f"{fresh[0]} needs fresh texts, which recordings don't hold.",
            f"Replay some of: {', '.join(REPLAYABLE)}.",
        )


def _digest(folder: Path) -> str:
    """Return what changes with a trained router."""
    import hashlib

    try:
        heads = b"".join(file.read_bytes() for file in sorted(folder.glob("heads.*")))
    except OSError as error:
        told = f"{folder} can't be read: {error.strerror}."
        raise ConfigError(told, "Check --router.") from error
    return hashlib.sha256(heads).hexdigest()[:12]


class Live(Bench):
    """The person's own workers, for real money where they cost any."""

    def __init__(self, options: Options, dataset: Dataset) -> None:
        super().__init__(options, dataset)
        if options.cloud:
            raise ConfigError(
                f"{dataset.name} holds no recorded answers, which --cloud is about.",
                "Name your own cloud workers in --workers.",
            )
        if options.router is not None:
            raise ConfigError("--router is for recordings.", "Your own router decides here.")
        self._baton: Baton | None = None
        self._spent = 0

    async def __aenter__(self) -> Self:
        """Put the workers together, once the person agreed to what it may cost."""
        from baton.cli.options import with_worker
        from baton.compose import compose
        from baton.settings import find_paths, load

        paths = find_paths()
        settings, ids = load(paths.config_file), []
        for name in self.workers:
            settings, known = with_worker(settings, name)
            ids.append(known or name)
        self.workers = tuple(ids)
        known_ids = {entry.id for entry in settings.roster}
        if strangers := [name for name in ids if name not in known_ids]:
            raise ConfigError(
                f"There is no worker {strangers[0]!r}.", f"Known: {', '.join(sorted(known_ids))}."
            )
        self._baton = baton = compose(settings, paths, history=False, only=ids)
        baton.orchestra.default = ids[0]
        try:
            self._agree([baton.orchestra.worker(name).card for name in ids])
        except BaseException:
            await baton.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._baton is not None
        await self._baton.aclose()

    def _agree(self, cards: Sequence[Card]) -> None:
        """Tell what it may cost, and have the person agree. Raises ConfigError if nobody can."""
        before = {name: self.done(name) for name in self.options.strategies}
        self._spent = sum(one.cost for played in before.values() for one in played)
        estimate = sum(
            self._estimate(name, cards, {one.question for one in played})
            for name, played in before.items()
        )
        if all((card.price or FREE).is_free for card in cards):
            self.budget = None
            return
        talk(f"This may cost about {show_usd(estimate)}.")
        if self.budget is not None:
            left = max(0, self.budget - self._spent)
            return talk(f"It stops at its budget, which has {show_usd(left)} left.")
        cent = NANO // 100
        most = -(-2 * estimate // cent) * cent
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise ConfigError(
                "Nothing was sent: there is nobody to ask.",
                f"Say what it may cost: --budget {most / NANO:.2f}",
            )
        if not click.confirm(f"Go on, and stop at {show_usd(most)}?", default=False, err=True):
            raise click.exceptions.Exit(1)
        self.budget = self._spent + most

    def _estimate(self, strategy: str, cards: Sequence[Card], done: set[str]) -> int:
        """Return what the questions that are left may cost, about."""
        asked = cards[:1] if strategy == "single" else cards
        prices = [card.price or FREE for card in asked if card.is_outside]
        calls = _CALLS.get(strategy, _MANY)
        total = 0
        for question in self.questions:
            if question.id not in done:
                used = Used(about_tokens(question.prompt) + 50, _TOKENS)
                total += calls * max((price.cost(used) for price in prices), default=0)
        return total

    async def play(
        self, strategy: str, questions: Sequence[Question], before: Sequence[Played]
    ) -> AsyncIterator[Played]:
        """Play questions by the person's workers, for what is left of the budget."""
        from baton.engine.policy import Limits

        assert self._baton is not None
        orchestra = self._baton.orchestra
        left = None if self.budget is None else self.budget - self._spent
        limits = Limits(seed=self.options.seed, attended=False, keep=False, strategy=strategy)
        tools = {card.id for card in orchestra.roster if card.is_tool}
        execute = _sandbox(orchestra.worker("python")) if "python" in tools else None
        grader = Grader(execute=execute)
        async for played in play_all(orchestra, questions, limits, grader, left):
            self._spent += played.cost
            yield played


def _sandbox(tool: Worker) -> Execute:
    """Return what executes code by that tool."""

    async def execute(code: str) -> str:
        block = fenced(code).replace("\n", "python\n", 1)
        request = Request((Message(Role.USER, block),), Purpose.VERIFY)
        pieces = [chunk.text async for chunk in tool.stream(request) if isinstance(chunk, Text)]
        return "".join(pieces)

    return execute


def _priced(text: str) -> tuple[str, Price]:
    """Return the model and the price that --cloud names. Raises ConfigError."""
    from baton.adapters.prices import price_of, snapshot
    from baton.settings import PriceSettings

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
