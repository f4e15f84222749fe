"""`baton usage --forecast`: where the money is heading, for people and for programs."""

from __future__ import annotations

import asyncio
import json
import sqlite3

from baton.core import events as ev
from baton.core.labels import Label
from baton.core.messages import Prompt
from baton.core.money import NANO
from baton.core.ports import NEW
from baton.history import Store
from baton.platform.settings import find_paths
from support.command_line import Call
from support.sample_ledger import spend


def store_weighings(days: int, each: int) -> None:
    """Store prompts of so many days, each with what help was thought worth."""

    async def run() -> None:
        store = Store.open(find_paths().database)
        for n in range(days * each):
            begun = await store.begin(Prompt("Hi"), NEW, Label.CLOUD)
            gain = 0.02 * (1 + n % 20)
            await store.append(
                begun.run, ev.Weighed("gpt", gain, 0.05, NANO // 250, gain > 0.05, "So.", at=0.1)
            )
            await store.append(begun.run, ev.Finished(at=0.2))
        await store.aclose()

    asyncio.run(run())
    with sqlite3.connect(find_paths().database) as raw:
        raw.execute("UPDATE runs SET created = created - (key % ?) * 86400", [days])
    raw.close()


def test_without_a_past_nothing_is_forecast(call: Call) -> None:
    done = call("usage", "--forecast")
    assert done.code == 0
    assert "Today: $0.00 so far; too little was charged yet" in done.out
    assert "Help was weighed for 0 prompts on 0 days: too little" in done.out
    shown = json.loads(call("usage", "--forecast", "--json").out)
    assert (shown["weighed"], shown["paces"]) == (0, [])
    assert [scope["expected_usd"] for scope in shown["scopes"]] == [None, None]


def test_each_pace_is_shown_with_the_one_that_is_set(call: Call) -> None:
    store_weighings(5, 8)
    call("budget", "set", "month", "20")
    call("budget", "set", "pace", "frugal")
    out = call("usage", "--forecast").out
    assert "after 40 prompts that were weighed on 5 days" in out
    rows = [line.split() for line in out.splitlines()]
    assert [row[0] for row in rows if row and row[0] in ("frugal", "balanced", "best")] == [
        "frugal",
        "balanced",
        "best",
    ]
    assert ["frugal", "(set)", "15", "%"] in [row[:4] for row in rows]
    assert "You are asked before money is spent" in out
    shown = json.loads(call("usage", "--forecast", "--json").out)
    assert [pace["chosen"] for pace in shown["paces"]] == [True, False, False]
    rest = shown["paces"][2]["rest"]["month"]
    assert 0 < rest["helped"] <= rest["prompts"]
    assert shown["scopes"][1] == {
        "scope": "month",
        "used_usd": "0",
        "ceiling_usd": "20",
        "expected_usd": None,
        "ceiling_reached_at": None,
    }


def test_what_was_charged_says_when_the_ceiling_is_reached(call: Call) -> None:
    spend(find_paths().ledger, days_ago=4)
    call("budget", "set", "day", "0.0000001")
    assert "The ceiling of under $0.0001 would be reached" in call("usage", "--forecast").out
    scopes = json.loads(call("usage", "--forecast", "--json").out)["scopes"]
    assert scopes[0]["expected_usd"] == "0.0000001"
    assert scopes[0]["ceiling_reached_at"] is not None


def test_a_forecast_is_no_table(call: Call) -> None:
    done = call("usage", "--forecast", "--csv")
    assert (done.code, "--csv and --forecast exclude" in done.err) == (2, True)
