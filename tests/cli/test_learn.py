"""`baton learn` on real histories, with the real router in its child."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from baton.core.routing_types import Candidate
from baton.history import Store
from baton.platform.settings import find_paths
from baton.routing import LearnedRouter, ScorerLimits, learned_file, scorer_process
from baton.routing.personalisation import MIN_ANSWERS
from support.command_line import Call
from support.rated_history import NOW, RatedPrompt, remember

pytestmark = pytest.mark.sampled(0.5)

EASY = (
    "Write a cheerful greeting for {n} guests.",
    "Rephrase politely: give me {n} spoons now.",
    "Name a flower that suits a party of {n}.",
)
HARD = (
    "Prove that the sum of the first {n} odd numbers is a square, by induction.",
    "Find all integer solutions of x^2 - {n} y^2 = 1 with x below 1000.",
    "Implement a lock-free queue for {n} producers in C++ and argue why it is right.",
)

PROBES = (
    "Hi",
    "Thank you very much!",
    "What is the capital of France?",
    "Translate 'good morning' into German.",
    "Fix the spelling: I has a apple.",
    "Write a limerick about a cat.",
    "If x^3 - 3x + 1 = 0, find the sum of the fifth powers of its roots.",
    "Prove that there are infinitely many primes congruent to 3 mod 4.",
    "Implement a concurrent hash map in C++ with tests.",
    "Explain the differences between two legal forms of a company, with their taxes.",
)

SMALL = Candidate("small", "smollm2-135m-instruct", 0.135)
CLOUD = Candidate("gpt", "openai/gpt-5-mini", dollars=2.0, outside=True)

LONG = 10_000
"""How many answers an abused history has; a few of them by default."""


@pytest.fixture(autouse=True)
def _roster() -> None:
    file = find_paths().config_file
    file.parent.mkdir(parents=True)
    file.write_text('[[workers]]\nid = "gpt"\nkind = "cloud"\nmodel = "openai/gpt-5-mini"\n')


def gains(learned: bool = True) -> list[float]:
    """Return how much the router expects the cloud to gain on prompts of all kinds."""

    async def ask() -> list[float]:
        file = learned_file(find_paths().data) if learned else None
        router = LearnedRouter(learned=file, limits=ScorerLimits(60, 60))
        try:
            found = [await router.estimate(probe, [SMALL, CLOUD]) for probe in PROBES]
        finally:
            await router.aclose()
        assert router.warning == ""
        return [estimate.gain["gpt"] for estimate in found if estimate is not None]

    return asyncio.run(ask())


@cache
def shipped_gains() -> list[float]:
    """Return the same of the router as it comes."""
    return gains(learned=False)


def learn_report(call: Call, *options: str) -> dict[str, Any]:
    """Learn, and return what was printed as JSON."""
    done = call("learn", "--json", *options)
    assert (done.code, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def plain(count: int) -> Iterator[RatedPrompt]:
    """Have a person be content with easy things, and not with hard ones."""
    for n in range(count):
        texts, mark = (EASY, "good") if n % 2 else (HARD, "bad")
        yield RatedPrompt(texts[n % 3].format(n=n), signals={mark: NOW + n})


def test_too_few_answers_are_said_to_be(call: Call) -> None:
    assert call("learn").out.startswith("There is no answer to learn from yet.\n")
    remember(plain(MIN_ANSWERS - 1))
    done = call("learn")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"There are {MIN_ANSWERS - 1} answers to learn from: ")
    assert "baton history rate" in done.out
    assert learn_report(call)["kept"] is False
    assert call("learn", "-q").out == done.out
    assert not learned_file(find_paths().data).exists()


def test_there_may_be_nothing_to_take_back(call: Call) -> None:
    assert call("learn", "--undo").out.startswith("There is nothing to undo")
    assert call("learn", "--forget").out.startswith("There is nothing to forget")
    assert call("learn", "--undo", "--forget").code == 2
    assert json.loads(call("learn", "--undo", "--json").out)["learned_at"] is None


def test_a_router_that_is_missing_is_an_error(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorer_process, "shipped_folder", lambda: tmp_path / "nothing")
    remember(plain(MIN_ANSWERS))
    done = call("learn")
    assert (done.code, done.out) == (6, "")
    assert "The trained router isn't in" in done.err
    assert not list(learned_file(find_paths().data).parent.iterdir())


def test_what_is_learned_changes_what_is_expected_until_it_is_taken_back(call: Call) -> None:
    remember(plain(120))
    file = learned_file(find_paths().data)
    shipped = shipped_gains()
    done = call("learn")
    assert done.code == 0
    assert "`baton learn --undo` takes that back." in done.out
    assert not file.stat().st_mode & 0o077
    after = gains()
    assert after != shipped
    assert sum(after[6:9]) - sum(after[:3]) > sum(shipped[6:9]) - sum(shipped[:3])
    with zipfile.ZipFile(file) as members:
        inside = b"".join(members.read(name) for name in members.namelist())
    for word in ("induction", "cheerful", "lock-free"):
        assert word.encode() not in inside
        assert word.encode("utf-32-le") not in inside
    assert "as it came" in call("learn", "--undo").out
    assert gains() == shipped


# Histories that would spoil a router


def all_bad(count: int) -> Iterator[RatedPrompt]:
    """Nothing was ever good."""
    for n in range(count):
        yield RatedPrompt((EASY + HARD)[n % 6].format(n=n), signals={"bad": NOW + n})


def all_good(count: int) -> Iterator[RatedPrompt]:
    """Everything was good."""
    for n in range(count):
        yield RatedPrompt((EASY + HARD)[n % 6].format(n=n), signals={"good": NOW + n})


def contradictory(count: int) -> Iterator[RatedPrompt]:
    """The same was good, and was bad."""
    for n in range(count):
        mark = ("good", "bad")[n % 2]
        yield RatedPrompt((EASY + HARD)[n // 2 % 6].format(n=n // 12), signals={mark: NOW + n})


def one_prompt(count: int) -> Iterator[RatedPrompt]:
    """One prompt was asked over and over, and never answered well."""
    for n in range(count):
        yield RatedPrompt("Is it going to rain?", signals={"bad": NOW + n})


def empty(count: int) -> Iterator[RatedPrompt]:
    """There are no texts at all."""
    for n in range(count):
        yield RatedPrompt(("", " \n", "\u200b")[n % 3], "", signals={"bad": NOW + n})


def huge(count: int) -> Iterator[RatedPrompt]:
    """Books were sent."""
    for n in range(max(MIN_ANSWERS, count // 100)):
        text = f"{n} " + ("lorem ipsum " * 50_000, "\U0001f600" * 100_000, "\0x" * 200_000)[n % 3]
        yield RatedPrompt(text, "So long. " * 10_000, signals={"bad": NOW + n})


def wrong_clock(count: int) -> Iterator[RatedPrompt]:
    """It was 1970, and it will be 5138."""
    for n in range(count):
        at = (0.0, 9.9e10, 1e-300)[n % 3]
        yield RatedPrompt((EASY + HARD)[n % 6].format(n=n), signals={"bad": at}, at=at)


def unknown_workers(count: int) -> Iterator[RatedPrompt]:
    """Everybody who answered is gone."""
    for n in range(count):
        worker = ("gone", "", "../../small", "\u202egpt")[n % 4]
        yield RatedPrompt(EASY[n % 3].format(n=n), signals={"bad": NOW}, worker=worker)


def copies(count: int) -> Iterator[RatedPrompt]:
    """Everything was copied, wanted again, edited and asked of a stronger worker."""
    signals = dict.fromkeys(("copied", "again", "edited", "stronger"), NOW)
    for n in range(count):
        yield RatedPrompt(
            (EASY + HARD)[n % 6].format(n=n), signals=dict(list(signals.items())[: n % 4])
        )


def cloud_hated(count: int) -> Iterator[RatedPrompt]:
    """Only the local worker was ever good."""
    for n in range(count):
        worker, mark = (("gpt", "bad"), ("small", "good"))[n % 2]
        yield RatedPrompt((EASY + HARD)[n % 6].format(n=n), signals={mark: NOW + n}, worker=worker)


def mixed_prompts(count: int) -> Iterator[RatedPrompt]:
    """All of it at once."""
    kinds = (*SPOILT, plain)
    for kind in kinds:
        yield from kind(max(MIN_ANSWERS, count // len(kinds)))


SPOILT: tuple[Callable[[int], Iterator[RatedPrompt]], ...] = (
    all_bad,
    all_good,
    contradictory,
    one_prompt,
    empty,
    huge,
    wrong_clock,
    unknown_workers,
    copies,
    cloud_hated,
)


def spoil_and_learn(
    call: Call, history: Callable[[int], Iterator[RatedPrompt]], count: int
) -> None:
    """Learn from such a history: it may come to nothing, but never to a router that is one-sided.

    One-sided is one that would ask the cloud for every prompt, or never.
    """
    shipped = shipped_gains()
    remember(history(count))
    found = learn_report(call)
    assert found["notes"]
    assert all(note and "nan" not in note for note in found["notes"])
    assert found["kept"] is learned_file(find_paths().data).exists()
    assert not list(find_paths().data.rglob("new-*"))
    after = gains()
    assert len(after) == len(PROBES)
    assert max(after) - min(after) > 0.05, "prompts are distinguished"
    assert max(after) > 0.05, "it isn't never"
    assert min(after) < min(shipped) + 0.15, "it isn't always"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("history", [all_bad, one_prompt, mixed_prompts])
def test_a_spoilt_history_spoils_nothing(
    call: Call, history: Callable[[int], Iterator[RatedPrompt]]
) -> None:
    spoil_and_learn(call, history, 60)


@pytest.mark.long
@pytest.mark.parametrize("history", [*SPOILT, mixed_prompts])
def test_a_long_spoilt_history_spoils_nothing(
    call: Call, history: Callable[[int], Iterator[RatedPrompt]]
) -> None:
    spoil_and_learn(call, history, LONG)


def test_deleted_answers_are_not_learned_from(call: Call) -> None:
    remember(plain(MIN_ANSWERS), together=MIN_ANSWERS // 2)

    async def hide() -> None:
        store = Store.open(find_paths().database)
        first, second = await store.conversations()
        await store.hide(first.id)
        await store.purge(second.id)
        await store.aclose()

    look = learn_report(call, "--dry-run")
    assert look["answers"] == MIN_ANSWERS
    assert 0 < look["held"] <= look["used"] <= MIN_ANSWERS
    assert not learned_file(find_paths().data).exists()
    asyncio.run(hide())
    assert learn_report(call)["answers"] == 0


@pytest.mark.sampled(0.5)
def test_two_batons_may_learn_at_once(call: Call) -> None:
    remember(plain(MIN_ANSWERS))
    command = [sys.executable, "-I", "-m", "baton", "learn"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    texts = [child.communicate(timeout=120)[0] for child in both]
    assert [child.returncode for child in both] == [0, 0]
    assert all(text.startswith(f"There are {MIN_ANSWERS} answers") for text in texts)
    assert not list(find_paths().data.rglob("new-*"))
    assert len(gains()) == len(PROBES), "all there is can be read"
