"""The person's own workers on questions: what `baton bench` does for real money."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Self

from baton.bench import Grader, PlayedQuestion, play_all
from baton.cli.bench.base_bench import Bench, BenchOptions, Round
from baton.cli.output import confirm_or_exit, notify, require_terminal
from baton.core.errors import ConfigError
from baton.core.messages import Message, Purpose, Request, Role, Text, estimated_tokens, fenced
from baton.core.money import FREE, NANO, BilledTokens, show_usd

if TYPE_CHECKING:
    from baton.bench import Execute
    from baton.compose import Baton
    from baton.core.messages import Card
    from baton.core.plan.answer_grades import Dataset, Question
    from baton.core.ports import Worker

_SINGLE_CALL_STRATEGIES = ("single", "majority", "smoothie", "cascade", "hybrid", "route", "knn")
_CALLS_PER_QUESTION = {
    **dict.fromkeys(_SINGLE_CALL_STRATEGIES, 1),
    "moa": 2,
    "reflect": 3,
    "vote": 5,
}
_DEFAULT_CALLS = 6
"""How many calls of a paid worker a question may take, about; so many for strategies that plan."""

_ASSUMED_TOKENS = 500
"""How long an answer is taken to be before anything is known."""


class LiveBench(Bench):
    """The person's own workers, for real money where they cost any."""

    def __init__(self, options: BenchOptions, dataset: Dataset) -> None:
        super().__init__(options, dataset)
        if options.cloud:
            raise ConfigError(
                f"{dataset.name} holds no recorded answers, which --cloud is about.",
                "Name your own cloud workers in --workers.",
            )
        if options.router is not None or options.at is not None:
            raise ConfigError(
                "--router and --at are for recordings.", "Your own router decides, for real money."
            )
        self._baton: Baton | None = None
        self._spent = 0

    async def __aenter__(self) -> Self:
        """Put the workers together, once the person agreed to what it may cost."""
        from baton.cli.options import add_named_worker
        from baton.compose import compose
        from baton.platform.settings import find_paths, load_settings

        paths = find_paths()
        settings, ids = load_settings(paths.config_file), []
        for name in self.workers:
            settings, known = add_named_worker(settings, name)
            ids.append(known or name)
        self.workers = tuple(ids)
        known_ids = {entry.id for entry in settings.roster}
        if strangers := [name for name in ids if name not in known_ids]:
            raise ConfigError(
                f"There is no worker {strangers[0]!r}.", f"Known: {', '.join(sorted(known_ids))}."
            )
        self._baton = baton = compose(settings, paths, history=False, only=ids)
        baton.orchestra.configure(default=ids[0])
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
        """Show the likely cost and have the person agree; ConfigError without a terminal."""
        before = {one.strategy: self.done(one) for one in self.rounds}
        self._spent = sum(one.cost for played in before.values() for one in played)
        estimate = sum(
            self._estimate(name, cards, {one.question for one in played})
            for name, played in before.items()
        )
        if all((card.price or FREE).is_free for card in cards):
            self.budget = None
            return
        notify(f"This may cost about {show_usd(estimate)}.")
        if self.budget is not None:
            left = max(0, self.budget - self._spent)
            return notify(f"It stops at its budget, which has {show_usd(left)} left.")
        cent = NANO // 100
        most = -(-2 * estimate // cent) * cent
        hint = f"Say what it may cost: --budget {most / NANO:.2f}"
        require_terminal("Nothing was sent", hint)
        confirm_or_exit(f"Go on, and stop at {show_usd(most)}?")
        self.budget = self._spent + most

    def _estimate(self, strategy: str, cards: Sequence[Card], done: set[str]) -> int:
        """Return what the questions that are left may cost, about."""
        asked = cards[:1] if strategy == "single" else cards
        prices = [card.price or FREE for card in asked if not card.is_free]
        calls = _CALLS_PER_QUESTION.get(strategy, _DEFAULT_CALLS)
        total = 0
        for question in self.questions:
            if question.id not in done:
                used = BilledTokens(estimated_tokens(question.prompt) + 50, _ASSUMED_TOKENS)
                total += calls * max((price.cost(used) for price in prices), default=0)
        return total

    async def play(
        self, one: Round, questions: Sequence[Question], before: Sequence[PlayedQuestion]
    ) -> AsyncIterator[PlayedQuestion]:
        """Play questions by the person's workers, for what is left of the budget."""
        from baton.core.permissions import PromptLimits

        assert self._baton is not None
        orchestra = self._baton.orchestra
        left = None if self.budget is None else self.budget - self._spent
        limits = PromptLimits(
            seed=self.options.seed, attended=False, keep=False, strategy=one.strategy
        )
        tools = {card.id for card in orchestra.roster if card.is_tool}
        execute = code_executor(orchestra.worker("python")) if "python" in tools else None
        grader = Grader(execute=execute)
        async for played in play_all(orchestra, questions, limits, grader, left):
            self._spent += played.cost
            yield played


def code_executor(tool: Worker) -> Execute:
    """Return what executes code and its tests by that tool."""

    async def execute(code: str, tests: str) -> str:
        parts = (("python", code), ("python-tests", tests))
        text = "\n\n".join(fenced(part).replace("\n", f"{name}\n", 1) for name, part in parts)
        request = Request((Message(Role.USER, text),), Purpose.VERIFY)
        pieces = [chunk.text async for chunk in tool.stream(request) if isinstance(chunk, Text)]
        return "".join(pieces)

    return execute
