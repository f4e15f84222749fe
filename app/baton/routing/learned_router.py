"""The trained router: it asks the scorer process, and falls back on the rule; its speed.

What is sent is cut to size, and what comes back is validated: a child is as trustworthy as the
files it reads, so an invalid answer counts as a crash.
"""

from __future__ import annotations

import math
import os
import time
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from baton.core.errors import WorkerUnavailable
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.messages import Card
from baton.core.plan_types import KINDS, Material
from baton.core.planning.skill_estimates import parameter_billions
from baton.core.planning.turn_roles import TurnRole
from baton.core.ports import Route
from baton.core.reading.follow_up import request_text
from baton.core.routing_types import (
    MAX_VECTOR_TOKENS,
    VECTOR_WIDTH,
    Candidate,
    Draft,
    Estimate,
    Judgement,
    TextVector,
)
from baton.core.run.rule_router import RuleRouter, routed, tool_alone
from baton.core.sanitiser import whole_characters
from baton.ipc.messages import Message
from baton.ipc.process import ChildDied, InvalidReply
from baton.routing.messages import (
    CompareTexts,
    EmbedText,
    EstimateQuality,
    EstimateReply,
    JudgeDrafts,
    JudgementReply,
    ScoreTurns,
    TableReply,
    VectorReply,
)
from baton.routing.scorer_process import (
    DEFAULT_LIMITS,
    ScorerLimits,
    ScorerProcess,
    Unanswered,
    shipped_folder,
)

if TYPE_CHECKING:
    from baton.ipc.borrower import Borrower
    from baton.ipc.process import Child

T = TypeVar("T")

_JUDGING_SLACK = 5.0
"""How many times as long as a prompt several drafts may take: each is read like one."""


_EMBEDDING_SLACK = 80.0
"""The same for a long text, of which all is read: 8,192 tokens take a second."""


class LearnedRouter:
    """Routes by what is expected of each worker, as a child process on this machine computes it.

    `folder` None is the router that Baton ships. Nothing is started before the first question (or
    `warm`). Where there is no answer in time, the rule's counts; `on_warning` is called once with
    why there are none at all.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        limits: ScorerLimits = DEFAULT_LIMITS,
        find_borrower: Callable[[], Borrower | None] = lambda: None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.folder = shipped_folder() if folder is None else folder
        self.on_warning: Callable[[str], object] = lambda _: None
        self._scorer = ScorerProcess(
            self.folder, limits=limits, find_borrower=find_borrower, environ=environ
        )
        self._scorer.on_trouble = lambda: self._warn_once(self.warning)
        self._rule = RuleRouter()
        self._last_warning = self.warning

    @property
    def warning(self) -> str:
        """What the user must know now of why the router can't be used, or ""."""
        trouble = self.trouble
        return f"A rule of length and task decides where prompts go. {trouble}" if trouble else ""

    @property
    def trouble(self) -> str:
        """Why the router can't be used now, and what to do; "" if it can, for all that is known."""
        return self._scorer.trouble

    @property
    def provider(self) -> str:
        """On what the child runs, once it is ready; "" before."""
        return self._scorer.provider

    @property
    def pid(self) -> int | None:
        """The child's process, where it runs."""
        return self._scorer.pid

    def warm(self) -> None:
        """Start the child; returns at once."""
        self._scorer.warm()

    def wait_while(self, waits_anyway: Callable[[], bool]) -> None:
        """Have the first questions wait a little longer while that says the prompt waits anyway."""
        self._scorer.is_waiting_anyway = waits_anyway

    async def route(self, material: Material, roster: Sequence[Card]) -> Route:
        """Return the route of the newest prompt; see core.ports.Router."""
        if (tool := tool_alone(material, roster)) is not None:
            return tool
        estimate = await self.estimate(request_text(material), candidates(roster))
        route = routed(material, roster, estimate)
        is_late = estimate is None and not self.trouble
        return replace(route, decided_by="late") if is_late else route

    async def estimate(self, text: str, workers: Sequence[Candidate]) -> Estimate | None:
        """Return what is expected of some workers, or None where that isn't known in time."""
        if not workers:
            return None
        request = EstimateQuality(excerpt(text), list(workers))
        ids = [worker.id for worker in workers]
        return await self._ask(request, EstimateReply, lambda value: valid_estimate(value, ids))

    async def judge(
        self, material: Material, route: Route, roster: Sequence[Card], drafts: Sequence[Draft]
    ) -> Judgement:
        """Return what is expected now that there are drafts; see core.ports.Router."""
        workers, found = candidates(roster), None
        if 0 < len(drafts) <= MAX_TEXTS and workers:
            ids = [worker.id for worker in workers]
            found = await self._ask(
                JudgeDrafts(
                    excerpt(request_text(material)), workers, cut_drafts(drafts), route.estimate
                ),
                JudgementReply,
                lambda value: valid_judgement(value, len(drafts), ids),
                _JUDGING_SLACK + len(drafts),
            )
        return found or await self._rule.judge(material, route, roster, drafts)

    async def likeness(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return how alike each two texts are in meaning; see core.ports.Router."""
        found = None
        if 1 < len(texts) <= MAX_TEXTS:
            found = await self._ask(
                CompareTexts([excerpt(text) for text in texts]),
                TableReply,
                lambda value: valid_likeness(value, len(texts)),
                _JUDGING_SLACK + len(texts),
            )
        return found or await self._rule.likeness(texts)

    async def embed(self, text: str) -> TextVector:
        """Return the vector of a whole text; see core.ports.TextEncoder."""
        found = await self._ask(EmbedText(text), VectorReply, valid_vector, _EMBEDDING_SLACK)
        if found is None:
            raise WorkerUnavailable("The encoder didn't answer in time.")
        return found

    async def score_turns(
        self, text: str, position: Sequence[float], workers: Sequence[Sequence[float]]
    ) -> Sequence[Sequence[float]]:
        """Return how well each worker would do in each role; see core.ports.Router."""
        request = ScoreTurns(excerpt(text), list(position), [list(figures) for figures in workers])
        found = await self._ask(
            request, TableReply, lambda value: valid_scores(value, len(workers))
        )
        return found or await self._rule.score_turns(text, position, workers)

    async def _ask(
        self, request: Message, kind: Any, check: Callable[[Any], T], slack: float = 1.0
    ) -> T | None:
        """Return what the scorer says, checked; None where it says nothing in time.

        The user then hears once that the rule decides, and why.
        """
        try:
            reply = await self._scorer.ask(request, kind, slack)
            return check(reply.value)
        except (Unanswered, ChildDied) as error:
            if isinstance(error, ChildDied):
                self._scorer.discard_child()
            self._warn_once(self.warning)
            return None

    def release(self) -> Child | None:
        """Give the child away, if it can outlive this process."""
        return self._scorer.release()

    def end(self) -> None:
        """End the child, without waiting until it is gone."""
        self._scorer.end()

    async def aclose(self) -> None:
        """End the child; the router may be used again."""
        await self._scorer.aclose()

    def _warn_once(self, what: str) -> None:
        if what and what != self._last_warning:
            self._last_warning = what
            self.on_warning(what)


MAX_CANDIDATES = 64
MAX_TEXTS = 64
"""More of them aren't sent: the first ones count."""

HEAD_CHARS, TAIL_CHARS = 8000, 4000
"""Characters of a text that are sent: more than the router looks at, so that nothing is lost."""

MAX_SCORE = 1e6
"""Scores are any finite numbers; only their order counts, and whether they are above 0."""


# Requests


def excerpt(text: str) -> str:
    """Return the part of a text that the router looks at, as whole characters."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    return whole_characters(text)


def candidates(roster: Sequence[Card]) -> list[Candidate]:
    """Return the models of a roster as the router sees them, in its order."""
    cards = [card for card in roster if not card.is_tool][:MAX_CANDIDATES]
    return [candidate(card) for card in cards]


def candidate(card: Card) -> Candidate:
    """Return a worker as the router sees it."""
    free = card.price is None or card.price.is_free
    dollars = 0.0 if free or card.price is None else card.price.dearest_output / 10**9
    model = card.model or card.name or card.id
    skills = {kind: float(level) for kind, level in card.skills.items()}
    return Candidate(card.id, model, parameter_billions(card), dollars, card.remote, skills)


def cut_drafts(drafts: Sequence[Draft]) -> list[Draft]:
    """Return drafts with their texts cut; how long they were stays known."""
    return [
        replace(
            draft,
            text=excerpt(draft.text),
            answer=excerpt(draft.answer),
            length=draft.length or len(draft.text),
        )
        for draft in drafts
    ]


# Replies


def valid_estimate(estimate: Estimate, workers: Collection[str]) -> Estimate:
    """Return an estimate of those workers, within its bounds. Raises InvalidReply."""
    if estimate.quality.keys() != set(workers):
        raise _invalid()
    return Estimate(
        _shares(estimate.kinds, KINDS),
        _shares(estimate.quality, workers),
        _shares(estimate.gain, workers, least=-1.0),
        _shares(estimate.nearby, workers),
        int(_bounded(estimate.tokens, 0, 10**9)),
        _bounded(estimate.novelty),
        int(_bounded(estimate.tokens_p99, 0, 10**9)),
    )


def valid_judgement(judgement: Judgement, drafts: int, workers: Collection[str]) -> Judgement:
    """Return a judgement of so many drafts, within its bounds. Raises InvalidReply."""
    agreement = judgement.agreement
    if not 0 <= judgement.best < drafts:
        raise _invalid()
    return Judgement(
        tuple(_row(judgement.quality, drafts)),
        judgement.best,
        _shares(judgement.gain, workers, least=-1.0),
        None if agreement is None else _bounded(agreement),
    )


def valid_likeness(table: Sequence[Sequence[float]], texts: int) -> list[list[float]]:
    """Return the likenesses of so many texts, within their bounds. Raises InvalidReply."""
    if len(table) != texts:
        raise _invalid()
    return [_row(row, texts) for row in table]


def valid_vector(vector: TextVector) -> TextVector:
    """Return a text's vector if it is one. Raises InvalidReply."""
    is_too_long = vector.tokens > MAX_VECTOR_TOKENS
    if vector.tokens < 0 or len(vector.values) != 4 * VECTOR_WIDTH * (not is_too_long):
        raise _invalid()
    if not all(map(math.isfinite, array("f", vector.values))):
        raise _invalid()
    return vector


def valid_scores(table: Sequence[Sequence[float]], workers: int) -> list[list[float]]:
    """Return a score for each of so many workers in each role. Raises InvalidReply."""
    if len(table) != len(TurnRole):
        raise _invalid()
    return [_row(row, workers, -MAX_SCORE, MAX_SCORE) for row in table]


def _shares(
    values: Mapping[str, float], names: Collection[str], least: float = 0.0
) -> dict[str, float]:
    """Return numbers up to 1 by names, of which there may be no others."""
    if not values.keys() <= set(names):
        raise _invalid()
    return {name: _bounded(number, least) for name, number in values.items()}


def _row(values: Sequence[float], count: int, least: float = 0.0, most: float = 1.0) -> list[float]:
    if len(values) != count:
        raise _invalid()
    return [_bounded(number, least, most) for number in values]


def _bounded(number: float, least: float = 0.0, most: float = 1.0) -> float:
    """Return a number pushed into its bounds: rounding may lead a little beyond."""
    return float(min(most, max(least, number)))


def _invalid() -> InvalidReply:
    return InvalidReply("It sent an invalid reply.")


# Its speed

_PROMPT = "Which of these numbers are prime, and why are the others not: 51, 57, 59, 63, 71? " * 2
"""Some 64 tokens."""

_CANDIDATES = (Candidate("here", "qwen2.5-7b", 7.0), Candidate("there", "gpt-4o", 0.0, 10.0, True))

_REPETITIONS = 21

_PROBE_LIMITS = ScorerLimits(warm=10.0, cold=60.0)


@frozen_dataclass
class RouterSpeed:
    """What was found: why it doesn't answer, or how fast it does, the pipes included."""

    trouble: str = ""
    provider: str = ""
    milliseconds: float = 0.0


async def measure_router() -> RouterSpeed:
    """Start the router in a child of its own and ask it a few times."""
    times = []
    async with aclosing(LearnedRouter(limits=_PROBE_LIMITS)) as router:
        for n in range(_REPETITIONS):
            began = time.perf_counter()
            answered = await router.estimate(f"{_PROMPT}{n}", _CANDIDATES)
            if answered is None:
                return RouterSpeed(router.trouble or "The router doesn't answer in time.")
            times.append(time.perf_counter() - began)
        middle = sorted(times)[_REPETITIONS // 2]
        return RouterSpeed(provider=router.provider, milliseconds=middle * 1000)
