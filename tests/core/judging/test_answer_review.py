"""What stands beside an answer: once in full, then as a mark; and never without a cause."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

import pytest
import pytest_asyncio

from baton.core.errors import ModelFileError
from baton.core.events import Warned
from baton.core.ledger_types import Policy
from baton.core.messages import Card, Finish, Prompt, Request, Text, TurnStatus
from baton.core.permissions import PromptLimits
from baton.core.plan_types import KINDS, Material
from baton.core.ports import ConversationPosition, Route, Worker
from baton.core.routing_types import Draft, Estimate, Judgement
from baton.core.run.orchestra import Orchestra
from baton.core.run.rule_router import RuleRouter, routed, tool_alone
from baton.core.run.run_context import Services
from baton.core.view import RunView
from baton.history import Store
from baton.presentation.run_story import warning_text
from baton.workers.scripted_worker import ScriptedWorker
from baton.workers.tools import build_tools
from support.scripted_plans import StubWorker, answer_with, cloud, open_orchestra

SMALL = Card("small", "local", "SmolLM2 135M", context=8192, parameters=135_000_000)
FREE = Card("big", "local", "Qwen3 8B", context=8192, parameters=8_000_000_000)


@dataclass
class SureRouter(RuleRouter):
    """Says of every draft that it is good with a given chance."""

    chances: dict[str, float]

    async def route(self, material: Material, roster: Sequence[Card]) -> Route:
        if (tool := tool_alone(material, roster)) is not None:
            return tool
        known = {card.id: self.chances.get(card.id, 0.5) for card in roster}
        return routed(
            material, roster, Estimate(dict.fromkeys(KINDS, 1 / 12), known, {}, novelty=0.1)
        )

    async def judge(
        self, material: Material, route: Route, roster: Sequence[Card], drafts: Sequence[Draft]
    ) -> Judgement:
        return Judgement(tuple(self.chances.get(d.worker, 0.5) for d in drafts), 0, {})


@pytest_asyncio.fixture
async def store() -> AsyncIterator[Store]:
    opened = Store(None)
    yield opened
    await opened.aclose()


def baton(
    store: Store, answer: str, *cards: Card, tools: bool = False, **chances: float
) -> Orchestra:
    def script(request: Request) -> list[Text]:
        return [Text(answer[n : n + 7]) for n in range(0, len(answer), 7)]

    workers = {card.id: ScriptedWorker(script, card) for card in (SMALL, *cards)}
    named: dict[str, Worker] = {**(build_tools() if tools else {}), **workers}
    return Orchestra(Services(named, store, router=SureRouter(chances)), "small")


async def execute(
    orchestra: Orchestra, text: str, conversation: str | None = None, strategy: str = ""
) -> tuple[RunView, tuple[Warned, ...]]:
    view = RunView()
    place, limits = ConversationPosition(conversation), PromptLimits(strategy=strategy)
    async with orchestra.run(Prompt(text), place, limits) as run:
        async for event in run:
            view = view.apply(event)
    assert view.status == "finished", view.failure
    return view, view.warnings


async def test_a_likely_wrong_answer_is_marked_with_the_chance_and_a_remedy(store: Store) -> None:
    _, [warned] = await execute(baton(store, "Charles.", small=0.13), "Who wrote Emma?")
    assert (warned.kind, warned.chance, warned.step) == ("likely_wrong", 0.13, 1)
    assert "1 in 10" in warned.message
    assert "baton models recommend" in warned.hint


async def test_a_likely_right_answer_is_not_marked(store: Store) -> None:
    _, warnings = await execute(baton(store, "Jane Austen.", small=0.8), "Who wrote Emma?")
    assert warnings == ()


async def test_a_free_worker_that_does_better_is_the_remedy(store: Store) -> None:
    orchestra = baton(store, "A.", FREE, small=0.1, big=0.45)
    _, [warned] = await execute(orchestra, "Who wrote Emma?", strategy="single")
    assert warned.kind == "likely_wrong"
    assert "Qwen3 8B" in warned.hint
    assert "costs nothing" in warned.hint


async def test_what_no_worker_can_know_is_said_whatever_the_chance(store: Store) -> None:
    orchestra = baton(store, "Sunny.", small=0.9)
    _, [warned] = await execute(orchestra, "What's the weather in Lisbon today?")
    assert warned.kind == "needs_current_data"
    assert warned.hint


async def test_the_line_is_said_once_and_then_a_mark(store: Store) -> None:
    orchestra = baton(store, "Charles.", small=0.13)
    view, [first] = await execute(orchestra, "Who wrote Emma?")
    assert view.started is not None
    conversation = view.started.conversation
    _, [second] = await execute(orchestra, "Who wrote Persuasion?", conversation)
    assert (first.is_known, second.is_known) == (False, True)
    assert warning_text(second) == "Likely wrong: right with a chance of 13%."
    assert first.hint in warning_text(first)
    _, [other] = await execute(orchestra, "What's the weather in Lisbon?", conversation)
    assert not other.is_known  # another cause
    _, [fresh] = await execute(orchestra, "Who wrote Emma?")
    assert not fresh.is_known  # another conversation


async def test_a_wrong_sum_is_corrected_beside_the_answer(store: Store) -> None:
    orchestra = baton(store, "The total is 17 * 23 = 400.", tools=True, small=0.9)
    _, [warned] = await execute(orchestra, "Tell me about the total of my little shop.")
    assert warned.kind == "failed_check"
    assert "391" in warned.message
    _, warnings = await execute(
        baton(store, "The total is 17 * 23 = 391.", tools=True, small=0.9),
        "Tell me about the total of my little shop.",
    )
    assert warnings == ()


async def test_json_that_was_asked_for_and_is_missing_is_said(store: Store) -> None:
    prompt = "List three fruits as a JSON array only."
    _, [warned] = await execute(baton(store, "Apple, pear and fig.", small=0.9), prompt)
    assert warned.kind == "failed_check"
    assert "JSON" in warned.message
    _, warnings = await execute(baton(store, '["apple", "pear", "fig"]', small=0.9), prompt)
    assert warnings == ()


async def test_a_loop_is_stopped_and_the_stored_answer_ends_before_it(store: Store) -> None:
    text = "It rains. " + "The old king went to the sea and looked at the ships. " * 30
    orchestra = baton(store, text, small=0.9)
    view, [warned] = await execute(orchestra, "Tell me a story.")
    assert warned.kind == "repetition"
    kept = "It rains. The old king went to the sea and looked at the ships."
    assert view.answer == kept
    assert view.steps[0].finish is Finish.REPETITION
    assert view.started is not None
    *_, turn = await store.thread(view.started.conversation)
    assert (turn.text, turn.status) == (kept, TurnStatus.DONE)


async def test_a_call_that_costs_money_is_left_to_its_end() -> None:
    round_ = "The old king went to the sea and looked at the ships. "
    far = StubWorker(cloud(), answer_with(*[round_] * 30))
    async with open_orchestra(far, policy=Policy.BUDGET) as session:
        view = await session.execute(None, "Tell me a story.")
    assert view.answer == round_ * 30
    assert view.calls[0].confirmed, "broken off, it would cost all that was held"


@pytest.mark.parametrize("strategy", ["ultra", "conductor"])
async def test_a_plan_that_was_asked_for_and_is_not_drawn_is_said(
    store: Store, strategy: str
) -> None:
    orchestra = baton(store, "They purr to rest.", small=0.9)
    _, [warned] = await execute(orchestra, "Why do cats purr?", strategy=strategy)
    assert warned.kind == "not_conducted"
    orchestra.change_terms(mode="ultra")
    async with orchestra.run(Prompt("Why do cats purr?"), limits=PromptLimits(alone=True)) as run:
        kinds = [event.kind async for event in run if isinstance(event, Warned)]
    assert kinds == ["not_conducted"]


@pytest.mark.parametrize("text", ["hello", "Hi!", "thanks"])
async def test_a_greeting_is_not_marked(store: Store, text: str) -> None:
    _, warnings = await execute(baton(store, "Hello!", small=0.2), text)
    assert warnings == ()


async def test_what_a_tool_computed_is_not_marked(store: Store) -> None:
    view, warnings = await execute(baton(store, "400", tools=True, small=0.1), "What is 17*23?")
    assert "391" in view.answer
    assert warnings == ()


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("What can you do?", "exactly"),
        ("Which model are you?", "SmolLM2 135M"),
        ("Was kannst du?", "exactly"),
        ("qui es-tu ?", "SmolLM2 135M"),
        ("help", "baton --help"),
    ],
)
async def test_baton_answers_what_it_is_itself(store: Store, question: str, named: str) -> None:
    orchestra = baton(store, "I am a helpful AI assistant.", tools=True, small=0.1)
    view, warnings = await execute(orchestra, question)
    assert named in view.answer
    assert view.calls[0].worker == "baton"
    assert warnings == ()


async def test_who_failed_in_this_run_is_not_a_remedy(store: Store) -> None:
    """The model that had just failed was recommended in the same breath."""

    def fail(request: Request) -> list[Text | BaseException]:
        return [ModelFileError("big is broken.")]

    def script(request: Request) -> list[Text]:
        return [Text("A.")]

    workers: dict[str, Worker] = {
        "big": ScriptedWorker(fail, FREE),
        "small": ScriptedWorker(script, SMALL),
    }
    router = SureRouter({"small": 0.1, "big": 0.45})
    orchestra = Orchestra(Services(workers, store, router=router), "big")
    view, [warned] = await execute(orchestra, "Who wrote Emma?", strategy="single")
    assert view.answer == "A."
    assert warned.kind == "likely_wrong"
    assert "Qwen3 8B" not in warned.hint


async def test_what_is_wrong_with_a_model_is_said_once_in_a_conversation(store: Store) -> None:
    said = "The model has no chat template, so its answers may ramble."
    orchestra = baton(store, "Jane Austen.", replace(FREE, caution=said), small=0.1, big=0.9)
    orchestra.configure(default="big")
    view, [warned] = await execute(orchestra, "Who wrote Emma?", strategy="single")
    assert (warned.kind, warned.message, warned.is_known) == ("chat_template", said, False)
    assert view.started is not None
    _, [again] = await execute(
        orchestra, "Who wrote Persuasion?", view.started.conversation, strategy="single"
    )
    assert again.is_known
