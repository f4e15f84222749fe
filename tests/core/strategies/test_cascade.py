"""Strategies with a router that knows something: what it expects, and what it makes of drafts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, strategies as st

from baton.core.errors import BatonError
from baton.core.events import Verdict
from baton.core.judging.checks import check_text, is_checkable
from baton.core.labels import Label
from baton.core.messages import Card
from baton.core.plan_types import Need
from baton.core.ports import SpendingRoom
from baton.core.strategies import make_strategy
from support.strategy_context import (
    BIG,
    CLOUD,
    DOWN,
    GEMMA,
    LLAMA,
    MATH,
    SERVER,
    SUM,
    TALE,
    TINY,
    TOOL,
    Execution,
    ScriptedContext,
    execute,
    expects,
    routing_context,
    says,
)

BROKE = SpendingRoom(0, 1.0)
OTHER = replace(CLOUD, id="opus", name="Opus")


async def hybrid(
    quality: dict[str, float], *cards: Card, said: tuple[str | BatonError, ...], **more: float
) -> Execution:
    route = expects(quality, novelty=more.get("novelty", 0.1), tokens=int(more.get("tokens", 100)))
    context = ScriptedContext(routing_context(*cards, prompt=SUM, route=route))
    return await execute("hybrid", context, says(*said))


# Before anything is written


@given(st.lists(st.sampled_from([TINY, LLAMA, GEMMA, CLOUD, OTHER, TOOL]), min_size=1, unique=True))
@example([CLOUD])
@example([TOOL])
def test_a_plan_is_considered_with_any_workers(cards: list[Card]) -> None:
    route = replace(expects({"tiny": 0.5}, need=Need("reasoning", 4)), where="plan")
    context = ScriptedContext(routing_context(*cards, prompt=TALE, route=route))
    assert asyncio.run(make_strategy("hybrid").first(context)).plan.steps


async def test_what_will_surely_go_well_is_drafted_once() -> None:
    sure = {"llama": 0.93, "gemma": 0.94, "gpt": 0.97}
    run = await hybrid(sure, LLAMA, GEMMA, CLOUD, said=("It is 7.",))
    assert run.workers == ["llama"]
    reason = "Your local worker is usually right with questions like this (about 9 in 10)."
    assert run.proposals[0].why == reason
    run = await hybrid(sure, LLAMA, GEMMA, CLOUD, said=("7", "7"), novelty=0.9)
    assert run.workers == ["llama", "gemma"], "it isn't sure of what it never saw"
    assert "usually right" not in run.proposals[0].why


async def test_a_worker_is_not_called_bad_where_the_helper_is_not_better() -> None:
    """Then its low chance says more of how strictly such questions were graded."""
    run = await hybrid({"tiny": 0.15, "gpt": 0.2}, TINY, CLOUD, said=("7", "8"))
    assert "go wrong" not in run.proposals[0].why


@pytest.mark.parametrize("novelty", [0.1, 0.9])
async def test_there_is_a_draft_before_the_helper_is_asked(novelty: float) -> None:
    """A user who is asked has something to compare with, and hears what is gained."""
    run = await hybrid({"tiny": 0.1, "gpt": 0.9}, TINY, CLOUD, said=("8", "7"), novelty=novelty)
    assert (run.workers, run.proposals[0].where) == (["tiny", "gpt"], "local")
    assert run.why == (
        "Local answers like this one are wrong about 9 in 10 times. Right here: about 1 in 10; "
        "GPT: about 9 in 10."
    )


async def test_a_helper_that_fails_or_costs_too_much_leaves_the_default_worker() -> None:
    route = expects({"tiny": 0.1, "gpt": 0.9})
    context = ScriptedContext(routing_context(TINY, CLOUD, prompt=SUM, route=route))
    run = await execute("hybrid", context, says("7", DOWN))
    assert (run.workers, run.answer) == (["tiny", "gpt"], (1,))
    context = ScriptedContext(
        routing_context(TINY, CLOUD, prompt=SUM, route=route), SpendingRoom(10**9, 0.9)
    )
    run = await execute("hybrid", context, says("7"))
    assert (run.workers, context.weighed) == (["tiny"], ["gpt"])


async def test_one_worker_answers_twice_only_where_that_may_show_something() -> None:
    for chance, drafts in ((0.05, 1), (0.6, 2), (0.95, 1)):
        quality = {"llama": chance, "gpt": min(1.0, chance + 0.02)}
        run = await hybrid(quality, LLAMA, CLOUD, said=("7", "7"))
        assert run.workers == ["llama"] * drafts
        assert run.answer == (1,)
    run = await hybrid({"llama": 0.6, "gpt": 0.7}, LLAMA, CLOUD, said=("7",) * 3, tokens=3000)
    assert run.workers[:2] == ["llama", "gpt"], "no long answer is waited for twice"
    run = await hybrid({"llama": 0.6}, LLAMA, said=("7",))
    assert run.workers == ["llama"], "no worker could help"


async def test_without_money_nothing_is_drafted_twice() -> None:
    route = expects({"llama": 0.6, "gemma": 0.6, "gpt": 0.9})
    context = ScriptedContext(routing_context(LLAMA, GEMMA, CLOUD, prompt=SUM, route=route), BROKE)
    run = await execute("hybrid", context, says("It is 7."))
    assert (run.workers, context.weighed) == (["llama"], [])


async def test_the_mate_is_the_best_of_the_others_unless_it_is_hopeless() -> None:
    other = replace(GEMMA, id="other", parameters=1)
    quality = {"llama": 0.6, "gemma": 0.2, "other": 0.7, "gpt": 0.8}
    run = await hybrid(quality, LLAMA, GEMMA, other, CLOUD, said=("7", "7", "7"))
    assert run.workers[:2] == ["llama", "other"]
    weak = {"llama": 0.6, "tiny": 0.02, "gpt": 0.8}
    run = await hybrid(weak, LLAMA, TINY, CLOUD, said=("7", "7", "7"))
    assert run.workers[:2] == ["llama", "llama"]


# Once there are drafts


PAIR = {"llama": 0.65, "gemma": 0.65, "gpt": 0.95}


async def test_drafts_that_agree_stay_and_others_are_decided_by_a_remote_worker() -> None:
    run = await hybrid(PAIR, LLAMA, GEMMA, CLOUD, said=("It is 7.", "7"))
    assert (run.workers, run.answer) == (["llama", "gemma"], (1,))
    run = await hybrid(PAIR, LLAMA, GEMMA, CLOUD, said=("It is 7.", "8", "7"))
    assert run.workers == ["llama", "gemma", "gpt"]
    assert run.why == "The two local answers disagree."


async def test_a_third_worker_here_is_asked_before_anybody_is_for_money() -> None:
    other = replace(GEMMA, id="other", parameters=1)
    known = {"llama": 0.65, "gemma": 0.65, "other": 0.6, "gpt": 0.6}
    cards = (LLAMA, GEMMA, other, CLOUD)
    run = await hybrid(known, *cards, said=("It is 7.", "7"))
    assert run.workers == ["llama", "gemma"], "two that agree are enough"
    run = await hybrid(known, *cards, said=("It is 7.", "8", "7"))
    assert (run.workers, run.answer) == (["llama", "gemma", "other"], (1,))
    run = await hybrid(known, *cards, said=("It is 7.", "8", "8", "8"))
    assert (run.workers, run.answer) == (["llama", "gemma", "other", "gpt"], (4,))
    assert run.why == "Two other workers here say something else than the first."
    run = await hybrid(known, *cards, said=("It is 7.", "8", "9", "8"))
    assert (run.workers, run.answer) == (["llama", "gemma", "other", "gpt"], (4,))
    assert run.why == "No two of the three local answers agree."
    run = await hybrid(known, *cards, said=("It is 7.", "8", "9", DOWN))
    assert run.text in ("It is 7.", "8")
    for weak in (0.01, 0.4):
        run = await hybrid({**known, "other": weak}, *cards, said=("It is 7.", "8", "9"))
        assert run.workers == ["llama", "gemma", "gpt"], "a weaker one settles nothing"


async def test_what_two_weak_workers_agree_on_may_still_be_wrong() -> None:
    weak = {"llama": 0.15, "gemma": 0.15, "gpt": 0.6}
    run = await hybrid(weak, LLAMA, GEMMA, CLOUD, said=("7", "7", "8"))
    assert run.workers == ["llama", "gemma", "gpt"]
    assert run.why.startswith("The local answers agree, but with such questions that is wrong")


async def test_another_draft_replaces_the_first_only_where_that_is_not_an_answer() -> None:
    route = expects({**PAIR, "gemma": 0.9})
    for first, shown in (("It is 7.", 1), ("I can't.", 2), ("", 2), ("Well, let me think.", 2)):
        context = ScriptedContext(
            routing_context(LLAMA, GEMMA, CLOUD, prompt=SUM, route=route), SpendingRoom(10**9, 0.95)
        )
        run = await execute("hybrid", context, says(first, "It is 8."))
        assert (run.workers, run.answer) == (["llama", "gemma"], (shown,))


@pytest.mark.parametrize(("wrong", "workers"), [({}, ["tiny"]), ({1: "No."}, ["tiny", "gpt"])])
async def test_a_failed_check_calls_for_help(wrong: dict[int, str], workers: list[str]) -> None:
    route = expects({"tiny": 0.85, "gpt": 0.88}, need=Need("writing", 2))
    context = ScriptedContext(routing_context(TINY, CLOUD, prompt=TALE, route=route), wrong=wrong)
    assert (await execute("hybrid", context, says("So 3 + 4 = 8.", "7"))).workers == workers


async def test_a_refusal_is_weighed_like_any_other_help() -> None:
    route = expects({"tiny": 0.85, "gpt": 0.88}, need=Need("writing", 2))
    for money, workers in (
        (SpendingRoom(10**9, 0.0), ["tiny", "gpt"]),
        (SpendingRoom(10**9, 0.95), ["tiny"]),
        (BROKE, ["tiny", "gpt"]),  # nothing is sent, and the user sees why
    ):
        context = ScriptedContext(routing_context(TINY, CLOUD, prompt=TALE, route=route), money)
        assert (await execute("hybrid", context, says("I can't.", "Better."))).workers == workers


@pytest.mark.parametrize("better", [BIG, SERVER])
async def test_a_better_worker_here_is_asked_only_if_that_is_noticed(better: Card) -> None:
    for gain, workers in ((0.1, ["llama"]), (0.3, ["llama", better.id])):
        route = expects({"llama": 0.5, better.id: 0.5 + gain}, need=Need("writing", 2))
        known = routing_context(LLAMA, better, prompt=TALE, route=route, near=better.id)
        context = ScriptedContext(known)
        assert (await execute("hybrid", context, says("A tale.", "Better."))).workers == workers
        assert context.weighed == [], "what is free isn't weighed"


async def test_the_better_worker_here_is_asked_before_one_for_money() -> None:
    route = expects({"llama": 0.5, "lab": 0.8, "gpt": 0.95}, need=Need("writing", 2))
    known = routing_context(LLAMA, SERVER, CLOUD, prompt=TALE, route=route, near="lab")
    run = await execute("hybrid", ScriptedContext(known), says("A tale.", "Better.", "Best."))
    assert (run.workers, run.answer) == (["llama", "lab", "gpt"], (3,))
    assert run.why.endswith("Right here: about 8 in 10; GPT: about 9 in 10.")
    run = await execute("hybrid", ScriptedContext(known, BROKE), says("A tale.", "Better."))
    assert (run.workers, run.answer) == (["llama", "lab"], (2,))


@pytest.mark.parametrize(
    ("said", "workers", "text"),
    [
        (("I can't.", "Better.", DOWN), ["llama", "lab", "gpt"], "Better."),
        (("I can't.", DOWN, "Best."), ["llama", "lab", "gpt"], "Best."),
        (("I can't.", DOWN, DOWN), ["llama", "lab", "gpt"], "I can't."),
    ],
)
async def test_where_one_of_the_helpers_fails_the_other_is_asked(
    said: tuple[str | BatonError, ...], workers: list[str], text: str
) -> None:
    route = expects({"llama": 0.5, "lab": 0.8, "gpt": 0.95}, need=Need("writing", 2))
    known = routing_context(LLAMA, SERVER, CLOUD, prompt=TALE, route=route, near="lab")
    run = await execute("hybrid", ScriptedContext(known), says(*said))
    assert (run.workers, run.text) == (workers, text)


async def test_a_better_worker_here_that_fails_leaves_the_draft() -> None:
    route = expects({"llama": 0.2, "lab": 0.8}, need=Need("writing", 2))
    known = routing_context(LLAMA, SERVER, prompt=TALE, route=route, near="lab")
    run = await execute("hybrid", ScriptedContext(known), says("A tale.", DOWN))
    assert (run.workers, run.text, run.answer) == (["llama", "lab"], "A tale.", (1,))


async def test_when_everything_fails_there_is_what_there_was() -> None:
    run = await execute(
        "hybrid",
        ScriptedContext(routing_context(LLAMA, GEMMA, CLOUD, prompt=SUM, route=expects(PAIR))),
        says(DOWN, "It is 8.", DOWN),
    )
    assert (run.workers, run.text) == (["llama", "gemma", "gpt"], "It is 8.")


# The router alone, the nearest, the middle


async def test_the_router_alone_asks_whom_it_expects_most_of() -> None:
    for gain, money, workers in (
        (0.3, SpendingRoom(None, 0.0), ["gpt"]),
        (0.01, SpendingRoom(None, 0.0), ["llama"]),
        (0.3, SpendingRoom(10**9, 0.5), ["llama"]),
        (0.3, BROKE, ["llama"]),
    ):
        route = expects({"llama": 0.5, "gpt": 0.5 + gain})
        context = ScriptedContext(routing_context(LLAMA, CLOUD, prompt=SUM, route=route), money)
        run = await execute("route", context, says("7"))
        assert (run.workers, context.weighed) == (workers, ["gpt"])
    context = ScriptedContext(routing_context(TINY, CLOUD, prompt=SUM, need=Need("math", 5)))
    assert (await execute("route", context, says(DOWN, "8"))).workers == ["gpt", "tiny"]
    assert (await execute("route", ScriptedContext(routing_context(LLAMA)), says("7"))).workers == [
        "llama"
    ]


async def test_the_worker_that_did_best_nearby_answers() -> None:
    cards = (TINY, GEMMA, CLOUD, OTHER)
    quality = dict.fromkeys(["tiny", "gemma", "gpt", "opus"], 0.5)
    for nearby, money, workers in (
        ({"tiny": 0.5, "gemma": 0.7, "gpt": 0.7}, SpendingRoom(None, 0.0), ["gemma"]),
        ({"tiny": 0.5, "gemma": 0.7, "opus": 0.9, "gpt": 0.8}, SpendingRoom(None, 0.0), ["opus"]),
        ({"tiny": 0.5, "gemma": 0.7, "opus": 0.9}, SpendingRoom(10**9, 0.5), ["gemma"]),
        ({"tiny": 0.9, "gemma": 0.7, "opus": 0.9}, SpendingRoom(None, 0.0), ["tiny"]),
        ({"opus": 0.9}, BROKE, ["tiny"]),
        ({}, SpendingRoom(None, 0.0), ["tiny"]),
    ):
        route = expects(quality, nearby=nearby)
        context = ScriptedContext(routing_context(*cards, prompt=SUM, route=route), money)
        assert (await execute("knn", context, says("7"))).workers == workers
    context = ScriptedContext(
        routing_context(*cards, route=expects(quality, nearby={"gemma": 0.9}))
    )
    assert (await execute("knn", context, says(DOWN, "7"))).workers == ["gemma", "tiny"]


async def test_the_answer_that_is_most_like_the_others_counts() -> None:
    cards = (LLAMA, TINY, GEMMA, BIG, CLOUD)
    said = ("A cat sat.", "The dog ran far away.", "I can't.", "The dog ran away.")
    run = await execute("smoothie", ScriptedContext(routing_context(*cards)), says(*said))
    assert run.workers == ["llama", "big", "gemma", "tiny"]
    assert run.answer in ((2,), (4,))
    run = await execute(
        "smoothie", ScriptedContext(routing_context(LLAMA, BIG)), says("One.", "Two.")
    )
    assert run.answer == (2,), "of two the stronger worker's"
    run = await execute(
        "smoothie", ScriptedContext(routing_context(LLAMA, BIG)), says("One.", DOWN)
    )
    assert run.answer == (1,)
    assert (
        await execute("smoothie", ScriptedContext(routing_context(LLAMA, CLOUD)), says("a"))
    ).workers == ["llama"]


# A router that knows nothing, or too much


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    st.floats(0, 1),
    st.sampled_from(["7", "I can't.", ""]),
    st.sampled_from(["7", "8", ""]),
)
async def test_no_worker_is_asked_that_is_not_there_or_for_money_that_is_not(
    chances: list[float], novelty: float, first: str, second: str
) -> None:
    quality = dict(zip(["llama", "gemma", "gpt"], chances, strict=True))
    route = expects(quality, need=MATH, novelty=novelty, nearby={**quality, "gone": 1.0})
    for name in ("hybrid", "route", "knn", "smoothie"):
        here = ScriptedContext(routing_context(LLAMA, GEMMA, prompt=SUM, route=route))
        run = await execute(name, here, says(first, second, "9"))
        assert set(run.workers) <= {"llama", "gemma"}
        assert here.weighed == []
        broke = ScriptedContext(
            routing_context(LLAMA, GEMMA, CLOUD, prompt=SUM, route=route), BROKE
        )
        run = await execute(name, broke, says(first, second, "9"))
        plain = first in ("I can't.", "")
        assert "gpt" not in run.workers or (plain and name == "hybrid")
    mine = ScriptedContext(
        routing_context(replace(CLOUD, privacy=Label.CLOUD), LLAMA, prompt=SUM, route=route)
    )
    for name in ("hybrid", "route", "knn"):
        assert (await execute(name, mine, says("7"))).workers == ["gpt"], (
            "the person wants that one"
        )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A tale of two cats.",
        "So 3 + 4 = 8.",
        '{"a": 1',
        '["a"]',
        "```python\nassert 1 == 2\n```",
        "```toml\na = \n```",
        "It is 7, or 8.",
        "Once 2 times 3 was 7.",
    ],
)
async def test_what_is_not_checkable_would_not_be_found_right_or_wrong(text: str) -> None:
    async def compute(tool: str, asked: str) -> str:
        return "Failed: AssertionError"

    async def judge(claims: Sequence[str]) -> Sequence[str]:
        return ["No: 7"] * len(claims)

    found = await check_text(text, "What?", compute, judge)
    checked = any(finding.verdict is not Verdict.UNCHECKED for finding in found)
    assert is_checkable(text) or not checked
    plain = ("", "A tale of two cats.", "It is 7, or 8.")
    assert not (is_checkable(text) and text in plain), "a plain text costs no check"
