"""What was hidden comes back, however the answer is cut into pieces."""

from __future__ import annotations

import itertools

from hypothesis import given, strategies as st

from baton.core.stream_filters import HiddenText, RedactedTexts, Restorer

MAIL = HiddenText("[mail address 1]", "ann@example.org", "mail address")
LATER = HiddenText("[mail address 12]", "bob@example.org", "mail address")
PHONE = HiddenText("[phone number 1]", "+49 30 901820", "phone number")

# A tiny alphabet, so that placeholders, their beginnings and their overlaps really happen.
PLACEHOLDERS = st.text("[a1]", min_size=1, max_size=5)
ORIGINALS = st.text("[a1]z", max_size=6)


def restored_text(hidden: tuple[HiddenText, ...], pieces: list[str]) -> str:
    restorer = Restorer(hidden)
    return "".join([*(restorer.feed(piece) for piece in pieces), restorer.flush()])


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in itertools.pairwise(places)]


def test_a_placeholder_that_comes_in_pieces_is_restored() -> None:
    text = "Write to [mail address 1] or [mail address 12], call [phone number 1]."
    whole = "Write to ann@example.org or bob@example.org, call +49 30 901820."
    assert restored_text((MAIL, LATER, PHONE), list(text)) == whole


def test_what_cannot_become_a_placeholder_is_shown_at_once() -> None:
    restorer = Restorer((MAIL,))
    assert restorer.feed("a list [1, 2] and [ma") == "a list [1, 2] and "
    assert restorer.feed("tter]") == "[matter]"
    assert restorer.feed("[mail") == ""
    assert restorer.flush() == "[mail"
    assert restorer.flush() == ""


def test_an_original_is_not_searched_for_placeholders() -> None:
    nested = HiddenText("[password 1]", "x[mail address 1]", "password")
    half = HiddenText("[password 2]", "y[mail addr", "password")
    assert restored_text((nested, half, MAIL), ["[password 1]"]) == "x[mail address 1]"
    assert restored_text((nested, half, MAIL), ["[password 2]", "ess 1]"]) == "y[mail address 1]"


def test_another_spelling_of_a_placeholder_is_left_alone() -> None:
    assert restored_text((MAIL,), ["[Mail Address 1] mail address 1"]) == (
        "[Mail Address 1] mail address 1"
    )


@given(
    things=st.dictionaries(PLACEHOLDERS, ORIGINALS, max_size=4),
    words=st.lists(st.one_of(st.text("[a1]z ", max_size=4), st.integers(0, 3)), max_size=12),
    cuts=st.lists(st.integers(0, 60), max_size=12),
)
def test_any_cutting_into_pieces_gives_the_same_text(
    things: dict[str, str], words: list[str | int], cuts: list[int]
) -> None:
    hidden = tuple(
        HiddenText(placeholder, original, "x") for placeholder, original in things.items()
    )
    names = list(things)
    text = "".join(
        word if isinstance(word, str) else names[word % len(names)] if names else ""
        for word in words
    )
    assert restored_text(hidden, pieces_of(text, cuts)) == restored_text(hidden, [text])


@given(text=st.text("[mail adres1]", max_size=60), cuts=st.lists(st.integers(0, 60), max_size=12))
def test_nothing_is_lost_and_nothing_else_is_changed(text: str, cuts: list[int]) -> None:
    whole = text.replace(MAIL.placeholder, MAIL.original)
    assert restored_text((MAIL,), pieces_of(text, cuts)) == whole


@given(text=st.text(max_size=40))
def test_without_anything_hidden_text_passes(text: str) -> None:
    assert restored_text((), [text]) == text


def test_what_is_hidden_is_described_in_words() -> None:
    other = HiddenText("[mail address 2]", "c@example.org", "mail address")
    assert (
        RedactedTexts(("x",), (MAIL, other, PHONE)).summary() == "2 mail addresses, 1 phone number"
    )
    assert RedactedTexts(("x",)).summary() == ""
