"""A plan of five steps in the real app: real models here, a cloud on loopback, a real terminal."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.canary import shows
from support.fake_cloud import Cloud, ReceivedRequest, Reply
from support.terminal import Terminal

BATON = [sys.executable, "-I", "-m", "baton"]
KEY = "sk-canary-lab-7f3a9c2e5b8d4160"
PROMPT = "Compare rivers and lakes for a school talk, and write the opening."

STEPS: tuple[tuple[str, int, list[str], list[int], int, str], ...] = (
    ("writing", 1, ["prompt"], [], 1, "Write one sentence about rivers."),
    ("writing", 1, ["prompt"], [], 1, "Write one sentence about lakes."),
    ("chat", 1, ["prompt"], [], 1, "Name one animal that lives in water."),
    ("reasoning", 5, [], [1, 2], 2, "Compare the two sentences."),
    ("writing", 5, ["prompt"], [4], 2, "Write the opening of the talk."),
)


def plan() -> str:
    """Return the plan as a conductor writes it."""
    names = ("kind", "difficulty", "sees", "uses", "worker", "task")
    steps = [{**dict(zip(names, step, strict=True)), "check": False} for step in STEPS]
    return json.dumps({"steps": steps, "answer": [3, 5]})


def write(received: ReceivedRequest) -> Reply | None:
    """Answer as a conductor, or as the worker of a step."""
    body = received.body.decode()
    if "You plan work" in body:
        accepted = '{"accept":true,"steps":[],"answer":[]}'
        return Reply(text=accepted if "water is never still" in body else plan())
    if "Compare the two sentences" in body:
        return Reply(text="Rivers move and lakes rest.")
    if "Write the opening" in body:
        return Reply(text="Dear class, water is never still.")
    return None


@pytest.fixture
def cloud(home: Path) -> Iterator[Cloud]:
    with Cloud(write=write) as opened:
        file = home / "config" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(
            f"""
conductor = "gpt"
[budget]
day = "5"
policy = "budget"
[[workers]]
id = "gpt"
kind = "cloud"
model = "openai/gpt-4o-mini"
base_url = "{opened.base("openai")}"
api_key_env = "LAB_KEY"
price = {{ input = "1", output = "4" }}
skills = {{ writing = 5, reasoning = 5, chat = 1 }}
[[workers]]
id = "small"
skills = {{ writing = 2, chat = 3 }}
"""
        )
        yield opened


@pytest.mark.sampled(0.25)
@pytest.mark.local_model
def test_five_steps_are_planned_run_and_shown(cloud: Cloud, home: Path) -> None:
    app = Terminal(BATON, {**os.environ, "LAB_KEY": KEY}, 140, 40)
    app.wait_for("Ask anything")
    app.send("/strategy conductor\r")
    app.wait_for("Strategy: conductor")
    app.send(PROMPT + "\r")
    app.wait_for("water is never still", 60)
    app.wait_for("finished in", 60)
    app.send("\t")
    app.wait_for("y copy")
    app.send("w")
    app.wait_for("[Steps]")
    for *_, task in STEPS:
        app.wait_for(task[1:9])  # its name in the picture
    app.send("\x11")
    assert app.wait_end() == 0

    # What each worker saw is what its access list names.
    bodies = [call.body.decode() for call in cloud.calls]
    compared, opening = (body for body in bodies if "You plan work" not in body)
    assert len(bodies) == 4  # a plan, two steps, a look at the outcome
    assert "Compare the two sentences" in compared
    assert "Result 1" in compared
    assert "Result 2" in compared
    assert PROMPT not in compared
    assert "Rivers move and lakes rest." in opening
    assert PROMPT in opening
    assert "Result 1" not in opening
    assert not any(shows(KEY, body) for body in bodies)
    with sqlite3.connect(home / "data" / "baton.db") as db:
        events = [
            (kind, json.loads(data))
            for kind, data in db.execute("SELECT kind, data FROM events ORDER BY seq")
        ]
        (answer,) = db.execute("SELECT text FROM turns WHERE role = 'assistant'").fetchone()
    done = [data["step"] for kind, data in events if kind == "StepFinished"]
    assert sorted(done) == [1, 2, 3, 4, 5]
    assert answer.endswith("Dear class, water is never still.")
    assert [kind for kind, _ in events if kind in ("Finished", "Failed", "Cancelled")] == [
        "Finished"
    ]
    workers = {data["step"]: data["worker"] for kind, data in events if kind == "StepStarted"}
    assert {workers[n] for n in (1, 2, 3)} == {"small"}
    assert {workers[n] for n in (4, 5)} == {"gpt"}
    with sqlite3.connect(home / "data" / "ledger.db") as db:
        held = db.execute("SELECT count(*) FROM calls WHERE status = 'held'").fetchone()
    assert held == (0,)


@pytest.mark.sampled(0.25)
@pytest.mark.local_model
def test_a_plan_is_edited_on_its_card_and_left(cloud: Cloud, home: Path) -> None:
    size = {"COLUMNS": "140", "LINES": "40"}
    app = Terminal(BATON, {**os.environ, "LAB_KEY": KEY, **size}, 140, 40)
    app.wait_for("Ask anything")
    app.send("/strategy conductor\r")
    app.wait_for("Strategy: conductor")
    app.send(f"/plan {PROMPT}\r")
    app.wait_for("5 steps · 3 local, 2 cloud · about $")
    app.send("\t")
    app.wait_for("d drop")
    app.send("\x1b[B")
    app.wait_for("2  Write one sentence about lakes.")
    app.send("d")
    app.wait_for("4 steps · 2 local, 2 cloud · about $")
    app.send("w")
    app.wait_for("Calculator    local    free")
    app.send("\x1b[A\r")  # from the cloud's worker to the one here
    app.wait_for("4 steps · 3 local, 1 cloud · about $")
    app.send("e")
    app.wait_for("Enter save")
    app.send("\x7f in a table.\r")
    app.wait_for("3  Compare the two sentences in a table.")
    app.send("\x1b")
    app.wait_for("Stopped here.")
    app.send("\x11")
    assert app.wait_end() == 0
    assert cloud.posts == 1, "only the plan was asked for"
    with sqlite3.connect(home / "data" / "baton.db") as db:
        kinds = {kind for (kind,) in db.execute("SELECT kind FROM events")}
    assert "StepStarted" not in kinds
