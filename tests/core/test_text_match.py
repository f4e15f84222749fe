"""A text that comes back is recognised, however it is written."""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, strategies as st

from baton.core import text_match
from baton.core.messages import Message, Role
from baton.core.text_match import (
    MAX_ANSWERS_PER_PROMPT,
    MAX_COMPARED_CHARS,
    LongText,
    fingerprint,
    long_text,
    plain_text,
    said_texts,
)

LONG = "Mon médecin dit que l\u2019opération du 3 juin s\u2019est bien passée."


@given(st.text(), st.integers(1, 40))
def test_spaces_case_and_form_make_no_difference(text: str, repeats: int) -> None:
    whole = text * repeats
    decomposed = unicodedata.normalize("NFD", whole)
    assert plain_text(decomposed) == plain_text(whole)
    spaced = "".join(f" {sign}\n" for sign in whole)
    if any(sign.isalnum() for sign in plain_text(whole)):
        assert fingerprint(spaced, Role.USER) == fingerprint(whole, Role.USER)


def test_the_edge_of_a_slice_makes_no_difference() -> None:
    edge = text_match._SLICE_CHARS
    for before in range(edge - 3, edge + 1):
        text = "x" * before + "éé" + LONG
        assert plain_text(unicodedata.normalize("NFD", text)) == plain_text(text)


def found(said: str, *texts: str) -> list[bool]:
    """Return which texts are recognised in what is said."""
    known = [long_text(text) for text in texts]
    assert None not in known
    return _found(said, [one for one in known if one is not None])


def _found(said: str, known: Sequence[LongText]) -> list[bool]:
    brought = said_texts([Message(Role.USER, said)])
    places = brought.find(one.opening for one in known)
    matches = brought.matches([one for one in known if one.opening in places], places)
    return [one.whole in matches for one in known]


def test_a_long_text_is_found_within_another_whatever_its_form() -> None:
    quoted = f"As I said: „{unicodedata.normalize('NFD', LONG).upper()}“ — and now?"
    assert found(quoted, LONG) == [True]
    assert found("As I said.", LONG) == [False]


@given(st.lists(st.text(alphabet="ab", max_size=40), max_size=6), st.text(alphabet="ab"))
def test_of_texts_that_begin_alike_those_are_found_that_are_there(
    ends: list[str], said: str
) -> None:
    begin = "x" * 40
    texts = [begin + end for end in ends]
    whole = f"{begin}, {said}. x {begin}: {said[::-1]}"
    assert found(whole, *texts) == [plain_text(text) in plain_text(whole) for text in texts]


def test_what_takes_too_long_to_compare_counts_as_found() -> None:
    text = "x" * 2_000_000
    known = [LongText(text[:32], length, f"{length}") for length in range(40, 40_000, 40)]
    assert not any(_found(text[:40_000], known[:3]))
    assert all(_found(text, known))
    assert len(text) * len(known) > MAX_COMPARED_CHARS


WRITTEN: dict[str, Callable[[str], str]] = {
    "json": json.dumps,
    "json twice": lambda text: json.dumps(json.dumps(text)),
    "capitals": lambda text: json.dumps(text).replace("\\ud", "\\uD"),
    "html": html.escape,
    "html numbers": lambda text: "".join(f"&#{ord(sign)};" for sign in text),
    "html in json": lambda text: json.dumps({"page": f"<p>{html.escape(text)}</p>"}),
}


@pytest.mark.parametrize("way", WRITTEN)
def test_a_long_text_is_found_as_json_and_html_at_any_place(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_match, "_SLICE_CHARS", 600)
    text = 'It\u2019s Überfunktion \U0001d400\U0001d401 & "Öl"; 你好世界, that\'s what I say <now>.'
    written = WRITTEN[way](text)
    for before in range(600):
        assert found("x" * before + " " + written, text) == [True], before


def test_what_looks_like_an_escape_is_found_as_it_is() -> None:
    text = r"The path is C:\users\new\u00fc and the entity is &auml; or &#228; or &copy=1."
    assert found(text, text) == [True]
    assert found(json.dumps(text), text) == [True]


def asked(*prompts: str) -> list[Message]:
    return [Message(Role.USER, prompt) for prompt in prompts]


def pair(prompt: str, answer: str) -> str:
    return fingerprint(prompt, Role.USER) + fingerprint(answer, Role.ASSISTANT)


def test_few_answers_are_looked_up_for_a_prompt_those_next_to_it_first() -> None:
    chat = [*asked("Which?"), Message(Role.ASSISTANT, "The first."), *asked("And then?")]
    guesses = [
        message
        for number in range(100)
        for message in (*asked("My PIN?"), Message(Role.ASSISTANT, f"It is {number}."))
    ]
    pairs = said_texts([*chat, *guesses]).pairs
    assert pair("Which?", "The first.") in pairs
    assert [n for n in range(100) if pair("My PIN?", f"It is {n}.") in pairs] == [96, 97, 98, 99]
    once = [*asked("My PIN?"), *(Message(Role.ASSISTANT, f"It is {n}.") for n in range(100))]
    tried = [n for n in range(100) if pair("My PIN?", f"It is {n}.") in said_texts(once).pairs]
    assert tried == [*range(MAX_ANSWERS_PER_PROMPT)]


def test_short_prompts_in_a_row_are_known_together_and_alone() -> None:
    answer = Message(Role.ASSISTANT, "OK.")
    pairs = said_texts([*asked("Hi.", "I have it.", "Say OK."), answer]).pairs
    for together in ("Say OK.", "I have it. Say OK.", "Hi. I have it. Say OK.", "I have it."):
        assert pair(together, "OK.") in pairs
    assert pair("Hi. Say OK.", "OK.") not in pairs


@pytest.mark.parametrize("run", ["\\", "&", "&#9", "9", "\\u", "</tool_", "_"])
def test_a_run_of_signs_takes_time_by_its_length_only(run: str) -> None:
    """With a quadratic pattern, 64 KB of backslashes took minutes, in one call of `re`."""
    signs = "&#" + run * 200_000
    assert found(f"{signs} {LONG}", LONG) == [True]
