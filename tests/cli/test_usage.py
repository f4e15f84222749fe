"""`baton usage`: sums by day, worker and purpose, for people, spreadsheets and programs."""

from __future__ import annotations

import csv
import datetime
import io
import json
import time

import pytest

from baton.cli.usage import parse_since
from baton.core.errors import ConfigError
from baton.core.events import Called
from baton.platform.paths import find_paths
from support.command_line import Call
from support.sample_ledger import spend
from support.stored_runs import EVENTS, store_run


def test_nothing_yet_is_a_sentence_and_empty_data(call: Call) -> None:
    assert call("usage").err == "Nothing was called yet.\n"
    assert json.loads(call("usage", "--json").out)["usage"] == []
    assert call("usage", "--csv").out == (
        "day,calls,tokens_in,tokens_out,charged_usd,unconfirmed_usd\n"
    )


def test_calls_on_this_machine_are_counted(call: Call) -> None:
    store_run(*EVENTS)
    local = sum(isinstance(event, Called) and not event.call for event in EVENTS)
    [today] = json.loads(call("usage", "--json").out)["usage"]
    assert (today["day"], today["calls"]) == (str(datetime.date.today()), local)
    assert (today["charged_usd"], today["tokens_out"] > 0) == ("0", True)
    assert call("usage", "--since", "1d").err == ""
    spend(find_paths().ledger)
    [both] = json.loads(call("usage", "--json").out)["usage"]
    assert (both["calls"], both["charged_usd"]) == (local + 2, "0.122")
    workers = json.loads(call("usage", "--by", "worker", "--json").out)["usage"]
    assert workers[0]["worker"] == "gpt", "the dearest first"
    assert sum(row["calls"] for row in workers) == local + 2


def test_what_was_charged_is_summed(call: Call) -> None:
    spend(find_paths().ledger)
    today = str(datetime.date.today())
    for by, name in (("day", today), ("worker", "gpt"), ("purpose", "step")):
        expected = {
            by: name,
            "calls": 2,
            "tokens_in": 10,
            "tokens_out": 2,
            "charged_usd": "0.122",
            "unconfirmed_usd": "0.11",
        }
        assert json.loads(call("usage", "--by", by, "--json").out)["usage"] == [expected]
        [row] = csv.DictReader(io.StringIO(call("usage", "--by", by, "--csv").out))
        assert row == {key: str(value) for key, value in expected.items()}
        shown = call("usage", "--by", by).out.splitlines()
        assert shown[1].split() == [name, "2", "10", "2", "$0.12", "$0.11"]


def test_only_what_is_new_enough_counts(call: Call) -> None:
    spend(find_paths().ledger)
    tomorrow = str(datetime.date.today() + datetime.timedelta(days=1))
    assert call("usage", "--since", tomorrow).err == f"Nothing since {tomorrow}.\n"
    assert call("usage", "--since", "1d").out
    assert call("usage", "--since", str(datetime.date.today())).out


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "7", "-1d", "0d", "", "d", "\u0667d"])
def test_what_is_not_a_day_is_reported(call: Call, text: str) -> None:
    done = call("usage", "--since", text)
    assert (done.code, "Write it like 2026-11-01" in done.err) == (2, True)


def test_a_day_begins_at_its_own_midnight() -> None:
    assert time.localtime(parse_since("2026-11-01"))[:6] == (2026, 11, 1, 0, 0, 0)
    assert parse_since("1d") <= time.time() < parse_since("1d") + 90_000
    with pytest.raises(ConfigError):
        parse_since("2026-11-1")


def test_two_formats_at_once_are_one_too_many(call: Call) -> None:
    assert call("usage", "--csv", "--json").code == 2
