"""Thoughts of a server's model aren't an answer: not printed, not kept, and never sent back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from baton.platform.paths import find_paths
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


@pytest.mark.sampled(1)
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


@pytest.mark.sampled(1)
@pytest.mark.parametrize("written", ["<think>", "analysis<|message|>"])
def test_a_cap_that_went_into_thoughts_is_named_and_a_larger_one_is_offered(
    call: Call, cloud: Cloud, written: str
) -> None:
    cloud.reply = Reply(text=written + "Well, " * 9000)
    done = call("ask", "-m", "lab", "--max-tokens", "3000", "Name a number")
    assert (done.code, done.out.strip()) == (0, "")
    assert "All of the answer's length cap went into thoughts, so there is no answer." in done.err
    assert "Try `--max-tokens 6000`." in done.err
    assert "Go on." not in done.err
    shown = json.loads(call("ask", "-m", "lab", "--max-tokens", "3000", "And?", "--json").out)
    [warning] = shown["warnings"]
    assert warning["kind"] == "incomplete"
    assert "went into thoughts" in warning["message"]
    assert "used its whole length cap for thoughts, and wrote no answer." in call("why").out
    assert "cut at its cap in its thoughts" in call("trace").out


def test_thoughts_that_were_shown_already_are_not_kept(call: Call, cloud: Cloud) -> None:
    """A server that writes slowly, and leaves the mark of their beginning out."""
    cloud.reply = Reply(text="Slow and long plain words first.\n</think>\n\nForty.", rate=16)
    done = call("ask", "-m", "lab", "Name a number")
    assert done.out.endswith("Forty.\n")
    assert "That was a draft; the answer follows." in done.err
    call("ask", "-m", "lab", "-c", "And?")
    messages = json.loads(cloud.calls[-1].body)["messages"]
    assert "plain words" not in json.dumps(messages)
