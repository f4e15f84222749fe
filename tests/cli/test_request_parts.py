"""The conductor that comes with Baton, on the real starter model: requests with parts, and sums."""

from __future__ import annotations

import json
from typing import Any

import pytest

from baton.platform.paths import find_paths
from support.command_line import Call
from support.fake_cloud import Cloud, ReceivedRequest, Reply

pytestmark = pytest.mark.local_model

README = (
    "Name the capital of Japan, tell me how many days are left until Christmas, "
    "and what 15% of 240 is"
)


def ask(call: Call, request: str, *more: str) -> dict[str, Any]:
    done = call("ask", request, "--json", *more)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def planned_steps(call: Call, request: str) -> list[dict[str, Any]]:
    done = call("plan", request, "--json")
    assert done.code == 0, done.err
    steps: list[dict[str, Any]] = json.loads(done.out)["plan"]
    return steps


def test_the_readmes_request_is_answered_right(call: Call) -> None:
    found = ask(call, README)
    assert "Tokyo" in found["answer"]
    assert "days(today, christmas)" in found["answer"]
    assert [step["worker"] for step in found["plan"]] == ["small", "clock", "calculator"]
    assert found["answer"].index("Tokyo") < found["answer"].index("= 36")
    assert found["calls"][0]["purpose"] == "plan"
    assert found["cost_usd"] == "0"
    assert "conductor planned" in call("why").out


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("request_text", "tool", "says"),
    [
        ("what is fifteen percent of 240?", "calculator", "= 36"),
        ("how many miles are 42 kilometers?", "units", "42 km are ≈ 26.1 miles."),
        ("Wie viel sind 15 Prozent von 240?", "calculator", "= 36"),
        ("combien de jours entre le 1er mars 2027 et le 4 mars 2027 ?", "clock", "3 jours"),
        ("cuánto es la mitad de 390", "calculator", "= 195"),
        ("quanto fa 17 per 23?", "calculator", "= 391"),
        ("quantos metros são 3 km?", "units", "3000 m"),
    ],
)
def test_everyday_words_are_computed(call: Call, request_text: str, tool: str, says: str) -> None:
    found = ask(call, request_text)
    assert [step["worker"] for step in found["plan"]] == [tool]
    assert says in found["answer"]


@pytest.mark.parametrize("request_text", ["10^100", "1000^40", "was ist 10^120"])
def test_a_result_of_many_zeros_is_not_a_loop(call: Call, request_text: str) -> None:
    found = ask(call, request_text)
    zeros = 100 if request_text == "10^100" else 120
    digits = [sign for sign in found["answer"].partition("=")[2] if sign.isdigit()]
    assert "".join(digits) == "1" + "0" * zeros


@pytest.mark.sampled(0.5)
def test_a_plan_names_a_tool_and_its_expression(call: Call) -> None:
    steps = planned_steps(call, "Translate 'good morning' to German and tell me what 17*23 is")
    assert [step["worker"] for step in steps] == ["small", "calculator"]
    assert steps[1]["subtask"].replace(" ", "") == "17*23"
    assert "good morning" in steps[0]["subtask"]
    assert "17" not in steps[0]["subtask"]


@pytest.mark.sampled(0.5)
def test_a_result_is_handed_on(call: Call) -> None:
    steps = planned_steps(call, "What is 12% of 350, and write a short poem about that number")
    assert [step["access"] for step in steps] == [["prompt"], ["1"]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "request_text",
    [
        "What is the capital of France?",
        "Write a 300-word essay about the sea",
        "What happened in 1848?",
        "Is 5 a lucky number in China?",
        "Give me 3 names for a hamster",
    ],
)
def test_one_thing_stays_one_step(call: Call, request_text: str) -> None:
    (step,) = planned_steps(call, request_text)
    assert step["worker"] == "small"


@pytest.mark.sampled(0.5)
def test_without_tools_and_in_mini_nothing_is_split(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = "Say hello, and tell me what 17*23 is"
    assert len(json.loads(call("plan", request, "--json", "--mode", "mini").out)["plan"]) == 1
    monkeypatch.setenv("BATON_TOOLS", "false")
    assert [step["worker"] for step in planned_steps(call, request)] == ["small"]


SERVER = """
[[workers]]
id = "{id}"
kind = "server"
model = "{id}"
base_url = "{url}"
privacy = "local"
skills = {{ code = {skill} }}
"""
ADDING = (
    "```python\ndef add(a, b):\n    return a {sign} b\n\nassert add(1, 2) == 3\n```\n"
    "This adds two numbers."
)


@pytest.mark.sampled(0.5)
def test_code_that_fails_its_own_test_is_written_again_by_another(call: Call) -> None:
    def write(received: ReceivedRequest) -> Reply:
        return Reply(ADDING.format(sign="-" if received.json["model"] == "hasty" else "+"))

    with Cloud(write=write, models=("hasty", "careful")) as cloud:
        file = find_paths().config_file
        file.parent.mkdir(parents=True, exist_ok=True)
        url = cloud.base("server")
        skills = {"hasty": 4.9, "careful": 4.5}
        servers = [SERVER.format(id=id, url=url, skill=skill) for id, skill in skills.items()]
        file.write_text("".join(servers))
        found = ask(call, "write a python function that adds two numbers and compute 15% of 240")
    assert [step["worker"] for step in found["plan"]] == ["hasty", "calculator", "careful"]
    assert "a + b" in found["answer"]
    assert "a - b" not in found["answer"]
    assert found["answer"].index("a + b") < found["answer"].index("= 36")
    assert "careful does that again" in call("why").out
