"""`baton plan`: what would be done, of which nothing is."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from baton.cli.plan_renderer import plan_text
from baton.core.labels import Label
from baton.core.messages import Card
from baton.core.money import NANO, Price, Rates
from baton.presentation.plans import access_text
from support.command_line import Call
from support.fake_cloud import Cloud, Reply
from support.scripted_baton import Scripted, scripted
from support.stored_runs import PLAN
from support.terminal import Terminal

__all__ = ["scripted"]

MICRO = 10**9
"""A micro-dollar for each token, in nano-dollars per million tokens."""

CLOUD = Card(
    "gpt",
    "cloud",
    "GPT",
    Label.CLOUD,
    max_output=1000,
    price=Price(Rates(MICRO, MICRO, MICRO, MICRO), source="a test"),
)


def test_a_plan_is_drawn_and_none_of_it_run(call: Call, scripted: Scripted) -> None:
    workers = scripted(small=None)
    done = call("plan", "--strategy", "vote", "What is 17 times 23?")
    assert (done.code, done.err) == (0, "")
    assert len(re.findall(r"^ \d\. small \(local\): \w+, difficulty \d of 5", done.out, re.M)) == 3
    assert "sees the prompt, the conversation" in done.out
    assert "it costs nothing" in done.out
    assert workers["small"].requests == []
    [way] = re.findall(r"^Run it: baton (resume [0-9a-f]{12})$", done.out, re.M)
    run = json.loads(call("trace", "--json").out)
    assert (way, run["status"]) == (f"resume {run['run_id']}", "cancelled")
    assert f"Plan of 3 steps kept, not run; `baton {way}` runs it." in call("trace").out

    done = call(*way.split())
    assert (done.code, done.out) == (0, "What is 17 times 23? \n")
    assert len(workers["small"].requests) == 3


def test_the_plan_as_an_object(call: Call, scripted: Scripted) -> None:
    scripted(small=None)
    done = call("plan", "--json", "Hello")
    shown = json.loads(done.out)
    assert (done.code, shown["status"], shown["error"], shown["answer"]) == (0, "planned", None, "")
    assert [(s["worker"], s["status"]) for s in shown["plan"]] == [("small", "waiting")]
    assert (shown["calls"], shown["cost_usd"]) == ([], "0")


def test_options_are_those_of_ask(call: Call, scripted: Scripted, tmp_path: Path) -> None:
    scripted(small=None, large=None)
    file = tmp_path / "a.txt"
    file.write_text("Alpha")
    done = call("plan", "-m", "large", "--private", "--offline", "-f", str(file), "Which letter?")
    assert done.code == 0
    assert "1. large (local)" in done.out
    assert "file a.txt" in done.out
    assert json.loads(call("history", "ls", "--json").out)["conversations"][0]["label"] == "local"
    assert call("plan", "-c", "And now?").code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--strategy", "vot", "x"], "Did you mean 'vote'?"),
        (["--strategy", "zzz", "x"], "Known: single, hybrid,"),
        (["-m", "nobody", "x"], "no worker 'nobody'"),
        (["--budget", "lots", "x"], "not an amount"),
    ],
)
def test_a_mistake_is_reported_before_anything_is_kept(
    call: Call, scripted: Scripted, args: list[str], message: str
) -> None:
    scripted(small=None)
    done = call("plan", *args)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert message in done.err
    assert json.loads(call("history", "ls", "--json").out)["conversations"] == []


def test_pieces_of_files_are_named_as_such() -> None:
    assert access_text(("file:a.md#2/5", "3")) == "file a.md (piece 2 of 5), result 3"
    assert access_text(("file:C#.txt", "history")) == "file C#.txt, the conversation"
    assert access_text(()) == "nothing but its instruction"


def test_several_steps_write_an_answer() -> None:
    text = plan_text(replace(PLAN, answer=(1, 3)), [0] * 4, {})
    assert text.endswith("The answer is what steps 1 and 3 write; it costs nothing.")


def test_a_plan_is_a_list_that_a_user_can_read() -> None:
    cards = {"small": Card("small", "local", "Small"), "gpt": CLOUD}
    text = plan_text(PLAN, [0, 0, 23 * NANO // 1000, None], cards)
    assert text.splitlines() == [
        " 1. small (local): extraction, difficulty 2 of 5",
        "    List the facts.",
        "    sees the prompt, file a.txt",
        " 2. small (local): math, difficulty 4 of 5, optional",
        "    Add the sums.",
        "    sees the prompt",
        " 3. gpt (cloud): writing, difficulty 3 of 5",
        '    Write it "well" <b>&</b>.',
        "    sees result 1, result 2; at most about $0.03",
        " 4. large: reasoning, difficulty 3 of 5, checks",
        "    Look for mistakes.",
        "    sees the prompt, result 3; no price",
        "",
        "The answer is what step 3 writes; at most about $0.03 in all.",
    ]


DRAWN = json.dumps(
    {
        "steps": [
            {
                "kind": "writing",
                "difficulty": difficulty,
                "sees": ["prompt"],
                "uses": uses,
                "worker": worker,
                "check": False,
                "task": task,
            }
            for worker, difficulty, uses, task in (
                (1, 1, [], "Name a river."),
                (2, 5, [1], "Praise it."),
            )
        ],
        "answer": [2],
    }
)


@pytest.mark.local_model
@pytest.mark.sampled
@pytest.mark.parametrize(("typed", "posts"), [("\r", 0), ("2\r", 1)])
def test_a_remote_conductor_is_asked_only_if_the_user_agrees(
    call: Call, home: Path, typed: str, posts: int
) -> None:
    with Cloud(reply=Reply(text=DRAWN)) as cloud:
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(
            f"""conductor = "gpt"
[budget]
day = "5"
[[workers]]
id = "gpt"
kind = "server"
model = "kit-1"
base_url = "{cloud.base("server")}"
privacy = "cloud"
api_key_env = "LAB_KEY"
price = {{ input = "1", output = "4" }}
skills = {{ writing = 5 }}
"""
        )
        command = [sys.executable, "-I", "-m", "baton", "plan", "--strategy", "conductor"]
        env = {**os.environ, "LAB_KEY": "sk-canary"}
        screen = Terminal([*command, "Praise a river, then a lake."], env, 80, 24)
        screen.wait_for("Number, then Enter (1):")
        assert "Ask kit-1?   at most $" in screen.text  # however long the text before it
        screen.answer(typed)
        screen.wait_for("Run it: baton resume")
        assert screen.wait_end() == 0
        assert cloud.posts == posts
    assert json.loads(call("trace", "--json").out)["status"] == "cancelled"
    if posts:
        assert "1. small (local): writing, difficulty 1 of 5" in screen.text
        assert "2. gpt (cloud): writing, difficulty 5 of 5" in screen.text
        assert "sees the prompt, result 1; at most about $0." in screen.text
        assert "Drawing this plan cost" in screen.text
        assert "gpt planned, for " in call("why").out
