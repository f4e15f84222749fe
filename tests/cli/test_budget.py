"""`baton budget`: ceilings are set and shown, prices have a source, charges can be given back."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from baton.cli.budget import budget_verdict
from baton.core.ledger_types import Scope, ScopeBalance, SpendingStyle, Standing
from baton.core.money import NANO
from baton.money import Ledger
from baton.platform.paths import find_paths
from baton.platform.settings import Settings, load_settings
from baton.workers.cloud import price_table
from support.command_line import Call, Process, write_settings
from support.sample_ledger import SampleCalls, bill


def scopes(call: Call) -> dict[str, dict[str, Any]]:
    shown = json.loads(call("budget", "show", "--json").out)
    return {scope["scope"]: scope for scope in shown["scopes"]}


def test_a_fresh_baton_can_not_spend_and_says_how_to_allow_it(call: Call) -> None:
    done = call("budget", "show")
    assert done.code == 0
    assert "The cloud is off: no ceiling is above $0. `baton budget set day 2`" in done.out
    assert json.loads(call("budget", "show", "--json").out)["cloud"] == "off"


def test_a_ceiling_is_set_in_the_file_and_for_running_batons(call: Call) -> None:
    async def run() -> None:
        running = Ledger(find_paths().ledger)
        try:
            await running.standing({})
            done = await asyncio.to_thread(call, "budget", "set", "day", "$2.50")
            assert done.code == 0
            assert "Today has a ceiling of $2.50" in done.err
            assert "The cloud is on. When to spend: ask each time" in done.err
            standing = await running.standing({Scope.DAY: 0})
            assert {r.scope: r.ceiling for r in standing.rooms}[Scope.DAY] == 5 * NANO // 2
            await asyncio.to_thread(call, "budget", "set", "day", "none")
            standing = await running.standing({Scope.DAY: 7 * NANO})
            assert {r.scope: r.ceiling for r in standing.rooms}[Scope.DAY] is None
        finally:
            await running.aclose()

    file = find_paths().config_file
    file.parent.mkdir(parents=True)
    file.write_text("# mine\n[screen]\nmouse = false\n")
    asyncio.run(run())
    assert file.read_text().startswith("# mine\n[screen]\nmouse = false\n")
    assert load_settings(file, {}).budget.day == ""


def test_a_ceiling_that_was_edited_holds_for_running_batons_too(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        running = Ledger(find_paths().ledger)
        try:
            await running.standing({})
            monkeypatch.setenv("EDITOR", "sed -i -e s/2/0.5/ -e /month/d")
            done = await asyncio.to_thread(process, "config", "edit")
            assert done.returncode == 0
            standing = await running.standing({Scope.DAY: 2 * NANO, Scope.MONTH: 9 * NANO})
            ceilings = {room.scope: room.ceiling for room in standing.rooms}
            assert (ceilings[Scope.DAY], ceilings[Scope.MONTH]) == (NANO // 2, None)
        finally:
            await running.aclose()

    file = find_paths().config_file
    file.parent.mkdir(parents=True)
    file.write_text('[budget]\nday = "2"\nmonth = 9\n')
    asyncio.run(run())


@pytest.mark.parametrize("amount", ["", "  "])
def test_no_amount_takes_no_ceiling_away(call: Call, amount: str) -> None:
    """As in a script whose variable is not set."""
    assert call("budget", "set", "day", "2").code == 0
    done = call("budget", "set", "day", amount)
    assert (done.code, "is not an amount of US dollars" in done.err) == (2, True)
    assert load_settings(find_paths().config_file, {}).budget.day == "2"


@pytest.mark.parametrize("before", ["", '[budget]\nday = "0.03" # mine\n'])
def test_a_ceiling_that_the_ledger_refuses_is_not_in_the_file(call: Call, before: str) -> None:
    file = find_paths().config_file
    file.parent.mkdir(parents=True)
    file.write_text(before)
    find_paths().ledger.mkdir(parents=True)
    done = call("budget", "set", "day", "5")
    assert done.code == 1
    assert "The ledger at" in done.err
    assert load_settings(file, {}).budget.day == ("0.03" if before else "")
    assert before.strip() in file.read_text()  # the comment, too


def test_the_policy_is_set(call: Call) -> None:
    done = call("budget", "set", "policy", "once")
    assert (done.code, "ask once in a conversation" in done.err) == (0, True)
    assert load_settings(find_paths().config_file, {}).budget.policy == "once"


def test_the_pace_is_set_and_shown(call: Call) -> None:
    shown = call("budget", "show").out
    assert "Its pace is balanced: where it clearly helps." in shown
    assert "  charged  " in shown, "as the app calls it"
    done = call("budget", "set", "pace", "Frugal")
    assert (done.code, "only where help gains much" in done.err) == (0, True)
    assert load_settings(find_paths().config_file, {}).budget.pace is SpendingStyle.FRUGAL
    assert "Its pace is frugal: only where" in call("budget", "show").out
    assert json.loads(call("budget", "show", "--json").out)["pace"] == "frugal"


@pytest.mark.parametrize(
    "args",
    [
        ("pace", "fast"),
        ("day", "lots"),
        ("day", "-1"),
        ("day", "1e9"),
        ("policy", "maybe"),
        ("week", "2"),
        ("day",),
        ("day", "NaN"),
    ],
)
def test_what_is_not_an_amount_or_policy_changes_nothing(call: Call, args: tuple[str, ...]) -> None:
    done = call("budget", "set", "--", *args)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert not find_paths().config_file.exists()


def test_a_variable_that_overrules_the_file_is_reported(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_BUDGET__DAY", "1")
    assert "BATON_BUDGET__DAY is set in this environment" in call("budget", "set", "day", "2").err


def test_what_was_spent_is_shown(call: Call, spent: SampleCalls) -> None:
    call("budget", "set", "day", "1")
    call("budget", "set", "session", "0.5")
    done = call("budget", "show")
    [today] = [line for line in done.out.splitlines() if line.startswith("today")]
    assert today.split()[1:] == ["$1.00", "$0.01", "$0.00", "$0.11", "$0.87"]
    assert "`baton budget release`" in done.out
    assert scopes(call) == {
        "session": {
            "scope": "session",
            "ceiling_usd": "0.5",
            "settled_usd": "0",
            "held_usd": "0",
            "unconfirmed_usd": "0",
            "left_usd": "0.5",
        },
        "day": {
            "scope": "day",
            "ceiling_usd": "1",
            "settled_usd": "0.012",
            "held_usd": "0",
            "unconfirmed_usd": "0.11",
            "left_usd": "0.878",
        },
        "month": {
            "scope": "month",
            "ceiling_usd": None,
            "settled_usd": "0.012",
            "held_usd": "0",
            "unconfirmed_usd": "0.11",
            "left_usd": None,
        },
    }


@pytest.mark.parametrize(
    ("settings", "rooms", "frozen", "says"),
    [
        ({"offline": True}, [(Scope.DAY, 2, 0)], "", "Baton is offline"),
        ({"budget": {"policy": "never"}}, [(Scope.DAY, 2, 0)], "", "policy is never"),
        ({}, [(Scope.DAY, 2, 0)], "it charged more.", "frozen: it charged more"),
        ({}, [(Scope.DAY, 2, 2), (Scope.MONTH, 9, 0)], "", "used up for today"),
        ({}, [(Scope.DAY, 2, 0), (Scope.MONTH, 0, 0)], "", "ceiling is $0 for this month"),
        ({"budget": {"policy": "budget"}}, [(Scope.DAY, 2, 1)], "", "without asking"),
    ],
)
def test_whether_the_cloud_is_on_is_a_sentence_with_a_way_out(
    tmp_path: Path,
    settings: dict[str, Any],
    rooms: list[tuple[Scope, int, int]],
    frozen: str,
    says: str,
) -> None:
    loaded: Settings = load_settings(tmp_path / "none.toml", {}, settings)
    standing = Standing(tuple(ScopeBalance(s, c * NANO, u * NANO) for s, c, u in rooms), frozen)
    assert says in budget_verdict(loaded, standing)


def test_unconfirmed_charges_are_listed_and_given_back(call: Call, spent: SampleCalls) -> None:
    done = call("budget", "release")
    assert spent.unconfirmed in done.out
    assert "$0.11" in done.out
    assert spent.settled not in done.out
    [listed] = json.loads(call("budget", "release", "--json").out)["calls"]
    assert (listed["call"], listed["charged_usd"]) == (spent.unconfirmed, "0.11")
    assert call("budget", "release", spent.settled).code == 2
    assert call("budget", "release", spent.unconfirmed[:6]).code == 0
    assert "No charge is unconfirmed" in call("budget", "release").err
    assert scopes(call)["day"]["unconfirmed_usd"] == "0"


def test_all_are_given_back_at_once(call: Call, spent: SampleCalls) -> None:
    assert "Released $0.11." in call("budget", "release", "--all").err
    assert json.loads(call("budget", "release", "--json").out)["calls"] == []


def test_a_freeze_is_reported_and_lifted(call: Call, home: Path) -> None:
    async def freeze() -> None:
        from baton.core.money import BilledTokens

        ledger = Ledger(find_paths().ledger)
        held = await ledger.hold(bill("r"))
        await ledger.settle(held.call, BilledTokens(10, 5000))
        await ledger.aclose()

    asyncio.run(freeze())
    done = call("budget", "show")
    assert "The cloud is frozen: gpt charged" in done.out
    assert "`baton budget release --freeze` lifts it" in done.out
    assert json.loads(call("budget", "show", "--json").out)["cloud"] == "frozen"
    assert "is lifted" in call("budget", "release", "--freeze").err
    assert "is not frozen" in call("budget", "release", "--freeze").err
    assert "frozen" not in call("budget", "show").out


WORKERS = """
[[workers]]
id = "gpt"
kind = "cloud"
model = "openai/gpt-5-mini"
[[workers]]
id = "mine"
kind = "cloud"
model = "openai/gpt-5-pro"
price = { input = "1", output = "2" }
[[workers]]
id = "new"
kind = "cloud"
model = "openai/gpt-99"
"""


def test_prices_say_where_they_come_from(call: Call) -> None:
    write_settings(WORKERS)
    shown = json.loads(call("budget", "prices", "--json").out)
    rows = {row["worker"]: row for row in shown["prices"]}
    assert rows["gpt"]["source"] == f"Baton's list of {shown['snapshot']}"
    assert rows["gpt"]["usd_per_million"]["output"] == "2"
    assert rows["mine"]["source"] == "config.toml"
    assert rows["mine"]["usd_per_million"]["input"] == "1"
    assert rows["new"]["usd_per_million"] is None
    done = call("budget", "prices")
    assert [line.split()[:2] for line in done.out.splitlines()[3:]] == [
        ["gpt", "openai/gpt-5-mini"],
        ["mine", "openai/gpt-5-pro"],
        ["new", "openai/gpt-99"],
    ]
    assert 'price = { input = "DOLLARS", output = "DOLLARS" }' in done.err


def test_known_models_are_found_by_words(call: Call) -> None:
    done = call("budget", "prices", "GEMINI", "2.5-pro")
    assert "gemini/gemini-2.5-pro" in done.out
    assert "prompts above 200,000 tokens" in done.out
    assert "openai" not in done.out
    done = call("budget", "prices", "--all", "--json")
    every = json.loads(done.out)["prices"]
    unusable = {row["name"] for row in json.loads(done.out)["unusable"]}
    assert {row["model"] for row in every} == price_table.snapshot().models.keys() - unusable
    assert price_table.snapshot().left_out.keys() <= unusable
    assert "No model of such a name" in call("budget", "prices", "no-such-thing").err


def test_what_can_not_be_used_is_listed_with_the_reason(call: Call) -> None:
    shown = call("budget", "prices", "gpt-3.5-turbo-0125").out  # its end was on 2026-10-23
    assert "openai/gpt-3.5-turbo-0125: withdrawn on 2026-10-23" in shown
    shown = call("budget", "prices", "zai", "flash").out
    assert "zai/glm-4.7-flash " in shown
    assert "only Gemini" in call("budget", "prices", "vertex_ai", "grok").out
    assert "watsonx: Baton doesn't ask the provider" in call("budget", "prices", "watsonx").out
    assert "azure: The list has no prices of it" in call("budget", "prices", "azure").out
    assert "google: Baton asks these models as gemini/." in call("budget", "prices", "google").out


def test_each_list_says_how_old_it_is(call: Call) -> None:
    done = call("budget", "prices", "--json")
    shown = json.loads(done.out)
    assert [source["name"] for source in shown["sources"]] == ["litellm", "models.dev"]
    assert shown["sources"][0]["date"] == shown["snapshot"]
    assert all(source["age_days"] > 0 for source in shown["sources"])
    said = call("budget", "prices", "openrouter", "gpt-5-mini").err
    assert "litellm's of 2026" in said
    assert "models.dev's of 2026-07-02 (" in said
    assert "models.dev's list is " in said
    assert "compare it with your providers' prices" in said


@pytest.mark.parametrize(("days", "warned"), [(0, False), (89, False), (92, True), (900, True)])
def test_old_prices_are_warned_of(
    call: Call, monkeypatch: pytest.MonkeyPatch, days: int, warned: bool
) -> None:
    made = time.strftime("%Y-%m-%d", time.localtime(time.time() - days * 86400))
    old = price_table.Snapshot({"a list": made}, "a test", {})
    monkeypatch.setattr(price_table, "snapshot", lambda: old)
    assert ("days old: compare it" in call("budget", "prices").err) is warned


def test_a_damaged_list_is_reported(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_table, "snapshot", lambda: price_table.Snapshot({}, "", {}))
    done = call("budget", "prices", "--all")
    assert (done.code, "of an unknown day" in done.err) == (0, True)
