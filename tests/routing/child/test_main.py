"""The scorer in its real process, with the router that Baton ships: any prompt, any broken file."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from baton.core.labels import Label
from baton.core.messages import Card, Role, Turn, TurnStatus
from baton.core.plan_types import KINDS, Material, Need
from baton.core.planning.turn_roles import (
    TurnPosition,
    TurnRole,
    WorkerFacts,
    position_features,
    scores_by_rule,
    worker_features,
)
from baton.core.ports import Route
from baton.core.routing_types import Draft
from baton.ipc.messages import Failed, Message
from baton.ipc.process import Child, ChildDied, ChildProcess, environment
from baton.routing import LearnedRouter, ScorerLimits, shipped_folder
from baton.routing.learned_router import candidates
from baton.routing.messages import REPLIES, EstimateQuality, EstimateReply, LoadRouter, RouterLoaded
from baton.routing.scorer_process import missing_part

pytestmark = pytest.mark.sampled(0.5)

PATIENT = ScorerLimits(warm=30, cold=60)
"""For what is not about time: the machine may be busy."""

SMALL = Card("small", "local", "SmolLM2 135M", parameters=134_515_008)
GOOD = Card("good", "local", "Qwen2.5 7B", model="qwen2.5-7b")
FAR = Card("far", "cloud", "Far", privacy=Label.CLOUD, model="openai/gpt-4o", remote=True)
ROSTER = (SMALL, GOOD, FAR)

PROMPTS: Mapping[str, str] = {
    "nothing": "",
    "one character": "x",
    "a megabyte": "word " * 200_000,
    "a megabyte without a space": "x" * 1_000_000,
    "a megabyte of brackets": "([{" * 333_333,
    "a megabyte of lines": "A) \n" * 250_000,
    "lone surrogates": "\ud800 what \udfff?",
    "NUL": "what\0is\0this",
    "control characters": "".join(map(chr, range(32))) * 50,
    "right to left": "ما هي عاصمة فرنسا؟ \u202e?ecnarF",
    "Hebrew": "מהי בירת צרפת?",
    "Chinese": "法国的首都是什么。" * 300,
    "Thai without spaces": "เมืองหลวงของฝรั่งเศสคืออะไร" * 300,
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈" * 2000,
    "combining marks": "e" + "\u0301" * 5000,
    "private use": "\ue000\U0010ffff" * 500,
    "any bytes": bytes(range(256)).decode("latin-1") * 40,
}


def material(text: str) -> Material:
    return Material((Turn("t", "c", None, Role.USER, text, TurnStatus.DONE, Label.CLOUD, 0.0),))


async def route(router: LearnedRouter, text: str) -> Route:
    return await router.route(material(text), ROSTER)


@pytest.fixture
async def router() -> AsyncIterator[LearnedRouter]:
    router = LearnedRouter(limits=PATIENT)
    yield router
    await router.aclose()


shares_loop = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[LearnedRouter]:
    """Return a router whose child answers several tests."""
    router = LearnedRouter(limits=PATIENT)
    yield router
    await router.aclose()


def copy_shipped_files(tmp_path: Path) -> Path:
    """Return a folder with the shipped files in it, to be spoilt."""
    folder = tmp_path / "router"
    folder.mkdir()
    for file in shipped_folder().iterdir():
        (folder / file.name).symlink_to(file)
    return folder


def test_all_that_the_router_needs_is_there() -> None:
    assert missing_part(shipped_folder()) == ("", "")


@shares_loop
async def test_any_prompt_is_answered_by_the_same_child(shared: LearnedRouter) -> None:
    await route(shared, "hello")
    pid = shared.pid
    for name, text in PROMPTS.items():
        estimate = (await route(shared, text)).estimate
        assert estimate is not None, name
        assert estimate.quality.keys() == {"small", "good", "far"}, name
        assert set(estimate.kinds) <= set(KINDS), name
    assert shared.pid == pid


async def test_the_same_prompt_is_judged_alike_each_time(router: LearnedRouter) -> None:
    texts = ["What is the capital of France?", "Prove that there are infinitely many primes."]
    first = [(await route(router, text)).estimate for text in texts]
    await router.aclose()
    assert [(await route(router, text)).estimate for text in texts] == first


@shares_loop
async def test_drafts_of_any_kind_are_judged(shared: LearnedRouter) -> None:
    known = await route(shared, "What is 17 times 23, and why?")
    for name, text in PROMPTS.items():
        drafts = [
            Draft("small", text, "391", len(text), cut=True, confidence=-0.1, wrong=0),
            Draft("good", text, text[:50], len(text), refused=True, wrong=2),
            Draft("gone", "", "", 0),
        ]
        judged = await shared.judge(material(text), known, ROSTER, drafts)
        assert len(judged.quality) == 3, name
        assert judged.gain.keys() <= {"small", "good", "far"}, name


@shares_loop
async def test_texts_of_one_meaning_are_more_alike(shared: LearnedRouter) -> None:
    texts = ["The capital of France is Paris.", "Paris is France's capital.", "Add two eggs."]
    table = await shared.likeness([*texts, *PROMPTS.values()])
    assert len(table) == len(texts) + len(PROMPTS)
    assert table[0][1] > table[0][2] + 0.2


@shares_loop
async def test_turns_are_scored_for_every_role_and_worker(shared: LearnedRouter) -> None:
    for workers in (
        [WorkerFacts(0.9, 4.0, 0.0)],
        [WorkerFacts(0.1, 1.0, 0.0), WorkerFacts(0.9, 4.0, 0.0)],
    ):
        figures = [worker_features(worker, n, TurnPosition()) for n, worker in enumerate(workers)]
        position = position_features(TurnPosition(), Need("knowledge", 3))
        scores = await shared.score_turns("Who built the Parthenon?", position, figures)
        assert [len(row) for row in scores] == [len(workers)] * len(TurnRole)
        assert scores != scores_by_rule(figures)
        works = scores[TurnRole.WORKER]
        assert works == sorted(works)


@shares_loop
async def test_two_routes_at_once_are_two_answers(shared: LearnedRouter) -> None:
    texts = [f"What is {n} times {n + 1}, and what is it good for?" for n in range(8)]
    one_by_one = [(await route(shared, text)).estimate for text in texts]
    at_once = await asyncio.gather(*(route(shared, text) for text in texts))
    assert [one.estimate for one in at_once] == one_by_one


async def test_within_the_usual_limits_a_prompt_is_routed_either_way() -> None:
    router = LearnedRouter()
    try:
        for text in PROMPTS.values():
            found = await route(router, text)
            assert found.where in ("local", "plan", "cloud")
            assert found.why
    finally:
        await router.aclose()


# Broken files


SPOILT = {
    "no model": ("encoder.onnx", b"\0" * 100),
    "half a model": ("encoder.onnx", None),
    "no words": ("tokenizer.json", b'{"version": "1.0"}'),
    "half the words": ("tokenizer.json", None),
    "no heads": ("heads.npz", b"PK\x03\x04 nothing"),
    "no archive": ("heads.npz", b"nothing"),
    "half the heads": ("heads.npz", None),
    "other heads": ("heads.json", b'{"format": 999}'),
    "empty": ("heads.json", b""),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spoilt", SPOILT)
async def test_a_broken_file_leaves_it_to_the_rule_and_says_so(tmp_path: Path, spoilt: str) -> None:
    folder = copy_shipped_files(tmp_path)
    name, data = SPOILT[spoilt]
    whole = (folder / name).read_bytes()
    (folder / name).unlink()
    (folder / name).write_bytes(whole[: len(whole) // 2] if data is None else data)
    said: list[str] = []
    router = LearnedRouter(folder, limits=PATIENT)
    router.on_warning = said.append
    try:
        for _ in range(2):
            found = await route(router, "What is the capital of France?")
            assert (found.estimate, found.need.kind) == (None, "knowledge")
    finally:
        await router.aclose()
    assert len(said) == 1
    assert "A rule of length and task decides" in said[0]
    assert "git checkout models/router" in said[0]
    assert str(folder) in said[0]
    assert "pickle" not in said[0]
    assert ".." not in said[0]


async def test_what_the_child_can_not_load_is_reported_in_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    child = Child(ChildProcess("scorer", environment()), REPLIES)
    try:
        child.send(LoadRouter(folder))
        assert (await child.receive()).error == "ModelFileError"
        failed = await child.call(EstimateQuality("hello", [])).receive()
        assert failed.error == "WorkerUnavailable"
    finally:
        child.kill()
        await child.gone()


# The process


async def test_killed_in_the_middle_of_a_question_it_is_replaced_unnoticed(
    router: LearnedRouter,
) -> None:
    await route(router, "hello")
    assert router.pid is not None
    many = [asyncio.create_task(route(router, PROMPTS["Chinese"] + str(n))) for n in range(20)]
    await asyncio.sleep(0.02)
    os.kill(router.pid, signal.SIGKILL)
    found = await asyncio.gather(*many)
    assert found[-1].estimate is None
    assert all(one.need.kind in KINDS for one in found)


async def test_it_knows_no_secret_and_has_no_socket(
    router: LearnedRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    await route(router, "hello")
    child = psutil.Process(router.pid)
    assert not {"OPENAI_API_KEY", "HTTPS_PROXY", "BATON_HOME"} & child.environ().keys()
    assert child.net_connections() == []
    assert child.children() == []


_FRONT = """
import asyncio, sys
from baton.routing.messages import REPLIES, EstimateQuality, EstimateReply, LoadRouter, RouterLoaded
from baton.routing import LearnedRouter, ScorerLimits
from baton.core.routing_types import Candidate
async def main():
    router = LearnedRouter(limits=ScorerLimits(warm=30, cold=60))
    await router.estimate("hello", [Candidate("a")])
    print(router.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_it_ends_with_its_front() -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _FRONT], stdout=subprocess.PIPE, text=True
    ) as front:
        try:
            assert front.stdout is not None
            child = psutil.Process(int(front.stdout.readline()))
        finally:
            front.kill()
    child.wait(timeout=60)


class UnknownMessage(Message, tag="sorcery"):
    pass


async def test_an_invalid_message_from_the_front_is_refused_without_an_end() -> None:
    child = Child(ChildProcess("scorer", environment()), REPLIES)
    try:
        child.send(UnknownMessage())
        assert isinstance(await child.receive(), Failed)
        child.send(LoadRouter(shipped_folder()))
        assert isinstance(await child.receive(), RouterLoaded)
        child.send(UnknownMessage())
        assert isinstance(await child.receive(), Failed)
        reply = await child.call(EstimateQuality("hello", candidates(ROSTER))).receive()
        assert isinstance(reply, EstimateReply)
    except ChildDied:
        pytest.fail(child.stderr_end)
    finally:
        child.kill()
        await child.gone()


async def test_nothing_is_kept_for_a_remote_worker(tmp_path: Path) -> None:
    """ONNX Runtime would write a number that stands for the user, and events to report."""
    child = Child(
        ChildProcess("scorer", environment({**os.environ, "HOME": str(tmp_path)})), REPLIES
    )
    try:
        child.send(LoadRouter(shipped_folder()))
        assert isinstance(await child.receive(), RouterLoaded)
    finally:
        child.kill()
        await child.gone()
    assert await asyncio.to_thread(lambda: [*tmp_path.iterdir()]) == []


def test_a_checkout_without_the_folder_says_so(tmp_path: Path) -> None:
    folder = copy_shipped_files(tmp_path)
    shutil.rmtree(folder)
    router = LearnedRouter(folder)
    assert "git checkout models/router" in router.warning
