"""`baton bench --history`: another pace or ceiling on prompts that were really run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from baton.core.history_types import Signal
from baton.core.labels import Label
from baton.core.messages import Card, Chunk, Finish, Request, RequestSent, Text, Usage
from baton.core.money import NANO, Price, Rates, parse_usd
from baton.history import Store
from baton.money import Ledger
from baton.platform.paths import find_paths
from support.command_line import Call
from support.past_prompts import SMALL, PastPrompt, live

pytestmark = pytest.mark.sampled(0.34)

GPT = Card(
    "gpt",
    "cloud",
    "gpt-4o",
    privacy=Label.CLOUD,
    context=128_000,
    price=Price(Rates(5 * NANO // 2, 10 * NANO, 5 * NANO // 4, 5 * NANO // 2)),
    provider="openai",
    model="openai/gpt-4o",
    remote=True,
)
CONFIG = """\
[budget]
day = "1"

[[workers]]
id = "gpt"
kind = "cloud"
model = "openai/gpt-4o"
price = { input = "2.5", output = "10" }
"""

HARD = [
    f"Prove rigorously that {n} divides the product of any {n} consecutive integers."
    for n in range(3, 9)
]
EASY = ["Hello", "Good morning", "Thanks", "Hi"]


def far(request: Request) -> Iterable[Chunk]:
    yield RequestSent("api.openai.com", 900)
    yield Text("It follows from the binomial coefficient.")
    yield Usage(120, 400, Finish.STOP)


def day(*said: PastPrompt, allowed: int = NANO) -> list[str]:
    return asyncio.run(live(said, (SMALL, GPT), {"gpt": far}, allowed))


@pytest.fixture(autouse=True)
def config(home: Path) -> Path:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(CONFIG)
    return file


def bench_report(call: Call, *words: str) -> dict[str, Any]:
    done = call("bench", "--history", "7d", "--json", *words)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def ledger_totals() -> tuple[int, int]:
    """Return what the ledger holds: charged in all, and how many requests left."""

    async def look() -> tuple[int, int]:
        ledger = Ledger(find_paths().ledger)
        rows, sent = await ledger.usage("day"), await ledger.egress()
        await ledger.aclose()
        return sum(row.charged for row in rows), len(sent)

    return asyncio.run(look())


def test_what_happened_stands_beside_what_would_have(call: Call) -> None:
    day(*map(PastPrompt, HARD + EASY))
    before = ledger_totals()
    found = bench_report(call, "--policy", "frugal,best", "--budget", "0.01")
    then, frugal, best = found["rows"]
    assert [row["policy"] for row in found["rows"]] == ["as it was", "frugal", "best"]
    assert then["asked"] >= 3
    assert parse_usd(then["cost_usd"]) == before[0]
    assert found["prompts"] == len(HARD + EASY)
    assert found["weighed"] >= then["asked"]
    assert frugal["asked"] <= best["asked"] < then["asked"]
    assert parse_usd(best["cost_usd"]) <= parse_usd("0.01")
    assert frugal["expected_good"] <= best["expected_good"] <= then["expected_good"]
    assert ledger_totals() == before, "nothing was sent, nothing was spent"


def test_unestimated_prompts_are_estimated_here(call: Call) -> None:
    day(*(PastPrompt(prompt, strategy="single") for prompt in HARD + EASY), allowed=0)
    found = bench_report(call, "--policy", "best", "--budget", "1")
    assert (found["weighed"], found["prompts"]) == (0, len(HARD + EASY))
    then, best = found["rows"]
    assert (then["asked"], then["cost_usd"]) == (0, "0")
    assert best["asked"] >= len(HARD) / 2
    assert best["expected_good"] > then["expected_good"]


def test_without_options_the_settings_decide(call: Call) -> None:
    day(PastPrompt(HARD[0]))
    found = bench_report(call)
    assert [row["policy"] for row in found["rows"]] == ["as it was", "balanced"]
    assert found["ceilings_usd"] == {"day": "1"}


def test_what_the_user_said_counts_as_it_is(call: Call) -> None:
    day(
        *(PastPrompt(prompt, Signal.BAD, "single") for prompt in HARD[:3]),
        *(PastPrompt(prompt, Signal.GOOD, "single") for prompt in EASY[:2]),
    )
    found = bench_report(call, "--policy", "best")
    then, best = found["rows"]
    assert found["judged"] == 5
    assert then["expected_good"] == 2
    assert best["expected_good"] > 2, "help is expected to improve some bad answers"


def test_private_prompts_stay_here_under_any_policy(call: Call) -> None:
    day(*(PastPrompt(prompt, strategy="single", label=Label.LOCAL) for prompt in HARD))
    found = bench_report(call, "--policy", "best")
    assert found["closed"] == len(HARD)
    assert found["rows"][1]["asked"] == 0


def test_whom_the_user_named_no_policy_decides(call: Call) -> None:
    day(PastPrompt(HARD[0], worker="gpt"), PastPrompt(EASY[0]))
    found = bench_report(call)
    assert (found["named"], found["prompts"]) == (1, 1)
    assert found["rows"][0]["cost_usd"] == "0"


def test_deleted_and_older_prompts_are_not_looked_at(call: Call) -> None:
    day(PastPrompt(HARD[0]), PastPrompt(EASY[0]))

    async def hide() -> None:
        store = Store(find_paths().database)
        conversations = await store.conversations()
        await store.hide(next(c.id for c in conversations if c.title.startswith("Prove")))
        assert len(await store.runs.finished(0)) == 1
        assert await store.runs.finished(9e9) == []
        await store.aclose()

    asyncio.run(hide())
    assert bench_report(call)["prompts"] == 1


def test_a_user_reads_what_is_known_and_what_is_expected(call: Call) -> None:
    day(PastPrompt(HARD[0], Signal.GOOD), PastPrompt(HARD[1]), PastPrompt(EASY[0]))
    done = call("bench", "--history", "7d", "--policy", "frugal", "--budget", "0.10")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split("  ")[0] == "policy"
    assert lines[1].startswith("as it was")
    assert lines[2].startswith("frugal")
    assert max(map(len, lines[:3])) <= 80
    assert "frugal would have cost " in done.out
    assert "You rated 1 of 3 answers: " in done.out
    assert "Ceilings: $0.10 a day. Nothing was sent, and nothing was spent." in done.out


def test_offline_it_works_as_well(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    day(PastPrompt(HARD[0]), PastPrompt(EASY[0]))
    online = bench_report(call, "--policy", "best")
    monkeypatch.setenv("BATON_OFFLINE", "1")
    assert bench_report(call, "--policy", "best") == online


def test_an_empty_history_says_so_in_a_sentence(call: Call) -> None:
    done = call("bench", "--history", "30d", "--policy", "best")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("No prompt was answered since ")
    assert bench_report(call)["prompts"] == 0


def test_without_any_ceiling_there_is_nothing_to_try(call: Call, config: Path) -> None:
    config.write_text("")
    day(PastPrompt(EASY[0]))
    done = call("bench", "--history", "7d")
    assert done.code == 2
    assert "No ceiling is above zero" in done.err


def test_without_remote_workers_all_stays_here(call: Call, config: Path) -> None:
    config.write_text("")
    day(*(PastPrompt(prompt, strategy="single") for prompt in HARD))
    found = bench_report(call, "--budget", "1", "--policy", "best")
    assert (found["rows"][1]["asked"], found["closed"]) == (0, len(HARD))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--history", "7d", "--workers", "small"], "--workers can't be combined with --history"),
        (["--history", "7d", "--strategy", "route"], "--strategy can't be combined with --history"),
        (["x.jsonl", "--history", "7d"], "A file of questions can't be combined with --history"),
        (["--history", "7d", "--policy", "stingy"], "There is no policy 'stingy'"),
        (["--history", "soon"], "'soon' isn't a day"),
        (["--history", "7d", "--budget", "lots"], "lots"),
        (["x.jsonl", "--policy", "best"], "--policy can't be combined with questions"),
        (["x.jsonl"], "x.jsonl can't be read"),
        ([], "A file of QUESTIONS is missing"),
    ],
)
def test_what_does_not_go_together_is_said_in_a_sentence(
    call: Call, words: list[str], said: str
) -> None:
    day(PastPrompt(EASY[0], strategy="single"))
    done = call("bench", *words)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1
