"""Recorded models with play money: what `baton bench` does with their answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from baton.bench.strategy_bench import PlayedQuestion, StrategyRow, baseline_rows
from baton.cli.bench.base_bench import Bench, Options, Round, listed
from baton.core.errors import ConfigError
from baton.core.money import Price

if TYPE_CHECKING:
    from baton.cli.bench.replay_orchestra import Recordings
    from baton.core.plan.answer_grades import Dataset, Question


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
        from baton.routing import shipped_folder

        self._router = options.router or shipped_folder()
        self._terms = [*prices, f"router {_digest(self._router)}"]
        self._parts = _parts(options)

    @property
    def rounds(self) -> Sequence[Round]:
        """Each strategy, then those that spend with a part of the money, if that is wanted."""
        from baton.cli.bench.replay_orchestra import SPENDING

        always = max((row.cost for row in self.baselines()), default=0)
        return [
            Round(f"{name}, {part} %" if part else name, name, ceiling)
            for name in self.options.strategies
            for part in (0, *self._parts)
            if not part or name in SPENDING
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
        from baton.cli.bench.replay_orchestra import Table, replay

        table = Table(self.dataset, self.models, self._router, one.ceiling)
        return replay(table, questions, one.strategy, before)

    def baselines(self) -> Sequence[StrategyRow]:
        """Return what each model reaches alone, and the oracle."""
        from baton.cli.bench.replay_orchestra import cards

        return baseline_rows(self.dataset, self.questions, cards(self.models))

    def remarks(self, rows: Sequence[StrategyRow]) -> Sequence[str]:
        """Say which router decided, and what recordings can't show."""
        told = ["The answers are replayed, so seconds are Baton's own."]
        played = {row.name.partition(",")[0] for row in rows if not row.baseline}
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
    from baton.cli.bench.replay_orchestra import REPLAYABLE

    if fresh := [name for name in strategies if name not in REPLAYABLE]:
        raise ConfigError(
            f"{fresh[0]} needs fresh texts, which recordings don't hold.",
            f"Replay some of: {', '.join(REPLAYABLE)}.",
        )


def _parts(options: Options) -> tuple[int, ...]:
    """Return the parts of the money that --at names, in per cent. Raises ConfigError."""
    if options.at is None:
        return ()
    try:
        parts = tuple(int(part.strip(" %")) for part in listed(options.at))
    except ValueError:
        parts = ()
    if not parts or not all(0 < part <= 100 for part in parts):
        raise ConfigError(f"--at {options.at!r} holds no per cents.", "Write --at 5,10,20.")
    if options.budget is not None:
        raise ConfigError("--at and --budget both say what it may cost.", "Leave one away.")
    return parts


def _digest(folder: Path) -> str:
    """Return what changes with a trained router."""
    import hashlib

    try:
        heads = b"".join(file.read_bytes() for file in sorted(folder.glob("heads.*")))
    except OSError as error:
        told = f"{folder} can't be read: {error.strerror}."
        raise ConfigError(told, "Check --router.") from error
    return hashlib.sha256(heads).hexdigest()[:12]


def _priced(text: str) -> tuple[str, Price]:
    """Return the model and the price that --cloud names. Raises ConfigError."""
    from baton.platform.settings import PriceSettings
    from baton.workers.cloud.price_table import price_of, snapshot

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
