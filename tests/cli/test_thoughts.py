"""Thoughts of a server's model are no answer: not printed, not kept, and never sent back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from baton.platform.settings import find_paths
from support.command_line import Call
from support.fake_cloud import Cloud, Reply


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with Cloud() as cloud:
        file = find_paths().config_file
        file.parent.mkdir(parents=True)
        file.write_text(
            'worker = "lab"\n[[workers]]\nid = "lab"\nkind = "server"\nmodel = "kit-1"\n'
            f'base_url = "{cloud.base("server")}"\nprice = {{ input = "0", output = "0" }}\n'
        )
        yield cloud


@pytest.mark.parametrize(
    "written",
    [
        "plan the thing </think>\n\nForty.",
        "<think>plan</think>Forty.",
        "<thinking>plan</thinking>Forty.",
    ],
)
def test_thoughts_are_counted_and_nothing_else(call: Call, cloud: Cloud, written: str) -> None:
    cloud.reply = Reply(text=written)
    assert call("ask", "-m", "lab", "Name a number").out == "Forty.\n"
    shown = json.loads(call("ask", "-m", "lab", "-c", "And?", "--json").out)
    assert shown["answer"] == "Forty."
    assert shown["calls"][0]["tokens_out"] >= len(written) // 4
    messages = json.loads(cloud.calls[-1].body)["messages"]
    assert "plan" not in json.dumps(messages)
    assert "Forty." in json.dumps(messages)


def test_thoughts_that_were_shown_already_are_not_kept(call: Call, cloud: Cloud) -> None:
    """A server that writes slowly, and leaves the mark of their beginning out."""
    cloud.reply = Reply(text="Slow and long plain words first.\n</think>\n\nForty.", rate=16)
    done = call("ask", "-m", "lab", "Name a number")
    assert done.out.endswith("Forty.\n")
    assert "That was a draft; the answer follows." in done.err
    call("ask", "-m", "lab", "-c", "And?")
    messages = json.loads(cloud.calls[-1].body)["messages"]
    assert "plain words" not in json.dumps(messages)
