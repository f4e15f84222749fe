"""What a prompt cost, where that is not what was agreed to."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from baton.domain.prices import Price, Rates
from baton.settings import find_paths
from cli.calling import Call
from support.cloud import Cloud, Fault

PRICE = Price(Rates(10**9, 2 * 10**9, 10**9, 10**9))


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """Somebody's engine elsewhere that wants money, within a ceiling of $2."""
    with Cloud(prices={"": PRICE}) as cloud:
        file = find_paths().config_file
        file.parent.mkdir(parents=True)
        file.write_text(
            '[budget]\nday = "2"\npolicy = "budget"\n'
            '[[workers]]\nid = "far"\nkind = "server"\nmodel = "kit-1"\n'
            f'base_url = "{cloud.base("server")}"\nprivacy = "cloud"\n'
            'price = { input = "1", output = "2" }\n'
        )
        yield cloud


@pytest.mark.parametrize("words", [(), ("-q",), ("--no-stream",), ("--events",)])
def test_a_charge_above_its_hold_is_named_and_has_an_exit_code(
    call: Call, cloud: Cloud, words: tuple[str, ...]
) -> None:
    cloud.next(Fault.ABOVE_CAP)
    done = call("ask", "-m", "far", *words, piped=b"Hello?")
    assert done.code == 4
    assert "naïve answer" in done.out
    assert "far charged $" in done.err
    assert "was to cost at most $" in done.err
    assert "baton budget release --freeze" in done.err


def test_a_charge_above_its_hold_is_among_the_warnings(call: Call, cloud: Cloud) -> None:
    fine = call("ask", "-m", "far", "--json", piped=b"Hello?")
    assert (fine.code, json.loads(fine.out)["warnings"]) == (0, [])
    cloud.next(Fault.ABOVE_CAP)
    done = call("ask", "-m", "far", "--json", piped=b"Hello?")
    assert done.code == 4
    told = json.loads(done.out)
    assert (told["status"], bool(told["answer"]), told["error"]) == ("finished", True, None)
    [warning] = told["warnings"]
    assert warning.keys() == {"kind", "message", "hint"}
    assert warning["kind"] == "overcharge"
    assert warning["message"] in done.err
