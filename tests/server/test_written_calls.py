"""Calls of tools in all the forms that models write them in, read piece by piece."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, strategies as st

from baton.server.tool_calls import (
    ToolCall,
    ToolCallReader,
    call_text,
    called_name,
    past_calls,
)
from baton.server.tool_offer import Tool, ToolChoice, ToolOffer

EDIT = Tool(
    "edit_file",
    "Change a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
    },
)
PATCH = Tool("apply_patch", "", {"type": "object"}, is_custom=True)
OFFER = ToolOffer((EDIT, PATCH, Tool("spawn", "", {}, namespace="agents")))
MUST = ToolOffer(OFFER.tools, ToolChoice(must_call=True))
ARGUMENTS = {"path": "a b.py", "line": 3}
CALL = json.dumps({"name": "edit_file", "arguments": ARGUMENTS})
FORMS = {
    "tagged": f"<tool_call>\n{CALL}\n</tool_call>",
    "compact": f'<tool_call>{{"name":"edit_file","arguments":{json.dumps(ARGUMENTS)}}}</tool_call>',
    "no end": f"<tool_call>{CALL}",
    "parameters": f'<tool_call>{{"name": "edit_file", "parameters": {json.dumps(ARGUMENTS)}}}',
    "as a string": "<tool_call>"
    + json.dumps({"name": "edit_file", "arguments": json.dumps(ARGUMENTS)})
    + "</tool_call>",
    "a function within": json.dumps(
        {"type": "function", "function": {"name": "edit_file", "arguments": ARGUMENTS}}
    ),
    "a list": f"<tool_call>[{CALL}]</tool_call>",
    "fenced": f"```json\n{CALL}\n```",
    "fenced without a language": f"```\n{CALL}\n```",
    "fenced in a tag": f"<tool_call>\n```json\n{CALL}\n```\n</tool_call>",
    "bare": CALL,
    "bare with spaces": f"\n  {CALL}\n",
    "Mistral": f"[TOOL_CALLS] [{CALL}]",
    "OpenAI's list": json.dumps(
        {"tool_calls": [{"id": "c1", "type": "function", "function": json.loads(CALL)}]}
    ),
    "Llama": f"<function=edit_file>{json.dumps(ARGUMENTS)}</function>",
    "Qwen-Coder": "<tool_call>\n<function=edit_file>\n<parameter=path>\na b.py\n</parameter>\n"
    "<parameter=line>\n3\n</parameter>\n</function>\n</tool_call>",
    "Qwen-Coder without tags": "<function=edit_file><parameter=path>a b.py</parameter>"
    "<parameter=line>3</parameter></function>",
}


def read(offer: ToolOffer, *pieces: str) -> tuple[str, list[tuple[str, object]], str]:
    reader = ToolCallReader(offer)
    shown, calls = "", list[ToolCall]()
    for piece in pieces:
        text, found = reader.feed(piece)
        shown, calls = shown + text, calls + found
    text, found, lost = reader.finish()
    names = [(call.name, json.loads(call.arguments)) for call in [*calls, *found]]
    return shown + text, names, lost


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("offer", [OFFER, MUST], ids=["may", "must"])
def test_a_call_is_read_in_any_form(form: str, offer: ToolOffer) -> None:
    shown, calls, lost = read(offer, FORMS[form])
    assert calls == [("edit_file", ARGUMENTS)]
    assert (shown.strip(), lost) == ("", "")


@given(form=st.sampled_from([*FORMS]), cuts=st.lists(st.integers(0, 300)), before=st.booleans())
def test_pieces_make_no_difference(form: str, cuts: list[int], before: bool) -> None:
    text = FORMS[form]
    if before and not text.lstrip().startswith(("{",)):
        text = f"I'll change it. {text}"
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    (shown, *found), (whole, *wanted) = read(OFFER, *pieces), read(OFFER, text)
    assert (shown, found) == (whole, wanted)
    assert read(OFFER, text)[1] == [("edit_file", ARGUMENTS)]


@given(
    texts=st.lists(
        st.sampled_from(
            [
                "Hello. ",
                "```python\nprint({})\n```",
                '{"a": 1}',
                '```json\n{"name": "Bob"}\n```',
                "<tool",
                "<function",
                "[TOOL",
                "[1, 2]",
                '{"name": "unknown", "arguments": {}}',
                "\n",
                "`",
                "{",
                "[",
            ]
        ),
        max_size=6,
    ),
    size=st.integers(1, 7),
)
def test_what_is_not_a_call_stays_text(texts: list[str], size: int) -> None:
    text = "".join(texts)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    shown, calls, lost = read(OFFER, *pieces)
    assert (shown + lost, calls) == (text, [])


def test_several_calls_stand_in_one_tag_or_one_after_the_other() -> None:
    other = CALL.replace("a b.py", "b.py")
    two = [("edit_file", ARGUMENTS), ("edit_file", {**ARGUMENTS, "path": "b.py"})]
    for text in (
        f"<tool_call>{CALL}\n{other}</tool_call>",
        f"<tool_call>[{CALL}, {other}]</tool_call>",
        f"<tool_call>{CALL}</tool_call>\n<tool_call>{other}</tool_call>",
        f"{CALL}\n{other}",
        f"[{CALL},{other}]",
    ):
        assert read(OFFER, text)[1] == two, text
        assert read(MUST, text)[1] == two, text


def test_where_one_call_is_the_most_others_are_left_out() -> None:
    single = ToolOffer(OFFER.tools, ToolChoice(is_single=True))
    text = f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>"
    assert read(single, text) == ("", [("edit_file", ARGUMENTS)], "")


def test_text_is_shown_as_soon_as_it_can_be_no_call() -> None:
    reader = ToolCallReader(OFFER)
    assert reader.feed("Here it is:\n```python\n") == ("Here it is:\n```python", [])
    assert reader.feed('x = {"a": 1}')[0] == '\nx = {"a": 1}'
    other = ToolCallReader(OFFER)
    assert other.feed('{"answer": 4')[0] == '{"answer": 4'


def test_a_custom_tool_is_given_its_text() -> None:
    patch = "*** Begin Patch\n*** End Patch"
    for written in (
        {"name": "apply_patch", "arguments": {"input": patch}},
        {"name": "apply_patch", "arguments": patch},
    ):
        reader = ToolCallReader(OFFER)
        [call] = reader.feed(f"<tool_call>{json.dumps(written)}</tool_call>")[1]
        assert call.input == patch


def test_what_began_like_a_call_and_is_none_is_said_apart() -> None:
    cut = '<tool_call>\n{"name": "edit_file", "arguments": {"pa'
    assert read(OFFER, f"I'll do it. {cut}") == ("I'll do it.", [], f" {cut}")
    assert read(MUST, "No, I won't.") == ("", [], "No, I won't.")


def test_an_id_tells_what_was_called() -> None:
    reader = ToolCallReader(OFFER)
    [call] = reader.feed(FORMS["tagged"])[1]
    assert called_name(call.id, {}, ()) == "edit_file"
    assert called_name(call.id, {call.id: "other"}, ()) == "other"
    assert called_name("toolu_abc_def", {}, (EDIT,)) == "tool"
    long = Tool("n" * 64, "", {})
    [long_call] = ToolCallReader(ToolOffer((long,))).feed(
        f'<tool_call>{{"name": "{long.name}"}}</tool_call>'
    )[1]
    assert len(long_call.id) == 64
    assert called_name(long_call.id, {}, (EDIT, long)) == long.name


def test_an_earlier_answer_has_its_calls_again() -> None:
    reader = ToolCallReader(OFFER, lambda: "0123456789ab")
    [_, first] = [*reader.feed(FORMS["tagged"])[1], *reader.feed(FORMS["tagged"])[1]]
    assert first.id == "call_0123456789ab01_edit_file"
    assert past_calls("Just text.", "0123456789ab") == ("Just text.", [])
    text, [call] = past_calls(f"I'll change it.\n{FORMS['tagged']}", "0123456789ab")
    assert (text, call.name, json.loads(call.arguments)) == (
        "I'll change it.",
        "edit_file",
        ARGUMENTS,
    )


@given(st.dictionaries(st.text(max_size=3), st.integers(), max_size=4))
def test_however_a_client_writes_it_a_call_reads_the_same(arguments: dict[str, int]) -> None:
    forms = (arguments, json.dumps(arguments), json.dumps(arguments, separators=(",", ":")))
    assert len({call_text("f", form) for form in forms}) == 1
