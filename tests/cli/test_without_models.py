"""What commands say where there is no model at all, as in a Baton that came without one."""

from __future__ import annotations

import json

import pytest

from baton.adapters.local import files, starter
from cli.calling import Call

FILE = starter().path


@pytest.fixture(autouse=True)
def _none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "STARTER_PACKAGE", "no_such_package_here")


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
    told = json.loads(call("models", "recommend", "--json").out)
    assert told["starter_tokens_per_second"] is None


def test_what_needs_no_model_works(call: Call) -> None:
    for command in (["models", "ls"], ["workers", "ls"], ["models", "role"], ["history", "ls"]):
        done = call(*command)
        assert done.code == 0, (command, done.err)
        assert "small" not in done.out or command[-1] == "role"


def test_a_model_that_has_no_role_answers_all_the_same(call: Call) -> None:
    assert call("models", "import", "--id", "own", str(FILE)).code == 0
    done = call("ask", "What is the capital of France?")
    assert done.code == 0, done.err
    assert done.out.strip()
    assert "own" in call("workers", "ls").out


def test_the_doctor_calls_nothing_broken_that_only_has_to_be_fetched(call: Call) -> None:
    done = call("doctor")
    [answer] = [line for line in done.out.splitlines() if " answer " in line]
    assert answer.startswith("warn ")
    assert "`baton models recommend`" in answer
    assert (done.code, "broken" in done.out) == (0, False), done.out
    assert done.err == "Nothing is broken.\n"
