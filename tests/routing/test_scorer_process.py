"""What the front makes of the scorer's child: slow, dying, wrong, or not there at all."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from baton.core.errors import WorkerUnavailable
from baton.core.labels import Label
from baton.core.messages import Card, Role, Turn, TurnStatus
from baton.core.money import Price, Rates
from baton.core.permissions import PromptLimits
from baton.core.plan_types import Material
from baton.core.ports import Route
from baton.core.routing_types import Candidate, Draft
from baton.ipc import process, supervisor
from baton.routing import LearnedRouter, ScorerLimits as Patience, scorer_process
from baton.routing.learned_router import candidate, candidates, excerpt
from baton.routing.scorer_process import SHIPPED_FILES
from support import odd_scorer
from support.scripted_plans import StubWorker, answer_with, cloud, local, open_orchestra

pytestmark = pytest.mark.sampled(0.5)

SMALL = Card("small", "local", "Small 7B", model="qwen2.5-7b")
FAR = Card(
    "far",
    "cloud",
    "Far",
    privacy=Label.CLOUD,
    remote=True,
    model="openai/far",
    price=Price(Rates(10**9, 2 * 10**9, 10**9, 10**9)),
)
CLOCK = Card("clock", "tool", "Clock")
ROSTER = (SMALL, FAR, CLOCK)

PATIENT = Patience(warm=30, cold=60)
"""For what is not about time: the machine may be busy."""

Make = Callable[..., LearnedRouter]


def material(text: str) -> Material:
    return Material((Turn("t", "c", None, Role.USER, text, TurnStatus.DONE, Label.CLOUD, 0.0),))


@pytest.fixture
async def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Make routers whose child does what a prompt says; they are closed in the end."""
    script = str(Path(odd_scorer.__file__))
    monkeypatch.setattr(process, "command", lambda name: [sys.executable, "-P", script])
    async with AsyncExitStack() as closing:

        def made(name: str = "fine", limits: Patience = PATIENT) -> LearnedRouter:
            router = LearnedRouter(folder(tmp_path, name), limits=limits)
            closing.push_async_callback(router.aclose)
            return router

        yield made


def folder(tmp_path: Path, name: str) -> Path:
    place = tmp_path / name
    place.mkdir(exist_ok=True)
    for file in SHIPPED_FILES:
        (place / file).write_bytes(b"")
    return place


async def route(router: LearnedRouter, text: str) -> Route:
    return await router.route(material(text), ROSTER)


async def wait_until_loaded(router: LearnedRouter) -> int:
    """Wait until the child is ready; return its process."""
    await route(router, "hello")
    assert router.provider
    assert router.pid is not None
    return router.pid


# What it says


async def test_an_estimate_leads_where_the_rule_would_not(make: Make) -> None:
    router = make()
    found = await route(router, "Name a colour.")
    assert found.estimate is not None
    assert (found.where, found.need.kind) == ("cloud", "reasoning")
    assert "gets about 4 in 10 of those right" in found.why
    assert found.scores["quality"] == pytest.approx(0.4)
    assert found.scores["gain"] == pytest.approx(0.55)
    assert (found.scores["novelty"], found.scores["tokens"]) == (0.0, len("Name a colour."))
    assert found.scores["tokens_p99"] == found.estimate.tokens_p99 == 3 * len("Name a colour.")


async def test_a_tool_that_answers_alone_needs_no_estimate(make: Make) -> None:
    router = make()
    assert (await route(router, "What time is it?")).tool == "clock"
    assert router.pid is None


async def test_a_judgement_and_a_likeness_come_from_the_child(make: Make) -> None:
    router = make()
    drafts = [Draft("small", "a"), Draft("small", "b")]
    known = await route(router, "hello")
    judged = await router.judge(material("hello"), known, ROSTER, drafts)
    assert (judged.best, judged.gain["far"]) == (1, 0.25)
    assert await router.likeness(["a", "b"]) == [[0.5, 0.5], [0.5, 0.5]]


async def test_one_text_and_no_draft_need_no_child(make: Make) -> None:
    router = make()
    judged = await router.judge(material("hello"), Route("local", ""), ROSTER, [])
    assert (judged.quality, judged.agreement) == ((), None)
    assert await router.likeness(["a"]) == [[1.0]]
    assert router.pid is None


def test_a_worker_is_shown_to_the_router_as_its_card_says() -> None:
    assert candidate(FAR) == Candidate("far", "openai/far", 0.0, 2.0, True)
    assert candidate(SMALL) == Candidate("small", "qwen2.5-7b", 7.0)
    assert [one.id for one in candidates(ROSTER)] == ["small", "far"]


# Privacy


async def test_a_private_prompt_stays_against_the_routers_wish(make: Make) -> None:
    """It is scored, and only here: the child's own process is the only one that is asked."""
    seen: list[str] = []
    for label, where in ((Label.CLOUD, "far"), (Label.LOCAL, "small")):
        workers = (
            StubWorker(local(), answer_with("mine")),
            StubWorker(cloud(), answer_with("theirs")),
        )
        async with open_orchestra(*workers, choice="once") as session:
            router = make()
            session.orchestra.configure(router=router)
            prompt = "Why did the Roman empire fall?"
            view = await session.execute(None, prompt, PromptLimits(label=label, strategy="hybrid"))
            assert router.provider
            assert view.routed is not None
            seen += [name for name, worker in session.workers.items() if worker.requests]
            assert view.steps[-1].worker == where
    assert seen == ["small", "far", "small"]


# When it can't


ODD = ["nan", "huge", "text", "none", "stranger", "missing", "kinds", "endless", "unsaid"]


@pytest.mark.parametrize("text", ODD)
async def test_an_invalid_answer_is_not_believed_and_ends_the_child(make: Make, text: str) -> None:
    router = make()
    await wait_until_loaded(router)
    assert (await route(router, text)).estimate is None
    assert router.pid is None


async def test_a_vector_comes_from_the_child(make: Make) -> None:
    router = make()
    assert len((await router.embed("hello")).values) == 4 * 384
    assert (await router.embed("long")).values == b""


@pytest.mark.parametrize("text", ["short", "nan", "raise", "die"])
async def test_what_is_not_a_vector_is_not_believed(make: Make, text: str) -> None:
    router = make()
    with pytest.raises(WorkerUnavailable):
        await router.embed(text)


async def test_an_invalid_judgement_of_drafts_is_not_believed(make: Make) -> None:
    router = make()
    drafts = [Draft("small", "a", "1", 1), Draft("far", "a", "1", 1)]
    judged = await router.judge(material("invalid"), Route("local", ""), ROSTER, drafts)
    assert judged.agreement == 1.0
    assert judged.best < 2
    await router.aclose()
    assert await router.likeness(["invalid", "invalid"]) == [[1.0, 1.0], [1.0, 1.0]]


async def test_a_question_that_fails_costs_only_itself(make: Make) -> None:
    router = make()
    pid = await wait_until_loaded(router)
    assert (await route(router, "raise")).estimate is None
    assert (await route(router, "hello")).estimate is not None
    assert router.pid == pid


async def test_a_slow_answer_is_not_waited_for_nor_taken_for_the_next_one(make: Make) -> None:
    router = make(limits=Patience(warm=0.2, cold=60))
    pid = await wait_until_loaded(router)
    assert (await route(router, "sleep 1")).estimate is None
    found = await route(router, "hello")
    for _ in range(200):
        if found.estimate is not None:
            break
        await asyncio.sleep(0.05)
        found = await route(router, "hello")
    assert found.estimate is not None
    assert found.scores["tokens"] == len("hello")
    assert router.pid == pid


async def test_no_prompt_waits_for_a_child_that_still_loads(make: Make) -> None:
    router = make("slow", Patience(warm=30, cold=0.05))
    assert (await route(router, "hello")).estimate is None
    for _ in range(1000):
        if not router.provider:
            await asyncio.sleep(0.05)
    assert (await route(router, "hello")).estimate is not None


async def test_while_a_worker_loads_anyway_the_first_prompt_waits(make: Make) -> None:
    router = make("slow", Patience(warm=30, cold=0.05, idle=60))
    router.wait_while(lambda: True)
    assert (await route(router, "hello")).estimate is not None


async def test_once_the_worker_is_there_no_prompt_waits_for_the_router(make: Make) -> None:
    router = make("slow", Patience(warm=30, cold=0.05, idle=60))
    loading = iter([True, True, False])
    router.wait_while(lambda: next(loading))
    assert (await route(router, "hello")).estimate is None
    assert next(loading, None) is None


async def test_a_child_that_dies_is_started_again_and_left_alone_in_the_end(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", (0.0, 0.0, 0.0))
    router = make()
    said: list[str] = []
    router.on_warning = said.append
    for _ in range(supervisor.MAX_DEATHS):
        await wait_until_loaded(router)
        assert (await route(router, "die")).estimate is None
    assert router.pid is None
    assert (await route(router, "hello")).estimate is None
    assert router.pid is None
    assert len(said) == 1
    assert "failed 3 times" in said[0]
    await router.aclose()
    assert (await route(router, "hello")).estimate is not None


async def test_after_a_death_no_prompt_waits_for_the_next_child(make: Make) -> None:
    router = make()
    await wait_until_loaded(router)
    await route(router, "die")
    assert (await route(router, "hello")).estimate is None
    assert router.pid is None


async def test_a_child_killed_in_the_middle_of_a_question_leaves_it_to_the_rule(
    make: Make,
) -> None:
    router = make()
    pid = await wait_until_loaded(router)
    asked = asyncio.create_task(route(router, "sleep 60"))
    await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    assert (await asked).estimate is None


async def test_a_child_that_owes_an_answer_for_long_is_ended(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", (0.0, 0.0, 0.0))
    router = make(limits=Patience(warm=0.05, cold=60))
    pid = await wait_until_loaded(router)
    await route(router, "sleep 600")
    monkeypatch.setattr(scorer_process, "STUCK_SECONDS", 0.0)
    assert await wait_until_loaded(router) != pid


async def test_two_at_once_get_each_their_own(make: Make) -> None:
    router = make()
    found = await asyncio.gather(*(route(router, "x" * n) for n in range(1, 20)))
    assert [one.scores["tokens"] for one in found] == list(range(1, 20))


async def test_closing_while_it_is_busy_leaves_the_question_to_the_rule(make: Make) -> None:
    router = make()
    await wait_until_loaded(router)
    asked = asyncio.create_task(route(router, "sleep 60"))
    await asyncio.sleep(0.1)
    await router.aclose()
    assert (await asked).estimate is None
    assert (await route(router, "hello")).estimate is not None


async def test_a_cancelled_question_is_not_computed_and_not_owed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = make()
    pid = await wait_until_loaded(router)
    busy = asyncio.create_task(route(router, "sleep 1"))
    await asyncio.sleep(0.1)
    unwanted = asyncio.create_task(route(router, "die"))
    await asyncio.sleep(0.1)
    unwanted.cancel()
    assert (await busy).estimate is not None
    assert (await route(router, "hello")).estimate is not None
    monkeypatch.setattr(scorer_process, "STUCK_SECONDS", 0.0)
    assert await wait_until_loaded(router) == pid


def _stand_still() -> None:
    """Keep the loop from turning, so that what comes next comes in its order."""
    time.sleep(0.05)


async def test_a_caller_stopped_as_the_child_dies_leaves_nothing_unheard(make: Make) -> None:
    router = make()
    pid = await wait_until_loaded(router)
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: unheard.append(what))
    asked = [asyncio.create_task(route(router, "sleep 5")) for _ in range(12)]
    await asyncio.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    while router.pid is not None:
        _stand_still()
    _stand_still()
    for task in asked:
        task.cancel()
        await asyncio.sleep(0)
    while asked:
        await asyncio.wait([asked.pop()])
    del task
    gc.collect()
    assert unheard == []


async def test_broken_files_are_reported_once_with_what_to_do(make: Make) -> None:
    router = make("broken")
    said: list[str] = []
    router.on_warning = said.append
    assert router.warning == ""
    for _ in range(3):
        assert (await route(router, "hello")).estimate is None
    assert said == [router.warning]
    assert "it is broken" in said[0]
    assert "git checkout models/router" in said[0]


async def test_what_turns_out_between_prompts_is_reported_as_well(make: Make) -> None:
    router = make("late", Patience(warm=30, cold=0.05))
    said: asyncio.Queue[str] = asyncio.Queue()
    router.on_warning = said.put_nowait
    assert (await route(router, "hello")).estimate is None
    assert said.empty()
    assert "it is broken" in await asyncio.wait_for(said.get(), 60)
    assert (await route(router, "hello")).estimate is None
    assert said.empty()


@pytest.mark.parametrize("file", SHIPPED_FILES)
async def test_missing_files_are_reported_before_anything_is_started(make: Make, file: str) -> None:
    router = make()
    (router.folder / file).unlink()
    router = make()  # makes the file again
    (router.folder / file).unlink()
    router = LearnedRouter(router.folder)
    assert "isn't in" in router.warning
    router.on_warning = pytest.fail
    assert (await route(router, "hello")).estimate is None
    assert router.pid is None


async def test_a_library_that_is_not_installed_is_reported(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name[0] == "o" else 1)
    router = make()
    assert "onnxruntime isn't installed" in router.warning
    assert (await route(router, "hello")).estimate is None


# What is sent


@pytest.mark.parametrize(
    "text", ["", "a", "\ud800", "a\0b", "\u202eabc", "👩‍👩‍👧" * 9000, "x" * 10**6]
)
def test_what_is_sent_is_bounded_and_whole(text: str) -> None:
    sent = excerpt(text)
    assert len(sent) <= 12_001
    assert sent.encode() is not None
    assert text[:100].replace("\ud800", "\ufffd") == sent[:100]
