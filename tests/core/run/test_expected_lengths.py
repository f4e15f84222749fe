"""How long a text is expected to get at most, as every request says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from baton.core import events as ev
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import Attachment, Card, Prompt, Role, Turn, TurnStatus
from baton.core.permissions import PromptLimits
from baton.core.plan_types import DIRECT_SUBTASK, KINDS, Material, Need, Plan, Step, direct_step
from baton.core.planning.token_estimates import TOKENS_P99, step_tokens_p99
from baton.core.ports import ConversationPosition, Route
from baton.core.routing_types import Estimate
from baton.core.run.rule_router import RuleRouter
from support.scripted_plans import StubWorker, answer_with, cloud, local, open_orchestra


def turn(role: Role, text: str, files: tuple[Attachment, ...] = ()) -> Turn:
    return Turn("t", "c", None, role, text, TurnStatus.DONE, Label.CLOUD, 0.0, files=files)


def conversation(*texts: str, file: str = "") -> Material:
    """Return a conversation; its prompts and answers take turns."""
    roles = (Role.USER, Role.ASSISTANT)
    turns = [turn(roles[n % 2], text) for n, text in enumerate(texts)]
    if file:
        turns[-1] = replace(turns[-1], files=(Attachment("a.txt", file, len(file)),))
    return Material(tuple(turns))


def route(tokens: int = 0) -> Route:
    return Route("local", "", estimate=Estimate({}, {}, {}, tokens_p99=tokens) if tokens else None)


KIND = st.sampled_from(KINDS)


@given(KIND, st.integers(1, 10**6))
def test_what_the_router_expects_of_a_prompt_counts(kind: str, tokens: int) -> None:
    step = direct_step("far", need=Need(kind))
    assert step_tokens_p99(step, conversation("Hm?"), route(tokens), True) == max(
        tokens, step_tokens_p99(step, conversation("Hm?"), route(1), True)
    )


@given(KIND)
def test_without_an_estimate_it_is_the_kinds(kind: str) -> None:
    assert (
        step_tokens_p99(direct_step("far", need=Need(kind)), conversation("Hm?"), route(), True)
        == (TOKENS_P99[kind])
    )


@given(KIND, st.integers(0, 10**6), st.text(max_size=2000), st.text(max_size=2000))
def test_more_to_rework_or_a_longer_answer_before_never_means_less(
    kind: str, tokens: int, text: str, before: str
) -> None:
    for step in (direct_step("far", need=Need(kind)), Step("far", "Do it.", need=Need(kind))):
        plain = step_tokens_p99(step, conversation("Hm?"), route(tokens), True)
        assert step_tokens_p99(step, conversation(text + "Hm?"), route(tokens), True) >= plain
        assert (
            step_tokens_p99(step, conversation("A?", before, "Hm?"), route(tokens), True) >= plain
        )


def test_a_long_answer_is_expected_after_a_long_one() -> None:
    step = direct_step("far", need=Need("chat"))
    talk = conversation("Write a story.", "word " * 4000, "Now with a dragon.")
    assert step_tokens_p99(step, talk, route(300), True) >= 2 * 4000
    apart = Step("far", DIRECT_SUBTASK, ("prompt",), Need("chat"))
    assert step_tokens_p99(apart, talk, route(300), True) == 300, "which this one doesn't see"


def test_a_number_of_words_that_is_asked_for_counts_for_the_answer_alone() -> None:
    talk = conversation("Write 9,000 words about Ulm.")
    assert step_tokens_p99(direct_step("far"), talk, route(300), True) == 18_000
    part = Step("far", "Find the dates.", ("prompt",), Need("summary"))
    assert step_tokens_p99(part, talk, route(300), False) == TOKENS_P99["summary"]


def test_a_translation_of_a_file_may_be_as_long_as_the_file() -> None:
    text = "Das war lang, so lang. " * 4000
    step = direct_step("far", ("a.txt",), Need("translation"))
    assert (
        step_tokens_p99(step, conversation("Translate it.", file=text), route(300), True) > 17_000
    )
    unseen = direct_step("far", (), Need("translation"))
    assert (
        step_tokens_p99(unseen, conversation("Translate it.", file=text), route(300), True) == 300
    )


def test_a_step_that_is_not_an_answer_is_judged_by_its_own_kind() -> None:
    step = Step("far", "List the dates.", ("prompt",), Need("summary"))
    assert step_tokens_p99(step, conversation("Hm?"), route(9000), False) == TOKENS_P99["summary"]
    assert step_tokens_p99(step, conversation("Hm?"), route(9000), True) == 9000, (
        "the prompt's own answer"
    )
    assert step_tokens_p99(step, conversation("Hm?"), route(20), True) == TOKENS_P99["summary"]


class ExpectingRouter(RuleRouter):
    """Routes by the rule, and expects so many tokens."""

    async def route(self, material: Material, roster: Sequence[Card]) -> Route:
        found = await super().route(material, roster)
        quality = {card.id: 0.5 for card in roster}
        return replace(found, estimate=Estimate({}, quality, quality, tokens_p99=640))


SOLO = PromptLimits(attended=False)


@pytest.mark.parametrize("estimated", [True, False])
async def test_a_request_says_how_long_its_text_may_get(estimated: bool) -> None:
    near, far = StubWorker(local()), StubWorker(cloud(), answer_with("Fine."))
    steps = (
        Step("small", "Count the names.", ("prompt",), Need("calculation")),
        Step("far", "Write it.", ("prompt", "1"), Need("calculation")),
    )
    async with open_orchestra(near, far, policy=Policy.BUDGET) as session:
        if estimated:
            session.orchestra.configure(router=ExpectingRouter())
        view = await session.execute(Plan(steps, (2,)), "Who was there?", SOLO)
        assert view.status == "finished"
        assert near.requests[0].expected_tokens == TOKENS_P99["calculation"]
        assert far.requests[0].expected_tokens == (640 if estimated else TOKENS_P99["calculation"])
        expected = [
            event.expected_tokens for event in session.events if isinstance(event, ev.Called)
        ]
        assert expected == [request.expected_tokens for request in near.requests + far.requests]
        assert (await session.record()).events[-1] == session.events[-1]


async def test_the_answer_before_counts_in_a_conversation() -> None:
    far = StubWorker(cloud(), answer_with(" ".join(f"{n:04}" for n in range(4000))))
    async with open_orchestra(far, policy=Policy.BUDGET) as session:
        session.orchestra.configure(router=ExpectingRouter())
        await session.execute(None, "Tell me a story.", SOLO)
        kept = await session.record()
        place = ConversationPosition(kept.conversation, kept.answer)
        await session.execute(None, "And then?", SOLO, place, Prompt("And then?"))
        assert [request.expected_tokens for request in far.requests] == [640, 2 * 17_000]
