"""The first start, from an empty home: the starter answers, and a better model takes over."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from baton.workers.local import starter
from support.fake_hub import Fault, Hub
from support.terminal import Terminal

BATON = [sys.executable, "-I", "-m", "baton"]

ENTRY = """[[model]]
id = "twin"
name = "Twin 135M"
repo = "acme/twin"
file = "twin.gguf"
licence = "mit"
roles = ["chat"]
kv_bytes = 23040
"""
"""A model of the user's own catalogue: a copy of the starter, of which the hub says the rest."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        hub.add("acme/twin", {"twin.gguf": starter().path})
        yield hub


@pytest.fixture
def catalogue(home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "catalogue.toml").write_text(ENTRY, encoding="utf-8")


def open_app(hub: Hub, columns: int = 100, lines: int = 30) -> Terminal:
    terminal = Terminal(BATON, os.environ | hub.environ, columns, lines)
    terminal.wait_for("Ask anything")
    return terminal


def wait_for_twin(app: Terminal) -> None:
    """Wait until it answers. Its words are left to chance: it may well write on and on."""
    app.wait(lambda shown: "Twin 135M · writing" in shown or "Twin 135M · finished in" in shown)


@pytest.mark.sampled(0.34)
def test_the_starter_answers_at_once_and_a_better_model_comes_and_takes_over(
    hub: Hub, home: Path, catalogue: None
) -> None:
    """Leaving in the middle of its download loses nothing that came."""
    app = open_app(hub)
    app.wait_for("SmolLM2 135M: ")
    app.send("What is the capital of France?\r")
    app.wait_for("Paris")
    app.wait_for("finished in")
    app.wait_for("Better for this machine")
    assert hub.log == [], "nothing connects before the user chose"
    hub.fault(Fault(rate=4_000_000), on="store", times=1)
    hub.fault(Fault(rate=12_000_000), on="store", times=0)
    app.send("/pull twin\r")
    app.wait(lambda shown: "downloading twin" in shown and "left" in shown)
    children = app.children()
    app.send("\x11")
    assert app.wait_end() == 0
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
    app.close()
    assert list((home / "data" / "models" / "twin").glob("*.partial"))

    app = open_app(hub)
    app.wait_for("downloading twin")
    app.send("What is the capital of France?\r")
    app.wait_for("Baton · SmolLM2 135M")
    app.wait_for("Twin 135M is here and answers from now on.")
    app.send("What is the capital of France?\r")
    app.wait_for("Baton · Twin 135M")
    wait_for_twin(app)
    app.send("\x0c")
    app.wait(lambda shown: "answers now" in shown and "Twin 135M" in shown)
    app.send("\x1b")
    app.send("\x11")
    assert app.wait_end() == 0
    app.close()
    whole = starter().path.stat().st_size
    assert hub.served("twin.gguf") < whole + 16_000_000, "what had come was not fetched again"


WITHOUT = """
from baton.workers.local import model_file as files
files.STARTER_PACKAGE = "no_such_package_here"
from baton.cli import main
main()
"""
"""Baton as it is where no model came with it."""


@pytest.mark.sampled(0.34)
def test_without_any_model_the_app_opens_has_one_fetched_and_answers(
    hub: Hub, home: Path, catalogue: None
) -> None:
    app = Terminal([sys.executable, "-I", "-c", WITHOUT], os.environ | hub.environ)
    app.wait_for("none here yet; Ctrl+L shows what suits this machine")
    app.wait_for("(Tab to get here)")
    app.send("What is the capital of France?\r")
    app.wait_for("There is no model yet that could answer; your prompt is kept.")
    app.wait_for("│ What is the capital of France?")
    app.send("\x7f" * len("What is the capital of France?") + "/pull twin\r")
    app.wait_for("Twin 135M is here and answers from now on.")
    app.send("What is the capital of France?\r")
    wait_for_twin(app)
    app.send("\x11")
    assert app.wait_end() == 0
    app.close()


BROKEN = {"id": "twin", "name": "Twin", "file": "twin.gguf", "wrong": "its contents changed"}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize(
    ("record", "said"),
    [(BROKEN, "twin is broken, so small answers"), (None, "There is no worker 'twin'")],
    ids=["broken", "gone"],
)
def test_the_starter_answers_where_the_chosen_model_is_lost(
    hub: Hub, home: Path, catalogue: None, record: dict[str, str] | None, said: str
) -> None:
    (home / "config" / "config.toml").write_text('worker = "twin"\n')
    if record:
        models = home / "data" / "models" / "twin"
        models.mkdir(parents=True)
        (models / "model.json").write_text(json.dumps({"schema": 1, "record": record}))
    app = open_app(hub)
    app.wait_for(said)
    app.send("What is the capital of France?\r")
    app.wait_for("SmolLM2 135M · finished in")
    app.send("\x11")
    assert app.wait_end() == 0
    app.close()
    assert hub.log == []
