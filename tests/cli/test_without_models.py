"""What commands say where there is no model at all, as in a Baton that came without one."""

from __future__ import annotations

import json

import pytest

from baton.platform.paths import find_paths
from baton.workers.local import model_file, starter
from support.command_line import Call

FILE = starter().path


@pytest.fixture(autouse=True)
def _none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "STARTER_PACKAGE", "no_such_package_here")


SAID = (
    "baton: There is no model on this machine yet. `baton models recommend` says which suit it, "
    "and `baton models pull ID` fetches one; `baton ask -m FILE` asks a GGUF file.\n"
)


@pytest.mark.parametrize(
    "command", [["ask", "Hi"], ["ask", "-m", "small", "Hi"], ["plan", "show", "Hi"]], ids=" ".join
)
def test_a_prompt_is_refused_with_the_way_to_a_model(call: Call, command: list[str]) -> None:
    done = call(*command)
    assert (done.code, done.out, done.err) == (5, "", SAID)


def test_json_says_it_too(call: Call) -> None:
    done = call("ask", "--json", "Hi")
    error = json.loads(done.out)["error"]
    assert (done.code, error["type"]) == (5, "ModelFileError")
    assert "`baton models pull ID`" in error["hint"]


def test_a_recommendation_needs_no_measurement(call: Call) -> None:
    done = call("models", "recommend")
    assert done.code == 0, done.err
    assert "Measuring" not in done.err
    report = json.loads(call("models", "recommend", "--json").out)
    assert report["starter_tokens_per_second"] is None


def test_what_needs_no_model_works(call: Call) -> None:
    for command in (["models", "ls"], ["workers", "ls"], ["models", "role"], ["history", "ls"]):
        done = call(*command)
        assert done.code == 0, (command, done.err)
        assert "small" not in done.out


def test_a_missing_worker_is_reported_with_what_to_do(call: Call) -> None:
    done = call("models", "role")
    assert done.code == 0
    rows = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert rows["chat"] == "no model yet"
    assert rows["conductor"] == "Baton chooses"
    assert done.err == SAID.removeprefix("baton: ")
    assert call("models", "role", "chat").out == "no model yet\n"
    report = json.loads(call("models", "role", "--json").out)
    assert (report["roles"]["chat"], report["missing"]) == ("small", ["small"])


@pytest.mark.sampled(0.5)
def test_the_configured_worker_and_its_stand_in_are_named(call: Call) -> None:
    assert call("models", "import", "--link", "--id", "own", str(FILE), "-q").code == 0
    find_paths().config_file.parent.mkdir(parents=True, exist_ok=True)
    find_paths().config_file.write_text('conductor = "gone"\n')
    done = call("models", "role")
    rows = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert rows["chat"] == "own, as small isn't here"
    assert rows["conductor"] == "gone, which isn't here"
    assert "`baton models role chat ID`" in done.err
    assert call("models", "role", "coder").err == ""
    assert call("models", "role", "chat", "own").out == "own\n"
    assert call("models", "role", "conductor", "none").err == ""
    assert json.loads(call("models", "role", "--json").out)["missing"] == []


def test_the_starter_is_not_said_to_have_come_along(call: Call) -> None:
    for command in (["show", "small"], ["rm", "small"], ["role", "chat", "small"]):
        done = call("models", *command)
        assert (done.code, done.out) == (5, ""), command
        assert "starter model" in done.err
        assert "came with Baton" not in done.err


def test_an_empty_table_is_none(call: Call) -> None:
    done = call("models", "ls")
    assert (done.code, done.out) == (0, "")
    assert "`baton models recommend`" in done.err


def test_a_stored_recommendation_is_private(call: Call) -> None:
    assert call("models", "recommend").code == 0
    assert find_paths().state.stat().st_mode & 0o077 == 0


@pytest.mark.sampled(0.5)
def test_a_model_that_has_no_role_answers_all_the_same(call: Call) -> None:
    assert call("models", "import", "--link", "--id", "own", str(FILE)).code == 0
    done = call("ask", "What is the capital of France?", "--max-tokens", "2")
    assert done.code == 0, done.err
    assert done.out.strip()
    assert "own" in call("workers", "ls").out


@pytest.mark.sampled(0.5)
def test_the_doctor_calls_nothing_broken_that_only_has_to_be_fetched(call: Call) -> None:
    done = call("doctor")
    [answer] = [line for line in done.out.splitlines() if " answer " in line]
    assert answer.startswith("warn ")
    assert "`baton models recommend`" in answer
    assert (done.code, "broken" in done.out) == (0, False), done.out
    assert done.err == "Nothing is broken.\n"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("2+3", "2 + 3 = 5\n"),
        ("12% of 80", "12% \N{MULTIPLICATION SIGN} 80 = 9.6\n"),
        ("who are you", "Baton (on this machine) answers here, in Baton.\n"),
    ],
)
def test_what_a_tool_answers_needs_no_model(call: Call, text: str, answer: str) -> None:
    done = call("ask", text)
    assert (done.code, done.out, done.err) == (0, answer, "")


def test_units_and_the_clock_need_none_either(call: Call) -> None:
    assert "3.107" in call("ask", "5 km in miles").out
    assert call("ask", "what time is it").out.startswith("It is ")
    answer = json.loads(call("ask", "--json", "6*7").out)["answer"]
    assert answer == "6 \N{MULTIPLICATION SIGN} 7 = 42"


def test_a_sum_that_is_piped_in_is_computed(call: Call) -> None:
    assert call("ask", piped=b"7*6\n").out == "7 \N{MULTIPLICATION SIGN} 6 = 42\n"
    done = call("ask", piped=b"How are you?\n")
    assert (done.code, done.out, done.err) == (5, "", SAID)


def test_who_is_named_is_still_missed(call: Call) -> None:
    assert call("ask", "-m", "small", "2+3").code == 5
