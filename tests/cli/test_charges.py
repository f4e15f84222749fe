"""What a prompt cost, where that is not what was agreed to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.ledger_types import Scope
from baton.core.money import NANO, Price, Rates
from baton.money import Ledger
from baton.platform.paths import find_paths
from support.command_line import Call
from support.fake_cloud import Cloud, Fault, Reply
from support.sample_ledger import bill

PRICE = Price(Rates(10**9, 2 * 10**9, 10**9, 10**9))


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """A remote engine that costs money, within a ceiling of $2."""
    with Cloud(prices={"": PRICE}) as cloud:
        file = find_paths().config_file
        file.parent.mkdir(parents=True)
        file.write_text(
            'worker = "far"\n[budget]\nday = "2"\npolicy = "budget"\n'
            '[[workers]]\nid = "far"\nkind = "server"\nmodel = "kit-1"\n'
            f'base_url = "{cloud.base("server")}"\nprivacy = "cloud"\n'
            'price = { input = "1", output = "2" }\n'
        )
        yield cloud


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(0.5)
def test_an_answer_past_its_cap_is_a_charge_above_its_hold(call: Call, cloud: Cloud) -> None:
    cloud.next(Fault.ENDLESS)
    done = call("ask", "-m", "far", piped=b"Hello?")
    assert done.code == 4
    assert "naïve answer" in done.out
    assert "far charged $" in done.err
    assert "cut at its length cap" in done.err
    again = call("ask", "-m", "far", piped=b"Hello?")
    assert (again.code, cloud.posts) == (4, 1)
    assert "The cloud is frozen" in again.err


@pytest.mark.sampled(0.5)
def test_an_answer_that_a_filter_ended_says_so_and_is_charged_once(
    call: Call, cloud: Cloud
) -> None:
    cloud.next(Fault.FILTERED)
    done = call("ask", "-m", "far", piped=b"Hello?")
    assert (done.code, cloud.posts) == (0, 1)
    assert "naïve answer" in done.out
    assert "The provider's content filter ended the answer" in done.err
    cloud.reply = Reply(tokens=0)
    empty = call("ask", "-m", "far", piped=b"Hello?")
    assert (empty.code, empty.out.strip(), cloud.posts) == (0, "", 2)
    assert "The answer is empty." in empty.err


@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", [(), ("--json",)])
@pytest.mark.parametrize("command", [("keys", "test", "LAB_KEY"), ("workers", "test", "far")])
def test_a_trial_that_is_charged_above_its_hold_warns(
    call: Call,
    cloud: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    monkeypatch.setenv("LAB_KEY", "sk-lab-0123456789")
    file = find_paths().config_file
    dear = file.read_text().replace('output = "2"', 'output = "200"')
    file.write_text(f'{dear}api_key_env = "LAB_KEY"\n')
    cloud.next(Fault.ABOVE_CAP)
    done = call(*command, "-y", *words)
    assert done.code == 4
    assert "far charged $" in done.err
    assert "baton budget release --freeze" in done.err
    if words:
        [warning] = json.loads(done.out)["warnings"]
        assert warning["message"] in done.err
    else:
        assert " works" in done.out


@pytest.mark.sampled(0.5)
def test_a_bench_stops_at_a_charge_above_its_hold(call: Call, cloud: Cloud, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    lines = [{"id": name, "question": "How many?", "answer": 42, "kind": "number"} for name in "ab"]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    cloud.next(Fault.ABOVE_CAP)
    words = ["bench", str(file), "--workers", "far", "--out", str(tmp_path / "results.jsonl")]
    done = call(*words, "--strategy", "single", "--json", "--budget", "1")
    assert done.code == 4
    assert "Stopped at 1 of 2 questions of single: far charged $" in done.err
    assert "baton budget release --freeze" in done.err
    assert json.loads(done.out)["rows"][0]["questions"] == 1


@pytest.mark.sampled(0.5)
def test_a_charge_above_its_hold_is_among_the_warnings(call: Call, cloud: Cloud) -> None:
    fine = call("ask", "-m", "far", "--json", piped=b"Hello?")
    assert (fine.code, json.loads(fine.out)["warnings"]) == (0, [])
    cloud.next(Fault.ABOVE_CAP)
    done = call("ask", "-m", "far", "--json", piped=b"Hello?")
    assert done.code == 4
    report = json.loads(done.out)
    assert (report["status"], bool(report["answer"]), report["error"]) == ("finished", True, None)
    [warning] = report["warnings"]
    assert warning.keys() == {"kind", "message", "hint"}
    assert warning["kind"] == "overcharge"
    assert warning["message"] in done.err


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "times"), [((), 1), (("--json",), 1), (("--events",), 1), (("-q",), 0)]
)
def test_a_prompt_that_waits_for_money_says_so_once_in_a_pipe(
    call: Call, cloud: Cloud, words: tuple[str, ...], times: int
) -> None:
    paths = find_paths()
    waits = paths.config_file.read_text().replace("[budget]", "[budget]\nwait = 1")
    paths.config_file.write_text(waits)
    with asyncio.Runner() as runner:
        ledger = Ledger(paths.ledger)
        runner.run(
            ledger.hold(replace(bill("another"), wanted=1990, ceilings={Scope.DAY: 2 * NANO}))
        )
        done = call("ask", "-m", "far", *words, piped=b"Hello?")
        runner.run(ledger.aclose())
    assert done.code == 4
    assert done.err.count("baton: Waiting for money that other prompts hold.\n") == times
    assert cloud.posts == 0
