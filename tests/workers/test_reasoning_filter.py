"""Thoughts are kept out of answers, however the text comes."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from baton.workers.reasoning_filter import (
    REMOTE_MARKS,
    ThoughtFilter,
    ThoughtMarks,
    known_marks,
    no_thoughts_text,
    open_marks,
    remote_marks,
)

QWEN = known_marks("{{ '<think>' }}", lambda _: False)
GEMMA = known_marks("<|channel>thought\n<channel|>", lambda _: False)
MISTRAL = known_marks("", {"[THINK]"}.__contains__)
CHANNELS = known_marks("", {"<|channel|>", "<|message|>"}.__contains__)
FINAL = "<|start|>assistant<|channel|>final<|message|>"


def filtered_text(thoughts: ThoughtFilter, *pieces: str) -> str:
    return "".join([*map(thoughts.feed, pieces), thoughts.flush()])


def split_at(text: str, places: list[int]) -> list[str]:
    """Return a text in pieces, cut at places (which may be anywhere)."""
    at = sorted({place % (len(text) + 1) for place in places})
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]


cuts = st.lists(st.integers(0, 10_000), max_size=30)
free = st.text(st.sampled_from("<>/think|channel[]THINK \nab"), max_size=40)
"""Texts that look much like marks."""

ANSWERS = ["Paris.", "Use <think> and </think> for that.", "a < b", "[THINK] is a mark.", ""]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("answer", [a for a in ANSWERS if not a.startswith("[")])
@pytest.mark.parametrize(
    ("marks", "opens", "closes"),
    [
        (QWEN, "<think>\n", "\n</think>\n\n"),
        (QWEN, "\n<think>", "</think>"),
        (GEMMA, "<|channel>thought\n", "<channel|>"),
        (MISTRAL, "[THINK]", "[/THINK]"),
        (CHANNELS, "<|channel|>analysis<|message|>", f"<|end|>{FINAL}"),
        (CHANNELS, "<|channel|>commentary to=assistant<|message|>", f"<|end|>{FINAL}"),
    ],
)
@given(thought=free, places=cuts)
def test_the_answer_is_what_comes_after(
    marks: tuple[ThoughtMarks, ...],
    opens: str,
    closes: str,
    answer: str,
    thought: str,
    places: list[int],
) -> None:
    mark = next(m for m in marks if m.opens in opens)
    if mark.closes in thought + closes[: len(mark.closes) - 1]:
        thought = ""
    text = opens + thought + closes + answer
    assert filtered_text(ThoughtFilter(marks), *split_at(text, places)) == answer


@given(text=free, places=cuts)
def test_how_the_text_is_cut_makes_no_difference(text: str, places: list[int]) -> None:
    for marks in (QWEN, GEMMA, MISTRAL, CHANNELS, ()):
        assert filtered_text(ThoughtFilter(marks), *split_at(text, places)) == filtered_text(
            ThoughtFilter(marks), text
        )


@given(first=st.sampled_from("aé`1 \n"), rest=free, places=cuts)
def test_an_answer_that_speaks_of_marks_is_left_alone(
    first: str, rest: str, places: list[int]
) -> None:
    text = f"{first}x{rest}"
    for marks in (QWEN, GEMMA, MISTRAL, CHANNELS):
        assert filtered_text(ThoughtFilter(marks), *split_at(text, places)) == text


@given(text=free, places=cuts)
def test_a_model_that_has_no_marks_says_all_of_it(text: str, places: list[int]) -> None:
    assert filtered_text(ThoughtFilter(), *split_at(text, places)) == text


@given(thought=free, places=cuts)
def test_thoughts_that_never_end_are_not_an_answer(thought: str, places: list[int]) -> None:
    thought = thought.replace("</think>", "")
    thoughts = ThoughtFilter(QWEN)
    assert filtered_text(thoughts, *split_at(f"<think>{thought}", places)) == ""
    assert thoughts.is_thinking


def test_thoughts_that_the_prompt_began() -> None:
    prompt = "<|im_start|>assistant\n<think>\n"
    begun = open_marks(prompt, QWEN)
    assert begun is not None
    thoughts = ThoughtFilter(QWEN, begun)
    assert (thoughts.feed("Hm. <th"), thoughts.is_thinking) == ("", True)
    assert thoughts.feed("ink> </think>") == ""
    assert not thoughts.is_thinking
    assert filtered_text(thoughts, "\n\nParis") == "Paris"
    assert open_marks("<think>\n\n</think>\n\n", QWEN) is None


def test_thoughts_in_two_parts_and_a_stray_end() -> None:
    assert filtered_text(ThoughtFilter(QWEN), "<think>a</think>\n<think>b</think>\nc") == "c"
    assert filtered_text(ThoughtFilter(QWEN), "</think>\n\nc") == "c"
    assert filtered_text(ThoughtFilter(QWEN), "<thin") == "<thin"
    assert filtered_text(ThoughtFilter(QWEN), "  <thinking> aloud") == "  <thinking> aloud"
    text = f"<|channel|>analysis<|message|>a<|end|>{FINAL}b<|end|>"
    assert filtered_text(ThoughtFilter(CHANNELS), text) == "b<|end|>"
    assert filtered_text(ThoughtFilter(CHANNELS), "<|channel|>final<|message|>b") == "b"


def test_an_answer_at_once() -> None:
    assert no_thoughts_text("assistant\n<think>\n", QWEN) == "\n</think>\n\n"
    assert no_thoughts_text("assistant\n<think>\n\n</think>\n\n", QWEN) == ""
    assert no_thoughts_text("assistant\n", ()) == ""
    assert no_thoughts_text("<|start|>assistant", CHANNELS) == "<|channel|>final<|message|>"


@pytest.mark.parametrize(
    ("marks", "opens"),
    [(QWEN, "<think>"), (GEMMA, "<|channel>thought"), (CHANNELS, "<|channel|>analysis<|message|>")],
)
def test_thoughts_can_be_brought_to_an_end(marks: tuple[ThoughtMarks, ...], opens: str) -> None:
    thoughts = ThoughtFilter(marks)
    assert thoughts.closing_text == ""
    thoughts.feed(f"{opens}Well, ")
    assert thoughts.feed(thoughts.closing_text) == ""
    assert not thoughts.is_thinking
    assert filtered_text(thoughts, "Paris") == "Paris"


def test_only_marks_that_a_model_knows_are_marks() -> None:
    assert known_marks("{{ messages }}", lambda _: False) == ()
    assert [mark.opens for mark in QWEN] == ["<think>"]
    assert [mark.opens for mark in known_marks("", {"<think>"}.__contains__)] == ["<think>"]


HARMONY = "<|channel|>analysis<|message|>Hm.<|end|>"
REMOTE = {
    "plan the thing </think>\n\n42": "42",
    "Hm.</think>42": "42",
    "Hm. [/THINK] 42": "42",
    "<think>Hm.</think>42": "42",
    "<think>Hm.": "",
    "<thinking>Hm.</thinking>\n\n42": "42",
    "<think>a</think>\n<think>b</think>42": "42",
    "<think>a</think>One,\n<think>b</think>two": "One,\ntwo",
    "<think>a</think>One <think> and `<think>b</think>`": "One <think> and `<think>b</think>`",
    "<think>a</think>One:\n```\n<think>b</think>\n```": "One:\n```\n<think>b</think>\n```",
    "<think>a</think>One\n<think>b": "One\n<think>b",
    f"{HARMONY}{FINAL}42": "42",
    f"<|start|>assistant{HARMONY}{FINAL}42": "42",
    "analysisWe need 42.assistantfinal42": "42",
    f"analysis<|message|>We need 42.<|end|>{FINAL}42": "42",
    "<thought>Hm.</thought>42": "42",
    "<Thought>Hm.</Thought>\n42": "42",
    "<reasoning>Hm.</reasoning>42": "42",
    "<reason>Hm.": "",
    "<reflection>a</reflection>\n<thought>b</thought>42": "42",
    "<longcat_think>Hm.</longcat_think>\n42": "42",
    "\u25c1think\u25b7Hm.\u25c1/think\u25b742": "42",
    "<|begin_of_thought|>Hm.<|end_of_thought|>42": "42",
    "Hm.\n</thought>\n\n42": "42",
    "</thought>42": "42",
    "<thoughtful> is no mark": "<thoughtful> is no mark",
    "<reasonable": "<reasonable",
    "analysis": "analysis",
    "analysis of the text": "analysis of the text",
    "It is `</think>`.": "It is `</think>`.",
    "The </think> tag ends it.": "The </think> tag ends it.",
    "See:\n```\n</think>\n```\nThere.": "See:\n```\n</think>\n```\nThere.",
    "As <think>\na\n</think>\nb": "As <think>\na\n</think>\nb",
}
"""What a server streams, and what of it is the answer."""


@pytest.mark.parametrize("text", REMOTE)
@given(places=cuts)
def test_a_servers_thoughts_are_not_an_answer_but_an_answer_may_speak_of_them(
    text: str, places: list[int]
) -> None:
    remote = ThoughtFilter(REMOTE_MARKS, may_be_begun=True)
    assert filtered_text(remote, *split_at(text, places)) == REMOTE[text]


@given(places=cuts)
def test_thoughts_in_the_middle_that_a_cap_cut_are_not_an_answer(places: list[int]) -> None:
    for text, kept in (
        ("<think>a</think>One\n<think>b", "One\n"),
        ("<think>a", ""),
        ("a <", "a <"),
    ):
        remote = ThoughtFilter(REMOTE_MARKS, may_be_begun=True)
        said = "".join(map(remote.feed, split_at(text, places)))
        assert said + remote.flush(is_cut=True) == kept


@pytest.mark.parametrize("name", ["thinking", "thought", "reasoning", "reflection"])
def test_a_part_that_the_prompt_asked_for_is_answer(name: str) -> None:
    text = f"<{name}>Hm.</{name}>42"
    asked = remote_marks(f"Write <{name}> first, then the number.")
    assert filtered_text(ThoughtFilter(asked, may_be_begun=True), text) == text
    assert filtered_text(ThoughtFilter(remote_marks("Write the number.")), text) == "42"
    marks = remote_marks("What does <think> mean?")
    assert filtered_text(ThoughtFilter(marks), "<think>Hm.</think>42") == "42"


@pytest.mark.parametrize("beginning", ["A plain sentence. ", "Okay, the user asks. "])
def test_thoughts_that_were_given_as_the_answer_are_taken_back(beginning: str) -> None:
    """What sounds like thoughts is held back for their end."""
    remote = ThoughtFilter(REMOTE_MARKS, may_be_begun=True)
    assert remote.feed(beginning) == ""
    assert remote.is_unsure
    shown = remote.release() + remote.feed("More of it.")
    assert remote.is_unsure == (not shown)
    last = remote.feed("\n</think>\n\n4") + remote.feed("2") + remote.flush()
    assert (last, remote.took_back) == ("42", bool(shown))
    assert bool(shown) == (beginning[0] == "A")
